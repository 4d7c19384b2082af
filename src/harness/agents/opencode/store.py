"""OpenCode: `~/.local/share/opencode/opencode.db`, a SQLite database."""

from __future__ import annotations

from harness.protocols.opencode.store import opencode_history

HISTORY = opencode_history("opencode", "OpenCode")
