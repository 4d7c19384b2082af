"""Tools of ours, as OpenCode's server is handed them: one request for each server, before a session begins."""

from __future__ import annotations

from typing import Any

from harness.contracts.tool_servers import ServedTools

_LONGEST_CALL_MS = 24 * 3600 * 1000
"""A call of ours may wait for a person."""


def added(server: ServedTools) -> dict[str, Any]:
    """The body of `POST /mcp`."""
    config = {"type": "remote", "url": server.url, "headers": server.headers, "oauth": False, "enabled": True}
    return {"name": server.name, "config": {**config, "timeout": _LONGEST_CALL_MS}}
