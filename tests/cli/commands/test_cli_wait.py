"""`harness wait`: until a session needs a person, or ends, with an exit code for scripts."""

from __future__ import annotations

import json

from cli_machine import CLAUDE_LINES, CliMachine, wait_until
from pty_terminal import TIMEOUT_S, PtyTerminal
from test_cli_chat import GREETING, bash, chat


def test_sessions_that_have_ended(cli: CliMachine) -> None:
    cli.install("claude", *CLAUDE_LINES)
    cli.call("run", "-a", "claude", "-p", "look at it")
    answer = cli.call("wait", "last")
    log_id = cli.metadata()["session_id"]
    assert (answer.code, answer.out) == (0, f"{log_id}\tsucceeded\tlook at it\n")
    assert json.loads(cli.call("wait", "last", "--json").out)[0]["state"] == "succeeded"
    assert cli.call("wait", "last", "--for", "needs-you").code == 1
    cli.install("claude", CLAUDE_LINES[0], after="exit 1")
    cli.call("run", "-a", "claude", "-p", "x")
    assert cli.call("wait", "last").code == 1


def test_what_is_not_there(cli: CliMachine) -> None:
    assert cli.call("wait").code == 2
    answer = cli.call("wait", "nothing")
    assert answer.code == 2
    assert "unknown session" in answer.err


def test_a_session_that_needs_a_person(cli: CliMachine) -> None:
    with PtyTerminal(cli, *chat(cli, bash("touch first"), "Done.")) as first:
        first.until(GREETING)
        first.type("go\n")
        waiting = cli.spawn("wait", "--timeout", str(TIMEOUT_S))
        first.until("touch first")
        assert waiting.wait(TIMEOUT_S) in (2, 3)  # 2: it looked before anything ran
        wait_until(lambda: cli.call("wait", "last", "--timeout", "5").code == 3)
        assert cli.call("wait", "last", "--for", "end", "--timeout", "0.2").code == 124
        ending = cli.spawn("wait", "last", "--for", "end")
        first.type("y\n")
        assert ending.wait(TIMEOUT_S) == 0
