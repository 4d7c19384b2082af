"""What tests of a running session need besides a harness: models and tools that wait until they are released."""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from functools import wraps
from inspect import isasyncgenfunction
from pathlib import Path
from typing import Any

from harness.contracts.model import Ask, SystemTurn
from harness.contracts.tool import Tool
from harness.events import (
    Event,
    Message,
    Result,
    SessionStart,
    StepEnd,
    TextDelta,
    ToolEnd,
    ToolStart,
)
from harness.models.scripted import Scripted
from harness.native.tools.function_tool import tool
from harness.session.config import CommandAgent
from harness.session.harness import Harness
from harness_kit import Model, Record
from python_programs import PYTHON

YOLO = {"yolo": True}
NO_MODEL = {"currentModelId": ""}
_LONGEST_S = 10.0
_FAKE = Path(__file__).parent / "fake_claude.py"


def in_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """A test that is a coroutine."""

    @wraps(test)
    def run(*arguments: Any, **named: Any) -> None:
        async def limited() -> None:
            async with asyncio.timeout(200):
                await test(*arguments, **named)

        asyncio.run(limited())

    return run


class Gate:
    """A caller waits at it; the test sees that, and opens it."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.opened = asyncio.Event()
        self.was_stopped = False

    async def wait(self) -> None:
        self.reached.set()
        try:
            await self.opened.wait()
        except asyncio.CancelledError:
            self.was_stopped = True
            raise

    async def come(self) -> None:
        """Until a caller is there."""
        async with asyncio.timeout(_LONGEST_S):
            await self.reached.wait()

    def open(self) -> None:
        self.opened.set()


class Live(Model):
    """A model of which some answers are streams that the test holds in its hands."""

    def __init__(self, *responses: Any, name: str = "test/model", default: str = "Yes.") -> None:
        super().__init__(name=name)
        self._responses = list(responses)
        self._default = default

    def answer(self, ask: Ask) -> AsyncIterator[Event]:
        system = next((turn.text for turn in ask.turns if isinstance(turn, SystemTurn)), "")
        self.asked.append((tuple(ask.turns), tuple(ask.tools), system))
        response = self._responses.pop(0) if self._responses else self._default
        if isasyncgenfunction(response):
            stream: AsyncIterator[Event] = response(ask)
            return stream
        return Scripted([response], name=self.name).answer(ask)


def waiting(gate: Gate, name: str = "work", result: str = "worked") -> Tool:
    """A tool that does nothing until the gate is opened."""

    async def work() -> str:
        """Work."""
        await gate.wait()
        return result

    work.__name__ = name
    made: Tool = tool(work)
    return made


def plain(name: str, result: str = "done") -> Tool:
    """A tool that says something."""

    async def work() -> str:
        """Work."""
        return result

    work.__name__ = name
    made: Tool = tool(work)
    return made


def halting(gate: Gate, first: str = "Let me", rest: str = " see.") -> Callable[[Ask], Any]:
    """An answer that stops in the middle."""

    async def answer(_ask: Ask) -> AsyncIterator[Event]:
        yield TextDelta(id="m", text=first)
        await gate.wait()
        yield TextDelta(id="m", text=rest)
        yield Message(role="assistant", text=first + rest, id="m")
        yield StepEnd(id="", stop_reason="end")

    return answer


def stopping(text: str, stop_reason: str) -> dict[str, Any]:
    """A response that ends for a reason of its own."""
    return {"events": [{"type": "text", "content": text}], "stop_reason": stop_reason}


def failing(message: str, code: str = "http_500") -> dict[str, Any]:
    return {"events": [{"type": "error", "message": message, "code": code}]}


def started(work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    return asyncio.get_running_loop().create_task(work)


def ends(record: Record) -> list[str]:
    """How the runs ended."""
    return [str(data.get("reason")) for data in record.named("agent_end")]


def starts(record: Record) -> int:
    return len(record.named("agent_start"))


def texts(record: Record, role: str = "assistant") -> list[str]:
    """The text of every message that has ended."""
    found = [data["message"] for data in record.named("message_end") if data["message"]["role"] == role]
    return ["".join(part.get("text", "") for part in message["content"]) for message in found]


def errors(record: Record) -> list[str]:
    return [data["error"]["message"] for data in record.named("error")]


def check(harness: Harness, events: Sequence[Event]) -> None:
    """Every run of a log has one end, and everything that was begun in it has ended before."""
    assert [event.seq for event in events] == list(range(len(events)))
    waiting_run = harness.session.internals.bus.fold.facts.open_run
    for start in [event for event in events if isinstance(event, SessionStart)]:
        own = [event for event in events if event.run_id == start.run_id]
        assert sum(isinstance(event, Result) for event in own) == (start.run_id != waiting_run)
        begun = {event.call_id for event in own if isinstance(event, ToolStart)}
        ended = {event.call_id for event in own if isinstance(event, ToolEnd)}
        assert ended <= begun
        if start.run_id != waiting_run:
            assert begun == ended
            assert isinstance(own[-1], Result)


def fake_claude(folder: Path, version: str = "2.0.10", **options: Any) -> CommandAgent:
    """Claude Code as far as a session sees it: a program that speaks like it, and notes how it was called.

    From 2.0.60 on it is held in a conversation.
    """
    program = folder / "claude"
    program.write_text(
        f'#!/bin/sh\nFAKE_VERSION={version} exec {PYTHON} -I -S {shlex.quote(str(_FAKE))} "$@"\n'
    )
    program.chmod(0o755)
    env = {"FAKE_NOTES": str(folder / "notes.jsonl")}
    return CommandAgent(name="claude", binary=str(program), env=env, **options)


def notes(folder: Path) -> list[dict[str, Any]]:
    """How it was called."""
    return [json.loads(line) for line in (folder / "notes.jsonl").read_text().split("\n") if line]
