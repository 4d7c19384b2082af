"""Grok Build: a model of one's own in a settings file, over Chat Completions.

It has a model write a title and a line for a dashboard: those are side requests.
"""

from __future__ import annotations

import json

from msgspec.structs import replace

from harness.contracts.fixture import (
    KEY,
    AgentFixture,
    ForEach,
    LabContext,
    LaunchConfig,
    ToolTemplate,
)

_SETTINGS = f"""\
[models]
default = "lab"

[features]
telemetry = false

[model.lab]
model = "gpt-4o"
base_url = "{{url}}/v1"
api_key = "{KEY}"
api_backend = "chat_completions"
"""


def _adjust(config: LaunchConfig, context: LabContext) -> LaunchConfig:
    """A table per MCP server. Strings of JSON are strings of TOML."""
    tables = [
        f"\n[mcp_servers.{name}]\ncommand = {json.dumps(command[0])}\nargs = {json.dumps(command[1:])}\n"
        for name, command in context.mcp_servers.items()
    ]
    return replace(config, files={path: text + "".join(tables) for path, text in config.files.items()})


FIXTURE = AgentFixture(
    wire="chat",
    model="lab",
    env={"CI": "1"},
    files={".grok/config.toml": _SETTINGS},
    adjust=_adjust,
    calls={
        "read": ToolTemplate("read_file", {"target_file": "{path}", "offset": "{first}", "limit": "{count}"}),
        "write": ToolTemplate("write", {"file_path": "{path}", "content": "{content}"}),
        "edit": ToolTemplate(
            "search_replace", {"file_path": "{path}", "old_string": "{old}", "new_string": "{new}"}
        ),
        "run": ToolTemplate("run_terminal_command", {"command": "{command}", "description": "Run it"}),
        "search": ToolTemplate("grep", {"pattern": "{query}", "path": "{path}"}),
        "list": ToolTemplate("list_dir", {"target_directory": "{path}"}),
        "todo": ToolTemplate(
            "todo_write", {"todos": ForEach({"id": "{number}", "content": "{text}", "status": "{status}"})}
        ),
        "skill": ToolTemplate("skill", {"skill": "{name}"}),
        "agent": ToolTemplate(
            "spawn_subagent", {"description": "{title}", "prompt": "{prompt}", "background": False}
        ),
    },
    lacks={
        "ask": "it asks nothing over its protocol",
        "plan": "its plans are not asked about over its protocol",
        "mcp": "its model finds MCP tools by a search first",
        "patch": "it edits one file at a time",
        "fetch": "its tool for web pages uses a server of the vendor",
    },
    skills_folder=".grok/skills",
    side_markers=("dashboard",),
)
