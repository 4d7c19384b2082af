"""A model that answers by a script, and an agent run on it: everything else is the real thing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.contracts.model import Ask, ToolSpec, Turn
from harness.events import (
    Error,
    Event,
    Message,
    Relay,
    Result,
    SessionStart,
    StepEnd,
    StepStart,
    TextDelta,
    ToolEnd,
    ToolStart,
    Usage,
    UsageDelta,
    Warning,
)
from harness.native.loop.loop_context import AgentOptions
from harness.native.loop.orchestrator import Orchestrator
from harness.questions.permissions import Permissions

Answer = Sequence[Event] | Callable[[Ask], AsyncIterator[Event]]


class PlayedModel:
    def __init__(self, *answers: Answer, name: str = "test/played") -> None:
        self.name = name
        self.answers = list(answers)
        self.asked: list[tuple[tuple[Turn, ...], tuple[ToolSpec, ...]]] = []
        self.closed = 0

    async def answer(self, ask: Ask) -> AsyncIterator[Event]:
        self.asked.append((tuple(ask.turns), tuple(ask.tools)))
        answer = self.answers.pop(0) if self.answers else fails(f"no answer at {len(self.asked) - 1}")
        try:
            if callable(answer):
                async for event in answer(ask):
                    yield event
            else:
                for event in answer:
                    yield event
        finally:
            self.closed += 1


def says(text: str, *, pieces: int = 1, usage: Usage | None = None) -> list[Event]:
    size = -(-len(text) // pieces) or 1
    cut = [text[start : start + size] for start in range(0, len(text), size)]
    return [
        *(TextDelta(id="m", text=piece) for piece in cut),
        Message(role="assistant", text=text, id="m"),
        UsageDelta(usage=usage or Usage(input=10, output=5)),
        StepEnd(id="", stop_reason="end"),
    ]


def calls(*asked: tuple[str, str, Any], text: str = "") -> list[Event]:
    parts = [{"type": "tool_call", "id": id, "name": name, "input": input} for id, name, input in asked]
    return [
        Message(role="assistant", text=text, parts=parts),
        UsageDelta(usage=Usage(input=10, output=5)),
        StepEnd(id="", stop_reason="tool_calls"),
    ]


def fails(message: str) -> list[Event]:
    return [Error(message=message, code="boom"), StepEnd(id="", stop_reason="error")]


@dataclass
class Played:
    """What became of a run."""

    events: list[Event]
    run_id: str
    model: PlayedModel
    replies: list[bool] = field(default_factory=list)

    @property
    def result(self) -> Result:
        last = self.events[-1]
        assert isinstance(last, Result)
        return last

    def of(self, kind: type[Any], run_id: str | None = None) -> list[Any]:
        return [
            event
            for event in self.events
            if isinstance(event, kind) and (run_id is None or event.run_id == run_id)
        ]

    @property
    def shape(self) -> list[str]:
        return [type(event).__name__ for event in self.events]


Reaction = Callable[[Orchestrator, Event], Awaitable[object] | object]


async def follow(
    model: PlayedModel,
    *,
    prompt: str = "go",
    on_event: Reaction | None = None,
    redact: bool = False,
    turns: Sequence[Turn] = (),
    parent_id: str = "",
    **options: Any,
) -> Played:
    options.setdefault("permissions", Permissions("allow"))
    events: list[Event] = []
    async with Orchestrator(AgentOptions(model=model, **options), redact=redact) as agents:
        run_id = agents.spawn(prompt, turns=turns, parent_id=parent_id)
        async for event in agents.events():
            events.append(event)
            if on_event is not None:
                answer = on_event(agents, event)
                if isinstance(answer, Awaitable):
                    await answer
    assert_whole(events)
    return Played(events, run_id, model)


def play(*answers: Answer, **options: Any) -> Played:
    """One run to its end."""
    return asyncio.run(follow(PlayedModel(*answers), **options))


def approve(**how: Any) -> Reaction:
    return lambda agents, event: (
        agents.resolve(event.id, **{"approved": True, **how}) if isinstance(event, Relay) else None
    )


def assert_whole(events: Sequence[Event]) -> None:
    """Everything opened is closed, in the run that opened it, and each run ends with one result."""
    assert [event.seq for event in events] == list(range(len(events)))
    runs = [event.run_id for event in events if isinstance(event, SessionStart)]
    results = [event.run_id for event in events if isinstance(event, Result)]
    assert sorted(runs) == sorted(results)
    for start, end in ((StepStart, StepEnd), (ToolStart, ToolEnd)):
        name = "id" if start is StepStart else "call_id"
        opened = [(event.run_id, getattr(event, name)) for event in events if isinstance(event, start)]
        closed = [(event.run_id, getattr(event, name)) for event in events if isinstance(event, end)]
        assert sorted(opened) == sorted(closed)
        assert len(set(opened)) == len(opened)
    for run_id in runs:
        own = [event for event in events if event.run_id == run_id and not isinstance(event, Warning)]
        assert isinstance(own[0], SessionStart)
        assert isinstance(own[-1], Result)
