"""A conversation of the class that becomes too long for its model is summed up, and goes on."""

from __future__ import annotations

from collections.abc import AsyncIterator

from conversation_kit import in_loop
from harness.contracts.model import Ask
from harness.conversation.compaction import is_summary
from harness.events import Compacted, Error, Event, StepEnd
from harness_kit import Model, StoreMaker, log_of, opened, storage, used

__all__ = ["storage"]
LONG = "two " * 200
TOO_LONG = "prompt is too long: 210000 tokens > 200000 maximum"


class Refusing(Model):
    """Cannot read more than a few turns beside the long one."""

    def answer(self, ask: Ask) -> AsyncIterator[Event]:
        is_too_long = len(ask.turns) > 5 and any(turn.text == LONG for turn in ask.turns)
        return self._refuse() if is_too_long else super().answer(ask)

    async def _refuse(self) -> AsyncIterator[Event]:
        yield Error(message=TOO_LONG, code="invalid_request_error")
        yield StepEnd(id="", stop_reason="error")


@in_loop
async def test_what_the_model_cannot_read_any_more_is_summed_up(storage: StoreMaker) -> None:
    model = Refusing("1", "2", "3", "a summary", "4")
    async with opened(model, storage=storage.open()) as (harness, _record):
        for text in ("one", LONG, "three", "four"):
            outcome = await harness.send_message(content=text)
            assert outcome.outcome == "completed", outcome
        [event] = [event for event in log_of(harness) if isinstance(event, Compacted)]
        assert event.summary == "a summary"
        assert any(is_summary(turn) for turn in model.asked[-1][0])
        thread = harness.session.thread.require_id()
    again = Refusing("5")
    async with opened(again, storage=storage.open()) as (harness, _record):
        await harness.session.thread.switch(thread_id=thread)
        assert (await harness.send_message(content="five")).outcome == "completed"
        assert any(is_summary(turn) for turn in again.asked[-1][0])


@in_loop
async def test_what_the_provider_counted_decides_before_the_next_message() -> None:
    model = Model(used("1", inputTokens=120_000, outputTokens=9), "a summary", "2")
    async with opened(model) as (harness, _record):
        await harness.send_message(content="one " * 20_000)
        assert (await harness.send_message(content="two")).outcome == "completed"
        assert [event.summary for event in log_of(harness) if isinstance(event, Compacted)] == ["a summary"]
