"""A store and the live log of the same runs say the same, but for a table of known differences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from harness.events import (
    Compacted,
    Error,
    Event,
    Info,
    Message,
    Result,
    SessionStart,
    TasksChanged,
    ToolEnd,
    ToolStart,
    Warning,
)
from stored_homes import HomeCase, cases, opened, sessions

WITH_LIVE = [case for case in cases() if case.content["live"]]
Shape = tuple[Any, ...]

NEVER_STORED = {"stderr", "survivors", "session_id", "usage_cumulative", "interrupted"}
"""Codes of notices that are about the process, which no store knows."""

LESS = {
    "claude/2.1.325/subagent": {"Result child"},
    "cline/3.0.65/interrupt": {"ToolEnd"},
    "cline/3.0.65/subagent": {
        "SessionStart child",
        "Message child",
        "ToolStart child",
        "ToolEnd child",
        "Result child",
        "Result",
    },
    "codex/0.166.0/interrupt": {"ToolEnd", "Result"},
    "codex/0.166.0/resume": {"Result"},
    "copilot/1.0.102/interrupt": {"Result"},
    "copilot/1.0.102/resume": {"Result"},
    "copilot/1.0.102/subagent": {"Result"},
    "copilot/1.0.102/tools": {"Result"},
    "gemini/0.61.0/interrupt": {"ToolStart", "ToolEnd", "Result"},
    "gemini/0.61.0/resume": {"Result"},
    "gemini/0.61.0/subagent": {"ToolEnd", "Result child", "Result"},
    "gemini/0.61.0/tools": {"ToolEnd", "Result"},
    "goose/1.52.0/interrupt": {"Message", "ToolStart", "ToolEnd", "Error", "Result"},
    "goose/1.52.0/resume": {"Result"},
    "goose/1.52.0/subagent": {"Result"},
    "opencode/1.18.33/interrupt": {"Result"},
    "pi/1.5.0/interrupt": {"Result"},
    "qwen/0.24.4/resume": {"Result"},
}
"""What only the live log has, or has otherwise: how a run was interrupted (opencode, pi, gemini, goose), how it ended
(gemini), a call that was interrupted (gemini, goose), usage of the whole session where the store has that of the run
(codex, goose, qwen), usage at all (copilot), usage of sub-agents in the total (cline, gemini, goose), the short form of
outputs (gemini), and sub-agents within the run that started them (cline, whose store has sessions of their own)."""

MORE = {
    "claude/2.1.325/subagent": {"Result child"},
    "cline/3.0.65/interrupt": {"ToolEnd"},
    "cline/3.0.65/subagent": {"Result"},
    "codex/0.166.0/interrupt": {"ToolEnd", "Result"},
    "codex/0.166.0/resume": {"Result"},
    "copilot/1.0.102/interrupt": {"Result"},
    "copilot/1.0.102/resume": {"Result"},
    "copilot/1.0.102/subagent": {"Info", "Result"},
    "copilot/1.0.102/tools": {"Result"},
    "gemini/0.61.0/interrupt": {"Result"},
    "gemini/0.61.0/resume": {"Result"},
    "gemini/0.61.0/subagent": {"ToolEnd", "Result child", "Result"},
    "gemini/0.61.0/tools": {"ToolEnd", "Result"},
    "goose/1.52.0/interrupt": {"Result"},
    "goose/1.52.0/resume": {"Result"},
    "goose/1.52.0/subagent": {"Result"},
    "opencode/1.18.33/interrupt": {"Result"},
    "pi/1.5.0/interrupt": {"Result"},
    "qwen/0.24.4/resume": {"Result"},
    "qwen/0.24.4/subagent": {"Message child"},
}
"""What only the store has, or has otherwise: output of interrupted commands (codex, cline), exact usage (codex, goose,
copilot, qwen), what tools gave back (gemini), what sub-agents said (qwen), their changes of model (copilot)."""

OTHER_ORDER = {"cline/3.0.65/tools", "codex/0.166.0/tools", "goose/1.52.0/tools", "kilo/7.7.9/tools"}
"""Parallel calls: a stream has them as they begin and end, a store as the model asked for them, or as they ended."""

NOT_STORED = {
    ("copilot/1.0.102/resume", "And again, with a command"),
    ("copilot/1.0.102/resume", "Third prompt"),
}
"""Runs that failed before the agent had a session."""


def _shape(event: Event, top: str) -> Shape | None:
    kind = type(event).__name__ if event.run_id == top else f"{type(event).__name__} child"
    match event:
        case SessionStart():
            return kind, event.agent, event.model if event.run_id == top else "", event.cwd
        case Message():
            return kind, event.role, event.text
        case ToolStart():
            return kind, event.tool_name, repr(event.input)
        case ToolEnd():
            return kind, event.tool_name, event.success, event.output
        case Result():
            usage = event.usage
            used = (usage.input, usage.output, usage.cache_read) if usage is not None else None
            return kind, event.outcome, event.text, used
        case Error() | Warning() | Info():
            return None if event.code in NEVER_STORED else (kind, event.code)
        case Compacted() | TasksChanged():
            return kind, repr(event)
    return None


def _shapes(events: Iterable[Event], top: str) -> list[Shape]:
    return [shape for event in events if (shape := _shape(event, top)) is not None]


def _runs(events: Sequence[Event]) -> list[tuple[str, list[Event]]]:
    """Top runs and their events; a run of a store ends with its `Result`."""
    runs: list[tuple[str, list[Event]]] = []
    is_ended = True
    for event in events:
        if is_ended:
            runs.append((event.run_id, []))
        top, own = runs[-1]
        own.append(event)
        is_ended = isinstance(event, Result) and event.run_id == top
    return runs


def _prompt(events: Iterable[Event]) -> str:
    return next(
        (event.text for event in events if isinstance(event, Message) and event.role == "user"), ""
    ).strip()


@pytest.mark.parametrize("case", WITH_LIVE, ids=str)
def test_a_store_says_what_the_live_log_says(case: HomeCase, tmp_path: Path) -> None:
    stored = [
        run
        for session in sessions(case, case.unpack(tmp_path))
        if not session.is_child
        for run in _runs([*opened(case, session).events()])
    ]
    for live in case.live_runs():
        top, events = _runs(live)[0]
        found = [run for run in stored if _prompt(run[1]) == _prompt(events)]
        if (str(case), _prompt(events)) in NOT_STORED:
            assert not found
            continue
        ours, theirs = _shapes(events, top), _shapes(found[-1][1], found[-1][0])
        less, more = Counter(ours) - Counter(theirs), Counter(theirs) - Counter(ours)
        assert {shape[0] for shape in less} <= LESS.get(str(case), set()), list(less)
        assert {shape[0] for shape in more} <= MORE.get(str(case), set()), list(more)
        if not less and not more and str(case) not in OTHER_ORDER:
            assert ours == theirs


def test_every_known_difference_is_one_of_a_recorded_store() -> None:
    known = {str(case) for case in WITH_LIVE}
    assert {*LESS, *MORE, *OTHER_ORDER, *(name for name, _prompt in NOT_STORED)} <= known
