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

    def values(self, stored_values: dict[str, Any]) -> dict[str, Any]:
        """Convert JSON to values, validated and with defaults."""
        ...

    def whole(self, stored_values: dict[str, Any]) -> Any:
        """The same as one object of the schema; a dict where the schema is no class."""
        ...


def schema_of(schema: Any) -> StateSchema:
    """Raises UsageError for input that is not a schema."""
    try:
        return _schema_of(schema)
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"this state schema cannot be used: {error}", hint=_HINT) from error


def _schema_of(schema: Any) -> StateSchema:
    if schema is None:
        return AnySchema()
    if isinstance(schema, dict):
        return JsonSchema(schema)
    if isinstance(schema, type):
        if issubclass(schema, msgspec.Struct):
            return StructSchema(schema)
        if hasattr(schema, "model_validate_json") and not getattr(schema, "__pydantic_root_model__", False):
            return PydanticSchema(schema)
        if dataclasses.is_dataclass(schema) or typing.is_typeddict(schema):
            return StructSchema(schema)
    name = schema.__name__ if isinstance(schema, type) else type(schema).__name__
    raise UsageError(f"a state schema cannot be a {name}", hint=_HINT)


class AnySchema:
    """No schema: accepts everything that JSON can hold."""

    keys: frozenset[str] = frozenset()

    def stored(self, values: dict[str, Any]) -> dict[str, Any]:
        return plain_json(values)

    def values(self, stored_values: dict[str, Any]) -> dict[str, Any]:
        return plain_json(stored_values)

    def whole(self, stored_values: dict[str, Any]) -> dict[str, Any]:
        return self.values(stored_values)


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

    def values(self, stored_values: dict[str, Any]) -> dict[str, Any]:
        return self.stored(stored_values)

    def whole(self, stored_values: dict[str, Any]) -> dict[str, Any]:
        return self.values(stored_values)

    def _complete(self, value: Any, schema: Any, depth: int = 0) -> None:
        """Add the defaults of missing properties, also in nested values."""
        schema = self._resolved(schema)
        if not isinstance(schema, dict) or depth > _DEEPEST:
            return
        if isinstance(value, dict) and isinstance(properties := schema.get("properties"), dict):
            for name, property_schema in properties.items():
                resolved = self._resolved(property_schema)
                if name not in value and isinstance(resolved, dict) and "default" in resolved:
                    value[name] = _plain(resolved["default"], (name,))
                if name in value:
                    self._complete(value[name], resolved, depth + 1)
        elif isinstance(value, list) and "items" in schema:
            for property_schema in value:
                self._complete(property_schema, schema["items"], depth + 1)

    def _resolved(self, schema: Any) -> Any:
        """Resolve a reference within the schema; keywords beside the reference, such as a default, win."""
        count = 0
        while isinstance(schema, dict) and str(schema.get("$ref", "")).startswith("#/") and count < _DEEPEST:
            resolved: Any = self._schema
            for step in schema["$ref"][2:].split("/"):
                resolved = resolved.get(step.replace("~1", "/").replace("~0", "~"), {})
            beside = {name: value for name, value in schema.items() if name != "$ref"}
            schema, count = {**resolved, **beside} if isinstance(resolved, dict) else resolved, count + 1
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
        known_values, rest = self._divided(values)
        instance = msgspec.convert({**self._tag, **known_values}, self._schema)
        dumped = self._dumped(instance)
        again = self._decoded(dumped)
        if again != instance and self._dumped(again) != dumped:
            raise ValueError("it would not be the same after a restart")
        return {**dumped, **plain_json(rest)}

    def values(self, stored_values: dict[str, Any]) -> dict[str, Any]:
        known_values, rest = self._divided(stored_values)
        return {**self._view(self._decoded(known_values)), **plain_json(rest)}

    def whole(self, stored_values: dict[str, Any]) -> Any:
        return self._decoded(self._divided(stored_values)[0])

    def _divided(self, state: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        if self._is_strict:
            return state, {}
        known_values = {key: value for key, value in state.items() if key in self.keys}
        return known_values, {key: value for key, value in state.items() if key not in self.keys}

    def _decoded(self, stored_values: dict[str, Any]) -> Any:
        return self._decode(msgspec.json.encode({**self._tag, **stored_values}))

    def _dumped(self, instance: Any) -> dict[str, Any]:
        view = self._view(instance)
        return plain_json(
            {
                key: msgspec.to_builtins(value, str_keys=True, order="deterministic")
                for key, value in view.items()
            }
        )

    def _view(self, instance: Any) -> dict[str, Any]:
        if isinstance(instance, dict):
            return dict(instance)
        values_found = {key: getattr(instance, name) for key, name in self._names.items()}
        return {key: value for key, value in values_found.items() if value is not msgspec.UNSET}


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
        values_given = {self._keys.get(key, key): value for key, value in values.items()}
        instance = self._checked(self._schema.model_validate, self._known(values_given))
        dumped = self._dumped(instance)
        again = self._decoded(dumped)
        if again != instance and self._dumped(again) != dumped:
            raise ValueError("it would not be the same after a restart")
        return {**dumped, **plain_json(self._rest(values_given, dumped))}

    def values(self, stored_values: dict[str, Any]) -> dict[str, Any]:
        instance = self._decoded(self._known(stored_values))
        values = {key: getattr(instance, name) for key, name in self._names.items()}
        values |= instance.model_extra or {}
        return {**values, **plain_json(self._rest(stored_values, values))}

    def whole(self, stored_values: dict[str, Any]) -> Any:
        return self._decoded(self._known(stored_values))

    def _known(self, state: dict[str, Any]) -> dict[str, Any]:
        if self._is_strict or self._schema.model_config.get("extra") == "allow":
            return state
        return {key: value for key, value in state.items() if key in self._names}

    def _rest(self, state: dict[str, Any], known_values: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in state.items() if key not in known_values}

    def _decoded(self, stored_values: dict[str, Any]) -> Any:
        return self._checked(self._schema.model_validate_json, msgspec.json.encode(stored_values))

    def _dumped(self, instance: Any) -> dict[str, Any]:
        dumped = instance.model_dump(mode="json", by_alias=True, round_trip=True)
        known_values = {key: dumped[written_name] for key, written_name in self._dumped_as.items()}
        return plain_json({**known_values, **{key: dumped[key] for key in instance.model_extra or {}}})

    def _checked(self, validate: Callable[[Any], Any], value: Any) -> Any:
        try:
            return validate(value)
        except ValueError as error:
            problems: list[Any] = getattr(error, "errors", list)()
            texts = [_located(problem["loc"], problem["msg"]) for problem in problems] or [str(error)]
            raise ValueError("; ".join(texts)) from error


def _first_alias(alias: Any) -> str:
    """The alias of a pydantic field: a string, or the first string of its choices."""
    if isinstance(alias, str):
        return alias
    choices = getattr(alias, "choices", ())
    return next((choice for choice in choices if isinstance(choice, str)), "")


def plain_json(state: dict[str, Any]) -> dict[str, Any]:
    """A copy as plain JSON, with lone surrogates replaced. Raises ValueError with the path of a bad value."""
    return {key: _plain(value, (key,)) for key, value in _named(state, ()).items()}


def _plain(value: Any, path: tuple[str, ...]) -> Any:
    kind = type(value)
    if kind is str:
        return plain_text(value)
    if _is_plain(value):
        return value
    if len(path) > _DEEPEST:
        raise ValueError(f"{path[0]}: nested too deeply")
    if kind is dict:
        return {key: _plain(item, (*path, key)) for key, item in _named(value, path).items()}
    if kind is list or kind is tuple:
        return [_plain(item, (*path, str(place))) for place, item in enumerate(value)]
    text_shown = repr(value) if isinstance(value, int | float) else f"a {kind.__name__}"
    raise ValueError(_located(path, f"{text_shown[:80]} cannot be stored as JSON; a schema may say how"))


def _is_plain(value: Any) -> bool:
    """Whether a value that is neither a string nor a container can be JSON."""
    kind = type(value)
    if kind is int:
        return bool(_LEAST <= value <= _MOST)
    return value is None or kind is bool or (kind is float and math.isfinite(value))


def _named(value: Mapping[Any, Any], path: tuple[str, ...]) -> dict[str, Any]:
    """The mapping with keys that can be stored; keys stay distinct."""
    named_values: dict[str, Any] = {}
    for key, item in value.items():
        if not isinstance(key, str):
            what = f"the key {key!r:.80} is no text, and JSON has no other keys"
            raise ValueError(_located(path, what))  # noqa: TRY004 reported like every other invalid state
        plain = plain_text(str.__str__(key))
        named_values[spelled_out(key) if plain in named_values else plain] = item
    return named_values


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
        return {texts[key]: without_halves(item, depth + 1) for key, item in value.items()}
    if kind in (list, tuple, set, frozenset):
        return kind(without_halves(item, depth + 1) for item in value)
    return value


def _located(path: Any, message: str) -> str:
    where = ".".join(str(step) for step in path)
    return f"{where}: {message}" if where else message
