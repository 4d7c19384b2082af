"""Take back turns of a workspace, and bring them again. An undo is a turn of the user: it is recorded like any other."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from harness.errors import UsageError
from harness.undo.checkpoints import Moment, take
from harness.undo.git_place import GitPlace, git_place
from harness.undo.plan import Keeper, Planner, UndoPlan
from harness.undo.store import Checkpoint, Undo, UndoStore
from harness.undo.turns import Authorship, RecordedTurn, Window, Work
from harness.undo.upkeep import make_room
from harness.undo.writing import carry_out, clean_up


class StalePlan(UsageError):
    """The files are not as they were when the plan was shown."""

    exit_code = 5


class UndoChoice(NamedTuple):
    paths: Collection[str] = ()
    """Only these, and what is below them, whoever changed them; empty: all of the agent's."""
    forced: Collection[str] = ()
    """Put back as they were, even though they were changed since."""


ALL = UndoChoice()


class Undoing(NamedTuple):
    """An undo that is planned, or done."""

    plan: UndoPlan
    failed: dict[str, str]
    """What was planned and could not be done: path → why."""
    not_covered: list[str]
    """What is not in the checkpoints, and so may have been changed without being taken back."""
    git: tuple[GitPlace, GitPlace] | None
    """Where git stood before the turns and stands now, if that differs."""
    is_done: bool
    lost_git: tuple[str, ...] = ()
    """Folders whose `.git` is gone since the turns began, and does not come back; `.`: the workspace itself."""


def undo(
    store: UndoStore,
    turns: Sequence[RecordedTurn],
    work_of: Callable[[str, str], Work],
    choice: UndoChoice = ALL,
    *,
    expect: str | None = None,
) -> Undoing:
    """Take back turns, in any order. Without `expect`, the digest of the plan as it was shown, it is only planned.

    Raises StalePlan, UsageError, OSError and sqlite3.Error.
    """
    turns = sorted(turns, key=lambda turn: turn.windows[0].before, reverse=True)
    log_id = turns[0].log_id

    def plan(planner: Planner, now: Checkpoint) -> None:
        for turn in turns:
            keeper = Authorship(store, turn, work_of, now_ms=now.at_ms).why_kept
            for window in reversed(turn.windows):
                planner.take_back(window, keeper, choice.paths, choice.forced)

    before = store.checkpoint(turns[-1].windows[0].before)
    is_old = before is not None and before.git is not None
    names = [name for turn in turns for name in turn.not_taken]

    def note(before: int, after: int) -> None:
        store.add_undo(log_id, [turn.run_id for turn in turns], before, after, time.time_ns() // 1_000_000)

    undoing = _carry_out(store, log_id, plan, note, expect)
    was, now = before.git if before is not None and is_old else None, git_place(store.root)
    return undoing._replace(
        not_covered=sorted(set(names)), git=_moved(was, now), lost_git=_lost(was, now, store.root)
    )


def last_undo(store: UndoStore, log_id: str) -> Undo | None:
    """The one that `redo` brings back."""
    return next(
        (undo for undo in reversed(store.undos()) if undo.log_id == log_id and not undo.is_redone), None
    )


def redo(store: UndoStore, undone: Undo, *, expect: str | None = None) -> Undoing:
    """Bring back what an undo took. Raises as `undo` does."""
    window = Window(undone.before, undone.after)

    def plan(planner: Planner, now: Checkpoint) -> None:
        del now
        planner.take_back(window, _keep_nothing)

    return _carry_out(
        store, undone.log_id, plan, lambda _before, _after: store.mark_redone(undone.id), expect
    )


def undone_runs(store: UndoStore) -> set[str]:
    return {run for undo in store.undos() if not undo.is_redone for run in undo.runs}


def _carry_out(
    store: UndoStore,
    log_id: str,
    make_plan: Callable[[Planner, Checkpoint], None],
    note: Callable[[int, int], None],
    expect: str | None,
) -> Undoing:
    """`note`: records that it was done, with the checkpoints around it, before another one may write."""
    most_bytes = make_room(store)
    with store.writing():
        clean_up(store)
        now = take(store, Moment(log_id, "", "undo"), most_bytes=most_bytes)
        planner = Planner(store)
        make_plan(planner, now)
        plan = planner.plan()
        undoing = Undoing(plan, {}, [], None, is_done=False)
        if expect is None:
            return undoing
        if expect != plan.digest:
            raise StalePlan(
                "the files have changed since this was shown; nothing was done", hint="look again"
            )
        failed = carry_out(store, plan)
        moment = Moment(log_id, "", "undone", writes=plan.writes)
        after = take(store, moment, most_bytes=most_bytes)
        note(now.seq, after.seq)
        return undoing._replace(failed=failed, is_done=True)


def _moved(before: GitPlace | None, now: GitPlace | None) -> tuple[GitPlace, GitPlace] | None:
    if before is None or now is None:
        return None
    before = replace(before, nested=())
    return (before, now) if before != now and before != GitPlace() else None


def _lost(before: GitPlace | None, now: GitPlace | None, root: str) -> tuple[str, ...]:
    if before is None:
        return ()
    own = ["."] if now is None and before.programs else []
    return (*own, *before.lost(root))


_keep_nothing: Keeper = lambda _path, _window, _was, _after: ""  # noqa: E731 - one expression, with its type
