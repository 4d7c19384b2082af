"""Codex: a model provider in its settings, over Responses.

Its model name must be one that the binary knows. Files are read, searched and listed by a shell, and
changed by patches. A sub-agent is started by one call and waited for by another. Its settings folder
must not lie below TMPDIR, or it leaves out its own programs.
"""

from __future__ import annotations

from harness.lab.bench import KEY, Bench, Place, Rig, Steps
from harness.lab.families.shell import list_command, read_command, search_command
from harness.lab.meaning import Agent, Edit, List, Mcp, Patch, Read, Run, Search, Skill, Todo, Write
from harness.lab.script import ToolCall
from harness.settings import key_to_toml, to_toml

_MODELS = (((0, 140), "gpt-5.5"), ((0, 120), "gpt-5.3-codex"), ((0, 90), "gpt-5.2-codex"))
_OLDEST_MODEL = "gpt-5-codex"
_PROVIDER = """
[model_providers.lab]
name = "lab"
base_url = "{url}/v1"
env_key = "LAB_KEY"
wire_api = "responses"
request_max_retries = 2
stream_max_retries = 2
supports_websockets = false

[analytics]
enabled = false
"""
_FEATURES = """
[features]
plugins = false
unbounded_connection_retries = false

[tools.update_plan]
enabled = true
"""
"""Plugins: a wait of five seconds at the end when there is no network. Retries: for ever, when nobody answers."""

_AGENT_ID = r'"agent_id"\s*:\s*"([^"]+)"'


def _model(place: Place) -> str:
    return next((model for since, model in _MODELS if place.is_at_least(*since)), _OLDEST_MODEL)


def _rig(place: Place) -> Rig:
    parts = [f'model = "{_model(place)}"\nmodel_provider = "lab"\n', _PROVIDER.format(url=place.url)]
    if place.is_at_least(0, 140):
        parts.append(_FEATURES)
    for name, command in place.mcp_servers.items():
        args = to_toml(list(command[1:]))
        parts.append(f"\n[mcp_servers.{key_to_toml(name)}]\ncommand = {to_toml(command[0])}\nargs = {args}\n")
    return Rig(
        env={"CODEX_HOME": f"{place.home}/.codex", "LAB_KEY": KEY},
        files={".codex/config.toml": "".join(parts)},
        model=_model(place),
    )


def _shell(command: str, place: Place) -> ToolCall:
    if place.is_at_least(0, 90):
        return ToolCall(tool="exec_command", input={"cmd": command})
    return ToolCall(tool="shell", input={"command": ["bash", "-lc", command]})


def _patch(*lines: str) -> ToolCall:
    return ToolCall(tool="apply_patch", input="\n".join(["*** Begin Patch", *lines, "*** End Patch"]) + "\n")


def _write(write: Write, _place: Place) -> ToolCall:
    added = write.content.removesuffix("\n").split("\n") if write.content else []
    return _patch(f"*** Add File: {write.path}", *(f"+{line}" for line in added))


def _edit(edit: Edit, _place: Place) -> ToolCall:
    """Whole lines only: that is what a patch can say."""
    old, new = edit.old.split("\n"), edit.new.split("\n")
    return _patch(
        f"*** Update File: {edit.path}", "@@", *(f"-{line}" for line in old), *(f"+{line}" for line in new)
    )


def _todo(todo: Todo, _place: Place) -> ToolCall:
    plan = [{"step": item.text, "status": item.status} for item in todo.entries]
    return ToolCall(tool="update_plan", input={"plan": plan})


def _skill(skill: Skill, place: Place) -> ToolCall:
    return _shell(read_command(Read(path=f".agents/skills/{skill.name}/SKILL.md")), place)


def _agent(agent: Agent, place: Place) -> Steps:
    namespace = "multi_agent_v1" if place.is_at_least(0, 140) else ""
    spawn = ToolCall(tool="spawn_agent", input={"message": agent.prompt}, namespace=namespace)
    # Waiting for several at once ends with the first of them.
    waiting = {"targets": [f"{{{{each {_AGENT_ID}}}}}"], "timeout_ms": 30_000}
    return Steps(calls=(spawn,), then=(ToolCall(tool="wait_agent", input=waiting, namespace=namespace),))


def _mcp(mcp: Mcp, place: Place) -> ToolCall:
    if place.is_at_least(0, 120):
        namespace = f"mcp__{mcp.server}" if place.is_at_least(0, 140) else f"mcp__{mcp.server}__"
        return ToolCall(tool=mcp.tool, input=mcp.input, namespace=namespace)
    return ToolCall(tool=f"mcp__{mcp.server}__{mcp.tool}", input=mcp.input)


def _read(read: Read, place: Place) -> ToolCall:
    return _shell(read_command(read), place)


def _search(search: Search, place: Place) -> ToolCall:
    return _shell(search_command(search), place)


def _list(listing: List, place: Place) -> ToolCall:
    return _shell(list_command(listing), place)


def _run(run: Run, place: Place) -> ToolCall:
    return _shell(run.command, place)


def _apply(patch: Patch, _place: Place) -> ToolCall:
    return ToolCall(tool="apply_patch", input=patch.patch)


BENCH = Bench(
    wire="responses",
    rig=_rig,
    calls={
        "read": _read,
        "write": _write,
        "edit": _edit,
        "patch": _apply,
        "run": _run,
        "search": _search,
        "list": _list,
        "todo": _todo,
        "skill": _skill,
        "agent": _agent,
        "mcp": _mcp,
    },
    lacks={"fetch": "web pages are fetched on the model's side"},
    skills_folder=".agents/skills",
)
