"""OpenCode: `~/.local/share/opencode/opencode.db`, a SQLite database."""

from __future__ import annotations

from harness.sources.imports.opencode_database import opencode_history

HISTORY = opencode_history("opencode", "OpenCode")
