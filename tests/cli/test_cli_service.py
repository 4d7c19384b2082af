"""`harness service`: the server as a unit of systemd."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from cli_machine import CliMachine
from harness.cli.commands.service import quoted, unit_of
from harness.errors import UsageError


@pytest.fixture
def systemctl(cli: CliMachine) -> Path:
    """A program in place of systemd's, which writes down what it was told."""
    calls = cli.root / "calls"
    program = cli.root / "bin/systemctl"
    program.write_text(f'#!/bin/sh\necho "$@" >> {shlex.quote(str(calls))}\n')
    program.chmod(0o755)
    return calls


def test_it_is_installed_and_removed(cli: CliMachine, systemctl: Path) -> None:
    installed = cli.call("service", "install", "--", "--port", "4790")
    assert installed.code == 0, installed.err
    (unit,) = cli.home.rglob("systemd/user/harness.service")
    assert '"-m" "harness" "serve" "--port" "4790"' in unit.read_text()
    assert systemctl.read_text().splitlines() == [
        "--user daemon-reload",
        "--user enable --now harness.service",
        "--user restart harness.service",
    ]
    assert cli.call("service").code == 0
    assert cli.call("service", "uninstall").code == 0
    assert not unit.exists()
    assert "not installed" in cli.call("service", "uninstall").err


def test_without_systemd_it_says_what_to_do(cli: CliMachine) -> None:
    shown = cli.call("service", "install")
    assert shown.code == 1
    assert "this system is not run by systemd" in shown.err
    assert not [*cli.home.rglob("harness.service")]
    assert "ExecStart=" in cli.call("service", "print").out


def test_options_that_serve_does_not_take_are_refused() -> None:
    with pytest.raises(UsageError):
        unit_of(["--no-such-option"], "/home/me")


def test_a_name_that_no_unit_can_hold_is_refused() -> None:
    with pytest.raises(UsageError, match="UTF-8"):
        unit_of([], "/home/caf\udce9")


@pytest.mark.parametrize(
    ("word", "written"),
    [
        ("a b", '"a b"'),
        ("100%", '"100%%"'),
        ("$HOME", '"$$HOME"'),
        ('say "x"', '"say \\"x\\""'),
        ("a\\b", '"a\\\\b"'),
    ],
)
def test_a_word_of_a_unit_is_only_a_word(word: str, written: str) -> None:
    assert quoted(word) == written
