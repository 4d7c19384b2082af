"""The person of a two-way scenario: answers what the agent asks, says something in the middle of a turn, interrupts it.

[person]
needs = ["approve"]
replies = [{ about = "denied.txt", approved = false, reason = "Not that one." }]
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from harness.errors import UsageError
from harness.events import Event, Relay, TextDelta
from harness.lab.doctor_report import Finding
from harness.runs.run import Run
from harness.system.contract import system

_POLL_S = 0.05
_LONGEST_WAIT_S = 90.0
"""For a first piece of text: some agents take their time to start."""


class _Strict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class ScriptedReply(_Strict, frozen=True, kw_only=True):
    """How a question is answered. Each of them must be asked; the first that fits answers."""

    kind: Literal["permission", "question", "plan"] = "permission"
    about: str = ""
    """A part of what is asked."""
    approved: bool = True
    answer: str = ""
    reason: str = ""
    not_yet: str = ""
    """A file that must not be there before the answer."""


class Person(_Strict, frozen=True, kw_only=True):
    needs: tuple[Literal["approve", "ask", "plan", "steer"], ...] = ()
    """What the agent must be able to do in a conversation."""
    replies: tuple[ScriptedReply, ...] = ()
    """Other questions for permission are answered with yes."""
    when: str = ""
    """`steer` and `interrupts`: as soon as this file is there; empty: at the first piece of text."""
    steer: str = ""
    interrupts: bool = False
    leaves_no: str = ""
    """A part of a command line: after the interruption there is no such process."""
    next_prompt: str = ""
    """A second prompt, in the same process."""


class ScriptedPerson:
    """A person during one run. `follow` reads it to its end; then `findings` has what was wrong."""

    def __init__(self, person: Person, cwd: str) -> None:
        self._person = person
        self._cwd = cwd
        self._unasked = list(person.replies)
        self._findings: list[Finding] = []
        self._has_text = threading.Event()
        self._is_over = threading.Event()
        self.asked: list[tuple[Relay, ScriptedReply]] = []

    def follow(self, run: Run) -> list[Event]:
        """The events of the run."""
        events: list[Event] = []
        thread = threading.Thread(target=self._act, args=(run,), daemon=True)
        thread.start()
        for event in run:
            events.append(event)
            if isinstance(event, TextDelta):
                self._has_text.set()
            elif isinstance(event, Relay):
                self._answer(run, event)
        self._is_over.set()
        self._has_text.set()
        thread.join()
        return events

    def findings(self) -> Iterator[Finding]:
        yield from self._findings
        for reply in self._unasked:
            what = f"it did not ask ({reply.kind}) about {reply.about!r}"
            yield Finding(kind="wrong" if reply.kind == "permission" else "broken", what=what)

    def _answer(self, run: Run, relay: Relay) -> None:
        question = _text_of(relay)
        fitting = (
            reply for reply in self._person.replies if reply.kind == relay.kind and reply.about in question
        )
        reply = next(fitting, ScriptedReply(approved=relay.kind == "permission"))
        if reply in self._unasked:
            self._unasked.remove(reply)
        elif relay.kind != "permission":
            self._findings.append(
                Finding(kind="wrong", what=f"it asked ({relay.kind}) once more", example=question)
            )
        if reply.not_yet and os.path.lexists(os.path.join(self._cwd, reply.not_yet)):
            self._findings.append(Finding(kind="wrong", what=f"{reply.not_yet} was there before the answer"))
        self.asked.append((relay, reply))
        try:
            run.reply(relay.id, approved=reply.approved, answer=_answer_of(relay, reply), reason=reply.reason)
        except UsageError as error:
            self._findings.append(Finding(kind="broken", what=error.message, example=question))
            run.reply(relay.id, approved=False)

    def _act(self, run: Run) -> None:
        """Steer or interrupt the run when it is time."""
        person = self._person
        if not person.steer and not person.interrupts:
            return
        if person.when:
            while not os.path.exists(os.path.join(self._cwd, person.when)):
                if self._is_over.wait(_POLL_S):
                    return
        else:
            self._has_text.wait(_LONGEST_WAIT_S)
        if self._is_over.is_set():
            return
        if person.interrupts:
            run.cancel()
            return
        try:
            run.steer(person.steer)
        except UsageError as error:
            self._findings.append(Finding(kind="broken", what=error.message, example=error.hint))


def _text_of(relay: Relay) -> str:
    fields = {"input": relay.input, "question": relay.question, "payload": relay.payload, "id": relay.call_id}
    return msgspec.json.encode(fields).decode()


def _answer_of(relay: Relay, reply: ScriptedReply) -> Any:
    """As the interfaces of Harness answer."""
    if relay.kind == "plan":
        action = "approved" if reply.approved else "rejected"
        return {"action": action, **({"feedback": reply.reason} if reply.reason else {})}
    questions = relay.payload.get("questions", ()) if isinstance(relay.payload, dict) else ()
    if relay.kind == "question" and reply.approved and questions:
        return {question["id"]: reply.answer for question in questions}
    return reply.answer or None


def processes_with(command: str, cwd: str, wait_s: float) -> list[int]:
    """Processes in this folder whose command line has this text, after waiting at most that long for them to end."""
    deadline_s = time.monotonic() + wait_s
    while (
        pids := [pid for pid, line in system.processes_in(cwd) if command in line]
    ) and time.monotonic() < deadline_s:
        time.sleep(_POLL_S)
    return pids
