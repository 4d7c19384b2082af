"""Qwen Code: base URL by environment, the way it signs in by settings, over Chat Completions.

After a run it lets a memory agent look at the conversation, with tools: that is a side request. Lines
are counted from 0. A sub-agent goes to the background unless it is told not to.
"""

from __future__ import annotations

from harness.lab.bench import KEY, Bench, Place, Rig, to_json
from harness.lab.meaning import Agent, Edit, Fetch, List, Mcp, Read, Run, Search, Skill, Todo, Write
from harness.lab.script import ToolCall


def _rig(place: Place) -> Rig:
    settings = {
        "security": {"auth": {"selectedType": "openai"}, "folderTrust": {"enabled": False}},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
        "general": {"enableAutoUpdate": False},
        # Off unless asked for.
        "tools": {"todoWrite": {"enabled": True}, "listDirectory": {"enabled": True}},
        "mcpServers": {
            name: {"command": command[0], "args": command[1:], "trust": True}
            for name, command in place.mcp_servers.items()
        },
    }
    return Rig(
        env={
            "CI": "1",
            "OPENAI_API_KEY": KEY,
            "OPENAI_BASE_URL": f"{place.url}/v1",
            "OPENAI_MODEL": "qwen3-coder-plus",
        },
        files={".qwen/settings.json": to_json(settings)},
        model="qwen3-coder-plus",
    )


def _read(read: Read, place: Place) -> ToolCall:
    span = {"offset": read.lines[0] - 1, "limit": read.lines[1] - read.lines[0] + 1} if read.lines else {}
    return ToolCall(tool="read_file", input={"file_path": place.absolute(read.path), **span})


def _write(write: Write, place: Place) -> ToolCall:
    return ToolCall(
        tool="write_file", input={"file_path": place.absolute(write.path), "content": write.content}
    )


def _edit(edit: Edit, place: Place) -> ToolCall:
    path = place.absolute(edit.path)
    return ToolCall(tool="edit", input={"file_path": path, "old_string": edit.old, "new_string": edit.new})


def _run(run: Run, _place: Place) -> ToolCall:
    return ToolCall(tool="run_shell_command", input={"command": run.command, "is_background": False})


def _search(search: Search, place: Place) -> ToolCall:
    return ToolCall(tool="grep_search", input={"pattern": search.query, "path": place.absolute(search.path)})


def _list(listing: List, place: Place) -> ToolCall:
    return ToolCall(tool="list_directory", input={"path": place.absolute(listing.path)})


def _todo(todo: Todo, _place: Place) -> ToolCall:
    todos = [
        {"id": str(number), "content": item.text, "status": item.status}
        for number, item in enumerate(todo.entries, 1)
    ]
    return ToolCall(tool="todo_write", input={"todos": todos})


def _skill(skill: Skill, _place: Place) -> ToolCall:
    return ToolCall(tool="skill", input={"skill": skill.name})


def _agent(agent: Agent, _place: Place) -> ToolCall:
    given = {"description": agent.title, "prompt": agent.prompt, "subagent_type": "general-purpose"}
    return ToolCall(tool="agent", input={**given, "run_in_background": False})


def _mcp(mcp: Mcp, _place: Place) -> ToolCall:
    return ToolCall(tool=f"mcp__{mcp.server}__{mcp.tool}", input=mcp.input)


def _fetch(fetch: Fetch, place: Place) -> ToolCall:
    return ToolCall(tool="web_fetch", input={"url": place.page(fetch.url), "prompt": "Summarise it."})


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
        "todo": _todo,
        "skill": _skill,
        "agent": _agent,
        "mcp": _mcp,
        "fetch": _fetch,
    },
    lacks={"patch": "it edits one file at a time"},
    skills_folder=".qwen/skills",
    side_markers=("Managed memory has TWO directories",),
)
