"""Tool arguments: described to the model as JSON Schema, validated before the tool runs."""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar

import msgspec
from msgspec.structs import fields

from harness.contracts.model import ToolSpec
from harness.contracts.tool import ToolFailure

Taken = TypeVar("Taken", bound="Arguments")


class Arguments(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of the arguments of one tool. What the model adds to them is ignored."""


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
    """The validated arguments. Raises ToolFailure. Names may also be spelled with underscores."""
    for name, encoded in _other_spellings(kind):
        if name in arguments and encoded not in arguments:
            arguments = {**arguments, encoded: arguments[name]}
    try:
        return msgspec.convert(arguments, kind, strict=False)
    except msgspec.ValidationError as error:
        wanted = ", ".join(
            field.encode_name if field.required else f"{field.encode_name}?" for field in fields(kind)
        )
        raise ToolFailure(f"invalid arguments for {tool}: {error} (arguments: {wanted})") from None


def _inlined(schema: Any, definitions: dict[str, Any]) -> Any:
    if isinstance(schema, list):
        return [_inlined(one, definitions) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        found = _inlined(definitions[schema["$ref"].rpartition("/")[2]], definitions)
        return {**found, **{key: value for key, value in schema.items() if key != "$ref"}}
    is_object = schema.get("type") == "object"
    return {
        key: _inlined(value, definitions)
        for key, value in schema.items()
        if not (is_object and key == "title")  # the name of our class means nothing to a model
    }


@cache
def _other_spellings(kind: type[Arguments]) -> list[tuple[str, str]]:
    return [(field.name, field.encode_name) for field in fields(kind) if field.name != field.encode_name]
