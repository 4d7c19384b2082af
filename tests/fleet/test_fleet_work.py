"""One case: what its result says, and that there is exactly one."""

from __future__ import annotations

import json
import os
import shutil
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

import small_fleet
from harness.errors import StoreError
from harness.events import Message, Warning
from harness.fleet.fleet import Fleet
from harness.fleet.records.attempt import Attempt, CaseProgress
from harness.fleet.snapshot import Snapshots
from harness.fleet.work import BUSY, DONE, NO_RESULT, work
from harness.log.store import read_all
from harness.sandbox.ladder import best_wall
from harness.workspace.git_calls import GitFailed
from small_fleet import FAILS, OUTAGE, REFUSED, SOLVES


def _fleet(folder: Path, script: str = SOLVES, variant: dict[str, Any] | None = None, **task: Any) -> Fleet:
    variants = [small_fleet.variant(folder, script, **(variant or {}))]
    return small_fleet.fleet(folder, small_fleet.plan(folder, variants, [small_fleet.task(**task)]))


def _worked(fleet: Fleet) -> Attempt:
    (case,) = fleet.plan.cases.values()
    code = work(fleet, case.id)
    result = fleet.records.result(case.id)
    assert not Path(fleet.workspace(case.id)).exists()
    assert not fleet.records.in_progress()
    if result is not None:
        assert code == DONE
        return result
    assert code == NO_RESULT
    return fleet.records.faults_of(case.id)[-1]


def test_a_task_that_is_solved(tmp_path: Path) -> None:
    fleet = _fleet(tmp_path)
    result = _worked(fleet)
    assert (result.passed, result.fault, result.outcome, result.check_exit) == (True, "", "completed", 0)
    assert (result.usage.input, result.usage.output, result.cost_usd) == (2000, 110, 0.0)
    assert b"+42" in fleet.records.diff(result)
    metadata = fleet.sessions.metadata(result.log_id)
    assert metadata.tags == ["fleet=small", f"case={result.case}"]
    assert any(isinstance(event, Message) for event in read_all(fleet.sessions, result.log_id))


def test_a_task_that_is_not_solved_is_a_result_too(tmp_path: Path) -> None:
    result = _worked(_fleet(tmp_path, FAILS))
    assert (result.passed, result.fault, result.check_exit) == (False, "", 1)


def test_a_second_worker_changes_nothing(tmp_path: Path) -> None:
    fleet = _fleet(tmp_path)
    first = _worked(fleet)
    assert _worked(fleet) == first
    assert len(os.listdir(tmp_path / "sessions")) == 2  # the log and its metadata


def test_a_case_that_another_worker_has_is_left_alone(tmp_path: Path) -> None:
    fleet = _fleet(tmp_path)
    (case,) = fleet.plan.cases
    claim = fleet.records.claim(case)
    assert claim is not None
    with claim:
        assert work(fleet, case) == BUSY


@pytest.mark.parametrize(
    ("script", "task", "fault", "detail"),
    [
        (SOLVES, {"setup": "echo no room; exit 9"}, "setup_failed", "exit code 9: no room"),
        (SOLVES, {"setup": "sleep 100", "setup_timeout_s": 0.3}, "setup_failed", "timed out"),
        (REFUSED, {}, "rate_limited", "429 Too Many Requests"),
        (OUTAGE, {}, "provider_failed", "503 Service Unavailable"),
    ],
)
def test_what_is_not_the_agents_fault_is_no_result(
    tmp_path: Path, script: str, task: dict[str, Any], fault: str, detail: str
) -> None:
    attempt = _worked(_fleet(tmp_path, script, **task))
    assert (attempt.fault, attempt.passed) == (fault, None)
    assert detail in attempt.detail
    assert attempt.was_limited == (fault == "rate_limited")


def test_an_agent_that_ends_with_an_error_has_not_passed(tmp_path: Path) -> None:
    script = SOLVES.replace('{ text = "Done." }', '{ error = "lost my mind", code = "broken" }')
    result = _worked(_fleet(tmp_path, script))
    assert (result.outcome, result.passed, result.fault) == ("failed", False, "")
    assert (result.crashed, result.detail, result.check_exit) == (True, "lost my mind", 0)


def test_a_provider_that_fails_afterwards_does_not_undo_a_solution(tmp_path: Path) -> None:
    script = SOLVES.replace('{ text = "Done." }', '{ error = "503 Service Unavailable", code = "http_503" }')
    result = _worked(_fleet(tmp_path, script))
    assert (result.outcome, result.passed, result.fault, result.crashed) == ("failed", True, "", False)


def test_a_check_that_was_killed_says_so(tmp_path: Path) -> None:
    result = _worked(_fleet(tmp_path, SOLVES, check="kill -9 $$"))
    assert (result.passed, result.detail) == (False, "the check was killed (out of memory?)")


@pytest.mark.parametrize("check", ["true", ""])
def test_a_patch_that_is_not_known_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, check: str
) -> None:
    """An empty one would be a wrong answer to whoever grades it."""

    def fail(*_: object) -> bytes:
        raise GitFailed("git diff: took longer than 60 s")

    monkeypatch.setattr(Snapshots, "patch", fail)
    result = _worked(_fleet(tmp_path, SOLVES, check=check))
    assert (result.passed, result.fault) == ((True, "") if check else (None, "check_failed"))
    assert result.detail == "what the agent changed is not known: git diff: took longer than 60 s"


def test_a_check_may_delete_the_workspace(tmp_path: Path) -> None:
    result = _worked(_fleet(tmp_path, SOLVES, check='rm -rf "$PWD"; sleep 1.2'))
    assert (result.passed, result.check_output) == (True, "")


def test_a_run_that_takes_too_long_is_a_result(tmp_path: Path) -> None:
    script = 'pause_ms = 60000\nturns = [[{ text = "Slow." }]]\n'
    result = _worked(_fleet(tmp_path, script, timeout_s=0.3))
    assert (result.outcome, result.passed, result.fault) == ("timed_out", False, "")


def test_a_check_that_hangs_is_a_wrong_answer(tmp_path: Path) -> None:
    result = _worked(_fleet(tmp_path, check="sleep 100", check_timeout_s=0.3))
    assert (result.passed, result.check_exit) == (False, 124)
    assert "timed out" in result.check_output


def test_a_task_without_a_check_has_no_verdict(tmp_path: Path) -> None:
    result = _worked(_fleet(tmp_path, check=""))
    assert (result.passed, result.fault, result.check_exit) == (None, "", None)


def test_a_task_that_deletes_its_workspace(tmp_path: Path) -> None:
    script = SOLVES.replace(
        '{ text = "Done." }', '{ tool = "bash", input = { command = "rm -rf $PWD" } }], [{ text = "Done." }'
    )
    result = _worked(_fleet(tmp_path, script))
    assert (result.passed, result.fault) == (False, "")


def test_hidden_files_come_after_the_agent(tmp_path: Path) -> None:
    hidden = tmp_path / "hidden.sh"
    hidden.write_text("exit 0\n")
    script = 'turns = [[{ tool = "bash", input = { command = "ls -a > seen.txt" } }], [{ text = "Done." }]]\n'
    fleet = _fleet(tmp_path, script, check="sh tests/hidden.sh", files={"tests/hidden.sh": str(hidden)})
    result = _worked(fleet)
    assert result.passed
    assert b"tests" not in fleet.records.diff(result)


LOOKS = """
cat {copy} {original} {other} {logs} > seen.txt 2>&1; echo forged > {copy}; ls -A {fleet} {work} >> seen.txt;
echo "$HOME" >> seen.txt; ls -A "$HOME" >> seen.txt; git config user.name >> seen.txt; echo ok > "$HOME/kept"
"""


@pytest.mark.parametrize("agent", ["native", "native in a sandbox", "program"])
def test_an_agent_sees_neither_hidden_files_nor_what_others_do(tmp_path: Path, agent: str) -> None:
    """Also by an absolute path, also to overwrite them; but its own workspace and home."""
    rung = best_wall()
    if rung is None or not rung.hides:
        pytest.skip("no sandbox here that could hide something")
    hidden = tmp_path / "hidden.sh"
    hidden.write_text("exit 0 # the answer\n")
    fleet_folder, other = tmp_path / "small", tmp_path / ".harness-work/small/other/repo"
    digest = _fleet(tmp_path, files={"tests/hidden.sh": str(hidden)}).plan.tasks[0].digest
    shutil.rmtree(fleet_folder)
    other.mkdir(parents=True)
    (other / "solution").write_text("of another")
    (tmp_path / "sessions").mkdir()
    (tmp_path / "sessions/other.ndjson").write_text("what another has written")
    looks = LOOKS.format(
        copy=fleet_folder / "tasks" / digest / "file-0",
        original=hidden,
        other=other / "solution",
        logs=tmp_path / "sessions/other.ndjson",
        fleet=fleet_folder,
        work=tmp_path / ".harness-work/small",
    ).replace("\n", " ")
    script = f'turns = [[{{ tool = "bash", input = {{ command = {json.dumps(looks)} }} }}], [{{ text = "Done." }}]]\n'
    settings: dict[str, Any] = {"sandbox": agent.endswith("sandbox")}
    if agent == "program":
        program = tmp_path / "program"
        program.write_text(f"#!/bin/sh\n{looks}\n")
        program.chmod(0o755)
        settings = {"agent": "generic", "model": "", "binary": str(program)}
    fleet = _fleet(
        tmp_path, script, settings, check="sh tests/hidden.sh", files={"tests/hidden.sh": str(hidden)}
    )
    result = _worked(fleet)
    seen = fleet.records.diff(result).decode()
    assert result.passed, result
    assert "seen.txt" in seen
    assert "answer" not in seen
    assert "another" not in seen
    assert "plan.json" not in seen
    assert "+Harness" in seen, seen
    assert hidden.read_text() == "exit 0 # the answer\n"


def test_a_run_says_where_nothing_can_be_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.sandbox.ladder.best_wall", lambda _environ=None: None)
    hidden = tmp_path / "hidden.sh"
    hidden.write_text("exit 0\n")
    fleet = _fleet(tmp_path, files={"tests/hidden.sh": str(hidden)})
    result = _worked(fleet)
    warnings = [event for event in read_all(fleet.sessions, result.log_id) if isinstance(event, Warning)]
    assert [one.message for one in warnings if "must not see" in one.message]


def test_the_home_is_fresh_unless_the_users_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home/data"))
    script = 'turns = [[{ tool = "bash", input = { command = "echo $HOME $XDG_DATA_HOME > where.txt" } }], [{ text = "Done." }]]\n'
    fresh = _fleet(tmp_path, script)
    assert b"/.harness-work/" in fresh.records.diff(_worked(fresh))
    (tmp_path / "other").mkdir()
    users = _fleet(tmp_path / "other", script, {"home": "user"})
    assert f"+{tmp_path}/home {tmp_path}/home/data".encode() in users.records.diff(_worked(users))


def test_a_score_is_read_and_nothing_else(tmp_path: Path) -> None:
    check = 'echo \'{"tests": 0.75, "style": 1}\' > score.json; exit 1'
    assert _worked(_fleet(tmp_path, check=check, score_file="score.json")).score == {
        "tests": 0.75,
        "style": 1.0,
    }
    for number, check in enumerate(("echo 0.5 > s", "echo nonsense > s", "ln -s /etc/passwd s", "mkfifo s")):
        (folder := tmp_path / str(number)).mkdir()
        found = _worked(_fleet(folder, check=check, score_file="s")).score
        assert found == ({"score": 0.5} if number == 0 else {})


def test_a_worker_that_was_killed_is_an_attempt_that_is_lost(tmp_path: Path) -> None:
    fleet = _fleet(tmp_path)
    (case,) = fleet.plan.cases
    fleet.records.note(CaseProgress(case=case, number=1, host="there", log_id="gone"))
    os.makedirs(Path(fleet.workspace(case), "leftover"))
    result = _worked(fleet)
    (lost,) = fleet.records.faults_of(case)
    assert (lost.fault, lost.host, lost.log_id) == ("lost", "there", "gone")
    assert (result.passed, result.number) == (True, 2)


def test_a_worker_that_is_asked_to_stop_leaves_no_result(tmp_path: Path) -> None:
    script = 'turns = [[{ tool = "bash", input = { command = "sleep 100" } }], [{ text = "Done." }]]\n'
    fleet = _fleet(tmp_path, script)

    def interrupt_once_it_runs() -> None:
        while not any(one.log_id for one in fleet.records.in_progress().values()):
            threading.Event().wait(0.02)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=interrupt_once_it_runs, daemon=True).start()
    attempt = _worked(fleet)
    assert (attempt.fault, attempt.outcome) == ("interrupted", "interrupted")


def test_the_workspace_of_a_case_that_fails_can_stay(tmp_path: Path) -> None:
    fleet = _fleet(tmp_path, FAILS, check="echo left > behind; false")
    (case,) = fleet.plan.cases
    work(fleet, case, keep=True)
    assert (Path(fleet.directory) / f"kept/{case}.1/behind").read_text() == "left\n"


def test_a_workspace_that_fills_the_disk_does_not_stop_its_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = _fleet(tmp_path)
    (case,) = fleet.plan.cases
    add = fleet.records.add

    def add_where_there_is_room(attempt: Attempt, diff: bytes = b"") -> bool:
        if os.path.exists(fleet.workspace(case)):
            raise StoreError("No space left on device")
        return add(attempt, diff)

    monkeypatch.setattr(fleet.records, "add", add_where_there_is_room)
    fleet.records.note(CaseProgress(case=case, number=1, pid=1, host="gone"))
    os.makedirs(fleet.workspace(case))  # of a worker that was killed
    assert work(fleet, case) == DONE
    assert [one.fault for one in fleet.records.faults_of(case)] == ["lost"]
    assert fleet.records.results()[case].passed
    assert not os.path.exists(fleet.workspace(case))


def _commands(*commands: str) -> str:
    """A model that runs these in the shell."""
    turns = [f'[{{ tool = "bash", input = {{ command = {json.dumps(one)} }} }}]' for one in commands]
    return f'turns = [{", ".join(turns)}, [{{ text = "Done." }}]]\n'


def test_an_agent_does_not_find_the_answer_beside_its_workspace(tmp_path: Path) -> None:
    (tmp_path / "hidden").write_text("THE-ANSWER")
    look = "cat ../../../tasks/*/* ../../tasks/*/* ../../../diffs/* ../../../plan.json > found.txt; ls -a .. ../.. >> found.txt"
    check = 'test "$(cat hidden.txt)" = THE-ANSWER'
    fleet = _fleet(tmp_path, _commands(look), check=check, files={"hidden.txt": str(tmp_path / "hidden")})
    result = _worked(fleet)
    assert result.passed  # the check itself had it
    diff = fleet.records.diff(result)
    assert b"THE-ANSWER" not in diff
    assert b"plan.json" not in diff


def test_a_hidden_file_that_was_changed_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "hidden").write_text("test one")
    (tmp_path / "here").mkdir()
    fleet = _fleet(
        tmp_path, SOLVES, workspace=str(tmp_path / "here"), files={"hidden.txt": str(tmp_path / "hidden")}
    )
    (task,) = fleet.plan.tasks
    Path(task.files["hidden.txt"]).write_text("test nothing")
    result = _worked(fleet)
    assert (result.fault, "has changed since the fleet was created" in result.detail) == (
        "check_failed",
        True,
    )
    Path(task.workspace, "planted.txt").write_text("42")
    assert _worked(fleet).fault == "setup_failed"


def test_a_score_that_the_agent_wrote_does_not_count(tmp_path: Path) -> None:
    forged = _commands("mkdir -p out; echo 1 > out/score")
    fleet = _fleet(tmp_path, forged, check="false", score_file="out/score")
    assert _worked(fleet).score == {}
    (tmp_path / "two").mkdir()
    linked = _commands("mkdir real; echo 1 > real/score; ln -s real out")
    assert _worked(_fleet(tmp_path / "two", linked, check="false", score_file="out/score")).score == {}
    (tmp_path / "three").mkdir()
    honest = _fleet(tmp_path / "three", SOLVES, check="echo 0.5 > score; false", score_file="score")
    assert _worked(honest).score == {"score": 0.5}
