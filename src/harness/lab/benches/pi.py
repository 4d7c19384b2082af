"""Pi: a provider in `models.json`, over Chat Completions.

A skill is a file that is read. Its own tools to search and list are off unless asked for, and the first
wants a program that may be missing: its models use a shell.
"""

from __future__ import annotations

from harness.lab.bench import KEY, Bench, Place, Rig, to_json
from harness.lab.families.shell import list_command, search_command
from harness.lab.meaning import Edit, List, Mcp, Read, Run, Search, Skill, Write
from harness.lab.script import Alternatives, ToolCall

_FOLDER = ".pi/agent"


def _rig(place: Place) -> Rig:
    model = {
        "id": "lab-model",
        "name": "Lab model",
        "reasoning": True,
        "input": ["text"],
        "contextWindow": 200_000,
        "maxTokens": 16_000,
        "cost": {"input": 3, "output": 15, "cacheRead": 0.3, "cacheWrite": 3.75},
    }
    provider = {"baseUrl": f"{place.url}/v1", "api": "openai-completions", "apiKey": KEY, "models": [model]}
    files = {
        f"{_FOLDER}/models.json": to_json({"providers": {"lab": provider}}),
        f"{_FOLDER}/settings.json": to_json({"retry": {"maxRetries": 2, "baseDelayMs": 200}}),
    }
    if place.mcp_servers:
        servers = {
            name: {"command": command[0], "args": command[1:], "exposure": "direct"}
            for name, command in place.mcp_servers.items()
        }
        files[f"{_FOLDER}/mcp.json"] = to_json({"mcpServers": servers})
    return Rig(
        env={
            "PI_CODING_AGENT_DIR": f"{place.home}/{_FOLDER}",
            "PI_OFFLINE": "1",
            "PI_SKIP_VERSION_CHECK": "1",
            "PI_TELEMETRY": "0",
        },
        files=files,
        args=("--provider", "lab"),
        model="lab-model",
    )


def _read(read: Read, _place: Place) -> ToolCall:
    span = {"offset": read.lines[0], "limit": read.lines[1] - read.lines[0] + 1} if read.lines else {}
    return ToolCall(tool="read", input={"path": read.path, **span})


def _write(write: Write, _place: Place) -> ToolCall:
    return ToolCall(tool="write", input={"path": write.path, "content": write.content})


def _edit(edit: Edit, _place: Place) -> Alternatives:
    change = {"oldText": edit.old, "newText": edit.new}
    several = ToolCall(tool="edit", input={"path": edit.path, "edits": [change]})
    return Alternatives((several, ToolCall(tool="edit", input={"path": edit.path, **change})))


def _run(run: Run, _place: Place) -> ToolCall:
    return ToolCall(tool="bash", input={"command": run.command})


def _search(search: Search, _place: Place) -> ToolCall:
    return ToolCall(tool="bash", input={"command": search_command(search)})


def _list(listing: List, _place: Place) -> ToolCall:
    return ToolCall(tool="bash", input={"command": list_command(listing)})


def _skill(skill: Skill, _place: Place) -> ToolCall:
    return ToolCall(tool="read", input={"path": f".pi/skills/{skill.name}/SKILL.md"})


def _mcp(mcp: Mcp, _place: Place) -> ToolCall:
    return ToolCall(tool=f"mcp__{mcp.server}__{mcp.tool}", input=mcp.input)


BENCH = Bench(
    wire="chat",
    rig=_rig,
    calls={
        "read": _read,
        "write": _write,
        "edit": _edit,
        "run": _run,
        "search": _search,
        "list": _list,
        "skill": _skill,
        "mcp": _mcp,
    },
    lacks={
        "patch": "it edits one file at a time",
        "todo": "it keeps no list",
        "agent": "it has no sub-agents",
        "fetch": "it has no tool for web pages",
    },
    since={"mcp": (0, 99)},
    skills_folder=".pi/skills",
)
