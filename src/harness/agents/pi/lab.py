"""Pi: a provider in `models.json`, over Chat Completions.

A skill is a file that is read. Its own tools to search and list are off unless asked for, and the first
wants a program that may be missing: its models use a shell.
"""

from __future__ import annotations

from harness.contracts.fixture import KEY, AgentFixture, ForEach, ToolTemplate
from harness.contracts.script import ScriptToolCall

_FOLDER = ".pi/agent"
_BASH = ToolTemplate("bash", {"command": "{command}"})
_CHANGE = {"oldText": "{old}", "newText": "{new}"}
_MODEL = {
    "id": "lab-model",
    "name": "Lab model",
    "reasoning": True,
    "input": ["text"],
    "contextWindow": 200_000,
    "maxTokens": 16_000,
    "cost": {"input": 3, "output": 15, "cacheRead": 0.3, "cacheWrite": 3.75},
}
_PROVIDER = {"baseUrl": "{url}/v1", "api": "openai-completions", "apiKey": KEY, "models": [_MODEL]}

FIXTURE = AgentFixture(
    wire="chat",
    model="lab-model",
    env={
        "PI_CODING_AGENT_DIR": f"{{home}}/{_FOLDER}",
        "PI_OFFLINE": "1",
        "PI_SKIP_VERSION_CHECK": "1",
        "PI_TELEMETRY": "0",
    },
    files={
        f"{_FOLDER}/models.json": {"providers": {"lab": _PROVIDER}},
        f"{_FOLDER}/settings.json": {"retry": {"maxRetries": 2, "baseDelayMs": 200}},
    },
    args=("--provider", "lab"),
    mcp_server={"command": "{program}", "args": "{args}", "exposure": "direct"},
    mcp_files={f"{_FOLDER}/mcp.json": {"mcpServers": "{mcp_servers}"}},
    calls={
        "read": ToolTemplate("read", {"path": "{path}", "offset": "{first}", "limit": "{count}"}),
        "write": ToolTemplate("write", {"path": "{path}", "content": "{content}"}),
        "edit": (
            ToolTemplate("edit", {"path": "{path}", "edits": [_CHANGE]}),
            ToolTemplate("edit", {"path": "{path}", **_CHANGE}),
        ),
        "run": _BASH,
        # Where only reading is allowed it has these instead of a shell.
        "search": (ToolTemplate("grep", {"pattern": "{query}", "path": "{path}"}), _BASH),
        "list": (ToolTemplate("ls", {"path": "{path}"}), _BASH),
        "skill": ToolTemplate("read", {"path": ".pi/skills/{name}/SKILL.md"}),
        "mcp": ToolTemplate("mcp__{server}__{tool}", "{input}"),
        # A tool of the extension that Harness gives it.
        "ask": ToolTemplate("ask_user", {"question": "{question}", "options": ForEach("{text}")}),
    },
    lacks={
        "patch": "it edits one file at a time",
        "todo": "it keeps no list",
        "agent": "it has no sub-agents",
        "fetch": "it has no tool for web pages",
        "plan": "it has no plan that is to be approved",
    },
    since={"mcp": (0, 99)},
    own_calls={"pattern elsewhere": ScriptToolCall(tool="find", input={"pattern": "*", "path": ".."})},
    skills_folder=".pi/skills",
)
