"""An agent's stdout: bytes → whole lines → the JSON values and the plain text in them.

`decode` is the fast path. A line that it rejects goes through `pieces`, which rejects nothing: a BOM, text
before the first brace, two objects on one line, lone surrogates, NaN, bytes that are not UTF-8, nesting
deeper than any decoder goes.
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


class LineBlocks:
    """Bytes as they arrive → blocks of whole lines. Cuts at newline bytes only, and at no length."""

    def __init__(self) -> None:
        self._head: list[bytes] = []
        """Parts of an unfinished line: joined once, so that a huge line stays cheap."""

    def feed(self, data: bytes) -> bytes:
        """All lines that are complete now, including the one begun by earlier calls."""
        end = data.rfind(b"\n") + 1
        if not end:
            self._head.append(data)
            return b""
        head, rest = self._head, data[end:]
        self._head = [rest] if rest else []
        if not head:
            return data[:end]
        return b"".join((*head, memoryview(data)[:end]))

    def finish(self) -> bytes:
        """The last line, if it has no newline."""
        rest = b"".join(self._head)
        self._head = []
        return rest


def pieces(line: bytes) -> list[Any]:
    """Split an odd line into dicts (JSON objects) and strings (everything between them), in order."""
    text = line.decode("utf-8", "backslashreplace").lstrip("\ufeff")
    values: list[Any] = []
    rest = 0
    for _ in range(_MOST_CANDIDATES):
        start = text.find("{", rest)
        if start < 0:
            break
        object_and_rest = _object_at(text, start)
        if object_and_rest is None and not text[rest:start].strip():
            break  # a broken object: what is inside it is not a record of its own
        if object_and_rest is None:
            _keep_text(values, text[rest : start + 1])
            rest = start + 1
            continue
        _keep_text(values, text[rest:start])
        values.append(object_and_rest[0])
        rest = object_and_rest[1]
    _keep_text(values, text[rest:])
    return values


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


def _keep_text(values: list[Any], text: str) -> None:
    if stripped := text.strip():
        values.append(storable(stripped))
