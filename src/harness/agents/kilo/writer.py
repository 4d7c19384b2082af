"""Kilo Code: `kilo import FILE`, the same file as for OpenCode."""

from __future__ import annotations

from harness.protocols.opencode.writer import opencode_writer

WRITER = opencode_writer("kilo", proven=(7, 7, 9), since=(7, 7))
