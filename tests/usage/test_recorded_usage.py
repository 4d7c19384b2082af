"""What a recorded run used is what its model was scripted to say that it used: agent by agent, class by class.

The scripts lie in `meta.json`. A turn without `usage` uses the constants below. Turns are served in
their order, so a run that ends with the last answer of its script has had each of them once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
from msgspec.structs import replace

import recorded_runs
from harness.agents.registry import load, names
from harness.events import Event, Result, SessionStart, Usage, UsageDelta, Warning
from harness.events.usage import CLASSES
from harness.log import codec
from harness.log.store import Metadata
from harness.testing.golden import Case, translate
from harness.usage.ledger import Ledger, total
from harness.usage.prices import Prices

CASES = [case for case in recorded_runs.CASES if case.agent in set(names())]

MAIN = "main"
WITHOUT_SUB_AGENTS = ("claude/1.0.60", "codex/", "droid/", "goose/1.37", "kilo/", "opencode/")
"""Agents that report only what the agent itself used."""
SIDE_MODELS = {"claude/2.0": "claude-haiku-4-5-20251001"}
"""What an agent asks beside its work (titles, topics), of a model of its own, and outside of the script."""
WARM_UPS = {"claude/2.0": 1}
"""Calls of the main model before the work begins."""
PLAIN_TEXT = ("hello-text", "text-format", "text_mode")
DIFFERENT = {
    "aider/0.86.2/ask": "aider counts by itself while it streams",
    "grok/1.0.41/background-command": "the script has answers to spare",
    "grok/1.0.41/subagent-background": "the script has answers to spare",
    "claude/1.0.60/compact-auto": "the tokens before the summary are not reported",
    "claude/1.0.60/err-529-recover": "an answer after a retry is reported with zero tokens",
    "claude/1.0.128/fault-500": "an answer after a retry is reported with zero tokens",
    "pi/0.50.3/reasoning": "it adds reasoning to an output that includes it",
    "claude/1.0.60/err-sse": "the answer broke off",
    "gemini/0.61.0/subagent": "the sub-agent asks for more answers than it has in its script",
}
"""Recordings that differ from their script, and why."""


@dataclass(frozen=True)
class Script:
    """`lanes`: whose turns they are, the agent's own under `main`."""

    lanes: dict[str, list[dict[str, Any]]]
    defaults: dict[str, int]
    repeats: bool = False


def script_of(case: Case) -> Script:
    """Four kinds of scripted servers made the recordings; the last is the lab of this repository."""
    script = case.meta.script if isinstance(case.meta.script, dict) else {}
    if "turns" in script:
        # A run that continues a session asks only for the last answer.
        own = script["turns"][-1:] if case.name == "resume" else script["turns"]
        lanes = {name: lane["turns"] for name, lane in script.get("lanes", {}).items()}
        turns = {
            name: [_lab_turn(turn) for turn in scripted] for name, scripted in {MAIN: own, **lanes}.items()
        }
        return Script(turns, LAB)
    if "lanes" in script:
        anthropic = {"input": 1200, "cache_read": 900, "cache_write": 300, "output": 42}
        responses = {"input": 1500, "cache_read": 900, "output": 64, "reasoning": 16}
        defaults = anthropic if case.agent == "claude" else responses
        return Script(script["lanes"], defaults, repeats=bool(script.get("repeat_last")))
    if "scripts" in script:
        lanes = {lane.get("marker") or MAIN: lane["turns"] for lane in script["scripts"]}
        return Script(lanes, {"input": 1200, "output": 40})
    lanes = {lane["match"]: lane["turns"] for lane in script.get("routes", ())}
    repeated = {
        name: [turn for turn in turns for _ in range(turn.get("repeat", 1))]
        for name, turns in {MAIN: script.get("main", []), **lanes}.items()
    }
    return Script(repeated, {"input": 100, "output": 20})


LAB = {"input": 1000, "cache_read": 200, "output": 50}
"""What an answer of the lab uses, in classes that do not overlap."""


def _lab_turn(turn: Any) -> dict[str, Any]:
    """Its parts as one: what it says, and what it uses."""
    parts = turn if isinstance(turn, list) else [turn]
    stated = {name: value for part in parts for name, value in part.items() if name == "usage"}
    text = "".join(part.get("text", "") for part in parts)
    return {"text": text, "usage": {**LAB, **stated.get("usage", {})}, "is_plain": True}


SPELLINGS = {
    "input": ("input", "in", "input_tokens"),
    "output": ("output", "out", "output_tokens"),
    "cache_read": ("cache_read", "cached", "cache_read_input_tokens"),
    "cache_write": ("cache_write", "cache_creation_input_tokens"),
    "reasoning": ("reasoning",),
}


def call_of(case: Case, turn: dict[str, Any], defaults: dict[str, int]) -> Counter[str]:
    """What one turn uses, in classes that do not overlap."""
    stated = turn.get("usage") or {}
    used = Counter(
        {
            name: next((stated[key] for key in keys if key in stated), defaults.get(name, 0))
            for name, keys in SPELLINGS.items()
        }
    )
    if turn.get("is_plain"):
        return used
    is_anthropic = case.agent == "claude" or "anthropic" in case.name
    if not is_anthropic:  # the other APIs count what is cached as input too
        used["input"] -= used["cache_read"] + used["cache_write"]
    if not is_anthropic and case.agent != "gemini":
        used["output"] -= used["reasoning"]
    return used


def text_of(turn: dict[str, Any]) -> str:
    said = turn.get("text", "")
    if "content" in turn:
        said = [block.get("text", "") for block in turn["content"]]
    return (said if isinstance(said, str) else "".join(said)).strip()


def is_fault(turn: dict[str, Any]) -> bool:
    """Whether the connection broke in the middle: what that used, every agent guesses in its own way."""
    faults = {"drop", "drop_after", "hang", "stall", "sse_failed", "sse_error", "incomplete"}
    return not faults.isdisjoint(turn) and turn.get("drop") != "before"


def is_answered(turn: dict[str, Any]) -> bool:
    """Whether it comes to an answer: at once, or after so many errors."""
    return "drop" not in turn and ("error" not in turn or "times" in turn["error"])


@cache
def events_of(case: Case) -> list[Event]:
    return translate(case)[1]


def why_not(case: Case) -> str:
    """Why it is not known how many of the scripted turns a run has had; empty when it is."""
    script, (*_, result) = script_of(case), events_of(case)
    main = script.lanes.get(MAIN, [])
    if str(case) in DIFFERENT:
        return DIFFERENT[str(case)]
    if case.name.startswith(PLAIN_TEXT):
        return "plain text"
    if not main or script.repeats:
        return "no script, or one without an end"
    if case.meta.signals:
        return "ended by a signal"
    if any(isinstance(event, Warning) and event.code == "usage_cumulative" for event in events_of(case)):
        return "reports its whole session"
    if any(is_fault(turn) for turns in script.lanes.values() for turn in turns):
        return "an answer broke off"
    assert isinstance(result, Result)
    if not result.success or not text_of(main[-1]) or text_of(main[-1]) != result.text.strip():
        return "not all of the script was used"
    return ""


def sum_of(calls: Iterable[Counter[str]]) -> Counter[str]:
    added: Counter[str] = Counter()
    for call in calls:
        added.update(call)
    return added


def reported_by(case: Case) -> Counter[str]:
    """The sum of what the run reported, without what was used beside it."""
    side = next((model for start, model in SIDE_MODELS.items() if str(case).startswith(start)), None)
    deltas = [event for event in events_of(case) if isinstance(event, UsageDelta) and event.model != side]
    return Counter({name: sum(getattr(delta.usage, name) or 0 for delta in deltas) for name in CLASSES})


@cache
def classes_of(agent: str, version: str) -> frozenset[str]:
    """The classes that this version of an agent ever reports."""
    return frozenset(
        name
        for case in CASES
        if (case.agent, case.version) == (agent, version)
        for event in events_of(case)
        if isinstance(event, UsageDelta)
        for name in CLASSES
        if getattr(event.usage, name) is not None
    )


def merged(used: Counter[str], classes: Iterable[str]) -> Counter[str]:
    """What is never reported separately is part of the input, or of the output."""
    found = Counter(used)
    for name, into in (("cache_read", "input"), ("cache_write", "input"), ("reasoning", "output")):
        if name not in classes:
            found[into] += found.pop(name, 0)
    return Counter({name: count for name, count in found.items() if name in classes})


def expectations(case: Case) -> list[Counter[str]]:
    """What the run may have reported: with sub-agents and side agents, as many calls as these had."""
    script, classes = script_of(case), classes_of(case.agent, case.version)
    has_children = not str(case).startswith(WITHOUT_SUB_AGENTS)
    seen = codec.encode_lines(events_of(case)).decode()
    warm_ups = next((count for start, count in WARM_UPS.items() if str(case).startswith(start)), 0)
    sure, unsure = [], [call_of(case, {}, script.defaults) for _ in range(warm_ups)]
    for name, turns in script.lanes.items():
        answered = [call_of(case, turn, script.defaults) for turn in turns if is_answered(turn)]
        if name == MAIN:
            sure += answered
        elif has_children:
            is_used_up = len({text_of(turn) for turn in turns}) == len(turns) and text_of(turns[-1]) in seen
            (sure if is_used_up else unsure).extend(answered)
    if str(case).startswith("claude/1.0.60"):  # it adds the first count of an answer, 1, to the last one
        for call in sure:
            call["output"] += 1
    return [merged(sum_of([*sure, *unsure[:more]]), classes) for more in range(len(unsure) + 1)]


VERSIONS = sorted({(case.agent, case.version) for case in CASES})
FEW = 8
"""Of so few recordings it may be that none can be compared."""


def recordings(agent: str, version: str = "") -> list[Case]:
    return [case for case in CASES if case.agent == agent and version in ("", case.version)]


@pytest.mark.parametrize(("agent", "version"), VERSIONS)
def test_a_run_reports_what_its_model_was_scripted_to_use(agent: str, version: str) -> None:
    if not classes_of(agent, version):
        return
    compared = [case for case in recordings(agent, version) if not why_not(case)]
    wrong = [
        f"{case} reports {dict(reported)}, and was scripted to use {dict(expected[0])}"
        for case in compared
        if (reported := +reported_by(case)) not in (expected := [+one for one in expectations(case)])
    ]

    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(("agent", "version"), VERSIONS)
def test_enough_recordings_are_compared(agent: str, version: str) -> None:
    scripted = [case for case in recordings(agent, version) if case.meta.script]
    reasons = Counter(map(why_not, scripted))

    assert len(scripted) < FEW or reasons[""] * 3 >= len(scripted), reasons


@pytest.mark.parametrize("agent", sorted({agent for agent, _ in VERSIONS}))
def test_an_agent_states_whether_it_reports_its_usage(agent: str) -> None:
    is_reported = any(classes_of(agent, case.version) for case in recordings(agent))
    reveals = load(agent).reveals.get("usage", "never")

    assert is_reported != reveals.startswith(("never", "none"))


def test_every_exception_is_a_recording() -> None:
    assert {*DIFFERENT} <= {str(case) for case in recorded_runs.CASES}


def ledger_of(cases: Iterable[Case]) -> Usage:
    """What a ledger makes of several recordings, one after the other."""
    ledger = Ledger()
    for number, case in enumerate(cases):
        events = [_stamped(event, f"run {number}", number) for event in events_of(case)]
        ledger.add(Metadata(session_id=str(case), agent_name=case.agent), events)
    amount = total(ledger.charges(Prices("", {}), lambda _: ""))
    return Usage(**{name: getattr(amount, name) for name in CLASSES})


def _stamped(event: Event, run_id: str, at_ms: int) -> Event:
    stamps = {"run_id": event.run_id or run_id, "timestamp_ms": at_ms}
    if isinstance(event, SessionStart) and not event.session_id:
        stamps["session_id"] = stamps["run_id"]
    return replace(event, **stamps)


@pytest.mark.parametrize("version", ["0.98.0", "0.166.0"])
def test_a_thread_that_was_continued_is_billed_once(version: str) -> None:
    """Its last run reports the total of all: what the first one used must not be added to that again."""
    first, last = (
        next(case for case in CASES if str(case) == f"codex/{version}/{name}")
        for name in ("resume-1", "resume-last")
    )

    assert ledger_of([first, last]) == ledger_of([last])
    assert ledger_of([first, last]).cache_read == 4 * 900
    assert ledger_of([first]).cache_read == 2 * 900


def test_every_recording_that_reports_a_whole_session_says_so_once() -> None:
    for case in CASES:
        notices = [
            event
            for event in events_of(case)
            if isinstance(event, Warning) and event.code == "usage_cumulative"
        ]
        assert len(notices) <= 1, case
