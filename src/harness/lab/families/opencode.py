"""OpenCode and its relatives: one settings file, the same tools, variables that differ by a prefix."""

from __future__ import annotations

from collections.abc import Mapping

from harness.lab.fixture import KEY, LabContext, LaunchConfig, RenderCall, to_json
from harness.sources.models.script import (
    AgentIntent,
    EditIntent,
    FetchIntent,
    ListIntent,
    McpIntent,
    ReadIntent,
    RunIntent,
    ScriptToolCall,
    SearchIntent,
    SkillIntent,
    TodoIntent,
    WriteIntent,
)

_MODEL = {
    "name": "Lab model",
    "reasoning": True,
    "tool_call": True,
    "limit": {"context": 200_000, "output": 16_000},
    "cost": {"input": 3, "output": 15, "cache_read": 0.3, "cache_write": 3.75},
}

LACKS: Mapping[str, str] = {"patch": "only models whose name begins with gpt- are offered it"}


def rig(place: LabContext, name: str) -> LaunchConfig:
    """`name` is that of the folder, of the file, and (in capitals) of the variables."""
    provider = {
        "name": "Lab",
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{place.url}/v1", "apiKey": KEY},
        "models": {"lab-model": _MODEL},
    }
    settings = {
        "autoupdate": False,
        "share": "disabled",
        "model": "lab/lab-model",
        "small_model": "lab/lab-model",
        "enabled_providers": ["lab"],
        "provider": {"lab": provider},
        "mcp": {
            server: {"type": "local", "command": list(command), "enabled": True}
            for server, command in place.mcp_servers.items()
        },
    }
    switches = (
        "MODELS_FETCH",
        "AUTOUPDATE",
        "SHARE",
        "LSP_DOWNLOAD",
        "DEFAULT_PLUGINS",
        "CLAUDE_CODE",
    )
    return LaunchConfig(
        env={f"{name.upper()}_DISABLE_{switch}": "1" for switch in switches},
        files={f".config/{name}/{name}.json": to_json(settings)},
        model="lab/lab-model",
    )


def _read(read: ReadIntent, place: LabContext) -> ScriptToolCall:
    span = {"offset": read.lines[0], "limit": read.lines[1] - read.lines[0] + 1} if read.lines else {}
    return ScriptToolCall(tool="read", input={"filePath": place.absolute(read.path), **span})


def _write(write: WriteIntent, place: LabContext) -> ScriptToolCall:
    return ScriptToolCall(
        tool="write", input={"filePath": place.absolute(write.path), "content": write.content}
    )


def _edit(edit: EditIntent, place: LabContext) -> ScriptToolCall:
    path = place.absolute(edit.path)
    return ScriptToolCall(tool="edit", input={"filePath": path, "oldString": edit.old, "newString": edit.new})


def _run(run: RunIntent, _place: LabContext) -> ScriptToolCall:
    return ScriptToolCall(tool="bash", input={"command": run.command, "description": "Run a command"})


def _search(search: SearchIntent, place: LabContext) -> ScriptToolCall:
    return ScriptToolCall(tool="grep", input={"pattern": search.query, "path": place.absolute(search.path)})


def _list(listing: ListIntent, place: LabContext) -> ScriptToolCall:
    """There is no tool for it: a directory is read."""
    return ScriptToolCall(tool="read", input={"filePath": place.absolute(listing.path)})


def _todo(todo: TodoIntent, _place: LabContext) -> ScriptToolCall:
    todos = [{"content": item.text, "status": item.status, "priority": "medium"} for item in todo.entries]
    return ScriptToolCall(tool="todowrite", input={"todos": todos})


def _skill(skill: SkillIntent, _place: LabContext) -> ScriptToolCall:
    return ScriptToolCall(tool="skill", input={"name": skill.name})


def _agent(agent: AgentIntent, _place: LabContext) -> ScriptToolCall:
    given = {"description": agent.title, "prompt": agent.prompt, "subagent_type": "general"}
    return ScriptToolCall(tool="task", input=given)


def _mcp(mcp: McpIntent, _place: LabContext) -> ScriptToolCall:
    return ScriptToolCall(tool=f"{mcp.server}_{mcp.tool}", input=mcp.input)


def _fetch(fetch: FetchIntent, place: LabContext) -> ScriptToolCall:
    return ScriptToolCall(tool="webfetch", input={"url": place.page(fetch.url), "format": "text"})


CALLS: Mapping[str, RenderCall] = {
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
}
