"""Ids that a program makes itself, and that differ in a replay: found in results, put into the answers that use them.

An agent makes an id (of a sub-agent, of a process) and tells it to the model in a result; a later recorded answer uses it.
In a replay the id is another one. Where the results of the same call differ, a word at the same place in both is bound,
the recorded one to the present one, if it looks made by a program, and if a later recorded call has it. Names in files,
versions, counts and times never are: a file that has changed must not rewrite what the model said.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from difflib import SequenceMatcher
from typing import Any, NamedTuple

import msgspec

from harness.formats.fields import record_of
from harness.models.wires.wire import JsonObject, records

_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{2,}")
_MADE_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9A-HJKMNP-TV-Z]{26}")
_CALLED_ID = re.compile(
    r"(?:\b|_)(?:id|pid|pgid|session|process|task|job|agent|shell|handle)s?\W{0,12}$", re.IGNORECASE
)
_LONGEST_RESULT = 200_000
_MOST_WORDS = 5_000
"""Beyond that, two results of another shape are not compared word by word."""


def looks_made(text: str, at: int, word: str) -> bool:
    """A UUID, a ULID, a long mix of digits and letters; or a number that is called an id just before."""
    if _MADE_ID.fullmatch(word):
        return True
    digits = sum(letter.isdigit() for letter in word)
    if len(word) >= 10 and digits >= 3 and any(map(str.isalpha, word)) and "_" not in word.strip("_")[4:]:
        return True
    return digits > 0 and _CALLED_ID.search(text[max(0, at - 24) : at]) is not None


def bound_words(recorded_text: str, present: str, used_words: set[str]) -> dict[str, str]:
    """Recorded → present. `used_words`: the words of later recorded calls; others need not be bound."""
    if recorded_text == present or max(len(recorded_text), len(present)) > _LONGEST_RESULT:
        return {}
    old, new = list(_WORD.finditer(recorded_text)), list(_WORD.finditer(present))
    words: dict[str, str] = {}
    for first, right in _paired(old, new):
        if (
            first[0] != right[0]
            and first[0] in used_words
            and looks_made(recorded_text, first.start(), first[0])
            and looks_made(present, right.start(), right[0])
        ):
            words.setdefault(first[0], right[0])
    return words


def _paired(
    old: list[re.Match[str]], new: list[re.Match[str]]
) -> Iterator[tuple[re.Match[str], re.Match[str]]]:
    if len(old) == len(new):
        yield from zip(old, new, strict=True)
        return
    if max(len(old), len(new)) > _MOST_WORDS:
        return
    matcher = SequenceMatcher(None, [item[0] for item in old], [item[0] for item in new], autojunk=False)
    for tag, start, end, new_start, new_end in matcher.get_opcodes():
        if tag == "replace" and end - start == new_end - new_start:
            yield from zip(old[start:end], new[new_start:new_end], strict=True)


def words_of_calls(content: bytes) -> set[str]:
    """The words of an answer, whole, whether its pieces cut them or not."""
    return set(_WORD.findall(joined(content).decode("utf-8", "replace")))


class Bindings:
    """What is replaced in answers, and undone in requests: ids that were bound, and folders that are elsewhere."""

    def __init__(self, places: Mapping[str, str] = {}) -> None:
        """`places`: recorded folder → present one. One that is the same keeps what is below it from the others."""
        self._words: dict[str, str] = {}
        self._places = {old: new for old, new in places.items() if old and new}

    def __bool__(self) -> bool:
        return bool(self._words) or any(old != new for old, new in self._places.items())

    def bind(self, words: Mapping[str, str]) -> None:
        for old, new in words.items():
            self._words.setdefault(old, new)

    @property
    def words(self) -> Mapping[str, str]:
        return self._words

    def put_into(self, content: bytes) -> bytes:
        """An answer with the present ids and folders. Where it has none of them, its bytes stay as they are."""
        replace = _replacing(self._words, self._places)
        if replace is None or not content:
            return content
        whole = joined(content)
        changed = replace(whole)
        return content if changed == whole else changed

    def undo_in(self, plain: bytes) -> bytes:
        """A request as it would have been in the recording."""
        replace = _replacing(
            {new: old for old, new in self._words.items()},
            {new: old for old, new in self._places.items()},
        )
        return plain if replace is None else replace(plain)


def _replacing(words: Mapping[str, str], places: Mapping[str, str]) -> Callable[[bytes], bytes] | None:
    table = {old.encode(): new.encode() for old, new in (*words.items(), *places.items())}
    if all(old == new for old, new in table.items()):
        return None
    by_length = sorted(words, key=len, reverse=True), sorted(places, key=len, reverse=True)
    parts = [re.escape(old.encode()) + rb"(?![A-Za-z0-9_.-])" for old in by_length[1]]
    parts += [
        rb"(?<![A-Za-z0-9_-])" + re.escape(old.encode()) + rb"(?![A-Za-z0-9_-])" for old in by_length[0]
    ]
    pattern = re.compile(b"|".join(parts))
    return lambda data: pattern.sub(lambda match: table[match[0]], data)


class _Piece(NamedTuple):
    """Where a stream has a piece of a text: pieces with the same key are one text."""

    key: tuple[Any, ...]
    holder: JsonObject
    field: str
    begins: bool = False
    """It begins a text of its own."""


def joined(content: bytes) -> bytes:
    """A stream in which the pieces of each text are one: a piece may end in the middle of an id."""
    if not content.lstrip().startswith((b"data:", b"event:", b":", b"id:")):
        return content
    events: list[tuple[bytes, tuple[int, int] | None, JsonObject | None]] = []
    first: dict[tuple[Any, ...], tuple[JsonObject, str]] = {}
    for block in re.split(rb"(?<=\n\n)|(?<=\n\r\n)", content):
        match = re.search(rb"^data: ?(.*?)\r?$", block, re.MULTILINE)
        value = _decoded(match[1]) if match else None
        piece = _piece_of(value) if value is not None else None
        if match is None or value is None or piece is None:
            events.append((block, None, None))
            continue
        if piece.key in first and not piece.begins:
            holder, field = first[piece.key]
            holder[field] += piece.holder[piece.field]
            continue
        first[piece.key] = (piece.holder, piece.field)
        events.append((block, match.span(1), value))
    return b"".join(
        block if place is None else block[: place[0]] + msgspec.json.encode(value) + block[place[1] :]
        for block, place, value in events
    )


def _decoded(data: bytes) -> JsonObject | None:
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _piece_of(event: JsonObject) -> _Piece | None:
    kind = event.get("type")
    delta = event.get("delta")
    if kind == "content_block_delta" and isinstance(delta, dict):
        for field in ("text", "partial_json", "thinking"):
            if isinstance(delta.get(field), str):
                return _Piece((kind, event.get("index"), field), delta, field)
    if isinstance(kind, str) and kind.endswith(".delta") and isinstance(delta, str):
        return _Piece((kind, event.get("item_id"), event.get("output_index")), event, "delta")
    for choice in records(event.get("choices"))[:1]:
        return _piece_of_choice(record_of(choice.get("delta")))
    for candidate in records(event.get("candidates"))[:1]:
        parts = records(record_of(candidate.get("content")).get("parts"))
        is_plain = len(parts) == 1 and set(parts[0]) <= {"text", "thought"}
        if is_plain and not candidate.get("finishReason") and isinstance(parts[0].get("text"), str):
            return _Piece(("candidate", parts[0].get("thought")), parts[0], "text")
    return None


def _piece_of_choice(delta: JsonObject) -> _Piece | None:
    calls = records(delta.get("tool_calls"))
    if len(calls) == 1:
        function = record_of(calls[0].get("function"))
        if isinstance(function.get("arguments"), str):
            key = ("call", calls[0].get("index"))
            return _Piece(key, function, "arguments", begins=bool(function.get("name")))
    for field in ("content", "reasoning_content", "reasoning"):
        if isinstance(delta.get(field), str) and set(delta) <= {field, "role"}:
            return _Piece((field,), delta, field)
    return None
