"""State as a stream of changes: operations that turn one JSON value into the next.

    {"type":"set","path":["messages","0","status"],"value":"complete"}
    {"type":"append-text","path":["messages","0","content"],"value":" world"}

Rules
1. Nothing is changed in place: what lies along the path is copied, the rest is shared. An empty path means
   the whole value.
2. Where nothing is (absent or null), going deeper makes an object, never a list. Going through a text, a number or
   a truth value is an error.
3. A position in a list is written as plain decimal digits; the one equal to the length appends.
4. `append-text` needs a text to append to.
5. Names that mean something to JavaScript itself are refused.
6. `strict`: the first bad operation raises and nothing has happened. Otherwise bad operations are skipped, and
   a position beyond the end counts as the end.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec

UNSAFE = frozenset({"__proto__", "constructor", "prototype"})
_INDEX = re.compile(r"-?(?:0|[1-9][0-9]*)", re.ASCII)
_LONGEST_INDEX = 21
"""JavaScript writes longer numbers in another notation, not in plain digits."""

Path = tuple[str, ...]


class ObjectChange(msgspec.Struct, frozen=True):
    """One change. `value` is any JSON value, or the same already encoded (`msgspec.Raw`)."""

    type: Literal["set", "append-text"]
    path: Path
    value: Any


class BadOperation(ValueError):
    """An operation that does not fit the state it is applied to."""


def apply(state: Any, operations: Iterable[Any], *, strict: bool = True) -> Any:
    """The state after the operations (`ObjectChange`, or the same as a dictionary). Raises BadOperation if strict."""
    for operation in operations:
        try:
            state = _applied(state, *_fields(operation), strict=strict)
        except BadOperation:
            if strict:
                raise
    return state


def diff(before: Any, after: Any, path: Path = ()) -> list[ObjectChange]:
    """Operations that turn one value into another, found by a plain comparison."""
    if type(before) is not type(after):
        return [ObjectChange("set", path, after)]
    if isinstance(before, str):
        return _text_diff(before, after, path)
    if isinstance(before, dict) and before.keys() <= after.keys() and not _is_unsafe_change(before, after):
        keys: Iterable[Any] = after
        mirror = before
    elif isinstance(before, list) and len(before) <= len(after):
        keys = range(len(after))
        mirror = dict(enumerate(before))
    else:
        return [] if _is_same(before, after) else [ObjectChange("set", path, after)]
    operations: list[ObjectChange] = []
    for key in keys:
        place = (*path, str(key))
        if key in mirror:
            operations += diff(mirror[key], after[key], place)
        else:
            operations.append(ObjectChange("set", place, after[key]))
    return operations


def merge(operations: Iterable[ObjectChange]) -> list[ObjectChange]:
    """The same change in fewer operations: text is joined, and overwritten values are left out."""
    merger = Merger()
    for operation in operations:
        merger.add(operation)
    return merger.operations()


class _Pieces(list[str]):
    """A text that is still growing."""


class Merger:
    """Collects operations. The cost of each depends on the length of its path only.

    Operations on places that are not within each other may be done in any order, so an operation may join an
    earlier one on its own place as long as nothing in between concerned a place above or below it.
    """

    def __init__(self) -> None:
        self._types: list[Literal["set", "append-text"] | None] = []
        self._paths: list[Path] = []
        self._values: list[Any] = []
        self._latest: dict[Path, int] = {}
        self._below: dict[Path, set[Path]] = {}
        """Places that have a `_latest` operation, under each place above them."""

    def add(self, operation: ObjectChange) -> None:
        path = operation.path
        at = self._latest.get(path)
        if operation.type == "append-text":
            if at is not None and self._append(at, operation.value):
                return
        else:
            for place in self._below.pop(path, ()):
                if (overwritten := self._latest.pop(place, None)) is not None:
                    self._types[overwritten] = None
            if at is not None:
                if self._types[at] == "append-text":
                    self._types[at] = "set"
                self._values[at] = operation.value
                return
        self._put(operation)

    def operations(self) -> list[ObjectChange]:
        return [
            ObjectChange(type, path, "".join(value) if isinstance(value, _Pieces) else value)
            for type, path, value in zip(self._types, self._paths, self._values, strict=True)
            if type is not None
        ]

    def _append(self, at: int, text: str) -> bool:
        value = self._values[at]
        if isinstance(value, str):
            self._values[at] = _Pieces((value, text))
        elif isinstance(value, _Pieces):
            value.append(text)
        else:
            return False
        return True

    def _put(self, operation: ObjectChange) -> None:
        path = operation.path
        for length in range(len(path)):
            above = path[:length]
            self._below.setdefault(above, set()).add(path)
            self._forget(above)
        self._latest[path] = len(self._types)
        self._types.append(operation.type)
        self._paths.append(path)
        self._values.append(operation.value)

    def _forget(self, place: Path) -> None:
        """No later operation may join the one on this place: something below it was changed since."""
        if self._latest.pop(place, None) is not None:
            for length in range(len(place)):
                self._below[place[:length]].discard(place)


def _fields(operation: Any) -> tuple[str, Sequence[str], Any]:
    if isinstance(operation, ObjectChange):
        value = operation.value
        if isinstance(value, msgspec.Raw):
            value = msgspec.json.decode(value)
        return operation.type, operation.path, value
    if not isinstance(operation, Mapping):
        raise BadOperation("an operation is an object with type, path and value")
    path = operation.get("path")
    if not isinstance(path, list | tuple) or not all(isinstance(key, str) for key in path):
        raise BadOperation("the path of an operation is a list of texts")
    return str(operation.get("type")), path, operation.get("value")


def _applied(state: Any, kind: str, path: Sequence[str], value: Any, *, strict: bool) -> Any:
    if kind not in ("set", "append-text"):
        raise BadOperation(f"invalid operation type: {kind}")
    frames: list[tuple[Any, Any]] = []
    current = state
    for depth, key in enumerate(path):
        if key in UNSAFE:
            raise BadOperation(f"unsafe name in the path: {key}")
        if current is None:
            current = {}
        if isinstance(current, list):
            index = _index(key, len(current), path[depth:], strict=strict)
            frames.append((current, index))
            current = current[index] if index < len(current) else None
        elif isinstance(current, dict):
            frames.append((current, key))
            current = current.get(key)
        else:
            raise BadOperation(f"invalid path: [{', '.join(path[depth:])}]")
    if kind == "append-text":
        if not isinstance(current, str) or not isinstance(value, str):
            raise BadOperation(f"expected a text at [{', '.join(path)}]")
        value = current + value
    for container, key in reversed(frames):
        value = _replaced(container, key, value)
    return value


def _index(key: str, length: int, rest: Sequence[str], *, strict: bool) -> int:
    if not _INDEX.fullmatch(key) or len(key) > _LONGEST_INDEX or int(float(key)) != int(key) or key == "-0":
        raise BadOperation(f"expected a list position at [{', '.join(rest)}]")
    index = int(key)
    if index < 0 or (index > length and strict):
        raise BadOperation(f"position {key} is out of bounds: the list has {length}")
    return min(index, length)


def _replaced(container: Any, key: Any, value: Any) -> Any:
    if isinstance(container, dict):
        return {**container, key: value}
    copy = list(container)
    copy[key : key + 1] = [value]
    return copy


def _text_diff(before: str, after: str, path: Path) -> list[ObjectChange]:
    if before == after:
        return []
    if before and after.startswith(before):
        return [ObjectChange("append-text", path, after[len(before) :])]
    return [ObjectChange("set", path, after)]


def _is_unsafe_change(before: dict[str, Any], after: dict[str, Any]) -> bool:
    """Whether a name that no path may contain would have to be changed."""
    return any(
        name in after and (name not in before or not _is_same(before[name], after[name])) for name in UNSAFE
    )


def _is_same(before: Any, after: Any) -> bool:
    """Equality that distinguishes true from 1, and 1 from 1.0."""
    if type(before) is not type(after):
        return False
    if isinstance(before, dict):
        return before.keys() == after.keys() and all(_is_same(before[key], after[key]) for key in before)
    if isinstance(before, list):
        return len(before) == len(after) and all(map(_is_same, before, after))
    return bool(before == after)
