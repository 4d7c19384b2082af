"""`harness run --at-limit hand-over`: another agent with room continues, with no more rights than the first one had."""

from __future__ import annotations

import json
import time

from cli_machine import CliMachine

_SAID = "You've hit your usage limit. Try again in 2 hours 5 minutes."
_FULL = (
    '{"type":"thread.started","thread_id":"t"}',
    '{"type":"turn.started"}',
    '{"type":"item.completed","item":{"id":"item_0","type":"agent_message","text":"Half of it is done."}}',
    json.dumps({"type": "error", "message": _SAID}),
    json.dumps({"type": "turn.failed", "error": {"message": _SAID}}),
)
_RUN = ("run", "-a", "codex", "-p", "Port the tests.", "--at-limit", "hand-over")


def _full_codex(cli: CliMachine, *names: str) -> None:
    cli.install("codex", *_FULL, after="exit 1")
    assert cli.call("config", "set", "limits.hand_over", " ".join(names)).code == 0


def test_the_first_agent_with_room_continues_what_was_said(cli: CliMachine) -> None:
    _full_codex(cli, "codex", "claude")
    cli.install("claude", before='echo "$@" > "$HOME/words"; cat > "$HOME/given"')
    answer = cli.call(*_RUN, "-o", str(cli.root / "out"))
    assert answer.code == 0, answer.err
    assert (cli.root / "out").read_text() == answer.out  # of both runs
    assert "handed over to Claude Code, as a session of its own" in answer.err
    assert "usage limit was reached" in (cli.home / "given").read_text()
    assert "--resume" in (cli.home / "words").read_text()
    [session] = (cli.home / ".claude/projects").rglob("*.jsonl")
    assert "Port the tests." in session.read_text()
    assert "Half of it is done." in session.read_text()
    assert len(cli.logs()) == 2


def test_an_agent_whose_own_window_is_full_gets_nothing(cli: CliMachine) -> None:
    soon = int(time.time()) + 3_000
    data = {"status": "allowed_warning", "rateLimitType": "seven_day", "resetsAt": soon, "utilization": 0.95}
    limit = json.dumps({"type": "rate_limit_event", "rate_limit_info": data, "session_id": "mock-session"})
    cli.install("claude", limit, before="cat >/dev/null")
    cli.call("run", "-a", "claude", "-p", "x")
    _full_codex(cli, "claude", "gemini")
    answer = cli.call(*_RUN)
    assert answer.code == 1
    assert "not handed over to claude: its window seven day is full, too" in answer.err
    assert "not handed over to gemini: Gemini CLI is not installed" in answer.err
    assert len(cli.logs()) == 2


def test_it_is_handed_over_once_to_each_and_never_back(cli: CliMachine) -> None:
    _full_codex(cli, "claude", "codex")
    result = '{"type":"result","subtype":"success","is_error":true,"api_error_status":429,"result":"%s","session_id":"m"}'
    cli.install("claude", result % _SAID, after="exit 1")
    answer = cli.call(*_RUN)
    assert answer.code == 1
    assert answer.err.count("handed over to Claude Code") == 1
    assert len(cli.logs()) == 2


def test_without_a_name_and_without_the_same_rights_nobody_gets_it(cli: CliMachine) -> None:
    cli.install("codex", *_FULL, after="exit 1")
    cli.install("claude")
    answer = cli.call(*_RUN)
    assert answer.code == 1
    assert "nobody is named to hand it over to" in answer.err
    _full_codex(cli, "claude")
    answer = cli.call(*_RUN, "--permissions", "agent-default")
    assert "not handed over to claude: what it may do by itself is not known to be the same" in answer.err
