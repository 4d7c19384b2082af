"""Where any of many literals stands in a text: one pass over the bytes, done by Hyperscan.

The library is loaded, and its database built, when enough has been looked through: searching what a short run
writes for one literal after the other costs less than the import.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

Hit: TypeAlias = tuple[int, int]
"""The literal's number, and where it ends."""
_FIRST_BYTES = 32 * 1024
"""So much is looked through literal by literal."""


class LiteralSearch:
    """Contract: `hits` may be called from any number of threads at once.

    once=True: of each literal one occurrence is enough, any of them.
    """

    def __init__(self, literals: Sequence[bytes], *, once: bool = False) -> None:
        self._literals = tuple(literals)
        self._once = once
        self._seen_bytes = 0
        self._building = threading.Lock()
        self._database: Any = None
        self._scratch = threading.local()

    def hits(self, text: bytes) -> list[Hit]:
        """All occurrences, also those that overlap, in any order."""
        if self._database is None:
            self._seen_bytes += len(text)
            if self._seen_bytes <= _FIRST_BYTES:
                return self._one_by_one(text)
            self._build()
        found: list[Hit] = []
        self._database.scan(text, _collect, context=found.append, scratch=self._own_scratch())
        return found

    def _one_by_one(self, text: bytes) -> list[Hit]:
        places = _first_place if self._once else _places
        return [
            (number, start + len(literal))
            for number, literal in enumerate(self._literals)
            for start in places(text, literal)
        ]

    def _build(self) -> None:
        import hyperscan

        with self._building:
            if self._database is None:
                # The literal mode ends a literal at its first NUL, as C does.
                is_literal = not any(b"\0" in literal for literal in self._literals)
                expressions = self._literals if is_literal else [*map(_escaped, self._literals)]
                database = hyperscan.Database()
                database.compile(
                    expressions=expressions,
                    ids=range(len(expressions)),
                    flags=hyperscan.HS_FLAG_SINGLEMATCH if self._once else 0,
                    literal=is_literal,
                )
                self._database = database

    def _own_scratch(self) -> Any:
        """Working memory: two threads must not share it."""
        scratch = getattr(self._scratch, "value", None)
        if scratch is None:
            import hyperscan

            scratch = self._scratch.value = hyperscan.Scratch(self._database)
        return scratch


def _places(text: bytes, literal: bytes) -> Iterator[int]:
    start = text.find(literal)
    while start >= 0:
        yield start
        start = text.find(literal, start + 1)


def _first_place(text: bytes, literal: bytes) -> Iterator[int]:
    start = text.find(literal)
    if start >= 0:
        yield start


def _escaped(literal: bytes) -> bytes:
    return b"".join(b"\\x%02x" % byte for byte in literal)


def _collect(number: int, _start: int, end: int, _flags: int, add: Callable[[Hit], None]) -> None:
    add((number, end))
