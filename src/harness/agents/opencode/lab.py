"""OpenCode, offline."""

from __future__ import annotations

from harness.protocols.opencode.lab import opencode_fixture

FIXTURE = opencode_fixture("opencode")
