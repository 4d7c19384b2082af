"""Otter: base URL and model by environment, over Chat Completions."""

from __future__ import annotations

from harness.contracts.fixture import AgentFixture, ToolTemplate

_SHELL = ToolTemplate("sh", {"command": "{command}"})
_READ_ONLY = "it can run commands and read files"

FIXTURE = AgentFixture(
    wire="chat",
    model="otter-1",
    env={"OTTER_URL": "{url}/v1", "OTTER_MODEL": "otter-1"},
    calls={
        "read": ToolTemplate("read", {"path": "{path}"}),
        "run": _SHELL,
        "search": _SHELL,
        "list": _SHELL,
    },
    lacks={
        **dict.fromkeys(("write", "edit", "patch", "todo"), _READ_ONLY),
        **dict.fromkeys(("skill", "agent", "mcp", "fetch", "ask", "plan"), _READ_ONLY),
    },
)
