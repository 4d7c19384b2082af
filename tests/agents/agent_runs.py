"""Runs of an agent for tests: of lines that a test writes down, or of a recording. Not a test."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

import recorded_runs
from harness.agents.registry import load
from harness.events import Event, Result, Usage
from harness.log.raw import RawControl, RawExit, RawOutput, RawStart
from harness.process.version_probe import parse_version
from harness.runs.pipeline import Pipeline
from harness.testing.golden import translate

Kind = TypeVar("Kind", bound=Event)


def play(
    agent: str,
    *lines: Any,
    stderr: str = "",
    exit_code: int | None = 0,
    signal: int | None = None,
    is_stopped: bool = False,
    cwd: str = "/repo",
    earlier_usage: Usage | None = None,
    **start: Any,
) -> list[Event]:
    """The events of these lines: records, or text and bytes as they are. `start`: what else is known of the start."""
    pipeline = Pipeline(load(agent).translator())
    events = [*pipeline.feed(RawStart(at_ms=0, agent=agent, cwd=cwd, **{"prompt": "do it", **start}))]
    for line in lines:
        text = line.encode() if isinstance(line, str) else line
        data = text if isinstance(text, bytes) else msgspec.json.encode(text)
        events.extend(pipeline.feed(RawOutput(at_ms=1, stream="stdout", data=data + b"\n")))
    if stderr:
        events.extend(pipeline.feed(RawOutput(at_ms=1, stream="stderr", data=stderr.encode())))
    if is_stopped:
        events.extend(pipeline.feed(RawControl(at_ms=1, action="stop")))
    exit = RawExit(at_ms=2, code=exit_code, signal=signal, earlier_usage=earlier_usage)
    events.extend(pipeline.feed(exit))
    assert not pipeline.lost
    return events


def recorded(agent: str, name: str, version: str = "") -> list[Event]:
    """The events of a recording: of the named version, else of the latest that has this case."""
    cases = [case for case in recorded_runs.CASES if (case.agent, case.name) == (agent, name)]
    known = [case for case in cases if version in ("", case.version)]
    return translate(max(known, key=lambda case: parse_version(case.version)))[1]


def of(kind: type[Kind], events: list[Event], run_id: str | None = None) -> list[Kind]:
    return [
        event for event in events if isinstance(event, kind) and (run_id is None or event.run_id == run_id)
    ]


def end_of(events: list[Event]) -> Result:
    assert isinstance(events[-1], Result)
    return events[-1]
