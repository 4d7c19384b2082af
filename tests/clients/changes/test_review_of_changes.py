"""What a conversation changed, seen with the files as they are now."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from changed_folders import GIT_ENVIRONMENT, ChangingAgent, git, later, repository, summaries, write
from harness.errors import UsageError

TEXT = "".join(f"line {number}\n" for number in range(1, 31))


@pytest.fixture
def agent(tmp_path: Path) -> ChangingAgent:
    write(tmp_path, {"src/a.py": TEXT})
    agent = ChangingAgent(tmp_path)
    agent.turn("one")
    return agent


def test_files_are_listed_by_conversation_and_by_turn(agent: ChangingAgent) -> None:
    agent.edit("src/a.py", "line 12\n", "line twelve\nand a half\n")
    agent.write("new.txt", "one\ntwo\n")
    agent.turn("two")
    agent.edit("new.txt", "two", "2")
    agent.write("short-lived.txt", "x\n")
    agent.delete("short-lived.txt")
    review = agent.review()
    assert summaries(review) == [("new.txt", "A", 2, 0), ("src/a.py", "M", 2, 1)]
    assert summaries(review, "turn:two") == [("new.txt", "M", 1, 1)]
    turns = review.listing("conversation").turns
    assert [(turn.number, turn.title, turn.files, turn.added) for turn in turns] == [
        (1, "please do one", 2, 4),
        (2, "please do two", 1, 1),
    ]
    with pytest.raises(UsageError, match="no such scope"):
        review.listing("turn:three")


def test_a_diff_has_context_and_real_line_numbers(agent: ChangingAgent) -> None:
    agent.edit("src/a.py", "line 12\n", "line twelve\n")
    rows = agent.review().diff("conversation", "src/a.py").rows
    shown = [(row.kind, row.text, row.old, row.new) for row in rows]
    assert shown[:6] == [
        ("place", "line 8", 9, 9),
        ("same", "line 9", 9, 9),
        ("same", "line 10", 10, 10),
        ("same", "line 11", 11, 11),
        ("removed", "line 12", 12, None),
        ("added", "line twelve", None, 12),
    ]
    assert rows[-1].skipped == 15
    assert len(agent.review().diff("conversation", "src/a.py", context=1000).rows) == 32


def test_a_person_who_changed_the_file_too_is_seen(agent: ChangingAgent) -> None:
    agent.edit("src/a.py", "line 12\n", "a line of the agent\n")
    path = agent.folder / "src/a.py"
    (unchanged,) = agent.review().listing("conversation").files
    assert unchanged.also_changed_ms is None
    path.write_text(path.read_text() + "mine\n")
    later(path)
    (file,) = agent.review().listing("conversation").files
    assert file.also_changed_by == "you"
    assert (file.added, file.removed, file.can_revert) == (1, 1, True)


def test_a_log_without_texts_shows_it(agent: ChangingAgent) -> None:
    agent.only_says("src/a.py", "update")
    (file,) = agent.review().listing("conversation").files
    assert (file.has_before, file.is_count_complete, file.can_revert) == (False, False, False)
    assert "log does not have" in file.why_not
    assert agent.review().diff("conversation", "src/a.py").note == "The log does not have what was written."


def test_of_an_overwritten_file_the_text_before_is_missing_without_git(agent: ChangingAgent) -> None:
    agent.write("src/a.py", "all new\n")
    (file,) = agent.review().listing("conversation").files
    assert (file.change, file.added, file.is_count_complete) == ("M", 1, False)
    diff = agent.review().diff("conversation", "src/a.py")
    assert "does not have the text from before" in diff.note
    assert [row.text for row in diff.rows if row.kind == "added"] == ["all new"]


def test_with_git_it_is_known(tmp_path: Path) -> None:
    agent = ChangingAgent(repository(tmp_path / "r", {"a.txt": TEXT, "b.txt": "b\n"}))
    agent.turn("one")
    agent.write("a.txt", TEXT.replace("line 3\n", "line three\n"))
    (agent.folder / "b.txt").write_text("by a program\n")
    agent.only_says("b.txt")
    files = {file.path: file for file in agent.review().listing("conversation").files}
    assert (files["a.txt"].added, files["a.txt"].removed, files["a.txt"].can_revert) == (1, 1, True)
    assert (files["b.txt"].source, files["b.txt"].added, files["b.txt"].can_revert) == ("git", 1, False)


def test_files_outside_of_the_folder_are_named_and_not_read(tmp_path: Path) -> None:
    outside = tmp_path / "secret.txt"
    outside.write_text("secret\n")
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "link").symlink_to(tmp_path)
    agent = ChangingAgent(folder)
    agent.turn("one")
    agent.only_says("../secret.txt", "update")
    agent.only_says("link/secret.txt", "update")
    for file in agent.review().listing("conversation").files:
        assert (file.digest, file.can_revert) == ("", False)
        assert "outside" in file.why_not
        assert not agent.review().diff("conversation", file.path).rows


def test_generated_files_and_pictures_are_distinguished(tmp_path: Path) -> None:
    agent = ChangingAgent(repository(tmp_path / "r", {"logo.png": "\x89PNG\0old", "yarn.lock": "x\n"}))
    agent.turn("one")
    (agent.folder / "logo.png").write_bytes(b"\x89PNG\0new")
    agent.only_says("logo.png", "update")
    agent.write("yarn.lock", "y\n")
    files = {file.path: file for file in agent.review().listing("conversation").files}
    assert (files["yarn.lock"].is_generated, files["logo.png"].is_binary) == (True, True)
    pictures = agent.review().diff("conversation", "logo.png").pictures
    assert pictures is not None
    assert pictures.before.startswith("data:image/png;base64,")
    assert pictures.before != pictures.after


def test_a_patch_is_taken_back_by_git(tmp_path: Path) -> None:
    folder = repository(tmp_path / "r", {"a b.txt": TEXT, "gone.txt": "gone\n", "open.txt": "no end"})
    agent = ChangingAgent(folder)
    agent.turn("one")
    agent.edit("a b.txt", "line 3\n", "")
    agent.edit("open.txt", "no end", "another\nend")
    agent.delete("gone.txt")
    agent.write("new/größe.txt", "new\n")
    patch, missing = agent.review().patch("conversation")
    assert not missing
    subprocess.run(["git", "apply", "-R"], cwd=folder, input=patch.encode(), env=GIT_ENVIRONMENT, check=True)
    assert git(folder, "status", "--porcelain") == ""


def test_a_large_diff_is_quick_and_whole(agent: ChangingAgent) -> None:
    agent.write("large.txt", "".join(f"row {number}\n" for number in range(50_000)))
    diff = agent.review().diff("conversation", "large.txt")
    assert diff.total == 50_001


def test_what_is_not_committed_and_what_differs_from_the_base(tmp_path: Path) -> None:
    folder = repository(
        tmp_path / "r", {"a.txt": "a\n", "b.txt": "b\n", "c.txt": "c\n", ".gitignore": "ignored\n"}
    )
    git(folder, "checkout", "-q", "-b", "feature")
    write(folder, {"b.txt": "b2\n"})
    git(folder, "commit", "-qam", "second")
    write(folder, {"a.txt": "a2\n", "staged.txt": "s\n", "untracked.txt": "u\n", "ignored": "i\n"})
    git(folder, "add", "staged.txt")
    (folder / "c.txt").unlink()
    agent = ChangingAgent(folder)
    agent.turn("one")
    review = agent.review()
    assert summaries(review, "uncommitted") == [
        ("a.txt", "M", 1, 1),
        ("c.txt", "D", 0, 1),
        ("staged.txt", "A", 1, 0),
        ("untracked.txt", "A", 1, 0),
    ]
    assert [path for path, *_rest in summaries(review, "base")] == [
        "a.txt",
        "b.txt",
        "c.txt",
        "staged.txt",
        "untracked.txt",
    ]
    listing = review.listing("base")
    assert listing.git is not None
    assert (listing.git.branch, listing.git.base) == ("feature", "main")
    assert not any(file.can_revert for file in listing.files)


def test_a_new_repository_without_commits(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "main")
    write(tmp_path, {"a.txt": "a\n"})
    agent = ChangingAgent(tmp_path)
    agent.turn("one")
    agent.write("b.txt", "b\n")
    assert summaries(agent.review(), "uncommitted") == [("a.txt", "A", 1, 0), ("b.txt", "A", 1, 0)]
    assert summaries(agent.review()) == [("b.txt", "A", 1, 0)]


def test_a_plain_folder_has_no_git(agent: ChangingAgent) -> None:
    agent.write("b.txt", "b\n")
    listing = agent.review().listing("conversation")
    assert (listing.git, len(listing.files)) == (None, 1)
    with pytest.raises(UsageError, match="no git repository"):
        agent.review().listing("uncommitted")


def test_a_file_of_the_folder_is_shown_and_none_outside_of_it(tmp_path: Path) -> None:
    agent = ChangingAgent(tmp_path / "project")
    write(tmp_path, {"secret.txt": "secret\n", "project/a.txt": "one\n\ntwo", "project/empty.txt": ""})
    (tmp_path / "project" / "link.txt").symlink_to(tmp_path / "secret.txt")
    (tmp_path / "project" / "raw.bin").write_bytes(b"\0\1\2")
    agent.turn("one")
    review = agent.review()
    shown = review.text("a.txt")
    assert (shown.path, shown.lines, shown.total) == ("a.txt", ["one", "", "two"], 3)
    assert review.text(str(tmp_path / "project" / "a.txt")).path == "a.txt"
    assert review.text("empty.txt").note == "This file is empty."
    assert review.text("raw.bin").note == "This is no text."
    for path in (
        "../secret.txt",
        str(tmp_path / "secret.txt"),
        "link.txt",
        "~/secret.txt",
        "",
        ".",
        "gone.txt",
        "a\0b",
    ):
        with pytest.raises(UsageError):
            review.text(path)


def test_lines_that_differ_in_spaces_can_be_ignored(tmp_path: Path) -> None:
    write(tmp_path, {"a.py": "def f():\n  return 1\n\nend = 2\n"})
    agent = ChangingAgent(tmp_path)
    agent.turn("one")
    agent.edit("a.py", "  return 1\n\nend = 2\n", "    return  1\n\nend = 3\n")
    rows = agent.review().diff("conversation", "a.py", ignores_spaces=True).rows
    assert [(row.kind, row.text) for row in rows[1:]] == [
        ("same", "def f():"),
        ("same", "    return  1"),
        ("same", ""),
        ("removed", "end = 2"),
        ("added", "end = 3"),
    ]
    agent.edit("a.py", "end = 3\n", "end = 2\n")
    assert agent.review().diff("conversation", "a.py", ignores_spaces=True).note == "Only spaces differ."
