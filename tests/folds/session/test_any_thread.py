"""Any events in any order are translated, from any point on, and what is emitted is in order."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from harness.events import (
    Compacted,
    Error,
    Event,
    FollowUpsChanged,
    Forked,
    GoalEvaluated,
    Message,
    ModeChanged,
    ObservationFailed,
    ObservationStart,
    ReasoningDelta,
    Relay,
    RelayReply,
    ReplInput,
    ReplOutput,
    Result,
    Resumed,
    SessionStart,
    Signal,
    StateChanged,
    StepEnd,
    StepStart,
    Suspended,
    Task,
    TasksChanged,
    TextDelta,
    TextRetracted,
    ThreadCreated,
    ToolEnd,
    ToolInputDelta,
    ToolProgress,
    ToolStart,
    Unknown,
    Unrecognized,
    Usage,
    UsageDelta,
    Warning,
)
from harness.events.operation import Command, Spawn, Write
from harness.folds.session import events as wire
from harness.folds.session.encoding import to_wire
from harness.folds.session.events import HarnessEvent
from harness.folds.session.translation import history_messages
from harness.views.display import DisplayFold
from session_log import logged

Choice = random.Random
OPERATIONS = [[], [Command(command="ls")], [Write(path="a")], [Spawn(name="n", task="t")]]
MAKERS: list[Callable[[Choice, dict[str, Any], str], Event]] = [
    lambda pick, run, key: SessionStart(parent_id=pick.choice(["", "", key]), name="n", **run),
    lambda pick, run, key: SessionStart(**run),
    lambda pick, run, key: Result(success=pick.random() < 0.5, outcome=_outcome(pick), text="end", **run),
    lambda pick, run, key: Suspended(**run),
    lambda pick, run, key: Resumed(**run),
    lambda pick, run, key: TextDelta(id=pick.choice(["", key]), text=pick.choice(["", "x", "yz"]), **run),
    lambda pick, run, key: TextDelta(id=key, text="w", **run),
    lambda pick, run, key: TextRetracted(id=key, **run),
    lambda pick, run, key: ReasoningDelta(id=pick.choice(["", key]), text="hm", **run),
    lambda pick, run, key: Message(
        role=pick.choice(["user", "assistant", "assistant", "system"]),
        id=pick.choice(["", key]),
        text=pick.choice(["", "x", "xyz"]),
        parts=pick.choice([None, [], [{"type": "file", "data": "x"}], [7]]),
        **run,
    ),
    lambda pick, run, key: ToolInputDelta(call_id=key, text="{", tool_name="t", **run),
    lambda pick, run, key: ToolStart(
        call_id=key, tool_name="t", input={"path": "p"}, operations=pick.choice(OPERATIONS), **run
    ),
    lambda pick, run, key: ToolProgress(call_id=key, text="more", **run),
    lambda pick, run, key: ToolEnd(
        call_id=key, tool_name="t", success=pick.choice([True, False, None]), output="o", exit_code=1, **run
    ),
    lambda pick, run, key: Relay(id=key, kind=pick.choice(["permission", "question"]), call_id=key, **run),
    lambda pick, run, key: RelayReply(
        id=key, approved=pick.random() < 0.5, answer=pick.choice([None, 1]), **run
    ),
    lambda pick, run, key: Forked(call_id=key, log_id="f", **run),
    lambda pick, run, key: ReplInput(id=key, code="1", **run),
    lambda pick, run, key: ReplOutput(id=key, stdout="1", **run),
    lambda pick, run, key: StepStart(id=key, **run),
    lambda pick, run, key: StepEnd(id=key, stop_reason=pick.choice(["end", "length"]), **run),
    lambda pick, run, key: UsageDelta(usage=Usage(input=1), **run),
    lambda pick, run, key: TasksChanged(tasks=[Task(text=key)], **run),
    lambda pick, run, key: Error(message=key, **run),
    lambda pick, run, key: Warning(message=key, **run),
    lambda pick, run, key: Compacted(**run),
    lambda pick, run, key: Unknown(raw=1, **run),
    lambda pick, run, key: Unrecognized(unread={"type": "Later"}, **run),
    lambda pick, run, key: ThreadCreated(id=key, **run),
    lambda pick, run, key: ModeChanged(mode_id=key, **run),
    lambda pick, run, key: StateChanged(changes={key: 1}, **run),
    lambda pick, run, key: FollowUpsChanged(pending=[1], **run),
    lambda pick, run, key: GoalEvaluated(payload={}, **run),
    lambda pick, run, key: ObservationStart(cycle_id=key, **run),
    lambda pick, run, key: ObservationFailed(cycle_id=key, error="e", **run),
    lambda pick, run, key: Signal(
        id=pick.choice(["", key]),
        category=pick.choice(["user", "state", "reactive"]),
        tag_name="system-reminder",
        contents=pick.choice(["x", [{"type": "text", "text": "x"}], None]),
        **run,
    ),
]


def _outcome(pick: Choice) -> Any:
    return pick.choice(["completed", "failed", "interrupted"])


def thread(seed: int, length: int = 80) -> list[Event]:
    pick = random.Random(seed)
    events: list[Event] = []
    for _ in range(length):
        run_id = pick.choice(["r", "r", "r", "s", "kid"])
        events.append(pick.choice(MAKERS)(pick, {"run_id": run_id}, f"{run_id}/{pick.choice('ab')}"))
    return logged(*events)


def _check_order(emitted: Sequence[HarnessEvent]) -> None:
    running, calls, inputs = 0, set(), set()
    writing: set[str] = set()
    for event in emitted:
        match event:
            case wire.AgentStartEvent():
                running += 1
            case wire.AgentEndEvent():
                running -= 1
                assert not writing
            case wire.MessageStartEvent():
                assert not writing
                writing.add(event.message.id)
            case wire.MessageUpdateEvent():
                assert writing == {event.message.id}
            case wire.MessageEndEvent():
                writing.remove(event.message.id)
            case wire.ToolStartEvent():
                assert event.tool_call_id not in calls
                calls.add(event.tool_call_id)
            case wire.ToolEndEvent():
                calls.remove(event.tool_call_id)
            case wire.ToolInputStartEvent():
                inputs.add(event.tool_call_id)
            case wire.ToolInputEndEvent():
                inputs.remove(event.tool_call_id)
            case _:
                pass
        assert running in (0, 1)


@pytest.mark.parametrize("seed", range(60))
def test_what_is_emitted_is_in_order(seed: int) -> None:
    for number in range(10):
        fold = DisplayFold()
        emitted = [one for event in thread(seed * 1000 + number) for one in fold.feed(event)]
        _check_order(emitted)
        history_messages(thread(seed * 1000 + number))


@pytest.mark.parametrize("seed", range(40))
def test_it_continues_from_any_snapshot(seed: int) -> None:
    events = thread(seed)
    whole = DisplayFold()
    live = [to_wire(emitted) for event in events for emitted in whole.feed(event)]
    for split in range(0, len(events), 7):
        first, second = DisplayFold(), DisplayFold()
        emitted = [to_wire(one) for event in events[:split] for one in first.feed(event)]
        second.restore(first.snapshot())
        emitted += [to_wire(one) for event in events[split:] for one in second.feed(event)]
        assert emitted == live
        assert to_wire(second.value) == to_wire(whole.value)
