"""Harness elsewhere than on Linux: everything is imported, programs run, and only one room asks where it is."""

from __future__ import annotations

import ast
import fcntl
import inspect
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.process import child as child_module
from harness.process.child import Child
from harness.process.invocation import Invocation
from harness.sandbox import ladder
from harness.system import linux, posix
from harness.system.contract import System
from real_processes import alive, linux_only, wait_until
from source_tree import expect_none, package_modules, uses_of

LINUX_CALLS = (
    "ctypes",
    "sys.platform",
    "fcntl.F_SETPIPE_SZ",
    "os.O_PATH",
    "os.pidfd_open",
    "os.memfd_create",
    "os.eventfd*",
    "os.unshare",
    "os.setns",
    "os.pipe2",
    "os.sched_*",
    "os.splice",
    "os.copy_file_range",
    "os.posix_fa*",
    "select.epoll",
    "signal.pidfd_send_signal",
    "signal.sigtimedwait",
    "socket.SO_PEERCRED",
)
ARGUMENTS_OF_BUBBLEWRAP = "sandbox/rungs.py"


def test_only_one_room_uses_what_other_systems_lack() -> None:
    others = [module for module in package_modules() if not module.inside_package.startswith("system/")]
    expect_none([use for module in others for use in uses_of(module, LINUX_CALLS)])


def test_only_one_room_reads_proc() -> None:
    others = [
        module
        for module in package_modules()
        if not module.inside_package.startswith("system/")
        and module.inside_package != ARGUMENTS_OF_BUBBLEWRAP
    ]
    expect_none(
        [
            f"{module.name}:{node.lineno}: {node.value}"
            for module in others
            for node in ast.walk(module.tree)
            if isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and node.value.startswith(("/proc", "/sys/"))
        ]
    )


def test_no_statement_numbers_its_parameters() -> None:
    """`?1` with a sequence is an error of sqlite3 from Python 3.14 on, and a warning in 3.12, at run time only."""
    numbered = re.compile(r"\b(SELECT|INSERT|UPDATE|DELETE)\b.*\?\d", re.DOTALL)
    expect_none(
        [
            f"{module.name}:{node.lineno}"
            for module in package_modules()
            for node in ast.walk(module.tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and numbered.search(node.value)
        ]
    )


@linux_only
def test_linux_says_which_processes_and_locks_there_are(tmp_path: Path) -> None:
    with (tmp_path / "locked").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert os.fstat(file.fileno()).st_ino in linux.locked_inodes()
    with subprocess.Popen(["cat"], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as sleeper:
        assert sleeper.stdin is not None
        assert sleeper.stdout is not None
        sleeper.stdin.write(b"x")
        sleeper.stdin.flush()
        sleeper.stdout.read(1)  # it is the program now, not the fork of this one
        assert (sleeper.pid, "cat ") in linux.processes_in(str(tmp_path))
        assert linux.process_start(sleeper.pid).isdecimal()
        sleeper.kill()
    assert linux.processes_in(str(tmp_path)) == []
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert linux.peer(ours) == (os.getpid(), os.getuid())


def test_every_module_is_imported_elsewhere_and_uses_nothing_deprecated() -> None:
    script = str(Path(__file__).with_name("elsewhere.py"))
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    name, count, has_linux = done.stdout.split()
    assert (name, has_linux) == ("posix", "False")
    assert int(count) > 300


@pytest.mark.parametrize("module", [linux, posix])
def test_both_systems_keep_the_whole_contract(module: object) -> None:
    promised = {name: member for name, member in vars(System).items() if inspect.isfunction(member)}
    promised = {name: member for name, member in promised.items() if not name.startswith("_")}
    assert len(promised) == 18
    for name, member in promised.items():
        wanted = list(inspect.signature(member).parameters)[1:]
        assert list(inspect.signature(getattr(module, name)).parameters) == wanted, name
    assert {name for name in System.__annotations__ if hasattr(module, name)} == set(System.__annotations__)


def test_the_fallback_says_what_it_cannot_do(tmp_path: Path) -> None:
    assert not posix.adopt_orphans()
    assert not posix.refuse_inspection()
    assert posix.descendants() == (set(), set())
    assert posix.watch_process(os.getpid()) is None
    assert posix.process_usage(os.getpid()) == (0.0, 0)
    assert posix.lock_holder(0) is None
    assert posix.locked_inodes() == frozenset()
    assert posix.process_start(os.getpid()) == ""
    assert posix.processes_in("/") == []
    assert posix.descriptor_path(0) == ""
    assert posix.enter_own_network() != ""
    with pytest.raises(OSError, match="not reported"):
        posix.watch_directory(str(tmp_path))
    folder = os.open(tmp_path, os.O_DIRECTORY | posix.traverse_only)
    posix.change_mode(folder, 0o710)
    os.close(folder)
    assert tmp_path.stat().st_mode & 0o777 == 0o710


def test_without_a_sandbox_nothing_is_confined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ladder, "system", posix)
    with pytest.raises(UsageError, match="only Linux has one"):
        ladder.find_sandbox()


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_module, "SYSTEM_FILE", posix.__file__)


def run(*argv: str, stdin: bytes | None = None) -> tuple[Child, bytes]:
    child = Child(Invocation(argv, {"PATH": os.environ["PATH"]}, "/", stdin))
    out = b""
    with child:
        while child.exit is None:
            out += b"".join(chunk.data for chunk in child.read(30))
    return child, out


@pytest.mark.usefixtures("elsewhere")
def test_a_program_runs_elsewhere() -> None:
    child, out = run("sh", "-c", "cat; echo two >&2; exit 3", stdin=b"one\n" * 100_000)
    assert out.count(b"one\n") == 100_000
    assert child.exit is not None
    assert (child.exit.code, child.exit.signal, child.exit.tree_empty) == (3, None, True)


@linux_only
@pytest.mark.usefixtures("elsewhere")
def test_a_stop_ends_the_agents_group_elsewhere() -> None:
    child = Child(Invocation(("sh", "-c", "sleep 600 & echo $!; wait"), {"PATH": os.environ["PATH"]}, "/"))
    with child:
        left = int(child.read(30)[0].data)
        child.kill()
        while child.exit is None:
            child.read(30)
    assert child.exit.signal == signal.SIGKILL
    wait_until(lambda: not alive(left))


ORPHAN = """
import os, signal, sys
from harness.process import child
from harness.process.invocation import Invocation
child.SYSTEM_FILE = sys.argv[1]
agent = child.Child(Invocation(("sh", "-c", "echo $$; exec sleep 600"), {"PATH": os.environ["PATH"]}, "/"))
copy = os.fork()
while copy == 0:
    signal.pause()  # it holds the pipes of the watchdog
print(int(agent.read(30)[0].data), copy, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@linux_only
def test_an_agent_does_not_outlive_harness_elsewhere() -> None:
    """Though a copy of the process holds its pipes: the watchdog looks at its parent."""
    with subprocess.Popen([sys.executable, "-c", ORPHAN, posix.__file__], stdout=subprocess.PIPE) as harness:
        assert harness.stdout is not None
        agent, copy = map(int, harness.stdout.readline().split())
        assert harness.wait() == -signal.SIGKILL
        try:
            wait_until(lambda: not alive(agent))
            assert alive(copy)
        finally:
            os.kill(copy, signal.SIGKILL)
