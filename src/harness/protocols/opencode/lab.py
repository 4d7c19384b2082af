"""OpenCode and its relatives, offline: a provider of its own in the settings, over Chat Completions.

It asks for a title without tools. The relatives have the same settings and tools, under other names.
"""

from __future__ import annotations

from collections.abc import Mapping

from harness.contracts.fixture import KEY, AgentFixture, ForEach, ToolTemplate, question_input
from harness.contracts.script import ScriptToolCall

_SWITCHES = ("MODELS_FETCH", "AUTOUPDATE", "SHARE", "LSP_DOWNLOAD", "DEFAULT_PLUGINS", "CLAUDE_CODE")
_SETTINGS = {
    "autoupdate": False,
    "share": "disabled",
    "model": "lab/lab-model",
    "small_model": "lab/lab-model",
    "enabled_providers": ["lab"],
    "provider": {
        "lab": {
            "name": "Lab",
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": "{url}/v1", "apiKey": KEY},
            "models": {
                "lab-model": {
                    "name": "Lab model",
                    "reasoning": True,
                    "tool_call": True,
                    "limit": {"context": 200_000, "output": 16_000},
                    "cost": {"input": 3, "output": 15, "cache_read": 0.3, "cache_write": 3.75},
                }
            },
        }
    },
    "mcp": "{mcp_servers}",
}


def opencode_fixture(name: str, env: Mapping[str, str] | None = None) -> AgentFixture:
    """`name` is that of the folders, of the settings file, and (in capitals) of the variables."""
    return AgentFixture(
        wire="chat",
        model="lab/lab-model",
        env={f"{name.upper()}_DISABLE_{switch}": "1" for switch in _SWITCHES} | dict(env or {}),
        files={f".config/{name}/{name}.json": _SETTINGS},
        mcp_server={"type": "local", "command": "{command}", "enabled": True},
        calls={
            "read": ToolTemplate("read", {"filePath": "{absolute}", "offset": "{first}", "limit": "{count}"}),
            "write": ToolTemplate("write", {"filePath": "{absolute}", "content": "{content}"}),
            "edit": ToolTemplate(
                "edit", {"filePath": "{absolute}", "oldString": "{old}", "newString": "{new}"}
            ),
            "run": ToolTemplate("bash", {"command": "{command}", "description": "Run a command"}),
            "search": ToolTemplate("grep", {"pattern": "{query}", "path": "{absolute}"}),
            # There is no tool for it: a directory is read.
            "list": ToolTemplate("read", {"filePath": "{absolute}"}),
            "todo": ToolTemplate(
                "todowrite",
                {"todos": ForEach({"content": "{text}", "status": "{status}", "priority": "medium"})},
            ),
            "skill": ToolTemplate("skill", {"name": "{name}"}),
            "agent": ToolTemplate(
                "task", {"description": "{title}", "prompt": "{prompt}", "subagent_type": "general"}
            ),
            "mcp": ToolTemplate("{server}_{tool}", "{input}"),
            "fetch": ToolTemplate("webfetch", {"url": "{url}", "format": "text"}),
            "ask": ToolTemplate("question", question_input()),
        },
        lacks={
            "patch": "only models whose name begins with gpt- are offered it",
            "plan": "it has no plan that is to be approved",
        },
        own_calls={"pattern elsewhere": ScriptToolCall(tool="glob", input={"pattern": "../*"})},
        skills_folder=f".{name}/skills",
    )
