"""Runs an agent through a gateway, plays that again offline and sealed, and lets a model go on from a step of it.

The scripted model is the provider here: it says how often it was really asked, and what that used.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from msgspec.structs import replace

from harness.agents.registry import load_part
from harness.contracts.pointing import Pointing
from harness.contracts.request import GatewayOptions, Request
from harness.contracts.script import MAIN, Script, ScriptText, ScriptTurn
from harness.errors import HarnessError, UsageError
from harness.events import Error, Event, Message, ModelCall, Result, ToolEnd, Usage
from harness.lab.doctor_report import Finding
from harness.lab.expectations import missing
from harness.lab.offline_agent import OfflineAgent
from harness.lab.request_log import RequestEntry
from harness.lab.scenario import Scenario
from harness.lab.two_way_run import hold_conversation
from harness.log.store import read_all
from harness.log.stores.files import FileStore
from harness.models.registry import PROVIDERS
from harness.models.wires.wire import MODELS, Tokens, all_wires
from harness.runs.audit import RAW, check
from harness.runs.replay_request import recorded_run, replay_request
from harness.runs.run import Run, start
from harness.runs.sealing import find_seal

FORK_END = "The fork is at its end."
_KEY = "sk-lab-0123456789abcdef-provider-key"
_ANSWERS = ("answered", "side", "over")
_LONGEST_SHOWN = 300


class GatewayTrial:
    """Contract: `findings` writes only below the folders that it was given, and leaves no process."""

    def __init__(
        self,
        scenario: Scenario,
        offline: OfflineAgent,
        request: Request,
        folder: str,
        make_project: Callable[[], object],
    ) -> None:
        self._scenario = scenario
        self._offline = offline
        self._folder = folder
        self._store = FileStore(os.path.join(folder, "sessions"))
        self._make_project = make_project
        self._request = Request(
            agent=request.agent,
            prompt=request.prompt,
            binary=request.binary,
            cwd=request.cwd,
            limits=request.limits,
            permissions=scenario.permissions,
            model=model_of(request.agent),
            gateway=GatewayOptions(own_home=True),
        )

    def findings(self) -> Iterator[Finding]:
        if self._scenario.person is not None:
            yield from self._held()
            return
        with as_provider(self._offline):
            original, events, requests = self._run(self._request)
            yield from self._recorded(original, events, requests)
            if not any(isinstance(event, ModelCall) for event in events):
                return
            yield from self._replayed(original.id, events)
            if self._scenario.fork_at is not None:
                yield from self._forked(original.id, self._scenario.fork_at)

    def _held(self) -> Iterator[Finding]:
        """A conversation with a person, each message of which is a session of its own here."""
        with as_provider(self._offline):
            yield from hold_conversation(self._scenario, self._offline, self._request, self._folder)
            first = min((log.session_id for log in self._store.list()), default="")
            if not first:
                return
            yield from self._of_the_record(first)
            yield from self._replayed(first, list(read_all(self._store, first)))
            for name in self._scenario.expect.absent:
                if os.path.lexists(os.path.join(self._request.cwd, name)):
                    yield Finding(kind="wrong", what=f"its replay made {name}, which a person had refused")

    def _run(self, request: Request) -> tuple[Run, list[Event], list[RequestEntry]]:
        before = len(self._offline.server.requests)
        run = start(request, store=self._store)
        run.wait()
        requests = [entry for entry in self._offline.server.requests[before:] if entry.wire]
        return run, list(run), requests

    def _recorded(self, run: Run, events: list[Event], requests: list[RequestEntry]) -> Iterator[Finding]:
        gives_up = self._scenario.is_about_recovery and _outcome(events) == "failed" and requests
        if not gives_up:  # that is of another scenario; what was recorded must be right all the same
            yield from missing(self._scenario.expect, events, self._request.cwd)
        calls = [event for event in events if isinstance(event, ModelCall)]
        arrivals = [entry for entry in requests if entry.outcome in (*_ANSWERS, "refused", "dropped")]
        if len(calls) != len(arrivals):
            what = f"{len(arrivals)} calls reached the provider, and {len(calls)} were recorded"
            yield Finding(kind="broken" if not arrivals else "wrong", what=what, example=_said(events))
        if not any(entry.outcome == "dropped" for entry in requests):
            yield from _usage(run, requests)
        yield from self._of_the_record(run.id)

    def _of_the_record(self, log_id: str) -> Iterator[Finding]:
        for problem in check(self._store, log_id).problems:
            yield Finding(
                kind="wrong", what="its raw record does not prove the log", example=problem[:_LONGEST_SHOWN]
            )
        for suffix in ("", RAW):
            path = self._store.path(log_id, suffix) if suffix else self._store.path(log_id)
            if os.path.exists(path) and _holds(path, _KEY.encode()):
                yield Finding(kind="wrong", what=f"the provider's key is in {os.path.basename(path)}")

    def _replayed(self, original: str, before: list[Event]) -> Iterator[Finding]:
        self._anew()
        try:
            run, events, requests = self._run(self._again(original, GatewayOptions()))
        except HarnessError as error:
            yield Finding(
                kind="broken", what=f"it cannot be played again: {error.message}", example=error.hint
            )
            return
        if requests:
            yield Finding(kind="wrong", what=f"its replay asked the model {len(requests)} times")
        if _outcome(events) != _outcome(before):
            what = f"its replay ended as {_outcome(events)!r}, and the run as {_outcome(before)!r}"
            yield Finding(kind="broken", what=what, example=_said(events))
            return
        for what, theirs, ours in _compared(before, events):
            lost, new = theirs - ours, ours - theirs
            if lost or new:
                example = f"only in the run: {list(lost)}; only in the replay: {list(new)}"
                yield Finding(
                    kind="wrong", what=f"its replay has other {what}", example=example[:_LONGEST_SHOWN]
                )
        differences = [what for event in events if isinstance(event, ModelCall) for what in event.differs]
        for what in dict.fromkeys(differences):
            title = "its replay tells a difference, where nothing differs"
            yield Finding(kind="degraded", what=title, example=what[:_LONGEST_SHOWN])
        yield from self._of_the_record(run.id)

    def _forked(self, original: str, steps: int) -> Iterator[Finding]:
        self._anew()
        self._offline.use(_with_other_end(self._scenario.script))
        try:
            run, events, requests = self._run(self._again(original, GatewayOptions(fork_at=steps)))
        except HarnessError as error:
            yield Finding(kind="broken", what=f"it cannot be forked: {error.message}", example=error.hint)
            return
        finally:
            self._offline.use(self._scenario.script)
        end = self._scenario.expect.texts[-1]
        expected = replace(
            self._scenario.expect, texts=(*self._scenario.expect.texts[:-1], FORK_END), usage={}
        )
        for finding in missing(expected, events, self._request.cwd):
            yield replace(finding, what=f"after its fork: {finding.what}")
        if any(end in event.text for event in events if isinstance(event, Message)):
            yield Finding(kind="wrong", what=f"its fork ended with the recorded answer {end!r}")
        first = next((entry for entry in requests if entry.lane == MAIN), None)
        if first is None or first.turn != steps:
            turn = "nothing" if first is None else f"turn {(first.turn or 0) + 1}"
            yield Finding(kind="wrong", what=f"the model of its fork at {steps} was first asked for {turn}")
        yield from _usage(run, requests)
        yield from self._of_the_record(run.id)

    def _again(self, original: str, options: GatewayOptions) -> Request:
        request = replay_request(recorded_run(self._store, original), options=options)
        try:
            find_seal("write", self._request.cwd)
        except UsageError:
            sealed = False
        else:
            sealed = True
        return replace(
            request,
            binary=self._request.binary,
            limits=self._request.limits,
            sealed="write" if sealed else "",
        )

    def _anew(self) -> None:
        """The project as it was before the run, in the same place."""
        shutil.rmtree(self._request.cwd)
        self._make_project()


@contextmanager
def as_provider(offline: OfflineAgent) -> Iterator[None]:
    """The scripted model and a key of it, where this process would have those of the agent's provider."""
    pointing: Pointing = load_part(offline.agent, "gateway")
    provider = PROVIDERS[_provider_of(pointing)]
    values = {
        provider.urls[0]: offline.server.url + all_wires()[pointing.wire].base_path,
        provider.keys[0]: _KEY,
    }
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _provider_of(pointing: Pointing) -> str:
    """The agent's own, or one of the same API, whose address can be another one."""
    names = (
        name
        for name, provider in PROVIDERS.items()
        if provider.wire == pointing.wire and provider.urls and provider.keys
    )
    return pointing.provider if PROVIDERS[pointing.provider].urls else next(names)


def model_of(agent: str) -> str:
    """Empty: the agent's own."""
    pointing: Pointing = load_part(agent, "gateway")
    provider = _provider_of(pointing)
    return f"{provider}/{MODELS[0]}" if provider != pointing.provider else ""


def _usage(run: Run, requests: Sequence[RequestEntry]) -> Iterator[Finding]:
    """What the scripted model said that its answers used is the truth."""
    answers = sum(entry.outcome == "answered" for entry in requests)
    truth = Tokens()
    usage = run.wait().usage or Usage()
    for name in ("input", "output", "cache_read"):
        count, real = getattr(usage, name) or 0, getattr(truth, name) * answers
        if count != real:
            yield Finding(kind="wrong", what=f"usage.{name} is {count}, and {real} was used")


def _with_other_end(script: Script) -> Script:
    main = script.conversations[MAIN]
    turns = (*main.turns[:-1], ScriptTurn(parts=(ScriptText(text=FORK_END),)))
    return replace(script, conversations={**script.conversations, MAIN: replace(main, turns=turns)})


def _compared(
    before: Sequence[Event], after: Sequence[Event]
) -> Iterator[tuple[str, Counter[Any], Counter[Any]]]:
    yield "texts", Counter(_texts(before)), Counter(_texts(after))
    yield "operations", Counter(_operations(before)), Counter(_operations(after))
    yield "calls of the model", Counter(_calls(before)), Counter(_calls(after))


def _texts(events: Sequence[Event]) -> Iterator[str]:
    top = events[0].run_id
    for event in events:
        if isinstance(event, Message) and event.role == "assistant" and event.run_id == top:
            yield event.text


def _operations(events: Sequence[Event]) -> Iterator[str]:
    for event in events:
        if isinstance(event, ToolEnd):
            kinds = ", ".join(type(operation).__name__ for operation in event.operations or ())
            yield f"{event.tool_name} ({kinds}) {'succeeded' if event.success else 'failed'}"


def _calls(events: Sequence[Event]) -> Iterator[tuple[int, int]]:
    for event in events:
        if isinstance(event, ModelCall) and (
            event.status or not event.is_cut
        ):  # which one breaks off at the end is luck
            yield event.status, event.calls


def _outcome(events: Sequence[Event]) -> str:
    return next((event.outcome for event in reversed(events) if isinstance(event, Result)), "")


def _said(events: Sequence[Event]) -> str:
    return " / ".join(event.message for event in events if isinstance(event, Error))[:_LONGEST_SHOWN]


def _holds(path: str, data: bytes) -> bool:
    with open(path, "rb") as file:
        return data in file.read()
