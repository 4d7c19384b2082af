"""`harness top` at a real terminal: it answers a `harness chat` of another terminal, and leaves the terminal as it was."""

from __future__ import annotations

import signal
import time

import pytest

from cli_machine import CliMachine, wait_until
from pty_terminal import TIMEOUT_S, PtyTerminal
from test_cli_chat import GREETING, bash, chat

pytest.importorskip("pty", reason="there are no terminals here")

_GUARD_S = 0.5
"""No key answers sooner after a card has appeared."""


def test_it_answers_what_runs_in_other_terminals(cli: CliMachine) -> None:
    with PtyTerminal(cli, *chat(cli, bash("touch first"), bash("touch second"), "Done.")) as first:
        first.until(GREETING)
        first.type("go\n")
        with PtyTerminal(cli, "top") as top:
            top.until("$ touch first")
            time.sleep(_GUARD_S)
            top.type("y")
            top.until("$ touch second")
            time.sleep(_GUARD_S)
            top.type("e")
            top.until("No, because: ")
            top.type("not now\r")
            top.until("Denied")
            first.until("Done.")
            top.until("○")
            top.type("?")
            top.until("open: follow it")
            top.type("q")
            time.sleep(_GUARD_S)
            top.type("q")
            assert top.process.wait(TIMEOUT_S) == 0
            assert top.settings == top.before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_the_terminal_is_as_before_after_a_signal(cli: CliMachine, number: signal.Signals) -> None:
    with PtyTerminal(cli, "top") as top:
        top.until("no session yet")
        top.process.send_signal(number)
        assert top.process.wait(TIMEOUT_S) == 128 + number
        wait_until(lambda: top.raw.rstrip().endswith(b"\x07") and b"\x1b[?1049l" in top.raw)
        assert top.settings == top.before


def test_it_needs_a_terminal(cli: CliMachine) -> None:
    answer = cli.call("top")
    assert (answer.code, answer.out) == (2, "")
    assert "needs a terminal" in answer.err
