"""Claude Code: everything by environment, over Anthropic Messages.

It refuses to edit what it has not read: let a script read first. From 2.1 on it offers neither Grep nor
LS, and its models use a shell instead. Web pages it fetches over TLS only, and so not those of the lab.
"""

from __future__ import annotations

from msgspec.structs import replace

from harness.contracts.fixture import (
    KEY,
    AgentFixture,
    CallSteps,
    ForEach,
    LabContext,
    LaunchConfig,
    ToolTemplate,
    intent_values,
    question_input,
)
from harness.contracts.script import ScriptToolCall, TodoIntent

_BASH = ToolTemplate("Bash", {"command": "{command}", "description": "Run a command"})
_AGENT = {"description": "{title}", "prompt": "{prompt}", "subagent_type": "general-purpose"}
_TODO = {
    "content": "{text}",
    "status": "{status}",
    "activeForm": "{text}",
    "id": "{number}",
    "priority": "medium",
}
_TODO_WRITE = ToolTemplate("TodoWrite", {"todos": ForEach(_TODO)})


def _todo(todo: TodoIntent, context: LabContext) -> ScriptToolCall | CallSteps:
    """From 2.1 on one call per item."""
    if not context.is_at_least(2, 1):
        return _TODO_WRITE.fill(intent_values(todo, context))
    return CallSteps(
        calls=tuple(
            ScriptToolCall(tool="TaskCreate", input={"tested": item.text, "description": item.text})
            for item in todo.entries
        )
    )


def _adjust(config: LaunchConfig, context: LabContext) -> LaunchConfig:
    if not context.is_at_least(2, 0):
        return config
    return replace(config, args=("--settings", '{"skipWebFetchPreflight":true}', *config.args))


FIXTURE = AgentFixture(
    wire="anthropic",
    env={
        "ANTHROPIC_API_KEY": KEY,
        "ANTHROPIC_BASE_URL": "{url}",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        # Off by default, from 2.1 on.
        "CLAUDE_CODE_ENABLE_TODO_TOOLS": "1",
        "CLAUDE_CODE_MAX_RETRIES": "2",
        "CLAUDE_CONFIG_DIR": "{home}/.claude",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "DISABLE_TELEMETRY": "1",
        # Without it, root may not run it with all permissions.
        "IS_SANDBOX": "1",
    },
    mcp_server={"command": "{program}", "args": "{args}"},
    mcp_args=("--mcp-config", "{mcp_json}", "--strict-mcp-config"),
    adjust=_adjust,
    calls={
        "read": ToolTemplate("Read", {"file_path": "{absolute}", "offset": "{first}", "limit": "{count}"}),
        "write": ToolTemplate("Write", {"file_path": "{absolute}", "content": "{content}"}),
        "edit": ToolTemplate(
            "Edit", {"file_path": "{absolute}", "old_string": "{old}", "new_string": "{new}"}
        ),
        "run": _BASH,
        "search": (
            ToolTemplate("Grep", {"pattern": "{query}", "path": "{absolute}", "output_mode": "content"}),
            _BASH,
        ),
        "list": (ToolTemplate("LS", {"path": "{absolute}"}), _BASH),
        "todo": _todo,
        "skill": ToolTemplate("Skill", {"skill": "{name}"}),
        "agent": (
            ToolTemplate("Agent", {**_AGENT, "run_in_background": False}),
            ToolTemplate("Task", _AGENT),
        ),
        "mcp": ToolTemplate("mcp__{server}__{tool}", "{input}"),
        "fetch": ToolTemplate("WebFetch", {"url": "{url}", "prompt": "Summarise it."}),
        "ask": ToolTemplate("AskUserQuestion", question_input(multiSelect=False)),
        "plan": ToolTemplate("ExitPlanMode", {"plan": "{plan}"}),
    },
    lacks={"patch": "it edits one file at a time"},
    own_calls={
        "message": ScriptToolCall(
            tool="SendMessage", input={"to": "helper", "summary": "Work", "message": "touch P"}
        ),
        "escalation": ScriptToolCall(
            tool="Bash",
            input={"command": "touch P", "description": "Run a command", "dangerouslyDisableSandbox": True},
        ),
        "pattern elsewhere": ScriptToolCall(tool="Glob", input={"pattern": "../*"}),
    },
    skills_folder=".claude/skills",
)
