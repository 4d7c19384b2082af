"""`harness service`: the server as a unit of systemd."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from cli_machine import CliMachine
from harness.cli.commands.service import quoted, unit_of
from harness.errors import UsageError
from lacking import lacking


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
    assert '"-P" "-m" "harness" "serve" "--port" "4790"' in unit.read_text()
    assert systemctl.read_text().splitlines() == [
        "--user show-environment",
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


def test_an_account_without_systemd_gets_no_unit(cli: CliMachine, systemctl: Path) -> None:
    """As after `su`: the program is there, and nothing that would answer it."""
    (cli.root / "bin/systemctl").write_text("#!/bin/sh\necho 'Failed to connect to bus' >&2\nexit 1\n")
    shown = cli.call("service", "install")
    assert shown.code == 1
    assert "systemd does not answer for this account: Failed to connect to bus" in shown.err
    assert not [*cli.home.rglob("harness.service")]


def test_agents_are_found_where_the_shell_finds_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """systemd's own PATH has neither `~/.local/bin` nor what a version manager of Node.js adds."""
    monkeypatch.setenv("PATH", f"/opt/my $tools/100%/bin:relative::{tmp_path}")
    lines = unit_of([], "/home/me").splitlines()
    assert f'Environment="PATH=/opt/my $tools/100%%/bin:{tmp_path}"' in lines


def test_variables_in_options_are_only_words() -> None:
    assert '"--cwd" "/srv/$$HOME"' in unit_of(["--cwd", "/srv/$HOME"], "/home/me")


def test_systemd_can_read_the_unit(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip(lacking("systemd-analyze"))
    unit = tmp_path / "harness.service"
    unit.write_text(unit_of(["--cwd", "/srv/100% $HOME"], str(tmp_path)))
    command = ["systemd-analyze", "--user", "--man=no", "verify", str(unit)]
    environ = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path), "HOME": str(tmp_path)}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert (done.returncode, [line for line in done.stderr.splitlines() if unit.name in line]) == (0, [])


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
        ('say "x"', '"say \\"x\\""'),
        ("a\\b", '"a\\\\b"'),
    ],
)
def test_a_word_of_a_unit_is_only_a_word(word: str, written: str) -> None:
    assert quoted(word) == written


def test_nothing_is_named_that_may_not_be_there(cli: CliMachine) -> None:
    """`systemd-analyze verify` refuses a manual page that is not installed."""
    assert "Documentation=" not in cli.call("service", "print").out
