"""Questions of a server to the user: asked as a question of the run, answered in the server's form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from harness.contracts.tool import ToolContext, ToolFailure

_YES = frozenset(("yes", "y", "true", "on", "1"))
_NO = frozenset(("no", "n", "false", "off", "0"))


async def ask(server: str, params: Any, context: ToolContext) -> tuple[str, dict[str, Any] | None]:
    """The answer to the server: `accept` with what was filled in, `decline`, or `cancel` for an answer that
    fits nothing.
    """
    url = getattr(params, "url", None)
    schema = {} if url else _schema(params)
    text = f"{params.message}\n{url}" if url else params.message
    try:
        answer = await context.ask(
            {"server": server, **({"url": url} if url else {})},
            question=f"{server} asks: {text}",
            options=_options(schema),
            # A form with one field is a plain question, whose answer is read by `filled_in`.
            schema=schema if len(_fields(schema)) > 1 else None,
        )
    except ToolFailure:
        return "decline", None
    if url or not schema.get("properties"):
        return "accept", None if url else {}
    content = filled_in(schema, answer)
    return ("accept", content) if content is not None else ("cancel", None)


def _schema(params: Any) -> dict[str, Any]:
    schema: Any = params.requested_schema
    if not isinstance(schema, dict):
        schema = schema.model_dump(by_alias=True, exclude_none=True)
    return dict(schema)


def _fields(schema: dict[str, Any]) -> dict[str, dict[str, Any]]:
    fields = schema.get("properties")
    return (
        {name: field for name, field in fields.items() if isinstance(field, dict)}
        if isinstance(fields, dict)
        else {}
    )


def _options(schema: dict[str, Any]) -> list[str] | None:
    """Of a form with one field, what may be chosen there."""
    fields = list(_fields(schema).values())
    choices = _choices(fields[0]) if len(fields) == 1 else []
    return choices or None


def _choices(field: dict[str, Any]) -> list[str]:
    if field.get("type") == "boolean":
        return ["yes", "no"]
    options = field.get("enum")
    if isinstance(options, list):
        return [str(option) for option in options]
    options = field.get("oneOf")
    return (
        [str(option["const"]) for option in options if "const" in option] if isinstance(options, list) else []
    )


def filled_in(schema: dict[str, Any], answer: Any) -> dict[str, Any] | None:
    """The form, from data or from text; None when the answer does not fit."""
    fields = _fields(schema)
    required = [name for name in schema.get("required") or () if name in fields]
    if isinstance(answer, str):
        if isinstance(data := _json(answer), dict):
            answer = data
        else:
            only = required if len(required) == 1 else list(fields)
            if len(only) != 1:
                return None
            answer = {only[0]: answer}
    if not isinstance(answer, dict) or not answer.keys() <= fields.keys():
        return None
    try:
        content = {name: _value(fields[name], value) for name, value in answer.items()}
    except (ValueError, TypeError):
        return None
    return content if all(name in content for name in required) else None


def _json(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None


def _value(field: dict[str, Any], text: Any) -> Any:
    """Raises ValueError or TypeError."""
    kind = field.get("type", "string")
    reader = _READERS.get(kind if isinstance(kind, str) else "", _as_it_is)
    value = reader(text)
    if kind == "string" and (choices := _choices(field)) and value not in choices:
        raise ValueError
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _truth(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    word = _text(value).strip().lower()
    if word not in _YES | _NO:
        raise ValueError
    return word in _YES


def _whole(value: Any) -> int:
    if isinstance(value, bool):
        raise TypeError
    return value if isinstance(value, int) else int(_text(value))


def _number(value: Any) -> float:
    if isinstance(value, bool):
        raise TypeError
    return value if isinstance(value, int | float) else float(_text(value))


def _several(value: Any) -> list[str]:
    if isinstance(value, str):
        return [part.strip() for part in value.split(",")]
    if not isinstance(value, list):
        raise TypeError
    return [_text(item) for item in value]


def _as_it_is(value: Any) -> Any:
    return value


_READERS: dict[str, Callable[[Any], Any]] = {
    "string": _text,
    "boolean": _truth,
    "integer": _whole,
    "number": _number,
    "array": _several,
}
