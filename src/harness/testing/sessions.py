"""Tests of an application on `Harness`: a scripted model, answers in order, a restart, and what was called.

    from harness.testing.sessions import answer, approve, call, opened

    def build(model: Model, store: Store) -> Harness:
        return Harness(id="app", modes=[Mode(id="m")], storage=store, tools=[deploy], resolve_model=lambda _: model)

    async def test_deploy() -> None:
        async with opened(build, call("deploy", place="here"), "Done.") as app:
            app.answers(approve("deploy"))
            outcome = await app.send("Deploy it.")
            assert outcome.text == "Done."
            app.assert_calls("deploy")

Nothing leaves the process: the model is a script, or a recording (`recorded`), threads are in memory. A question that no answer was given for fails the
test, and so does an answer that nothing asked for. A question that is to outlive the process is left waiting by `send_until_asked`, and answered
after `restart` by `resume`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

from harness.contracts.model import Ask, Model, Turn
from harness.contracts.request import Limits
from harness.errors import UsageError
from harness.events import Event, Result
from harness.folds.session.events import Question, SessionEvent, ToolApprovalRequiredEvent, ToolSuspendedEvent
from harness.log.store import Store, read_all
from harness.log.stores.memory import MemoryStore
from harness.models.scripted import Scripted
from harness.session.harness import Harness
from harness.session.outputs import Output, Value
from harness.session.run_outcomes import RunOutcome, outcome_of
from harness.testing.recorded_model import RecordedModel, recorded

__all__ = [
    "PreparedAnswer",
    "ScriptedModel",
    "TestedApp",
    "answer",
    "approve",
    "call",
    "decline",
    "fail",
    "opened",
    "plan",
    "recorded",
    "think",
    "used",
]

Response: TypeAlias = str | Mapping[str, Any] | Sequence[Mapping[str, Any]]
Build: TypeAlias = Callable[[Model, Store], Harness[Any]]
_QUESTIONS = (ToolApprovalRequiredEvent, ToolSuspendedEvent)


def call(name: str, id: str = "", **arguments: Any) -> dict[str, Any]:
    """A response that calls a tool."""
    part = {"type": "tool_call", "name": name, "input": arguments, **({"id": id} if id else {})}
    return {"events": [part]}


def used(text: str, *, input: int = 0, output: int = 0) -> dict[str, Any]:
    """A response with what it used: tokens read and written."""
    usage = {"type": "usage", "inputTokens": input, "outputTokens": output}
    return {"events": [{"type": "text", "content": text}, usage]}


def think(thought: str, text: str) -> list[dict[str, Any]]:
    """A response that says what the model thought first."""
    return [{"reasoning": thought}, {"text": text}]


def fail(message: str, code: str = "overloaded") -> dict[str, Any]:
    """No response: the provider refuses, with this message."""
    return {"error": message, "code": code}


class PreparedAnswer(NamedTuple):
    """What the next question is expected to be about, and how it is answered."""

    tool_name: str
    give: Callable[[Question], bool]


def approve(tool_name: str, *, always: bool = False) -> PreparedAnswer:
    """Allow the next call, which has to be one of this tool."""
    return PreparedAnswer(
        tool_name,
        lambda question: isinstance(question, ToolApprovalRequiredEvent) and question.approve(always=always),
    )


def decline(tool_name: str, reason: str = "") -> PreparedAnswer:
    """Refuse the next call, which has to be one of this tool."""
    return PreparedAnswer(
        tool_name,
        lambda question: isinstance(question, ToolApprovalRequiredEvent) and question.decline(reason),
    )


def answer(data: Any, tool_name: str = "ask_user") -> PreparedAnswer:
    """Answer the next question, which has to be one of this tool."""
    return PreparedAnswer(
        tool_name, lambda question: isinstance(question, ToolSuspendedEvent) and question.answer(data)
    )


def plan(*, approved: bool, feedback: str = "") -> PreparedAnswer:
    """Review the plan that is handed in next."""

    def give(question: Question) -> bool:
        if not isinstance(question, ToolSuspendedEvent):
            return False
        return question.approve() if approved else question.reject(feedback)

    return PreparedAnswer("submit_plan", give)


class ScriptedModel:
    """A model that gives these responses in order, or those of a recording, and keeps what it was asked. Implements `Model`."""

    def __init__(self, *responses: Response | RecordedModel) -> None:
        """Responses in order, or a recording alone. Raises UsageError for both."""
        self.asked: list[Ask] = []
        texts = [response for response in responses if not isinstance(response, RecordedModel)]
        recordings = [response for response in responses if isinstance(response, RecordedModel)]
        if recordings and len(responses) > 1:
            raise UsageError("a recording stands alone", hint="give either responses or recorded(…)")
        self._model: Model = recordings[0] if recordings else Scripted(texts, name="scripted/test")
        self.name: str = self._model.name

    def answer(self, ask: Ask) -> AsyncIterator[Event]:
        """The next response."""
        self.asked.append(ask)
        return self._model.answer(ask)

    def tools(self, place: int = -1) -> set[str]:
        """The names of the tools that it was offered; by default when it was last asked."""
        return {tool.name for tool in self.asked[place].tools}

    def prefix_is_stable(self) -> bool:
        """Whether each request began with the one before, so that a provider's cache is used."""
        requests: list[list[Turn]] = [list(ask.turns) for ask in self.asked]
        return all(later[: len(first)] == first for first, later in pairwise(requests))


class TestedApp:
    """An application under test. `harness` is the current one: `restart` makes another."""

    __test__ = False

    def __init__(self, build: Build, model: ScriptedModel) -> None:
        self.model: ScriptedModel = model
        self.store: MemoryStore = MemoryStore()
        self.events: list[SessionEvent] = []
        """All that were emitted, without those of the display state."""
        self.harness: Harness[Any]
        self._build = build
        self._answers: deque[PreparedAnswer] = deque()
        self._problems: list[str] = []
        self._sending: asyncio.Task[RunOutcome[None]] | None = None
        """A message whose question was left waiting."""

    def answers(self, *prepared: PreparedAnswer) -> None:
        """Answer the questions that come, in this order."""
        self._answers.extend(prepared)

    async def send(
        self, content: str, *, output: type[Value] | Output[Value] | None = None, limits: Limits | None = None
    ) -> RunOutcome[Value]:
        """Send a message, answer what is asked, and wait for the end.

        `output` and `limits` are those of `send_message`. Raises AssertionError for a question that was not expected,
        and for answers that nothing asked for.
        """
        async with self.harness.stream(content=content, output=output, limits=limits) as stream:
            async for event in stream:
                if isinstance(event, _QUESTIONS):
                    self._answer(event)
        self._check_answers()
        return await stream.outcome()

    async def send_until_asked(self, content: str) -> Question:
        """Send a message, and leave the first question that comes waiting, for instance for a `restart`.

        Raises AssertionError when the run ends without one.
        """
        question: asyncio.Future[Question] = asyncio.get_running_loop().create_future()

        def listen(event: SessionEvent) -> None:
            if isinstance(event, _QUESTIONS) and not question.done():
                question.set_result(event)

        unsubscribe = self.harness.subscribe(listen)
        self._sending = asyncio.create_task(self.harness.send_message(content=content))
        try:
            await asyncio.wait((question, self._sending), return_when=asyncio.FIRST_COMPLETED)
        finally:
            unsubscribe()
        assert question.done(), "the run has ended, and nothing was asked"
        return question.result()

    async def resume(self) -> RunOutcome[None]:
        """Answer what waits, and what is asked then, and wait for the end of the run.

        Raises AssertionError when nothing waits, and as `send` does.
        """
        questions = self.harness.questions()
        assert questions, "nothing waits for an answer"
        unsubscribe = self.harness.subscribe(self._answer_if_asked)
        try:
            for question in questions:
                self._answer(question)
            await self.harness.wait_until_idle()
        finally:
            unsubscribe()
        self._check_answers()
        log = read_all(self.store, self.harness.session.thread.require_id())
        ending = [event for event in log if isinstance(event, Result)][-1]
        return outcome_of(ending, ending.run_id)

    @property
    def calls(self) -> list[str]:
        """The names of the tools that were called, in order."""
        return [event.tool_name for event in self.events if event.type == "tool_start"]

    def assert_calls(self, *names: str) -> None:
        """Raises AssertionError unless exactly these tools were called, in this order."""
        assert self.calls == list(names), f"called: {', '.join(self.calls) or 'nothing'}"

    async def restart(self) -> None:
        """Open everything again, as another process would: only what is stored is left."""
        await self.close()
        await self.open()

    async def close(self) -> None:
        """Close the harness. A question that waits is left in the log."""
        await self.harness.destroy()
        sending, self._sending = self._sending, None
        if sending is not None:
            await asyncio.wait((sending,))

    async def open(self) -> None:
        """Make the harness, and open the thread that was used last."""
        self.harness = self._build(self.model, self.store)
        self.harness.subscribe(self._note)
        await self.harness.init()
        await self.harness.select_or_create_thread()

    def _note(self, event: SessionEvent) -> None:
        if event.type != "display_state_changed":
            self.events.append(event)

    def _answer_if_asked(self, event: SessionEvent) -> None:
        if isinstance(event, _QUESTIONS):
            self._answer(event)

    def _check_answers(self) -> None:
        if self._answers:
            self._problems.append(f"nothing asked about {self._answers[0].tool_name}")
            self._answers.clear()
        problems, self._problems = self._problems, []
        assert not problems, "; ".join(problems)

    def _answer(self, question: Question) -> None:
        prepared = self._answers.popleft() if self._answers else None
        if prepared is None or prepared.tool_name != question.tool_name:
            expected = "nothing" if prepared is None else prepared.tool_name
            self._problems.append(f"{question.tool_name} asked, and {expected} was expected to")
            self.harness.abort()
        elif not prepared.give(question):
            self._problems.append(f"the answer does not fit what {question.tool_name} asked")
            self.harness.abort()


@asynccontextmanager
async def opened(build: Build, *responses: Response | RecordedModel) -> AsyncIterator[TestedApp]:
    """An application whose model gives these responses, or those of `recorded(…)`, opened, and closed at the end.

    `build` makes the harness with the model and the store that it is given.
    """
    app = TestedApp(build, ScriptedModel(*responses))
    await app.open()
    try:
        yield app
    finally:
        await app.close()
