"""The summary of a stored session, its usage and its searchable texts.

A session is read in parts, so that a file of any size needs little memory, and a file that has grown is read from the
last position only. `readings` uses the faster `scan` where the agent's store has one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress

from harness.contracts.history import AgentHistory, StoredSession
from harness.contracts.reading import (
    LONGEST_PROMPT,
    CannotScan,
    Document,
    Reading,
    SessionSummary,
    StoredRun,
    UsedTokens,
    counts_of,
    masked,
)
from harness.events import Event, Message, Result, SessionStart, ToolEnd, ToolStart, UsageDelta
from harness.log.run_tree import RunTree
from harness.usage.prices import rate_of

_LONGEST_DOCUMENT = 1_000_000
"""Characters; a session without a `scan` is searched in parts of this size."""


def readings(history: AgentHistory, session: StoredSession, state: bytes = b"") -> Iterator[Reading]:
    """The session as it is now, or with a state what is new in it. Secrets in texts are masked."""
    is_scanned = False
    if history.scanner is not None:
        with suppress(CannotScan):
            for reading in history.scanner().scan(session, state):
                yield _masked(reading)
            is_scanned = True
    if not is_scanned:
        yield from read_whole(history, session)


def read_whole(history: AgentHistory, session: StoredSession) -> Iterator[Reading]:
    # Imported when a session is read: a list of sessions that are known needs no translator.
    from harness.histories.stored_log import StoredLog

    log = StoredLog(history, session)
    fold = _Fold(session.session_id)
    is_more = False
    for batch in log.batches():
        fold.feed(batch)
        if fold.size >= _LONGEST_DOCUMENT:
            yield fold.reading(is_more=is_more)
            is_more = True
    fold.summary.title, fold.summary.parent_id = masked(log.title), log.parent_id
    fold.summary.cwd = fold.summary.cwd or log.cwd
    yield fold.reading(is_more=is_more)


class _Fold:
    def __init__(self, session_id: str) -> None:
        self.summary = SessionSummary()
        self.size = 0
        self._session_id = session_id
        self._document = Document()
        self._tokens: list[UsedTokens] = []
        self._runs: list[StoredRun] = []
        self._tree = RunTree()
        """Is fed only what says which runs are on top."""
        self._models: dict[str, str] = {}
        self._commits: set[str] = set()
        """Calls that may make a commit."""

    def feed(self, events: Iterable[Event]) -> None:
        summary = self.summary
        for event in events:
            summary.started_ms = summary.started_ms or event.timestamp_ms
            summary.ended_ms = max(summary.ended_ms, event.timestamp_ms)
            match event:
                case SessionStart():
                    self._begin(event)
                case Message():
                    self._add_message(event)
                case Result():
                    run = self._tree.feed(event)
                    if run.id == self._tree.latest:
                        summary.outcome = event.outcome
                case ToolStart():
                    if self._document.add_operations(event.operations):
                        self._commits.add(event.call_id)
                case ToolEnd():
                    if event.operations:
                        self._document.add_operations(event.operations)
                    if event.call_id in self._commits:
                        self._document.add_output(event.output or "")
                case UsageDelta():
                    self._use(event)
                case _:
                    pass

    def reading(self, *, is_more: bool) -> Reading:
        document, tokens, runs = self._document, self._tokens, self._runs
        self._document, self._tokens, self._runs, self.size = Document(), [], [], 0
        return Reading(self.summary, [document], tokens, is_more=is_more, runs=runs)

    def _use(self, event: UsageDelta) -> None:
        model = event.model or self._models.get(event.run_id, "")
        at_ms, counts = event.timestamp_ms, counts_of(event.usage)
        self._tokens.append(UsedTokens(event.id, self.summary.runs, at_ms, model, counts, *rate_of(event)))

    def _begin(self, start: SessionStart) -> None:
        self._models[start.run_id] = start.model or self._models.get(self._tree.latest, "")
        if not self._tree.feed(start).depth:
            self.summary.runs += 1
            self.summary.model = start.model or self.summary.model
            self.summary.cwd = start.cwd or self.summary.cwd
            self.summary.version = start.version or self.summary.version
            self._runs.append(StoredRun(self.summary.runs, start.timestamp_ms, ""))

    def _add_message(self, message: Message) -> None:
        if message.role == "user" and message.run_id == self._tree.latest:
            self.summary.prompt = self.summary.prompt or message.text[:LONGEST_PROMPT]
            if self._runs and not self._runs[-1].prompt:
                self._runs[-1] = self._runs[-1]._replace(prompt=message.text)
        if message.text:
            self._document.texts.append(message.text)
            self._document.at_ms = self._document.at_ms or message.timestamp_ms
            self.size += len(message.text)


_BETWEEN = "\0\n"


def _masked(reading: Reading) -> Reading:
    """All texts of a document in one go, since most of the time goes into the beginning of a search."""
    for document in reading.documents:
        parts = (document.texts, document.commands, document.files)
        whole = _BETWEEN.join("\0".join(part) for part in parts)
        safe = masked(whole)
        if safe is not whole:
            texts, commands, files = safe.split(_BETWEEN, 2)
            document.texts = texts.split("\0")
            document.commands = dict.fromkeys(commands.split("\0"))
            document.files = dict.fromkeys(files.split("\0"))
    return reading
