"""Small logs for the checks of a store, and helpers to write and read them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from harness.events import Event, Message, Result, SessionStart, StepEnd, StepStart, TextDelta
from harness.log.store import Fork, Metadata, Query, Store, read_all


def write(store: Store, log_id: str, seqs: Sequence[int], fork: Fork | None = None) -> None:
    writer = store.create(Metadata(session_id=log_id, fork=fork))
    writer.append(numbered(log_id, seqs))
    writer.close()


def numbered(name: str, seqs: Sequence[int]) -> list[Event]:
    return [TextDelta(seq=seq, timestamp_ms=1, run_id="r", text=f"{name} {seq}") for seq in seqs]


def conversation(seq: int, turns: int) -> list[Event]:
    """Runs with one question and one answer; seven events each."""
    events: list[Event] = []
    for turn in range(turns):
        run = f"run-{seq}-{turn}"
        events += [
            SessionStart(run_id=run, agent="native"),
            Message(run_id=run, role="user", text=f"question {turn}"),
            StepStart(run_id=run, id="s"),
            TextDelta(run_id=run, id="m", text="ans"),
            Message(run_id=run, id="m", role="assistant", text=f"answer {turn}"),
            StepEnd(run_id=run, id="s"),
            Result(run_id=run, success=True),
        ]
    return in_sequence(events, seq)


def in_sequence(events: Sequence[Event], first: int = 0) -> list[Event]:
    return [replace(event, seq=seq, timestamp_ms=seq) for seq, event in enumerate(events, first)]


def texts(store: Store, log_id: str, cursor: int = 0) -> list[str]:
    return [event.text for event in read_all(store, log_id, cursor) if isinstance(event, TextDelta)]


def found(store: Store, query: Query) -> list[str]:
    return [metadata.session_id for metadata in store.find(query)]


def expect(error: type[Exception], act: Callable[[], object]) -> None:
    try:
        act()
    except error:
        return
    raise AssertionError(f"{error.__name__} was expected")
