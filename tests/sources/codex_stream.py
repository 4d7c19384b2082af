"""Short ways to write a stream of Codex, and its recordings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from harness.events import (
    Event,
    Result,
)
from harness.log.raw import Entry, Exit, Output, Start
from harness.sources.agents.codex import AGENT
from harness.sources.pipeline import Pipeline
from harness.testing.golden import find_cases

CASES = [case for case in find_cases(Path(__file__).parent.parent / "agents") if case.agent == "codex"]


def run(*records: Any, stderr: str = "", code: int | None = 0, signal: int | None = None) -> list[Event]:
    """The events of a run whose stdout has these lines; text stands for itself."""
    lines = [record if isinstance(record, str) else json.dumps(record) for record in records]
    entries: list[Entry] = [Start(at_ms=1000, agent="codex")]
    entries += [Output(at_ms=1000, stream="stdout", data=line.encode() + b"\n") for line in lines]
    if stderr:
        entries.append(Output(at_ms=2000, stream="stderr", data=stderr.encode()))
    entries.append(Exit(at_ms=3000, code=code, signal=signal))
    pipeline = Pipeline(AGENT.translator())
    events = [event for entry in entries for event in pipeline.feed(entry)]
    assert not pipeline.lost
    return events


def item(step: str, **fields: Any) -> dict[str, Any]:
    return {"type": f"item.{step}", "item": {"id": "item_0", **fields}}


def completed(**fields: Any) -> dict[str, Any]:
    return item("completed", **fields)


def turn(*records: Any, usage: dict[str, int] | None = None) -> list[Event]:
    """The events of one whole turn, without those of its frame."""
    end = {"type": "turn.completed", **({"usage": usage} if usage else {})}
    return run({"type": "thread.started", "thread_id": "th"}, {"type": "turn.started"}, *records, end)[1:-1]


def result_of(events: list[Event]) -> Result:
    assert isinstance(events[-1], Result)
    return events[-1]
