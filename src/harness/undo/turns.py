"""The turns of a workspace, from its checkpoints: between which of them an agent worked, and what of that is the user's.

What changed while a call of the agent ran is the agent's; what changed between two calls is the user's. A path says when
it changed (its ctime, which cannot be set back); where it does not, its deletion counts as the agent's, since to bring a
file back loses nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from harness.undo.states import PathState
from harness.undo.store import Checkpoint, UndoStore

SLACK_NS = 200_000_000
"""A call is announced up to 83 ms before, or 24 ms after, it begins, and its end up to 25 ms after it (measured)."""


class CallTime(NamedTuple):
    """Of one call, in milliseconds since the epoch."""

    start_ms: int
    end_ms: int


class Work(NamedTuple):
    """What the log says of a run."""

    calls: Sequence[CallTime] = ()
    written: frozenset[str] = frozenset()
    """Absolute paths that its edits name."""


class Window(NamedTuple):
    """The time between two checkpoints of a run."""

    before: int
    after: int


class RecordedTurn(NamedTuple):
    run_id: str
    log_id: str
    windows: list[Window]
    """In order."""
    is_open: bool
    """Its end was not recorded, since its process was killed: the next checkpoint of the workspace stands in."""
    why_missing: str
    """Why there is no checkpoint to go back to; empty: there is."""
    not_taken: list[str]


def recorded_turn(store: UndoStore, run_id: str) -> RecordedTurn | None:
    """None: there is nothing about this run."""
    rows = store.checkpoints(run_id)
    if not rows:
        return None
    windows: list[Window] = []
    last: Checkpoint | None = None
    failed = next((row for row in rows if row.state != "taken"), None)
    for row in rows:
        if row.state != "taken":
            last = last if row.phase != "before" else None
            continue
        if row.phase != "before" and last is not None:
            windows.append(Window(last.seq, row.seq))
        last = row
    is_open = rows[-1].phase in ("before", "call") or rows[-1].state != "taken"
    if is_open and last is not None:
        following = next(
            (row for row in store.checkpoints() if row.seq > last.seq and row.state == "taken"), None
        )
        windows += [Window(last.seq, following.seq)] if following is not None else []
    not_taken = list(dict.fromkeys(name for row in rows for name in row.not_taken))
    why = "" if windows else failed.why if failed is not None else "its end was not recorded"
    return RecordedTurn(run_id, rows[0].log_id, windows, is_open, why, not_taken)


def changed_paths(store: UndoStore, turn: RecordedTurn) -> set[str]:
    """What may have changed in a turn, without looking at whose it is."""
    return {path for window in turn.windows for path in store.changes(*window)}


class Authorship:
    """Who changed what within a window of a turn."""

    def __init__(
        self, store: UndoStore, turn: RecordedTurn, work_of: Callable[[str, str], Work], *, now_ms: int
    ) -> None:
        """`work_of`: what the log of an id says of a run."""
        self._store = store
        self._work = work_of(turn.log_id, turn.run_id)
        self._is_open = turn.is_open
        first, last = turn.windows[0].before, turn.windows[-1].after
        self._others = [
            (log_id, work_of(log_id, run_id).calls or [CallTime(start, end)])
            for log_id, run_id, start, end in _runs_between(store, turn.run_id, first, last, now_ms)
        ]

    def why_kept(self, path: str, window: Window, was: PathState, after: PathState) -> str:
        """Why a change is not the agent's to be taken back; empty: it is."""
        if self._is_open:
            return "its turn was cut off, so what came after it may be yours"
        at_ns = self._store.changed_ns(path, *window)
        spans = self._store.change_spans(path, *window) if self._others and at_ns else []
        others = [log_id for log_id, calls in self._others if not at_ns or _is_among(calls, spans)]
        if others:
            return f"another session worked here at that time: {others[0]}"
        full = f"{self._store.root}/{path}"
        if not self._work.calls or full in self._work.written:
            return ""
        if not at_ns or (not after.kind and not _is_within(self._work.calls, at_ns)):
            # Of a path that is gone there is only the time of its folder, which other changes renew.
            return ""
        if _is_within(self._work.calls, at_ns):
            return ""
        if after.kind == "d" and was.kind == "d":
            return ""
        return "changed while no call was running: yours"


def _is_within(calls: Sequence[CallTime], at_ns: int) -> bool:
    return any(
        call.start_ms * 1_000_000 - SLACK_NS <= at_ns <= call.end_ms * 1_000_000 + SLACK_NS for call in calls
    )


def _is_among(calls: Sequence[CallTime], spans: Sequence[tuple[int, int]]) -> bool:
    """Whether a call ran while a path may have been changed: of several changes only the last says when it was.

    What was seen unchanged after the call had ended, it has not changed: no slack there.
    """
    return any(
        call.start_ms * 1_000_000 - SLACK_NS <= end and begin < call.end_ms * 1_000_000
        for call in calls
        for begin, end in spans
    )


def _runs_between(
    store: UndoStore, run_id: str, first: int, last: int, now_ms: int
) -> list[tuple[str, str, int, int]]:
    """Other runs that were in the workspace between two checkpoints: log, run, and from when to when."""
    spans: dict[str, list[Checkpoint]] = {}
    for row in store.checkpoints():
        if row.run_id and row.run_id != run_id:
            spans.setdefault(row.run_id, []).append(row)
    return [
        (rows[0].log_id, name, rows[0].at_ms, rows[-1].at_ms if rows[-1].phase == "after" else now_ms)
        for name, rows in spans.items()
        if rows[0].seq < last and (rows[-1].seq > first or rows[-1].phase != "after")
    ]
