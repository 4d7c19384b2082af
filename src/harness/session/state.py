"""The application's own typed state: checked as a whole, changed one write after the other, told in the log."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec

from harness.errors import MissingExtra, UsageError
from harness.events import Event, StateChanged
from harness.session.keeping import check_event

_logger = logging.getLogger("harness.session")

Check: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]
"""The same state, completed and converted where the schema says; raises ValueError with what is wrong."""


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
_RULES = "permissionRules"

Update: TypeAlias = StateUpdate | Mapping[str, Any]
"""A mapping has the same keys."""
Transaction: TypeAlias = Callable[[dict[str, Any]], Update | Awaitable[Update]]


class SessionState:
    """Contract: a failed write leaves the state as it was and does not hold up the next one."""

    def __init__(
        self, schema: Any, initial: Mapping[str, Any] | None, append: Callable[[Event], object]
    ) -> None:
        self._check, defaults = _reader_of(schema)
        self._append = append
        self._turn = asyncio.Lock()
        self._changed: set[str] = set()
        """Keys that somebody has set here: no thread says otherwise."""
        self._value: dict[str, Any] = self._checked({**defaults, **(initial or {})})
        self._has_rules = _RULES in self._value
        check_event(StateChanged(changes=self._value), "Invalid state update")  # else the first thread fails

    def get(self) -> dict[str, Any]:
        """A shallow copy."""
        return dict(self._value)

    def peek(self, key: str, default: Any = None) -> Any:
        """One value, without a copy of the rest."""
        return self._value.get(key, default)

    async def set(self, changes: Mapping[str, Any]) -> None:
        """Raises UsageError `Invalid state update: …`."""
        async with self._turn:
            self._apply(changes)

    async def update(self, transaction: Transaction) -> Any:
        """Read, decide and write as one step; nobody else's write comes in between."""
        async with self._turn:
            made = transaction(self.get())
            update = _update(await made if inspect.isawaitable(made) else made)
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
            said[_YOLO] = self._value.get(_YOLO, False)
        if self._has_rules:
            said.pop(_RULES, None)
        before = self._value
        try:
            self._value = self._checked({**before, **said, **kept})
        except UsageError:
            _logger.warning("the state that the thread had does not fit the schema", exc_info=True)
        now = self._value
        changed = [key for key in said if key in now and (key not in before or before[key] != now[key])]
        unsaid = {
            key: value
            for key, value in self._value.items()
            if key not in kept and (key not in logged or logged[key] != value)
        }
        return Restored(changed, unsaid)

    def _apply(self, changes: Mapping[str, Any]) -> None:
        before, merged = self._value, self._checked({**self._value, **changes})
        told = StateChanged(changes={key: merged.get(key) for key in changes})
        check_event(told, "Invalid state update")
        self._value = merged  # before it is told: listeners read it
        try:
            self._append(told)
        except BaseException:
            self._value = before
            raise
        self._changed.update(changes)

    def _checked(self, value: dict[str, Any]) -> dict[str, Any]:
        try:
            return self._check(value)
        except ValueError as error:
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


def _reader_of(schema: Any) -> tuple[Check, dict[str, Any]]:
    """How to check a state by its schema, and the defaults that the schema gives."""
    if schema is None:
        return dict, {}
    if isinstance(schema, dict):
        return _json_schema(schema)
    if isinstance(schema, type) and issubclass(schema, msgspec.Struct):
        return _msgspec_schema(schema)
    if hasattr(schema, "model_validate"):
        return _pydantic_schema(schema)
    raise UsageError(
        f"a state schema cannot be a {type(schema).__name__}",
        hint="give a pydantic model, a msgspec Struct or a JSON Schema",
    )


def _json_schema(schema: dict[str, Any]) -> tuple[Check, dict[str, Any]]:
    try:
        import jsonschema
    except ImportError as error:
        raise MissingExtra("a JSON Schema needs the package jsonschema", "schema") from error
    validator = jsonschema.validators.validator_for(schema)(schema)

    def check(value: dict[str, Any]) -> dict[str, Any]:
        problems = [_located(error.absolute_path, error.message) for error in validator.iter_errors(value)]
        if problems:
            raise ValueError("; ".join(problems))
        return value

    properties = schema.get("properties", {})
    return check, {name: one["default"] for name, one in properties.items() if "default" in one}


def _msgspec_schema(schema: type[msgspec.Struct]) -> tuple[Check, dict[str, Any]]:
    known = {field.encode_name for field in msgspec.structs.fields(schema)}
    defaults: dict[str, Any] = {}
    for field in msgspec.structs.fields(schema):
        if field.default is not msgspec.NODEFAULT:
            defaults[field.encode_name] = field.default
        elif field.default_factory is not msgspec.NODEFAULT:
            defaults[field.encode_name] = field.default_factory()

    def check(value: dict[str, Any]) -> dict[str, Any]:
        own = {key: one for key, one in value.items() if key in known}
        msgspec.convert(own, schema)
        return value

    return check, defaults


def _pydantic_schema(schema: Any) -> tuple[Check, dict[str, Any]]:
    def check(value: dict[str, Any]) -> dict[str, Any]:
        try:
            schema.model_validate(value)
        except ValueError as error:
            problems: list[Any] = getattr(error, "errors", list)()
            texts = [_located(one["loc"], one["msg"]) for one in problems] or [str(error)]
            raise ValueError("; ".join(texts)) from error
        return value

    fields = schema.model_fields.items()
    defaults = {
        field.alias or name: field.get_default(call_default_factory=True)
        for name, field in fields
        if not field.is_required()
    }
    return check, defaults


def _located(path: Any, message: str) -> str:
    where = ".".join(str(step) for step in path)
    return f"{where}: {message}" if where else message
