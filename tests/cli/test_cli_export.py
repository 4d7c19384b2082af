"""`harness sessions show` as a document to pass on: how much of it, without secrets and names."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from cli_machine import CliMachine

sys.path.insert(0, str(Path(__file__).parents[1] / "histories"))
from stored_homes import cases

CLAUDE = "f90ec50b-b971-4e9a-93e0-525924e069a6"
TOKEN = "ghp_" + "a1B2" * 9


@pytest.fixture
def filled(cli: CliMachine) -> CliMachine:
    next(case for case in cases() if str(case) == "claude/2.1.325/tools").unpack(cli.home)
    return cli


@pytest.mark.parametrize("view", ["html", "markdown"])
def test_the_level_shows_how_much_is_in_it(filled: CliMachine, view: str) -> None:
    talk, calls, everything = (
        filled.call("sessions", "show", CLAUDE, "--format", view, "--level", level).out
        for level in ("talk", "calls", "all")
    )
    assert "All done: the total is fixed." in talk
    assert ("README.md" in talk, "exit 3" in talk) == (False, False)
    assert "A small shop." not in calls
    assert ("Bash" in calls or "$" in calls, "A small shop." in everything) == (True, True)
    assert filled.call("sessions", "show", CLAUDE, "--format", view).out == everything
    assert len(talk) < len(calls) < len(everything)


def test_secrets_are_masked_though_the_log_has_them(filled: CliMachine) -> None:
    line = f'{{"type":"assistant","message":{{"content":[{{"type":"text","text":"use {TOKEN}"}}]}}}}'
    filled.install("claude", '{"type":"system","subtype":"init","session_id":"s"}', line)
    filled.call("run", "--agent", "claude", "--no-redact", "--prompt", f"with {TOKEN}")
    assert TOKEN in filled.call("sessions", "show", "last", "--format", "text").out
    shown = filled.call("sessions", "show", "last", "--format", "html").out
    assert TOKEN not in shown
    assert "secrets masked" in shown


def test_names_of_home_and_user_are_replaced(filled: CliMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "ottilie")
    texts = f"in {filled.home}/shop ottilie ottilies @ottilie"
    line = f'{{"type":"assistant","message":{{"content":[{{"type":"text","text":"{texts}"}}]}}}}'
    filled.install("claude", '{"type":"system","subtype":"init","session_id":"s"}', line)
    filled.call("run", "--agent", "claude", "--prompt", "x")
    shown = filled.call("sessions", "show", "last", "--format", "text", "--hide-names").out
    assert "in /home/user/shop user ottilies @user" in shown
    assert (
        str(filled.home)
        not in filled.call("sessions", "show", "last", "--format", "html", "--hide-names").out
    )
