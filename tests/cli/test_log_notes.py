"""What libraries and parts of Harness note with `logging` reaches people as a line, and tracebacks reach a file."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from harness.cli.console import Console
from harness.cli.log_notes import LogNotes


def test_a_traceback_is_in_a_file_and_the_line_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with LogNotes(Console()):
        try:
            int("red")
        except ValueError:
            logging.getLogger("harness.session").exception("a run of %s broke", "\x1b[31mred")
        logging.getLogger("any.library").info("too little to say")
    logging.getLogger("any.library").warning("after the end")
    (report,) = (tmp_path / "harness/crashes").iterdir()
    assert "Traceback" in report.read_text()
    said = capfd.readouterr().err
    assert said.startswith("harness: warning: a run of ")
    assert "broke: ValueError: invalid literal" in said
    assert "red" in said
    assert str(report) in said
    assert "Traceback" not in said
    assert "\x1b" not in said
    assert "too little" not in said
    assert "after the end" not in said


def test_words_that_do_not_fit_are_said_all_the_same(capfd: pytest.CaptureFixture[str]) -> None:
    LogNotes(Console()).handle(logging.makeLogRecord({"msg": "%d of %d", "args": ("one",)}))
    assert "%d of %d" in capfd.readouterr().err
