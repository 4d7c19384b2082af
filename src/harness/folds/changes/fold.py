"""The fold of a log into the files that it changed.

`EditFinder` gives the edits of each call as it ends. `ChangedFiles` counts them, for a list of conversations: it has
no text but what it needs to count lines once that are changed twice. `ChangeHistory` has all edits, by file and turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from harness.events import Event, Message, Relay, RelayReply, ToolEnd, ToolStart
from harness.events.operation import only_looks
from harness.folds.changes.edits import Edit, Passage, edits_of
from harness.folds.changes.lines import counts
from harness.folds.changes.texts import ABSENT, Text, applied, undone
from harness.log.run_tree import RunNode, RunTree

_MOST_COUNTED_CHARACTERS = 400_000
"""Of a file, in `ChangedFiles`: of a larger one each edit is counted for itself."""
_LONGEST_TITLE = 200


class EditFinder:
    """Contract: pure; never raises on what an agent wrote. `tree` may be shared with other folds."""

    def __init__(self, tree: RunTree | None = None) -> None:
        self.tree = RunTree() if tree is None else tree
        self._previews: dict[str, Any] = {}

    def feed(self, event: Event) -> Sequence[Edit]:
        self.tree.feed(event)
        if isinstance(event, Relay) and event.call_id and event.preview:
            self._previews[event.call_id] = event.preview
        if not isinstance(event, ToolEnd):
            return ()
        start: ToolStart | None = self.tree.call
        preview = self._previews.pop(event.call_id, None) if self._previews else None
        if start is None or not (start.operations or event.operations):
            return ()
        turn = self.tree.run.top or self.tree.run.id
        return [
            replace(edit, call_id=event.call_id, turn=turn, timestamp_ms=event.timestamp_ms)
            for edit in edits_of(start, event, preview)
        ]


class FileTotals(msgspec.Struct, omit_defaults=True):
    """How much of one file was changed. Plain data."""

    added: int = 0
    removed: int = 0
    text: str | None = None
    """As it is after the last edit, if that is known and not too long."""
    base: str | None = None
    """As it was before the first edit; empty for a new file."""
    is_new: bool = False
    is_gone: bool = False
    parts: list[tuple[str, str]] = []
    """What was replaced, and what is there now, where the whole text is not known."""
    fixed: tuple[int, int] = (0, 0)
    """Counted before, and not to be counted again."""


class ChangedFiles:
    """Contract: costs little for each event. `files` is a number, as `added` and `removed` are. The `state` is plain
    data: `ChangedFiles(state, tree)` continues from it.
    """

    def __init__(self, state: dict[str, FileTotals] | None = None, tree: RunTree | None = None) -> None:
        self.state: dict[str, FileTotals] = {} if state is None else state
        self._finder = EditFinder(tree)

    @property
    def files(self) -> int:
        return len(self.state)

    @property
    def added(self) -> int:
        return sum(file.added for file in self.state.values())

    @property
    def removed(self) -> int:
        return sum(file.removed for file in self.state.values())

    def feed(self, event: Event) -> bool:
        """Whether the totals may have changed."""
        edits = self._finder.feed(event)
        for edit in edits:
            self._count(edit)
        return bool(edits)

    @property
    def tree(self) -> RunTree:
        return self._finder.tree

    def _count(self, edit: Edit) -> None:
        totals = self.state.pop(edit.path, None) or FileTotals()
        totals = _counted(totals, edit)
        if not (totals.is_new and totals.is_gone):  # made and removed: nothing is left of it
            self.state[edit.moved_to or edit.path] = totals


def totals_of(edits: Iterable[Edit]) -> FileTotals:
    """How much these edits of one file changed, by the log alone."""
    totals = FileTotals()
    for edit in edits:
        totals = _counted(totals, edit)
    return totals


def _counted(totals: FileTotals, edit: Edit) -> FileTotals:
    is_first = totals == FileTotals()
    totals = _advanced(totals, edit, is_first=is_first)
    added, removed = totals.fixed
    if totals.text is not None and totals.base is not None:
        pairs = [(totals.base, totals.text)]
    else:
        pairs = list(totals.parts)
    for old, new in pairs:
        more, less = counts(old, new)
        added, removed = added + more, removed + less
    totals.added, totals.removed = added, removed
    size = sum(len(old) + len(new) for old, new in pairs)
    if size > _MOST_COUNTED_CHARACTERS:
        return FileTotals(
            added, removed, is_new=totals.is_new, is_gone=totals.is_gone, fixed=(added, removed)
        )
    return totals


def _advanced(totals: FileTotals, edit: Edit, *, is_first: bool) -> FileTotals:
    text: Text = ABSENT if totals.is_gone else totals.text
    if is_first and edit.change != "move":
        before = undone(None, edit)
        totals.is_new = before is ABSENT
        totals.base = "" if before is ABSENT else before if isinstance(before, str) else None
        text = before
    after = applied(text, edit)
    totals.is_gone = after is ABSENT
    totals.text = after if isinstance(after, str) else "" if after is ABSENT else None
    if totals.base is None and not (edit.change == "move" and not edit.passages):
        totals.parts = _joined(totals.parts, edit)
    return totals


def _joined(parts: list[tuple[str, str]], edit: Edit) -> list[tuple[str, str]]:
    """The parts of a file that changed, with those of another edit. What it changes once more is not counted twice."""
    if not edit.passages:
        return [("", edit.content)] if edit.content is not None else parts
    joined = [*parts]
    for passage in edit.passages:
        _join(joined, passage)
    return joined


def _join(parts: list[tuple[str, str]], passage: Passage) -> None:
    for number, (old, new) in enumerate(parts):
        if passage.old and new.count(passage.old) == 1:
            parts[number] = (old, new.replace(passage.old, passage.new))
            return
        if new and passage.old.count(new) == 1:
            parts[number] = (passage.old.replace(new, old), passage.new)
            return
    parts.append((passage.old, passage.new))


class ChangedFile(msgspec.Struct):
    """All edits of one file, in order. A file that was moved has the name that it has last."""

    path: str
    edits: list[Edit] = []
    original: str = ""
    """The name before it was moved."""

    @property
    def turns(self) -> list[str]:
        return list(dict.fromkeys(edit.turn for edit in self.edits))

    @property
    def has_text(self) -> bool:
        return all(edit.has_text for edit in self.edits)


class ChangedTurn(msgspec.Struct):
    """A top run of the conversation."""

    id: str
    number: int
    """The first turn of a conversation is 1."""
    started_ms: int
    last_ms: int = 0
    """When its last event came."""
    title: str = ""
    """The first line of its prompt."""
    agent: str = ""
    only_looked: bool = True
    """Whether no call that the log has, also of sub-agents, was allowed and may have changed a file."""


class ChangeHistory:
    """The edits of a log, by file. Contract: pure, and never raises on what an agent wrote."""

    def __init__(self) -> None:
        self.files: dict[str, ChangedFile] = {}
        self.turns: dict[str, ChangedTurn] = {}
        self.cwd = ""
        """The folder of the last run."""
        self.runner = ""
        """Where the last run happened; empty: on this machine."""
        self.next_seq = 0
        """The first event that was not read yet."""
        self._finder = EditFinder()
        self._refused: set[str] = set()
        """Calls that nobody carried out."""

    @property
    def is_unfinished(self) -> bool:
        """Whether its last turn has not ended."""
        return self._finder.tree.unfinished_top is not None

    def feed(self, event: Event) -> None:
        edits = self._finder.feed(event)
        self.next_seq = event.seq + 1
        run = self._finder.tree.run
        if run.number:
            self._note_turn(run, event)
        if isinstance(event, RelayReply) and event.approved is False:
            self._refused.update((event.id, *(relay.call_id for relay in self._finder.tree.relays)))
        elif isinstance(event, ToolEnd):
            self._note_call(run, event)
        for edit in edits:
            self._add(edit)

    def _note_turn(self, run: RunNode, event: Event) -> None:
        turn = self.turns.get(run.id)
        if turn is None:
            turn = self.turns[run.id] = ChangedTurn(run.id, run.number, event.timestamp_ms)
        turn.last_ms = event.timestamp_ms
        if run.start is not None and run.start.cwd:
            self.cwd, self.runner = run.start.cwd, run.start.runner
        turn.agent = turn.agent or (run.start.agent if run.start is not None else "")
        if not turn.title and isinstance(event, Message) and event.role == "user":
            line = next((line.strip() for line in event.text.split("\n") if line.strip()), "")
            turn.title = line[:_LONGEST_TITLE]

    def _note_call(self, run: RunNode, end: ToolEnd) -> None:
        turn, start = self.turns.get(run.top or run.id), self._finder.tree.call
        if end.call_id in self._refused:
            self._refused.remove(end.call_id)
        elif turn is not None and not only_looks(end.operations or (start.operations if start else ())):
            turn.only_looked = False

    def _add(self, edit: Edit) -> None:
        file = self.files.pop(edit.path, None) or ChangedFile(edit.path)
        file.edits.append(edit)
        if edit.moved_to:
            file.original = file.original or edit.path
            file.path = edit.moved_to
        self.files[file.path] = file
