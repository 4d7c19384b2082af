"""What a confined command leaves behind makes no other program run its programs: neither git, nor Harness, nor an agent.

Each attack runs confined in a workspace with repositories of several kinds. Afterwards git is started all over
the workspace, as its owner would, and must run nothing of what the attack left.
"""

from __future__ import annotations

import atexit
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest

from harness.errors import UsageError
from harness.sandbox.ladder import best_wall
from harness.sandbox.protected_paths import PROTECTED, guards, survey
from harness.workspace import git_directories
from lacking import lacking
from other_user import NOBODY, interpreter
from sandbox_kit import as_user, as_user_in_background, is_usable

MOUNTING = ("namespaces", "bubblewrap")
ENGINES = (*MOUNTING, "landlock")
USER = os.geteuid() or NOBODY
"""An ordinary one."""
SCRIPT = str(Path(__file__).with_name("confined_commands.py"))
GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "safe.directory=*")
PLANT = r"""
plant() {  # into the repository $1, all that makes git run something
    mkdir -p "$1/hooks" "$1/info"
    for hook in pre-commit post-commit post-checkout post-index-change; do
        printf '#!/bin/sh\necho %s >> "$MARK"\n' "$hook" > "$1/hooks/$hook"; chmod +x "$1/hooks/$hook"
    done
    printf '[core]\n\tfsmonitor = "echo fsmonitor >> %s; false"\n\tbare = false\n\tworktree = %s\n' "$MARK" "$PWD" >> "$1/config"
}
"""
ATTACKS = {
    "into what is there": "plant .git; plant nested/.git; plant bare.git",
    "a repository at the top": "rm -rf .git; git init -q .; plant .git",
    "the repository moved away": "mv .git aside; cp -r aside .git; git init -q; plant .git",
    "the nested one moved away": "mv nested/.git nested/old; git init -q nested; plant nested/.git",
    "its folder moved away": "mv nested other; git init -q nested; plant nested/.git; plant other/.git",
    "exchanged": "git init -q deep/x; plant deep/x/.git; mv -T --exchange deep/x/.git .git; mv --exchange nested deep/x",
    "a new one below": "mkdir -p deep/new; git init -q deep/new; plant deep/new/.git",
    "a bare one below": "git init -q --bare deep/naked; plant deep/naked",
    "a bare one inside another": "git init -q --bare deep/a; git init -q --bare deep/a/b; plant deep/a/b",
    "one inside a new .git": "git init -q deep/a; git init -q deep/a/.git/b; plant deep/a/.git/b/.git",
    "a .git that is a file": "git init -q --bare deep/g; plant deep/g; mkdir deep/w; echo 'gitdir: ../g' > deep/w/.git",
    "a .git that is a link": "git init -q --bare deep/g; plant deep/g; mkdir deep/w; ln -s ../g deep/w/.git",
    "a link's inode used again": "rm linked/.git; git init -q linked; plant linked/.git",
    "the top as a file": "git init -q --bare deep/g; plant deep/g; rm -rf .git; echo 'gitdir: deep/g' > .git",
    "another common folder": "git init -q --bare deep/g; plant deep/g; echo ../deep/g > .git/commondir; echo ../../deep/g > nested/.git/commondir",
    "configuration of a worktree": (
        "printf '[core]\\n\\tfsmonitor = \"echo worktree >> %s; false\"\\n' \"$MARK\" > .git/config.worktree;"
        "git config extensions.worktreeConfig true"
    ),
    "a worktree": "git init -q --bare deep/g; plant deep/g; git worktree add -q deep/tree; echo ../../../deep/g > .git/worktrees/tree/commondir",
    "an included file": "printf '[core]\\n\\tfsmonitor = \"echo included >> %s; false\"\\n' \"$MARK\" > more.gitconfig",
    "hooks in the tree": "printf '#!/bin/sh\\necho tree >> \"$MARK\"\\n' > tools/hooks/pre-commit; chmod +x tools/hooks/pre-commit; mv tools t2; mkdir -p tools/hooks; cp t2/hooks/* tools/hooks; chmod +x tools/hooks/*",
    "hard links": "git init -q deep/n; plant deep/n/.git; ln -f deep/n/.git/config .git/config; ln -f deep/n/.git/hooks/pre-commit .git/hooks/pre-commit",
    "through descriptors": "exec 9<.git; plant /proc/self/fd/9; plant /proc/self/cwd/.git",
    "a folder that cannot be written": "git init -q deep/n; plant deep/n/.git; chmod 500 deep/n deep/n/.git",
    "in the background": "(setsid sh -c 'sleep 0.3; plant .git' >/dev/null 2>&1 &); git init -q deep/n; plant deep/n/.git",
    "mounts": "unshare -Urm sh -c 'umount .git/hooks; umount -l .git; mount --bind deep .git; mount -o remount,rw,bind .git/hooks'; plant .git",
}  # fmt: skip


class Place:
    """A workspace with a repository, and others in it; `mark` is written by whatever an attack gets run."""

    first: ClassVar[dict[int, Path]] = {}
    """By user: a copy of the first one. Copying is faster than calling git."""

    def __init__(self, uid: int) -> None:
        self.uid = uid
        self.folder = Path(tempfile.mkdtemp(dir="/var/tmp", prefix="harness-protected-"))
        self.root, self.mark = self.folder / "work", self.folder / "marks" / "mark"
        self.env = {"PATH": os.environ["PATH"], "MARK": str(self.mark), "HOME": str(self.folder / "home")}
        if uid in Place.first:
            subprocess.run(["cp", "-a", f"{Place.first[uid]}/.", self.folder], check=True)
        else:
            self._fill()
            Place.first[uid] = Path(tempfile.mkdtemp(dir="/var/tmp", prefix="harness-protected-"))
            atexit.register(shutil.rmtree, Place.first[uid], ignore_errors=True)
            subprocess.run(["cp", "-a", f"{self.folder}/.", Place.first[uid]], check=True)

    def _fill(self) -> None:
        for path in (self.root / "deep", self.root / "tools/hooks", self.mark.parent, self.folder / "home"):
            path.mkdir(parents=True)
        for repository in (self.root, self.root / "nested"):
            self.git("init", "-q", str(repository))
            self.git("-C", str(repository), "commit", "-q", "--allow-empty", "-m", "first")
        self.git("init", "-q", "--bare", str(self.root / "bare.git"))
        self.git("-C", str(self.root / "nested"), "config", "core.hooksPath", "../tools/hooks")
        self.git("-C", str(self.root), "config", "include.path", "../more.gitconfig")
        (self.root / "top.txt").write_text("top\n")
        (self.root / "linked").mkdir()
        (self.root / "linked/.git").symlink_to("../bare.git")
        for path in (self.folder, *self.folder.rglob("*")):
            os.chown(path, self.uid, -1, follow_symlinks=False)

    def git(self, *words: str) -> str:
        return self.call(*GIT, *words)

    def call(self, *words: str) -> str:
        done = subprocess.run(
            words,
            env=self.env,
            capture_output=True,
            text=True,
            check=False,
            cwd=self.folder,
        )
        return done.stdout + done.stderr

    def asked(self, engine: str, **commands: str) -> dict[str, Any]:
        return {"engine": engine, "root": str(self.root), "env": self.env, "commands": commands}

    def run(self, engine: str, **commands: str) -> dict[str, str]:
        asked = json.dumps(self.asked(engine, **commands))
        outputs: dict[str, str] = json.loads(as_user(self.uid, [SCRIPT], asked))
        return outputs

    def use_git_everywhere(self) -> None:
        folders = [
            self.root,
            *(path for path in self.root.rglob("*") if path.is_dir() and not DULL & {*path.parts}),
        ]
        git = shlex.join(GIT)
        each = f'for d; do {git} -C "$d" status; {git} -C "$d" commit -q --allow-empty -m x; done'
        self.call("sh", "-c", each, "sh", *map(str, folders))

    def marks(self) -> str:
        return self.mark.read_text() if self.mark.exists() else ""

    def names(self) -> set[str]:
        return {name for name in PROTECTED if os.path.lexists(self.root / name)}


@pytest.fixture
def place() -> Iterator[Place]:
    here = Place(USER)
    yield here
    shutil.rmtree(here.folder, ignore_errors=True)


def need(engine: str) -> None:
    if not interpreter(USER):
        pytest.skip(lacking("Python for nobody"))
    if not is_usable(engine):
        pytest.skip(lacking(engine))
    if not shutil.which("git"):
        pytest.skip(lacking("git"))


DULL = {"objects", "refs", "logs", "info", "branches"}
MAY_FAIL_HERE = {"exchanged", "mounts"}
"""What needs a recent program, or what a machine may refuse to everybody."""


@pytest.fixture(scope="module")
def attacked() -> Callable[[str], dict[str, tuple[set[str], str, str]]]:
    """By attack: what there is of protected names afterwards, what git ran, and what was said; each engine once."""
    tried: dict[str, dict[str, tuple[set[str], str, str]]] = {}

    def attacked(engine: str) -> dict[str, tuple[set[str], str, str]]:
        need(engine)
        if engine not in tried:
            places = {attack: Place(USER) for attack in ATTACKS}
            asked = [place.asked(engine, it=PLANT + ATTACKS[attack]) for attack, place in places.items()]
            said = json.loads(as_user(USER, [SCRIPT], json.dumps(asked)))
            tried[engine] = {}
            for (attack, place), output in zip(places.items(), said, strict=True):
                names = place.names()
                place.use_git_everywhere()
                tried[engine][attack] = names, place.marks(), output["it"]
                shutil.rmtree(place.folder, ignore_errors=True)
        return tried[engine]

    return attacked


Attacked = Callable[[str], dict[str, tuple[set[str], str, str]]]


def test_every_attack_works_where_nothing_is_confined(attacked: Attacked) -> None:
    failed = {attack: output for attack, (_, marks, output) in attacked("free").items() if not marks}
    assert not failed.keys() - MAY_FAIL_HERE, failed


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("engine", ENGINES)
def test_git_runs_nothing_that_a_confined_command_left(attacked: Attacked, engine: str, attack: str) -> None:
    names, marks, output = attacked(engine)[attack]
    assert (names, marks) == ({".git"}, ""), output


ABSENT = [name for name in PROTECTED if name != ".git"]
WAYS = {
    "file": "mkdir -p $(dirname $n); echo x > $n",
    "folder": "mkdir -p $n; echo x > $n/settings.json",
    "below": "echo x > $n/hooks.json",
    "rename": "echo x > deep/f; mv deep/f $n; mkdir deep/d; mv -T deep/d $n",
    "link": "ln -s deep $n; ln top.txt $n; ln -sfn deep $n",
    "removed first": "rm -rf $n; rmdir $n; echo x > $n",
    "moved first": "mv $n deep/moved; echo x > $n",
    "folder above": "mv $(dirname $n) deep/above; mkdir -p $n; echo x > $n/x",
    "slowly": "sleep 0.05; echo x > $n; mkdir $n; echo x > $n/x",
}


@pytest.mark.parametrize("engine", ENGINES)
def test_no_protected_name_can_be_made_in_any_way(engine: str) -> None:
    """Nor is anything left of what stood in for it, also when several commands run at once."""
    need(engine)
    ways = {way: f"for n in {' '.join(ABSENT)}; do {command}; done" for way, command in WAYS.items()}
    tried = {**{way: {way: command} for way, command in ways.items()}, "all at once": ways}
    places = {name: Place(USER) for name in tried}
    try:
        asked = [places[name].asked(engine, **commands) for name, commands in tried.items()]
        as_user(USER, [SCRIPT], json.dumps(asked))
        assert {name: place.names() for name, place in places.items()} == {name: {".git"} for name in tried}
    finally:
        for place in places.values():
            shutil.rmtree(place.folder, ignore_errors=True)


@pytest.mark.parametrize("engine", ENGINES)
def test_what_is_there_stays_as_it_is(engine: str) -> None:
    need(engine)
    place = Place(os.geteuid())
    try:
        for name in PROTECTED:
            if name != ".git":
                (place.root / name).parent.mkdir(exist_ok=True)
                (place.root / name).write_text("mine")
        touch = "; ".join(f"echo x > {name}; rm -f {name}; mv -f top.txt {name}" for name in PROTECTED)
        place.run(engine, touch=touch)
        assert {(place.root / name).read_text() for name in PROTECTED if name != ".git"} == {"mine"}
    finally:
        shutil.rmtree(place.folder, ignore_errors=True)


@pytest.mark.parametrize("engine", MOUNTING)
def test_work_at_the_top_and_commits_continue(place: Place, engine: str) -> None:
    need(engine)
    place.git("-C", str(place.root), "config", "--unset", "include.path")
    shutil.rmtree(place.root / "linked")
    identity = "export GIT_CONFIG_COUNT=2 GIT_CONFIG_KEY_0=user.name GIT_CONFIG_VALUE_0=a GIT_CONFIG_KEY_1=user.email GIT_CONFIG_VALUE_1=a@b"
    work = (
        f"set -e; {identity}; sed -i s/top/changed/ top.txt; echo x > new.txt; mkdir build; mv new.txt build/;"
        "git add -A; git status --short; git commit -qm second; git checkout -qb topic; git commit -q --allow-empty -m third;"
        "git checkout -q -; git merge -q --no-edit topic; git stash list; git tag v1; git log --format=%s; ls -A .github"
    )
    output = place.run(engine, work=work)["work"]
    assert "exit code: 0" in output, output
    assert "third\nsecond\nfirst" in output
    assert place.git("-C", str(place.root), "log", "--format=%s", "topic").startswith("third\nsecond\nfirst")
    committed = place.git("-C", str(place.root), "ls-tree", "-r", "--name-only", "HEAD").split()
    assert {name.split("/")[0] for name in committed} == {"build", "top.txt", "nested", "bare.git"}
    assert "bare.git/commondir" not in committed
    assert sorted(os.listdir(place.root)) == [
        ".git",
        "bare.git",
        "build",
        "deep",
        "nested",
        "tools",
        "top.txt",
    ]
    assert not {"commondir", "modules", "worktrees", "config.worktree"} & {*os.listdir(place.root / ".git")}


@pytest.mark.parametrize("engine", ENGINES)
def test_a_linked_worktree_keeps_its_repository(place: Place, engine: str) -> None:
    need(engine)
    tree = place.root / "tree"
    place.git("-C", str(place.root), "worktree", "add", "-q", str(tree))
    for path in (tree, *tree.rglob("*")):
        os.chown(path, place.uid, -1)
    before = (tree / ".git").read_text()
    it = PLANT + "rm -f .git; mv .git x; git init -q; plant .git"
    as_user(place.uid, [SCRIPT], json.dumps({**place.asked(engine, it=it), "root": str(tree)}))
    assert (tree / ".git").read_text() == before
    assert sorted(os.listdir(tree)) == [".git"]


@pytest.mark.parametrize("engine", MOUNTING)
def test_a_harmless_new_repository_stays(place: Place, engine: str) -> None:
    need(engine)
    output = place.run(
        engine,
        a="git init -q deep/n; git -C deep/n -c user.name=a -c user.email=b commit -q --allow-empty -m x",
    )["a"]
    assert output == "exit code: 0"
    assert (place.root / "deep/n/.git/HEAD").is_file()


@pytest.mark.parametrize("engine", MOUNTING)
def test_a_harmful_one_is_switched_off_and_the_model_is_informed(place: Place, engine: str) -> None:
    need(engine)
    output = place.run(engine, a=PLANT + "git init -q deep/n; plant deep/n/.git")["a"]
    emitted = f"error: {place.root}/deep/n/.git was switched off (.git is refused now): it has hooks"
    assert emitted in output
    assert (place.root / "deep/n/.git.refused/hooks/pre-commit").is_file()


@contextmanager
def running(place: Place, engine: str, command: str) -> Iterator[subprocess.Popen[str]]:
    """A program that runs the command, confined; the block begins when the command has."""
    with as_user_in_background(place.uid, [SCRIPT]) as process:
        assert process.stdin is not None
        process.stdin.write(json.dumps(place.asked(engine, it=f"touch began; {command}")))
        process.stdin.close()
        wait_for(place.root / "began")
        yield process


@pytest.mark.parametrize("engine", MOUNTING)
def test_what_a_user_puts_into_a_stand_in_stays(place: Place, engine: str) -> None:
    need(engine)
    with running(place, engine, "while [ ! -e go ]; do sleep 0.01; done; echo x > .claude/x") as process:
        (place.root / ".claude/settings.json").write_text("mine")
        (place.root / "go").touch()
        process.wait()
    assert os.listdir(place.root / ".claude") == ["settings.json"]
    assert place.names() == {".git", ".claude"}


@pytest.mark.parametrize("engine", MOUNTING)
def test_no_stand_in_is_left_when_harness_is_killed(place: Place, engine: str) -> None:
    need(engine)
    with running(place, engine, "sleep 60") as process:
        assert (place.root / ".claude").is_dir()
        process.kill()
        process.wait()
    deadline = time.monotonic() + 60
    while place.names() != {".git"}:
        assert time.monotonic() < deadline, place.names()
        time.sleep(0.02)


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("engine", MOUNTING)
def test_a_protected_link_cannot_be_protected_so_nothing_runs(place: Place, engine: str) -> None:
    need(engine)
    (place.root / ".claude").symlink_to("deep")
    output = place.run(engine, ran="touch ran")["ran"]
    assert "is a symbolic link, and what is there could not be protected" in output
    assert not (place.root / "ran").exists()


def test_the_home_directory_and_harness_itself_are_no_workspace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import harness

    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    for root in (tmp_path / "home", tmp_path, Path(harness.__file__).parent / "native"):
        with pytest.raises(UsageError, match="nothing can be confined"):
            survey([str(root)])


def test_harness_itself_is_protected_inside_of_a_workspace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/dev/null/nowhere")
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "a/.venv"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    paths = {guard.path: guard.is_open for guard in guards(survey([str(tmp_path)]))}
    assert paths[f"{tmp_path}/a/.venv"] is False
    assert paths[f"{tmp_path}/a"] is True
    assert paths[f"{tmp_path}/data/harness"] is False


def test_nothing_is_opened_again_below_what_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/dev/null/nowhere")
    (tmp_path / ".claude/plugins/p/.git/refs").mkdir(parents=True)
    (tmp_path / ".claude/plugins/p/.git/HEAD").touch()
    paths = [guard.path for guard in guards(survey([str(tmp_path)]))]
    assert f"{tmp_path}/.claude" in paths
    assert not [path for path in paths if path.startswith(f"{tmp_path}/.claude/")]


def test_a_folder_that_goes_while_it_is_searched_is_no_folder_that_cannot_be_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = [git_directories.find(str(tmp_path))]
    (gone := tmp_path / "gone").mkdir()
    scan = os.scandir

    def scan_too_late(folder: str) -> Iterator[os.DirEntry[str]]:
        if folder == str(gone):
            gone.rmdir()
        return scan(folder)

    monkeypatch.setattr(os, "scandir", scan_too_late)
    assert git_directories.switch_off_new([str(tmp_path)], before) == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('[core]\n\trepositoryformatversion = 0\n\tbare = false\n[remote "o"]\n\turl = https://h/x.git\n', ""),
        ("[core]\n\tfsmonitor = x\n", "its config sets core.fsmonitor"),
        ("[core] fsmonitor = x\n", "its config sets "),
        ("[CORE]\n\tFSMONITOR = x\n", "its config sets core.fsmonitor"),
        ("[core]\n\tbare = \\\n\tfsmonitor = x\n", "its config sets "),
        ("[core]\r\thooksPath = x\n", "its config sets core.hookspath"),
        ("[include]\n\tpath = ../x\n", "its config sets include.path"),
        ('[includeIf "gitdir:/"]\n\tpath = ../x\n', "its config sets includeif.path"),
        ('[remote "o"]\n\turl = ext::sh -c evil\n', "its config sets remote.url"),
        ('[remote "o"]\n\turl = --upload-pack=evil\n', "its config sets remote.url"),
        ('[filter "x"]\n\tclean = evil\n', "its config sets filter.clean"),
        ("[alias]\n\tstatus = !evil\n", "its config sets alias.status"),
        ("[core.x]\n\tfsmonitor = x\n", "its config sets "),
        ("x" * 200_000, "its config sets too much to be read"),
    ],
)  # fmt: skip
def test_configuration_is_harmless_only_if_all_of_it_is_known(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "config").write_text(text)
    assert git_directories.why_harmful(str(tmp_path)).startswith(reason)
    assert bool(git_directories.why_harmful(str(tmp_path))) == bool(reason)


def test_the_document_names_everything_that_is_protected() -> None:
    text = (Path(__file__).parents[2] / "docs/tools.md").read_text()
    missing = [name for name in (*PROTECTED, *git_directories.GUARDED) if f"`{name}`" not in text]
    assert missing == []


def test_file_tools_write_nothing_that_is_protected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from harness.native.tools.registry import default_tools
    from tool_kit import Bench

    if best_wall() is None:
        pytest.skip(lacking("wall"))
    bench = Bench(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for part in ("bare/objects", "bare/refs", ".git/refs"):
        (bench.root / part).mkdir(parents=True)
    (bench.root / "bare/HEAD").touch()
    (bench.root / ".git/config").write_text("[core]\n\thooksPath = tools/hooks\n")
    (write,) = (tool for tool in default_tools(str(bench.root), sandbox=True) if tool.spec.name == "write")
    for path in (
        *PROTECTED,
        ".CLAUDE/x",
        "a/.git/config",
        "a/.GIT/x",
        "bare/config",
        "tools/hooks/pre-commit",
    ):
        assert "protected" in bench.refused(write, filePath=path, content="x"), path
    bench.call(write, filePath=".github/workflows/x.yml", content="x")
