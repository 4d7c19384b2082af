"""The configuration of a harness: modes, agents, sub-agents and heartbeats, and how they are checked."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from harness.contracts.model import Model
from harness.contracts.request import OWN_AGENT, FolderSettingsUse, GatewayOptions, Permissions, Sealed
from harness.contracts.tool import Renamed, Tool
from harness.errors import UsageError
from harness.events import Event
from harness.log.codec import UNENCODABLE, encode, storable
from harness.log.redact.redactor import Redactor, redact_text
from harness.log.store import Metadata
from harness.system.plain_text import plain_text

ToolCategory: TypeAlias = Literal["read", "edit", "execute", "mcp", "other"]
PermissionAnswer: TypeAlias = Literal["allow", "ask", "deny"]

ToolList: TypeAlias = Sequence[Any] | Mapping[str, Any]
"""Tools, or typed functions that become tools. In a mapping, the keys are their names, also for rules."""
ToolsInput: TypeAlias = ToolList | Callable[["RequestContext"], ToolList]

BUILTIN_TOOLS = (
    "ask_user",
    "submit_plan",
    "task_write",
    "task_update",
    "task_complete",
    "task_check",
    "subagent",
)


REQUEST_KEY = "harness"
"""Where a request context has the session (`HarnessRequest`)."""


class RequestContext(dict[str, Any]):
    """Data passed with a message, for tools, factories and instructions. The model never sees it."""


class BackingAgent(msgspec.Struct, frozen=True, kw_only=True):
    """An agent run by the built-in loop: a model with these instructions and tools."""

    name: str = OWN_AGENT
    instructions: str = ""
    lasting_instructions: str | Callable[[], str] = ""
    """Before `instructions`. A thread keeps those that it began with, also in the next process, so that a provider need not
    read it anew; what is new in later ones comes as a message. A function is called for each message, in another thread."""
    tools: ToolList = ()
    model: Model | None = None
    """Used instead of the selected model; None: the selected one."""
    max_steps: int = 1000
    effort: str = ""
    """How much its model thinks: low, medium, high, max; empty: the default of the model."""
    temperature: float | None = None
    max_output_tokens: int | None = None
    """For one answer of its model."""
    context_window: int | None = None
    """How many tokens its model can read; None: as settings or its name say."""
    fallback_models: Sequence[str] = ()
    """Models that are asked, one after the other, where its own gives no answer."""
    around: Any = None
    """Asked before and after each call: given the environment of commands, it returns what has `before_call`, `before_run`
    and `after_call` of `AgentOptions`, or some of them."""
    goal: Any = None
    """A `GoalOptions`: judge, budget and prompt for the objectives of its threads."""


class CommandAgent(msgspec.Struct, frozen=True, kw_only=True):
    """An agent program. One with a two-way protocol runs on from message to message, and is answered and steered."""

    name: str
    permissions: Permissions = "agent-default"
    extra_args: Sequence[str] = ()
    env: Mapping[str, str] = msgspec.field(default_factory=dict)
    binary: str = ""
    recording: str = ""
    """For agent `replay`: the recording to play."""
    max_turns: int | None = None
    """How many turns its model may take for one message."""
    sandbox: bool = False
    """Confine it to the working directory and its own files; refused where that cannot be done."""
    folder_settings: FolderSettingsUse = ""
    """Whether it obeys settings that its folder brings; empty: if the folder is trusted, or with full access."""
    gateway: GatewayOptions | None = None
    """Put a gateway between it and its model; None: as the harness says, else as the user's settings do."""
    sealed: Sealed = ""
    """Through a gateway, and nothing else can be reached, nor written but the working directory and its own files."""
    tools: bool = False
    """Hand it the tools of the harness: `ask_user`, `submit_plan`, those of the application and of its MCP servers. What it
    calls of them is carried out in this process, and decided as for the built-in agent."""
    session: str = ""
    """The id of a session of its own, which a thread continues in which it has none yet."""


AgentInput: TypeAlias = str | BackingAgent | CommandAgent
"""A name (`native`, `claude`, `codex` …) or a description."""


def described(agent: AgentInput) -> BackingAgent | CommandAgent:
    """The description of an agent that may be given by name."""
    if isinstance(agent, BackingAgent | CommandAgent):
        return agent
    return BackingAgent() if agent == OWN_AGENT else CommandAgent(name=agent)


class Mode(msgspec.Struct, frozen=True, kw_only=True):
    """A named preset of a harness: instructions, tools, a default model and perhaps an agent of its own.

    A session is in one mode at a time; `session.mode.switch(mode_id=…)` changes it.
    """

    id: str
    name: str = ""
    default_model_id: str = ""
    description: str = ""
    instructions: str = ""
    agent: AgentInput | None = None
    """The agent of this mode only; None: that of the harness."""
    default: bool = False
    transitions_to: str = ""
    """The mode to enter when a plan is approved."""
    metadata: Mapping[str, Any] = msgspec.field(default_factory=dict)
    tools: ToolsInput | None = None
    """Used instead of the agent's tools."""
    additional_tools: ToolsInput | None = None
    """Added to the agent's tools."""
    available_tools: Sequence[str] | None = None
    """The names that the model may see in this mode; None: all."""
    mcp_servers: Sequence[str] | None = None
    """The MCP servers whose tools there are in this mode, by name; None: all."""
    keeps_prefix: bool = False
    """Nothing that the provider has read changes with the mode: its instructions come as a message, and tools that it does not
    have are shown, and refused. For the built-in loop."""


class Subagent(msgspec.Struct, frozen=True, kw_only=True):
    """An agent that the model can start with the tool `subagent`, for a part of its task."""

    id: str
    name: str
    description: str
    instructions: str | Sequence[str] | Callable[[RequestContext], str] = ""
    tools: ToolList = ()
    allowed_harness_tools: Sequence[str] = ()
    allowed_workspace_tools: Sequence[str] | None = None
    mcp_servers: Sequence[str] = ()
    """The MCP servers whose tools it has, by name; single tools of others are named in `allowed_harness_tools`."""
    default_model_id: str = ""
    max_steps: int | None = None
    stop_when: Callable[[Any], bool] | None = None
    forked: bool = False


class HeartbeatHandler(msgspec.Struct, frozen=True, kw_only=True):
    """A function that is called periodically, from `Harness.init` to `Harness.destroy`."""

    id: str
    interval_ms: int
    handler: Callable[[], Awaitable[None] | None]
    immediate: bool = True
    shutdown: Callable[[], Awaitable[None] | None] | None = None


class MemoryDefaults(msgspec.Struct, frozen=True, kw_only=True):
    """Which models observe and reflect, and from how many tokens on (`om_config`)."""

    default_observer_model_id: str = ""
    default_reflector_model_id: str = ""
    default_observation_threshold: int | None = None
    default_reflection_threshold: int | None = None


def check_modes(modes: Sequence[Mode], default_mode_id: str) -> None:
    """Raises UsageError for modes that contradict each other, and for an unknown default."""
    if not modes:
        raise UsageError("Harness requires at least one agent mode", hint="give modes=[Mode(id=…)]")
    ids: set[str] = set()
    for mode in modes:
        if mode.id in ids:
            raise UsageError(f'Duplicate mode id "{mode.id}" found when creating the Harness')
        ids.add(mode.id)
    for mode in modes:
        if mode.tools is not None and mode.additional_tools is not None:
            raise UsageError(
                f'Mode "{mode.id}" cannot set both "tools" and "additionalTools" - choose replace OR augment'
            )
        if mode.transitions_to == mode.id:
            raise UsageError(f'Mode "{mode.id}" transitionsTo cannot reference itself')
        if mode.transitions_to and mode.transitions_to not in ids:
            raise UsageError(
                f'Mode "{mode.id}" transitionsTo references unknown mode "{mode.transitions_to}"'
            )
    if default_mode_id and default_mode_id not in ids:
        raise UsageError(f"Default mode not found: {default_mode_id}", hint=f"there are: {', '.join(ids)}")


def default_mode(modes: Sequence[Mode], default_mode_id: str) -> Mode:
    if default_mode_id:
        return next(mode for mode in modes if mode.id == default_mode_id)
    marked = (mode for mode in modes if mode.default or mode.metadata.get("default") is True)
    return next(marked, modes[0])


def tools_of(given: ToolsInput | None, context: RequestContext) -> tuple[Tool, ...]:
    """The given tools as `Tool` objects; typed functions become tools."""
    if given is None or given == ():
        return ()
    from harness.native.tools.function_tool import tool

    if callable(given) and not isinstance(given, Sequence | Mapping):
        given = given(context)
    named: Iterable[tuple[str, Any]] = (
        given.items() if isinstance(given, Mapping) else (("", value) for value in given or ())
    )
    return tuple(
        tool(name=name)(value)
        if not hasattr(value, "spec")
        else Renamed(value, name)
        if name and name != value.spec.name
        else value
        for name, value in named
    )


# Checks what is stored beside a log: it must be encodable, and secrets are masked.


Secrets: TypeAlias = Mapping[str, str] | None
"""By name; None: nothing is masked."""


def check_event(event: Event, problem: str) -> None:
    """Raises UsageError for an event that cannot be encoded."""
    try:
        encode(event)
    except UNENCODABLE as error:
        raise UsageError(f"{problem}: {error}", hint="nothing was changed; use what JSON can say") from error


def storable_settings(settings: dict[str, Any], secrets: Secrets) -> dict[str, Any]:
    """A copy as a store holds it. Raises UsageError for values that cannot be encoded."""
    try:
        line = _line(settings)
    except UNENCODABLE as error:
        raise UsageError(
            f"a thread's setting cannot be stored: {error}", hint="nothing was changed; use what JSON can say"
        ) from error
    if secrets is not None:
        redactor = Redactor(secrets)
        line = redactor.feed(line) + redactor.flush()
    copy: dict[str, Any] = msgspec.json.decode(line)
    return copy


def storable_text(text: str, secrets: Secrets) -> str:
    text = plain_text(text)
    return text if secrets is None else redact_text(text, secrets)


def mask(metadata: Metadata, secrets: Secrets) -> None:
    """Mask secrets in the name, the prompt and the settings."""
    metadata.name = storable_text(metadata.name, secrets)
    metadata.prompt = storable_text(metadata.prompt, secrets)
    metadata.settings = storable_settings(metadata.settings, secrets)


def _line(settings: dict[str, Any]) -> bytes:
    try:
        return msgspec.json.encode(settings) + b"\n"
    except UNENCODABLE:
        return msgspec.json.encode(storable(settings)) + b"\n"
