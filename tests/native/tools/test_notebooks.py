"""Notebooks are read and edited as the text of their cells, and stay notebooks."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harness.contracts.tool import ToolFailure
from harness.native.tools.edit import EditTool
from harness.native.tools.read import ReadTool
from harness.native.tools.write import WriteTool
from harness.workspace.notebooks import NotebookFile, notebook
from tool_kit import Bench


def book(*cells: dict[str, Any], minor: int = 5, **more: Any) -> dict[str, Any]:
    return {
        "cells": [*cells],
        "metadata": {"kernelspec": {"name": "python3"}},
        "nbformat": 4,
        "nbformat_minor": minor,
        **more,
    }


def code(name: str, source: str, *outputs: dict[str, Any]) -> dict[str, Any]:
    return {
        "cell_type": "code",
        "execution_count": 3,
        "id": name,
        "metadata": {"tags": ["x"]},
        "outputs": [*outputs],
        "source": source.splitlines(keepends=True),
    }


PRINTED = {"name": "stdout", "output_type": "stream", "text": ["42\n"]}
PICTURE = {
    "data": {"image/png": "AAAA" * 1000, "text/plain": ["<Figure>"]},
    "metadata": {},
    "output_type": "display_data",
}
TITLE = {"cell_type": "markdown", "id": "t1", "metadata": {}, "source": ["# Größe"]}
BOOK = book(TITLE, code("c1", "x = 41\nprint(x + 1)", PRINTED), code("c2", "plot()", PICTURE))
TEXT = "# %% [markdown] t1\n# Größe\n# %% [code] c1\nx = 41\nprint(x + 1)\n# %% [code] c2\nplot()\n"


def written(value: dict[str, Any], **options: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False, **options) + "\n"


def cells_of(bench: Bench, name: str = "a.ipynb") -> list[dict[str, Any]]:
    cells: list[dict[str, Any]] = json.loads(bench.text(name))["cells"]
    return cells


def test_a_notebook_is_read_as_its_cells_with_their_outputs(bench: Bench) -> None:
    bench.write("a.ipynb", written(BOOK))
    seen = bench.call(ReadTool(bench.workspace), filePath="a.ipynb").text
    assert '<file path="a.ipynb" lines="1-7" total="7">' in seen
    assert "     1\t# %% [markdown] t1\n     2\t# Größe\n     3\t# %% [code] c1\n     4\tx = 41\n" in seen
    assert seen.endswith("</file>\n[output of c1]\n42\n[output of c2]\n<Figure>\n(image/png)")
    assert "AAAA" not in seen


def test_an_edit_changes_one_cell_and_nothing_else(bench: Bench) -> None:
    bench.write("a.ipynb", written(BOOK))
    bench.call(ReadTool(bench.workspace), filePath="a.ipynb")
    said = bench.call(
        EditTool(bench.workspace), filePath="a.ipynb", oldString="x = 41\n", newString="x = 40\ny = 2\n"
    ).text
    assert "y = 2" in said
    changed = {
        **BOOK["cells"][1],
        "source": ["x = 40\n", "y = 2\n", "print(x + 1)"],
        "outputs": [],
        "execution_count": None,
    }
    assert bench.text("a.ipynb") == written({**BOOK, "cells": [BOOK["cells"][0], changed, BOOK["cells"][2]]})


def test_cells_are_added_moved_and_removed_by_their_lines(bench: Bench) -> None:
    bench.write("a.ipynb", written(BOOK))
    bench.call(ReadTool(bench.workspace), filePath="a.ipynb")
    bench.call(
        EditTool(bench.workspace),
        filePath="a.ipynb",
        oldString="# %% [code] c1\nx = 41\nprint(x + 1)\n",
        newString="# %% [markdown]\nNow *this*:\n# %% [code]\n",
    )
    title, text, empty, plot = cells_of(bench)
    assert (title, plot) == (BOOK["cells"][0], BOOK["cells"][2])
    assert (text["cell_type"], text["source"], "outputs" in text) == ("markdown", ["Now *this*:"], False)
    assert (empty["cell_type"], empty["source"], empty["outputs"]) == ("code", [], [])
    assert len({cell["id"] for cell in cells_of(bench)}) == 4
    bench.call(
        WriteTool(bench.workspace),
        filePath="a.ipynb",
        content="# %% [code] c2\nplot()\n# %% [code] t1\n# Größe\n",
    )
    assert [cell["id"] for cell in cells_of(bench)] == ["c2", "t1"]
    assert cells_of(bench)[0] == BOOK["cells"][2]
    assert cells_of(bench)[1]["outputs"] == []


def test_a_new_notebook_is_written_by_its_cells(bench: Bench) -> None:
    bench.call(WriteTool(bench.workspace), filePath="new.ipynb", content="# %% [code]\nprint(1)\n")
    value = json.loads(bench.text("new.ipynb"))
    assert (value["nbformat"], value["nbformat_minor"]) == (4, 5)
    [cell] = value["cells"]
    assert cell["source"] == ["print(1)"]
    assert bench.call(ReadTool(bench.workspace), filePath="new.ipynb").text.count("# %% [code]") == 1
    with pytest.raises(ToolFailure, match="begins with the line of a cell"):
        bench.call(
            EditTool(bench.workspace), filePath="new.ipynb", oldString="# %% [code]", newString="print(0)"
        )
    assert cells_of(bench, "new.ipynb") == [cell]


@pytest.mark.parametrize(
    "value",
    [
        book(minor=4),
        book({"cell_type": "raw", "metadata": {}, "source": "as text\n\n"}, minor=4),
        book(
            {"cell_type": "code", "metadata": {}, "source": [], "outputs": [], "execution_count": None},
            minor=2,
        ),
        book(code("a", "\n\nx\n"), code("a", "same id"), code("b", "\x0c \u2028 \U0001f600\n")),
    ],
)
def test_what_is_not_changed_stays_as_it_was(value: dict[str, Any]) -> None:
    for text in (written(value), json.dumps(value, indent=1) + "\n", json.dumps(value, indent=4) + "\n"):
        found = notebook(text.encode())
        assert found is not None
        assert found.encode(found.text) == text.encode()


@pytest.mark.parametrize(
    "data",
    [
        b"{",
        b"[]",
        b'{"cells": 1, "nbformat": 4}',
        written(book(code("a", "x\n# %% [code] b\ny"))).encode(),
        written(book(code("a b", "x"))).encode(),
        written(book(code("a", "x"), nbformat=3)).encode(),
        written(book(code("a", "x"))).replace("\n", "\r\n").encode(),
        written(book(code("a", "x\r\ny"))).encode(),
        b"[" * 100_000,
    ],
)
def test_what_could_lose_something_is_only_text(data: bytes) -> None:
    assert notebook(data) is None


def test_half_a_character_is_written_so_that_it_can_be_read() -> None:
    found = NotebookFile(book(code("a", "x = '\ud800'")))
    assert json.loads(found.encode(found.text))["cells"][0]["source"] == ["x = '\ud800'"]
