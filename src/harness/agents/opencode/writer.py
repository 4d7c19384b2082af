"""OpenCode: `opencode import FILE`."""

from __future__ import annotations

from harness.protocols.opencode.writer import opencode_writer

WRITER = opencode_writer("opencode", proven=(1, 18, 33), since=(1, 18), is_held=True)
