"""Lets a real agent do some work, reads it from the agent's own store, and compares that with the live log.

Events that the store does not have, or has differently, may differ: `AgentHistory.differs`. A record that no rule of the
store knows is drift.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

from harness.contracts.history import AgentHistory, Home
from harness.contracts.request import Request
from harness.errors import HarnessError
from harness.events import Event, Message, Result, SessionStart, ToolEnd, ToolStart, Unknown
from harness.histories.registry import load
from harness.histories.stored_log import StoredLog
from harness.lab.doctor_report import Finding
from harness.lab.offline_agent import OfflineAgent
from harness.log.stores.files import FileStore
from harness.runs.run import start

_LONGEST_SHOWN = 200
_Shape: TypeAlias = tuple[Any, ...]


def compare_store(offline: OfflineAgent, request: Request, folder: str) -> list[Finding]:
    """Raises HarnessError where nothing of the run is in the store."""
    history = load(offline.agent)
    if history is None:
        raise HarnessError(f"the sessions that {offline.agent} stores cannot be read")
    run = start(request, store=FileStore(os.path.join(folder, "sessions")), redact=False)
    run.wait()
    live: list[Event] = list(run)
    home = Home(offline.context.home, dict(offline.config.env), (offline.context.cwd,))
    events = _stored(history, home, request.prompt)
    if not events:
        raise HarnessError(f"its store in {history.place(home)} has nothing of the run")
    return store_findings(history, live, events)


def store_findings(history: AgentHistory, live: list[Event], from_store: list[Event]) -> list[Finding]:
    """How a store differs from the live log of the same run where it may not."""
    return [*_differences(history, live, from_store), *_unknown(from_store)]


def _stored(history: AgentHistory, home: Home, prompt: str) -> list[Event]:
    """The events of the run with this prompt; of sub-agents only those that are in its own log."""
    for session in history.find(home):
        if session.is_child:
            continue
        events = [*StoredLog(history, session, redact=False).events()]
        if any(isinstance(event, Message) and event.text.strip() == prompt for event in events):
            return events
    return []


def _differences(history: AgentHistory, live: list[Event], from_store: list[Event]) -> Iterator[Finding]:
    ours, theirs = Counter(_shapes(live)), Counter(_shapes(from_store))
    for shape in ours - theirs:
        if shape[0] not in history.differs:
            what = f"the store does not have a {shape[0]} of the live log"
            yield Finding(kind="degraded", what=what, example=repr(shape)[:_LONGEST_SHOWN])
    for shape in theirs - ours:
        if shape[0] not in history.differs:
            what = f"the live log does not have a {shape[0]} of the store"
            yield Finding(kind="wrong", what=what, example=repr(shape)[:_LONGEST_SHOWN])


def _shapes(events: Iterable[Event]) -> Iterator[_Shape]:
    """What both must say, whatever their times and ids."""
    top = ""
    for event in events:
        kind = type(event).__name__
        match event:
            case SessionStart():
                top = top or event.run_id
                if event.run_id == top:
                    yield kind, event.agent, event.cwd
            case Message() if event.run_id == top:
                yield kind, event.role, event.text
            case ToolStart() if event.run_id == top:
                yield kind, event.tool_name, repr(event.input)
            case ToolEnd() if event.run_id == top:
                yield kind, event.tool_name, event.success, event.output
            case Result() if event.run_id == top:
                usage = event.usage
                counts = (usage.input, usage.output, usage.cache_read) if usage is not None else None
                yield kind, event.outcome, event.text, counts
            case _:
                pass


def _unknown(from_store: list[Event]) -> Iterator[Finding]:
    kinds = {
        str(event.raw.get("type")) if isinstance(event.raw, dict) else "a line"
        for event in from_store
        if isinstance(event, Unknown)
    }
    for kind in sorted(kinds):
        yield Finding(kind="drift", what=f"unknown record type {kind!r} in the store")
