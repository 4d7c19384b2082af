"""What is wrong with a file after a change, without what was wrong before."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from harness.contracts.model import Call
from harness.contracts.tool import ToolOutput
from harness.events.operation import Write
from harness.native.additions.checks import CheckRunner, FileCheck

FOUND = "\n[found after this change]\n"


def change(runner: CheckRunner, path: Path, text: str, tool: str = "write") -> str:
    """What is added to the result of a call that writes it."""

    async def carry_out() -> ToolOutput:
        call = Call("1", tool, {"filePath": str(path)})
        await runner.before_run(call, [Write(path=str(path))])
        await asyncio.to_thread(path.write_text, text)
        return await runner.after_call(call, ToolOutput(text="ok", operations=[Write(path=str(path))]))

    return asyncio.run(carry_out()).text.removeprefix("ok")


def runner(folder: Path, *checks: FileCheck) -> CheckRunner:
    return CheckRunner(checks, str(folder), lambda: {"PATH": os.environ["PATH"]})


def test_only_what_is_new_is_shown_until_it_is_mended(tmp_path: Path) -> None:
    lint = FileCheck("*.txt", "grep -n bad {files} && exit 1 || exit 0")
    path = tmp_path / "with blank.txt"
    path.write_text("bad one\n")
    checks = runner(tmp_path, lint)
    assert change(checks, path, "more\nbad one\n") == ""  # the same, with another number
    assert change(checks, path, "bad two\nbad one\n") == f"{FOUND}1:bad two"
    assert change(checks, path, "bad two\n") == f"{FOUND}1:bad two"
    assert change(checks, path, "good\n") == ""


def test_a_check_is_for_its_files_alone(tmp_path: Path) -> None:
    assert change(runner(tmp_path, FileCheck("*.md", "echo no; exit 1")), tmp_path / "a.txt", "x") == ""


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("a.py", "def f(:\n", "line 1: invalid syntax"),
        ("a.json", '{"a": }', "Expecting value"),
        ("a.toml", "a = = 1", "Invalid value"),
        ("a.py", "x\0", "null bytes"),
    ],
)
def test_a_file_that_no_longer_parses_is_named(tmp_path: Path, name: str, text: str, why: str) -> None:
    found = change(runner(tmp_path), tmp_path / name, text)
    assert found.startswith(f"{FOUND}{name} does not parse: ")
    assert why in found


def test_what_did_not_parse_before_and_json_with_comments_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("{% template %}")
    assert change(runner(tmp_path), path, "{% other %}") == ""
    assert change(runner(tmp_path), tmp_path / "tsconfig.json", '{\n// why\n"a": 1}') == ""


def test_a_check_that_is_not_there_is_said_once(tmp_path: Path) -> None:
    checks = runner(tmp_path, FileCheck("*", "no-such-linter {files}"))
    path = tmp_path / "a.txt"
    assert (
        change(checks, path, "x")
        == f"{FOUND}the check no-such-linter cannot be run, and is left out from now on"
    )
    assert change(checks, path, "y") == ""


def test_the_name_of_a_file_is_no_option_of_a_check(tmp_path: Path) -> None:
    checks = runner(tmp_path, FileCheck("*", "printf '%s' {files}; exit 1"))
    assert change(checks, tmp_path / "--config=x.txt", "x") == f"{FOUND}./--config=x.txt"


def test_many_lines_are_cut(tmp_path: Path) -> None:
    found = change(runner(tmp_path, FileCheck("*", "seq 30; exit 1")), tmp_path / "a.txt", "x")
    assert found.count("\n") == 12
    assert found.endswith("… and 20 lines more")


def test_other_tools_and_files_elsewhere_are_not_looked_at(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    checks = runner(folder, FileCheck("*", "echo no; exit 1"))
    assert change(checks, folder / "a.txt", "x", tool="read") == ""
    assert change(checks, tmp_path / "a.txt", "x") == ""
