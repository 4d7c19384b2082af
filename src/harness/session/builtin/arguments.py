"""Arguments of the built-in tools: described without references, and read without what is null.

Some models write `null` for what they leave out; to every tool here that is the same as leaving it out.
"""

from __future__ import annotations

from typing import Any

import msgspec

from harness.sources.model import ToolSpec
from harness.sources.tools.arguments import Arguments, Taken, take

__all__ = ["Arguments", "described", "read"]


def described(name: str, description: str, kind: type[Arguments]) -> ToolSpec:
    """What a model is told of a tool; nested structures stand where they are used."""
    schema = msgspec.json.schema(kind)
    definitions = schema["$defs"]
    inlined = _inlined(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    return ToolSpec(name=name, description=description, schema=inlined)


def read(kind: type[Taken], arguments: dict[str, Any], tool: str) -> Taken:
    """The arguments, checked. Raises ToolFailure."""
    return take(kind, _without_nulls(arguments), tool)


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
        if not (is_object and key == "title")  # the name of our class tells a model nothing
    }


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(inner) for name, inner in value.items() if inner is not None}
    return [_without_nulls(inner) for inner in value] if isinstance(value, list) else value
