"""Any turn is taken back exactly, with every line of the user in place, whatever both did: random turns."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from harness.undo.checkpoints import Moment, take
from harness.undo.plan import Planner, UndoPlan
from harness.undo.store import UndoStore
from harness.undo.turns import Window
from harness.undo.writing import carry_out
from random_turns import AGENT, USER, RandomFolder, Seen

_TURNS = int(os.environ.get("HARNESS_UNDO_TURNS", "24"))
"""A few hundred for a thorough look: HARNESS_UNDO_TURNS=300."""
_PLENTY = 1 << 30


class Recorded(NamedTuple):
    window: Window
    before: dict[str, Seen]
    left: dict[str, Seen]
    not_taken: list[str]


class Undone(NamedTuple):
    plan: UndoPlan
    window: Window
    not_taken: list[str]


@pytest.fixture
def in_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    work = tmp_path / "work"
    work.mkdir()
    return work


def _checkpoint(store: UndoStore, writes: frozenset[str] = frozenset()) -> tuple[int, list[str]]:
    with store.writing():
        checkpoint = take(store, Moment(writes=writes), most_bytes=_PLENTY)
    return checkpoint.seq, checkpoint.not_taken


def _take_back(store: UndoStore, windows: list[tuple[Window, frozenset[str]]]) -> Undone:
    """Newest first; what is named with a window is the user's."""
    before, not_taken = _checkpoint(store)
    with store.writing():
        planner = Planner(store)
        for window, yours in reversed(windows):
            planner.take_back(window, lambda path, *_, yours=yours: "yours" if path in yours else "")
        plan = planner.plan()
        assert carry_out(store, plan) == {}
    after, more = _checkpoint(store, plan.writes)
    return Undone(plan, Window(before, after), not_taken + more)


def _is_named(path: str, named: Mapping[str, str] | list[str]) -> bool:
    """Itself, or a folder that it is in."""
    return path in named or any(path.startswith(f"{one}/") for one in named)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_turn_is_taken_back_and_nothing_else(in_data_folder: Path, seed: int) -> None:
    folder = RandomFolder(in_data_folder, seed)
    store = UndoStore(str(folder.root))
    seen: Counter[str] = Counter()
    turns: list[Recorded] = []
    for _ in range(_TURNS):
        turns.append(_turn(folder, store))
        for _ in range(folder.random.choice((0, 0, 0, 1, 2, 4))):
            folder.act(USER)
        folder.forget_programs()
        if folder.random.random() < 0.6:
            is_last = folder.random.random() < 0.7
            _undo_and_check(folder, store, turns[-1] if is_last else folder.random.choice(turns[-8:]), seen)
    assert seen["taken back"] > seen["turns"]
    store.close()


def _turn(folder: RandomFolder, store: UndoStore) -> Recorded:
    for _ in range(folder.random.randint(0, 2)):
        folder.act(USER)
    first, not_taken = _checkpoint(store)
    before = folder.look()
    for _ in range(folder.random.randint(1, 4)):
        folder.act(AGENT)
    left = folder.look()
    last, more = _checkpoint(store)
    folder.recent = [path for path, one in left.items() if before.get(path) != one]
    return Recorded(Window(first, last), before, left, not_taken + more)


def _undo_and_check(folder: RandomFolder, store: UndoStore, turn: Recorded, seen: Counter[str]) -> None:
    now, git = folder.look(), folder.git_files()
    undone = _take_back(store, [(turn.window, frozenset())])
    after = folder.look()
    seen["turns"] += 1
    assert folder.git_files() == git
    assert not folder.marker.exists(), "a program of the repository ran"
    named = [*undone.plan.kept, *undone.not_taken, *turn.not_taken]
    for path in {*turn.before, *turn.left, *now, *after}:
        states = [one.get(path) for one in (turn.before, turn.left, now, after)]
        seen[_check_path(path, *states, is_named=_is_named(path, named))] += 1
    if folder.random.random() < 0.5:
        again = _take_back(store, [(undone.window, frozenset())])
        assert again.plan.kept == {}
        assert folder.look() == now, "a redo is exact"


def _check_path(
    path: str, before: Seen | None, left: Seen | None, now: Seen | None, after: Seen | None, *, is_named: bool
) -> str:
    if before == left:
        assert now == after, f"{path} was not of the turn"
        return "untouched"
    if now == left and after == before:
        return "taken back"
    if now == after:
        assert is_named or now == before, f"{path} was kept, and is not named"
        return "kept"
    assert before is not None
    assert left is not None
    assert now is not None
    assert after is not None, f"{path} was changed since, and is gone"
    mine = [line for line in now.lines if line not in left.lines]
    rest = iter(after.lines)
    assert all(line in rest for line in mine), f"a line of the user is missing in {path}"
    made = {line for line in left.lines if line not in before.lines and line.startswith(b"a")} - {*mine}
    assert not made & {*after.lines}, f"a line of the agent is left in {path}"
    return "merged"


@pytest.mark.parametrize("seed", [4, 5])
def test_what_the_user_did_between_two_calls_stays(in_data_folder: Path, seed: int) -> None:
    folder = RandomFolder(in_data_folder, seed)
    store = UndoStore(str(folder.root))
    for _ in range(_TURNS // 2):
        _check_turn_with_gaps(folder, store)
    store.close()


def _check_turn_with_gaps(folder: RandomFolder, store: UndoStore) -> None:
    folder.act(USER)
    last, not_taken = _checkpoint(store)
    first = folder.look()
    windows: list[tuple[Window, frozenset[str]]] = []
    agents: set[str] = set()
    users: set[str] = set()
    lines: dict[str, set[bytes]] = {}
    for _ in range(folder.random.randint(1, 4)):
        begin, more = _checkpoint(store)
        windows.append((Window(last, begin), frozenset(store.changes(last, begin))))
        was = folder.look()
        folder.act(AGENT)
        left = folder.look()
        last, more_after = _checkpoint(store)
        not_taken += more + more_after
        windows.append((Window(begin, last), frozenset()))
        agents |= {path for path in {*was, *left} if was.get(path) != left.get(path)}
        folder.recent = [path for path in left if was.get(path) != left[path]]
        for _ in range(folder.random.randint(0, 2)):
            was = folder.look()
            folder.act(USER)
            left = folder.look()
            for path in {path for path in {*was, *left} if was.get(path) != left.get(path)}:
                users.add(path)
                mine = {line for line in left[path].lines if line.startswith(b"u")} if path in left else set()
                lines.setdefault(path, set()).update(mine - {*(was[path].lines if path in was else ())})
    folder.forget_programs()
    now, git = folder.look(), folder.git_files()
    undone = _take_back(store, windows)
    after = folder.look()
    assert folder.git_files() == git
    assert not folder.marker.exists()
    named = [*undone.plan.kept, *undone.not_taken, *not_taken]
    for path in {*first, *now, *after}:
        if path not in agents:
            assert now.get(path) == after.get(path), f"{path} was not of the agent"
        elif path not in users and after.get(path) != first.get(path):
            is_inside = any(one.startswith(f"{path}/") for one in named)
            assert _is_named(path, named) or is_inside, f"{path} was not taken back"
        mine = lines.get(path, set()) & {*(now[path].lines if path in now else ())}
        assert not mine or mine <= {*after[path].lines}, f"a line of the user is missing in {path}"
    _take_back(store, [(undone.window, frozenset())])
    assert folder.look() == now, "a redo is exact"
