"""A program that is held in a conversation at a limit of `harness budget`: paused, asked about, continued, interrupted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from conversations import (
    ABORTED,
    INTERRUPT,
    SESSION,
    VERSION,
    Talk,
    call,
    first_turn,
    out,
    relays,
    result_of,
    text,
)
from harness.errors import UsageError
from harness.events import BudgetExtended, Error, Event, Relay, RelayReply
from harness.runs import launch


@pytest.fixture(autouse=True)
def known_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "probe_version", lambda binary, args: VERSION)


@pytest.fixture
def talk(tmp_path: Path) -> Talk:
    return Talk(tmp_path)


def paid_call() -> list[dict[str, Any]]:
    """A model call that costs a dollar."""
    used = {"input_tokens": 1_000_000, "output_tokens": 0}
    message = {"id": "m1", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": used}
    events: tuple[dict[str, Any], ...] = (
        {"type": "message_start", "message": message},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": used},
        {"type": "message_stop"},
    )
    return [out({"type": "stream_event", "event": event, "session_id": SESSION}) for event in events]


@pytest.fixture
def limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    path = tmp_path / "config/harness/config.toml"
    path.parent.mkdir(parents=True)
    path.write_text('[budget]\nday_usd = 1.0\n[prices."m"]\ninput = 1.0\noutput = 1.0\n')


@pytest.mark.usefixtures("limited")
def test_at_a_limit_the_program_is_paused_asked_about_and_continues(talk: Talk) -> None:
    run = talk.start(talk.program(*first_turn(*paid_call(), talk.later, text("Done."))), asks_at_limit=True)

    def allow(event: Event) -> None:
        if isinstance(event, Relay):
            with pytest.raises(UsageError, match="neither an amount nor a refusal"):
                run.reply(event.id, approved=True, answer="hm")
            assert run.reply(event.id, approved=True, answer="$5")
            assert not run.reply(event.id, approved=True, answer="$9"), "the first answer counts"
        elif isinstance(event, BudgetExtended):
            talk.gate.touch()  # not before: it is paused a moment after the question

    events = talk.follow(run, allow)
    assert result_of(events).outcome == "completed"
    asked = [type(event) for event in events if isinstance(event, Relay | RelayReply | BudgetExtended)]
    assert asked == [Relay, RelayReply, BudgetExtended]
    assert [event.until_usd for event in events if isinstance(event, BudgetExtended)] == [6.0]


@pytest.mark.usefixtures("limited")
@pytest.mark.parametrize("asks", [True, False])
def test_at_a_limit_the_turn_is_interrupted_when_there_is_no_more(talk: Talk, asks: bool) -> None:
    run = talk.start(
        talk.program(*first_turn(*paid_call(), call("c1"), INTERRUPT, end=ABORTED)), asks_at_limit=asks
    )

    def refuse(event: Event) -> None:
        if isinstance(event, Relay):
            run.reply(event.id, approved=True, answer="Stop")

    events = talk.follow(run, refuse)
    assert result_of(events).outcome == "limit_exceeded"
    assert [event.code for event in events if isinstance(event, Error)] == ["spending_limit"]
    assert len(relays(events)) == asks
