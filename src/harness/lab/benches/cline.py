"""Cline: its provider in a settings file, over Chat Completions. Every tool takes several things at once."""

from __future__ import annotations

from harness.lab.bench import KEY, Bench, Place, Rig, to_json
from harness.lab.families.shell import list_command
from harness.lab.meaning import Agent, Edit, Fetch, List, Mcp, Read, Run, Search, Skill, Write
from harness.lab.script import ToolCall

_SETTINGS = ".cline/data/settings"


def _rig(place: Place) -> Rig:
    provider = {
        "provider": "openai-compatible",
        "apiKey": KEY,
        "model": "lab-model",
        "baseUrl": f"{place.url}/v1",
    }
    entry = {"settings": provider, "updatedAt": "2026-01-01T00:00:00.000Z", "tokenSource": "manual"}
    providers = {
        "version": 1,
        "lastUsedProvider": "openai-compatible",
        "modes": {},
        "providers": {"openai-compatible": entry},
    }
    files = {f"{_SETTINGS}/providers.json": to_json(providers)}
    if place.mcp_servers:
        servers = {
            name: {"command": command[0], "args": command[1:]} for name, command in place.mcp_servers.items()
        }
        files[f"{_SETTINGS}/cline_mcp_settings.json"] = to_json({"mcpServers": servers})
    return Rig(
        env={
            "CI": "1",
            "CLINE_NO_AUTO_UPDATE": "1",
            "CLINE_SESSION_BACKEND_MODE": "local",
            "CLINE_TELEMETRY_DISABLED": "1",
        },
        files=files,
    )


def _read(read: Read, place: Place) -> ToolCall:
    span = {"start_line": read.lines[0], "end_line": read.lines[1]} if read.lines else {}
    return ToolCall(tool="read_files", input={"files": [{"path": place.absolute(read.path), **span}]})


def _write(write: Write, place: Place) -> ToolCall:
    return ToolCall(tool="editor", input={"path": place.absolute(write.path), "new_text": write.content})


def _edit(edit: Edit, place: Place) -> ToolCall:
    path = place.absolute(edit.path)
    return ToolCall(tool="editor", input={"path": path, "old_text": edit.old, "new_text": edit.new})


def _commands(command: str) -> ToolCall:
    return ToolCall(tool="run_commands", input={"commands": [command]})


def _run(run: Run, _place: Place) -> ToolCall:
    return _commands(run.command)


def _search(search: Search, _place: Place) -> ToolCall:
    """Always everywhere: it takes no path."""
    return ToolCall(tool="search_codebase", input={"queries": [search.query]})


def _list(listing: List, _place: Place) -> ToolCall:
    return _commands(list_command(listing))


def _skill(skill: Skill, _place: Place) -> ToolCall:
    return ToolCall(tool="skills", input={"skill": skill.name})


def _agent(agent: Agent, _place: Place) -> ToolCall:
    given = {"systemPrompt": "You do what you are told.", "task": agent.prompt}
    return ToolCall(tool="spawn_agent", input=given)


def _mcp(mcp: Mcp, _place: Place) -> ToolCall:
    return ToolCall(tool=f"{mcp.server}__{mcp.tool}", input=mcp.input)


def _fetch(fetch: Fetch, place: Place) -> ToolCall:
    requests = [{"url": place.page(fetch.url), "prompt": "Summarise it."}]
    return ToolCall(tool="fetch_web_content", input={"requests": requests})


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
        "agent": _agent,
        "mcp": _mcp,
        "fetch": _fetch,
    },
    lacks={"patch": "only gpt models are offered it", "todo": "only a team of agents keeps a list"},
    skills_folder=".cline/skills",
)
