"""Aider: `.aider.chat.history.md` in the project, Markdown with the sessions one after the other.

    # aider chat started at 2026-11-15 19:28:30     a session begins
    > Main model: …                                 what Aider says itself
    #### Please do the work                         a prompt
    Second answer.                                  what the model says

Sessions have no ids: theirs is made of the project's name and the time of their start. Answers have no times.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import ClassVar

from harness.contracts.history import AgentHistory, Home, StoredRecord, StoredSession
from harness.contracts.rewording import Rewording
from harness.contracts.stored_times import milliseconds
from harness.contracts.translator import Record
from harness.protocols.reading.store_files import lines, look_at

_FILE = ".aider.chat.history.md"
_SESSION = re.compile(r"# aider chat started at (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\s*")
_PROMPT = "#### "
_NOTICE = "> "
_INTRODUCTION = ("Aider v", "Main model: ", "Model: ")


class AiderRewording(Rewording):
    rules: ClassVar[dict[str, str]] = {"prompt": "_prompt", "notice": "_notice", "text": "_text"}

    def __init__(self, session: StoredSession) -> None:
        super().__init__(session)
        self._before: list[str] = []
        """What Aider says before the first prompt."""

    def opening(self) -> None:
        for line in self._before:
            self.put(line)
        # Each run begins with what names version and model.
        self._before = [line for line in self._before if line.startswith(_INTRODUCTION)]

    def _prompt(self, record: Record) -> None:
        self.begin(str(record.get("text")))

    def _notice(self, record: Record) -> None:
        line = str(record.get("text"))
        if not self.is_open:
            self._before.append(line)
            return
        self.put(line)
        if line.startswith("Tokens: "):
            self.outcome = "completed"

    def _text(self, record: Record) -> None:
        if self.is_open:
            self.put(str(record.get("text")))


def place(home: Home) -> str:
    return os.path.join(next(iter(home.projects), os.curdir), _FILE)


def find(home: Home) -> Iterator[StoredSession]:
    for project in dict.fromkeys(home.projects):
        file = look_at(os.path.join(project, _FILE))
        if file is None:
            continue
        for start_time in _starts(file.path):
            yield file.session(
                "aider",
                _session_id(file.path, start_time),
                cwd=project,
                started_ms=milliseconds(start_time) or 0,
            )


def _session_id(path: str, start_time: str) -> str:
    from hashlib import sha256

    project = os.path.basename(os.path.dirname(os.path.abspath(path)))
    digest = sha256(project.encode("utf-8", "surrogateescape")).hexdigest()[:8]
    return f"aider-{re.sub('[^0-9]', '', start_time)}-{digest}"


def _starts(path: str) -> list[str]:
    match = (_SESSION.fullmatch(line) for line in _text_lines(path))
    return list(dict.fromkeys(match[1] for match in match if match is not None))


def records(session: StoredSession) -> Iterator[StoredRecord]:
    is_ours, prompt = False, list[str]()
    for line in _text_lines(session.path):
        if (start := _SESSION.fullmatch(line)) is not None:
            is_ours = _session_id(session.path, start[1]) == session.session_id
        elif is_ours and line.startswith(_PROMPT):
            prompt.append(line.removeprefix(_PROMPT).rstrip())
            continue
        elif is_ours and line.startswith(_NOTICE):
            yield from _asked(prompt)
            yield {"type": "notice", "text": line.removeprefix(_NOTICE).rstrip()}
        elif is_ours:
            yield from _asked(prompt)
            yield {"type": "text", "text": line}
    yield from _asked(prompt)


def _asked(prompt: list[str]) -> Iterator[Record]:
    """The prompt whose lines came last, once."""
    if prompt:
        yield {"type": "prompt", "text": "\n".join(prompt)}
        prompt.clear()


def _text_lines(path: str) -> Iterator[str]:
    for line in lines(path):
        if isinstance(line, bytes):
            yield line.decode("utf-8", "replace").rstrip("\r\n")


HISTORY = AgentHistory(
    agent="aider", title="Aider", place=place, find=find, records=records, rewording=AiderRewording
)
