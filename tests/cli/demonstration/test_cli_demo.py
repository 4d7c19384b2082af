"""`harness demo`: the point of Harness on a machine that has nothing."""

from __future__ import annotations

import sys
from pathlib import Path

from cli_machine import CliMachine
from pty_terminal import PtyTerminal


def test_it_mends_the_project_and_shows_difference_and_cost(cli: CliMachine) -> None:
    shown = cli.call("demo")
    assert shown.code == 0, shown.err
    assert "here each answer is yes" in shown.out
    assert "FAILED: three hours at 80.00 should cost 240.0, not 80.0" in shown.out
    assert "+        total = sum(rate * hours for _, rate, hours in self.lines)" in shown.out
    assert (
        "A script played the model, so this cost nothing.\nclaude-sonnet-4-5 would have cost $" in shown.out
    )


def test_what_to_type_next_can_be_typed(cli: CliMachine) -> None:
    """The program of a clone is not on the PATH."""
    own = Path(sys.executable).with_name("harness")
    assert f"  {own} sessions replay last " in cli.call("demo").out
    (cli.bin / "harness").symlink_to(own)
    assert "  harness sessions replay last " in cli.call("demo").out


def test_it_begins_anew_each_time(cli: CliMachine) -> None:
    cli.call("demo")
    shown = cli.call("demo", "--yes")
    assert shown.code == 0
    assert "FAILED: three hours" in shown.out


def test_on_a_terminal_a_person_answers(cli: CliMachine) -> None:
    with PtyTerminal(cli, "demo") as terminal:
        terminal.until("you answer")
        for _ in range(3):
            terminal.until("[n] No, or why not")
            terminal.type("y\n")
        terminal.until("what to do next")
        assert terminal.process.wait(30) == 0


def test_what_is_refused_is_not_done(cli: CliMachine) -> None:
    with PtyTerminal(cli, "demo") as terminal:
        for answer in ("y\n", "n\n", "n\n"):
            terminal.until("[n] No, or why not")
            terminal.type(answer)
        terminal.until("it changed no files")
    (project,) = cli.home.rglob("invoices/invoice.py")
    assert "rate * hours" not in project.read_text()


def test_a_real_model_is_not_answered_with_yes_unless_someone_says_so(cli: CliMachine) -> None:
    shown = cli.call("demo", "--model", "scripted/demo-fix")
    assert shown.code == 2
    assert "nobody can answer here" in shown.err
    assert "--yes" in shown.err
    assert cli.call("demo", "--model", "scripted/demo-fix", "--yes").code == 0
