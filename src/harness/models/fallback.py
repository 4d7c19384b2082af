"""Several models in place of one: the next one is asked where the one before gives no answer."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

from msgspec.structs import replace

from harness.contracts.model import Ask, Model
from harness.events import Error, Event, ReasoningDelta, TextDelta, TextRetracted, UsageDelta, Warning
from harness.models.failure import is_too_long

CODE = "model_fallback"


class FallbackModel:
    """Implements `Model`. Contract: made for one run; the model that has answered is asked first from then on.

    A conversation that is too long is no reason for another model: it is summed up instead.
    """

    def __init__(self, models: Sequence[Model]) -> None:
        self.name = models[0].name
        self._models = tuple(models)
        self._at = 0

    @property
    def takes_schema_beside_tools(self) -> bool:
        """Whether every one of them may be asked with tools and a schema for the answer at once."""
        return all(getattr(model, "takes_schema_beside_tools", True) for model in self._models)

    async def answer(self, ask: Ask) -> AsyncGenerator[Event]:
        while True:
            at, model = self._at, self._models[self._at]
            failure: Error | None = None
            texts: dict[str, None] = {}
            async with aclosing(closing(model.answer(ask))) as events:
                async for event in events:
                    if isinstance(event, Error) and self._is_reason(event, at):
                        failure = event
                        break
                    if isinstance(event, TextDelta | ReasoningDelta):
                        texts[event.id] = None
                    yield replace(event, model=model.name) if _is_unnamed(event) and at else event
            if failure is None:
                return
            for text_id in texts:
                yield TextRetracted(id=text_id)
            self._at = max(self._at, at + 1)
            yield Warning(message=_words(model, self._models[self._at], failure), code=CODE)

    def _is_reason(self, error: Error, at: int) -> bool:
        return at + 1 < len(self._models) and not is_too_long(error.code, error.message)


def with_fallbacks(model: Model, others: Sequence[Model]) -> Model:
    return FallbackModel([model, *others]) if others else model


def _is_unnamed(event: Event) -> bool:
    return isinstance(event, UsageDelta) and not event.model


def _words(model: Model, other: Model, failure: Error) -> str:
    return f"{model.name} gives no answer: {failure.message}; {other.name} is asked instead"


async def closing(stream: Any) -> AsyncGenerator[Event]:
    """As a generator, which can be closed, whatever kind of iterator a model has made."""
    try:
        async for event in stream:
            yield event
    finally:
        if (close := getattr(stream, "aclose", None)) is not None:
            await close()
