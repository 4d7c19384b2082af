"""Cline: its provider in a settings file, over Chat Completions. Every tool takes several things at once."""

from __future__ import annotations

from harness.contracts.fixture import (
    KEY,
    AgentFixture,
    CallSteps,
    LabContext,
    ToolTemplate,
    intent_values,
)
from harness.contracts.script import Alternatives, ScriptToolCall, WriteIntent

_PROVIDER, _MODEL = "openai-compatible", "lab-model"
_COMMANDS = ToolTemplate("run_commands", {"commands": ["{command}"]})

_EDITOR = ToolTemplate("editor", {"path": "{absolute}", "new_text": "{content}"})


def _write(write: WriteIntent, context: LabContext) -> CallSteps:
    """In a two-way conversation it takes the model for one of those that are offered patches instead."""
    added = [f"+{line}" for line in write.content.removesuffix("\n").split("\n")]
    patch = "\n".join(["*** Begin Patch", f"*** Add File: {write.path}", *added, "*** End Patch"])
    by_patch = ScriptToolCall(tool="apply_patch", input={"input": patch})
    return CallSteps(calls=(Alternatives((_EDITOR.fill(intent_values(write, context)), by_patch)),))


FIXTURE = AgentFixture(
    wire="chat",
    env={
        "CI": "1",
        # In a two-way conversation the settings are not enough.
        "CLINE_API_KEY": KEY,
        "CLINE_MODEL": _MODEL,
        "CLINE_NO_AUTO_UPDATE": "1",
        "CLINE_PROVIDER": _PROVIDER,
        "CLINE_SESSION_BACKEND_MODE": "local",
        "CLINE_TELEMETRY_DISABLED": "1",
    },
    files={
        ".cline/data/settings/providers.json": {
            "version": 1,
            "lastUsedProvider": _PROVIDER,
            "modes": {},
            "providers": {
                _PROVIDER: {
                    "settings": {
                        "provider": _PROVIDER,
                        "apiKey": KEY,
                        "model": _MODEL,
                        "baseUrl": "{url}/v1",
                    },
                    "updatedAt": "2026-01-01T00:00:00.000Z",
                    "tokenSource": "manual",
                }
            },
        }
    },
    mcp_server={"command": "{program}", "args": "{args}"},
    mcp_files={".cline/data/settings/cline_mcp_settings.json": {"mcpServers": "{mcp_servers}"}},
    calls={
        "read": ToolTemplate(
            "read_files", {"files": [{"path": "{absolute}", "start_line": "{first}", "end_line": "{last}"}]}
        ),
        "write": _write,
        "edit": ToolTemplate("editor", {"path": "{absolute}", "old_text": "{old}", "new_text": "{new}"}),
        "run": _COMMANDS,
        # Always everywhere: it takes no path.
        "search": ToolTemplate("search_codebase", {"queries": ["{query}"]}),
        "list": _COMMANDS,
        "skill": ToolTemplate("skills", {"skill": "{name}"}),
        "agent": ToolTemplate(
            "spawn_agent", {"systemPrompt": "You do what you are told.", "task": "{prompt}"}
        ),
        "mcp": ToolTemplate("{server}__{tool}", "{input}"),
        "fetch": ToolTemplate(
            "fetch_web_content", {"requests": [{"url": "{url}", "prompt": "Summarise it."}]}
        ),
    },
    lacks={
        "patch": "only gpt models are offered it",
        "todo": "only a team of agents keeps a list",
        "ask": "it asks nothing over its protocol",
        "plan": "it has no plan that is to be approved",
    },
    skills_folder=".cline/skills",
)
