"""Models that cost nothing, and a tool: what is measured with them is everything else."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

from harness.contracts.model import Ask, Model
from harness.events import Event, Message, StepEnd, TextDelta, Usage, UsageDelta
from harness.native.tools.function_tool import tool

USED = Usage(input=100, output=20)


class Talker:
    """Says one long answer, piece by piece; `per_tick` pieces come together, as from one packet.

    No word comes twice soon: a model that repeats itself for long is stopped.
    """

    name = "bench/talker"

    def __init__(self, deltas: int, per_tick: int) -> None:
        self._pieces = [
            TextDelta(id="m", text=f"word{number * 7_919 % 100_003} ") for number in range(deltas)
        ]
        self._text = "".join(piece.text for piece in self._pieces)
        self._per_tick = per_tick

    async def answer(self, ask: Ask) -> AsyncIterator[Event]:
        del ask
        for number, piece in enumerate(self._pieces, 1):
            yield piece
            if not number % self._per_tick:
                await asyncio.sleep(0)
        yield Message(role="assistant", text=self._text, id="m")
        yield UsageDelta(usage=USED)
        yield StepEnd(id="", stop_reason="end")


class Later:
    """Says one word to the first message, and is another model from then on."""

    def __init__(self, model: Model) -> None:
        self.name: str = model.name
        self._model, self._has_spoken = model, False

    def answer(self, ask: Ask) -> AsyncIterator[Event]:
        model = self._model if self._has_spoken else Talker(1, 1)
        self._has_spoken = True
        return model.answer(ask)


class Caller:
    """Asks for one tool call after the other, and notes when (`at_s`, in CPU seconds).

    Each has other arguments: a run that makes the same call again and again is stopped.
    """

    name = "bench/caller"

    def __init__(self, steps: int) -> None:
        self._left = steps
        self.at_s: list[float] = []

    async def answer(self, ask: Ask) -> AsyncIterator[Event]:
        del ask
        self.at_s.append(time.process_time())
        self._left -= 1
        if self._left >= 0:
            part = {
                "type": "tool_call",
                "id": f"c{self._left}",
                "name": "add",
                "input": {"a": 1, "b": self._left},
            }
            yield Message(role="assistant", text="", parts=[part])
        else:
            yield Message(role="assistant", text="done")
        yield UsageDelta(usage=USED)
        yield StepEnd(id="", stop_reason="tool_calls")


@tool(quick=True)
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b
