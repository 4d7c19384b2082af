"""What must not go wrong: large and busy files, links, folders that cannot be read, strangers' repositories, a kill."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path
from random import Random

import pytest

from harness.undo import checkpoints, turns
from harness.undo.checkpoints import Moment, TooDear, note_missing, take, why_off
from harness.undo.plan import Planner, UndoPlan
from harness.undo.recorder import why_not_recorded
from harness.undo.store import Checkpoint, UndoStore, folder_of
from harness.undo.turns import Authorship, CallTime, Window, Work, recorded_turn
from harness.undo.undoing import StalePlan, UndoChoice, last_undo, redo, undo
from harness.undo.upkeep import make_room, sweep
from harness.undo.writing import carry_out

_PLENTY = 1 << 30
_INTERLEAVED = int(os.environ.get("HARNESS_UNDO_INTERLEAVED", "6"))
"""For a thorough look: HARNESS_UNDO_INTERLEAVED=100."""


def _nothing_known(_log_id: str, _run_id: str) -> Work:
    return Work()


def checkpoint(root: Path, moment: Moment = Moment(), most_bytes: int = _PLENTY) -> Checkpoint:  # noqa: B008
    store = UndoStore(str(root))
    try:
        with store.writing():
            return take(store, moment, most_bytes=most_bytes)
    finally:
        store.close()


def plan_of(store: UndoStore, before: int, after: int) -> UndoPlan:
    with store.writing():
        take(store, Moment(), most_bytes=_PLENTY)
        planner = Planner(store)
        planner.take_back(Window(before, after), lambda *_: "")
        return planner.plan()


def test_what_is_too_large_or_no_file_is_named_and_never_decided_on(workspace: Path) -> None:
    with (workspace / "huge.bin").open("wb") as file:
        file.truncate(3 << 30)
    os.mkfifo(workspace / "pipe")
    (workspace / ".gitignore").write_text("many/\n")
    (workspace / "many").mkdir()
    for number in range(300):
        (workspace / f"many/{number}").write_text("x")
    before = checkpoint(workspace)
    assert {*before.not_taken} == {"huge.bin", "pipe", "many"}
    (workspace / "huge.bin").unlink()
    (workspace / "many/1").write_text("changed")
    after = checkpoint(workspace)
    store = UndoStore(str(workspace))
    plan = plan_of(store, before.seq, after.seq)
    assert plan.steps == []
    assert [*plan.kept] == ["huge.bin"]


def test_a_file_that_is_written_without_pause_is_named(workspace: Path) -> None:
    is_done = threading.Event()

    def write() -> None:
        with (workspace / "busy").open("ab", buffering=0) as file:
            while not is_done.is_set():
                file.write(b"x" * 100)
                file.truncate(50)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(20):
            seen = checkpoint(workspace)
            store = UndoStore(str(workspace))
            state = store.state("busy", seen.seq)
            # Whole as it was at one moment, or named; never a mixture without a name.
            assert state.kind == "f" or (
                state.kind in ("x", "") and (not state.kind or "busy" in seen.not_taken)
            )
            store.close()
    finally:
        is_done.set()
        writer.join()


def test_a_link_in_the_place_of_a_folder_leads_nowhere(workspace: Path, tmp_path: Path) -> None:
    (workspace / "src").mkdir()
    (workspace / "src/f").write_text("before\n")
    before = checkpoint(workspace)
    (workspace / "src/f").write_text("agent\n")
    after = checkpoint(workspace)
    store = UndoStore(str(workspace))
    plan = plan_of(store, before.seq, after.seq)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "f").write_text("agent\n")
    (workspace / "src").rename(workspace / "old")
    (workspace / "src").symlink_to(outside)
    assert [*carry_out(store, plan)] == ["src/f"]
    assert (outside / "f").read_text() == "agent\n"
    assert [*outside.iterdir()] == [outside / "f"]


def test_what_changes_after_it_was_shown_is_left_alone(workspace: Path) -> None:
    (workspace / "f").write_text("before\n")
    before = checkpoint(workspace, Moment("log", "run", "before"))
    (workspace / "f").write_text("agent\n")
    after = checkpoint(workspace, Moment("log", "run", "after"))
    store = UndoStore(str(workspace))
    plan = plan_of(store, before.seq, after.seq)
    (workspace / "f").write_text("mine, just now\n")
    assert carry_out(store, plan) == {"f": "changed just now"}
    assert (workspace / "f").read_text() == "mine, just now\n"
    turn = recorded_turn(store, "run")
    assert turn is not None
    with pytest.raises(StalePlan):
        undo(store, [turn], _nothing_known, expect=plan.digest)
    assert (workspace / "f").read_text() == "mine, just now\n"


def test_an_agent_hides_nothing_by_making_it_ignored(workspace: Path) -> None:
    (workspace / "src").mkdir()
    (workspace / "src/f").write_text("before\n")
    (workspace / "src/large").write_bytes(b"x" * (2 << 20))
    before = checkpoint(workspace)
    (workspace / ".gitignore").write_text("src/\n")
    (workspace / "src/f").write_text("hidden\n")
    (workspace / "src/large").write_bytes(b"y" * (2 << 20))
    after = checkpoint(workspace)
    store = UndoStore(str(workspace))
    plan = plan_of(store, before.seq, after.seq)
    assert plan.kept == {}
    assert carry_out(store, plan) == {}
    assert (workspace / "src/f").read_text() == "before\n"
    assert (workspace / "src/large").read_bytes()[:1] == b"x"


def test_a_redo_is_exact_where_what_came_back_is_ignored_by_now(workspace: Path) -> None:
    modules, large = workspace / "node_modules/m", workspace / "data.tar"
    modules.mkdir(parents=True)
    for number in range(300):
        (modules / f"{number}.js").write_text(f"{number}\n")
    large.write_bytes(b"x" * (2 << 20))
    checkpoint(workspace, Moment("log", "run", "before"))
    shutil.rmtree(workspace / "node_modules")
    large.unlink()
    (workspace / ".gitignore").write_text("node_modules/\n*.tar\n")
    checkpoint(workspace, Moment("log", "run", "after"))
    (workspace / ".gitignore").write_text("mine/\nnode_modules/\n*.tar\n")
    store = UndoStore(str(workspace))
    turn = recorded_turn(store, "run")
    assert turn is not None
    undo(store, [turn], _nothing_known, expect=undo(store, [turn], _nothing_known).plan.digest)
    assert len([*modules.iterdir()]) == 300
    undone = last_undo(store, "log")
    assert undone is not None
    plan = redo(store, undone).plan
    assert plan.kept == {}
    redo(store, undone, expect=plan.digest)
    assert [*workspace.iterdir()] == [workspace / ".gitignore"]


def test_a_workspace_that_is_gone_is_not_one_in_which_all_was_deleted(workspace: Path) -> None:
    (workspace / "f").write_text("x")
    checkpoint(workspace)
    workspace.rename(workspace.with_name("elsewhere"))
    with pytest.raises(OSError, match="No such file"):
        checkpoint(workspace)
    workspace.with_name("elsewhere").rename(workspace)
    store = UndoStore(str(workspace))
    assert store.state("f", store.last_seq).kind == "f"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every folder: run the tests as an ordinary user")
@pytest.mark.parametrize("age_s", [0, 3600], ids=["just made", "long made"])
@pytest.mark.parametrize("mode", [0, 0o400], ids=["shut", "only listed"])
def test_a_folder_that_cannot_be_looked_into_counts_as_unchanged(
    workspace: Path, age_s: int, mode: int
) -> None:
    """Also where the names in it are remembered, since it has not changed for long."""
    (workspace / "shut").mkdir()
    (workspace / "shut/f").write_text("x")
    changed_s = time.time() - age_s
    os.utime(workspace / "shut", (changed_s, changed_s))
    before = checkpoint(workspace)
    (workspace / "shut").chmod(mode)
    try:
        after = checkpoint(workspace)
        assert after.not_taken == ["shut"]
        store = UndoStore(str(workspace))
        assert "shut/f" not in store.changes(before.seq, after.seq)
    finally:
        (workspace / "shut").chmod(0o755)


def test_nothing_of_a_repository_runs_and_git_itself_is_only_named(workspace: Path, tmp_path: Path) -> None:
    if shutil.which("git") is None:
        pytest.skip("git is missing: apt-get install git")
    ran = tmp_path / "RAN"
    for folder in (workspace, workspace / "sub"):
        folder.mkdir(exist_ok=True)
        _make_hostile(folder, ran)
    ran.unlink(missing_ok=True)
    before = checkpoint(workspace, Moment("log", "run", "before"))
    (workspace / "sub/f").write_text("agent\n")
    (workspace / "f").write_text("agent\n")
    (workspace / ".git/refs/heads/other").write_text("0" * 40 + "\n")
    (workspace / ".git/HEAD").write_text("ref: refs/heads/other\n")
    checkpoint(workspace, Moment("log", "run", "after"))
    store = UndoStore(str(workspace))
    turn = recorded_turn(store, "run")
    assert turn is not None
    planned = undo(store, [turn], _nothing_known)
    done = undo(store, [turn], _nothing_known, expect=planned.plan.digest)
    assert (workspace / "sub/f").read_text() == (workspace / "f").read_text() == "before\n"
    assert done.git is not None
    assert (done.git[0].branch, done.git[1].branch) == ("main", "other")
    assert before.git is not None
    assert len(before.git.head) == 40
    assert not ran.exists()


def test_a_git_folder_that_is_gone_is_named(workspace: Path) -> None:
    """Of a submodule, whose `.git` is a file, of a repository inside, and of the workspace itself."""
    for path in (".git/HEAD", "vendor/lib/.git/HEAD"):
        (workspace / path).parent.mkdir(parents=True)
        (workspace / path).write_text("ref: refs/heads/main\n")
    (workspace / "sub").mkdir()
    (workspace / "sub/.git").write_text("gitdir: ../.git/modules/sub\n")
    for path in ("f", "sub/f", "vendor/lib/f"):
        (workspace / path).write_text("before\n")
    checkpoint(workspace, Moment("log", "first", "before"))
    time.sleep(0.06)  # folders that have not changed for a moment are not listed again
    checkpoint(workspace, Moment("log", "first", "after"))
    checkpoint(workspace, Moment("log", "run", "before"))
    (workspace / "sub/.git").unlink()
    shutil.rmtree(workspace / "vendor")
    shutil.rmtree(workspace / ".git")
    (workspace / "f").write_text("agent\n")
    checkpoint(workspace, Moment("log", "run", "after"))
    store = UndoStore(str(workspace))
    turn = recorded_turn(store, "run")
    assert turn is not None
    planned = undo(store, [turn], _nothing_known)
    done = undo(store, [turn], _nothing_known, expect=planned.plan.digest)
    assert planned.lost_git == done.lost_git == (".", "sub", "vendor/lib")
    assert (workspace / "vendor/lib/f").read_text() == (workspace / "f").read_text() == "before\n"


def _make_hostile(folder: Path, ran: Path) -> None:
    environment = {**os.environ, "GIT_CONFIG_NOSYSTEM": "1", "HOME": str(ran.parent)}
    (folder / "f").write_text("before\n")
    (folder / ".gitattributes").write_text("* filter=x\n")
    for words in (("init", "-q", "-b", "main"), ("add", "f"), ("commit", "-qm", "x")):
        identity = ("-c", "user.name=a", "-c", "user.email=a@a")
        subprocess.run(["git", *identity, *words], cwd=folder, env=environment, check=True)
    with (folder / ".git/config").open("a") as file:
        file.write(f'[filter "x"]\n clean = touch {ran}; cat\n[core]\n fsmonitor = touch {ran}\n')


def test_a_walk_beside_the_agent_leaves_out_what_it_did_not_see_in_time(workspace: Path) -> None:
    for name in ("kept", "changed", "deleted"):
        (workspace / name).write_text("before\n")
    checkpoint(workspace)
    time.sleep(0.06)
    checkpoint(workspace)
    since_ns = time.time_ns()
    time.sleep(0.02)
    (workspace / "changed").write_text("agent\n")
    (workspace / "deleted").unlink()
    before = checkpoint(workspace, Moment("log", "run", "before", since_ns, lambda: True))
    assert before.not_taken == ["changed"]
    after = checkpoint(workspace, Moment("log", "run", "after"))
    store = UndoStore(str(workspace))
    plan = plan_of(store, before.seq, after.seq)
    assert [step.path for step in plan.steps] == ["deleted"]
    assert [*plan.kept] == ["changed"]


def test_an_undo_that_was_killed_is_finished_by_the_next(workspace: Path) -> None:
    (workspace / "src").mkdir()
    for number in range(40):
        (workspace / f"src/{number}").write_text("before\n")
    checkpoint(workspace, Moment("log", "run", "before"))
    shutil.rmtree(workspace / "src")
    (workspace / "new").mkdir()
    for number in range(40):
        (workspace / f"new/{number}").write_text("agent\n")
    checkpoint(workspace, Moment("log", "run", "after"))
    program = (
        "import os, sys\n"
        "from harness.undo import writing, undoing, store, turns\n"
        "left = [int(sys.argv[2])]\n"
        "real = writing.state_at\n"
        "def look(*arguments):\n"
        "    left[0] -= 1\n"
        "    if left[0] < 0: os._exit(9)\n"
        "    return real(*arguments)\n"
        "writing.state_at = look\n"
        "opened = store.UndoStore(sys.argv[1])\n"
        "turn = turns.recorded_turn(opened, 'run')\n"
        "work = lambda *_: turns.Work()\n"
        "plan = undoing.undo(opened, [turn], work).plan\n"
        "undoing.undo(opened, [turn], work, expect=plan.digest)\n"
    )
    codes = [
        subprocess.run([sys.executable, "-c", program, str(workspace), str(steps)], check=False).returncode
        for steps in (15, 60, 10_000)
    ]
    assert codes == [9, 9, 0]
    assert sorted(path.name for path in workspace.iterdir()) == ["src"]
    assert len([*(workspace / "src").iterdir()]) == 40


def test_a_checkpoint_that_was_killed_is_not_there(workspace: Path) -> None:
    (workspace / "f").write_text("x")
    first = checkpoint(workspace)
    (workspace / "f").write_text("y")
    program = (
        "import os, sys\n"
        "from harness.undo import checkpoints, store\n"
        "store.UndoStore.add_checkpoint = lambda *_: os._exit(9)\n"
        "opened = store.UndoStore(sys.argv[1])\n"
        "with opened.writing():\n"
        "    checkpoints.take(opened, checkpoints.Moment(), most_bytes=1 << 30)\n"
    )
    assert subprocess.run([sys.executable, "-c", program, str(workspace)], check=False).returncode == 9
    store = UndoStore(str(workspace))
    assert store.last_seq == first.seq
    second = checkpoint(workspace)
    assert [*store.changes(first.seq, second.seq)] == ["f"]


def test_a_damaged_store_is_set_aside_and_said(workspace: Path) -> None:
    checkpoint(workspace)
    database = Path(folder_of(str(workspace))) / "undo.db"
    database.write_bytes(b"no database at all" * 100)
    for suffix in ("-wal", "-shm"):
        database.with_name(f"undo.db{suffix}").unlink(missing_ok=True)
    store = UndoStore(str(workspace))
    assert "set aside" in store.problem
    assert [path for path in database.parent.iterdir() if ".bad-" in path.name]
    assert database.stat().st_mode & 0o777 == 0o600


def test_it_is_switched_off_where_it_would_be_too_dear(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        (workspace / f"{number}").write_text("x")
    monkeypatch.setattr(checkpoints, "MOST_PATHS", 10)
    store = UndoStore(str(workspace))
    with store.writing():
        with pytest.raises(TooDear) as error:
            take(store, Moment(), most_bytes=_PLENTY)
        note_missing(store, Moment(), error.value)
    assert "more than 10 files" in why_off(store)
    monkeypatch.setattr(checkpoints, "MOST_PATHS", 100)
    with store.writing(), pytest.raises(TooDear, match="larger than"):
        take(store, Moment(), most_bytes=5)
    assert store.state("1", 99).kind == ""
    monkeypatch.setenv("HOME", str(workspace / "home"))
    assert "home folder" in why_not_recorded(str(workspace))


def test_what_two_sessions_could_have_written_is_kept(workspace: Path) -> None:
    checkpoint(workspace, Moment("one", "a", "before"))
    checkpoint(workspace, Moment("two", "b", "before"))
    (workspace / "f").write_text("x")
    checkpoint(workspace, Moment("two", "b", "after"))
    checkpoint(workspace, Moment("one", "a", "after"))
    store = UndoStore(str(workspace))
    turn = recorded_turn(store, "a")
    assert turn is not None
    planned = undo(store, [turn], _nothing_known)
    assert planned.plan.kept == {"f": "another session worked here at that time: two"}
    chosen = undo(store, [turn], _nothing_known, UndoChoice(paths=["f"]))
    assert [step.path for step in chosen.plan.steps] == ["f"]


def test_what_another_session_wrote_before_this_one_did_is_kept(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time of a file says only who wrote it last: an undo took the line of the other session with it."""
    monkeypatch.setattr(turns, "SLACK_NS", 10_000_000)
    calls = dict[str, CallTime]()

    def write(run_id: str, name: str, text: str) -> None:
        start_ms = _now_ms()
        with (workspace / name).open("a") as file:
            file.write(text)
        calls[run_id] = CallTime(start_ms, _now_ms() + 1)
        time.sleep(0.03)  # the times of files are that coarse

    (workspace / "both").write_text("mine\n")
    checkpoint(workspace, Moment("one", "a", "before"))
    checkpoint(workspace, Moment("two", "b", "before"))
    write("b", "both", "theirs\n")
    checkpoint(workspace, Moment("two", "b", "after"))
    write("a", "both", "ours\n")
    write("a", "own", "ours\n")
    checkpoint(workspace, Moment("one", "a", "after"))
    store = UndoStore(str(workspace))
    turn = recorded_turn(store, "a")
    assert turn is not None
    planned = undo(store, [turn], lambda _log_id, run_id: Work([calls[run_id]]))
    assert planned.plan.kept == {"both": "another session worked here at that time: two"}
    assert [step.path for step in planned.plan.steps] == ["own"]


@pytest.mark.parametrize("seed", range(_INTERLEAVED))
def test_two_sessions_in_any_order_take_no_line_of_each_other(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(turns, "SLACK_NS", 10_000_000)
    chance = Random(seed)
    calls: dict[str, list[CallTime]] = {"a": [], "b": []}
    started: dict[str, int] = {}
    lines: dict[str, list[tuple[str, str]]] = {"a": [], "b": []}
    for run_id in calls:
        checkpoint(workspace, Moment(run_id, run_id, "before"))
    for number in range(10):
        run_id = chance.choice("ab")
        if run_id not in started:
            started[run_id] = _now_ms()
        else:
            name, line = chance.choice(("f", "g", "h")), f"{run_id}{number}"
            with (workspace / name).open("a") as file:
                file.write(f"{line}\n")
            lines[run_id].append((name, line))
            time.sleep(0.012)
            calls[run_id].append(CallTime(started.pop(run_id), _now_ms()))
            if chance.random() < 0.7:
                checkpoint(workspace, Moment(run_id, run_id, "call"))
        time.sleep(0.012)
    for run_id in calls:
        calls[run_id] += [CallTime(started[run_id], _now_ms())] if run_id in started else []
        checkpoint(workspace, Moment(run_id, run_id, "after"))
    store = UndoStore(str(workspace))
    for run_id, other in ("ab", "ba"):
        turn = recorded_turn(store, run_id)
        assert turn is not None
        plan = undo(store, [turn], lambda _log_id, run_id: Work(calls[run_id])).plan
        for step in plan.steps:
            digest = step.target.digest
            content = plan.contents.get(digest) or (store.content(digest) if step.target.kind == "f" else b"")
            left = content.decode().split("\n")
            assert not [line for name, line in lines[other] if name == step.path and line not in left]
    store.close()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def test_a_turn_that_was_cut_off_is_asked_about(workspace: Path) -> None:
    checkpoint(workspace, Moment("one", "a", "before"))
    (workspace / "f").write_text("x")
    store = UndoStore(str(workspace))
    turn = recorded_turn(store, "a")
    assert turn is not None
    assert turn.why_missing
    checkpoint(workspace, Moment("one", "b", "before"))
    turn = recorded_turn(store, "a")
    assert turn is not None
    assert turn.is_open
    planned = undo(store, [turn], _nothing_known)
    assert "cut off" in planned.plan.kept["f"]


def test_a_change_is_the_agents_only_while_one_of_its_calls_ran(workspace: Path) -> None:
    checkpoint(workspace, Moment("one", "a", "before"))
    (workspace / "agents").write_text("x")
    (workspace / "named").write_text("x")
    at_ms = (workspace / "agents").stat().st_ctime_ns // 1_000_000
    checkpoint(workspace, Moment("one", "a", "after"))
    store = UndoStore(str(workspace))
    turn = recorded_turn(store, "a")
    assert turn is not None

    def why(work: Work, path: str) -> str:
        authors = Authorship(store, turn, lambda *_: work, now_ms=at_ms)
        was, left = store.changes(*turn.windows[0])[path]
        return authors.why_kept(path, turn.windows[0], was, left)

    assert why(Work(), "agents") == ""
    assert why(Work([CallTime(at_ms - 5, at_ms + 5)]), "agents") == ""
    assert "yours" in why(Work([CallTime(at_ms - 900, at_ms - 500)]), "agents")
    elsewhere = Work([CallTime(at_ms - 900, at_ms - 500)], frozenset({f"{workspace}/named"}))
    assert why(elsewhere, "named") == ""


def test_old_turns_are_removed_and_the_others_stay_undoable(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.undo.upkeep.MOST_TURNS", 5)
    for number in range(12):
        checkpoint(workspace, Moment("log", f"run{number}", "before"))
        (workspace / "f").write_text(f"{number}\n")
        (workspace / f"g{number}").write_text(f"{number}\n")
        checkpoint(workspace, Moment("log", f"run{number}", "after"))
    store = UndoStore(str(workspace))
    sweep(store)
    assert recorded_turn(store, "run3") is None
    for number in range(11, 7, -1):
        turn = recorded_turn(store, f"run{number}")
        assert turn is not None
        planned = undo(store, [turn], _nothing_known)
        done = undo(store, [turn], _nothing_known, expect=planned.plan.digest)
        assert done.plan.kept == {}
        assert (workspace / "f").read_text() == f"{number - 1}\n"
        assert not (workspace / f"g{number}").exists()
    undone = store.undos()[-1]
    redo(store, undone, expect=redo(store, undone).plan.digest)
    assert (workspace / "f").read_text() == "8\n"
    assert make_room(store) > 0
    [orphans] = (
        sqlite3.connect(Path(store.folder) / "undo.db")
        .execute("SELECT count(*) FROM history WHERE kind = 'f' AND digest NOT IN (SELECT digest FROM blobs)")
        .fetchone()
    )
    assert orphans == 0
