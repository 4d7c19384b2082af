"""Reverts: only the agent's lines go, what is saved can be written back, and what changed meanwhile is refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from changed_folders import ChangingAgent, later, write
from harness.clients.changes.repository import Stale
from harness.clients.changes.revert import revert, undo
from harness.clients.changes.shapes import RevertAnswer
from harness.errors import UsageError

TEXT = "".join(f"line number {number}\n" for number in range(1, 31))


@pytest.fixture(autouse=True)
def data(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path_factory.mktemp("data")
    monkeypatch.setenv("XDG_DATA_HOME", str(place))
    return place


def reverted(agent: ChangingAgent, *paths: str, scope: str = "conversation") -> RevertAnswer:
    review = agent.review()
    shown = revert(review, "log", scope, paths, {}, dry_run=True)
    expect = {file.path: file.digest for file in shown.files}
    return revert(agent.review(), "log", scope, paths, expect, dry_run=False)


def undone(agent: ChangingAgent, answer: RevertAnswer) -> None:
    folder = agent.review().folder
    assert folder is not None
    undo(folder, "log", answer.undo_id)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def agent_in(folder: Path) -> ChangingAgent:
    folder.mkdir(exist_ok=True)
    write(folder, {"a.txt": TEXT, "gone.txt": "gone\n", "windows.txt": "one\r\ntwo\r\n"})
    agent = ChangingAgent(folder)
    agent.turn("one")
    return agent


CHANGES = st.lists(
    st.tuples(st.integers(1, 30), st.sampled_from(["", "changed here\n", "two\nlines of it\n"])),
    min_size=1,
    max_size=5,
    unique_by=lambda change: change[0],
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
@given(CHANGES, st.booleans())
def test_a_revert_restores_the_text_and_undo_gives_it_back(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[int, str]], has_new_file: bool
) -> None:
    folder = tmp_path_factory.mktemp("project")
    agent = agent_in(folder)
    before = contents(folder)
    for number, text in changes:
        agent.edit("a.txt", f"line number {number}\n", f"{text}of {number}\n")
    if has_new_file:
        agent.write("new/file.txt", "new\n")
    after = contents(folder)
    answer = reverted(agent)
    assert contents(folder) == before
    undone(agent, answer)
    assert contents(folder) == after


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
@given(st.integers(1, 30), st.integers(1, 30))
def test_lines_of_a_person_stay(tmp_path_factory: pytest.TempPathFactory, own: int, theirs: int) -> None:
    folder = tmp_path_factory.mktemp("project")
    agent = agent_in(folder)
    agent.edit("a.txt", f"line number {theirs}\n", f"a line of the agent, {theirs}\n")
    path = folder / "a.txt"
    mine = path.read_text().splitlines(keepends=True)
    mine[own - 1] = "mine\n"
    path.write_text("".join(mine))
    later(path)
    (shown,) = revert(agent.review(), "log", "conversation", ["a.txt"], {}, dry_run=True).files
    if own == theirs:
        assert shown.action == "refuse"
        return
    assert shown.action == "change"
    reverted(agent, "a.txt")
    expected = TEXT.splitlines(keepends=True)
    expected[own - 1] = "mine\n"
    assert path.read_text() == "".join(expected)


def test_kept_lines_are_named_where_the_log_has_the_text(tmp_path: Path) -> None:
    agent = agent_in(tmp_path)
    agent.write("new.txt", TEXT)
    agent.turn("two")
    agent.edit("new.txt", "line number 3\n", "line number three\n")
    path = tmp_path / "new.txt"
    path.write_text(path.read_text().replace("line number 20\n", "mine\nand mine\n"))
    later(path)
    (shown,) = revert(agent.review(), "log", "turn:two", ["new.txt"], {}, dry_run=True).files
    assert [(lines.first, lines.last) for lines in shown.kept] == [(20, 21)]
    assert shown.undone_lines == 1
    reverted(agent, "new.txt", scope="turn:two")
    assert path.read_text() == TEXT.replace("line number 20\n", "mine\nand mine\n")


def test_a_turn_is_reverted_alone(tmp_path: Path) -> None:
    agent = agent_in(tmp_path)
    agent.edit("a.txt", "line number 3\n", "the first turn wrote this\n")
    agent.turn("two")
    agent.edit("a.txt", "line number 20\n", "the second turn wrote this\n")
    agent.turn("three")
    agent.edit("a.txt", "line number 28\n", "the third turn wrote this\n")
    reverted(agent, scope="turn:two")
    text = (tmp_path / "a.txt").read_text()
    assert "first turn" in text
    assert "second turn" not in text
    assert "third turn" in text


def test_a_file_that_was_made_is_deleted_unless_a_person_changed_it(tmp_path: Path) -> None:
    agent = agent_in(tmp_path)
    agent.write("new.txt", "new\n")
    reverted(agent, "new.txt")
    assert not (tmp_path / "new.txt").exists()
    (file,) = [file for file in agent.review().listing("conversation").files if file.path == "new.txt"]
    assert (file.is_reverted, file.can_revert) == (True, False)
    write(tmp_path, {"new.txt": "mine\n"})
    with pytest.raises(UsageError, match="changed since"):
        reverted(agent, "new.txt")


def test_a_file_that_was_moved_gets_its_name_back(tmp_path: Path) -> None:
    agent = agent_in(tmp_path)
    (tmp_path / "a.txt").chmod(0o755)
    before = contents(tmp_path)
    agent.move("a.txt", "deep/b.txt")
    agent.edit("deep/b.txt", "line number 3\n", "changed here by the agent\n")
    after = contents(tmp_path)
    (file,) = agent.review().listing("conversation").files
    assert (file.path, file.old_path, file.change, file.can_revert) == ("deep/b.txt", "a.txt", "R", True)
    answer = reverted(agent, "deep/b.txt")
    assert [(plan.action, plan.moved_to, plan.undone_lines) for plan in answer.files] == [
        ("move", "a.txt", 1)
    ]
    assert contents(tmp_path) == before
    assert (tmp_path / "a.txt").stat().st_mode & 0o777 == 0o755
    (file,) = agent.review().listing("conversation").files
    assert (file.is_reverted, file.can_revert) == (True, False)
    undone(agent, answer)
    assert contents(tmp_path) == after
    assert (tmp_path / "deep/b.txt").stat().st_mode & 0o777 == 0o755


def test_a_move_is_taken_back_with_its_own_turn_only(tmp_path: Path) -> None:
    agent = agent_in(tmp_path)
    agent.move("a.txt", "b.txt")
    agent.turn("two")
    agent.edit("b.txt", "line number 3\n", "changed here by the agent\n")
    reverted(agent, "b.txt", scope="turn:two")
    assert (tmp_path / "b.txt").read_text() == TEXT
    assert not (tmp_path / "a.txt").exists()
    reverted(agent, "b.txt", scope="turn:one")
    assert (tmp_path / "a.txt").read_text() == TEXT
    assert not (tmp_path / "b.txt").exists()


def test_a_moved_file_does_not_replace_another_one(tmp_path: Path) -> None:
    agent = agent_in(tmp_path)
    agent.move("a.txt", "b.txt")
    write(tmp_path, {"a.txt": "mine\n"})
    with pytest.raises(UsageError, match=r"moved from a\.txt, where it cannot be put back"):
        reverted(agent, "b.txt")
    assert contents(tmp_path)["a.txt"] == b"mine\n"


def test_a_new_file_that_was_moved_is_new(tmp_path: Path) -> None:
    agent = agent_in(tmp_path)
    before = contents(tmp_path)
    agent.write("new.txt", "new\n")
    agent.move("new.txt", "newer.txt")
    (file,) = agent.review().listing("conversation").files
    assert (file.path, file.old_path, file.change) == ("newer.txt", "", "A")
    reverted(agent)
    assert contents(tmp_path) == before


def test_line_ends_are_preserved(tmp_path: Path) -> None:
    agent = agent_in(tmp_path)
    agent.edit("windows.txt", "two", "a longer line of text")
    reverted(agent, "windows.txt")
    assert (tmp_path / "windows.txt").read_bytes() == b"one\r\ntwo\r\n"


def test_a_file_that_changed_meanwhile_is_refused(tmp_path: Path) -> None:
    agent = agent_in(tmp_path)
    agent.edit("a.txt", "line number 3\n", "changed here\n")
    agent.edit("windows.txt", "two", "a longer line of text")
    shown = revert(agent.review(), "log", "conversation", [], {}, dry_run=True)
    expect = {file.path: file.digest for file in shown.files}
    path = tmp_path / "a.txt"
    path.write_text(path.read_text() + "more\n")
    before = contents(tmp_path)
    with pytest.raises(Stale, match=r"a\.txt is not as it was shown"):
        revert(agent.review(), "log", "conversation", [], expect, dry_run=False)
    assert contents(tmp_path) == before


def test_an_undo_is_refused_after_another_change_and_for_another_conversation(tmp_path: Path) -> None:
    agent = agent_in(tmp_path)
    agent.write("new.txt", "new\n")
    answer = reverted(agent, "new.txt")
    folder = agent.review().folder
    assert folder is not None
    with pytest.raises(UsageError, match="no such revert"):
        undo(folder, "another log", answer.undo_id)
    with pytest.raises(UsageError, match="no such revert"):
        undo(folder, "log", "../../etc/passwd")
    write(tmp_path, {"new.txt": "mine\n"})
    with pytest.raises(Stale, match="changed after the revert"):
        undo(folder, "log", answer.undo_id)
    assert (tmp_path / "new.txt").read_text() == "mine\n"


def test_what_is_saved_can_be_read_by_its_owner_only(tmp_path: Path, data: Path) -> None:
    agent = agent_in(tmp_path)
    agent.write("new.txt", "new\n")
    reverted(agent, "new.txt")
    (saved,) = data.rglob("reverts/*.json")
    assert saved.stat().st_mode & 0o077 == 0


def test_a_link_that_leads_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text("line\n")
    agent = agent_in(tmp_path / "project")
    agent.write("new.txt", "new\n")
    (agent.folder / "new.txt").unlink()
    os.symlink(outside, agent.folder / "new.txt")
    with pytest.raises(UsageError):
        reverted(agent, "new.txt")
    assert outside.read_text() == "line\n"


def test_files_of_git_itself_are_not_changed(tmp_path: Path) -> None:
    agent = agent_in(tmp_path)
    agent.write(".git/hooks/pre-commit", "#!/bin/sh\n")
    with pytest.raises(UsageError, match="may not be changed"):
        reverted(agent, ".git/hooks/pre-commit")
    assert (tmp_path / ".git/hooks/pre-commit").exists()
