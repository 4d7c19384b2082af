"""Every way that a repository can name a program, and everything that Harness does with git: nothing of it runs.

A control shows that the trap works: plain git falls into it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from changed_folders import GIT_ENVIRONMENT, ChangingAgent, git, repository, write
from harness.clients.changes.revert import commit, revert
from harness.clients.workspaces.folders import FileSearch
from harness.clients.workspaces.worktrees import make_branch, make_worktree, remove_worktree
from harness.errors import HarnessError
from harness.fleet.plans.plan import FleetCase, FleetPlan, FleetTask, Variant
from harness.fleet.workspace import CaseWorkspace, WorkspaceFailed
from harness.workspace.git_calls import blank_git

HOOKS = (
    "pre-commit",
    "prepare-commit-msg",
    "commit-msg",
    "post-commit",
    "post-index-change",
    "reference-transaction",
    "post-checkout",
    "fsmonitor-watchman",
    "pre-auto-gc",
)
FILTER = '[filter "x"]\n\tclean = {0}\n\tsmudge = {0}\n'
CONFIGURATIONS = {
    "fsmonitor": "[core]\n\tfsmonitor = {0}\n",
    "filters": FILTER,
    "filter process": '[filter "x"]\n\tprocess = {0}\n\trequired = true\n',
    "filters of worktrees": '[includeIf "gitdir:**/worktrees/**"]\n\tpath = {0}.filter\n',
    "filters of a branch": '[includeIf "onbranch:run-*"]\n\tpath = {0}.filter\n',
    "hooks folder": "[core]\n\thooksPath = {0}.hooks\n",
    "configured hooks": "".join(
        f'[hook "a=b.{event}"]\n\tevent = {event}\n\tcommand = {{0}}\n' for event in HOOKS
    ),
    "external diff": '[diff]\n\texternal = {0}\n[diff "x"]\n\tcommand = {0}\n\ttextconv = {0}\n',
    "pager": "[core]\n\tpager = {0}\n\teditor = {0}\n[pager]\n\tls-files = {0}\n\tdiff-index = {0}\n",
    "signing": "[commit]\n\tgpgSign = true\n[log]\n\tshowSignature = true\n[gpg]\n\tprogram = {0}\n",
    "aliases": "[alias]\n\tls-files = !{0}\n\tcat-file = !{0}\n\trev-parse = !{0}\n\tworktree = !{0}\n",
    "ssh and credentials": "[core]\n\tsshCommand = {0}\n\taskPass = {0}\n\tgitProxy = {0}\n"
    "[credential]\n\thelper = {0}\n",
    "alternate refs": "[core]\n\talternateRefsCommand = {0}\n[uploadpack]\n\tpackObjectsHook = {0}\n",
    "partial clone": "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tpartialClone = origin\n"
    '[remote "origin"]\n\turl = {1}\n\tpromisor = true\n\tuploadpack = {0}\n',
    "submodule": '[submodule "sub"]\n\tactive = true\n\turl = {1}\n\tupdate = !{0}\n[submodule]\n\trecurse = true\n',
    "nested repository": "",
    "templates": "[init]\n\ttemplateDir = {0}.template\n",
}
"""`{0}` is the trap, `{1}` another repository."""


class Hostile:
    """A repository with one of the configurations, and the mark that a program of it would leave."""

    def __init__(self, top: Path, kind: str) -> None:
        self.kind = kind
        self.mark = top / "it-ran"
        self.trap = top / "trap.sh"
        self.trap.write_text(f'#!/bin/sh\necho "$0 $*" >> {self.mark}\ncat\n')
        self.trap.chmod(0o755)
        (top / "trap.sh.filter").write_text(FILTER.format(self.trap))
        for hooks in (top / "trap.sh.hooks", top / "trap.sh.template/hooks"):
            hooks.mkdir(parents=True)
            for name in HOOKS:
                shutil.copy(self.trap, hooks / name)
        files = {"a.txt": "a\n", "b.txt": "b\n", ".gitattributes": "* filter=x diff=x\n"}
        self.other = repository(top / "other", {"s.txt": "s\n"})
        self.folder = repository(top / "r", files)
        if kind in ("submodule", "nested repository"):
            self._nest(is_submodule=kind == "submodule")
        if kind == "partial clone":
            self._lose("HEAD:b.txt")
        with (self.folder / ".git/config").open("a") as file:
            file.write(CONFIGURATIONS[kind].format(self.trap, self.other))

    def _nest(self, *, is_submodule: bool) -> None:
        inner = repository(self.folder / "sub", {"s.txt": "s\n", ".gitattributes": "* filter=x\n"})
        if is_submodule:
            write(self.folder, {".gitmodules": f'[submodule "sub"]\n\tpath = sub\n\turl = {self.other}\n'})
            git(self.folder, "add", ".gitmodules", "sub")
            git(self.folder, "commit", "-q", "-m", "sub")
        with (inner / ".git/config").open("a") as file:
            file.write(FILTER.format(self.trap) + f"[core]\n\tfsmonitor = {self.trap}\n")
        write(inner, {"s.txt": "changed\n"})

    def _lose(self, name: str) -> None:
        found = git(self.folder, "rev-parse", name)
        (self.folder / ".git/objects" / found[:2] / found[2:]).unlink()


def look(hostile: Hostile) -> None:
    agent = ChangingAgent(hostile.folder)
    agent.turn("one")
    agent.edit("a.txt", "a", "changed by the agent")
    review = agent.review()
    for scope in ("conversation", "uncommitted", "base"):
        with suppress(HarnessError):
            review.listing(scope)
            review.patch(scope)
            review.diff(scope, "a.txt")
    assert "a.txt" in FileSearch().find(str(hostile.folder), "", 50)


def revert_and_commit(hostile: Hostile) -> None:
    agent = ChangingAgent(hostile.folder)
    agent.turn("one")
    agent.edit("a.txt", "a", "changed by the agent")
    agent.write("new.txt", "new\n")
    review = agent.review()
    with suppress(HarnessError):
        plan = revert(review, "log", "uncommitted", ["new.txt"], {}, dry_run=True)
        expect = {file.path: file.digest for file in plan.files}
        revert(review, "log", "uncommitted", ["new.txt"], expect, dry_run=False)
    assert review.repository is not None
    with suppress(HarnessError):  # a file that goes through a filter is not committed
        commit(review, ["a.txt"], "by us", review.repository.head(), {})


def branch_and_worktree(hostile: Hostile) -> None:
    if hostile.kind == "partial clone":
        with pytest.raises(HarnessError, match="git checkout-index"):
            make_worktree(str(hostile.folder), "run-1")
        assert git(hostile.folder, "branch", "--list", "run-1") == ""
    else:
        place = make_worktree(str(hostile.folder), "run-1")
        assert Path(place, "b.txt").read_text() == "b\n"
        write(Path(place), {"a.txt": "changed\n"})
        remove_worktree(place, is_forced=True)
    make_branch(str(hostile.folder), "run-2")


def apply_a_patch(hostile: Hostile) -> None:
    patch = hostile.folder.parent / "patch"
    patch.write_text("diff --git a/a.txt b/a.txt\n--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-a\n+b\n")
    with blank_git(str(hostile.folder)) as calls:
        calls.ask("apply", str(patch))
    assert (hostile.folder / "a.txt").read_text() == "b\n"


def work_in_a_fleet(hostile: Hostile) -> None:
    variant = Variant(name="v", agent="native")
    head = (hostile.folder / ".git/refs/heads/main").read_text().strip()
    for number, name in enumerate((head, "")):
        task = FleetTask(id="t", prompt="x", workspace=str(hostile.folder), commit=name)
        plan = FleetPlan(name="x", tasks=(task,), variants=(variant,))
        place = hostile.folder.parent / f"work-{number}"
        case = FleetCase("c", task, variant, 0)
        workspace = CaseWorkspace(str(place), f"{place}.base", plan, case, lambda: False)
        try:
            workspace.make()
        except WorkspaceFailed:
            assert hostile.kind == "partial clone"  # its objects are not fetched
            continue
        workspace.remember()
        write(Path(workspace.repo), {"a.txt": "changed\n"})
        assert b"+changed" in workspace.diff()
        workspace.remove()


ACTIONS: tuple[Callable[[Hostile], None], ...] = (
    look,
    revert_and_commit,
    branch_and_worktree,
    apply_a_patch,
    work_in_a_fleet,
)


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("kind", CONFIGURATIONS)
def test_no_program_of_a_repository_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, action: Callable[[Hostile], None]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    hostile = Hostile(tmp_path, kind)
    action(hostile)
    assert not hostile.mark.exists(), hostile.mark.read_text()


@pytest.mark.parametrize("kind", ["fsmonitor", "filters", "hooks folder", "nested repository"])
def test_the_traps_work(tmp_path: Path, kind: str) -> None:
    hostile = Hostile(tmp_path, kind)
    write(hostile.folder, {"a.txt": "changed\n"})
    if kind == "nested repository":
        subprocess.run(["git", "status"], cwd=hostile.folder / "sub", env=GIT_ENVIRONMENT, check=False)
    else:
        words = ["git", "commit", "-qam", "x"]
        subprocess.run(words, cwd=hostile.folder, env=GIT_ENVIRONMENT, check=False, stdin=subprocess.DEVNULL)
    assert hostile.mark.exists()


def test_an_included_filter_works_in_a_worktree_of_plain_git(tmp_path: Path) -> None:
    hostile = Hostile(tmp_path, "filters of worktrees")
    words = ["git", "worktree", "add", "-q", str(tmp_path / "w")]
    subprocess.run(words, cwd=hostile.folder, env=GIT_ENVIRONMENT, check=False)
    assert hostile.mark.exists()


def test_the_files_of_a_worktree_are_as_git_writes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    folder = repository(
        tmp_path / "r", {".gitattributes": "*.bat eol=crlf\n", "run.bat": "a\nb\n", "ä b": "x"}
    )
    (folder / "link").symlink_to("ä b")
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "second")
    place = Path(make_worktree(str(folder), "run-1"))
    assert (place / "run.bat").read_bytes() == b"a\r\nb\r\n"
    assert (place / "link").readlink() == Path("ä b")
    assert os.access(place / "run.sh", os.X_OK)
    assert git(place, "status", "--porcelain") == ""
    assert git(place, "log", "-1", "--format=%s") == "second"
