"""The machine that the tests of the command line share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cli_machine import Answer, CliMachine
from harness.cli.main import main

OURS = ("HARNESS_", "XDG_", "NO_COLOR", "FORCE_COLOR", "COLUMNS")


@pytest.fixture
def cli(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Iterator[CliMachine]:
    import os

    for name in list(os.environ):
        if name.startswith(OURS) or name.endswith("_API_KEY"):
            monkeypatch.delenv(name)
    here = CliMachine(tmp_path)
    for name, value in here.environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(here.project)

    def call(*words: str) -> Answer:
        capfd.readouterr()
        code = main(words)
        captured = capfd.readouterr()
        return Answer(code, captured.out, captured.err)

    here.call = call
    yield here
    here.clean_up()
