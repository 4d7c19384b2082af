"""A harness for programs without an event loop: scripts, notebooks' helpers, views of a WSGI application.

    with Harness(id="review", modes=[Mode(id="m")]).sync() as app:
        outcome = app.send_message(content=diff, output=Review)
        for event in app.stream(content="And now?"):
            if event.type == "tool_approval_required":
                event.approve()

It has an event loop of its own, which runs in the caller's thread, and only while one of these methods is called.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from harness.contracts.request import Limits
from harness.errors import UsageError
from harness.folds.session.events import Question, SessionEvent, ToolApprovalRequiredEvent, ToolSuspendedEvent
from harness.folds.session.question_events import QuestionAnswers, bound_again
from harness.session.config import RequestContext
from harness.session.outputs import Output, Value
from harness.session.public_side import public
from harness.session.run_outcomes import RunOutcome
from harness.session.run_stream import RunStream
from harness.session.signals import File
from harness.session.state import State

if TYPE_CHECKING:
    from harness.session.harness import Harness

Made = TypeVar("Made")


@public()
class SyncHarness(Generic[State]):
    """What `harness.sync()` gives: opened by `with`, and closed at its end.

    Attributes:
        harness: The harness itself. What is `async` there is called with `wait`.

    """

    def __init__(self, harness: Harness[State]) -> None:
        self.harness = harness
        self._runner: asyncio.Runner | None = None

    def __enter__(self) -> SyncHarness[State]:
        _forbid_loop()
        self._runner = asyncio.Runner()
        try:
            self.wait(self.harness.init())
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.wait(self.harness.destroy())
        finally:
            self._close()

    def send_message(
        self,
        *,
        content: str,
        output: type[Value] | Output[Value] | None = None,
        files: Iterable[File | Mapping[str, Any]] = (),
        request_context: RequestContext | None = None,
        limits: Limits | None = None,
    ) -> RunOutcome[Value]:
        """Send a message and wait for the end of its run, as `Harness.send_message` does.

        `content`, `output`, `files`, `request_context` and `limits` are those of that method. A question that a
        person has to answer needs `stream`, or a listener; else the run waits for ever, or until `limits` end it.
        """
        sending: Coroutine[Any, Any, RunOutcome[Value]] = self.harness.send_message(
            content=content, output=output, files=files, request_context=request_context, limits=limits
        )
        return self.wait(sending)

    def stream(
        self,
        *,
        content: str,
        output: type[Value] | Output[Value] | None = None,
        files: Iterable[File | Mapping[str, Any]] = (),
        request_context: RequestContext | None = None,
        limits: Limits | None = None,
    ) -> SyncStream[Value]:
        """Send a message and follow its run with `for`, as `Harness.stream` does with `async for`.

        `content`, `output`, `files`, `request_context` and `limits` are those of that method.
        """
        stream: RunStream[Value] = self.harness.stream(
            content=content, output=output, files=files, request_context=request_context, limits=limits
        )
        return SyncStream(stream, self.wait)

    def questions(self) -> list[Question]:
        """Everything that waits for a person; `wait(harness.wait_until_idle())` after the answers."""
        return [_bound(question, self.wait) for question in self.harness.questions()]

    def wait(self, awaitable: Awaitable[Made]) -> Made:
        """Wait for anything of the harness that is `async`: `app.wait(app.harness.create_thread())`.

        Raises UsageError within an event loop, outside of `with`, and for what cannot be awaited.
        """
        try:
            runner = self._opened()
        except UsageError:
            if isinstance(awaitable, Coroutine):
                awaitable.close()  # else Python says that it was never awaited
            raise
        return runner.run(_awaited(awaitable))

    def _opened(self) -> asyncio.Runner:
        _forbid_loop()
        if self._runner is None:
            raise UsageError("this harness is not open", hint="use it within `with harness.sync() as app:`")
        return self._runner

    def _close(self) -> None:
        runner, self._runner = self._runner, None
        if runner is not None:
            runner.close()


Wait = Callable[[Awaitable[Any]], Any]


class SyncStream(Generic[Value]):
    """The events of a run, in order, for `for`. Leaving the loop, or its `with`, stops a run that has not ended."""

    def __init__(self, stream: RunStream[Value], wait: Wait) -> None:
        self._stream, self._wait = stream, wait

    def __enter__(self) -> SyncStream[Value]:
        self._wait(self._stream.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._wait(self._stream.__aexit__(kind, error, trace))

    def __iter__(self) -> Iterator[SessionEvent]:
        events = aiter(self._stream)
        try:
            while True:
                event: SessionEvent | None = self._wait(anext(events, None))
                if event is None:
                    break
                if isinstance(event, ToolApprovalRequiredEvent | ToolSuspendedEvent):
                    event = _bound(event, self._wait)
                yield event
        finally:
            with suppress(UsageError):  # the harness was closed before the loop was left
                self._wait(events.aclose())

    def text(self) -> Iterator[str]:
        """Only what the agent says, piece by piece."""
        for event in self:
            if event.type == "text":
                yield event.text

    def outcome(self) -> RunOutcome[Value]:
        """Wait for the end of the run, and say how it ended, as `send_message` does."""
        outcome: RunOutcome[Value] = self._wait(self._stream.outcome())
        return outcome


class _Answers:
    """Answers a question within the loop, which runs only meanwhile. Contract: `QuestionAnswers`."""

    def __init__(self, answers: QuestionAnswers, wait: Wait) -> None:
        self._answers, self._wait = answers, wait

    def decide(self, call_id: str, decision: str, reason: str, option: str) -> bool:
        return bool(self._wait(_later(lambda: self._answers.decide(call_id, decision, reason, option))))

    def give(self, call_id: str, data: Any) -> bool:
        return bool(self._wait(_later(lambda: self._answers.give(call_id, data))))


def _bound(question: Question, wait: Wait) -> Question:
    return bound_again(question, lambda answers: _Answers(answers, wait))


async def _later(answer: Callable[[], bool]) -> bool:
    return answer()


async def _awaited(awaitable: Awaitable[Made]) -> Made:
    return await awaitable


def _forbid_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise UsageError("there is an event loop already", hint="use `async with harness:` and await its methods")
