"""What the server answers, for `/openapi.json`; a test compares every answer with it."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from harness.clients.workspaces.prompt_commands import CommandChoice


class SessionPassage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Where a session has what was searched for."""

    at_ms: int
    text: str
    """One line, without secrets."""
    how: str
    """Of a file, a command or a commit: what the session did with it."""
    certainty: str
    """Of a commit: `sure`, `likely` or `guess`."""
    resume: str
    """The command that continues the session."""


class SessionData(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    id: str
    kind: str
    title: str
    name: str
    prompt: str
    agent: str
    agent_name: str
    runner: str
    model: str
    mode: str
    permission_mode: str
    cwd: str
    started_ms: int
    updated_ms: int
    duration_ms: int | None
    outcome: str
    is_live: bool
    waits: bool
    cost_usd: float | None
    tags: list[str]
    history: str = ""
    """Of a session that Harness has not recorded: the agent whose own history it is in, by its display name."""
    activity: str = ""
    """Of such a session, while its agent has it open: `running`, `waiting` or `idle`."""
    passage: SessionPassage | None = None
    """Where it was found, by a search."""


class ErrorWords(msgspec.Struct, omit_defaults=True):
    message: str
    code: str = ""
    """For programs: `unknown_session`, `usage_error` …"""
    hint: str = ""
    """What to do next."""


class ErrorBody(msgspec.Struct):
    error: ErrorWords


class Health(msgspec.Struct):
    status: Literal["ok", "not ready"]


class Nothing(msgspec.Struct):
    """An object without fields."""


class ModeData(msgspec.Struct):
    id: str
    name: str


class ServerData(msgspec.Struct, kw_only=True, rename="camel"):
    version: str
    default_agent: str
    default_model: str
    cwd: str
    modes: list[ModeData]
    permission_modes: list[str]


class SessionList(msgspec.Struct, kw_only=True, rename="camel"):
    sessions: list[SessionData]
    total: int


class StateMessage(msgspec.Struct):
    """See docs/protocol.md for the state."""

    type: Literal["state"]
    state: dict[str, Any]
    seq: int


class Timeline(msgspec.Struct):
    seqs: list[int]
    times: list[int]


class RunList(msgspec.Struct):
    """See docs/protocol.md for a run."""

    runs: list[dict[str, Any]]


class CallData(msgspec.Struct):
    input: Any
    output: str
    files: list[dict[str, Any]]


class SandboxData(msgspec.Struct):
    by: str
    """What would confine it here: namespaces, bubblewrap or landlock; empty: nothing can."""
    refusal: str
    """Why nothing can."""


class AgentData(msgspec.Struct, kw_only=True, rename="camel"):
    name: str
    title: str
    version: str
    installed: bool
    usable: bool
    built_in: bool
    install: str
    models: bool
    capabilities: dict[str, bool]
    two_way: list[str]
    """What can be done with it while it runs: approve, ask, steer …"""
    permission_modes: dict[str, str]
    """The modes of `permissionMode` → why this version cannot be held to it; empty: it can."""
    sandbox: SandboxData
    keys: list[str]
    """Variables of the environment that it takes its key from."""


class AgentList(msgspec.Struct):
    agents: list[AgentData]
    runners: list[dict[str, Any]]


class ModelData(msgspec.Struct, kw_only=True, rename="camel"):
    id: str
    description: str
    provider: str
    usable: bool
    name: str
    """For people."""
    price_in: float | None
    """Dollars per million tokens; null: unknown."""
    price_out: float | None


class ModelList(msgspec.Struct, kw_only=True, rename="camel"):
    models: list[ModelData]
    default_model: str


class ProjectData(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    folder: str
    name: str
    branch: str = ""
    is_repository: bool = False
    used_ms: int = 0
    """When a session there was last written; 0: never."""
    live_agents: list[str] = []
    """Those that work in it now."""
    changed: int | None = None
    """How many files are not committed; null: not looked."""


class ProjectList(msgspec.Struct, frozen=True):
    projects: list[ProjectData]


class FolderData(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    name: str
    path: str
    is_project: bool


class FolderList(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    path: str
    above: str
    """Empty: the folder above is not shown."""
    folders: list[FolderData]
    has_more: bool
    roots: list[str] = []
    """The folders from which all that are shown can be reached."""


class FileList(msgspec.Struct, frozen=True):
    files: list[str]


class CommandChoices(msgspec.Struct, frozen=True):
    commands: list[CommandChoice]


class Demonstration(msgspec.Struct, frozen=True):
    folder: str
    """A scratch folder."""
    model: str
    prompt: str


class StoredHistory(msgspec.Struct, frozen=True):
    agent: str
    title: str
    sessions: int


class StoredHistories(msgspec.Struct, frozen=True):
    histories: list[StoredHistory]


class KeptSession(msgspec.Struct, frozen=True):
    """A copy of a session that an agent has stored itself."""

    id: str
    """Of the log."""
    status: Literal["copied", "current", "empty"]
    """`current`: there was a copy of the same."""


class HandoverOffer(msgspec.Struct, frozen=True, kw_only=True):
    """How a session would be handed over to another agent."""

    agent: str
    title: str
    version: str
    form: Literal["native", "briefing"]
    """As a session of the agent's own, or as a text before the prompt."""
    why: str
    messages: int
    calls: int
    lost: list[str]
    """What the other agent does not get."""
    now: list[str]
    """What has become of the files since."""


class Worktree(msgspec.Struct, frozen=True):
    folder: str
    branch: str
    base: str
    """The branch that it begins with; empty: none."""


class AgentOutcomes(msgspec.Struct):
    agent: str
    runs: int
    outcomes: dict[str, int]
    """How many runs ended in each way; `unfinished`: they have not."""


class UsageTotals(msgspec.Struct):
    """As `harness usage --json`: each row has what it is grouped by, and the amounts of the total."""

    by: str
    rows: list[dict[str, Any]]
    total: dict[str, Any]
    prices_date: str
    outcomes: list[AgentOutcomes]
    """How the runs of each agent ended."""
    unread_sessions: int = 0
    """So many sessions that agents have stored are not read yet, and not counted."""


class Done(msgspec.Struct):
    success: bool


class ExportedSession(msgspec.Struct):
    """A document for people."""


class ServerSentEvents(msgspec.Struct):
    """A stream (text/event-stream); see docs/protocol.md for what its events say."""
