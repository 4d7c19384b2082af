"""What a caller asks of a run: one dataclass, from which command line and library both derive."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias, TypedDict, get_args

import msgspec

from harness.contracts.model import Attachment
from harness.contracts.tool_servers import ServedTools
from harness.errors import UsageError

OWN_AGENT = "native"
"""The agent that needs no program: a loop in this process."""
REMOTE_AGENT = "remote"
"""The agent that stands for whatever agent a sandbox runner runs."""

Permissions: TypeAlias = Literal["full-access", "read-only", "agent-default", "ask", "accept-edits", "plan"]
"""
- `ask`: every call that changes something or runs a command waits for an answer, whatever the agent itself would ask
  about. Only agents that can be answered take it
- `accept-edits`: the same, but files below the folder are edited without asking
- `plan`: as `read-only`, until its plan is approved; then as `ask`
"""
FolderSettingsUse: TypeAlias = Literal["use", "none", ""]
"""Of the settings that the folder brings for the agent. Empty: used if the folder is trusted, or with full access."""
OnAsk: TypeAlias = Literal["wait", "deny", "allow"]
Sealed: TypeAlias = Literal["", "write", "read"]
"""What a sealed run may do besides asking its model: `write`, where it may; `read`: nothing of the home either."""


class GatewayOptions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How an agent program talks to its model through a gateway of ours, which holds the key and records every call."""

    recording: str = ""
    """A tape, or a raw record, that answers in place of a model."""
    further: tuple[str, ...] = ()
    """The raw records of the later messages of the same conversation."""
    recorded_model: str = ""
    """The model that the agent asked for in the recording, where it can be told to ask for it again."""
    source: str = ""
    """What that is called: the id of a session, or the file."""
    fork_at: int | None = None
    """After so many answers of its main conversation from the recording, a model answers: that of `model`, or the
    provider again."""
    is_strict: bool = False
    """The run ends at the first difference from the recording."""
    keeps_pace: bool = False
    """The pauses of the recording are kept."""
    own_home: bool = False
    """The agent gets a home of its own, without the user's settings. A replay always has one."""
    keeps_bodies: bool = True
    """Whether what was said is recorded, and not only how much. Without it there is no replay."""
    passes_login: bool = False
    """The agent keeps its own log-in, a subscription's, which is passed on unchanged to its vendor and to nobody else."""
    models: tuple[tuple[str, str], ...] = ()
    """Which model answers in place of others: a pattern of the name that the agent asks for, and `provider/model`. The first
    that fits counts; what fits none is answered as ever."""
    allow_hosts: tuple[str, ...] = ()
    """Hosts that a sealed run may reach besides, on port 443."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Each of these ends the run with its own outcome. None: no limit."""

    timeout_s: float | None = None
    """Wall time of the whole run, with the time that it waits for answers."""
    first_output_s: float | None = None
    """From the start to the agent's first byte."""
    inactivity_s: float | None = None
    """Between two pieces of output. Waiting for a person does not count."""
    max_turns: int | None = None
    max_budget_usd: float | None = None
    max_tokens: int | None = None
    """Read and written, in all steps together, those from a cache included."""
    at_limit: Literal["end", "ask", "summarise"] | None = None
    """At the limit of turns, tokens or money the built-in agent ends, asks a person whether to continue for as much
    again, or sums up with one more model call. None: it sums up at its turns, and ends at the others. Programs end."""

    def narrowed(self, other: Limits | None) -> Limits:
        """The smaller of both at each limit; `at_limit` of the other one counts where it says something."""
        if other is None:
            return self
        smaller = {
            name: min(values)
            for name in self.__struct_fields__
            if name != "at_limit"
            and (
                values := [
                    value for value in (getattr(self, name), getattr(other, name)) if value is not None
                ]
            )
        }
        return Limits(**smaller, at_limit=other.at_limit or self.at_limit)


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """Empty strings mean "not asked for": the agent's own default then holds."""

    agent: str
    prompt: str = ""
    prompt_id: str = ""
    """The id that the prompt has as a message of the log; empty: none."""
    briefing: str = ""
    """Text the agent gets before the prompt. The log has it as an event of its own, apart from the prompt."""
    cwd: str = ""
    model: str = ""
    permissions: Permissions = "full-access"
    on_ask: OnAsk | None = None
    """What happens where the agent must ask: it waits for an answer (`Run.reply`), or the question is refused or
    allowed without asking. None: it waits."""
    ask_timeout_s: float | None = None
    """A question that is not answered in time counts as refused. None: after five minutes."""
    asks_at_limit: bool = False
    """When a limit of `harness budget` is reached, the run asks for more and waits for the answer (`Run.reply`).
    Otherwise it ends there, or is refused before it begins."""
    is_held_to_rules: bool = False
    """With full access: start it so that it asks about each call, since whoever started it has rules of their own."""
    two_way: bool = False
    """Hold a conversation with the agent program, where it can: it is then steered, asked and interrupted while it
    runs. `permissions="ask"` and `"accept-edits"` need this and set it."""
    attachments: tuple[Attachment, ...] = ()
    """Images and documents beside the prompt, for agents that take them."""
    folder_settings: FolderSettingsUse = ""
    """Whether the agent obeys settings that the folder brings (hooks, servers, plugins); refused where it cannot be
    kept from it. Empty: only if the folder is trusted for this agent (`harness trust`), or with full access."""
    copy_of: str = ""
    """The folder that `cwd` is a copy of: trusted as that one is, if it brings the same."""
    sandbox: bool = False
    """Confine the agent: a program with all that it starts, the built-in one's commands. Refused where that cannot be
    done."""
    gateway: GatewayOptions | None = None
    """Put a gateway between the agent program and its model. With a `model` of the form `provider/name`, that one answers."""
    sealed: Sealed = ""
    """Through a gateway, and nothing else can be reached, nor written but the workspace and its own files; `read`: nor can
    the rest of the home be read. Refused where that cannot be done."""
    hidden: tuple[str, ...] = ()
    """Files and folders, but for `cwd`, that the agent must not see. Hidden by a wall where one can be built; elsewhere the run
    begins with a warning. An agent in another place, such as a container, does not see them anyway."""
    mcp: tuple[str, ...] = ()
    """`mcp.json` files, whose servers the agent may use."""
    tool_servers: tuple[ServedTools, ...] = ()
    """Tools of this process that the agent program is handed, by servers on loopback."""
    output_schema: dict[str, Any] | None = None
    """The answer is to be JSON of this strict schema."""
    resume: str = ""
    """The id of the agent's own session to continue."""
    fork: bool = False
    """Leave the session of `resume` as it is, and continue in a copy of it. Refused where the agent cannot."""
    session_id: str = ""
    """The id that the agent's new session is to have; made by the harness, for agents that take one."""
    continue_last: bool = False
    """Continue the agent's latest session in this directory."""
    effort: str = ""
    """How much the model is to reason: low, medium, high, or what else its provider knows."""
    temperature: float | None = None
    max_output_tokens: int | None = None
    """For one answer of the model."""
    context_window: int | None = None
    """How many tokens the model can read, where its name does not say so."""
    system_prompt: str = ""
    append_system_prompt: str = ""
    extra_args: tuple[str, ...] = ()
    env: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Set in the agent's environment, over the inherited one."""
    binary: str = ""
    recording: str = ""
    """A recorded stream to play instead of starting an agent (agent `replay`)."""
    native: str = ""
    """The agent whose format the output has, when it is not `agent` itself (replays)."""
    limits: Limits = Limits()
    context: str = ""
    """A file whose text the run may work on, for agents that take one apart from the prompt."""
    name: str = ""
    """What a person calls this session."""
    tags: tuple[str, ...] = ()

    @property
    def prompt_bytes(self) -> bytes:
        """The prompt as an agent reads it from stdin. Half a character (a lone surrogate) becomes `?`."""
        return self.prompt.encode("utf-8", "replace")

    def __post_init__(self) -> None:
        """Raises UsageError. Above all, a misspelt permission must not give the agent another one."""
        for name, (fits, expectation) in _FIELDS.items():
            value = getattr(self, name)
            if not fits(value):
                text = (
                    repr(value)[:80] if isinstance(value, str | int | None) else f"a {type(value).__name__}"
                )
                raise UsageError(f"{name} of a request cannot be {text}", hint=f"give {expectation}")
        for name in _WORDS:
            require_word(name, str(getattr(self, name)))


_WORDS = ("model", "effort", "resume", "session_id")
"""What agents are told as words of their command lines, whoever has named it: a front end, another agent, a file."""


def require_word(name: str, value: str) -> None:
    """Raises UsageError for what an agent could take for one of its options, which may be to ask nobody any more."""
    if value.startswith("-") or any(character < " " for character in value):
        raise UsageError(
            f"{name} of a request cannot be {value[:80]!r}",
            hint="give a name on one line that does not begin with a dash",
        )


def _one_of(*values: Any) -> tuple[Callable[[Any], bool], str]:
    return lambda value: value in values, f"one of {', '.join(str(choice) for choice in values)}"


_KINDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "str": (lambda value: isinstance(value, str | os.PathLike), "a text"),
    "bool": (lambda value: isinstance(value, bool), "True or False"),
    "tuple[str, ...]": (lambda value: isinstance(value, tuple | list), "a tuple of texts"),
    "Mapping[str, str]": (lambda value: isinstance(value, Mapping), "a mapping from names to texts"),
    "Limits": (lambda value: isinstance(value, Limits), "Limits(max_turns=…, max_budget_usd=…, timeout_s=…)"),
    "Permissions": _one_of(*get_args(Permissions)),
    "FolderSettingsUse": _one_of(*get_args(FolderSettingsUse)),
    "OnAsk | None": _one_of(*get_args(OnAsk), None),
    "Sealed": _one_of(*get_args(Sealed)),
    "GatewayOptions | None": (
        lambda value: value is None or isinstance(value, GatewayOptions),
        "GatewayOptions(…), or None",
    ),
}
_FIELDS = {name: _KINDS[kind] for name, kind in Request.__annotations__.items() if kind in _KINDS}
"""Field → whether a value fits, and which do."""


class Options(TypedDict, total=False):
    """What `harness.run` takes besides agent and prompt: the other fields of `Request`, for editors to complete."""

    prompt_id: str
    briefing: str
    cwd: str
    model: str
    permissions: Permissions
    on_ask: OnAsk | None
    ask_timeout_s: float | None
    asks_at_limit: bool
    is_held_to_rules: bool
    two_way: bool
    attachments: tuple[Attachment, ...]
    folder_settings: FolderSettingsUse
    copy_of: str
    sandbox: bool
    gateway: GatewayOptions | None
    sealed: Sealed
    hidden: tuple[str, ...]
    mcp: tuple[str, ...]
    tool_servers: tuple[ServedTools, ...]
    output_schema: dict[str, Any] | None
    resume: str
    fork: bool
    session_id: str
    continue_last: bool
    effort: str
    temperature: float | None
    max_output_tokens: int | None
    context_window: int | None
    system_prompt: str
    append_system_prompt: str
    extra_args: tuple[str, ...]
    env: Mapping[str, str]
    binary: str
    recording: str
    native: str
    limits: Limits
    context: str
    name: str
    tags: tuple[str, ...]
