"""Runs of an agent for tests: of lines that a test writes down, or of a recording. Not a test."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import msgspec

from harness.events import Event, Result
from harness.log.raw import Exit, Output, Start
from harness.sources.pipeline import Pipeline
from harness.sources.registry import load
from harness.testing.golden import find_cases, translate

ROOT = Path(__file__).parents[1] / "agents"
Kind = TypeVar("Kind", bound=Event)


def play(agent: str, *lines: Any, stderr: str = "", exit_code: int = 0, cwd: str = "/repo") -> list[Event]:
    """The events of these lines: records, or text as it is."""
    pipeline = Pipeline(load(agent).translator())
    events = [*pipeline.feed(Start(at_ms=0, agent=agent, prompt="do it", cwd=cwd))]
    for line in lines:
        data = line.encode() if isinstance(line, str) else msgspec.json.encode(line)
        events.extend(pipeline.feed(Output(at_ms=1, stream="stdout", data=data + b"\n")))
    if stderr:
        events.extend(pipeline.feed(Output(at_ms=1, stream="stderr", data=stderr.encode())))
    events.extend(pipeline.feed(Exit(at_ms=2, code=exit_code)))
    assert not pipeline.lost
    return events


def recorded(agent: str, name: str) -> list[Event]:
    """The events of a recording, whatever version wrote it."""
    case = next(case for case in find_cases(ROOT) if (case.agent, case.name) == (agent, name))
    return translate(case)[1]


def of(kind: type[Kind], events: list[Event], run_id: str | None = None) -> list[Kind]:
    return [
        event for event in events if isinstance(event, kind) and (run_id is None or event.run_id == run_id)
    ]


def end_of(events: list[Event]) -> Result:
    assert isinstance(events[-1], Result)
    return events[-1]
