"""Goose: everything by environment, over Chat Completions. Files are read and searched by a shell."""

from __future__ import annotations

import shlex

from harness.lab.bench import KEY, Bench, Place, Rig
from harness.lab.families.shell import read_command, search_command
from harness.lab.meaning import Agent, Edit, List, Mcp, Read, Run, Search, Skill, Todo, Write
from harness.lab.script import ToolCall


def _rig(place: Place) -> Rig:
    extensions = [
        word
        for name, command in place.mcp_servers.items()
        for word in ("--with-extension", f"{name}:{shlex.join(command)}")
    ]
    return Rig(
        env={
            "CI": "1",
            "GOOSE_DISABLE_KEYRING": "1",
            "GOOSE_DISABLE_SESSION_NAMING": "true",
            "GOOSE_MODEL": "gpt-4o",
            "GOOSE_PROVIDER": "openai",
            "GOOSE_TELEMETRY_ENABLED": "false",
            "OPENAI_API_KEY": KEY,
            "OPENAI_HOST": place.url,
        },
        args=tuple(extensions),
    )


def _shell(command: str) -> ToolCall:
    return ToolCall(tool="shell", input={"command": command})


def _read(read: Read, _place: Place) -> ToolCall:
    return _shell(read_command(read))


def _write(write: Write, _place: Place) -> ToolCall:
    return ToolCall(tool="write", input={"path": write.path, "content": write.content})


def _edit(edit: Edit, _place: Place) -> ToolCall:
    return ToolCall(tool="edit", input={"path": edit.path, "before": edit.old, "after": edit.new})


def _run(run: Run, _place: Place) -> ToolCall:
    return _shell(run.command)


def _search(search: Search, _place: Place) -> ToolCall:
    return _shell(search_command(search))


def _list(listing: List, _place: Place) -> ToolCall:
    return ToolCall(tool="tree", input={"path": listing.path, "depth": 1})


def _todo(todo: Todo, _place: Place) -> ToolCall:
    marks = {"completed": "x"}
    lines = [f"- [{marks.get(item.status, ' ')}] {item.text}" for item in todo.entries]
    return ToolCall(tool="todo__todo_write", input={"content": "\n".join(lines)})


def _skill(skill: Skill, _place: Place) -> ToolCall:
    return ToolCall(tool="load_skill", input={"name": skill.name})


def _agent(agent: Agent, _place: Place) -> ToolCall:
    return ToolCall(tool="delegate", input={"instructions": agent.prompt})


def _mcp(mcp: Mcp, _place: Place) -> ToolCall:
    return ToolCall(tool=f"{mcp.server}__{mcp.tool}", input=mcp.input)


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
    lacks={"patch": "it edits one file at a time", "fetch": "its developer tools have none for web pages"},
    skills_folder=".agents/skills",
)
