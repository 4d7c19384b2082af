"""Claude Code: everything by environment, over Anthropic Messages.

It refuses to edit what it has not read: let a script read first. From 2.1 on it offers neither Grep nor
LS, and its models use a shell instead. Web pages it fetches over TLS only, and so not those of the lab.
"""

from __future__ import annotations

from harness.lab.bench import KEY, Bench, Place, Rig, Steps, to_line
from harness.lab.families.shell import list_command, search_command
from harness.lab.meaning import Agent, Edit, Fetch, List, Mcp, Read, Run, Search, Skill, Todo, Write
from harness.lab.script import Alternatives, ToolCall

_ENVIRONMENT = {
    "ANTHROPIC_API_KEY": KEY,
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    # Off unless asked for, from 2.1 on.
    "CLAUDE_CODE_ENABLE_TODO_TOOLS": "1",
    "CLAUDE_CODE_MAX_RETRIES": "2",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "DISABLE_TELEMETRY": "1",
    # Without it, root may not run it with all permissions.
    "IS_SANDBOX": "1",
}


def _rig(place: Place) -> Rig:
    args: tuple[str, ...] = ()
    if place.is_at_least(2, 0):
        args += ("--settings", '{"skipWebFetchPreflight":true}')
    if place.mcp_servers:
        servers = {
            name: {"command": command[0], "args": command[1:]} for name, command in place.mcp_servers.items()
        }
        args += ("--mcp-config", to_line({"mcpServers": servers}), "--strict-mcp-config")
    folder = {"ANTHROPIC_BASE_URL": place.url, "CLAUDE_CONFIG_DIR": f"{place.home}/.claude"}
    return Rig(env=_ENVIRONMENT | folder, args=args)


def _read(read: Read, place: Place) -> ToolCall:
    span = {"offset": read.lines[0], "limit": read.lines[1] - read.lines[0] + 1} if read.lines else {}
    return ToolCall(tool="Read", input={"file_path": place.absolute(read.path), **span})


def _write(write: Write, place: Place) -> ToolCall:
    return ToolCall(tool="Write", input={"file_path": place.absolute(write.path), "content": write.content})


def _edit(edit: Edit, place: Place) -> ToolCall:
    path = place.absolute(edit.path)
    return ToolCall(tool="Edit", input={"file_path": path, "old_string": edit.old, "new_string": edit.new})


def _bash(command: str) -> ToolCall:
    return ToolCall(tool="Bash", input={"command": command, "description": "Run a command"})


def _run(run: Run, _place: Place) -> ToolCall:
    return _bash(run.command)


def _search(search: Search, place: Place) -> Alternatives:
    given = {"pattern": search.query, "path": place.absolute(search.path), "output_mode": "content"}
    return Alternatives((ToolCall(tool="Grep", input=given), _bash(search_command(search))))


def _list(listing: List, place: Place) -> Alternatives:
    listed = ToolCall(tool="LS", input={"path": place.absolute(listing.path)})
    return Alternatives((listed, _bash(list_command(listing))))


def _todo(todo: Todo, place: Place) -> ToolCall | Steps:
    if not place.is_at_least(2, 1):
        todos = [
            {
                "content": item.text,
                "status": item.status,
                "activeForm": item.text,
                "id": str(number),
                "priority": "medium",
            }
            for number, item in enumerate(todo.entries, 1)
        ]
        return ToolCall(tool="TodoWrite", input={"todos": todos})
    return Steps(
        calls=tuple(
            ToolCall(tool="TaskCreate", input={"subject": item.text, "description": item.text})
            for item in todo.entries
        )
    )


def _skill(skill: Skill, _place: Place) -> ToolCall:
    return ToolCall(tool="Skill", input={"skill": skill.name})


def _agent(agent: Agent, _place: Place) -> Alternatives:
    given = {"description": agent.title, "prompt": agent.prompt, "subagent_type": "general-purpose"}
    now = ToolCall(tool="Agent", input={**given, "run_in_background": False})
    return Alternatives((now, ToolCall(tool="Task", input=given)))


def _mcp(mcp: Mcp, _place: Place) -> ToolCall:
    return ToolCall(tool=f"mcp__{mcp.server}__{mcp.tool}", input=mcp.input)


def _fetch(fetch: Fetch, place: Place) -> ToolCall:
    return ToolCall(tool="WebFetch", input={"url": place.page(fetch.url), "prompt": "Summarise it."})


BENCH = Bench(
    wire="anthropic",
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
    skills_folder=".claude/skills",
)
