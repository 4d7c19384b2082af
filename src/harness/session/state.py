"""The application's typed state: validated as a whole, changed by one write at a time, logged."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeAlias, get_args

import msgspec
from msgspec.structs import replace

from harness.errors import UsageError
from harness.events import Event, Signal, StateChanged
from harness.session.config import PermissionAnswer, ToolCategory, check_event
from harness.session.public_side import public
from harness.session.signals import create
from harness.session.state_schema import plain_json, schema_of, without_halves

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # of the type checker alone: this default comes with Python 3.13

    State = TypeVar("State", default=dict[str, Any])
else:
    from typing import TypeVar

    State = TypeVar("State")

RULES_KEY = "permissionRules"
KINDS = ("categories", "tools")
POLICIES = get_args(PermissionAnswer)


def check_rules(value: Any) -> None:
    """Raises UsageError for permission rules that are not valid."""
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
    """What a transaction returns: changes, events to be emitted after them, and its result."""

    updates: Mapping[str, Any] | None = None
    events: Sequence[Event] = ()
    result: Any = None


class Restored(NamedTuple):
    """What restoring a thread's state has changed."""

    changed: list[str]
    """The logged keys whose values differ from before."""
    unlogged: dict[str, Any]
    """Current values that the thread's log does not have."""


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
"""Keys that the harness itself stores in a state, with their types. (Only True counts as `yolo`; rules are
checked when read.)"""
_WORDS: dict[type, str] = {str: "text", int: "whole number"}
_inside: ContextVar[object | None] = ContextVar("harness_state_transaction", default=None)
"""The transaction in which the calling code runs."""

Update: TypeAlias = StateUpdate | Mapping[str, Any]
"""A mapping has the fields of `StateUpdate`."""
Transaction: TypeAlias = Callable[[dict[str, Any]], Update | Awaitable[Update]]


@public("peek", "restore", "stored")
class SessionState(Generic[State]):
    """Contract: a failed write leaves the state as it was and does not block the next one. Keys of the
    harness never reach the application's schema, unless the schema names them.
    """

    def __init__(
        self, schema: Any, initial: Mapping[str, Any] | None, append: Callable[[Event], object]
    ) -> None:
        """Raises UsageError for an invalid schema, and for initial values that do not fit it."""
        self._schema = schema_of(schema)
        self._append = append
        self._turn = asyncio.Lock()
        self._transaction: object | None = None
        """The current one."""
        self._changed: set[str] = set()
        """Keys that were set here; restoring a thread does not change them."""
        if initial is not None and not isinstance(initial, Mapping):
            raise UsageError(
                f"an initial state cannot be a {type(initial).__name__}",
                hint="give a mapping from names to values",
            )
        self._stored_values: dict[str, Any] = {}
        """As it is in the log."""
        self._value: dict[str, Any] = {}
        self._stored_values, self._value = self._taken(initial or {})
        self._has_rules = _RULES in self._value

    @property
    def value(self) -> State:
        """The state as one object of the schema, such as your dataclass: a copy, so `change` is what changes it.

        Without a schema, and with a JSON Schema, a dict.
        """
        whole: State = self._schema.whole(self._divided(self._stored_values)[1])
        return whole

    async def change(self, **changes: Any) -> State:
        """Change these fields, and return the new state. Raises UsageError as `set` does."""
        await self.set(changes)
        return self.value

    def get(self) -> dict[str, Any]:
        """A shallow copy."""
        return dict(self._value)

    def stored(self) -> dict[str, Any]:
        """As JSON, as it is in the log."""
        return dict(self._stored_values)

    def peek(self, key: str, default: Any = None) -> Any:
        """One value, without a copy of the rest."""
        return self._value.get(key, default)

    async def set(self, changes: Mapping[str, Any]) -> None:
        """Raises UsageError `Invalid state update: …`, also within a transaction of `update`."""
        self._check_outside()
        async with self._turn:
            self._apply(changes)

    async def update(self, transaction: Transaction) -> Any:
        """Read, decide and write as one step; no other write comes in between."""
        self._check_outside()
        async with self._turn:
            self._transaction = object()
            token = _inside.set(self._transaction)
            try:
                result = transaction(self.get())
                update = _update(await result if inspect.isawaitable(result) else result)
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

    def restore(self, logged: Mapping[str, Any], fixed: Mapping[str, Any]) -> Restored:
        """Restore the state in a thread's log, except keys that were changed here; `fixed` always applies.

        An old log must not widen permissions: `yolo` is never restored, rules only if the application gave
        none. A state that does not fit the schema is not restored.
        """
        restored = {key: value for key, value in logged.items() if key not in self._changed}
        if _YOLO in restored:
            restored[_YOLO] = self._stored_values.get(_YOLO, False)
        if self._has_rules:
            restored.pop(_RULES, None)
        before = self._stored_values, self._value
        try:
            self._stored_values, self._value = self._read({**self._stored_values, **restored, **fixed})
        except UsageError:
            _logger.warning("the state that the thread had does not fit the schema", exc_info=True)
        changed = [key for key in restored if self._differs(key, *before)]
        unlogged = {
            key: value
            for key, value in self._stored_values.items()
            if key not in fixed and (key not in logged or logged[key] != value)
        }
        return Restored(changed, unlogged)

    def _check_outside(self) -> None:
        """A write within a transaction would wait for itself for ever."""
        if self._transaction is not None and _inside.get() is self._transaction:
            raise UsageError(
                "Invalid state update: the state cannot be set within a transaction",
                hint="return what is to change as `updates`, or set it after update() has returned",
            )

    def _apply(self, changes: Mapping[str, Any]) -> None:
        before = self._stored_values, self._value
        self._stored_values, self._value = self._taken(changes)  # before it is emitted: listeners read it
        changes_named = without_halves(dict(changes))
        changed = {
            key: value
            for key, value in self._stored_values.items()
            if key in changes_named or self._differs(key, *before)
        }
        try:
            self._append(StateChanged(changes=changed))
        except BaseException:
            self._stored_values, self._value = before
            raise
        self._changed.update(changed)

    def _differs(self, key: str, stored_values: dict[str, Any], value: dict[str, Any]) -> bool:
        """Whether the key changed. A set may be stored in any order, and not every value can be compared."""
        if key not in self._stored_values or key not in stored_values:
            return key in self._stored_values
        return bool(self._stored_values[key] != stored_values[key] and self._value[key] != value[key])

    def _taken(self, changes: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """The state with these changes: as it is stored, and as it is read again."""
        if not isinstance(changes, Mapping):
            raise UsageError(
                f"Invalid state update: a {type(changes).__name__} is no mapping from names to values",
                hint="nothing was changed",
            )
        check_rules(changes.get(_RULES))
        with _as_usage_error():
            own, theirs = self._divided({**self._value, **without_halves(dict(changes))})
            return self._read_parts(self._schema.stored(theirs), own)

    def _read(self, stored_values: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        with _as_usage_error():
            own, theirs = self._divided(stored_values)
            completed = self._schema.stored(self._schema.values(theirs))
            return self._read_parts({**completed, **theirs}, own)

    def _read_parts(
        self, stored_values: dict[str, Any], own: dict[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        settings = plain_json(own)
        for key, value in settings.items():
            _check_own(key, value)
        return {**stored_values, **settings}, {**self._schema.values(stored_values), **settings}

    def _divided(self, state: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Keys of the harness, and keys of the application."""
        own = {key: value for key, value in state.items() if _is_own(key) and key not in self._schema.keys}
        return own, {key: value for key, value in state.items() if key not in own}


def _is_own(key: Any) -> bool:
    return key in _OWN or (isinstance(key, str) and key.startswith(_OF_SUBAGENTS))


def _check_own(key: str, value: Any) -> None:
    """Raises ValueError if a key of the harness has a value of a wrong type."""
    kind = _OWN.get(key, str)
    if value is not None and (not isinstance(value, kind) or (kind is int and isinstance(value, bool))):
        raise ValueError(f"{key}: {value!r:.80} is no {_WORDS[kind]}")


@contextmanager
def _as_usage_error() -> Iterator[None]:
    try:
        yield
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise UsageError(f"Invalid state update: {error}", hint="nothing was changed") from error


def _update(value: Update) -> StateUpdate:
    if isinstance(value, StateUpdate):
        return value
    try:
        return StateUpdate(**value)
    except TypeError as error:
        raise UsageError(
            f"Invalid state update: {error}", hint="return a mapping with updates, events and result"
        ) from error


# State signals: a lane for each thing whose state the model must know.
#
# A lane has a snapshot as its base, and the deltas since. A signal is repeated only when the model no longer
# sees it in its context.


IsVisible: TypeAlias = Callable[[str], bool]
"""Whether the model still sees the signal of that id."""


class StateReport(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a lane, to be sent as a signal."""

    id: str
    """The id of the lane."""
    cache_key: str
    contents: str
    mode: Literal["snapshot", "delta"] = "snapshot"
    tag_name: str = "state"
    value: Any = None
    delta: Any = None
    attributes: dict[str, Any] | None = None


class SentState(msgspec.Struct, kw_only=True):
    """One sent signal of a lane, with the fields that are needed later."""

    signal_id: str
    cache_key: str
    mode: str
    value: Any = None
    delta: Any = None


class StateLane(msgspec.Struct, kw_only=True):
    """What was sent about one thing: the last snapshot, and the deltas since."""

    snapshot: SentState | None = None
    deltas: list[SentState] = msgspec.field(default_factory=list)
    version: int = 0

    @property
    def last(self) -> SentState | None:
        return self.deltas[-1] if self.deltas else self.snapshot

    def has_base(self, is_visible: IsVisible) -> bool:
        """Whether the model still sees all of it: without its base a delta means nothing."""
        return self.snapshot is not None and all(
            is_visible(sent_state.signal_id) for sent_state in (self.snapshot, *self.deltas)
        )


class StateLanes(msgspec.Struct, kw_only=True):
    """A fold of a log's signals; itself data, so that a snapshot can hold it."""

    lanes: dict[str, StateLane] = msgspec.field(default_factory=dict)

    def lane(self, id: str) -> StateLane:
        return self.lanes.get(id) or StateLane()

    def feed(self, signal: Signal) -> None:
        """Record a logged signal; signals without state are ignored."""
        state = signal.state
        if not state or not isinstance(state.get("id"), str):
            return
        lane = self.lanes.setdefault(state["id"], StateLane())
        metadata = signal.metadata or {}
        sent_state = SentState(
            signal_id=signal.id,
            cache_key=str(state.get("cacheKey", "")),
            mode=str(state.get("mode", "snapshot")),
            value=metadata.get("value"),
            delta=metadata.get("delta"),
        )
        lane.version += 1
        if sent_state.mode == "delta":
            lane.deltas.append(sent_state)
        else:
            lane.snapshot, lane.deltas = sent_state, []

    def signal(self, update: StateReport, *, id: str, is_visible: IsVisible) -> Signal | None:
        """The signal for an update; None when it is unchanged: the model still sees the same state."""
        signal = create(
            "state",
            update.contents,
            id=id,
            tag_name=update.tag_name,
            attributes=update.attributes,
            metadata={"value": update.value} | ({} if update.delta is None else {"delta": update.delta}),
            state={"id": update.id, "cacheKey": update.cache_key, "mode": update.mode},
        )
        return self.numbered(signal, is_visible=is_visible)

    def numbered(self, signal: Signal, *, is_visible: IsVisible) -> Signal | None:
        """The signal as it is logged, with its version in its lane; None when it is unchanged."""
        state = signal.state
        if not state or not isinstance(state.get("id"), str):
            return signal
        lane = self.lane(state["id"])
        last, key = lane.last, str(state.get("cacheKey", ""))
        if (
            key
            and last is not None
            and (last.cache_key, last.mode) == (key, state.get("mode", "snapshot"))
            and is_visible(last.signal_id)
        ):
            return None
        return replace(signal, state={**state, "version": lane.version + 1})


def cache_key(lane_id: str, *rows: tuple[str, ...]) -> str:
    """A key that is unique to its content: each field is written with its length."""
    return f"{lane_id}:" + "|".join("".join(f"{len(field)}:{field}" for field in row) for row in rows)
