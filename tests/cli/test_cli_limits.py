"""`harness usage --limits`: what agents last said of the windows of their accounts."""

from __future__ import annotations

import json
import time

from cli_machine import CLAUDE_LINES, CliMachine


def _limit(status: str, used: float | None, resets_s: int, window: str = "five_hour") -> str:
    data = {"status": status, "rateLimitType": window, "resetsAt": resets_s, "utilization": used}
    return json.dumps({"type": "rate_limit_event", "rate_limit_info": data, "session_id": "mock-session"})


def _run(cli: CliMachine, *lines: str) -> None:
    cli.install("claude", CLAUDE_LINES[0], *lines, *CLAUDE_LINES[1:])
    assert cli.call("run", "-a", "claude", "-p", "x").code == 0


def test_the_latest_word_on_each_window_is_shown(cli: CliMachine) -> None:
    answer = cli.call("usage", "--limits")
    assert (answer.code, answer.out) == (0, "")
    assert "no agent has said" in answer.err
    soon = int(time.time()) + 3_000
    _run(cli, _limit("allowed", 0.5, soon), _limit("allowed", 0.41, soon, "seven_day"))
    _run(
        cli,
        _limit("allowed_warning", 0.93, soon),
        '{"type":"assistant","message":{"content":"resets in 1 s"}}',
    )
    rows = {row["window"]: row for row in cli.call("usage", "--limits", "--json").data}
    assert rows.keys() == {"five_hour", "seven_day"}
    assert (rows["five_hour"]["usedPercent"], rows["five_hour"]["status"]) == (93, "near")
    assert rows["five_hour"]["resetsAtMs"] == soon * 1000
    assert rows["seven_day"]["usedPercent"] == 41
    table = cli.call("usage", "--limits").out.split("\n")
    assert table[0].split() == ["agent", "window", "used", "state", "resets", "said"]
    assert "93 %" in table[1]


def test_a_time_that_cannot_be_is_not_believed_and_a_window_that_opened_is_unknown(cli: CliMachine) -> None:
    past = int(time.time()) - 60
    _run(cli, _limit("rejected", None, 1_900_000_000_000, "seven_day"), _limit("rejected", 1.0, past))
    rows = {row["window"]: row for row in cli.call("usage", "--limits", "--json").data}
    assert rows["seven_day"]["resetsAtMs"] is None
    assert rows["five_hour"]["isPast"] is True
    assert "?" in cli.call("usage", "--limits").out


def test_of_other_agents_the_words_of_their_errors_count(cli: CliMachine) -> None:
    said = "You've hit your usage limit. Try again in 2 hours 5 minutes."
    lines = (
        '{"type":"thread.started","thread_id":"t"}',
        '{"type":"turn.started"}',
        json.dumps({"type": "error", "message": said}),
        json.dumps({"type": "turn.failed", "error": {"message": said}}),
    )
    cli.install("codex", *lines, after="exit 1")
    assert cli.call("run", "-a", "codex", "-p", "x").code == 1
    [row] = cli.call("usage", "--limits", "--json").data
    assert (row["agent"], row["status"], row["window"]) == ("codex", "reached", "")
    assert 7_400_000 < row["resetsAtMs"] - row["saidMs"] < 7_600_000
