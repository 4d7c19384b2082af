"""GitHub Copilot CLI: a provider of one's own by environment, offline mode, over Chat Completions.

Its to-do list is a table of a database that it queries. A directory is viewed like a file.
"""

from __future__ import annotations

from harness.contracts.fixture import KEY, AgentFixture, LabContext, ToolTemplate
from harness.contracts.script import ScriptToolCall, TodoIntent

_STATUSES = {"completed": "done"}


def _todo(todo: TodoIntent, _context: LabContext) -> ScriptToolCall:
    rows = ", ".join(
        f"('{number}', '{text}', '{_STATUSES.get(item.status, item.status)}')"
        for number, item in enumerate(todo.entries, 1)
        for text in [item.text.replace("'", "''")]
    )
    query = f"INSERT INTO todos (id, title, status) VALUES {rows}"  # noqa: S608 - the script's own words
    return ScriptToolCall(tool="sql", input={"description": "Plan", "query": query})


FIXTURE = AgentFixture(
    wire="chat",
    env={
        "CI": "1",
        "COPILOT_AUTO_UPDATE": "false",
        "COPILOT_MODEL": "gpt-4.1",
        "COPILOT_OFFLINE": "true",
        "COPILOT_PROVIDER_API_KEY": KEY,
        "COPILOT_PROVIDER_BASE_URL": "{url}/v1",
    },
    mcp_server={"type": "local", "command": "{program}", "args": "{args}", "tools": ["*"]},
    mcp_args=("--additional-mcp-config", "{mcp_json}"),
    calls={
        "read": ToolTemplate("view", {"path": "{absolute}", "view_range": "{range}"}),
        "write": ToolTemplate("create", {"path": "{absolute}", "file_text": "{content}"}),
        "edit": ToolTemplate("edit", {"path": "{absolute}", "old_str": "{old}", "new_str": "{new}"}),
        "run": ToolTemplate("bash", {"command": "{command}", "description": "Run a command"}),
        "search": ToolTemplate("grep", {"pattern": "{query}", "paths": "{absolute}"}),
        "list": ToolTemplate("view", {"path": "{absolute}"}),
        "todo": _todo,
        "skill": ToolTemplate("skill", {"skill": "{name}"}),
        "agent": ToolTemplate(
            "task",
            {
                "name": "helper",
                "description": "{title}",
                "prompt": "{prompt}",
                "agent_type": "general-purpose",
                "mode": "sync",
            },
        ),
        "mcp": ToolTemplate("{server}-{tool}", "{input}"),
    },
    lacks={
        "patch": "it edits one file at a time",
        "fetch": "offline it has no tool for web pages",
        "ask": "it asks nothing over its protocol",
        "plan": "it has no plan that is to be approved",
    },
    own_calls={"pattern elsewhere": ScriptToolCall(tool="glob", input={"pattern": "../*"})},
    skills_folder=".github/skills",
)
