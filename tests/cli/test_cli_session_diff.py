"""`harness sessions diff`: what a session changed, as a patch that git understands."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import Any

import pytest

from cli_machine import CliMachine

GIT = shutil.which("git") or "git"
"""Found here: in a `CliMachine` there is none."""
TEXT = "".join(f"line {number}\n" for number in range(1, 21))


def line(kind: str, **fields: Any) -> str:
    return json.dumps({"type": kind, "session_id": "s", **fields})


def used(identity: str, name: str, **asked: Any) -> tuple[str, str]:
    content = [{"type": "tool_use", "id": identity, "name": name, "input": asked}]
    result = [{"type": "tool_result", "tool_use_id": identity, "content": "done"}]
    return (
        line("assistant", message={"id": f"m{identity}", "role": "assistant", "content": content}),
        line("user", message={"role": "user", "content": result}),
    )


@pytest.fixture
def changed(cli: CliMachine) -> CliMachine:
    """An agent that reports two changed files, which are there."""
    project = cli.project
    (project / "a.txt").write_text(TEXT.replace("line 3\n", "the third line\n"))
    (project / "new.txt").write_text("one\ntwo\n")
    place = str(project)
    lines = (
        line("system", subtype="init", model="m", cwd=place, tools=[]),
        *used("t1", "Edit", file_path=f"{place}/a.txt", old_string="line 3\n", new_string="the third line\n"),
        *used("t2", "Write", file_path=f"{place}/new.txt", content="one\ntwo\n"),
        line("result", subtype="success", is_error=False, result="Done.", duration_ms=1),
    )
    cli.install("claude", *lines)
    assert cli.call("run", "-a", "claude", "-p", "count in words").code == 0
    return cli


def test_the_patch_is_taken_back_by_git(changed: CliMachine) -> None:
    answer = changed.call("sessions", "diff", "last")
    assert "+the third line\n" in answer.out
    folder = changed.project
    subprocess.run(
        [GIT, "apply", "-R", "--include=a.txt"], cwd=folder, input=answer.out, text=True, check=True
    )
    assert (folder / "a.txt").read_text() == TEXT


def test_the_totals_of_each_file(changed: CliMachine) -> None:
    lines = changed.call("sessions", "diff", "last", "--stat").out.split("\n")
    assert lines[0].split() == ["M", "a.txt", "+1", "-1"]
    assert lines[2].startswith("2 files, +3 -1")


def test_a_turn_that_there_is_not(changed: CliMachine) -> None:
    answer = changed.call("sessions", "diff", "last", "--turn", "7")
    assert answer.code == 2
    assert "there is no turn 7" in answer.err
    assert changed.call("sessions", "diff", "last", "--turn", "1").out


def test_what_is_not_known_is_reported(changed: CliMachine) -> None:
    (changed.project / "a.txt").write_text("something else\n")
    answer = changed.call("sessions", "diff", "last")
    assert answer.code == 1
    assert "not in the patch: a.txt: the log does not have the text that was there before" in answer.err


def test_a_session_that_changed_nothing(cli: CliMachine) -> None:
    cli.install("claude")
    assert cli.call("run", "-a", "claude", "-p", "look").code == 0
    answer = cli.call("sessions", "diff", "last")
    assert (answer.code, answer.out, answer.err) == (0, "", "it changed no files\n")
