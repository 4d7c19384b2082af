"""Kilo Code: OpenCode under other names, and a few services of its own to switch off. It edits its settings file."""

from __future__ import annotations

from harness.protocols.opencode.lab import opencode_fixture

FIXTURE = opencode_fixture(
    "kilo",
    env={
        "KILO_DISABLE_SESSION_INGEST": "1",
        "KILO_TELEMETRY_LEVEL": "off",
        "KILO_NO_DAEMON": "1",
        "KILO_SESSION_RETRY_LIMIT": "2",
    },
)
