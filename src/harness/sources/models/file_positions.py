"""The line of each value in a TOML or JSON file, so that an error message can name it.

The parsers of the standard library do not record positions. This reader assumes that the file has already
been parsed successfully: it only follows brackets, keys and strings, and stops silently where it cannot.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

Path: TypeAlias = tuple[str | int, ...]

_TOKEN = re.compile(
    r'(?P<string>"""(?:\\.|[^\\])*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\')'
    r"|(?P<comment>\#[^\n]*)"
    r"|(?P<newline>\n)"
    r"|(?P<mark>[\[\]{},=:])"
    r"|(?P<bare>[^\s\[\]{},=:\#\"']+)",
    re.DOTALL,
)


class _Token(NamedTuple):
    kind: str
    text: str
    line: int
    offset: int


class Positions:
    """Contract: `line` never raises; an unknown path has the line of the enclosing value."""

    def __init__(self, text: str) -> None:
        self._lines: dict[Path, int] = {(): 1}
        self._tokens = list(_tokens(text))
        self._at = 0
        self._repeated: dict[Path, int] = {}
        """`[[name]]` → how many of these tables have been seen."""
        try:
            self._document()
        except IndexError:
            return

    def line(self, path: Path) -> int:
        while path not in self._lines:
            path = path[:-1]
        return self._lines[path]

    def _document(self) -> None:
        if self._skip_newlines().text == "{":
            self._value(())
            return
        table: Path = ()
        while True:
            token = self._skip_newlines()
            if token.text == "[" and token.kind == "mark":
                table = self._header()
            else:
                self._pair(table)

    def _header(self) -> Path:
        first = self._take()
        is_repeated = self._peek().text == "[" and self._peek().offset == first.offset + 1
        if is_repeated:
            self._take()
        path = self._resolve(self._key("]"))
        for _ in range(1 + is_repeated):
            self._take()
        if is_repeated:
            number = self._repeated.get(path, 0)
            self._repeated[path] = number + 1
            path = (*path, number)
        self._lines.setdefault(path, first.line)
        return path

    def _resolve(self, keys: list[str]) -> Path:
        path: Path = ()
        for number, key in enumerate(keys):
            path = (*path, key)
            if path in self._repeated and number < len(keys) - 1:
                path = (*path, self._repeated[path] - 1)
        return path

    def _pair(self, table: Path) -> None:
        line = self._peek().line
        path = (*table, *self._key("=:"))
        self._take()
        self._value(path, line)

    def _key(self, ends: str) -> list[str]:
        keys: list[str] = []
        while (token := self._skip_newlines()).text not in ends or token.kind == "string":
            self._take()
            keys += [token.text[1:-1]] if token.kind == "string" else filter(None, token.text.split("."))
        return keys

    def _value(self, path: Path, line: int = 0) -> None:
        token = self._skip_newlines()
        self._lines[path] = line or token.line
        self._take()
        if token.kind != "mark":
            return
        if token.text == "[":
            number = 0
            while self._next_member("]"):
                self._value((*path, number))
                number += 1
        elif token.text == "{":
            while self._next_member("}"):
                self._pair(path)

    def _next_member(self, end: str) -> bool:
        """Skip commas; False when the end was reached and skipped too."""
        while (token := self._skip_newlines()).text in (",", end) and token.kind == "mark":
            self._take()
            if token.text == end:
                return False
        return True

    def _skip_newlines(self) -> _Token:
        while self._peek().kind == "newline":
            self._at += 1
        return self._peek()

    def _peek(self) -> _Token:
        return self._tokens[self._at]

    def _take(self) -> _Token:
        self._at += 1
        return self._tokens[self._at - 1]


def _tokens(text: str) -> Iterator[_Token]:
    line, counted = 1, 0
    for found in _TOKEN.finditer(text):
        line += text.count("\n", counted, found.start())
        counted = found.start()
        if found.lastgroup != "comment":
            yield _Token(str(found.lastgroup), found.group(), line, found.start())
