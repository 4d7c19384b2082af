"""A wall around any program: what it sees, what it can change, and how it ends; by every means that works here."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.errors import UsageError
from harness.process.child import Child
from harness.process.invocation import Invocation
from harness.sandbox.ladder import best_wall
from harness.sandbox.wall import Wall
from lacking import lacking
from other_user import NOBODY, interpreter
from sandbox_kit import as_user, is_usable

USERS = [os.geteuid(), *([NOBODY] if os.geteuid() == 0 else [])]
MOUNTING = ("namespaces", "bubblewrap")
SCRIPT = str(Path(__file__).with_name("behind_wall.py"))


class Place:
    """A home with secrets and an agent's own folder in it, and a workspace with settings of several agents."""

    def __init__(self, engine: str, uid: int) -> None:
        self.engine, self.uid = engine, uid
        self.folder = Path(tempfile.mkdtemp(dir="/var/tmp", prefix="harness wall-"))
        self.home, self.work = self.folder / "home", self.folder / "home/project"
        for path in (self.work / ".claude", self.home / ".agent-home", self.home / ".tools"):
            path.mkdir(parents=True)
        (self.home / "secret").write_text("secret")
        (self.folder / "file").write_text("secret")
        (self.home / ".tools/tool").write_text("tool")
        (self.work / ".claude/settings.json").write_text('{"hooks": {}}')
        (self.work / ".mcp.json").write_text('{"mcpServers": {"evil": {}}}')
        (self.work / "harness.toml").write_text("evil = 1")
        (self.work / "file.txt").write_text("file")
        for path in (self.folder, *self.folder.rglob("*")):
            os.chown(path, uid, -1)

    def run(self, command: str, **wall: Any) -> dict[str, Any]:
        parts = {
            "workspaces": [str(self.work)],
            "hidden": [str(self.home)],
            "writable": [str(self.home / ".agent-home")],
            "readable": [str(self.home / ".tools")],
            **wall,
        }
        env = {"PATH": os.environ["PATH"], "HOME": str(self.home)}
        asked = {
            "engine": self.engine,
            "wall": parts,
            "argv": ["/bin/sh", "-c", f"exec 2>&1; {command}"],
            "env": env,
            "cwd": str(self.work),
        }
        answer: dict[str, Any] = json.loads(as_user(self.uid, [SCRIPT], json.dumps(asked)))
        return answer

    def names(self) -> set[str]:
        return {str(path.relative_to(self.folder)) for path in self.folder.rglob("*")}


@pytest.fixture(params=MOUNTING)
def engine(request: pytest.FixtureRequest) -> str:
    if not is_usable(request.param):
        pytest.skip(lacking(request.param))
    return str(request.param)


@pytest.fixture(params=USERS)
def place(engine: str, request: pytest.FixtureRequest) -> Iterator[Place]:
    if not interpreter(request.param):
        pytest.skip(lacking("Python for nobody"))
    place = Place(engine, request.param)
    yield place
    shutil.rmtree(place.folder)


def test_of_a_hidden_home_only_what_is_named_is_seen(place: Place) -> None:
    before = place.names()
    answer = place.run(
        'ls -A "$HOME"; cat "$HOME/.tools/tool"; echo x > "$HOME/.tools/tool"; echo x > "$HOME/.tools/new";'
        'echo lost > "$HOME/lost" && cat "$HOME/lost"; echo kept > "$HOME/.agent-home/kept"; cat "$HOME/secret"; exit 3'
    )
    assert answer["code"] == 3
    assert answer["said"].startswith(".agent-home\n.tools\nproject\ntool")
    assert "lost\n" in answer["said"]
    assert "home/secret" in answer["said"]
    assert place.names() - before == {"home/.agent-home/kept"}
    assert (place.home / ".tools/tool").read_text() == "tool"


def test_settings_that_are_kept_are_seen_and_cannot_be_changed(place: Place) -> None:
    before = place.names()
    answer = place.run(
        "cat .mcp.json harness.toml .claude/settings.json; for n in .mcp.json .claude/settings.json .claude/new .codex/x"
        " .vscode/tasks.json .github/hooks/x; do echo x > $n; done; echo x > top.txt; mv .claude gone; cat top.txt"
    )
    assert '{"mcpServers": {"evil": {}}}evil = 1{"hooks": {}}' in answer["said"]
    assert answer["said"].endswith("x\n")
    assert place.names() - before == {"home/project/top.txt"}
    assert (place.work / ".mcp.json").read_text() == '{"mcpServers": {"evil": {}}}'


def test_settings_that_are_blank_are_not_seen_by_the_program_nor_its_children(place: Place) -> None:
    before = place.names()
    answer = place.run(
        "sh -c 'cat .mcp.json harness.toml'; ls -A .claude; cat .claude/settings.json; echo x > .claude/thrown-away;"
        "cat .claude/thrown-away; echo x > .mcp.json; umount .claude; umount .mcp.json; cat .mcp.json; cat file.txt",
        settings="blank",
    )
    assert "evil" not in answer["said"]
    assert "hooks" not in answer["said"]
    assert answer["said"].startswith("{}\n")
    assert answer["said"].endswith("{}\nfile")
    assert place.names() == before
    assert "evil" in (place.work / ".mcp.json").read_text()


def test_what_is_written_to_settings_can_be_thrown_away_instead_of_refused(place: Place) -> None:
    before = place.names()
    answer = place.run(
        "cat .claude/settings.json; echo; for n in .codex/x .claude/x; do echo new > $n && cat $n; done; cat .mcp.json;"
        "rm .claude/settings.json; mv .codex gone; rmdir .codex; echo x > .vscode/x",
        discards=[".claude", ".codex"],
    )
    if place.engine == "namespaces":
        assert answer["said"].startswith('{"hooks": {}}\nnew\nnew\n{"mcpServers"'), answer
    assert ".vscode/x: Read-only file system" in answer["said"]
    assert place.names() == before
    assert (place.work / ".claude/settings.json").read_text() == '{"hooks": {}}'


def test_an_absent_file_reads_as_empty_and_git_sees_nothing_of_it(place: Place) -> None:
    if not shutil.which("git"):
        pytest.skip(lacking("git"))
    subprocess.run(["git", "init", "-q", str(place.work)], check=True)
    subprocess.run(["git", "-c", "safe.directory=*", "-C", str(place.work), "add", "-A"], check=True)
    for path in (place.work, *place.work.rglob("*")):
        os.chown(path, place.uid, -1)
    before = place.names()
    answer = place.run(
        "cat opencode.json kilo.jsonc .aider.conf.yml && echo read; echo x > opencode.json; rm opencode.json;"
        "mv file.txt kilo.json; git -c safe.directory=* status --short --untracked-files=all | grep -v '^A'"
    )
    assert answer["said"].startswith("read\n"), answer
    assert "??" not in answer["said"], answer
    assert place.names() == before


def test_only_the_names_of_the_wall_are_blank(place: Place) -> None:
    answer = place.run("cat .mcp.json; cat harness.toml", settings="blank", protected=[".mcp.json"])
    assert answer["said"] == "{}\nevil = 1"


def test_where_nothing_is_confined_only_settings_are_blank(place: Place) -> None:
    """For a folder that is not trusted: absent names stay absent, and everything else is as without a wall."""
    outside = place.folder / "outside"
    answer = place.run(
        f'cat .mcp.json; ls -A .claude; echo x > .claude/thrown-away; cat "$HOME/secret"; echo; ls -d .codex .vscode;'
        f'echo x > "{outside}"; mkdir .codex; echo kept > .codex/x; echo "$TMPDIR"',
        confines=False,
        settings="blank",
        hidden=[],
    )
    assert answer["said"].startswith("{}\nsecret\n"), answer
    assert "evil" not in answer["said"]
    assert outside.read_text() == "x\n"
    assert (place.work / ".codex/x").read_text() == "kept\n"
    assert os.listdir(place.work / ".claude") == ["settings.json"]
    assert answer["refused"] == []


def test_something_can_be_hidden_where_nothing_is_confined(place: Place) -> None:
    """But for what is named in it; files as well as folders, and what is written there is lost."""
    outside = place.folder / "outside"
    answer = place.run(
        f'ls -A "$HOME"; cat "$HOME/.tools/tool"; echo; echo kept > "$HOME/.tools/new"; echo lost > "$HOME/lost";'
        f'cat "{place.folder}/file"; echo forged > "{place.folder}/file"; echo x > "{outside}"; echo x > top.txt; cat .mcp.json',
        confines=False,
        hidden=[str(place.home), str(place.folder / "file")],
        protected=[],
    )
    assert answer["said"].startswith(".agent-home\n.tools\nproject\ntool\n"), answer
    assert "secret" not in answer["said"]
    assert "evil" in answer["said"]
    assert outside.read_text() == "x\n"
    assert (place.home / ".tools/new").read_text() == "kept\n"
    assert (place.work / "top.txt").read_text() == "x\n"
    assert not (place.home / "lost").exists()
    assert (place.folder / "file").read_text() == "secret"


def test_the_system_is_read_only_and_other_processes_are_not_seen(place: Place) -> None:
    answer = place.run(
        "touch /etc/x /usr/x /var/tmp/x 2>/dev/null; ls /proc | grep -c '^[0-9]*$'; ls -A /tmp; touch /tmp/mine;"
        "test -e /dev/shm && echo x > /dev/shm/x; ls /dev | tr '\\n' ' '"
    )
    count, _, devices = answer["said"].partition("\n")
    assert int(count) < 8
    assert {"null", "zero", "urandom", "pts", "shm"} <= set(devices.split())
    assert not {"sda", "vda", "mem", "kmsg", "loop0"} & set(devices.split())
    assert not os.path.exists("/etc/x")
    assert not os.path.exists("/tmp/mine")


@pytest.mark.parametrize(("network", "reached"), [("none", False), ("host", True)])
def test_the_network_is_as_the_wall_says(place: Place, network: str, reached: bool) -> None:
    import socket

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        line = f"import socket; socket.create_connection(('127.0.0.1', {port}), 2); print('reached')"
        answer = place.run(f'{shlex.quote(interpreter(place.uid))} -I -c "{line}"', network=network)
    assert answer["said"].endswith("reached\n") is reached, answer


def test_with_ports_only_these_are_reached(place: Place) -> None:
    import socket

    from harness.system.confinement import TCP_SINCE, landlock_version

    if landlock_version() < TCP_SINCE:
        pytest.skip("the Landlock of this kernel knows nothing of TCP")
    with socket.socket() as one, socket.socket() as other:
        for listener in (one, other):
            listener.bind(("127.0.0.1", 0))
            listener.listen()
        ports = [listener.getsockname()[1] for listener in (one, other)]
        lines = (
            f"import socket\nfor port in {ports}:\n"
            "  try: socket.create_connection(('127.0.0.1', port), 2); print('reached')\n"
            "  except PermissionError: print('refused')\n"
        )
        answer = place.run(
            f'{shlex.quote(interpreter(place.uid))} -I -c "{lines}"', network="host", ports=ports[:1]
        )
    assert answer["said"] == "reached\nrefused\n"


def test_a_socket_outside_is_not_reached_with_the_network_of_the_host_either(place: Place) -> None:
    import socket

    path = str(place.work / "socket")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        os.chmod(path, 0o777)
        line = f"import socket; socket.socket(1).connect('{path}'); print('reached')"
        answer = place.run(f'{shlex.quote(interpreter(place.uid))} -I -c "{line}"', network="host")
    assert "PermissionError" in answer["said"]


def test_a_terminal_of_its_own_can_be_opened(place: Place) -> None:
    line = "import os; m, s = os.openpty(); os.write(s, b'x'); print(os.ttyname(s), os.read(m, 1))"
    answer = place.run(f'{shlex.quote(interpreter(place.uid))} -I -c "{line}"')
    assert answer["said"] == "/dev/pts/0 b'x'\n"


@pytest.mark.parametrize(("command", "code", "ended_by"), [("exit 7", 7, None), ("kill -TERM $$", None, 15)])
def test_it_ends_as_its_program_ended(place: Place, command: str, code: int, ended_by: int | None) -> None:
    answer = place.run(command)
    if place.engine == "namespaces":
        assert (answer["code"], answer["signal"]) == (code, ended_by)
    else:
        assert (answer["code"], answer["signal"]) == (code or 128 + (ended_by or 0), None)


def test_a_program_that_is_missing_is_said_to_be(place: Place) -> None:
    (place.work / "script").write_text("#!/nowhere/interpreter\n")
    (place.work / "script").chmod(0o755)
    answer = place.run("./script")
    assert answer["code"] == 127
    assert "not found" in answer["said"]
    assert not place.names() & {"home/project/.codex", "home/project/.vscode"}


def test_a_new_repository_with_hooks_and_a_rebase_that_runs_something_are_named(place: Place) -> None:
    if not shutil.which("git"):
        pytest.skip(lacking("git"))
    git = "git -c user.name=a -c user.email=a@b -c safe.directory=*"
    subprocess.run(["git", "init", "-q", str(place.work)], check=True)
    for path in (place.work, *place.work.rglob("*")):
        os.chown(path, place.uid, -1)
    answer = place.run(
        f"echo x > new.txt; {git} add new.txt && {git} commit -qm first && git init -q sub && echo x > sub/.git/hooks/pre-commit;"
        "mkdir .git/rebase-merge && echo 'exec evil' > .git/rebase-merge/git-rebase-todo"
    )
    assert answer["code"] == 0, answer
    assert [line.split(" was switched off")[0] for line in answer["refused"]] == [
        f"{place.work}/sub/.git",
        f"{place.work}/.git/rebase-merge",
    ]
    assert not (place.work / ".git/rebase-merge").exists()
    again = place.run(f"{git} log --format=%s; {git} status --short")
    assert again["refused"] == []
    assert again["said"].startswith("first\n")


def test_a_rebase_that_is_under_way_is_not_changed(place: Place) -> None:
    rebase = place.work / ".git/rebase-merge"
    rebase.mkdir(parents=True)
    (place.work / ".git/HEAD").write_text("ref: refs/heads/main\n")
    (rebase / "git-rebase-todo").write_text("exec make\n")
    answer = place.run("echo 'exec evil' > .git/rebase-merge/git-rebase-todo; mv .git/rebase-merge .git/x")
    assert answer["refused"] == []
    assert (rebase / "git-rebase-todo").read_text() == "exec make\n"


# What `Child` does with a wall


@pytest.fixture
def folder() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(dir="/var/tmp", prefix="harness-wall-"))
    yield path
    shutil.rmtree(path)


def behind(folder: Path, command: str) -> Child:
    rung = best_wall()
    if rung is None or not rung.hides:
        pytest.skip(lacking("wall of mounts"))
    wall = Wall(workspaces=(str(folder),))
    return Child(Invocation(("/bin/sh", "-c", command), {"PATH": os.environ["PATH"]}, str(folder), wall=wall))


def test_signals_reach_the_program_and_not_its_wall(folder: Path) -> None:
    rung = best_wall()
    if rung is None or rung.name != "namespaces":
        pytest.skip("bubblewrap ends with the first signal")
    command = "trap 'echo interrupted; exit 5' INT; echo ready; while :; do sleep 0.05; done"
    said = b""
    with behind(folder, command) as child:
        while child.exit is None:
            for chunk in child.read(20):
                said += chunk.data
                if chunk.data.startswith(b"ready"):
                    child.stop()
    assert (said, child.exit.code) == (b"ready\ninterrupted\n", 5)


def test_nothing_outlives_the_wall(folder: Path) -> None:
    with behind(folder, "(setsid sh -c 'sleep 0.5; touch late' >/dev/null 2>&1 &); touch early") as child:
        while child.exit is None:
            child.read(20)
    time.sleep(0.8)
    assert os.listdir(folder) == ["early"]


def test_everything_ends_when_the_watchdog_is_killed(folder: Path) -> None:
    with behind(folder, "touch began; sleep 600") as child:
        while not (folder / "began").exists():
            child.read(0.01)
        inside = child.pid
        os.kill(child._watchdog, signal.SIGKILL)
        while child.exit is None:
            child.read(20)
    deadline = time.monotonic() + 20
    while os.path.exists(f"/proc/{inside}") and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not os.path.exists(f"/proc/{inside}")


def test_where_it_cannot_be_protected_nothing_is_started(folder: Path) -> None:
    (folder / ".claude").symlink_to("elsewhere")
    with pytest.raises(UsageError, match="symbolic link"):
        behind(folder, "touch ran")
    assert os.listdir(folder) == [".claude"]
