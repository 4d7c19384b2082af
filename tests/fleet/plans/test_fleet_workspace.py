"""Workspaces: made as the plan says, compared with what they were, and never a way out of themselves."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace

import small_fleet
from harness.fleet.plans.plan import FleetCase, FleetPlan, FleetTask, Variant
from harness.fleet.workspace import CaseWorkspace, WorkspaceFailed, put, remove


def _workspace(
    place: Path, task: FleetTask, variant: Variant | None = None, kind: str = "auto"
) -> CaseWorkspace:
    if task.commit and os.path.isdir(task.workspace):  # planning names a commit by its hash
        words = ["git", "-C", task.workspace, "rev-parse", task.commit]
        commit = subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
        task = replace(task, commit=commit)
    case = FleetCase("c", task, variant or Variant(name="v", agent="native"), 0)
    made = FleetPlan(name="x", tasks=(task,), variants=(case.variant,), workspaces=kind)  # type: ignore[arg-type]
    return CaseWorkspace(str(place), f"{place}.base", made, case, lambda: False)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    (folder / "a.txt").write_text("one\n")
    (folder / "docs").mkdir()
    (folder / "docs/AGENTS.md").write_text("rules\n")
    git = ["git", "-C", str(folder), "-c", "user.name=x", "-c", "user.email=x@x"]
    for words in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-qm", "one"]):
        subprocess.run([*git, *words], check=True)
    hook = folder / ".git/hooks/post-checkout"
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/hooked\n")
    hook.chmod(0o755)
    return folder


@pytest.mark.parametrize("kind", ["auto", "worktree"])
def test_a_commit_is_checked_out_without_running_hooks(repository: Path, tmp_path: Path, kind: str) -> None:
    (repository / "a.txt").write_text("not committed\n")
    task = small_fleet.task(workspace=str(repository), commit="main")
    workspace = _workspace(tmp_path / "work/c", task, kind=kind)
    os.makedirs(tmp_path / "work")
    workspace.make()
    assert Path(workspace.repo, "a.txt").read_text() == "one\n"
    workspace.remember()
    Path(workspace.repo, "a.txt").write_text("two\n")
    Path(workspace.repo, "new.bin").write_bytes(bytes(range(256)))
    subprocess.run(
        ["git", "-C", workspace.repo, "-c", "user.name=x", "-c", "user.email=x@x", "commit", "-qam", "agent"],
        check=True,
    )
    diff = workspace.diff()
    assert b"-one\n+two\n" in diff
    assert b"new.bin" in diff
    workspace.remove()
    assert not (tmp_path / "work/c").exists()
    assert not (tmp_path / "hooked").exists()


@pytest.mark.parametrize("kind", ["auto", "clone", "worktree"])
def test_an_agent_sees_no_later_commit(repository: Path, tmp_path: Path, kind: str) -> None:
    git = ["git", "-C", str(repository), "-c", "user.name=x", "-c", "user.email=x@x"]
    first = subprocess.run(
        [*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True
    ).stdout.strip()
    (repository / "a.txt").write_text("the answer\n")
    (repository / ".gitignore").write_text("docs\n")
    for words in (["commit", "-qam", "fix the bug"], ["tag", "fixed"], ["branch", "solution"]):
        subprocess.run([*git, *words], check=True)
    workspace = _workspace(
        tmp_path / "c", small_fleet.task(workspace=str(repository), commit=first), kind=kind
    )
    workspace.make()

    def seen(*words: str) -> str:
        return subprocess.run(
            ["git", "-C", workspace.repo, *words], capture_output=True, text=True, check=False
        ).stdout

    assert seen("log", "--all", "--format=%s") == "Base\n"
    assert seen("for-each-ref", "--format=%(refname)") == "refs/heads/main\n"
    assert seen("status", "--porcelain") == seen("remote") == seen("reflog") == ""
    objects = seen("cat-file", "--batch-all-objects", "--batch-check=%(objecttype)").split()
    assert sorted(objects) == ["blob", "blob", "commit", "tree", "tree"]
    everything = b"".join(path.read_bytes() for path in Path(workspace.repo).rglob("*") if path.is_file())
    assert str(repository).encode() not in everything
    assert not Path(workspace.repo, ".git/objects/info/alternates").exists()


@pytest.mark.parametrize("commit", ["main", ""])
def test_what_is_left_out_does_not_come_back_with_git(repository: Path, tmp_path: Path, commit: str) -> None:
    variant = Variant(name="v", agent="native", without=("docs/AGENTS.md",))
    workspace = _workspace(
        tmp_path / "c", small_fleet.task(workspace=str(repository), commit=commit), variant
    )
    workspace.make()
    git = ["git", "-C", workspace.repo]
    assert subprocess.run([*git, "status", "--porcelain"], capture_output=True, check=True).stdout == b""
    subprocess.run([*git, "checkout", "-q", "."], check=True)
    assert not Path(workspace.repo, "docs/AGENTS.md").exists()
    assert subprocess.run([*git, "show", "HEAD:docs/AGENTS.md"], capture_output=True, check=False).returncode


def test_ignored_files_of_the_commit_are_part_of_it(repository: Path, tmp_path: Path) -> None:
    (repository / ".gitignore").write_text("docs\nbuild\n")
    git = ["git", "-C", str(repository), "-c", "user.name=x", "-c", "user.email=x@x"]
    for words in (["add", "."], ["commit", "-qm", "ignore"]):
        subprocess.run([*git, *words], check=True)
    workspace = _workspace(tmp_path / "c", small_fleet.task(workspace=str(repository), commit="main"))
    workspace.make()
    workspace.remember()
    Path(workspace.repo, "docs/AGENTS.md").write_text("changed\n")
    Path(workspace.repo, "build").mkdir()
    Path(workspace.repo, "build/out").write_text("built\n")
    Path(workspace.repo, 'odd "name\n\\').write_text("odd\n")
    diff = workspace.diff()
    assert b"+changed" in diff
    assert b"built" not in diff
    assert b"+odd" in diff


def test_nothing_of_a_nested_repository_is_run(tmp_path: Path) -> None:
    """Not even by Git: what an agent made in a container would be run outside of it."""
    source = tmp_path / "source"
    nested = source / "sub"
    nested.mkdir(parents=True)
    (nested / "s.txt").write_text("one\n")
    (source / "top.txt").write_text("top\n")
    for folder in (nested, source):
        git = ["git", "-C", str(folder), "-c", "user.name=x", "-c", "user.email=x@x"]
        for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "one"]):
            subprocess.run([*git, *words], check=True, stderr=subprocess.DEVNULL)
    workspace = _workspace(tmp_path / "c", small_fleet.task(workspace=str(source)))
    workspace.make()
    workspace.remember()
    trap = f"touch {tmp_path}/trapped; cat"
    for name in ("filter.x.clean", "filter.x.smudge", "filter.x.process", "core.fsmonitor"):
        subprocess.run(["git", "-C", f"{workspace.repo}/sub", "config", name, trap], check=True)
    Path(workspace.repo, "sub/.gitattributes").write_text("* filter=x\n")
    Path(workspace.repo, "sub/s.txt").write_text("two\n")
    Path(workspace.repo, "new").mkdir()
    subprocess.run(["git", "-C", f"{workspace.repo}/new", "init", "-q"], check=True)
    Path(workspace.repo, "new/n.txt").write_text("new\n")
    diff = workspace.diff()
    assert b"-one\n+two\n" in diff
    assert b"+new" in diff
    assert not (tmp_path / "trapped").exists()


def test_a_link_that_the_agent_made_is_not_followed_for_the_patch(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret").write_text("secret\n")
    (tmp_path / "source/folder").mkdir(parents=True)
    (tmp_path / "source/folder/secret").write_text("mine\n")
    workspace = _workspace(tmp_path / "c", small_fleet.task(workspace=str(tmp_path / "source")))
    workspace.make()
    workspace.remember()
    remove(f"{workspace.repo}/folder")
    Path(workspace.repo, "folder").symlink_to(tmp_path / "outside")
    diff = workspace.diff()
    assert b"secret\n" not in diff.replace(b"/secret\n", b"")
    assert b"-mine" in diff
    assert b"+" + os.fsencode(tmp_path / "outside") in diff


def test_git_of_the_workspace_is_never_asked(repository: Path, tmp_path: Path) -> None:
    """An agent may configure programs that Git starts."""
    workspace = _workspace(tmp_path / "c", small_fleet.task(workspace=str(repository), commit="main"))
    workspace.make()
    workspace.remember()
    trap = tmp_path / "trapped"
    config = f'[core]\n fsmonitor = "touch {trap}"\n[filter "x"]\n clean = touch {trap}\n[diff]\n external = touch {trap}\n'
    with Path(workspace.repo, ".git/config").open("a") as file:
        file.write(config)
    Path(workspace.repo, ".gitattributes").write_text("* filter=x\n")
    Path(workspace.repo, "a.txt").write_text("two\n")
    assert b"+two" in workspace.diff()
    assert not trap.exists()


@pytest.fixture
def hostile(repository: Path, tmp_path: Path) -> Path:
    """A repository that names programs wherever Git would start one."""
    (repository / ".gitattributes").write_text("* filter=x diff=x\n")
    git = ["git", "-C", str(repository), "-c", "user.name=x", "-c", "user.email=x@x"]
    for words in (["add", "."], ["commit", "-qm", "two"]):
        subprocess.run([*git, *words], check=True)
    trap = f"touch {tmp_path}/trapped"
    names = ("core.fsmonitor", "core.sshCommand", "core.alternateRefsCommand", "uploadpack.packObjectsHook")
    names += ("diff.external", "diff.x.textconv", "filter.x.clean", "filter.x.smudge", "filter.x.process")
    for name in names:
        subprocess.run([*git, "config", name, trap], check=True)
    return repository


@pytest.mark.parametrize("kind", ["clone", "worktree"])
def test_a_clone_of_a_hostile_repository_runs_none_of_its_programs(
    hostile: Path, tmp_path: Path, kind: str
) -> None:
    (tmp_path / "evil.inc").write_text(f'[filter "x"]\n\tsmudge = touch {tmp_path}/trapped\n')
    with (hostile / ".git/config").open("a") as file:
        file.write(f'[includeIf "gitdir:**"]\n\tpath = {tmp_path}/evil.inc\n')
    (task,) = small_fleet.plan(
        tmp_path,
        [Variant(name="v", agent="native", model="scripted/demo")],
        [small_fleet.task(workspace=str(hostile), commit="main")],
    ).tasks
    workspace = _workspace(tmp_path / "c", task, kind=kind)
    workspace.make()
    workspace.remember()
    Path(workspace.repo, "a.txt").write_text("two\n")
    assert b"-one\n+two\n" in workspace.diff()
    workspace.remove()
    assert not (tmp_path / "trapped").exists()
    assert not (tmp_path / "hooked").exists()


def test_files_are_left_out_and_added(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("notes")
    variant = Variant(
        name="v", agent="native", without=("docs", "*.txt"), added={"x/NOTES": str(tmp_path / "notes")}
    )
    workspace = _workspace(tmp_path / "c", small_fleet.task(workspace=str(repository)), variant)
    workspace.make()
    assert sorted(os.listdir(workspace.repo)) == [".git", "x"]
    assert Path(workspace.repo, "x/NOTES").read_text() == "notes"
    assert (repository / "docs").is_dir()


def test_hidden_files_do_not_follow_links_that_the_agent_made(tmp_path: Path) -> None:
    outside, root, hidden = tmp_path / "outside", tmp_path / "root", tmp_path / "hidden"
    for folder in (outside, root, hidden):
        folder.mkdir()
    (outside / "precious").write_text("precious")
    (hidden / "test.py").write_text("hidden")
    (root / "tests").symlink_to(outside)
    put(str(root), "tests", str(hidden))
    assert (root / "tests/test.py").read_text() == "hidden"
    (root / "deep").symlink_to(outside)
    put(str(root), "deep/precious", str(hidden / "test.py"))
    (root / "file").symlink_to(outside / "precious")
    put(str(root), "file", str(hidden / "test.py"))
    assert os.listdir(outside) == ["precious"]
    assert (outside / "precious").read_text() == "precious"


def test_whatever_is_in_the_way_is_removed(tmp_path: Path) -> None:
    place, outside = tmp_path / "place", tmp_path / "outside"
    (place / "locked/inner").mkdir(parents=True)
    outside.mkdir(mode=0o755)
    (place / "link").symlink_to(outside)
    (place / "locked/inner").chmod(0)
    (place / "locked").chmod(0)
    remove(str(place))
    remove(str(tmp_path / "nothing"))
    assert not place.exists()
    assert outside.stat().st_mode & 0o777 == 0o755


def test_a_workspace_that_cannot_be_made_says_why(tmp_path: Path) -> None:
    task = small_fleet.task(workspace=str(tmp_path / "gone"))
    with pytest.raises(WorkspaceFailed, match="No such file"):
        _workspace(tmp_path / "c", task).make()
    with pytest.raises(WorkspaceFailed, match="git"):
        _workspace(tmp_path / "c", replace(task, commit="main")).make()
