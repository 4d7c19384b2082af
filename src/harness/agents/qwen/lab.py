"""Qwen Code: base URL by environment, the way it signs in by settings, over Chat Completions.

After a run it lets a memory agent look at the conversation, with tools: that is a side request. Lines
are counted from 0. A sub-agent runs in the background unless a call says otherwise.
"""

from __future__ import annotations

from harness.contracts.fixture import KEY, AgentFixture, ForEach, ToolTemplate, question_input
from harness.contracts.script import ScriptToolCall

_MODEL = "qwen3-coder-plus"

FIXTURE = AgentFixture(
    wire="chat",
    model=_MODEL,
    env={
        "CI": "1",
        "OPENAI_API_KEY": KEY,
        "OPENAI_BASE_URL": "{url}/v1",
        "OPENAI_MODEL": _MODEL,
    },
    files={
        ".qwen/settings.json": {
            "security": {"auth": {"selectedType": "openai"}, "folderTrust": {"enabled": False}},
            "privacy": {"usageStatisticsEnabled": False},
            "telemetry": {"enabled": False},
            "general": {"enableAutoUpdate": False},
            # Off by default.
            "tools": {"todoWrite": {"enabled": True}, "listDirectory": {"enabled": True}},
            "mcpServers": "{mcp_servers}",
        }
    },
    mcp_server={"command": "{program}", "args": "{args}", "trust": True},
    calls={
        "read": ToolTemplate(
            "read_file", {"file_path": "{absolute}", "offset": "{skipped}", "limit": "{count}"}
        ),
        "write": ToolTemplate("write_file", {"file_path": "{absolute}", "content": "{content}"}),
        "edit": ToolTemplate(
            "edit", {"file_path": "{absolute}", "old_string": "{old}", "new_string": "{new}"}
        ),
        "run": ToolTemplate("run_shell_command", {"command": "{command}", "is_background": False}),
        "search": ToolTemplate("grep_search", {"pattern": "{query}", "path": "{absolute}"}),
        "list": ToolTemplate("list_directory", {"path": "{absolute}"}),
        "todo": ToolTemplate(
            "todo_write",
            {"todos": ForEach({"id": "{number}", "content": "{text}", "status": "{status}"})},
        ),
        "skill": ToolTemplate("skill", {"skill": "{name}"}),
        "agent": ToolTemplate(
            "agent",
            {
                "description": "{title}",
                "prompt": "{prompt}",
                "subagent_type": "general-purpose",
                "run_in_background": False,
            },
        ),
        "mcp": ToolTemplate("mcp__{server}__{tool}", "{input}"),
        "fetch": ToolTemplate("web_fetch", {"url": "{url}", "prompt": "Summarise it."}),
        "ask": ToolTemplate("ask_user_question", question_input(multiSelect=False)),
        "plan": ToolTemplate("exit_plan_mode", {"plan": "{plan}"}),
    },
    lacks={
        "patch": "it edits one file at a time",
    },
    own_calls={"pattern elsewhere": ScriptToolCall(tool="glob", input={"pattern": "../*"})},
    skills_folder=".qwen/skills",
    side_markers=("Managed memory has TWO directories",),
)
