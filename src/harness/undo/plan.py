"""What an undo would do, path by path. B: before the turn, A: as the turn left it, N: now.

    N = B                        nothing to do
    N = A                        B
    text, all three differ       three-way by lines: B's lines where only the turn changed them, yours stay;
                                 where both changed the same lines the whole file is kept
    mode                         for itself: B's if N has A's
    everything else              kept, and named with the reason

The windows of a turn are taken back newest first, each on what the ones after it have left, without writing anything:
a plan is shown first, and carried out only if it is still the same then.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from hashlib import blake2b
from typing import Literal, NamedTuple, TypeAlias

from harness.folds.changes.lines import lines_of, regions
from harness.folds.changes.texts import merged
from harness.undo.checkpoints import BUSY, LATE
from harness.undo.states import ABSENT, PathState, digest_of, folders_above
from harness.undo.store import UndoStore
from harness.undo.turns import Window

NOT_TAKEN = "not known as it was: too large, or in a folder that is not taken"
_UNKNOWN = {
    LATE: "not known as it was: the agent changed it before it was looked at",
    BUSY: "not known as it was: it was being written all the time",
}
_LARGEST_MERGED = 4 << 20
_BINARY_SEEN = 8_000

Keeper: TypeAlias = Callable[[str, Window, PathState, PathState], str]
"""(path, window, was, left) → why a change is kept; empty: it is taken back."""


class Step(NamedTuple):
    """What happens to one path."""

    path: str
    act: Literal["back", "remove", "mode", "merge"]
    now: PathState
    target: PathState
    lines: int = 0
    """How many lines go back."""


class UndoPlan(NamedTuple):
    steps: list[Step]
    kept: dict[str, str]
    """Path → why."""
    contents: dict[bytes, bytes]
    """Of files that were merged: they are in no checkpoint yet."""

    @property
    def digest(self) -> str:
        """The same only for a plan that does the same to the same files."""
        text = repr([(step.path, step.now, step.target) for step in self.steps])
        return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()

    @property
    def writes(self) -> frozenset[str]:
        """What is there when it was carried out."""
        return frozenset(step.path for step in self.steps if step.act != "remove")


class Planner:
    """Contract: `store.known` is how the workspace is now."""

    def __init__(self, store: UndoStore) -> None:
        self._store = store
        self._contents: dict[bytes, bytes] = {}
        self._changed: dict[str, PathState] = {}
        """What the plan has changed until now."""
        self._below_folders: dict[str, set[str]] = {}
        self.kept: dict[str, str] = {}

    def take_back(
        self, window: Window, keeper: Keeper, paths: Collection[str] = (), forced: Collection[str] = ()
    ) -> None:
        """`paths`: only these, whoever changed them. `forced`: as they were, even if they were changed since."""
        targets: dict[str, PathState] = {}
        for path, (was, after) in self._store.changes(*window).items():
            now = self._now(path)
            if now == was or (paths and not _is_chosen(path, paths)):
                continue
            why = "" if paths or path in forced else keeper(path, window, was, after)
            unknown = next((state for state in (was, after, now) if state.kind == "x"), None)
            if not why and (unknown is not None or self._is_below_untaken(path, window)):
                why = _UNKNOWN.get(unknown.digest, NOT_TAKEN) if unknown is not None else NOT_TAKEN
            result = why or self._result(was, after, now, is_forced=path in forced)
            if isinstance(result, str):
                self.kept[path] = result
            elif result == now:
                self.kept[path] = "changed since, and nothing of the turn is left in it"
            else:
                targets[path] = result
        self._drop_blocked(targets)
        self._changed |= targets

    def plan(self) -> UndoPlan:
        """All that was taken back, as it has to be done."""
        targets = {path: state for path, state in self._changed.items() if state != self._first(path)}
        self._changed = {}
        self._drop_blocked(targets)
        untouched = {path: why for path, why in self.kept.items() if path not in targets}
        steps = [self._step(path, targets[path]) for path in sorted(targets)]
        return UndoPlan(steps, untouched, self._contents)

    def _first(self, path: str) -> PathState:
        entry = self._store.known.get(path)
        return entry.state if entry is not None else ABSENT

    def _now(self, path: str) -> PathState:
        state = self._changed.get(path)
        return self._first(path) if state is None else state

    def _content(self, digest: bytes) -> bytes:
        own = self._contents.get(digest)
        return self._store.content(digest) if own is None else own

    def _is_below_untaken(self, path: str, window: Window) -> bool:
        """That a path is not known there does not mean that it was not there."""
        for folder in folders_above(path):
            if self._first(folder).kind == "x":
                return True
            if any(self._store.state(folder, seq).kind == "x" for seq in window):
                return True
        return False

    def _result(
        self, was: PathState, after: PathState, now: PathState, *, is_forced: bool
    ) -> PathState | str:
        """How a path is to be, or why it is kept."""
        if now == after or is_forced:
            return was
        if now == ABSENT:
            return "you removed it since"
        if after == ABSENT:
            return "you made it anew since"
        if not (was.kind == after.kind == now.kind and now.kind in ("d", "f")):
            return "it was changed since"
        mode = was.mode if now.mode == after.mode else now.mode
        if now.kind == "d" or was.digest in (after.digest, now.digest):
            return now._replace(mode=mode)
        if now.digest == after.digest:
            return was._replace(mode=mode)
        data = self._merged(after, now, was)
        if data is None:
            return "the same lines were changed since"
        state = PathState("f", mode, digest_of(data))
        self._contents[state.digest] = data
        return state

    def _merged(self, after: PathState, now: PathState, was: PathState) -> bytes | None:
        """N with what led from A to B; None where both changed the same lines."""
        texts = [self._content(state.digest) for state in (after, now, was)]
        if any(b"\0" in data[:_BINARY_SEEN] or len(data) > _LARGEST_MERGED for data in texts):
            return None
        # Any bytes are lines this way, and come out as they were.
        result = merged(*(data.decode("latin-1") for data in texts))
        return None if result is None else result.encode("latin-1")

    def _drop_blocked(self, targets: dict[str, PathState]) -> None:
        """Keep what cannot be put back without touching something else."""
        is_done = False
        while not is_done:
            is_done = True
            for path, state in [*targets.items()]:
                why = self._why_blocked(path, state, targets)
                if why:
                    del targets[path]
                    self.kept[path] = why
                    is_done = False

    def _why_blocked(self, path: str, state: PathState, targets: dict[str, PathState]) -> str:
        if self._now(path).kind == "d" != state.kind:
            inside = (place for place in self._below(path) if targets.get(place, self._now(place)) != ABSENT)
            if next(inside, None) is not None:
                return "there are other files in the folder now"
        if state == ABSENT:
            return ""
        for folder in folders_above(path):
            if targets.get(folder, self._now(folder)).kind != "d":
                return f"{folder} is no folder now"
        return ""

    def _below(self, path: str) -> set[str]:
        if not self._below_folders:
            for place in self._store.known:
                for folder in folders_above(place):
                    self._below_folders.setdefault(folder, set()).add(place)
        prefix = f"{path}/"
        more = {place for place in self._changed if place.startswith(prefix)}
        return self._below_folders.get(path, set()) | more

    def _step(self, path: str, target: PathState) -> Step:
        now = self._first(path)
        if target == ABSENT:
            return Step(path, "remove", now, target)
        if (now.kind, now.digest) == (target.kind, target.digest):
            return Step(path, "mode", now, target)
        if now.kind != "f" or target.kind != "f":
            return Step(path, "back", now, target)
        is_merged = target.digest in self._contents
        return Step(path, "merge" if is_merged else "back", now, target, self._lines(now, target))

    def _lines(self, now: PathState, target: PathState) -> int:
        old, new = (self._content(state.digest) for state in (now, target))
        if b"\0" in (old + new)[:_BINARY_SEEN] or len(old) + len(new) > _LARGEST_MERGED:
            return 0
        changed = regions(lines_of(old.decode("latin-1")), lines_of(new.decode("latin-1")))
        return sum(
            max(change.old_end - change.old_start, change.new_end - change.new_start) for change in changed
        )


def _is_chosen(path: str, paths: Collection[str]) -> bool:
    return path in paths or any(folder in paths for folder in folders_above(path))
