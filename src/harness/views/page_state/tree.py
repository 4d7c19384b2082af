"""A JSON value that is changed in place and tells every change as an operation.

A change costs as much as what is changed, however large the whole is: texts are kept in pieces, and a container is
encoded when it is set, so that what is done to it afterwards cannot reach the operation that told of it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from harness.log.codec import storable
from harness.views.formatting.json_text import encode
from harness.views.page_state.object_stream import Operation, Path

_decode = msgspec.json.Decoder().decode


class TextNode:
    """A text that grows; joined when somebody reads it."""

    __slots__ = ("_pieces",)

    def __init__(self, *pieces: str) -> None:
        self._pieces = list(pieces)

    def add(self, piece: str) -> None:
        self._pieces.append(piece)

    def __str__(self) -> str:
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return self._pieces[0]


class Tree:
    def __init__(self, value: dict[str, Any]) -> None:
        self._root = value
        self._told: list[Operation] = []

    @property
    def value(self) -> dict[str, Any]:
        """All of it, as plain data of its own."""
        plain: dict[str, Any] = _decode(self.encoded())
        return plain

    def encoded(self) -> bytes:
        return _encoder.encode(self._root)

    def at(self, path: Path) -> Any:
        """What is there; a text as it is kept. Nobody may change it."""
        node: Any = self._root
        for key in path:
            node = node[int(key)] if type(node) is list else node[key]
        return node

    def text(self, path: Path) -> str:
        return str(self.at(path))

    def set(self, path: Path, value: Any) -> None:
        """`value` may be anything that an event holds."""
        told = value
        if isinstance(value, str):
            told = value = _plain(value)
        elif not isinstance(value, bool | int | float | None):
            data = encode(value)
            told, value = msgspec.Raw(data), _decode(data)
        parent, key = self.at(path[:-1]), path[-1]
        if type(parent) is not list:
            parent[key] = value
        elif int(key) == len(parent):
            parent.append(value)
        else:
            parent[int(key)] = value
        self._told.append(Operation("set", path, told))

    def change(self, path: Path, value: Any) -> None:
        """Set a plain value, and say nothing when it is that already."""
        if self.at(path[:-1]).get(path[-1]) != value:
            self.set(path, value)

    def append(self, path: Path, text: str) -> None:
        text = _plain(text)
        parent, key = self.at(path[:-1]), path[-1]
        kept = parent[key]
        if type(kept) is TextNode:
            kept.add(text)
        else:
            parent[key] = TextNode(kept, text)
        self._told.append(Operation("append-text", path, text))

    def push(self, path: Path, value: Any) -> Path:
        """Add to the end of a list; where it is now."""
        place = (*path, str(len(self.at(path))))
        self.set(place, value)
        return place

    def insert(self, path: Path, index: int, value: Any) -> Path:
        """Put it before what is there: all of that is set anew, one place further on, and must be plain."""
        moved = self.at(path)[index:]
        place = (*path, str(index))
        self.set(place, value)
        for number, one in enumerate(moved, index + 1):
            self.set((*path, str(number)), one)
        return place

    def take_operations(self) -> list[Operation]:
        """What was changed since the last time."""
        told, self._told = self._told, []
        return told


def _joined(value: object) -> str:
    if isinstance(value, TextNode):
        return str(value)
    raise TypeError(f"not part of a state: {type(value)}")


def _plain(text: str) -> str:
    if text.isascii():
        return text
    plain: str = storable(text)
    return plain


_encoder = msgspec.json.Encoder(enc_hook=_joined)
