"""A JSON value that is changed in place and records every change as an operation.

The cost of a change depends on its size, not on the size of the whole: texts are stored in pieces. A container is
encoded when it is set, so that later changes to it do not reach the recorded operation.
"""

from __future__ import annotations

from typing import Any

import msgspec

from harness.folds.page_state.object_stream import ObjectChange, Path
from harness.formatting.json_text import encode
from harness.log.codec import storable

_decode = msgspec.json.Decoder().decode


class TextNode:
    """A text that grows; joined when it is read."""

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
        self._operations: list[ObjectChange] = []

    @property
    def value(self) -> dict[str, Any]:
        """A copy of the whole value, as plain data."""
        plain: dict[str, Any] = _decode(self.encoded())
        return plain

    def encoded(self) -> bytes:
        return _encoder.encode(self._root)

    def at(self, path: Path) -> Any:
        """The value at a path, as it is stored; a text may be a `TextNode`. Do not change it."""
        node: Any = self._root
        for key in path:
            node = node[int(key)] if type(node) is list else node[key]
        return node

    def text(self, path: Path) -> str:
        return str(self.at(path))

    def set(self, path: Path, value: Any) -> None:
        """`value` may be anything that an event holds."""
        plain = value
        if isinstance(value, str):
            plain = value = _plain(value)
        elif not isinstance(value, bool | int | float | None):
            data = encode(value)
            plain, value = msgspec.Raw(data), _decode(data)
        parent, key = self.at(path[:-1]), path[-1]
        if type(parent) is not list:
            parent[key] = value
        elif int(key) == len(parent):
            parent.append(value)
        else:
            parent[int(key)] = value
        self._operations.append(ObjectChange("set", path, plain))

    def change(self, path: Path, value: Any) -> None:
        """Set a plain value; records nothing if it is unchanged."""
        if self.at(path[:-1]).get(path[-1]) != value:
            self.set(path, value)

    def append(self, path: Path, text: str) -> None:
        text = _plain(text)
        parent, key = self.at(path[:-1]), path[-1]
        current = parent[key]
        if type(current) is TextNode:
            current.add(text)
        else:
            parent[key] = TextNode(current, text)
        self._operations.append(ObjectChange("append-text", path, text))

    def push(self, path: Path, value: Any) -> Path:
        """Append to a list; returns the path of the new item."""
        place = (*path, str(len(self.at(path))))
        self.set(place, value)
        return place

    def insert(self, path: Path, index: int, value: Any) -> Path:
        """Insert into a list. The items after it are set again, one position further, and must be plain."""
        moved = self.at(path)[index:]
        place = (*path, str(index))
        self.set(place, value)
        for number, item in enumerate(moved, index + 1):
            self.set((*path, str(number)), item)
        return place

    def take_operations(self) -> list[ObjectChange]:
        """The operations since the last call."""
        operations, self._operations = self._operations, []
        return operations


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
