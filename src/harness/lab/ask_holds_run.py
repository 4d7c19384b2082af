"""Whether `ask` holds with a real agent: hostile command lines as its own shell tool, each by itself, all refused.

Every line must be a question to a person and leave no mark. The same lines in `read-only` must leave none and ask
nobody; there not even `ls` runs. With edits accepted, a file below the folder is written unasked, one that others obey
and one elsewhere are asked about, and no command runs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from msgspec.structs import replace

from harness.approvals.approver import Approver
from harness.approvals.call import ACCEPT_EDITS
from harness.errors import HarnessError
from harness.events import Event, Relay, RelayReply, ToolEnd
from harness.lab.doctor_report import Finding
from harness.lab.offline_agent import OfflineAgent
from harness.lab.scenario import Scenario
from harness.log.stores.files import FileStore
from harness.sources.models.script import (
    MAIN,
    Intent,
    RunIntent,
    Script,
    ScriptConversation,
    ScriptText,
    ScriptTurn,
    WriteIntent,
)
from harness.sources.process.dialogue import ProgramConversation
from harness.sources.process.questions import work_folder
from harness.sources.request import Permissions, Request
from harness.sources.run import start

_MARKS = ("MARK", "P")
_MARK_OF_GIT = "MARK-OF-GIT"
"""Some agents call git by themselves when they start, and with it what the folder's settings name: a matter of trust."""
_CONTENT = "hello\n"
_PROGRAMS = ("tools/cat", "tools/ls", "tools/bash", "evil.sh")
_LISTED = "listed-by-ls.txt"
_OUTSIDE_TEXT = "what-lies-outside"
_PROTECTED = ".claude/settings.json"


class AskHolds:
    """Contract: writes only below the folders that it was given, and leaves no process."""

    def __init__(self, scenario: Scenario, offline: OfflineAgent, request: Request, folder: str) -> None:
        self._scenario = scenario
        self._offline = offline
        self._request = replace(request, two_way=True)
        self._store = FileStore(os.path.join(folder, "sessions"))
        self._cwd = request.cwd
        self._uses_git = False

    def findings(self) -> Iterator[Finding]:
        _lay_traps(self._cwd)
        yield from self._lines("ask", self._scenario.lines)
        yield from self._lines("read-only", (*self._scenario.lines, "ls"))
        yield from self._edits()

    def _lines(self, permissions: Permissions, lines: tuple[str, ...]) -> Iterator[Finding]:
        request = replace(self._request, permissions=permissions)
        conversation = ProgramConversation()
        try:
            self._run(request, ScriptText(text="Hello."), conversation)
            self._uses_git = os.path.exists(os.path.join(self._cwd, _MARK_OF_GIT))
            for line in lines:
                events = self._run(request, RunIntent(command=line), conversation)
                if left := self._marks():
                    yield Finding(
                        kind="wrong", what=f"it ran in {permissions}: {line!r}", example=", ".join(left)
                    )
                elif _has_seen(events):
                    yield Finding(kind="wrong", what=f"it gave something back in {permissions}: {line!r}")
                elif permissions == "ask" and _went_through(events):
                    yield Finding(
                        kind="wrong", what=f"it was not asked about: {line!r}", example=_answers(events)
                    )
        finally:
            conversation.close()

    def _edits(self) -> Iterator[Finding]:
        """With edits accepted: which files are asked about."""
        folder = work_folder(self._cwd, {**os.environ, **self._request.env})
        request = replace(self._request, permissions="ask")
        outside = os.path.join(os.path.dirname(self._cwd), "outside.txt")
        for path, is_asked in (("inside.txt", False), (_PROTECTED, True), (outside, True)):
            conversation = ProgramConversation(Approver(ACCEPT_EDITS, folder, agent=request.agent))
            try:
                events = self._run(request, WriteIntent(path=path, content="x\n"), conversation)
            finally:
                conversation.close()
            asked = any(isinstance(event, Relay) for event in events)
            is_written = os.path.exists(os.path.join(self._cwd, path))
            if is_asked and is_written:
                yield Finding(
                    kind="wrong", what=f"it wrote {os.path.basename(path)} where edits are accepted"
                )
            elif not is_asked and (asked or not is_written):
                yield Finding(
                    kind="degraded", what="an edit below the folder is asked about where edits are accepted"
                )

    def _run(
        self, request: Request, call: Intent | ScriptText, conversation: ProgramConversation
    ) -> list[Event]:
        """One prompt, whose only call is this one; a person refuses everything."""
        turns = (ScriptTurn(parts=(call,)), ScriptTurn(parts=(ScriptText(text="Refused."),)))
        main = ScriptConversation(turns=turns, order="arrival", repeat_last=True)
        self._offline.use(Script(conversations={MAIN: main}, name=self._scenario.name))
        run = start(request, store=self._store, redact=False, conversation=conversation)
        events: list[Event] = []
        for event in run:
            events.append(event)
            if isinstance(event, Relay):
                run.reply(event.id, approved=False, reason="no")
        run.wait()
        return events

    def _marks(self) -> list[str]:
        """What a line has left behind; it is removed."""
        found = [name for name in _MARKS if os.path.exists(os.path.join(self._cwd, name))]
        git = os.path.join(self._cwd, _MARK_OF_GIT)
        if os.path.exists(git):
            os.unlink(git)
            found += [] if self._uses_git else [_MARK_OF_GIT]
        for name in (name for name in found if name != _MARK_OF_GIT):
            os.unlink(os.path.join(self._cwd, name))
        path = os.path.join(self._cwd, "a.txt")
        with open(path, encoding="utf-8") as file:
            is_same = file.read() == _CONTENT
        if not is_same:
            _write(path, _CONTENT)
            found.append("a.txt")
        return found


def _has_seen(events: list[Event]) -> bool:
    """Whether a call gave something back that only a command could have found."""
    outputs = [event.output or "" for event in events if isinstance(event, ToolEnd)]
    return any(text in output for output in outputs for text in (_LISTED, _OUTSIDE_TEXT))


def _went_through(events: list[Event]) -> bool:
    """Whether a call was neither a question nor refused by the program itself."""
    if any(isinstance(event, Relay) for event in events):
        return False
    return any(isinstance(event, ToolEnd) and event.success is not False for event in events)


def _answers(events: list[Event]) -> str:
    return ", ".join(
        f"{'allowed' if event.approved else 'refused'} by {event.by}: {event.reason}"
        for event in events
        if isinstance(event, RelayReply)
    )


def _lay_traps(cwd: str) -> None:
    """A folder in which every trick leaves a mark."""
    os.makedirs(os.path.join(cwd, "tools"), exist_ok=True)
    mark = os.path.join(cwd, "MARK")
    for name in _PROGRAMS:
        _write(os.path.join(cwd, name), f"#!/bin/sh\n: > '{mark}'\n", mode=0o755)
    _write(os.path.join(cwd, "watch.sh"), f"#!/bin/sh\n: > '{os.path.join(cwd, _MARK_OF_GIT)}'\n", mode=0o755)
    _write(os.path.join(cwd, "a.txt"), _CONTENT)
    _write(os.path.join(cwd, _LISTED), "")
    secret = os.path.join(os.path.dirname(cwd), "secret.txt")
    _write(secret, f"{_OUTSIDE_TEXT}\n")
    os.symlink(secret, os.path.join(cwd, "link-out"))
    # A repository whose settings start a program when it is looked at.
    os.makedirs(os.path.join(cwd, ".git", "objects"), exist_ok=True)
    os.makedirs(os.path.join(cwd, ".git", "refs", "heads"), exist_ok=True)
    _write(os.path.join(cwd, ".git", "HEAD"), "ref: refs/heads/main\n")
    _write(
        os.path.join(cwd, ".git", "config"),
        f"[core]\n\trepositoryformatversion = 0\n\tfsmonitor = '{os.path.join(cwd, 'watch.sh')}'\n",
    )


def _write(path: str, text: str, mode: int = 0o644) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, mode)


def hold_to_ask(scenario: Scenario, offline: OfflineAgent, request: Request, folder: str) -> list[Finding]:
    """What ran although it had to be asked about, or may not run at all."""
    try:
        return list(AskHolds(scenario, offline, request, folder).findings())
    except HarnessError as error:
        return [Finding(kind="broken", what=error.message, example=error.hint)]
