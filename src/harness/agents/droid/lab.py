"""Factory Droid: a model of one's own in a settings file, over Chat Completions. It accepts any key."""

from __future__ import annotations

from harness.contracts.fixture import KEY, AgentFixture, LabContext, ToolTemplate
from harness.contracts.script import ScriptToolCall, TodoIntent


def _todo(todo: TodoIntent, _context: LabContext) -> ScriptToolCall:
    """The list is one text."""
    lines = [f"{number}. [{item.status}] {item.text}" for number, item in enumerate(todo.entries, 1)]
    return ScriptToolCall(tool="TodoWrite", input={"todos": "\n".join(lines)})


_RISK = {"summary": "Run a command", "riskLevelReason": "It is a test.", "riskLevel": "medium"}

FIXTURE = AgentFixture(
    wire="chat",
    model="custom:Lab-0",
    env={"CI": "1", "FACTORY_API_KEY": f"fk-{KEY}"},
    files={
        ".factory/settings.json": {
            "customModels": [
                {
                    "model": "lab-model",
                    "displayName": "Lab",
                    "baseUrl": "{url}/v1",
                    "apiKey": KEY,
                    "provider": "generic-chat-completion-api",
                    "maxOutputTokens": 8000,
                }
            ],
            "sessionDefaultSettings": {"model": "custom:Lab-0"},
        }
    },
    mcp_server={"type": "stdio", "command": "{program}", "args": "{args}"},
    mcp_files={".factory/mcp.json": {"mcpServers": "{mcp_servers}"}},
    calls={
        "read": ToolTemplate("Read", {"file_path": "{absolute}", "offset": "{skipped}", "limit": "{count}"}),
        "write": ToolTemplate("Create", {"file_path": "{absolute}", "content": "{content}"}),
        "edit": ToolTemplate("Edit", {"file_path": "{absolute}", "old_str": "{old}", "new_str": "{new}"}),
        "run": ToolTemplate("Execute", {"command": "{command}", **_RISK}),
        "search": ToolTemplate("Grep", {"pattern": "{query}", "path": "{absolute}"}),
        "list": ToolTemplate("LS", {"directory_path": "{absolute}"}),
        "todo": _todo,
        "skill": ToolTemplate("Skill", {"skill": "{name}"}),
        "mcp": ToolTemplate("{server}___{tool}", "{input}"),
        "agent": ToolTemplate(
            "Task",
            {"subagent_type": "worker", "description": "{title}", "prompt": "{prompt}", "await": True},
        ),
    },
    lacks={
        "ask": "it asks nothing over its protocol",
        "plan": "its plans are not asked about over its protocol",
        "patch": "only some models are offered it",
        "fetch": "its tool for web pages uses a server of the vendor",
    },
    own_calls={
        "claim": ScriptToolCall(tool="Execute", input={"command": "touch P", **_RISK, "riskLevel": "low"}),
        "pattern elsewhere": ScriptToolCall(tool="Glob", input={"patterns": ["../*"]}),
    },
    skills_folder=".factory/skills",
)
