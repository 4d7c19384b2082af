"""One call of a model, for runs that tell no steps: what it says goes into the log under the run itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import NamedTuple

from harness.events import Error, Event, Message, StepEnd, TextDelta, UsageDelta
from harness.sources.loop.loop_context import LoopContext
from harness.sources.loop.model_steps import CUT_SHORT
from harness.sources.loop.options import AgentOptions
from harness.sources.model import Turn


class Answered(NamedTuple):
    message: Message | None
    failure: str = ""
    """Why there is no message, or only a part of one; it is in the log as an `Error`."""
    is_cut_off: bool = False
    """The message is only the beginning of one: to ask for a shorter one may help."""


async def call_model(
    host: LoopContext,
    options: AgentOptions,
    turns: Sequence[Turn],
    put: Callable[[Event], bool],
    on_usage: Callable[[UsageDelta], object],
) -> Answered:
    """Cancelling it closes the model's stream."""
    if host.stopped is not None:
        raise asyncio.CancelledError
    listener = _Listener(host, options.model.name, put, on_usage)
    try:
        await listener.listen(options.model.answer(options.ask(turns)))
    except Exception as error:
        listener.fail(Error(message=f"the model broke: {error!r}", code="model_error"))
    if listener.message is None and not listener.failure:
        listener.fail(Error(message="the model said nothing", code="no_answer"))
    if listener.stop_reason in CUT_SHORT and not listener.failure:
        listener.fail(Error(message=CUT_SHORT[listener.stop_reason], code=listener.stop_reason))
        if listener.stop_reason == "length":
            return Answered(listener.message, listener.failure, is_cut_off=True)
    return Answered(None if listener.failure else listener.message, listener.failure)


class _Listener:
    def __init__(
        self,
        host: LoopContext,
        model: str,
        put: Callable[[Event], bool],
        on_usage: Callable[[UsageDelta], object],
    ) -> None:
        self.message: Message | None = None
        self.failure = ""
        self.stop_reason = ""
        self._host = host
        self._model = model
        self._put = put
        self._on_usage = on_usage

    async def listen(self, stream: AsyncIterator[Event]) -> None:
        try:
            async for event in stream:
                self._host.has_output = True
                if self._take(event):
                    # A model that never waits would let nobody else have a turn.
                    await asyncio.sleep(0)
        finally:
            if (close := getattr(stream, "aclose", None)) is not None:
                await close()

    def fail(self, error: Error) -> bool:
        self.failure = error.message or "unknown"
        return self._put(error)

    def _take(self, event: Event) -> bool:
        if type(event) is TextDelta:  # nearly all of them are
            return self._put(event)
        if isinstance(event, StepEnd):
            self.stop_reason = event.stop_reason
            return False
        if isinstance(event, UsageDelta):
            model = event.model or self._model
            usage = self._host.priced(model, event.usage)
            self._on_usage(UsageDelta(usage=usage, model=model, id=event.id))
            return False
        if isinstance(event, Error):
            return self.fail(event)
        if isinstance(event, Message):
            self.message = event
        return self._put(event)
