"""The application's own typed state: checked as a whole, changed one write after the other, told in the log."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple, TypeAlias, get_args

import msgspec

from harness.errors import UsageError
from harness.events import Event, StateChanged
from harness.session.config import PermissionPolicy, ToolCategory
from harness.session.state_schema import plain_json, schema_of, without_halves
from harness.session.storable_settings import check_event

RULES_KEY = "permissionRules"
KINDS = ("categories", "tools")
POLICIES = get_args(PermissionPolicy)


def check_rules(value: Any) -> None:
    """Raises UsageError for rules that say nothing, or nothing that anybody would keep to."""
    if value is None:
        return
    if not isinstance(value, Mapping):
        raise _bad_rules(f"not an object but {type(value).__name__}")
    for kind, rules in value.items():
        if kind not in KINDS:
            raise _bad_rules(f"{kind!r} is neither `categories` nor `tools`")
        if not isinstance(rules, Mapping):
            raise _bad_rules(f"{kind}: not an object but {type(rules).__name__}")
        for name, policy in rules.items():
            if kind == "categories" and name not in get_args(ToolCategory):
                raise _bad_rules(f"unknown tool category: {name!r}")
            if policy not in POLICIES:
                raise _bad_rules(f"{kind}.{name}: unknown policy {policy!r}")


def _bad_rules(problem: str) -> UsageError:
    return UsageError(
        f"Invalid state update: {RULES_KEY}: {problem}",
        hint='write {"categories": {"read": "allow"}, "tools": {"bash": "ask"}}; nothing was changed',
    )


_logger = logging.getLogger("harness.session")


class StateUpdate(msgspec.Struct, kw_only=True):
    """What a transaction does: changes, events to be told after them, and its result."""

    updates: Mapping[str, Any] | None = None
    events: Sequence[Event] = ()
    result: Any = None


class Restored(NamedTuple):
    """What taking over a thread's state has done."""

    changed: list[str]
    """The keys of the log's that have another value than before."""
    unsaid: dict[str, Any]
    """What the thread's log does not say, and is true all the same."""


_YOLO = "yolo"
_RULES = RULES_KEY
_OF_SUBAGENTS = "subagentModelId_"
_OWN: dict[str, type] = {
    _YOLO: object,
    _RULES: object,
    "currentModelId": str,
    "projectPath": str,
    "observerModelId": str,
    "reflectorModelId": str,
    "observationThreshold": int,
    "reflectionThreshold": int,
    "subagentModelId": str,
}
"""What the harness itself keeps in a state, and reads there, with what it must be. (Nothing but True is `yolo`; rules
are read with care.)"""
_WORDS: dict[type, str] = {str: "text", int: "whole number"}
_inside: ContextVar[object | None] = ContextVar("harness_state_transaction", default=None)
"""The transaction in which the code that asks is running."""

Update: TypeAlias = StateUpdate | Mapping[str, Any]
"""A mapping has the same keys."""
Transaction: TypeAlias = Callable[[dict[str, Any]], Update | Awaitable[Update]]


class SessionState:
    """Contract: a failed write leaves the state as it was and does not hold up the next one. What the harness keeps
    here for itself never reaches the application's schema, unless that names it.
    """

    def __init__(
        self, schema: Any, initial: Mapping[str, Any] | None, append: Callable[[Event], object]
    ) -> None:
        """Raises UsageError for what is no schema, and for initial values that do not fit it."""
        self._schema = schema_of(schema)
        self._append = append
        self._turn = asyncio.Lock()
        self._transaction: object | None = None
        """That which goes on."""
        self._changed: set[str] = set()
        """Keys that somebody has set here: no thread says otherwise."""
        if initial is not None and not isinstance(initial, Mapping):
            raise UsageError(
                f"an initial state cannot be a {type(initial).__name__}",
                hint="give a mapping from names to values",
            )
        self._stored: dict[str, Any] = {}
        """As it is in the log."""
        self._value: dict[str, Any] = {}
        self._stored, self._value = self._taken(initial or {})
        self._has_rules = _RULES in self._value

    def get(self) -> dict[str, Any]:
        """A shallow copy."""
        return dict(self._value)

    def stored(self) -> dict[str, Any]:
        """As JSON, as it is in the log."""
        return dict(self._stored)

    def peek(self, key: str, default: Any = None) -> Any:
        """One value, without a copy of the rest."""
        return self._value.get(key, default)

    async def set(self, changes: Mapping[str, Any]) -> None:
        """Raises UsageError `Invalid state update: …`, also within a transaction of `update`."""
        self._check_outside()
        async with self._turn:
            self._apply(changes)

    async def update(self, transaction: Transaction) -> Any:
        """Read, decide and write as one step; nobody else's write comes in between."""
        self._check_outside()
        async with self._turn:
            self._transaction = object()
            token = _inside.set(self._transaction)
            try:
                made = transaction(self.get())
                update = _update(await made if inspect.isawaitable(made) else made)
            finally:
                _inside.reset(token)
                self._transaction = None
            for event in update.events:
                check_event(event, "Invalid event of a state update")
            if update.updates:
                self._apply(update.updates)
            for event in update.events:
                self._append(event)
            return update.result

    def restore(self, logged: Mapping[str, Any], kept: Mapping[str, Any]) -> Restored:
        """Take over what a thread's log says, but for what was changed here since; `kept` counts in any case.

        What may be done without asking is not for an old log to say: `yolo` is never taken over, rules only where
        the application gave none. A state that does not fit (any more) is left alone.
        """
        said = {key: value for key, value in logged.items() if key not in self._changed}
        if _YOLO in said:
            said[_YOLO] = self._stored.get(_YOLO, False)
        if self._has_rules:
            said.pop(_RULES, None)
        before = self._stored, self._value
        try:
            self._stored, self._value = self._read({**self._stored, **said, **kept})
        except UsageError:
            _logger.warning("the state that the thread had does not fit the schema", exc_info=True)
        changed = [key for key in said if self._differs(key, *before)]
        unsaid = {
            key: value
            for key, value in self._stored.items()
            if key not in kept and (key not in logged or logged[key] != value)
        }
        return Restored(changed, unsaid)

    def _check_outside(self) -> None:
        """Whoever waited for himself would wait for ever."""
        if self._transaction is not None and _inside.get() is self._transaction:
            raise UsageError(
                "Invalid state update: the state cannot be set within a transaction",
                hint="return what is to change as `updates`, or set it after update() has returned",
            )

    def _apply(self, changes: Mapping[str, Any]) -> None:
        before = self._stored, self._value
        self._stored, self._value = self._taken(changes)  # before it is told: listeners read it
        named = without_halves(dict(changes))
        changed = {
            key: one for key, one in self._stored.items() if key in named or self._differs(key, *before)
        }
        try:
            self._append(StateChanged(changes=changed))
        except BaseException:
            self._stored, self._value = before
            raise
        self._changed.update(changed)

    def _differs(self, key: str, stored: dict[str, Any], value: dict[str, Any]) -> bool:
        """From what it was before. A set may be written in any order, and not everything can be compared."""
        if key not in self._stored or key not in stored:
            return key in self._stored
        return bool(self._stored[key] != stored[key] and self._value[key] != value[key])

    def _taken(self, changes: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """The state with these changes: as it is stored, and as it is read again."""
        if not isinstance(changes, Mapping):
            raise UsageError(
                f"Invalid state update: a {type(changes).__name__} is no mapping from names to values",
                hint="nothing was changed",
            )
        check_rules(changes.get(_RULES))
        with _told_as_usage():
            own, theirs = self._divided({**self._value, **without_halves(dict(changes))})
            return self._read_parts(self._schema.stored(theirs), own)

    def _read(self, stored: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        with _told_as_usage():
            own, theirs = self._divided(stored)
            completed = self._schema.stored(self._schema.values(theirs))
            return self._read_parts({**completed, **theirs}, own)

    def _read_parts(
        self, stored: dict[str, Any], own: dict[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        kept = plain_json(own)
        for key, one in kept.items():
            _check_own(key, one)
        return {**stored, **kept}, {**self._schema.values(stored), **kept}

    def _divided(self, state: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """What the harness keeps for itself, and what is the application's."""
        own = {key: one for key, one in state.items() if _is_own(key) and key not in self._schema.keys}
        return own, {key: one for key, one in state.items() if key not in own}


def _is_own(key: Any) -> bool:
    return key in _OWN or (isinstance(key, str) and key.startswith(_OF_SUBAGENTS))


def _check_own(key: str, value: Any) -> None:
    """Raises ValueError: what we work with ourselves must be what we take it for."""
    kind = _OWN.get(key, str)
    if value is not None and (not isinstance(value, kind) or (kind is int and isinstance(value, bool))):
        raise ValueError(f"{key}: {value!r:.80} is no {_WORDS[kind]}")


@contextmanager
def _told_as_usage() -> Iterator[None]:
    try:
        yield
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise UsageError(f"Invalid state update: {error}", hint="nothing was changed") from error


def _update(given: Update) -> StateUpdate:
    if isinstance(given, StateUpdate):
        return given
    try:
        return StateUpdate(**given)
    except TypeError as error:
        raise UsageError(
            f"Invalid state update: {error}", hint="return a mapping with updates, events and result"
        ) from error
