"""`harness wait`: until a session needs a person, or ends, with an exit code for scripts."""

from __future__ import annotations

import json

from pty_terminal import PATIENCE_S, PtyTerminal
from test_cli_chat import GREETING, bash, chat
from world import CLAUDE_LINES, World, wait_until


def test_sessions_that_have_ended(world: World) -> None:
    world.install("claude", *CLAUDE_LINES)
    world.call("run", "-a", "claude", "-p", "look at it")
    answer = world.call("wait", "last")
    log_id = world.metadata()["session_id"]
    assert (answer.code, answer.out) == (0, f"{log_id}\tsucceeded\tlook at it\n")
    assert json.loads(world.call("wait", "last", "--json").out)[0]["state"] == "succeeded"
    assert world.call("wait", "last", "--for", "needs-you").code == 1
    world.install("claude", CLAUDE_LINES[0], after="exit 1")
    world.call("run", "-a", "claude", "-p", "x")
    assert world.call("wait", "last").code == 1


def test_what_is_not_there(world: World) -> None:
    assert world.call("wait").code == 2
    answer = world.call("wait", "nothing")
    assert answer.code == 2
    assert "unknown session" in answer.err


def test_a_session_that_needs_a_person(world: World) -> None:
    with PtyTerminal(world, *chat(world, bash("touch first"), "Done.")) as first:
        first.until(GREETING)
        first.type("go\n")
        waiting = world.spawn("wait", "--timeout", str(PATIENCE_S))
        first.until("touch first")
        assert waiting.wait(PATIENCE_S) in (2, 3)  # 2: it looked before anything ran
        wait_until(lambda: world.call("wait", "last", "--timeout", "5").code == 3)
        assert world.call("wait", "last", "--for", "end", "--timeout", "0.2").code == 124
        ending = world.spawn("wait", "last", "--for", "end")
        first.type("y\n")
        assert ending.wait(PATIENCE_S) == 0
