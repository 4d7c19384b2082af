"""Gemini CLI: key and base URL by environment, the way it signs in by settings, over its own API.

A sub-agent must end with a call of `complete_task`. Thoughts are not in its stream.
"""

from __future__ import annotations

from harness.contracts.fixture import KEY, AgentFixture, ForEach, ToolTemplate
from harness.contracts.script import ScriptToolCall

FIXTURE = AgentFixture(
    wire="gemini",
    model="gemini-2.5-flash",
    env={
        "CI": "1",
        "GEMINI_API_KEY": KEY,
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
        "GOOGLE_GEMINI_BASE_URL": "{url}",
    },
    files={
        ".gemini/settings.json": {
            "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
            "privacy": {"usageStatisticsEnabled": False},
            "telemetry": {"enabled": False},
            "general": {"disableAutoUpdate": True, "enableAutoUpdate": False, "maxAttempts": 2},
            "tools": {"sandbox": False},
            "mcpServers": "{mcp_servers}",
        }
    },
    mcp_server={"command": "{program}", "args": "{args}"},
    calls={
        "read": ToolTemplate(
            "read_file", {"file_path": "{path}", "start_line": "{first}", "end_line": "{last}"}
        ),
        "write": ToolTemplate("write_file", {"file_path": "{path}", "content": "{content}"}),
        "edit": ToolTemplate(
            "replace",
            {
                "file_path": "{path}",
                "instruction": "Change it.",
                "old_string": "{old}",
                "new_string": "{new}",
            },
        ),
        "run": ToolTemplate("run_shell_command", {"command": "{command}", "description": "Run a command"}),
        "search": ToolTemplate("grep_search", {"pattern": "{query}", "dir_path": "{path}"}),
        "list": ToolTemplate("list_directory", {"dir_path": "{path}"}),
        "todo": ToolTemplate(
            "write_todos", {"todos": ForEach({"description": "{text}", "status": "{status}"})}
        ),
        "skill": ToolTemplate("activate_skill", {"name": "{name}"}),
        "agent": ToolTemplate("invoke_agent", {"agent_name": "generalist", "prompt": "{prompt}"}),
        "mcp": ToolTemplate("mcp_{server}_{tool}", "{input}"),
        "fetch": ToolTemplate("web_fetch", {"prompt": "Summarise {url}"}),
    },
    lacks={
        "patch": "it edits one file at a time",
        "ask": "it asks nothing over its protocol",
        "plan": "its plans are not asked about over its protocol",
    },
    agent_end=ToolTemplate("complete_task", {"result": {"response": "{text}"}}),
    own_calls={"pattern elsewhere": ScriptToolCall(tool="glob", input={"pattern": "../*"})},
    skills_folder=".gemini/skills",
)
