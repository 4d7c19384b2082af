"""A call in the shape that the running version of an agent offers: its tools are in every request.

Tools are renamed, and their inputs reshaped, from release to release. A bench says how a meaning is called,
the newest way first; which of them it is, and what its fields are called, the request decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from harness.lab.script import Alternatives, ToolCall

_SAME = (
    (
        "path",
        "file_path",
        "filePath",
        "absolute_path",
        "absolutePath",
        "target_file",
        "dir_path",
        "directory",
    ),
    ("old_string", "oldString", "oldText", "old_str", "old_text"),
    ("new_string", "newString", "newText", "new_str", "new_text"),
    ("content", "contents", "file_text", "text"),
    ("command", "cmd", "script"),
    ("pattern", "query", "regex"),
    ("prompt", "task", "message", "instructions"),
    ("skill", "skill_name", "name"),
)
"""Names under which agents ask for the same."""


def as_offered(calls: Alternatives, tools: Mapping[str, Mapping[str, Any]]) -> ToolCall:
    """The first that fits what is offered; else the first whose tool there is; else the first."""
    made = [_renamed(call, tools.get(call.tool, {})) for call in calls.calls]
    fitting = (call for call in made if call.tool in tools and _fits(call, tools[call.tool]))
    present = (call for call in made if call.tool in tools)
    return next(fitting, None) or next(present, None) or made[0]


def _properties(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    properties = schema.get("properties")
    return properties if isinstance(properties, dict) else {}


def _fits(call: ToolCall, schema: Mapping[str, Any]) -> bool:
    properties, required = _properties(schema), schema.get("required")
    if not properties or isinstance(call.input, str):
        return True
    needed = set(required) if isinstance(required, list) else set()
    return needed <= call.input.keys() <= properties.keys()


def _renamed(call: ToolCall, schema: Mapping[str, Any]) -> ToolCall:
    """The same input under the names that are offered; what a strict schema does not know is left out."""
    properties = _properties(schema)
    if not properties or isinstance(call.input, str):
        return call
    given = {_name(key, call.input, properties): value for key, value in call.input.items()}
    if schema.get("additionalProperties") is False:
        given = {key: value for key, value in given.items() if key in properties}
    return replace(call, input=given)


def _name(key: str, given: Mapping[str, Any], properties: Mapping[str, Any]) -> str:
    if key in properties:
        return key
    alike = next((names for names in _SAME if key in names), ())
    return next((name for name in alike if name in properties and name not in given), key)
