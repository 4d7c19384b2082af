"""Which questions of an agent program are answered without a person: the rules of one run.

| `permissions` | a question for permission |
|---|---|
| `full-access` | allowed |
| `read-only` | refused |
| `ask`, `agent-default` | allowed if it only reads, or was allowed for always; else as `on_ask` says, or by a person |

Other questions (which one, is the plan good) are for a person, or refused where `on_ask` is not `wait`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from msgspec.structs import replace

from harness.events import Operation, Relay, RelayChoice, RelayReply
from harness.events.operation import Command, Fetch, Spawn, Write
from harness.sources.loop.approval_choices import choices_for, granted, permission_of_program
from harness.sources.loop.approvals import answering
from harness.sources.loop.permissions import READS, matches_any
from harness.sources.request import Request
from harness.sources.tool import ToolPermission


class ApprovalPolicy(Protocol):
    """The rules that are asked first. Called in the thread of the run."""

    def decide(self, relay: Relay, operations: Sequence[Operation]) -> RelayReply | None:
        """The answer of the rules; None: a person has to answer."""
        ...

    def grant(self, permission: ToolPermission) -> None:
        """A person allowed this for always."""
        ...


class RunPolicy:
    """The rules of a run without a session: its permissions, and what was allowed since it began."""

    def __init__(self, request: Request, put: Callable[[Any], object]) -> None:
        self._permissions = request.permissions
        self._unattended = answering(request.on_ask, put)
        self._granted: list[ToolPermission] = []

    def decide(self, relay: Relay, operations: Sequence[Operation]) -> RelayReply | None:
        if relay.kind == "permission":
            if self._permissions == "full-access":
                return _by_policy(relay, approved=True)
            if self._permissions == "read-only":
                return _by_policy(relay, approved=False, reason="this run may only read")
            if only_reads(operations):
                return _by_policy(relay, approved=True)
            if matches_any(self._granted, relay.tool_name, arguments_of(relay), operations):
                return _by_policy(relay, approved=True, reason="allowed for always")
        return self._unattended(relay) if self._unattended is not None else None

    def grant(self, permission: ToolPermission) -> None:
        self._granted.append(permission)


_CATEGORIES: tuple[tuple[tuple[type, ...], str], ...] = (
    ((Command,), "execute"),
    ((Write, Spawn), "edit"),
    ((Fetch,), "other"),
    (READS, "read"),
)


def category_of(relay: Relay, operations: Sequence[Operation]) -> str:
    """The category of a call, by the strongest thing that it does; empty where it is not known what it does."""
    for kinds, category in _CATEGORIES:
        if any(isinstance(one, kinds) for one in operations):
            return category
    return "mcp" if relay.tool_name.startswith("mcp__") else ""


def of_plan(reply: RelayReply) -> RelayReply:
    """The answer to a plan: approved or not, and what is to be changed. Sessions answer `{action, feedback}`."""
    if not isinstance(reply.answer, dict):
        return reply
    is_approved = reply.approved and reply.answer.get("action", "approved") == "approved"
    feedback = reply.answer.get("feedback")
    reason = reply.reason or (feedback if isinstance(feedback, str) else "")
    return replace(reply, approved=is_approved, reason=reason)


def only_reads(operations: Sequence[Operation]) -> bool:
    return bool(operations) and all(isinstance(one, READS) for one in operations)


def arguments_of(relay: Relay) -> dict[str, Any]:
    return relay.input if isinstance(relay.input, dict) else {"input": relay.input}


def offered_choices(relay: Relay, operations: Sequence[Operation]) -> list[RelayChoice]:
    """The answers to a question for permission: once, for always in our own rules, or not."""
    return choices_for(permission_of_program(relay.tool_name, arguments_of(relay), operations), operations)


def grants_of(relay: Relay, reply: RelayReply) -> list[ToolPermission]:
    """What an answer allows from now on."""
    return granted(relay, reply, None) if reply.approved else []


def _by_policy(relay: Relay, *, approved: bool, reason: str = "") -> RelayReply:
    return RelayReply(id=relay.id, approved=approved, by="policy", reason=reason)
