"""Where two runs part: their operations side by side, with each run's own folder written as `.`."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher

import msgspec

from harness.errors import UsageError
from harness.events import Event, SessionStart, ToolEnd, ToolStart
from harness.fleet.fleet import Fleet
from harness.formatting.calls import words
from harness.formatting.json_text import compact
from harness.log.store import read_all

_LONGEST = 200


class RunStep(msgspec.Struct, frozen=True):
    """One call of a run."""

    text: str
    success: bool | None = None


class StepPair(msgspec.Struct, frozen=True):
    """A step of each run; None where one of them has no such step."""

    a: RunStep | None
    b: RunStep | None

    @property
    def is_same(self) -> bool:
        return self.a is not None and self.b is not None and self.a.text == self.b.text


def steps_of(events: Iterable[Event]) -> list[RunStep]:
    """What a run did, call by call; sub-agents included, in the order of the log."""
    cwd = ""
    order: list[str] = []
    texts: dict[str, str] = {}
    ends: dict[str, bool | None] = {}
    for event in events:
        if isinstance(event, SessionStart) and not cwd:
            cwd = event.cwd
        elif isinstance(event, ToolStart) and event.call_id not in texts:
            order.append(event.call_id)
            texts[event.call_id] = _text(event, cwd)
        elif isinstance(event, ToolEnd):
            ends[event.call_id] = event.success
    return [RunStep(texts[call_id], ends.get(call_id)) for call_id in order]


def steps_of_case(fleet: Fleet, case_id: str) -> list[RunStep]:
    """Of its result, else of its latest attempt. Raises UsageError where it has no run."""
    case = fleet.case(case_id)
    result = fleet.records.result(case.id) or fleet.records.progress(case.id)
    result = result or next(reversed(fleet.records.faults_of(case.id)), None)
    if result is None or not result.log_id:
        raise UsageError(f"case {case.id} has no run yet")
    return steps_of(read_all(fleet.sessions, result.log_id))


def aligned_steps(a: list[RunStep], b: list[RunStep]) -> list[StepPair]:
    """Both runs, with what they have in common beside each other."""
    matcher = SequenceMatcher(None, [step.text for step in a], [step.text for step in b], autojunk=False)
    pairs: list[StepPair] = []
    for kind, a_from, a_to, b_from, b_to in matcher.get_opcodes():
        if kind == "equal":
            pairs += [StepPair(x, y) for x, y in zip(a[a_from:a_to], b[b_from:b_to], strict=True)]
        else:
            pairs += [StepPair(x, None) for x in a[a_from:a_to]]
            pairs += [StepPair(None, y) for y in b[b_from:b_to]]
    return pairs


def first_difference(a: list[RunStep], b: list[RunStep]) -> int | None:
    """The number of the first step that differs; None: they are the same."""
    for number, (x, y) in enumerate(zip(a, b, strict=False)):
        if x.text != y.text:
            return number
    return None if len(a) == len(b) else min(len(a), len(b))


def _text(start: ToolStart, cwd: str) -> str:
    """What the call means, or the call itself; nothing in it names the workspace."""
    if start.operations:
        parts = [
            " ".join(filter(None, words(operation, cwd)[1:])) or words(operation, cwd).glyph
            for operation in start.operations
        ]
        text = "; ".join(parts)
    else:
        text = f"{start.tool_name} {compact(start.input)}"
    if cwd:
        text = text.replace(f"{cwd}/", "").replace(cwd, ".")
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
