"""Instruction files: imports, circles, huge and binary ones, and those of folders that are touched."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.contracts.request import Request
from harness.events import Info, ToolEnd
from harness.log.stores.memory import MemoryStore
from harness.native.loop.instructions import (
    MOST_BYTES,
    MOST_BYTES_IN_ALL,
    find_instructions,
    nested_instructions,
)
from harness.runs.run import start


@pytest.fixture
def top(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    folder = tmp_path / "top"
    (folder / ".git").mkdir(parents=True)
    (folder / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    return folder


def texts(folder: Path) -> list[str]:
    return [one.text for one in find_instructions(str(folder))]


def test_another_file_is_imported_where_it_is_named(top: Path) -> None:
    (top / "docs").mkdir()
    (top / "docs" / "form.md").write_text("Two spaces. See @more.md")
    (top / "docs" / "more.md").write_text("No tabs.")
    (top / "AGENTS.md").write_text(
        "Style: @docs/form.md. Mail me@docs/more.md, not `@docs/more.md`.\n```\n@docs/form.md\n```"
    )
    [text] = texts(top)
    assert text.startswith("Style: Two spaces. See No tabs.. Mail me@docs/more.md, not `@docs/more.md`.")
    assert "```\n@docs/form.md\n```" in text


def test_a_circle_is_read_once_and_a_file_that_only_imports_another_is_none(top: Path) -> None:
    (top / "AGENTS.md").write_text("one @CLAUDE.md")
    (top / "CLAUDE.md").write_text("two @AGENTS.md")
    assert texts(top) == ["one two @AGENTS.md"]
    (top / "AGENTS.md").write_text("one")
    (top / "CLAUDE.md").write_text("@AGENTS.md")
    assert texts(top)[0] == "one"
    assert "one" not in "".join(texts(top)[1:])


def test_nothing_leads_out_of_the_repository(top: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.md").write_text("very secret")
    (top / "link.md").symlink_to(tmp_path / "secret.md")
    (top / "AGENTS.md").write_text(f"@../secret.md @{tmp_path}/secret.md @link.md @~/secret.md")
    assert "very secret" not in "".join(texts(top))


def test_huge_and_binary_files_are_bounded(top: Path) -> None:
    with (top / "AGENTS.md").open("wb") as file:
        file.write(b"x" * 100_000)
        file.truncate(50 * 1024 * 1024)
    (top / "CLAUDE.md").write_bytes(b"\x7fELF\0\0\0")
    [one] = find_instructions(str(top))
    assert (len(one.text), one.is_cut) == (MOST_BYTES, True)
    for number in range(30):
        (top / f"part{number}.md").write_text(f"{number} " + "y" * 20_000)
    (top / "AGENTS.md").write_text(" ".join(f"@part{number}.md" for number in range(30)))
    assert len("".join(texts(top))) < MOST_BYTES_IN_ALL + 5_000


def test_those_of_a_folder_come_once_and_again_when_they_are_forgotten(top: Path) -> None:
    (top / "pkg" / "deep").mkdir(parents=True)
    (top / "pkg" / "AGENTS.md").write_text("of the package")
    (top / "pkg" / "deep" / "CLAUDE.md").write_text("of the depth")
    told: set[str] = set()
    path = str(top / "pkg" / "deep" / "a.py")
    assert [one.text for one in nested_instructions(path, str(top), told)] == [
        "of the package",
        "of the depth",
    ]
    assert nested_instructions(path, str(top), told) == []
    assert nested_instructions(str(top / "a.py"), str(top), told) == []
    assert nested_instructions("/etc/passwd", str(top), told) == []
    told.clear()
    assert len(nested_instructions(path, str(top), told)) == 2


def test_a_call_that_touches_a_folder_brings_its_instructions(top: Path, tmp_path: Path) -> None:
    (top / "pkg").mkdir()
    (top / "pkg" / "AGENTS.md").write_text("Never rename here.")
    (top / "pkg" / "a.txt").write_text("text")
    script = tmp_path / "script.toml"
    read = '{ tool = "read", input = { filePath = "pkg/a.txt" } }'
    script.write_text(f'turns = [{read}, {read}, {{ text = "Done." }}]')
    request = Request(agent="native", prompt="go", cwd=str(top), model=f"scripted/{script}")
    events = list(start(request, store=MemoryStore()))
    outputs = [event.output or "" for event in events if isinstance(event, ToolEnd)]
    assert "Never rename here." in outputs[0]
    assert "Never rename here." not in outputs[1]
    assert any("pkg/AGENTS.md" in event.message for event in events if isinstance(event, Info))
