"""How far something walks through the code: functions and files from a beginning to an end. Counted, not timed.

usage: python benchmarks/walks.py

| walk | from | to |
|---|---|---|
| message | `Harness.send_message` | the model is opened; then: it is asked |
| answer | a command of the page, in the server | the call that waits has its answer |
| line | one line of Claude Code | NDJSON |
| folds | one event of a conversation in the server | all that are fed with it |

"functions" are the distinct functions of this package that run in between, "hops" those on the stack at the end.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Callable
from types import CodeType, FrameType
from typing import Any

import harness as package
from harness.agents.registry import load
from harness.clients import commands
from harness.clients.conversations.backend import Setup
from harness.clients.conversations.local_backend import LocalBackend
from harness.contracts.model import Ask
from harness.contracts.request import OWN_AGENT
from harness.events import Event, Relay, TextDelta
from harness.log.raw import RawOutput, RawStart
from harness.log.stores.files import FileStore
from harness.models.scripted import Scripted
from harness.questions import open_questions as approvals
from harness.runs.pipeline import Pipeline
from harness.session.catalogue import ModelCatalogue
from harness.session.config import Mode
from harness.session.harness import Harness
from harness.stage import ViewOptions
from harness.views.stream import StreamView

ROOT = os.path.dirname(os.path.abspath(package.__file__)) + os.sep
LINE = b'{"type":"assistant","message":{"id":"m1","role":"assistant","content":[{"type":"text","text":"Yes."}]}}\n'


class Walk:
    """Which functions of the package run between `begin` and `end`."""

    def __init__(self) -> None:
        self.seen: dict[CodeType, None] = {}
        self.stack: list[str] = []
        self._on_call: Callable[[FrameType], None] | None = None

    def begin(self, on_call: Callable[[FrameType], None] | None = None) -> None:
        self._on_call = on_call
        sys.setprofile(self._profile)

    def end(self, *, is_on_stack: bool = True) -> None:
        """The first time counts."""
        if sys.getprofile() is None:
            return
        sys.setprofile(None)
        frame: FrameType | None = inspect.currentframe() if is_on_stack else None
        while frame is not None:
            if _is_own(frame.f_code):
                self.stack.insert(0, frame.f_code.co_qualname)
            frame = frame.f_back

    def _profile(self, frame: FrameType, event: str, _argument: Any) -> None:
        if event == "call" and _is_own(frame.f_code):
            self.seen.setdefault(frame.f_code)
            if self._on_call is not None:
                self._on_call(frame)

    def report(self, name: str) -> None:
        files = {code.co_filename for code in self.seen}
        hops = f", {len(self.stack)} hops" if self.stack else ""
        print(f"{name}: {len(self.seen)} functions in {len(files)} files{hops}")
        if "-v" in sys.argv:
            for code in self.seen:
                print(f"    {code.co_filename.removeprefix(ROOT)}:{code.co_firstlineno} {code.co_qualname}")
            print(f"    stack: {' > '.join(self.stack)}")


def _is_own(code: CodeType) -> bool:
    return code.co_filename.startswith(ROOT) and not code.co_name.startswith("<")


class Speaker:
    """A model that says something; with `tool`, it calls that first."""

    name = "walks/model"

    def __init__(self, on_ask: Callable[[], None], *, tool: str = "") -> None:
        self._on_ask = on_ask
        call = {"type": "tool_call", "name": tool, "id": "c1", "input": {"command": "true"}}
        self._script = Scripted([*([{"events": [call]}] if tool else ()), *["Yes."] * 9], name=self.name)

    def answer(self, ask: Ask) -> AsyncIterator[Event]:
        self._on_ask()
        return self._script.answer(ask)


async def message(folder: str) -> None:
    opening, asking = Walk(), Walk()
    current = Walk()

    def open_model(_id: str) -> Speaker:
        if current is opening:
            current.end()
        return speaker

    def asked() -> None:
        if current is asking:
            current.end()

    speaker = Speaker(asked)
    harness = Harness(
        id="walks",
        modes=[Mode(id="build", default_model_id="walks/model")],
        storage=FileStore(folder),
        resolve_model=open_model,
        environ={},
    )
    await harness.init()
    await harness.select_or_create_thread()
    await harness.send_message(content="Hello!")  # what is imported and read once is not counted
    for current in (opening, asking):
        current.begin()
        await harness.send_message(content="Hello!")
    await harness.destroy()
    opening.report("message: send_message to the opened model")
    asking.report("message: send_message to the model's answer")


async def answer(folder: str) -> None:
    os.mkdir(folder)
    walk, folds = Walk(), Counter[str]()
    speaker = Speaker(lambda: None, tool="bash")
    resolve, ModelCatalogue.resolve = ModelCatalogue.resolve, lambda *_: speaker  # type: ignore[method-assign]
    settle = approvals.check_reply

    def settled(waiting: Any, reply: Any) -> None:
        walk.end()
        settle(waiting, reply)

    approvals.check_reply = settled
    backend = LocalBackend(FileStore(folder), Setup(agent=OWN_AGENT, model=speaker.name, cwd=folder))
    try:
        log_id = await backend.create(Setup(permission_mode="default"))
        await backend.carry_out(log_id, commands.Submit(id="1", prompt="Run it."))
        relay = await _relay(backend, log_id)
        walk.begin()
        await backend.carry_out(log_id, commands.Approve(id="2", relay_id=relay.id))
        walk.end(is_on_stack=False)
        fed = Walk()
        fed.begin(lambda frame: _note_fold(frame, folds))
        await _until(lambda: not backend.status(log_id).is_running)
        fed.end(is_on_stack=False)
    finally:
        approvals.check_reply, ModelCatalogue.resolve = settle, resolve  # type: ignore[method-assign]
        await backend.close()
    walk.report("answer: the page's command to the waiting call")
    print("folds of one text delta in the server:", ", ".join(sorted(folds)) or "none")


def _note_fold(frame: FrameType, folds: Counter[str]) -> None:
    if frame.f_code.co_name == "feed" and any(isinstance(one, TextDelta) for one in frame.f_locals.values()):
        folds[frame.f_code.co_qualname] += 1


async def _relay(backend: LocalBackend, log_id: str) -> Relay:
    hub, found = backend.hub(log_id), list[Relay]()
    assert hub is not None
    follower = hub.follower(0)

    def is_there() -> bool:
        found.extend(event for event in follower.poll() if isinstance(event, Relay))
        return bool(found)

    await _until(is_there)
    return found[0]


async def _until(is_true: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not is_true():  # noqa: ASYNC110 # nothing here has an event to wait for
            await asyncio.sleep(0.01)


def line() -> None:
    pipeline, view = Pipeline(load("claude").translator()), StreamView(ViewOptions())
    for entry in (RawStart(at_ms=0, agent="claude"), *[RawOutput(at_ms=0, stream="stdout", data=LINE)] * 2):
        walk = Walk()  # the last one counts: what is read once is not part of it
        walk.begin()
        for event in pipeline.feed(entry):
            view.feed(event)
        walk.end(is_on_stack=False)
    walk.report("line: Claude to NDJSON")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(message(os.path.join(folder, "message")))
        asyncio.run(answer(os.path.join(folder, "answer")))
    line()


if __name__ == "__main__":
    main()
