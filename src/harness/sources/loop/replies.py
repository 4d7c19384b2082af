"""Whether a reply is an answer to its question. What is none decides nothing: the question waits on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from harness.errors import UsageError
from harness.events import Relay, RelayReply
from harness.sources.loop.choices import check_choice

_MOST_PROBLEMS = 3


def check_reply(relay: Relay, reply: RelayReply) -> None:
    """Raises UsageError."""
    check_choice(relay, reply)
    if relay.kind == "permission" or relay.resume_schema is None:
        return
    if reply.answer is None and not reply.approved:
        return  # it is refused, or given up
    if problems := list(problems_of(reply.answer, relay.resume_schema)):
        told = "; ".join(problems[:_MOST_PROBLEMS])
        raise UsageError(f"Invalid answer: {told}", hint=f"it still waits; {_wanted(relay)}")


def problems_of(value: Any, schema: Any, where: str = "") -> Iterator[str]:
    """What keeps a value from fitting a JSON Schema, as far as the keywords below say; others are passed over."""
    if schema is False:
        yield _located(where, "nothing is allowed here")
    if not isinstance(schema, Mapping):
        return
    for keyword, check in _CHECKS.items():
        if keyword in schema:
            yield from check(value, schema[keyword], schema, where)


def _wanted(relay: Relay) -> str:
    if relay.kind == "plan":
        return 'a plan is answered with {"action": "approved"} or {"action": "rejected", "feedback": "…"}'
    return "see its resumeSchema"


_TYPES: Mapping[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "array": lambda value: isinstance(value, list | tuple),
    "object": lambda value: isinstance(value, Mapping),
    "integer": lambda value: (
        not isinstance(value, bool)
        and (isinstance(value, int) or (isinstance(value, float) and value.is_integer()))
    ),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
}


def _type(value: Any, wanted: Any, _schema: Any, where: str) -> Iterator[str]:
    names = wanted if isinstance(wanted, list) else [wanted]
    if not any(_TYPES.get(name, lambda _: True)(value) for name in names):
        yield _located(where, f"{_said(value)} is no {' or '.join(map(str, names))}")


def _enum(value: Any, wanted: Any, _schema: Any, where: str) -> Iterator[str]:
    if value not in wanted:
        yield _located(where, f"{_said(value)} is none of {', '.join(map(repr, wanted))}")


def _const(value: Any, wanted: Any, _schema: Any, where: str) -> Iterator[str]:
    if value != wanted:
        yield _located(where, f"{_said(value)} is not {wanted!r}")


def _any_of(value: Any, wanted: Any, _schema: Any, where: str) -> Iterator[str]:
    found = [list(problems_of(value, one, where)) for one in wanted]
    if all(found):
        yield " and ".join(dict.fromkeys(problems[0] for problems in found))


def _one_of(value: Any, wanted: Any, _schema: Any, where: str) -> Iterator[str]:
    fitting = sum(not list(problems_of(value, one, where)) for one in wanted)
    if fitting > 1:
        yield _located(where, f"{_said(value)} fits several of the forms that exclude each other")
    elif not fitting:
        yield from _any_of(value, wanted, None, where)


def _all_of(value: Any, wanted: Any, _schema: Any, where: str) -> Iterator[str]:
    for one in wanted:
        yield from problems_of(value, one, where)


def _required(value: Any, wanted: Any, _schema: Any, where: str) -> Iterator[str]:
    if isinstance(value, Mapping):
        for name in wanted:
            if name not in value:
                yield _located(where, f"{name!r} is missing")


def _properties(value: Any, wanted: Any, _schema: Any, where: str) -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, one in wanted.items():
            if name in value:
                yield from problems_of(value[name], one, f"{where}.{name}" if where else str(name))


def _additional(value: Any, wanted: Any, schema: Any, where: str) -> Iterator[str]:
    if isinstance(value, Mapping):
        for name in value:
            if name not in schema.get("properties", {}) and "patternProperties" not in schema:
                if wanted is False:
                    yield _located(where, f"{name!r} is not known")
                else:
                    yield from problems_of(value[name], wanted, f"{where}.{name}" if where else str(name))


def _items(value: Any, wanted: Any, schema: Any, where: str) -> Iterator[str]:
    if isinstance(value, list | tuple):
        first = len(schema.get("prefixItems", ()))
        for place, one in enumerate(value[first:], first):
            yield from problems_of(one, wanted, f"{where}[{place}]")


def _least(value: Any, wanted: Any, _schema: Any, where: str) -> Iterator[str]:
    if isinstance(value, str | list | tuple) and len(value) < wanted:
        yield _located(where, f"{_said(value)} is too short")


def _most(value: Any, wanted: Any, _schema: Any, where: str) -> Iterator[str]:
    if isinstance(value, str | list | tuple) and len(value) > wanted:
        yield _located(where, f"{_said(value)} is too long")


def _minimum(value: Any, wanted: Any, _schema: Any, where: str) -> Iterator[str]:
    if _TYPES["number"](value) and value < wanted:
        yield _located(where, f"{value} is less than {wanted}")


def _maximum(value: Any, wanted: Any, _schema: Any, where: str) -> Iterator[str]:
    if _TYPES["number"](value) and value > wanted:
        yield _located(where, f"{value} is more than {wanted}")


_CHECKS: Mapping[str, Callable[[Any, Any, Any, str], Iterator[str]]] = {
    "type": _type,
    "enum": _enum,
    "const": _const,
    "anyOf": _any_of,
    "oneOf": _one_of,
    "allOf": _all_of,
    "required": _required,
    "properties": _properties,
    "additionalProperties": _additional,
    "items": _items,
    "minItems": _least,
    "maxItems": _most,
    "minLength": _least,
    "maxLength": _most,
    "minimum": _minimum,
    "maximum": _maximum,
}


def _located(where: str, problem: str) -> str:
    return f"{where}: {problem}" if where else problem


def _said(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"
