"""What is known of a stored session once it was read: what it was about, how it ended, what it used."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from harness.events import Event, Message, Result, SessionStart, Usage, UsageDelta
from harness.sources.imports.history import AgentHistory, StoredSession

_LONGEST_PROMPT = 2_000


class UsedTokens(NamedTuple):
    """What one model call has used, or as many as the store counts together."""

    key: str
    """The same for copies of the same call: of a fork, the copy has the id of the original."""
    at_ms: int
    model: str
    usage: Usage


class SessionSummary(msgspec.Struct, kw_only=True):
    """A fold of a session's events."""

    title: str = ""
    prompt: str = ""
    """The first."""
    model: str = ""
    cwd: str = ""
    version: str = ""
    parent_id: str = ""
    started_ms: int = 0
    ended_ms: int = 0
    outcome: str = ""
    """Of the last run; empty for a session without one."""
    runs: int = 0
    used: list[UsedTokens] = msgspec.field(default_factory=list)

    def feed(self, events: Iterable[Event], session_id: str) -> None:
        top, models = "", dict[str, str]()
        for event in events:
            self.started_ms = self.started_ms or event.timestamp_ms
            self.ended_ms = max(self.ended_ms, event.timestamp_ms)
            match event:
                case SessionStart():
                    models[event.run_id] = event.model or models.get(top, "")
                    if not event.parent_id:
                        top = event.run_id
                        self._begin(event)
                case Message(role="user") if event.run_id == top:
                    self.prompt = self.prompt or event.text[:_LONGEST_PROMPT]
                case Result() if event.run_id == top:
                    self.outcome = event.outcome
                case UsageDelta():
                    key = event.id or f"{session_id}#{len(self.used)}"
                    model = event.model or models.get(event.run_id, "")
                    self.used.append(UsedTokens(key, event.timestamp_ms, model, event.usage))
                case _:
                    pass

    def _begin(self, start: SessionStart) -> None:
        self.runs += 1
        self.model = start.model or self.model
        self.cwd = start.cwd or self.cwd
        self.version = start.version or self.version


def summarize(history: AgentHistory, session: StoredSession) -> SessionSummary:
    """By the short way, or else by reading it whole. Secrets in its texts are masked."""
    summary = history.skim(session) if history.skim is not None else None
    if summary is None:
        return read_whole(history, session)
    from harness.log.redact.redactor import redact_text, secrets_in

    secrets = secrets_in(os.environ)
    summary.prompt = redact_text(summary.prompt[:_LONGEST_PROMPT], secrets)
    summary.title = redact_text(summary.title or session.title, secrets)
    return summary


def read_whole(history: AgentHistory, session: StoredSession) -> SessionSummary:
    # Imported when a session is read: a list of sessions that are known needs no translator.
    from harness.sources.imports.stored_log import StoredLog

    log = StoredLog(history, session)
    summary = SessionSummary()
    for batch in log.batches():
        summary.feed(batch, session.session_id)
    summary.title, summary.parent_id = log.title, log.parent_id
    summary.cwd = summary.cwd or log.cwd
    return summary
