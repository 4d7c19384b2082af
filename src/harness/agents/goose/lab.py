"""Goose: everything by environment, over Chat Completions. Files are read and searched by a shell."""

from __future__ import annotations

import json

from msgspec.structs import replace

from harness.contracts.fixture import KEY, AgentFixture, LabContext, LaunchConfig, ToolTemplate
from harness.contracts.script import ScriptToolCall, TodoIntent

_SHELL = ToolTemplate("shell", {"command": "{command}"})


def _adjust(config: LaunchConfig, context: LabContext) -> LaunchConfig:
    """MCP servers are extensions in its settings, where also a process that is held finds them. JSON is YAML."""
    if not context.mcp_servers:
        return config
    extensions = {
        name: {
            "enabled": True,
            "type": "stdio",
            "name": name,
            "description": name,
            "cmd": command[0],
            "args": list(command[1:]),
            "envs": {},
            "timeout": 60,
        }
        for name, command in context.mcp_servers.items()
    }
    return replace(config, files={".config/goose/config.yaml": json.dumps({"extensions": extensions})})


def _todo(todo: TodoIntent, _context: LabContext) -> ScriptToolCall:
    """The list is one text, in Markdown."""
    marks = {"completed": "x"}
    lines = [f"- [{marks.get(item.status, ' ')}] {item.text}" for item in todo.entries]
    return ScriptToolCall(tool="todo__todo_write", input={"content": "\n".join(lines)})


FIXTURE = AgentFixture(
    wire="chat",
    env={
        "CI": "1",
        "GOOSE_DISABLE_KEYRING": "1",
        "GOOSE_DISABLE_SESSION_NAMING": "true",
        "GOOSE_MODEL": "gpt-4o",
        "GOOSE_PROVIDER": "openai",
        "GOOSE_TELEMETRY_ENABLED": "false",
        "OPENAI_API_KEY": KEY,
        "OPENAI_HOST": "{url}",
    },
    adjust=_adjust,
    calls={
        "read": _SHELL,
        "write": ToolTemplate("write", {"path": "{path}", "content": "{content}"}),
        "edit": ToolTemplate("edit", {"path": "{path}", "before": "{old}", "after": "{new}"}),
        "run": _SHELL,
        "search": _SHELL,
        "list": ToolTemplate("tree", {"path": "{path}", "depth": 1}),
        "todo": _todo,
        "skill": ToolTemplate("load_skill", {"name": "{name}"}),
        "agent": ToolTemplate("delegate", {"instructions": "{prompt}"}),
        "mcp": ToolTemplate("{server}__{tool}", "{input}"),
    },
    lacks={
        "patch": "it edits one file at a time",
        "fetch": "its developer tools have none for web pages",
        "ask": "it asks nothing over its protocol",
        "plan": "it has no plan that is to be approved",
    },
    skills_folder=".agents/skills",
)
