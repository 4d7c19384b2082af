"""Gemini CLI: key and base URL by environment, the way it signs in by settings, over its own API.

A sub-agent must end with a call of `complete_task`. Thoughts are not in its stream.
"""

from __future__ import annotations

from harness.lab.bench import KEY, Bench, Place, Rig, to_json
from harness.lab.meaning import Agent, Edit, Fetch, List, Mcp, Read, Run, Search, Skill, Todo, Write
from harness.lab.script import ToolCall


def _rig(place: Place) -> Rig:
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
        "general": {"disableAutoUpdate": True, "enableAutoUpdate": False, "maxAttempts": 2},
        "tools": {"sandbox": False},
        "mcpServers": {
            name: {"command": command[0], "args": command[1:], "trust": True}
            for name, command in place.mcp_servers.items()
        },
    }
    return Rig(
        env={
            "CI": "1",
            "GEMINI_API_KEY": KEY,
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
            "GOOGLE_GEMINI_BASE_URL": place.url,
        },
        files={".gemini/settings.json": to_json(settings)},
        model="gemini-2.5-flash",
    )


def _read(read: Read, _place: Place) -> ToolCall:
    span = {"start_line": read.lines[0], "end_line": read.lines[1]} if read.lines else {}
    return ToolCall(tool="read_file", input={"file_path": read.path, **span})


def _write(write: Write, _place: Place) -> ToolCall:
    return ToolCall(tool="write_file", input={"file_path": write.path, "content": write.content})


def _edit(edit: Edit, _place: Place) -> ToolCall:
    given = {"instruction": "Change it.", "old_string": edit.old, "new_string": edit.new}
    return ToolCall(tool="replace", input={"file_path": edit.path, **given})


def _run(run: Run, _place: Place) -> ToolCall:
    return ToolCall(tool="run_shell_command", input={"command": run.command, "description": "Run a command"})


def _search(search: Search, _place: Place) -> ToolCall:
    return ToolCall(tool="grep_search", input={"pattern": search.query, "dir_path": search.path})


def _list(listing: List, _place: Place) -> ToolCall:
    return ToolCall(tool="list_directory", input={"dir_path": listing.path})


def _todo(todo: Todo, _place: Place) -> ToolCall:
    todos = [{"description": item.text, "status": item.status} for item in todo.entries]
    return ToolCall(tool="write_todos", input={"todos": todos})


def _skill(skill: Skill, _place: Place) -> ToolCall:
    return ToolCall(tool="activate_skill", input={"name": skill.name})


def _agent(agent: Agent, _place: Place) -> ToolCall:
    return ToolCall(tool="invoke_agent", input={"agent_name": "generalist", "prompt": agent.prompt})


def _agent_end(text: str) -> ToolCall:
    return ToolCall(tool="complete_task", input={"result": {"response": text}})


def _mcp(mcp: Mcp, _place: Place) -> ToolCall:
    return ToolCall(tool=f"mcp_{mcp.server}_{mcp.tool}", input=mcp.input)


def _fetch(fetch: Fetch, place: Place) -> ToolCall:
    return ToolCall(tool="web_fetch", input={"prompt": f"Summarise {place.page(fetch.url)}"})


BENCH = Bench(
    wire="gemini",
    rig=_rig,
    calls={
        "read": _read,
        "write": _write,
        "edit": _edit,
        "run": _run,
        "search": _search,
        "list": _list,
        "todo": _todo,
        "skill": _skill,
        "agent": _agent,
        "mcp": _mcp,
        "fetch": _fetch,
    },
    lacks={"patch": "it edits one file at a time"},
    agent_end=_agent_end,
    skills_folder=".gemini/skills",
)
