"""Secrets in what an agent of our own says or does never reach the log, and the model still knows them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from harness.contracts.model import ToolTurn
from harness.contracts.tool import ToolContext
from harness.events import (
    Event,
    Message,
    Result,
    TextDelta,
    ToolEnd,
    ToolInputDelta,
    ToolProgress,
    ToolStart,
)
from harness.log.codec import encode_lines
from harness.native.loop.event_redactor import EventRedactor
from harness.native.tools.function_tool import tool
from played_model import PlayedModel, calls, follow, says

SECRET = "correct-horse-battery-9Q7Z-staple"
MARK = "[REDACTED:MY_TOKEN]"


def masked(redactor: EventRedactor, *texts: str, id: str = "m") -> str:
    shown = [event for text in texts for event in redactor.mask([TextDelta(id=id, text=text)])]
    return "".join(event.text for event in [*shown, *redactor.release()])  # type: ignore[attr-defined]


def test_what_is_clean_is_handed_on_as_it_is() -> None:
    events: list[Event] = [
        Message(role="user", text="hi"),
        TextDelta(id="m", text="hello "),
        TextDelta(id="m", text="there"),
        ToolStart(call_id="c", tool_name="t", input={"a": [1]}),
    ]
    shown = EventRedactor({"MY_TOKEN": SECRET}).mask(events)
    assert len(shown) == 4
    assert all(one is other for one, other in zip(shown, events, strict=True))


@pytest.mark.parametrize("place", range(1, len(SECRET)))
def test_a_secret_that_is_cut_anywhere_is_masked(place: int) -> None:
    text = masked(
        EventRedactor({"MY_TOKEN": SECRET}), f"it is {SECRET[:place]}", f"{SECRET[place:]}, you see"
    )
    assert MARK in text
    assert SECRET[3:-3] not in text
    assert text.startswith("it is ")
    assert text.endswith(", you see")


def test_a_secret_that_comes_letter_by_letter_is_masked_from_where_it_can_be_known() -> None:
    assert masked(EventRedactor({"MY_TOKEN": SECRET}), "a ", *SECRET, " b") == f"a {SECRET[:3]}{MARK} b"


def test_a_beginning_that_was_none_is_shown_whole_and_in_order() -> None:
    redactor = EventRedactor({"MY_TOKEN": SECRET})
    assert redactor.mask([TextDelta(id="m", text="correct-h")]) == []
    assert redactor.holds_back
    shown = redactor.mask([TextDelta(id="m", text=" is fine"), Message(role="assistant", text="x")])
    assert [getattr(event, "text", "") for event in shown] == ["correct-h", " is fine", "x"]
    assert not redactor.holds_back


def test_whatever_comes_behind_a_piece_that_waits_comes_out_behind_it() -> None:
    redactor = EventRedactor({"MY_TOKEN": SECRET})
    assert redactor.mask([TextDelta(id="m", text="correct-h")]) == []
    shown = redactor.mask([ToolInputDelta(call_id="c", text="{"), Result(success=True)])
    assert [type(event) for event in shown] == [TextDelta, ToolInputDelta, Result]


def test_streams_that_are_written_at_once_do_not_hide_a_secret_from_each_other() -> None:
    redactor = EventRedactor({"MY_TOKEN": SECRET})
    shown: list[Event] = []
    for first, second in zip(SECRET[:12], "x" * 12, strict=True):
        shown += redactor.mask(
            [ToolProgress(call_id="a", text=first), ToolProgress(call_id="b", text=second)]
        )
    shown += redactor.mask([ToolProgress(call_id="a", text=SECRET[12:])])
    shown += redactor.release()
    text = "".join(event.text for event in shown if event.call_id == "a")  # type: ignore[attr-defined]
    assert SECRET not in text
    assert SECRET[12:] not in text


def test_text_that_no_file_can_hold_goes_through_too() -> None:
    assert masked(EventRedactor({}), "a\ud800b", "c") in ("a\ud800bc", "a\ufffdbc")


def test_whole_events_are_masked_wherever_the_secret_is() -> None:
    events: list[Event] = [
        Message(role="user", text=f"use {SECRET}"),
        ToolStart(call_id="c", tool_name="t", input={"deep": [{"key": SECRET}]}),
        ToolEnd(call_id="c", tool_name="t", output="fine"),
    ]
    shown = EventRedactor({"MY_TOKEN": SECRET}).mask(events)
    assert SECRET.encode() not in encode_lines(shown)
    assert shown[1].input == {"deep": [{"key": MARK}]}  # type: ignore[attr-defined]
    assert shown[2] == events[2]


def test_a_run_keeps_secrets_from_its_log_and_not_from_its_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", SECRET)
    given: list[str] = []

    @tool
    async def show(context: ToolContext, key: str) -> str:
        assert key == SECRET
        context.progress(f"using {SECRET[:20]}")
        context.progress(f"{SECRET[20:]}!")
        given.extend(context.env)
        return f"the key is {SECRET}"

    model = PlayedModel(calls(("c", "show", {"key": SECRET})), says(f"your key is {SECRET}", pieces=9))
    played: Any = asyncio.run(follow(model, tools=(show,), redact=True, prompt=f"my key: {SECRET}"))

    assert SECRET.encode() not in encode_lines(played.events)
    assert model.asked[1][0][-1] == ToolTurn("c", f"the key is {SECRET}")
    assert played.result.text == f"your key is {MARK}"
    assert "".join(event.text for event in played.of(TextDelta)) == f"your key is {MARK}"
    assert "MY_TOKEN" not in given
    assert "PATH" in given


def test_a_held_piece_is_shown_soon_when_nothing_follows() -> None:
    async def stops(ask: Any) -> Any:
        yield TextDelta(id="m", text=SECRET[:20])
        await shown.wait()
        for event in says(SECRET[:20])[1:]:
            yield event

    shown = asyncio.Event()

    def note(_agents: Any, event: Event) -> None:
        if isinstance(event, TextDelta):
            shown.set()

    async def run() -> Any:
        return await follow(PlayedModel(stops), redact=True, on_event=note)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MY_TOKEN", SECRET)
        played = asyncio.run(run())
    assert played.of(TextDelta)[0].text == MARK


def test_the_id_of_a_call_is_masked_in_its_pieces_as_in_the_call() -> None:
    call_id = f"call-{SECRET}"
    events: list[Event] = [
        ToolInputDelta(call_id=call_id, tool_name=f"t-{SECRET}", text='{"a"'),
        ToolInputDelta(call_id=call_id, text=": 1}"),
        ToolProgress(call_id=call_id, text="working"),
        ToolStart(call_id=call_id, tool_name="t", input={"a": 1}),
    ]
    redactor = EventRedactor({"MY_TOKEN": SECRET})
    shown = [one for event in events for one in redactor.mask([event])]
    assert {one.call_id for one in shown} == {f"call-{MARK}"}  # type: ignore[attr-defined]
    assert "".join(one.text for one in shown if isinstance(one, ToolInputDelta)) == '{"a": 1}'
    assert SECRET.encode() not in encode_lines(shown)
