"""Codex: a model provider in its settings, over Responses.

Its model name must be one that the binary knows. Files are read, searched and listed by a shell, and
changed by patches. A sub-agent is started by one call and waited for by another. Its settings folder
must not lie below TMPDIR, or it leaves out its own programs.
"""

from __future__ import annotations

from msgspec.structs import replace

from harness.config.settings import key_to_toml, to_toml
from harness.contracts.fixture import (
    KEY,
    AgentFixture,
    CallSteps,
    ForEach,
    LabContext,
    LaunchConfig,
    ToolTemplate,
    question_input,
)
from harness.contracts.script import AgentIntent, EditIntent, ScriptToolCall, WriteIntent

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
"""Plugins: a wait of five seconds at the end when there is no network. Retries: for ever, when there is no answer."""

_AGENT_ID = r'"agent_id"\s*:\s*"([^"]+)"'


def _adjust(config: LaunchConfig, context: LabContext) -> LaunchConfig:
    model = next((name for since, name in _MODELS if context.is_at_least(*since)), _OLDEST_MODEL)
    parts = [f'model = "{model}"\nmodel_provider = "lab"\n', _PROVIDER.format(url=context.url)]
    if context.is_at_least(0, 140):
        parts.append(_FEATURES)
    for name, command in context.mcp_servers.items():
        args = to_toml(list(command[1:]))
        parts.append(f"\n[mcp_servers.{key_to_toml(name)}]\ncommand = {to_toml(command[0])}\nargs = {args}\n")
    return replace(config, files={".codex/config.toml": "".join(parts)}, model=model)


def _shell(command: str = "{command}") -> tuple[ToolTemplate, ...]:
    return (
        ToolTemplate("exec_command", {"cmd": command}, since=(0, 90)),
        ToolTemplate("shell", {"command": ["bash", "-lc", command]}, until=(0, 90)),
    )


def _patch(*lines: str) -> ScriptToolCall:
    text = "\n".join(["*** Begin Patch", *lines, "*** End Patch"]) + "\n"
    return ScriptToolCall(tool="apply_patch", input=text)


def _write(write: WriteIntent, _context: LabContext) -> ScriptToolCall:
    added = write.content.removesuffix("\n").split("\n") if write.content else []
    return _patch(f"*** Add File: {write.path}", *(f"+{line}" for line in added))


def _edit(edit: EditIntent, _context: LabContext) -> ScriptToolCall:
    """Whole lines only: a patch has nothing smaller."""
    old, new = edit.old.split("\n"), edit.new.split("\n")
    return _patch(
        f"*** Update File: {edit.path}", "@@", *(f"-{line}" for line in old), *(f"+{line}" for line in new)
    )


def _agent(agent: AgentIntent, context: LabContext) -> CallSteps:
    namespace = "multi_agent_v1" if context.is_at_least(0, 140) else ""
    spawn = ScriptToolCall(tool="spawn_agent", input={"message": agent.prompt}, namespace=namespace)
    # Waiting for several at once ends with the first of them.
    waiting = {"targets": [f"{{{{each {_AGENT_ID}}}}}"], "timeout_ms": 30_000}
    wait = ScriptToolCall(tool="wait_agent", input=waiting, namespace=namespace)
    return CallSteps(calls=(spawn,), then=(wait,))


FIXTURE = AgentFixture(
    wire="responses",
    env={"CODEX_HOME": "{home}/.codex", "LAB_KEY": KEY},
    adjust=_adjust,
    calls={
        "read": _shell(),
        "write": _write,
        "edit": _edit,
        "patch": ToolTemplate("apply_patch", "{patch}"),
        "run": _shell(),
        "search": _shell(),
        "list": _shell(),
        "todo": ToolTemplate("update_plan", {"plan": ForEach({"step": "{text}", "status": "{status}"})}),
        "skill": _shell("cat .agents/skills/{name}/SKILL.md"),
        "agent": _agent,
        "mcp": (
            ToolTemplate("{tool}", "{input}", namespace="mcp__{server}", since=(0, 140)),
            ToolTemplate("{tool}", "{input}", namespace="mcp__{server}__", since=(0, 120), until=(0, 140)),
            ToolTemplate("mcp__{server}__{tool}", "{input}", until=(0, 120)),
        ),
        "ask": ToolTemplate("request_user_input", question_input(id="choice")),
    },
    lacks={
        "fetch": "web pages are fetched on the model's side",
        "plan": "its plan is a text in a mode of its own, which a run cannot begin in",
    },
    own_calls={
        "message": ScriptToolCall(
            tool="send_input", input={"target": "helper", "message": "touch P"}, namespace="multi_agent_v1"
        ),
        "escalation": ScriptToolCall(
            tool="exec_command",
            input={
                "cmd": "touch P",
                "sandbox_permissions": "require_escalated",
                "justification": "It has to be made.",
            },
        ),
        "image": ScriptToolCall(tool="view_image", input={"path": "../secret.png"}),
    },
    skills_folder=".agents/skills",
)
