"""GitHub Copilot CLI: a provider of one's own by environment, offline mode, over Chat Completions.

Its to-do list is a table of a database that it queries. A directory is viewed like a file.
"""

from __future__ import annotations

from harness.lab.bench import KEY, Bench, Place, Rig, to_line
from harness.lab.meaning import Agent, Edit, List, Mcp, Read, Run, Search, Skill, Todo, Write
from harness.lab.script import ToolCall

_STATUSES = {"completed": "done"}


def _rig(place: Place) -> Rig:
    args: tuple[str, ...] = ()
    if place.mcp_servers:
        servers = {
            name: {"type": "local", "command": command[0], "args": command[1:], "tools": ["*"]}
            for name, command in place.mcp_servers.items()
        }
        args = ("--additional-mcp-config", to_line({"mcpServers": servers}))
    return Rig(
        env={
            "CI": "1",
            "COPILOT_AUTO_UPDATE": "false",
            "COPILOT_MODEL": "gpt-4.1",
            "COPILOT_OFFLINE": "true",
            "COPILOT_PROVIDER_API_KEY": KEY,
            "COPILOT_PROVIDER_BASE_URL": f"{place.url}/v1",
        },
        args=args,
    )


def _read(read: Read, place: Place) -> ToolCall:
    span = {"view_range": list(read.lines)} if read.lines else {}
    return ToolCall(tool="view", input={"path": place.absolute(read.path), **span})


def _write(write: Write, place: Place) -> ToolCall:
    return ToolCall(tool="create", input={"path": place.absolute(write.path), "file_text": write.content})


def _edit(edit: Edit, place: Place) -> ToolCall:
    path = place.absolute(edit.path)
    return ToolCall(tool="edit", input={"path": path, "old_str": edit.old, "new_str": edit.new})


def _run(run: Run, _place: Place) -> ToolCall:
    return ToolCall(tool="bash", input={"command": run.command, "description": "Run a command"})


def _search(search: Search, place: Place) -> ToolCall:
    return ToolCall(tool="grep", input={"pattern": search.query, "paths": place.absolute(search.path)})


def _list(listing: List, place: Place) -> ToolCall:
    return ToolCall(tool="view", input={"path": place.absolute(listing.path)})


def _todo(todo: Todo, _place: Place) -> ToolCall:
    rows = ", ".join(
        f"('{number}', '{text}', '{_STATUSES.get(item.status, item.status)}')"
        for number, item in enumerate(todo.entries, 1)
        for text in [item.text.replace("'", "''")]
    )
    query = f"INSERT INTO todos (id, title, status) VALUES {rows}"  # noqa: S608 - the script's own words
    return ToolCall(tool="sql", input={"description": "Plan", "query": query})


def _skill(skill: Skill, _place: Place) -> ToolCall:
    return ToolCall(tool="skill", input={"skill": skill.name})


def _agent(agent: Agent, _place: Place) -> ToolCall:
    given = {"name": "helper", "description": agent.title, "prompt": agent.prompt}
    return ToolCall(tool="task", input={**given, "agent_type": "general-purpose", "mode": "sync"})


def _mcp(mcp: Mcp, _place: Place) -> ToolCall:
    return ToolCall(tool=f"{mcp.server}-{mcp.tool}", input=mcp.input)


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
    },
    lacks={"patch": "it edits one file at a time", "fetch": "offline it has no tool for web pages"},
    skills_folder=".github/skills",
)
