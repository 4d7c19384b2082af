"""A Jupyter notebook as text: its cells one after the other, each below a line that says what it is.

    # %% [markdown] 8c2d1f
    # Sales of the year
    # %% [code] 1f3a77
    frame = load("sales.csv")

Rules
1. What is edited is this text; what is written is the notebook. A cell keeps what else there is of it (outputs, metadata)
   as long as its line is there and its text is the same; one whose text has changed loses its outputs, which are no longer true.
2. A cell below a line with no id, or with one that is not known, is new; one whose line is gone is removed.
3. What cannot be told apart this way (no JSON, an older format, a cell that holds such a line) is no notebook here, but text.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from typing import Any

from harness.contracts.tool import ToolFailure
from harness.workspace.files import TextFile, decode

SUFFIX, CELL = ".ipynb", "# %% ["
_MARK = re.compile(r"^# %% \[(code|markdown|raw)\](?: (\S+))?[ \t]*$", re.MULTILINE)
_LINES = re.compile(r"[^\n]*\n|[^\n]+")
_NEW = {"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
_MOST_OUTPUT_CHARACTERS = 1_000
"""Of the outputs of one cell that a model is shown."""
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class NotebookFile:
    """A notebook as tools see it. Contract: as `TextFile`."""

    def __init__(
        self, data: dict[str, Any] | None = None, *, indent: int = 1, is_ascii: bool = False
    ) -> None:
        """`data`: nothing for a new one."""
        self._data: dict[str, Any] = data if data is not None else dict(_NEW)
        self._indent = indent
        self._is_ascii = is_ascii
        self._cells: dict[str, dict[str, Any]] = {}
        for number, cell in enumerate(self._data["cells"], 1):
            name = cell.get("id")
            self._cells[name if isinstance(name, str) and name not in self._cells else f"#{number}"] = cell

    @property
    def text(self) -> str:
        return "".join(
            f"# %% [{cell['cell_type']}] {name}\n{_source(cell)}\n" for name, cell in self._cells.items()
        )

    def encode(self, text: str) -> bytes:
        """The file with this text. Raises ToolFailure where the text does not begin with a cell."""
        marks = list(_MARK.finditer(text))
        if text[: marks[0].start() if marks else None].strip():
            raise ToolFailure("a notebook begins with the line of a cell, such as `# %% [code]`")
        ends = [*(mark.start() for mark in marks), len(text)][1:]
        olds, cells = dict(self._cells), []
        for mark, end in zip(marks, ends, strict=True):
            source = text[mark.end() + 1 : end].removesuffix("\n")
            cells.append(self._cell(mark[1], source, olds.pop(mark[2] or "", None)))
        data = {**self._data, "cells": cells}
        try:
            return f"{json.dumps(data, indent=self._indent, ensure_ascii=self._is_ascii)}\n".encode()
        except UnicodeEncodeError:  # half a character, which JSON can say in ASCII alone
            return f"{json.dumps(data, indent=self._indent)}\n".encode()

    def outputs(self) -> Iterator[str]:
        """What the cells have put out, shortened, a text for each that has."""
        for name, cell in self._cells.items():
            parts = [_output(output) for output in cell.get("outputs") or () if isinstance(output, dict)]
            text = _ESCAPES.sub("", "\n".join(filter(None, parts))).strip("\n")
            if text:
                more = len(text) - _MOST_OUTPUT_CHARACTERS
                rest = f"\n[{more} characters more]" if more > 0 else ""
                yield f"[output of {name}]\n{text[:_MOST_OUTPUT_CHARACTERS]}{rest}"

    def _cell(self, kind: str, source: str, old: dict[str, Any] | None) -> dict[str, Any]:
        cell = dict(old) if old is not None else {"cell_type": kind, "metadata": {}}
        if old is None and (self._data["nbformat"], self._data.get("nbformat_minor", 0)) >= (4, 5):
            cell = {"id": os.urandom(4).hex(), **cell}
        is_same = old is not None and _source(old) == source and old["cell_type"] == kind
        if not is_same:
            is_whole = old is not None and isinstance(old.get("source"), str)
            cell |= {"cell_type": kind, "source": source if is_whole else _LINES.findall(source)}
            if kind == "code":
                cell |= {"execution_count": None, "outputs": []}
            else:
                cell = {
                    key: value for key, value in cell.items() if key not in ("execution_count", "outputs")
                }
        return cell


def notebook(data: bytes) -> NotebookFile | None:
    """None: it is none, or one that cannot be shown as text without losing something."""
    try:
        text = data.decode()
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    cells = value.get("cells") if isinstance(value, dict) else None
    if (
        "\r" in text
        or not isinstance(cells, list)
        or value.get("nbformat") != 4
        or not all(map(_is_plain, cells))
    ):
        return None
    indent = re.match(r"\{\r?\n( +)", text)
    is_ascii = text.isascii() and re.search(r"\\u[0-9a-f]{4}", text) is not None
    return NotebookFile(value, indent=len(indent[1]) if indent else 1, is_ascii=is_ascii)


def file_of(data: bytes, path: str, name: str) -> TextFile | NotebookFile:
    """The text of a file as it is edited. Raises ToolFailure if it is not text."""
    book = notebook(data) if path.endswith(SUFFIX) else None
    return decode(data, name) if book is None else book


def _is_plain(cell: Any) -> bool:
    if not isinstance(cell, dict) or cell.get("cell_type") not in ("code", "markdown", "raw"):
        return False
    source = cell.get("source", "")
    is_text = isinstance(source, str) or (
        isinstance(source, list) and all(isinstance(line, str) for line in source)
    )
    name = cell.get("id", "a")
    has_name = isinstance(name, str) and re.fullmatch(r"[\w-]{1,64}", name) is not None
    return is_text and has_name and "\r" not in _source(cell) and _MARK.search(_source(cell)) is None


def _source(cell: dict[str, Any]) -> str:
    source = cell.get("source", "")
    return source if isinstance(source, str) else "".join(source)


def _output(output: dict[str, Any]) -> str:
    """As words: a picture is only named."""
    if output.get("output_type") == "stream":
        return _joined(output.get("text"))
    if output.get("output_type") == "error":
        return "\n".join(
            [f"{output.get('ename')}: {output.get('evalue')}", _joined(output.get("traceback"), "\n")]
        )
    forms = output.get("data")
    if not isinstance(forms, dict):
        return ""
    if "text/plain" in forms:
        pictures = [kind for kind in forms if kind.startswith("image/")]
        return "\n".join([_joined(forms["text/plain"]), *(f"({kind})" for kind in pictures)])
    return ", ".join(f"({kind})" for kind in forms)


def _joined(value: Any, between: str = "") -> str:
    if isinstance(value, list):
        return between.join(map(str, value))
    return value if isinstance(value, str) else ""
