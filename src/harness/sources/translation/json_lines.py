"""One line of an agent's stdout → the JSON values and the plain text in it.

The fast decoder takes what agents write on good days. The rest goes a slow way on which nothing
is refused: a BOM, text glued before the first brace, two objects on one line, lone surrogates,
NaN, bytes that are not UTF-8, nesting deeper than any decoder goes.
"""

from __future__ import annotations

from typing import Any

import msgspec

from harness.log.codec import storable

decode = msgspec.json.Decoder().decode
"""Raises on anything that is not exactly one JSON value; then use `pieces`."""

DECODE_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


_MOST_CANDIDATES = 8
"""How many opening braces are tried before the rest of a line counts as text; keeps garbage cheap."""


def pieces(line: bytes) -> list[Any]:
    """Split an odd line into dicts (JSON objects) and strings (everything between them), in order."""
    text = line.decode("utf-8", "backslashreplace").lstrip("\ufeff")
    found: list[Any] = []
    rest = 0
    for _ in range(_MOST_CANDIDATES):
        start = text.find("{", rest)
        if start < 0:
            break
        parsed = _object_at(text, start)
        if parsed is None and not text[rest:start].strip():
            break  # a broken object: what is inside it is not a record of its own
        if parsed is None:
            _keep_text(found, text[rest : start + 1])
            rest = start + 1
            continue
        _keep_text(found, text[rest:start])
        found.append(parsed[0])
        rest = parsed[1]
    _keep_text(found, text[rest:])
    return found


def as_written(line: bytes) -> str:
    """A line of plain text, with its indentation."""
    text: str = storable(line.decode("utf-8", "backslashreplace").removesuffix("\r"))
    return text


def _object_at(text: str, start: int) -> tuple[dict[str, Any], int] | None:
    from json import JSONDecoder

    try:
        value, end = JSONDecoder().raw_decode(text, start)
    except (ValueError, RecursionError):
        return None
    return storable(value), end


def _keep_text(found: list[Any], text: str) -> None:
    if stripped := text.strip():
        found.append(storable(stripped))
