"""What the server answers, for `/openapi.json`; a test compares every answer with it."""

from __future__ import annotations

from typing import Any, Literal

import msgspec


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


class ErrorWords(msgspec.Struct, omit_defaults=True):
    message: str
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


class AgentList(msgspec.Struct):
    agents: list[AgentData]
    runners: list[dict[str, Any]]


class ModelData(msgspec.Struct, kw_only=True, rename="camel"):
    id: str
    description: str
    provider: str
    usable: bool


class ModelList(msgspec.Struct, kw_only=True, rename="camel"):
    models: list[ModelData]
    default_model: str


class UsageTotals(msgspec.Struct):
    """As `harness usage --json`: each row has what it is grouped by, and the amounts of the total."""

    by: str
    rows: list[dict[str, Any]]
    total: dict[str, Any]
    prices_date: str


class Done(msgspec.Struct):
    success: bool


class ServerSentEvents(msgspec.Struct):
    """A stream (text/event-stream); see docs/protocol.md for what its events say."""
