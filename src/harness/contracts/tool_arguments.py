"""Tool arguments: described to the model as JSON Schema, validated before the tool runs."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, ClassVar, TypeVar

import msgspec
from msgspec.structs import fields

from harness.contracts.model import ToolSpec
from harness.contracts.tool import ToolFailure

Taken = TypeVar("Taken", bound="Arguments")


class Arguments(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of the arguments of one tool. What the model adds to them is ignored."""

    aliases: ClassVar[Mapping[str, str]] = {}
    """Names that models have learnt elsewhere → ours, as the model is told them. They are accepted and never shown."""


def spec(name: str, description: str, kind: type[Arguments]) -> ToolSpec:
    """The spec of a tool for the model. Nested schemas are inlined: not every model follows references."""
    return ToolSpec(name=name, description=description, schema=_schema(kind))


@cache
def _schema(kind: type[Arguments]) -> dict[str, Any]:
    schema = msgspec.json.schema(kind)
    definitions = schema["$defs"]
    inlined: dict[str, Any] = _inlined(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    return inlined


def take(kind: type[Taken], arguments: dict[str, Any], tool: str) -> Taken:
    """The validated arguments. Raises ToolFailure. Names may be spelled in another way, or be other ones that models know; what is null counts as left out, and a list may be spelled as JSON."""
    spellings = _spellings(kind)
    plain = {name: value for name, value in arguments.items() if value is not None}
    for name, value in arguments.items():
        encoded = spellings.get(name) or spellings.get(_folded(name))
        if encoded is not None and encoded not in plain and value is not None:
            plain[encoded] = value
    for name in _lists(kind):
        if isinstance(text := plain.get(name), str) and text.lstrip().startswith("["):
            plain[name] = _decoded(text)
    try:
        return msgspec.convert(plain, kind, strict=False)
    except msgspec.ValidationError as error:
        expectation = ", ".join(
            field.encode_name if field.required else f"{field.encode_name}?" for field in fields(kind)
        )
        raise ToolFailure(f"invalid arguments for {tool}: {error} (arguments: {expectation})") from None


def _inlined(schema: Any, definitions: dict[str, Any]) -> Any:
    if isinstance(schema, list):
        return [_inlined(part, definitions) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        definition = _inlined(definitions[schema["$ref"].rpartition("/")[2]], definitions)
        return {**definition, **{key: value for key, value in schema.items() if key != "$ref"}}
    is_object = schema.get("type") == "object"
    return {
        key: _inlined(value, definitions)
        for key, value in schema.items()
        if not (is_object and key == "title")  # the name of our class means nothing to a model
    }


@cache
def _spellings(kind: type[Arguments]) -> dict[str, str]:
    """Other spellings of a name → ours. Case and underscores do not matter, but for options such as `-C`."""
    own = {_folded(field.encode_name): field.encode_name for field in fields(kind)}
    others = {name if name.startswith("-") else _folded(name): ours for name, ours in kind.aliases.items()}
    return {**others, **own}


def _folded(name: str) -> str:
    return name if name.startswith("-") else name.replace("_", "").replace("-", "").lower()


@cache
def _lists(kind: type[Arguments]) -> list[str]:
    properties = _schema(kind).get("properties", {})
    return [name for name, schema in properties.items() if schema.get("type") == "array"]


def _decoded(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text
