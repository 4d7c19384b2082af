"""Everything that a program may do with the class, in any order and at the wrong moment.

Whatever happens: what is wrong is an error with a name, nothing is stuck, nothing is left behind, and what is stored
can be opened and continued by the next process.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from conversation_kit import assert_consistent
from harness import (
    FileStore,
    GuardContext,
    Guards,
    Harness,
    HarnessError,
    Hooks,
    Limits,
    Memory,
    Mode,
    Output,
    Replace,
    Session,
    SessionEvent,
    Stop,
    ToolContext,
)
from harness.conversation import stored_history
from harness.conversation.history import history
from harness_kit import log_of
from running_kit import in_loop
from test_runs_chaos import Moody

SEEDS = range(int(os.environ.get("HARNESS_CHAOS", "10")))
ACTS = 60
MODES = [
    Mode(id="plan", transitions_to="build"),
    Mode(id="build"),
    Mode(id="wild", agent="no-such-program"),
]
WRONG: tuple[Any, ...] = (
    None,
    7,
    2.5,
    b"bytes",
    ["a"],
    {"a": 1},
    object(),
    "",
    "no such thing",
    "\ud800",
    "x" * 5000,
)


class Answer(msgspec.Struct):
    number: int


class Broken(Exception):
    """What an application raises."""


async def work(context: ToolContext) -> str:
    """Work."""
    for _ in range(3):
        await asyncio.sleep(0)
    return "done"


class Program:
    """A program with faults."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.chance = random.Random(seed)
        self.folder = str(folder)
        self.harness = self._open()
        self.doing: set[asyncio.Task[Any]] = set()
        self.raised: list[BaseException] = []
        self.watchers: list[AsyncIterator[SessionEvent]] = []

    def _open(self) -> Harness[Any]:
        model = Moody(self.chance)
        return Harness(
            id="h",
            modes=MODES,
            default_mode_id="build",
            storage=FileStore(self.folder),
            resolve_model=lambda _id: model,
            initial_state={"currentModelId": "test/model"},
            environ={},
            tools=[work],
            memory=Memory(),
            limits=Limits(max_turns=8),
            guards=Guards(
                input=[self._guard], output=[self._guard], call=[self._guard], result=[self._guard]
            ),
            hooks=Hooks(before_model=self._hook, after_call=self._hook, on_end=self._hook),
        )

    # Functions of the application, with faults of their own

    def _guard(self, _guarded: GuardContext) -> Stop | Replace | None:
        kind = self.chance.choices(("pass", "stop", "replace", "raise"), (30, 1, 1, 1))[0]
        if kind == "raise":
            raise Broken
        return {"pass": None, "stop": Stop("not so"), "replace": Replace("something else")}.get(kind)

    def _hook(self, _given: Any) -> None:
        if self.chance.random() < 0.1:
            raise Broken

    def _listener(self) -> Callable[[SessionEvent], Any]:
        def plain(_event: SessionEvent) -> None:
            if self.chance.random() < 0.2:
                raise Broken

        async def slow(_event: SessionEvent) -> None:
            await asyncio.sleep(0)
            plain(_event)

        return self.chance.choice([plain, slow])

    # What is done

    def deeds(self) -> list[Callable[[], Awaitable[object]]]:
        return [
            *[self.send] * 4,
            *[self.stream] * 4,
            *[self.answer] * 6,
            self.typed,
            self.steer,
            self.follow_up,
            self.abort,
            self.listen,
            self.watch,
            self.unwatch,
            self.threads,
            self.threads,
            self.state,
            self.mode,
            self.wrong,
            self.wrong,
            self.session,
            self.compact,
        ]

    @property
    def one(self) -> Session[Any]:
        return self.chance.choice(self.harness.sessions())

    async def send(self) -> None:
        await self.one.send_message(content="go")

    async def typed(self) -> None:
        await self.one.send_message(
            content="go", output=Output(type=Answer, retries=self.chance.randint(0, 2))
        )

    async def stream(self) -> None:
        run = self.one.stream(content="go")
        kind = self.chance.choice(["left", "broken", "bare", "text", "never", "whole"])
        if kind == "never":
            return
        if kind == "bare":
            async for _event in run:
                if self.chance.random() < 0.2:
                    break
            return
        with suppress(Broken):
            async with run:
                async for event in run.text() if kind == "text" else run:
                    if kind == "left" and self.chance.random() < 0.2:
                        break
                    if kind == "broken" and self.chance.random() < 0.2:
                        raise Broken
                    if getattr(event, "type", "") == "tool_suspended" and self.chance.random() < 0.5:
                        break
        if kind == "whole":
            await run.outcome()

    async def answer(self) -> None:
        for question in self.one.questions():
            for _ in range(self.chance.randint(1, 2)):  # twice, too
                if question.type == "tool_approval_required":
                    self.chance.choice([question.approve, question.decline])()
                elif question.plan:
                    self.chance.choice([question.approve, question.reject])()
                else:
                    question.answer(self.chance.choice(["this", *WRONG]))

    async def steer(self) -> None:
        await self.one.steer(content="that way")

    async def follow_up(self) -> None:
        await self.one.follow_up(content="later")

    async def abort(self) -> None:
        self.one.abort(queue=self.chance.choice(["keep", "clear"]))

    async def listen(self) -> None:
        end = self.one.subscribe(self._listener())
        await asyncio.sleep(0.001)
        end()
        end()

    async def watch(self) -> None:
        known = self.harness.session.thread.list()
        if known:
            watched = self.harness.watch(self.chance.choice(known).id, from_start=self.chance.random() < 0.5)
            self.watchers.append(watched)
            async for _event in watched:
                if self.chance.random() < 0.05:
                    break

    async def unwatch(self) -> None:
        if self.watchers:
            with suppress(RuntimeError):  # it is being read
                await self.watchers.pop().aclose()  # type: ignore[attr-defined]

    async def threads(self) -> None:
        thread = self.one.thread
        known = [one.id for one in thread.list()] or ["none"]
        id = self.chance.choice(known)
        kind = self.chance.choice(["new", "select", "switch", "delete", "clone", "rename", "release"])
        if kind == "new":
            await thread.create(title="new")
        elif kind == "select":
            await thread.select_or_create()
        elif kind == "switch":
            await thread.switch(thread_id=id)
        elif kind == "delete":
            await thread.delete(thread_id=id)
        elif kind == "clone":
            await thread.clone(source_thread_id=id)
        elif kind == "rename":
            await thread.rename(title="another")
        else:
            await thread.release()

    async def state(self) -> None:
        await self.one.state.set({"number": self.chance.choice(WRONG)})

    async def mode(self) -> None:
        await self.one.mode.switch(mode_id=self.chance.choice(["plan", "build", "wild", "none"]))

    async def session(self) -> None:
        session = self.harness.create_session(resource_id="h", scope=self.chance.choice("ab"))
        if self.chance.random() < 0.5:
            await self.harness.close_session(session)

    async def compact(self) -> None:
        await self.one.compact()

    async def wrong(self) -> None:
        session, value = self.one, self.chance.choice(WRONG)
        calls: list[Callable[[], Any]] = [
            lambda: session.send_message(content=value),
            lambda: session.send_message(content="go", files=value),
            lambda: session.send_message(content="go", limits=value),
            lambda: session.stream(content=value),
            lambda: session.steer(content=value),
            lambda: session.send_signal(value),
            lambda: session.send_notification_signal(value),
            lambda: session.subscribe(value),
            lambda: session.thread.switch(thread_id=value),
            lambda: session.thread.delete(thread_id=value),
            lambda: session.thread.create(title=value, id=value),
            lambda: session.thread.rename(title=value),
            lambda: session.mode.switch(mode_id=value),
            lambda: session.model.switch(model_id=value),
            lambda: session.state.change(number=value),
            lambda: session.state.update(value),
            lambda: session.respond_to_tool_approval(decision=value),
            lambda: session.respond_to_tool_suspension(resume_data=value),
            lambda: session.goals.set(value),
            lambda: self.harness.watch(value),
            lambda: self.harness.create_session(resource_id=value),
        ]
        made = self.chance.choice(calls)()
        if hasattr(made, "__await__"):
            await made
        elif hasattr(made, "aclose"):
            await made.aclose()

    # How it goes on

    def do(self, deed: Callable[[], Awaitable[object]]) -> None:
        async def named() -> None:
            try:
                await deed()
            except HarnessError:
                return
            except asyncio.CancelledError:
                raise
            except BaseException as error:
                error.add_note(f"doing: {deed.__name__}")
                self.raised.append(error)

        task = asyncio.create_task(named(), name=deed.__name__)
        self.doing.add(task)
        task.add_done_callback(self.doing.discard)

    async def rest(self) -> None:
        for _ in range(self.chance.randrange(12)):
            await asyncio.sleep(0)

    async def live(self) -> None:
        await self.harness.init()
        for _ in range(ACTS):
            self.do(self.chance.choice(self.deeds()))
            if self.doing and self.chance.random() < 0.05:
                self.chance.choice(sorted(self.doing, key=id)).cancel()
            await self.rest()
        for watched in self.watchers:
            with suppress(RuntimeError):
                await watched.aclose()  # type: ignore[attr-defined]

    async def die(self) -> None:
        """Closed in the middle: whoever waits for something gets an end."""
        await self.harness.destroy()
        async with asyncio.timeout(60):
            while self.doing:
                for task in list(self.doing):  # a watcher waits for what nobody writes any more
                    if task.get_name() == "watch":
                        task.cancel()
                await asyncio.sleep(0.001)


@pytest.mark.parametrize("seed", SEEDS)
@in_loop
async def test_at_random(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_history, "_FEW", 5)
    program = Program(seed, tmp_path)
    await program.live()
    await program.die()
    assert program.raised == []
    left = asyncio.all_tasks() - {asyncio.current_task()}
    if left:  # the loop itself closes generators that were left, in turns of its own
        _, left = await asyncio.wait(left, timeout=30)
    assert not left, "something goes on"

    again = Program(seed, tmp_path)
    async with again.harness as harness:
        await harness.session.state.set({"yolo": True})
        for thread in harness.session.thread.list(include_forked_subagents=True):
            await harness.switch_thread(thread_id=thread.id)
            harness.session.follow_ups.clear()
            harness.abort()
            await harness.wait_until_idle()
            outcome = await harness.send_message(content="are you there?")
            assert outcome.outcome
            harness.abort()
            await harness.wait_until_idle()
            events = log_of(harness)
            kept = harness.session.internals.conversation
            if kept is not None:
                assert history(events).entries == kept.entries
                assert_consistent(kept.entries)
