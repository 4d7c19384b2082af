"""Schemas of the application's state: what they accept, how they convert it, and how it is stored in a log.

A state has two forms: the values that the application works with (models, dates, sets, whatever the schema
says), and the JSON in the log. Every value that is set is converted to JSON and read back by the schema, so
that the values are the same before and after a restart; a value that does not survive that is rejected.
"""

from __future__ import annotations

import dataclasses
import math
import typing
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec

from harness.errors import MissingExtra, UsageError
from harness.log.codec import spelled_out
from harness.system.plain_text import plain_text

_DEEPEST = 100
_LEAST, _MOST = -(2**63), 2**64 - 1
_HINT = "give a pydantic model, a msgspec Struct, a dataclass, a TypedDict or a JSON Schema"


class StateSchema(Protocol):
    """Contract: both raise ValueError or TypeError that names the problem; neither stores its argument."""

    keys: frozenset[str]
    """The keys that the schema names."""

    def stored(self, values: dict[str, Any]) -> dict[str, Any]:
        """Validate values, add defaults, and convert them to JSON."""
        ...

    def values(self, stored: dict[str, Any]) -> dict[str, Any]:
        """Convert JSON to values, validated and with defaults."""
        ...

    def whole(self, stored: dict[str, Any]) -> Any:
        """The same as one object of the schema; a dict where the schema is no class."""
        ...


def schema_of(given: Any) -> StateSchema:
    """Raises UsageError for input that is not a schema."""
    try:
        return _schema_of(given)
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"this state schema cannot be used: {error}", hint=_HINT) from error


def _schema_of(given: Any) -> StateSchema:
    if given is None:
        return AnySchema()
    if isinstance(given, dict):
        return JsonSchema(given)
    if isinstance(given, type):
        if issubclass(given, msgspec.Struct):
            return StructSchema(given)
        if hasattr(given, "model_validate_json") and not getattr(given, "__pydantic_root_model__", False):
            return PydanticSchema(given)
        if dataclasses.is_dataclass(given) or typing.is_typeddict(given):
            return StructSchema(given)
    name = given.__name__ if isinstance(given, type) else type(given).__name__
    raise UsageError(f"a state schema cannot be a {name}", hint=_HINT)


class AnySchema:
    """No schema: accepts everything that JSON can hold."""

    keys: frozenset[str] = frozenset()

    def stored(self, values: dict[str, Any]) -> dict[str, Any]:
        return plain_json(values)

    def values(self, stored: dict[str, Any]) -> dict[str, Any]:
        return plain_json(stored)

    def whole(self, stored: dict[str, Any]) -> dict[str, Any]:
        return self.values(stored)


class JsonSchema:
    def __init__(self, schema: dict[str, Any]) -> None:
        try:
            import jsonschema
        except ImportError as error:
            raise MissingExtra("a JSON Schema needs the package jsonschema", "schema") from error
        kind = jsonschema.validators.validator_for(schema)
        try:
            kind.check_schema(schema)
        except jsonschema.SchemaError as error:
            raise ValueError(_located(error.absolute_path, error.message)) from error
        self._schema = schema
        self._problems: Callable[[Any], Any] = kind(schema).iter_errors
        properties = schema.get("properties", {})
        self.keys = frozenset(properties if isinstance(properties, dict) else ())

    def stored(self, values: dict[str, Any]) -> dict[str, Any]:
        value = plain_json(values)
        self._complete(value, self._schema)
        problems = [_located(error.absolute_path, error.message) for error in self._problems(value)]
        if problems:
            raise ValueError("; ".join(problems))
        return value

    def values(self, stored: dict[str, Any]) -> dict[str, Any]:
        return self.stored(stored)

    def whole(self, stored: dict[str, Any]) -> dict[str, Any]:
        return self.values(stored)

    def _complete(self, value: Any, schema: Any, depth: int = 0) -> None:
        """Add the defaults of missing properties, also in nested values."""
        schema = self._resolved(schema)
        if not isinstance(schema, dict) or depth > _DEEPEST:
            return
        if isinstance(value, dict) and isinstance(properties := schema.get("properties"), dict):
            for name, one in properties.items():
                resolved = self._resolved(one)
                if name not in value and isinstance(resolved, dict) and "default" in resolved:
                    value[name] = _plain(resolved["default"], (name,))
                if name in value:
                    self._complete(value[name], resolved, depth + 1)
        elif isinstance(value, list) and "items" in schema:
            for one in value:
                self._complete(one, schema["items"], depth + 1)

    def _resolved(self, schema: Any) -> Any:
        """Resolve a reference within the schema; keywords beside the reference, such as a default, win."""
        seen = 0
        while isinstance(schema, dict) and str(schema.get("$ref", "")).startswith("#/") and seen < _DEEPEST:
            found: Any = self._schema
            for step in schema["$ref"][2:].split("/"):
                found = found.get(step.replace("~1", "/").replace("~0", "~"), {})
            beside = {name: one for name, one in schema.items() if name != "$ref"}
            schema, seen = {**found, **beside} if isinstance(found, dict) else found, seen + 1
        return schema


class StructSchema:
    """A msgspec Struct, a dataclass or a TypedDict."""

    def __init__(self, schema: Any) -> None:
        config = getattr(schema, "__struct_config__", None)
        if config is not None and config.array_like:
            raise ValueError(f"{schema.__name__} is a list, and a state has names")
        self._schema = schema
        self._is_strict = bool(config is not None and config.forbid_unknown_fields)
        self._tag = {config.tag_field: config.tag} if config is not None and config.tag is not None else {}
        self._names = _names_of(schema)
        self.keys: frozenset[str] = frozenset(self._names)
        self._decode = msgspec.json.Decoder(schema).decode

    def stored(self, values: dict[str, Any]) -> dict[str, Any]:
        known, rest = self._divided(values)
        made = msgspec.convert({**self._tag, **known}, self._schema)
        stored = self._dumped(made)
        again = self._decoded(stored)
        if again != made and self._dumped(again) != stored:
            raise ValueError("it would not be the same after a restart")
        return {**stored, **plain_json(rest)}

    def values(self, stored: dict[str, Any]) -> dict[str, Any]:
        known, rest = self._divided(stored)
        return {**self._view(self._decoded(known)), **plain_json(rest)}

    def whole(self, stored: dict[str, Any]) -> Any:
        return self._decoded(self._divided(stored)[0])

    def _divided(self, state: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        if self._is_strict:
            return state, {}
        known = {key: value for key, value in state.items() if key in self.keys}
        return known, {key: value for key, value in state.items() if key not in self.keys}

    def _decoded(self, stored: dict[str, Any]) -> Any:
        return self._decode(msgspec.json.encode({**self._tag, **stored}))

    def _dumped(self, made: Any) -> dict[str, Any]:
        view = self._view(made)
        return plain_json(
            {
                key: msgspec.to_builtins(value, str_keys=True, order="deterministic")
                for key, value in view.items()
            }
        )

    def _view(self, made: Any) -> dict[str, Any]:
        if isinstance(made, dict):
            return dict(made)
        found = {key: getattr(made, name) for key, name in self._names.items()}
        return {key: value for key, value in found.items() if value is not msgspec.UNSET}


def _names_of(schema: Any) -> dict[str, str]:
    """By key in the state: the field name."""
    if dataclasses.is_dataclass(schema):
        return {field.name: field.name for field in dataclasses.fields(schema)}
    if issubclass(schema, dict):
        return {name: name for name in typing.get_type_hints(schema)}
    return {field.encode_name: field.name for field in msgspec.structs.fields(schema)}


class PydanticSchema:
    def __init__(self, schema: Any) -> None:
        self._schema = schema
        config = schema.model_config
        self._is_strict = config.get("extra") == "forbid"
        by_name = config.get("populate_by_name") or config.get("validate_by_name")
        self._names: dict[str, str] = {}
        self._keys: dict[str, str] = {}
        """By field name: its key, if the field may be given under either."""
        self._dumped_as: dict[str, str] = {}
        for name, field in schema.model_fields.items():
            key = _first_alias(field.validation_alias) or field.alias or name
            self._names[key], self._dumped_as[key] = name, field.serialization_alias or name
            if field.exclude:
                raise ValueError(f"{name} is left out of what is stored")
            if by_name and key != name:
                self._keys[name] = key
        self.keys: frozenset[str] = frozenset((*self._names, *self._keys))

    def stored(self, values: dict[str, Any]) -> dict[str, Any]:
        given = {self._keys.get(key, key): value for key, value in values.items()}
        made = self._checked(self._schema.model_validate, self._known(given))
        stored = self._dumped(made)
        again = self._decoded(stored)
        if again != made and self._dumped(again) != stored:
            raise ValueError("it would not be the same after a restart")
        return {**stored, **plain_json(self._rest(given, stored))}

    def values(self, stored: dict[str, Any]) -> dict[str, Any]:
        made = self._decoded(self._known(stored))
        values = {key: getattr(made, name) for key, name in self._names.items()}
        values |= made.model_extra or {}
        return {**values, **plain_json(self._rest(stored, values))}

    def whole(self, stored: dict[str, Any]) -> Any:
        return self._decoded(self._known(stored))

    def _known(self, state: dict[str, Any]) -> dict[str, Any]:
        if self._is_strict or self._schema.model_config.get("extra") == "allow":
            return state
        return {key: value for key, value in state.items() if key in self._names}

    def _rest(self, state: dict[str, Any], known: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in state.items() if key not in known}

    def _decoded(self, stored: dict[str, Any]) -> Any:
        return self._checked(self._schema.model_validate_json, msgspec.json.encode(stored))

    def _dumped(self, made: Any) -> dict[str, Any]:
        dumped = made.model_dump(mode="json", by_alias=True, round_trip=True)
        known = {key: dumped[written] for key, written in self._dumped_as.items()}
        return plain_json({**known, **{key: dumped[key] for key in made.model_extra or {}}})

    def _checked(self, validate: Callable[[Any], Any], given: Any) -> Any:
        try:
            return validate(given)
        except ValueError as error:
            problems: list[Any] = getattr(error, "errors", list)()
            texts = [_located(one["loc"], one["msg"]) for one in problems] or [str(error)]
            raise ValueError("; ".join(texts)) from error


def _first_alias(alias: Any) -> str:
    """The alias of a pydantic field: a string, or the first string of its choices."""
    if isinstance(alias, str):
        return alias
    choices = getattr(alias, "choices", ())
    return next((choice for choice in choices if isinstance(choice, str)), "")


def plain_json(state: dict[str, Any]) -> dict[str, Any]:
    """A copy as plain JSON, with lone surrogates replaced. Raises ValueError with the path of a bad value."""
    return {key: _plain(one, (key,)) for key, one in _named(state, ()).items()}


def _plain(value: Any, path: tuple[str, ...]) -> Any:
    kind = type(value)
    if kind is str:
        return plain_text(value)
    if _is_plain(value):
        return value
    if len(path) > _DEEPEST:
        raise ValueError(f"{path[0]}: nested too deeply")
    if kind is dict:
        return {key: _plain(one, (*path, key)) for key, one in _named(value, path).items()}
    if kind is list or kind is tuple:
        return [_plain(one, (*path, str(place))) for place, one in enumerate(value)]
    shown = repr(value) if isinstance(value, int | float) else f"a {kind.__name__}"
    raise ValueError(_located(path, f"{shown[:80]} cannot be stored as JSON; a schema may say how"))


def _is_plain(value: Any) -> bool:
    """Whether a value that is neither a string nor a container can be JSON."""
    kind = type(value)
    if kind is int:
        return bool(_LEAST <= value <= _MOST)
    return value is None or kind is bool or (kind is float and math.isfinite(value))


def _named(value: Mapping[Any, Any], path: tuple[str, ...]) -> dict[str, Any]:
    """The mapping with keys that can be stored; keys stay distinct."""
    named: dict[str, Any] = {}
    for key, one in value.items():
        if not isinstance(key, str):
            what = f"the key {key!r:.80} is no text, and JSON has no other keys"
            raise ValueError(_located(path, what))  # noqa: TRY004 reported like every other invalid state
        plain = plain_text(str.__str__(key))
        named[spelled_out(key) if plain in named else plain] = one
    return named


def without_halves(value: Any, depth: int = 0) -> Any:
    """The value with lone surrogates replaced in all strings within plain containers."""
    kind = type(value)
    if kind is str:
        return plain_text(value)
    if depth > _DEEPEST:
        return value
    if kind is dict:
        texts = {key: plain_text(key) if isinstance(key, str) else key for key in value}
        if len(set(texts.values())) < len(texts):
            texts = {key: spelled_out(key) if isinstance(key, str) else key for key in value}
        return {texts[key]: without_halves(one, depth + 1) for key, one in value.items()}
    if kind in (list, tuple, set, frozenset):
        return kind(without_halves(one, depth + 1) for one in value)
    return value


def _located(path: Any, message: str) -> str:
    where = ".".join(str(step) for step in path)
    return f"{where}: {message}" if where else message
