"""A memory on a conversation that a test makes up: real entries, real events, scripted models."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Any, TypeVar

from msgspec.structs import replace

from harness.contracts.model import (
    Ask,
    AssistantTurn,
    Attachment,
    Call,
    SystemTurn,
    ToolTurn,
    Turn,
    UserTurn,
)
from harness.conversation.turns import StepContext, TranscriptEntry
from harness.events import Error, Event, Message, StepEnd
from harness.session.memory import ObservationalMemory, RecordFold, RetryPolicy

Answer = str | Error | Exception | Callable[[Ask], str] | tuple[asyncio.Event, str]
"""What a model says; with an event, only after that was set."""
Kind = TypeVar("Kind", bound=Event)

MINUTE_MS = 60_000
START_MS = 1_764_860_400_000
"""2025-12-04 15:00 UTC."""
SMALL = {"observation": {"messageTokens": 1_000}}
NO_BUFFER = {"observation": {"messageTokens": 1_000, "bufferTokens": False}}


class Answering:
    def __init__(self, *answers: Answer, name: str = "test/model") -> None:
        self.name = name
        self.answers = list(answers)
        self.asked: list[Ask] = []
        self.was_asked = asyncio.Event()

    async def answer(self, ask: Ask) -> AsyncIterator[Event]:
        self.asked.append(ask)
        self.was_asked.set()
        answer = self.answers.pop(0) if self.answers else Error(message="nothing left to say", code="over")
        if isinstance(answer, tuple):
            await answer[0].wait()
            answer = answer[1]
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, Error):
            yield answer
            yield StepEnd(id="", stop_reason="error")
            return
        yield Message(role="assistant", text=answer if isinstance(answer, str) else answer(ask))
        yield StepEnd(id="", stop_reason="end")

    @property
    def last_words(self) -> str:
        """What the model was asked last, by the user's turn."""
        turn = self.asked[-1].turns[-1]
        assert isinstance(turn, UserTurn)
        return turn.text


def noted(*lines: str, task: str = "", suggestion: str = "", title: str = "") -> str:
    """An answer of an observer."""
    said = "<observations>\nDate: Dec 4, 2025\n" + "\n".join(f"* 🔴 (15:00) {line}" for line in lines)
    said += "\n</observations>\n"
    for name, text in (("current-task", task), ("suggested-response", suggestion), ("thread-title", title)):
        if text:
            said += f"<{name}>\n{text}\n</{name}>\n"
    return said


def reflected(*lines: str) -> str:
    return "<observations>\n" + "\n".join(f"* {line}" for line in lines) + "\n</observations>"


def tokens(number: int) -> str:
    """A text of so many tokens, as a turn counts them."""
    return ("word" * number)[: 4 * (number - 4)]


async def no_sleep(_seconds: float) -> None:
    return None


class Bench:
    """Entries and events share one log, as in a thread."""

    def __init__(
        self,
        config: dict[str, Any] | None = None,
        observer: Iterable[Answer] = (),
        reflector: Iterable[Answer] = (),
        *,
        thread_id: str = "thread",
        model: str = "anthropic/claude",
        log: Sequence[Event] = (),
        **how: Any,
    ) -> None:
        self.now_ms = START_MS
        self.entries: list[TranscriptEntry] = []
        self.log: list[Event] = list(log)
        self.next_seq = len(self.log)
        self.observer = Answering(*observer, name="test/observer")
        self.reflector = Answering(*reflector, name="test/reflector")
        self.model = Answering(name=model)
        self.failures: list[Exception] = []
        fold = RecordFold()
        for event in self.log:
            fold.feed(event)
        self._cycles = 0
        self.memory = ObservationalMemory(
            {"timezone": "UTC", **(config or {})},
            append=self.append,
            observer=lambda: self.observer,
            reflector=lambda: self.reflector,
            record=fold,
            thread_id=thread_id,
            resource_id="resource",
            clock_ms=lambda: self.now_ms,
            new_id=self._cycle,
            retry=how.pop("retry", RetryPolicy(sleep=no_sleep)),
            on_failure=how.pop("on_failure", self.failures.append),
            **how,
        )

    def _cycle(self) -> str:
        self._cycles += 1
        return f"cycle-{self._cycles}"

    def append(self, event: Event) -> Event:
        stamped = replace(event, seq=self.next_seq, timestamp_ms=self.now_ms)
        self.next_seq += 1
        self.log.append(stamped)
        return stamped

    def say(self, turn: Turn, message_id: str = "") -> TranscriptEntry:
        entry = TranscriptEntry(turn, message_id or f"m{self.next_seq}", self.now_ms, self.next_seq)
        self.next_seq += 1
        self.entries.append(entry)
        return entry

    def user(self, text: str, *attachments: Attachment) -> TranscriptEntry:
        return self.say(UserTurn(text, attachments))

    def assistant(self, text: str) -> TranscriptEntry:
        return self.say(AssistantTurn(text))

    def calls(self, *results: str, text: str = "") -> None:
        """One answer with calls, and their results."""
        calls = tuple(Call(f"c{self.next_seq}-{number}", "read", {}) for number in range(len(results)))
        asked = self.say(AssistantTurn(text, calls))
        for call, result in zip(calls, results, strict=True):
            self.say(ToolTurn(call.id, result), asked.message_id)

    async def step(self, number: int = 0) -> Sequence[Turn] | None:
        return await self.memory.before_step(StepContext(self.entries, number, "run", self.model))

    async def settled(self, number: int = 0) -> Sequence[Turn] | None:
        """A step, and all that it began in the background."""
        turns = await self.step(number)
        await self.memory.settle()
        return turns

    def of(self, kind: type[Kind]) -> list[Kind]:
        return [event for event in self.log if isinstance(event, kind)]

    @property
    def known(self) -> Any:
        return self.memory.state.fold.known


def texts(turns: Sequence[Turn] | None, kind: type[Turn] = SystemTurn) -> str:
    return "\n".join(turn.text for turn in turns or () if isinstance(turn, kind))


def run(coroutine: Any) -> Any:
    return asyncio.run(coroutine)


async def buffered(config: dict[str, object] | None = None, *, chunks: int = 2, **how: object) -> Bench:
    """A conversation with so many chunks of 250 tokens, below its threshold."""
    bench = Bench(config or SMALL, [noted(f"note {number}") for number in range(chunks)], **how)
    for _ in range(chunks):
        bench.user(tokens(125))
        bench.assistant(tokens(125))
        await bench.settled()
    assert len(bench.known.chunks) == chunks
    return bench
