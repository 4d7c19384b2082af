"""Every recorded run can be followed as a session: everything that begins ends, once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import recorded_runs
from harness.events import Event, Message, Result, TextDelta, TextRetracted
from harness.folds.session import events as wire
from harness.folds.session.encoding import to_wire
from harness.folds.session.events import HarnessEvent
from harness.folds.session.parts import ToolResultPart
from harness.folds.session.translation import SessionTranslation, history_messages
from harness.log import codec
from harness.log.hub import Hub
from harness.log.store import Metadata
from harness.log.stores.memory import MemoryStore
from harness.testing.golden import Case
from harness.views.display import DisplayFold

MOST_SPLITS = 6
SCOPES = {
    "message_start": "message_end",
    "agent_start": "agent_end",
    "tool_input_start": "tool_input_end",
    "subagent_start": "subagent_end",
}


def _logged(case: Case) -> list[Event]:
    events = [codec.decode(line) for line in case.expected.read_bytes().split(b"\n") if line]
    store = MemoryStore()
    hub = Hub(store, "log", store.create(Metadata(session_id="log")), clock=lambda: 1_700_000_000_000)
    hub.source("0198-top").append(events)
    hub.close()
    return [event for batch in hub.batches() for event in batch]


def _emitted(events: Sequence[Event]) -> list[HarnessEvent]:
    translation = SessionTranslation()
    return [emitted for event in events for emitted in translation.feed(event)]


@recorded_runs.each(recorded_runs.CASES)
def test_everything_that_begins_ends_once(case: Case) -> None:
    emitted = _emitted(_logged(case))

    counts = Counter(event.type for event in emitted)
    for start, end in SCOPES.items():
        assert counts[start] == counts[end], (start, counts)
    assert counts["agent_start"] == 1
    assert emitted[-1].type == "agent_end"
    started = [event.tool_call_id for event in emitted if isinstance(event, wire.ToolStartEvent)]
    ended = [event.tool_call_id for event in emitted if isinstance(event, wire.ToolEndEvent)]
    assert sorted(started) == sorted(ended)
    assert len(set(started)) == len(started)


@recorded_runs.each(recorded_runs.CASES)
def test_what_is_said_is_said_once(case: Case) -> None:
    """Texts are those of the whole messages of the log, in order, and nothing else."""
    events = _logged(case)
    result = events[-1]
    assert isinstance(result, Result)

    whole = [
        event.text
        for event in events
        if isinstance(event, Message) and event.run_id == result.run_id and event.text
    ]
    said = [
        part.text
        for message in history_messages(events)
        for part in message.content
        if isinstance(part, wire.TextPart)
    ]
    if said != whole:  # the last of it was cut off, or is only in the result
        assert said[:-1] == whole
        assert said[-1] in (result.text, _streamed(events, result.run_id))


def _streamed(events: Sequence[Event], run_id: str) -> str:
    """What was written piece by piece and is in no whole message, as far as it stands."""
    pieces: list[str] = []
    for event in events:
        if event.run_id == run_id and isinstance(event, TextDelta):
            pieces.append(event.text)
        elif event.run_id == run_id and isinstance(event, Message | TextRetracted):
            pieces.clear()
    return "".join(pieces)


@recorded_runs.each(recorded_runs.CASES)
def test_from_any_snapshot_on_it_goes_as_without_one(case: Case) -> None:
    events = _logged(case)
    whole = DisplayFold()
    live = [to_wire(emitted) for event in events for emitted in whole.feed(event)]
    step = max(1, len(events) // MOST_SPLITS)
    for split in range(0, len(events) + 1, step):
        first, second = DisplayFold(), DisplayFold()
        emitted = [to_wire(one) for event in events[:split] for one in first.feed(event)]
        second.restore(first.snapshot())
        emitted += [to_wire(one) for event in events[split:] for one in second.feed(event)]
        assert emitted == live
        assert to_wire(second.value) == to_wire(whole.value)


@recorded_runs.each(recorded_runs.CASES)
def test_the_same_state_comes_of_the_wire_as_of_the_log(case: Case) -> None:
    """Whoever gets the events as JSON, on another machine, shows the same."""
    from harness.folds.session.display import DisplayState, reduce

    here, there = DisplayFold(), DisplayState()
    for event in _logged(case):
        for emitted in here.feed(event):
            reduce(there, wire.from_wire(to_wire(emitted)))
    assert to_wire(there) == to_wire(here.value)


def test_results_belong_to_calls() -> None:
    for case in recorded_runs.CASES[::40]:
        for message in history_messages(_logged(case)):
            results = [part for part in message.content if isinstance(part, ToolResultPart)]
            assert all(part.id and part.name for part in results)
