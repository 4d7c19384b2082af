"""Folders and files that a browser may see: nothing outside, no link followed, nothing without end."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from harness.clients.workspaces.folders import Bounds, FileSearch, folders_in
from harness.clients.workspaces.prompt_commands import templates
from harness.errors import UsageError


def test_a_path_is_judged_by_where_it_leads(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    (inside / "a").mkdir(parents=True)
    outside.mkdir()
    (inside / "link").symlink_to(outside)
    bounds = Bounds((str(inside), ""))
    assert bounds.checked(str(inside / "a" / ".." / "a")) == str(inside / "a")
    assert bounds.above(str(inside / "a")) == str(inside)
    assert bounds.above(str(inside)) == ""
    beside = str(inside) + "-not"
    os.mkdir(beside)
    for path in (
        "",
        "/",
        str(outside),
        str(inside / "link"),
        f"{inside}/a/../../outside",
        beside,
        "a\0b",
        "/proc/self/cwd",
    ):
        with pytest.raises(UsageError):
            bounds.checked(path)
    with pytest.raises(UsageError, match="no such folder"):
        bounds.checked(str(inside / "missing"))


def test_a_root_of_everything_allows_nothing(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        Bounds(("/",)).checked(str(tmp_path))


def test_folders_are_listed_without_links_hidden_ones_and_names_that_are_no_text(tmp_path: Path) -> None:
    for name in ("b", "A", ".hidden", "new\nline"):
        (tmp_path / name).mkdir()
    os.mkdir(os.path.join(os.fsencode(tmp_path), b"\xff\xfe"))
    (tmp_path / "A" / ".git").mkdir()
    (tmp_path / "link").symlink_to("/etc")
    (tmp_path / "file").write_text("")
    folders, has_more = folders_in(str(tmp_path))
    assert [(one.name, one.is_project) for one in folders] == [
        ("A", True),
        ("b", False),
        ("new\nline", False),
    ]
    assert not has_more


def test_files_that_fit_best_come_first(tmp_path: Path) -> None:
    for name in ("src/cart/total.ts", "src/cart/subtotal.ts", "docs/totals/a.md", "src/the_other_cart.ts"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules" / "total.js").write_text("")
    (tmp_path / ".env").write_text("SECRET=1")
    search = FileSearch()
    found = search.find(str(tmp_path), "total", 10)
    assert found == ["src/cart/total.ts", "src/cart/subtotal.ts", "docs/totals/a.md"]
    assert search.find(str(tmp_path), "othca", 10) == ["src/the_other_cart.ts"]
    assert ".env" not in search.find(str(tmp_path), "", 100)
    assert len(search.find(str(tmp_path), "", 2)) == 2


def test_a_repository_lists_what_git_knows_and_runs_nothing(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    marker = tmp_path.parent / "ran"
    hostile = f'[core]\n\tfsmonitor = "touch {marker}"\n\thooksPath = {tmp_path}/hooks\n'
    with (tmp_path / ".git" / "config").open("a") as config:
        config.write(hostile)
    (tmp_path / ".gitignore").write_text("ignored.txt\n")
    for name in ("known.txt", "ignored.txt", "with space.txt", "-rf.txt"):
        (tmp_path / name).write_text("")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "inner.txt").write_text("")
    assert FileSearch().find(str(tmp_path), "txt", 10) == [
        "-rf.txt",
        "known.txt",
        "sub/inner.txt",
        "with space.txt",
    ]
    assert FileSearch().find(str(tmp_path / "sub"), "", 10) == ["inner.txt"]
    assert not marker.exists()


def test_templates_of_a_project_replace_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("HOME", str(tmp_path))
    from harness.config import config_directory

    own, project = Path(config_directory()) / "prompts", tmp_path / "project" / ".harness" / "prompts"
    for place in (own, project):
        place.mkdir(parents=True)
    (own / "release.md").write_text("# Make a release\n\nBump the version, then tag it.\n")
    (own / "review.md").write_text("mine")
    (project / "review.md").write_text("Look at this project.\n")
    (project / "Not a name!.md").write_text("never")
    (project / "secret.md").symlink_to("/etc/passwd")
    os.mkfifo(project / "pipe.md")
    found = {one.name: one for one in templates(str(tmp_path / "project"))}
    assert found["release"].description == "Make a release"
    assert found["release"].text == "Bump the version, then tag it."
    assert found["review"].text == "Look at this project."
    assert {*found} == {"explain", "fix-tests", "release", "review"}
