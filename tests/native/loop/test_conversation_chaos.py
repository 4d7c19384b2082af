"""Whatever happens in whatever order: the log is whole, and says exactly what the conversation says."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest

from conversation_kit import Talk, in_loop
from harness.approvals.call import ProposedCall
from harness.contracts.model import Ask, UserTurn
from harness.contracts.tool import ToolContext, ToolFailure
from harness.events import Event, Message, RelayReply, Signal, TextDelta
from harness.native.tools.function_tool import tool
from harness.questions.permissions import Permissions, PermissionVerdict
from played_model import PlayedModel, calls, fails, says

ROUNDS = int(os.environ.get("HARNESS_CHAOS", "25"))
ACTS = 40


class Fickle(Permissions):
    """Allows, asks and denies by chance."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__("allow")
        self._chance = chance

    def verdict(self, call: ProposedCall) -> PermissionVerdict:
        del call
        return PermissionVerdict(self._chance.choices(("allow", "ask", "deny"), (8, 2, 1))[0])


class Chaos:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.numbers = iter(range(10**6))
        self.running: asyncio.Task[Any] | None = None
        self.steered: list[str] = []
        """What was accepted."""
        self.options = {"tools": self.tools(), "permissions": Fickle(self.chance), "max_iterations": 6}
        self.talk = Talk(**self.options)
        self.endless()

    def endless(self) -> None:
        class Endless(list[Any]):
            def __bool__(inner) -> bool:  # noqa: N805
                return True

            def pop(inner, place: Any = 0) -> Any:  # noqa: N805
                del place
                return self.answer

        assert isinstance(self.talk.model, PlayedModel)
        self.talk.model.answers = Endless()

    async def answer(self, ask: Ask) -> AsyncIterator[Event]:
        del ask
        kind = self.chance.choices(("say", "call", "fail"), (4, 6, 1))[0]
        asked = [
            (
                f"c{self.chance.randrange(4)}",
                self.chance.choice(("quick", "slow", "ask", "broken", "twice")),
                {},
            )
            for _ in range(self.chance.randint(1, 3))
        ]
        answers = {"say": says(f"text {next(self.numbers)}"), "call": calls(*asked), "fail": fails("gone")}
        yield TextDelta(id="m", text="…")
        await self.rest()
        for event in answers[kind]:
            yield event

    async def rest(self) -> None:
        for _ in range(self.chance.randrange(6)):
            await asyncio.sleep(0)

    def tools(self) -> tuple[Any, ...]:
        @tool(quick=True)
        def quick() -> str:
            return "quick"

        @tool
        async def slow() -> str:
            await self.rest()
            return "slow"

        @tool
        async def ask(context: ToolContext) -> str:
            return f"heard {await context.suspend('?')}"

        @tool
        async def twice(context: ToolContext) -> str:
            return f"{await context.suspend('1?')} {await context.suspend('2?')}"

        @tool
        async def broken() -> str:
            await self.rest()
            raise ToolFailure("broken")

        return quick, slow, ask, twice, broken

    async def act(self) -> None:
        talk, running = self.talk, self.running
        if running is not None and running.done():
            self.running = running = None
            talk.check()
        if running is not None:
            await self.disturb(running)
        elif talk.conversation.pending is not None:
            await self.rouse()
        else:
            self.chance.choice((self.send, self.send, self.send, self.add, self.restart))()
        await self.rest()

    async def disturb(self, running: asyncio.Task[Any]) -> None:
        kind = self.chance.choices(("steer", "add", "cancel", "die", "reply", "rest"), (3, 3, 1, 1, 6, 8))[0]
        if kind == "steer":
            text = f"steer {next(self.numbers)}"
            if self.talk.conversation.steer(text):
                self.steered.append(text)
        elif kind == "add":
            self.add()
        elif kind == "reply":
            self.reply()
        elif kind == "rest":
            await asyncio.sleep(0.003)
        else:
            if kind == "die":
                dead = self.talk
                self.talk = dead.after_death(is_recovered=True, **self.options)
                self.endless()
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running
            self.running = None
            self.talk.check()

    def reply(self) -> None:
        for relay_id in [relay.id for relay, _ in self.talk.context.questions.open]:
            self.talk.context.questions.reply(RelayReply(id=relay_id, approved=self.chance.random() < 0.7))

    async def rouse(self) -> None:
        kind = self.chance.choices(
            ("answer", "refuse", "restart", "add", "send", "give up"), (8, 2, 2, 2, 1, 1)
        )[0]
        if kind == "answer":
            self.running = asyncio.create_task(self.talk.answer(f"answer {next(self.numbers)}"))
        elif kind == "refuse":
            self.running = asyncio.create_task(self.talk.answer(approved=False, reason="no"))
        elif kind == "give up":
            self.talk.conversation.give_up()
        else:
            {"restart": self.restart, "add": self.add, "send": self.send}[kind]()
        if self.running is None:
            self.talk.check()

    def send(self) -> None:
        self.running = asyncio.create_task(self.talk.send(f"say {next(self.numbers)}"))

    def add(self) -> None:
        number = next(self.numbers)
        if self.chance.random() < 0.5:
            category = self.chance.choice(("user", "state", "reactive", "notification"))
            self.talk.conversation.add(
                Signal(id=f"s{number}", category=category, tag_name="note", contents=f"note {number}")
            )
        else:
            role = self.chance.choice(("user", "system"))
            self.talk.conversation.add(Message(role=role, text=f"added {number}", id=f"a{number}"))

    def restart(self) -> None:
        self.talk = self.talk.elsewhere(**self.options)
        self.endless()

    async def settle(self) -> None:
        """Let what runs come to an end, with all its questions answered."""
        while self.running is not None or self.talk.conversation.pending is not None:
            if self.running is None:
                self.running = asyncio.create_task(self.talk.answer("at last"))
            done, _ = await asyncio.wait((self.running,), timeout=0.005)
            self.reply()
            if done:
                self.running = None
                self.talk.check()


@pytest.mark.parametrize("seed", range(ROUNDS))
@in_loop
async def test_a_conversation_survives(seed: int) -> None:
    chaos = Chaos(seed)
    for _ in range(ACTS):
        await chaos.act()
    await chaos.settle()
    chaos.talk.check()
    assert chaos.talk.conversation.pending is None
    chaos.send()
    await chaos.settle()
    said = [turn.text for turn in chaos.talk.turns if isinstance(turn, UserTurn)]
    assert [text for text in said if text.startswith("steer")] == chaos.steered
