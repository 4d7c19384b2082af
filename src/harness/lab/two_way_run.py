"""Runs one two-way scenario with one agent: a conversation with a scripted person, and what came of it in reality.

Looked at are the files, the requests that the scripted model got, the processes, and the log, which must be proved
by its raw record.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import msgspec
from msgspec.structs import replace

from harness.contracts.request import Request
from harness.contracts.script import MAIN
from harness.errors import HarnessError
from harness.events import Event, Message, Relay, RelayReply, ToolEnd, Unknown
from harness.lab.doctor_report import Finding
from harness.lab.expectations import Expectation, missing
from harness.lab.offline_agent import OfflineAgent
from harness.lab.request_log import RequestEntry
from harness.lab.scenario import Scenario
from harness.lab.scripted_person import Person, ScriptedPerson, processes_with
from harness.log.stores.files import FileStore
from harness.runs.audit import check
from harness.runs.program_conversation import ProgramConversation
from harness.runs.run import Run, start

_ENDS_S = 3.0
"""How long the processes of an interrupted command may take to end."""


class TwoWayRun:
    """One run of a conversation, and everything that is known of it afterwards."""

    def __init__(
        self, run: Run, events: list[Event], person: ScriptedPerson, requests: list[RequestEntry]
    ) -> None:
        self.session_id = run.agent_session_id
        self.outcome = run.wait().outcome
        self.events = events
        self.person = person
        self.requests = requests
        """What reached the scripted model from its start on."""
        self.problems: list[str] = (
            check(run.store, run.id).problems if isinstance(run.store, FileStore) else []
        )
        """Why its raw record does not prove its log."""

    def received(self, text: str) -> int:
        """How often the text is in what the model got, at most in one request."""
        plain = [_texts_of(entry.body) for entry in self.requests if entry.wire]
        return max((texts.count(text) for texts in plain), default=0)


class TwoWayScenario:
    """Contract: `findings` writes only below the folders that it was given, and leaves no process."""

    def __init__(self, scenario: Scenario, offline: OfflineAgent, request: Request, store: FileStore) -> None:
        assert scenario.person is not None
        self._scenario = scenario
        self._person: Person = scenario.person
        self._offline = offline
        self._request = replace(request, two_way=True)
        self._store = store

    def findings(self) -> Iterator[Finding]:
        scenario, conversation = self._scenario, ProgramConversation()
        cwd = self._request.cwd
        try:
            first = self._hold(self._request, self._person, conversation)
            yield from self._judge(first, self._person, scenario.expect)
            if self._person.leaves_no and (pids := processes_with(self._person.leaves_no, cwd, _ENDS_S)):
                what = f"a command still runs after the interruption: {self._person.leaves_no}"
                yield Finding(kind="wrong", what=what, example=f"{len(pids)} processes")
            if scenario.expect_next is not None:
                yield from self._next(first, conversation, scenario.expect_next)
        finally:
            conversation.close()
        if pids := processes_with("", cwd, _ENDS_S):
            yield Finding(kind="wrong", what="processes are left when it has ended", example=f"{len(pids)}")

    def _next(
        self, first: TwoWayRun, conversation: ProgramConversation, expected: Expectation
    ) -> Iterator[Finding]:
        """The second prompt: in the same process, or in a new one that resumes the session."""
        line, session_id = conversation.line, first.session_id
        quiet = Person()
        if self._scenario.resume_prompt:
            conversation.close()
            if not session_id:
                yield Finding(kind="broken", what="the session's id is not visible: nothing can be resumed")
                return
            request = replace(self._request, prompt=self._scenario.resume_prompt, resume=session_id)
            yield from self._judge(self._hold(request, quiet, conversation), quiet, expected)
            return
        pid = line.child.pid if line is not None else 0
        # A process that leaves commands is ended with them, and its session resumed.
        resumes = session_id if line is None and self._person.interrupts else ""
        request = replace(self._request, prompt=self._person.next_prompt, resume=resumes)
        yield from self._judge(self._hold(request, quiet, conversation), quiet, expected)
        again = conversation.line
        if not resumes and (line is None or again is not line or again.child.pid != pid):
            yield Finding(kind="wrong", what="the second prompt was not answered by the same process")

    def _hold(self, request: Request, person: Person, conversation: ProgramConversation) -> TwoWayRun:
        before = len(self._offline.server.requests)
        scripted = ScriptedPerson(person, request.cwd)
        run = start(request, store=self._store, redact=False, conversation=conversation)
        events = scripted.follow(run)
        return TwoWayRun(run, events, scripted, self._offline.server.requests[before:])

    def _judge(self, run: TwoWayRun, person: Person, expected: Expectation) -> Iterator[Finding]:
        if run.outcome == "timed_out":
            yield Finding(kind="broken", what="it hangs: the turn did not end in time")
        if {*self._scenario.script.conversations} - {MAIN, *(entry.lane for entry in run.requests)}:
            failed = [end.output for end in run.events if isinstance(end, ToolEnd) and not end.success]
            what = "no sub-agent was started, so that there is no verdict on it"
            yield Finding(kind="inconclusive", what=what, example=(failed[-1] or "")[:300] if failed else "")
            return
        yield from run.person.findings()
        yield from missing(expected, run.events, self._request.cwd)
        for text in expected.heard:
            if not run.received(text):
                yield Finding(kind="broken", what=f"its model did not get {text!r}")
        for relay, reply in run.person.asked:
            others = [option for option in relay.options or () if option != reply.answer]
            if relay.kind == "question" and run.received(reply.answer) <= max(
                map(run.received, others), default=0
            ):
                yield Finding(kind="broken", what=f"its model did not get the answer {reply.answer!r}")
        texts = [event.text for event in run.events if isinstance(event, Message) and event.role == "user"]
        if person.steer and texts.count(person.steer) != 1:
            yield Finding(
                kind="broken", what="the message was not taken in the turn", example=" / ".join(texts)
            )
        yield from _of_the_log(run.events, run.problems)


def _of_the_log(events: list[Event], problems: list[str]) -> Iterator[Finding]:
    relay_ids = [event.id for event in events if isinstance(event, Relay)]
    answered = [event.id for event in events if isinstance(event, RelayReply)]
    if any(
        answered.count(relay_id) != 1 for relay_id in relay_ids
    ):  # rules also answer what no person is asked
        yield Finding(kind="wrong", what=f"{len(relay_ids)} questions and {len(answered)} answers in the log")
    for event in events:
        if isinstance(event, Unknown):
            raw = event.raw if isinstance(event.raw, str) else msgspec.json.encode(event.raw).decode()
            yield Finding(kind="drift", what=f"unknown record: {raw[:60]}", example=raw[:300])
    for problem in problems:
        yield Finding(kind="wrong", what="its raw record does not prove the log", example=problem[:300])


def _texts_of(body: object) -> str:
    """All texts of a request, as the model reads them."""
    if isinstance(body, str):
        return body + "\n"
    inner = body.values() if isinstance(body, dict) else body if isinstance(body, list) else ()
    return "".join(map(_texts_of, inner))


def hold_conversation(
    scenario: Scenario, offline: OfflineAgent, request: Request, folder: str
) -> list[Finding]:
    """What is wrong in the conversation of this scenario; one that cannot be started is broken."""
    store = FileStore(os.path.join(folder, "sessions"))
    try:
        return list(TwoWayScenario(scenario, offline, request, store).findings())
    except HarnessError as error:
        return [Finding(kind="broken", what=error.message, example=error.hint)]
