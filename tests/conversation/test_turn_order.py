"""One rule for the order of a conversation: what is made live is what is read from its log, whatever comes when."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from conversation_kit import Talk
from harness.contracts.model import Ask, AssistantTurn
from harness.contracts.tool import ToolContext
from harness.conversation.history import history
from harness.conversation.turns import TurnOrder
from harness.events import Error, Event, Message, Signal, StepEnd, StepStart, Suspended, TextDelta
from harness.native.tools.function_tool import tool
from played_model import calls, fails, says

TOO_LONG = Error(message="prompt is too long: 208310 tokens > 200000 maximum", code="invalid_request_error")


def test_results_follow_their_answer_in_the_order_of_the_calls() -> None:
    placed: list[str] = []
    order = TurnOrder(placed.append)
    order.add("question")
    order.begin_step()
    order.add("said while the model was asked")
    order.answer("answer", ["a", "b"])
    order.end_step()
    order.result("b", "result of b")
    order.add("said while a was open")
    assert placed == ["question", "answer"]
    order.result("a", "result of a")
    assert placed[2:] == [
        "result of a",
        "result of b",
        "said while the model was asked",
        "said while a was open",
    ]


def test_additions_have_their_place_at_once_when_nothing_is_open() -> None:
    placed: list[str] = []
    order = TurnOrder(placed.append)
    order.begin_step()
    order.add("first")
    order.end_step()
    order.add("second")
    assert placed == ["first", "second"]


class Step(NamedTuple):
    """What one model call does, and when something is added meanwhile."""

    kind: str = "says"
    ends: Sequence[int] = ()
    """The calls, in the order in which they end."""
    added: Sequence[str] = ()
    """Moments: `begin` and `end` of the step, after a `call`, while the run `waits`."""


MOMENTS = ("begin", "end", "call", "waits")
KINDS = ("says", "calls", "calls", "asks", "fails", "fails late", "is too long", "is too long late")
STEPS = st.builds(
    Step,
    st.sampled_from(KINDS),
    st.integers(1, 3).flatmap(lambda count: st.permutations(range(count))),
    st.lists(st.sampled_from(MOMENTS), max_size=3),
)


class Plan:
    """A conversation whose model, tools and users do what the steps say."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._left = list(steps)
        self._step = Step()
        self._numbers = iter(range(10**6))
        self._ends: dict[int, asyncio.Event] = {}
        self._options = {"tools": self._tools(), "max_iterations": 100, "context_window": 1_000_000}
        self.talk = Talk(**self._options)

    async def run(self) -> None:
        while self._left:
            self._attend()
            ended: Any = await self.talk.send(f"say {next(self._numbers)}")
            while isinstance(ended, Suspended):
                self._add("waits")
                self.talk.check()
                if next(self._numbers) % 2:
                    self.talk = self.talk.elsewhere(**self._options)
                    self._attend()
                ended = await self.talk.answer("yes")
            self.talk.check()

    def _attend(self) -> None:
        self.talk.model.answers = [self._answer] * 200

    async def _answer(self, ask: Ask) -> AsyncIterator[Event]:
        self.talk.context.outbox.flush()
        events = self.talk.events
        if not isinstance(events[-1], StepStart):
            for event in says("What came before."):
                yield event
            return
        assert list(ask.turns) == history(events).turns
        self._step = step = self._left.pop(0) if self._left else Step()
        yield TextDelta(id="m", text="…")
        self._add("begin")
        for event in self._events(step):
            if isinstance(event, StepEnd):
                self._add("end")
            yield event

    def _events(self, step: Step) -> Sequence[Event]:
        if step.kind == "fails":
            return fails("gone")
        if step.kind == "is too long":
            return [TOO_LONG, StepEnd(id="", stop_reason="error")]
        if step.kind == "is too long late":
            return [Message(role="assistant", text="too long"), TOO_LONG, StepEnd(id="", stop_reason="error")]
        if step.kind == "says":
            return says(f"text {next(self._numbers)}")
        self._ends = {number: asyncio.Event() for number in step.ends}
        names = dict.fromkeys(step.ends, "work")
        if step.kind == "asks":
            names[step.ends[-1]] = "question"
        id = next(self._numbers)
        asked = calls(*((f"c{id}-{number}", names[number], {"number": number}) for number in sorted(names)))
        return [*asked[:1], *fails("gone after all")] if step.kind == "fails late" else asked

    def _tools(self) -> tuple[Any, ...]:
        @tool
        async def work(number: int) -> str:
            """Ends when it is its turn."""
            await self._wait_for(number)
            return f"done {number}"

        @tool
        async def question(number: int, context: ToolContext) -> str:
            """Waits for an answer."""
            return f"answered {number}: {await context.suspend('?')}"

        return work, question

    async def _wait_for(self, number: int) -> None:
        """Calls end one after the other, each when the one before it has."""
        place = list(self._step.ends).index(number)
        if place:
            await self._ends[self._step.ends[place - 1]].wait()
        self._add("call")
        self._ends[number].set()

    def _add(self, moment: str) -> None:
        for _ in range(self._step.added.count(moment)):
            number = next(self._numbers)
            added: Signal | Message = Message(role="user", text=f"added {number}", id=f"a{number}")
            if number % 3 == 1:
                added = Signal(id=f"s{number}", category="state", tag_name="note", contents=f"note {number}")
            if number % 3 == 2 and self.talk.conversation.steer(f"steer {number}"):
                continue
            self.talk.conversation.add(added)


@settings(max_examples=100, deadline=None)
@given(st.lists(STEPS, max_size=7))
def test_a_conversation_is_read_from_its_log_as_it_was_made(steps: list[Step]) -> None:
    async def converse() -> None:
        await Plan(steps).run()

    asyncio.run(converse())


def test_what_is_said_during_a_refused_model_call_survives_the_compaction() -> None:
    added = Message(role="user", text="and the tests", id="a")

    async def converse() -> Talk:
        async def refuses(ask: Ask) -> AsyncIterator[Event]:
            talk.conversation.add(added)
            yield TOO_LONG

        talk = Talk(says("One."), refuses, says("What came before."), says("Two."))
        await talk.send("first")
        await talk.send("second")
        talk.check()
        return talk

    talk = asyncio.run(converse())
    texts = [turn.text for turn in talk.model.asked[-1][0]]
    assert texts[-1] == "and the tests"
    assert talk.turns[-1] == AssistantTurn("Two.")
