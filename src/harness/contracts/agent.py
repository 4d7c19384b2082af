"""What Harness knows of one agent program. Each file in `agents/` defines one `AGENT`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from harness.contracts.request import Request
from harness.contracts.translator import Translator
from harness.contracts.worker import Worker

if TYPE_CHECKING:
    from harness.contracts.driver import Driver
    from harness.contracts.toolset import Toolset

WorkerFactory: TypeAlias = Callable[[Any, Any, Any, bool], Worker]
"""(launch, hub, on_end, redact) → the worker of a run."""

Version = tuple[int, ...]
"""Numbers of a version, `(2, 1, 325)`; empty when it is not known."""


OUR_PYTHON = "HARNESS_PYTHON"
HOOK_FOLDER = "HARNESS_FOLDER"
"""Variables of an agent that runs a hook of ours: the interpreter for it, and the folder of the run."""


Json: TypeAlias = "dict[str, Any]"


class HeldSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of ours that the program has to obey, whatever is set already: a JSON file."""

    file: str
    """Ours. It stands among the arguments of the command, if no variable names it."""
    over: Callable[[Json, list[Json]], Json]
    """(ours, those that are there) → what the program is given."""
    theirs: tuple[str, ...]
    """Where settings may be already. `~` and variables (`$NAME`) are those of its environment; a relative path is looked for
    in the run's folder and in all above it."""
    variable: str = ""
    """By which the program finds ours. What it names already counts instead of `theirs`."""
    beside: Mapping[str, str] = {}
    """Variable → name of another file, which it looks for beside that one without this variable."""


class CommandLine(msgspec.Struct, frozen=True, kw_only=True):
    """How a request is put to the program: arguments after the binary, extra environment, stdin."""

    args: tuple[str, ...]
    env: dict[str, str] = msgspec.field(default_factory=dict)
    stdin: bytes | None = None
    """None: the agent's stdin is closed."""
    held_by: HeldSettings | None = None


class SessionFiles(msgspec.Struct, frozen=True, kw_only=True):
    """Where an agent that never reports the id of its session stores it: `FOLDER/ID/ID.json`, an object of these keys."""

    folders: tuple[str, ...]
    """The first that there is counts; `~` and variables (`$NAME`) are those of the agent's environment."""
    option: str = ""
    """The argument that names another folder, in which lies a folder `sessions`."""
    id: str = "session_id"
    cwd: str = "cwd"
    prompt: str = "prompt"
    pid: str = "pid"


class CommandFiles(msgspec.Struct, frozen=True, kw_only=True):
    """Where an agent has slash commands as files: each is named by its path below the folder, `folder:file`."""

    folders: tuple[str, ...]
    """`~` and variables (`$NAME`) are the user's; a relative folder is the project's. Later ones count more."""
    suffix: str = ".md"
    """`.md`, with a description at the top; or `.toml`, with `description` and `prompt`."""
    is_taken: bool = True
    """Whether a prompt that begins with `/name` is the command; else its text must be the prompt."""


class TrustingSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the user that an agent obeys more than what it was told to ask about."""

    files: tuple[str, ...]
    """`~` and variables (`$NAME`) are those of its environment; a relative path is the folder's. A `*` stands for any name."""
    pattern: str
    """A regular expression that only settings of this kind fit."""
    what: str
    """What it does then, for `ask … does not ask about everything: …`; `{path}` is the file."""
    reach_reading: bool = False
    """Whether with them a run that may only read is not held to its folder, either."""


class UserGrants(msgspec.Struct, frozen=True, kw_only=True):
    """Files in which the user has allowed the program commands, which it then runs unasked in every mode."""

    files: tuple[str, ...]
    """`FOLDER/PATTERN`: `~` and variables (`$NAME`) are those of its environment; a relative folder is looked for in the
    run's folder and in all above it."""
    rule: str
    """A regular expression that fits each rule of such a file once."""
    harmless: str
    """One that fits, once, each rule that allows nothing."""


class NewSessionFile(msgspec.Struct, frozen=True, kw_only=True):
    """The file of a session of an agent that writes over it if it loads the session in the minute of its beginning."""

    folders: tuple[str, ...]
    """The first that is there counts. `~` and variables (`$NAME`) are those of its environment."""
    name: str
    """A pattern below that: `{id}` are the first eight letters of the session's id, `{minute}` is as in 2026-11-19T18-05."""


class TwoWay(msgspec.Struct, frozen=True, kw_only=True):
    """How an agent program is held in a conversation: started once, prompted, asked, answered and steered over pipes.

    Contract: `command`, `driver` and `translator` do no I/O and never raise on a valid request.
    """

    command: Callable[[Request, Version], CommandLine]
    """How the process is started. Its stdin stays open, so `CommandLine.stdin` is not used; the prompt is the driver's."""
    driver: Callable[[Request, str], Driver]
    """(request, id of the line) → a driver for one process."""
    translator: Callable[[], Translator]
    """For what the program writes in a two-way conversation; a new one for every run."""
    capabilities: frozenset[str]
    """Of steer, approve, ask, plan, files, model, mode, fork: what can be expected before the program runs."""
    tools: Toolset | None = None
    """What its tools do: by this table it is decided what may be done without asking. None: nothing may."""
    supports: frozenset[str] | None = None
    """As `Agent.supports`, where a two-way conversation takes other parts of a request."""
    unasked: str = ""
    """What it does without asking although it was to ask about everything: then it is never run with `ask`."""
    trusting: TrustingSettings | None = None
    """Settings by which it does something without asking although it was to ask: with them, `ask` is refused."""
    new_session_file: NewSessionFile | None = None
    """A session that has only this file yet is not loaded: it would be lost."""
    since: Version = ()
    """The first version that can be driven in this way."""
    asks_since: Version = ()
    """The first version that asks about everything when it is to; empty: all of them do."""
    delta_keys: tuple[str, ...] | None = None
    """As `Agent.delta_keys`, where its two-way stream has other ones."""
    has_schema_at_start: bool = False
    """The schema of an answer is an option of the process, not of a prompt: another one needs another process."""
    transport: Literal["stdio", "http"] = "stdio"
    """How the process is reached: over its stdin and stdout, or as a local HTTP server whose address it prints."""


class Agent(msgspec.Struct, frozen=True, kw_only=True):
    """Contract: `command` and `translator` do no I/O and never raise on a valid request."""

    name: str
    title: str
    binaries: tuple[str, ...]
    """Names looked for on PATH, in this order. Without any, and without `work`, the caller has to name a program."""
    command: Callable[[Request, Version], CommandLine]
    translator: Callable[[], Translator]
    reads_unasked: bool = False
    """It reads files of its folder without asking, whatever it is told: no rule about reading can hold with it."""
    supports: frozenset[str]
    """The optional parts of a request that this agent takes: model, mcp, resume, continue_last, max_turns,
    max_budget_usd, system_prompt, append_system_prompt, on_ask, ask_timeout_s, effort, temperature,
    max_output_tokens, read-only, agent-default. What is not here is dropped with a warning. An agent that runs in this
    process also says whether it takes extra_args, and sandbox, which is refused where it is not here."""
    homes: tuple[str, ...] = ()
    """Its own files and folders, with its settings, login and sessions: in a sandbox it can read and write them. `~`
    and variables (`$NAME`) are those of its environment; one whose variable is not set is left out. A folder with `/` at
    its end is made where it is missing; what it would write to another one that is missing is lost there."""
    without_settings: dict[str, str] = msgspec.field(default_factory=dict)
    """Variables by which it looks for no settings in its folder. Set in a sandbox where there are none: what stands in
    for them there is not to be taken for some."""
    since: dict[str, Version] = msgspec.field(default_factory=dict)
    """The first version that takes a part of `supports`, where not all of them do; `needs_version` is set then."""
    names_sessions_since: Version | None = None
    """From which version on it takes the id that a new session is to have: `Request.session_id`."""
    screen_resume: tuple[str, ...] = ()
    """Arguments that continue the session `{id}` in the agent's own screen; empty where it cannot."""
    session_files: SessionFiles | None = None
    """Where the id of its session is found after a run, if its stream never says it."""
    command_files: tuple[CommandFiles, ...] = ()
    obeys: tuple[str, ...] = ()
    """Names in its folder by which it starts programs or asks less; of an agent that is not in `approvals/protected.py`."""
    grants: UserGrants | None = None
    """Where somebody is to be asked, or nothing may run, these are hidden from it."""
    leaves_settings: bool = False
    """Whether its command obeys nothing of these with `folder_settings="none"`. Otherwise only a wall can hide them."""
    leaves_names: tuple[str, ...] = ()
    """Of an agent that does not: those that its command obeys none of then."""
    work: WorkerFactory | str | None = None
    """For an agent that runs in this process, which needs no binary. As text, `package.module:function`: it is imported
    with the first run, so that its name alone, which every list needs, loads no loop."""
    two_way: TwoWay | None = None
    """For a program that takes more than one prompt: how it is approved, steered and interrupted."""
    only_two_way: bool = False
    """Whether it has no other form: every run of it is a conversation."""
    aliases: tuple[str, ...] = ()
    key_variables: tuple[str, ...] = ()
    """Environment variables that may hold its credentials."""
    install: str = ""
    """One line on how to get it."""
    login: str = ""
    """What a person types in a terminal to log in to it."""
    version_args: tuple[str, ...] = ("--version",)
    """Empty: it is never asked for its version."""
    needs_version: bool = False
    """Whether `command` depends on the version, so that it must be probed before a run."""
    delta_keys: tuple[str, ...] = ()
    """JSON keys whose string values are pieces of one streamed text (redaction joins them)."""
    reveals: dict[str, str] = msgspec.field(default_factory=dict)
    """What its stream shows and what it hides, for the documentation: deltas, reasoning, sub-agents, usage, cost …"""
    derived: bool = False
    """Written from its documentation alone, never seen running."""


def work_of(agent: Agent) -> WorkerFactory | None:
    """What runs the agent in this process; None where it is a program."""
    if not isinstance(agent.work, str):
        return agent.work
    module, _, function = agent.work.partition(":")
    work: WorkerFactory = getattr(import_module(module), function)
    return work
