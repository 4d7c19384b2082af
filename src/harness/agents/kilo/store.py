"""Kilo Code, which has the database of OpenCode: `~/.local/share/kilo/kilo.db`, a SQLite database."""

from __future__ import annotations

from harness.protocols.opencode.store import opencode_history

HISTORY = opencode_history("kilo", "Kilo Code")
