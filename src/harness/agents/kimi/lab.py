"""Kimi Code: its provider by environment, over Chat Completions. A directory is listed by a shell."""

from __future__ import annotations

from harness.contracts.fixture import KEY, AgentFixture, ForEach, ToolTemplate, question_input

FIXTURE = AgentFixture(
    wire="chat",
    env={
        "CI": "1",
        "KIMI_DISABLE_TELEMETRY": "1",
        "KIMI_MODEL_API_KEY": KEY,
        "KIMI_MODEL_BASE_URL": "{url}/v1",
        "KIMI_MODEL_NAME": "kimi-k2",
        "KIMI_MODEL_PROVIDER_TYPE": "openai",
    },
    mcp_server={"command": "{program}", "args": "{args}"},
    mcp_files={".kimi-code/mcp.json": {"mcpServers": "{mcp_servers}"}},
    calls={
        "read": ToolTemplate("Read", {"path": "{path}", "line_offset": "{first}", "n_lines": "{count}"}),
        "write": ToolTemplate("Write", {"path": "{path}", "content": "{content}"}),
        "edit": ToolTemplate("Edit", {"path": "{path}", "old_string": "{old}", "new_string": "{new}"}),
        "run": ToolTemplate("Bash", {"command": "{command}"}),
        "search": ToolTemplate("Grep", {"pattern": "{query}", "path": "{path}"}),
        "list": ToolTemplate("Bash", {"command": "{command}"}),
        "todo": ToolTemplate("TodoList", {"todos": ForEach({"title": "{text}", "status": "{status}"})}),
        "skill": ToolTemplate("Skill", {"skill": "{name}"}),
        "agent": ToolTemplate(
            "Agent", {"description": "{title}", "prompt": "{prompt}", "subagent_type": "coder"}
        ),
        "ask": ToolTemplate("AskUserQuestion", question_input()),
        "mcp": ToolTemplate("mcp__{server}__{tool}", "{input}"),
        "fetch": ToolTemplate("FetchURL", {"url": "{url}"}),
    },
    lacks={
        "patch": "it edits one file at a time",
        "plan": "its plans are files that its model writes first",
    },
    skills_folder=".kimi/skills",
)
