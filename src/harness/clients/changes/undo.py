"""Undo of a session: which turns it has, what each changed, and their undo as every interface shows it."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Literal, TypeAlias

import msgspec

from harness.clients.recorded_folder import recorded_folder
from harness.contracts.request import OWN_AGENT
from harness.errors import StoreError, UnknownSession, UsageError
from harness.events import ToolEnd, ToolStart
from harness.folds.changes.fold import ChangedTurn, ChangeHistory, EditFinder
from harness.log.store import Store, read_all
from harness.undo import undoing
from harness.undo.checkpoints import why_off
from harness.undo.plan import Step
from harness.undo.recorder import why_not_recorded
from harness.undo.store import UndoStore, folder_of
from harness.undo.turns import CallTime, RecordedTurn, Work, changed_paths, recorded_turn
from harness.undo.undoing import ALL, UndoChoice, Undoing, last_undo, undone_runs

_Act: TypeAlias = Callable[[], Undoing]
_TOGETHER_MS = 50
"""Some agents name a call only when it has ended: it then began after what came before it."""


class _Shape(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Under the names of the wire."""


class UndoneTurn(_Shape, frozen=True, kw_only=True):
    id: str
    number: int
    title: str
    started_ms: int


class UndoableTurn(UndoneTurn, frozen=True, kw_only=True):
    files: int
    """How many paths it changed, commands included."""
    state: Literal["undoable", "undone", "unchanged", "not recorded"]
    why: str = ""


class UndoFile(_Shape, frozen=True, kw_only=True):
    path: str
    act: Literal["back", "create", "remove", "mode", "merge", "keep"]
    """`create`: it was deleted, and comes back. `merge`: some lines go back, and what was changed since stays. `keep`:
    nothing is done."""
    why: str = ""
    lines: int = 0
    kind: Literal["file", "folder", "link"] = "file"
    mode: str = ""
    """Of one whose mode alone is set."""


class UndoAnswer(_Shape, frozen=True, kw_only=True):
    turns: list[UndoneTurn]
    files: list[UndoFile]
    not_covered: list[str] = []
    git: str = ""
    """What git itself has moved, which stays."""
    digest: str = ""
    """Of the plan: it is carried out only if it is still the same."""
    is_done: bool = False


class UndoCall(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """What a client asks for."""

    turn: str = ""
    """A number, the id of its run, or `3..7`; empty: the last one that changed files."""
    paths: list[str] = []
    """Only these, and what is below them, whoever changed them."""
    force: list[str] = []
    """Put back as they were, even though they were changed since."""
    expect: str | None = None
    """The `digest` of the plan as it was shown. Without it nothing is changed."""


class SessionUndo:
    """Contract: used by one thread, within `open_undo`."""

    def __init__(self, store: Store, log_id: str, undo_store: UndoStore, history: ChangeHistory) -> None:
        self._store = store
        self._log_id = log_id
        self._undo_store = undo_store
        self.history = history

    @property
    def root(self) -> str:
        return self._undo_store.root

    @property
    def problem(self) -> str:
        """What was found wrong with the store of the folder; empty: nothing."""
        return self._undo_store.problem

    def require_rest(self) -> None:
        """Raises UsageError while a turn of the session runs."""
        if self.history.is_unfinished and self._store.is_live(self._log_id):
            raise UsageError("a turn of this session runs", hint="stop it first, or wait for its end")

    def turns(self) -> list[UndoableTurn]:
        """All turns of the session, in order."""
        undone = undone_runs(self._undo_store)
        return [self._described(turn, undone) for turn in self.history.turns.values()]

    def choose(self, text: str = "") -> list[RecordedTurn]:
        """By number, id of its run, or `3..7`; empty: the last one that changed files and was not undone.

        Raises UsageError, also for one that was not recorded.
        """
        if not text:
            return [self._last()]
        first, dots, last = text.partition("..")
        turns = [*self.history.turns.values()]
        chosen_turns = turns[self._place(first, turns) : self._place(last, turns) + 1] if dots else []
        chosen_turns = chosen_turns if dots else [turns[self._place(text, turns)]]
        changing = [turn for turn in chosen_turns if not self._is_without_files(turn)]
        records = [self._recorded(turn) for turn in changing]
        if chosen_turns and not records:
            raise NothingToUndo(f"turn {chosen_turns[-1].number} called nothing that changes files")
        if not records:
            raise UsageError(
                f"there is no turn from {first} to {last}", hint="the first number is the smaller"
            )
        return records

    def undo(
        self, turns: Sequence[RecordedTurn], choice: UndoChoice = ALL, *, expect: str | None = None
    ) -> UndoAnswer:
        """Without `expect` only what it would do. Raises UsageError, and StalePlan."""
        self.require_rest()
        outcome = self._guarded(
            lambda: undoing.undo(self._undo_store, turns, self._work_of, choice, expect=expect)
        )
        ids = {turn.run_id for turn in turns}
        return _answer(outcome, [turn for turn in self.history.turns.values() if turn.id in ids])

    def redo(self, *, expect: str | None = None) -> UndoAnswer:
        """Bring back what the last undo of the session took. Raises as `undo` does."""
        self.require_rest()
        undone = last_undo(self._undo_store, self._log_id)
        if undone is None:
            raise NothingToUndo("there is no undo of this session to take back")
        outcome = self._guarded(lambda: undoing.redo(self._undo_store, undone, expect=expect))
        return _answer(outcome, [turn for turn in self.history.turns.values() if turn.id in undone.runs])

    def versions(self, turn: RecordedTurn, path: str) -> tuple[bytes | None, bytes | None, bytes | None]:
        """A file before the turn, as the turn left it, and now; None: there is none, or it was not taken."""
        store = self._undo_store
        states = [store.state(path, turn.windows[0].before), store.state(path, turn.windows[-1].after)]
        with store.writing():
            state = store.known.get(path)
        states += [state.state] if state is not None else []
        before, content_left, *now = [
            store.content(state.digest) if state.kind == "f" else None for state in states
        ]
        return before, content_left, now[0] if now else None

    def _last(self) -> RecordedTurn:
        undone = undone_runs(self._undo_store)
        why = ""
        for turn in reversed(self.history.turns.values()):
            record = recorded_turn(self._undo_store, turn.id)
            if record is None or turn.id in undone:
                continue
            why = why or record.why_missing
            if changed_paths(self._undo_store, record):
                return record
        hint = why or why_off(self._undo_store) or why_not_recorded(self._undo_store.root)
        raise NothingToUndo("no turn of this session has changed a file that can be taken back", hint=hint)

    def _place(self, text: str, turns: Sequence[ChangedTurn]) -> int:
        for place, turn in enumerate(turns):
            if text in (str(turn.number), turn.id):
                return place
        count = {1: "there is one"}.get(len(turns), f"there are {len(turns)}")
        raise UsageError(f"turn {text[:60]}: {count}", hint="harness undo --list")

    def _recorded(self, turn: ChangedTurn) -> RecordedTurn:
        record = recorded_turn(self._undo_store, turn.id)
        if record is None or not record.windows:
            why = record.why_missing if record is not None else why_not_recorded(self._undo_store.root)
            raise NothingToUndo(
                f"turn {turn.number} was not recorded{f': {why}' if why else ''}",
                hint="what its edits changed can be reverted in `harness serve`, under Changes",
            )
        return record

    def _is_without_files(self, turn: ChangedTurn) -> bool:
        """Whether no checkpoint was needed: our own agent takes the first one ahead of a call that may change files."""
        is_own = turn.agent == OWN_AGENT and turn.only_looked
        return is_own and recorded_turn(self._undo_store, turn.id) is None

    def _described(self, turn: ChangedTurn, undone: set[str]) -> UndoableTurn:
        record = recorded_turn(self._undo_store, turn.id)
        files = len(changed_paths(self._undo_store, record)) if record is not None else 0
        state: Literal["undoable", "undone", "unchanged", "not recorded"] = "undoable"
        if self._is_without_files(turn):
            state = "unchanged"
        elif record is None or not record.windows:
            state = "not recorded"
        elif turn.id in undone:
            state = "undone"
        elif not files:
            state = "unchanged"
        return UndoableTurn(
            id=turn.id,
            number=turn.number,
            title=turn.title,
            started_ms=turn.started_ms,
            files=files,
            state=state,
            why=record.why_missing if record is not None else "",
        )

    def _work_of(self, log_id: str, run_id: str) -> Work:
        """What the log says of a run: when its calls ran, and which files its edits name."""
        finder = EditFinder()
        calls: list[CallTime] = []
        spans: dict[str, tuple[int, int]] = {}
        paths: set[str] = set()
        last_ms = 0
        try:
            for event in read_all(self._store, log_id):
                edits = finder.feed(event)
                if (finder.tree.run.top or finder.tree.run.id) != run_id:
                    continue
                paths.update(os.path.join(self._undo_store.root, edit.path) for edit in edits)
                paths.update(edit.moved_to for edit in edits if edit.moved_to)
                if isinstance(event, ToolStart):
                    spans[event.call_id] = event.timestamp_ms, last_ms
                elif isinstance(event, ToolEnd) and event.call_id in spans:
                    start_ms, before_ms = spans.pop(event.call_id)
                    is_together = event.timestamp_ms - start_ms < _TOGETHER_MS
                    calls.append(CallTime(before_ms if is_together else start_ms, event.timestamp_ms))
                last_ms = event.timestamp_ms
        except (StoreError, UnknownSession):
            return Work()
        calls += [CallTime(start_ms, last_ms) for start_ms, _ in spans.values()]
        return Work(calls, frozenset(paths))

    @staticmethod
    def _guarded(act: _Act) -> Undoing:
        try:
            return act()
        except (OSError, sqlite3.Error) as error:
            raise UsageError(f"nothing was changed: {getattr(error, 'strerror', None) or error}") from error


class NothingToUndo(UsageError):
    """No turn to take back, or no undo to bring back."""

    exit_code = 3


@contextmanager
def open_undo(store: Store, log_id: str, history: ChangeHistory | None = None) -> Iterator[SessionUndo]:
    """Raises UnknownSession, StoreError, NothingToUndo, UsageError."""
    if history is None:
        history = ChangeHistory()
        for event in read_all(store, log_id):
            history.feed(event)
    place = history.cwd or store.metadata(log_id).cwd
    root = recorded_folder(place) if place and not history.runner else ""
    if not root:
        raise NothingToUndo(f"the folder of this session is not on this machine: {place or 'unknown'}")
    if not os.path.isdir(folder_of(root)):
        why = why_not_recorded(root)
        raise NothingToUndo(f"no turn in {root} was recorded{f': {why}' if why else ''}")
    try:
        undo_store = UndoStore(root)
    except OSError as error:
        raise UsageError(f"the undo store of {root} cannot be opened: {error.strerror}") from error
    try:
        yield SessionUndo(store, log_id, undo_store, history)
    finally:
        undo_store.close()


def undo_of(store: Store, log_id: str, call: UndoCall, *, is_redo: bool = False) -> UndoAnswer:
    """What a client asks for, in one call. Raises as `open_undo` and `SessionUndo.undo` do."""
    with open_undo(store, log_id) as undo:
        if is_redo:
            return undo.redo(expect=call.expect)
        return undo.undo(undo.choose(call.turn), UndoChoice(call.paths, call.force), expect=call.expect)


def _answer(outcome: Undoing, turns: Sequence[ChangedTurn]) -> UndoAnswer:
    files = [_file(step, outcome.failed.get(step.path, "")) for step in outcome.plan.steps]
    files += [UndoFile(path=path, act="keep", why=why) for path, why in sorted(outcome.plan.kept.items())]
    return UndoAnswer(
        turns=[
            UndoneTurn(id=turn.id, number=turn.number, title=turn.title, started_ms=turn.started_ms)
            for turn in turns
        ],
        files=files,
        not_covered=outcome.not_covered,
        git=_git_words(outcome),
        digest=outcome.plan.digest,
        is_done=outcome.is_done,
    )


def _file(step: Step, failure: str) -> UndoFile:
    kinds: dict[str, Literal["file", "folder", "link"]] = {"d": "folder", "l": "link"}
    act = "create" if step.act == "back" and not step.now.kind else step.act
    return UndoFile(
        path=step.path,
        act="keep" if failure else act,
        why=failure,
        lines=step.lines,
        kind=kinds.get(step.target.kind or step.now.kind, "file"),
        mode=f"{step.now.mode:o} → {step.target.mode:o}" if step.act == "mode" else "",
    )


def _git_words(outcome: Undoing) -> str:
    words = [
        f"the .git of {'the folder itself' if path == '.' else path} is gone, and stays so"
        for path in outcome.lost_git[:5]
    ]
    if len(outcome.lost_git) > 5:
        words.append(f"so are {len(outcome.lost_git) - 5} others")
    if outcome.git is None:
        return "; ".join(words)
    before, now = outcome.git
    if before.head != now.head:
        words.append(
            f"HEAD moved {before.head[:7] or 'from nothing'} → {now.head[:7] or 'nothing'}; commits stay"
        )
    if before.branch != now.branch:
        words.append(f"branch {before.branch or 'none'} → {now.branch or 'none'}; it stays")
    if before.programs != now.programs:
        words.append("its configuration or hooks have changed; they stay")
    return "; ".join(words)
