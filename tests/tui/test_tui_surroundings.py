"""What the screen does besides drawing: the bell, the title, the editor; and the error where Textual is missing."""

from __future__ import annotations

import importlib.util
import shlex
from pathlib import Path

import pytest
from msgspec.structs import replace

from harness.cli.main import main
from harness.errors import UsageError, how_to_install
from harness.folds.inbox.row import InboxRow
from harness.tui.composer import edited
from harness.tui.notices import Notices
from python_programs import PYTHON
from scripted_inbox import allow_ask, twelve_rows


def by_id(*rows: InboxRow) -> dict[str, InboxRow]:
    return {row.id: row for row in rows}


def test_the_terminal_rings_for_what_needs_a_person_and_for_what_ends() -> None:
    written: list[str] = []
    notices = Notices(written.append, is_on=True)
    running = twelve_rows()[4]
    asking = replace(running, state="needs-approval", asks=(allow_ask("n", "ls", "Bash", minutes=0),))
    notices.compare({}, by_id(asking))
    assert written == [], "what was there before is no news"
    notices.compare(by_id(running), by_id(asking))
    assert written.pop() == "\x1b]9;gift cards: run a command\x07\x07"
    notices.compare(by_id(asking), by_id(asking))
    assert written == []
    notices.compare(by_id(running), by_id(replace(running, state="failed")))
    assert written.pop() == "\x1b]9;gift cards has failed\x07\x07"


def test_nothing_of_an_agent_commands_the_terminal() -> None:
    written: list[str] = []
    notices = Notices(written.append, is_on=True)
    running = replace(twelve_rows()[4], title="evil\x07\x1b]0;title\x07\nline")
    notices.compare({}, {})
    notices.compare(by_id(running), by_id(replace(running, state="succeeded")))
    assert written == ["\x1b]9;evil␇␛]0;title␇ line is done\x07\x07"]


def test_the_setting_turns_all_of_it_off() -> None:
    written: list[str] = []
    notices = Notices(written.append, is_on=False)
    running = twelve_rows()[4]
    notices.compare({}, {})
    notices.compare(by_id(running), by_id(replace(running, state="succeeded")))
    notices.title(3)
    notices.close()
    assert written == []


def test_the_editor_gets_the_text_and_gives_another(tmp_path: Path) -> None:
    program = tmp_path / "editor.py"
    program.write_text(
        "import sys; path = sys.argv[1]; text = open(path).read(); open(path, 'w').write(text + ' more\\n')"
    )
    assert edited("some text", {"EDITOR": f"{PYTHON} {shlex.quote(str(program))}"}) == "some text more"


def test_an_editor_that_fails_loses_nothing(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not start"):
        edited("text", {"EDITOR": str(tmp_path / "none")})
    with pytest.raises(UsageError, match="ended with 1"):
        edited("text", {"VISUAL": "false"})


def test_without_textual_the_command_shows_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert main(["tui"]) == 2
    assert how_to_install("tui") in capfd.readouterr().err


def test_without_a_terminal_it_shows_it(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["tui"]) == 2
    assert "needs a terminal" in capfd.readouterr().err
