"""Real processes, started, fed and read."""

from __future__ import annotations

import asyncio
import hashlib
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.errors import AgentNotFound, HarnessError, InvalidDirectory, SpawnFailed
from harness.process.child import Child, ChildExit, OutputChunk
from harness.process.invocation import Invocation
from real_processes import (
    children,
    invocation,
    linux_only,
    processes_with,
    python,
    read_until,
    start,
    to_the_end,
    wait_until,
)

# Reading


def test_output_of_both_pipes_comes_in_the_order_in_which_it_was_written():
    code = """
import fcntl, os, termios
def drained(fd): return fcntl.ioctl(fd, termios.FIONREAD, bytes(4)) == bytes(4)
for number in range(100):
    fd = 1 + (number * 7 // 3) % 2
    os.write(fd, b"%d\\n" % number)
    while not drained(fd): pass
"""
    chunks: list[OutputChunk] = []
    child = start(python(code))
    while child.exit is None:
        chunks += child.read(30)
    assert [int(chunk.data) for chunk in chunks] == list(range(100))
    assert [chunk.stream for chunk in chunks] == [
        ("stdout", "stderr")[(number * 7 // 3) % 2] for number in range(100)
    ]


def test_the_last_bytes_before_the_end_are_not_lost():
    code = "import os; os.write(1, b'x' * 60_000 + b'end'); os.write(2, b'y' * 60_000 + b'end')"
    for _ in range(5):
        out, err = to_the_end(start(python(code)))
        assert (len(out), out[-3:], len(err), err[-3:]) == (60_003, b"end", 60_003, b"end")


def test_read_returns_nothing_when_the_time_is_over():
    with start(invocation("sleep", "600")) as child:
        began = time.monotonic()
        assert child.read(0.05) == []
        assert 0.05 <= time.monotonic() - began < 5
        assert child.read(0) == []
        assert child.exit is None


@linux_only
def test_a_flood_of_stderr_with_a_silent_stdout_keeps_memory_flat():
    def resident_bytes() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

    before = highest = resident_bytes()
    child = start(invocation("sh", "-c", "head -c 50000000 /dev/zero >&2; echo done"))
    flood, out = 0, b""
    while child.exit is None:
        for stream, data in child.read(30):
            if stream == "stderr":
                flood += len(data)
            else:
                out += data
        highest = max(highest, resident_bytes())
    assert (flood, out, child.exit.code) == (50_000_000, b"done\n", 0)
    assert highest - before < 4_000_000


def test_an_agent_that_closes_stdout_but_lives_is_noticed():
    with start(invocation("sh", "-c", "echo bye; exec >&-; exec sleep 600")) as child:
        assert child.stdout_open
        read_until(child, b"bye")
        while child.stdout_open:
            assert child.read(30) == []
        assert child.read(0.01) == []
        assert child.exit is None


def test_an_agent_that_closes_every_pipe_still_has_its_exit_seen():
    child = start(invocation("sh", "-c", "exec <&- >&- 2>&-; sleep 0.05; exit 9"))
    assert to_the_end(child) == (b"", b"")
    assert child.exit == ChildExit(code=9, signal=None)


# stdin


def test_ten_megabytes_of_stdin_arrive_whole():
    prompt = os.urandom(1000) * 10_000
    child = start(invocation("cat", stdin=prompt))
    out, _ = to_the_end(child)
    assert hashlib.sha256(out).digest() == hashlib.sha256(prompt).digest()
    assert child.exit == ChildExit(code=0, signal=None)


def test_an_agent_that_ends_without_reading_its_stdin_is_no_error():
    child = start(invocation("echo", "done", stdin=bytes(10_000_000)))
    assert to_the_end(child) == (b"done\n", b"")
    assert child.exit == ChildExit(code=0, signal=None)


def test_an_agent_that_closes_its_stdin_unread_goes_on():
    child = start(invocation("sh", "-c", "exec <&-; echo on", stdin=bytes(10_000_000)))
    assert to_the_end(child)[0] == b"on\n"


def test_an_agent_that_never_reads_its_stdin_can_write_and_be_stopped():
    child = start(invocation("sh", "-c", "echo busy; exec sleep 600", stdin=bytes(10_000_000)))
    read_until(child, b"busy")
    child.stop()
    to_the_end(child)
    assert child.exit == ChildExit(code=None, signal=signal.SIGINT)


@pytest.mark.parametrize("stdin", [None, b""])
def test_without_a_prompt_stdin_is_at_its_end(stdin: bytes | None):
    child = start(invocation("cat", stdin=stdin))
    assert to_the_end(child) == (b"", b"")
    assert child.exit == ChildExit(code=0, signal=None)


# What the agent is given


@linux_only
def test_the_prompt_stands_in_no_command_line_but_the_agents_own():
    mark = f"mark{time.time_ns()}"
    with start(invocation("sleep", "600", stdin=mark.encode(), KEY=mark)) as child:
        child.read(0.01)
        assert processes_with(mark, "cmdline") == set()
    with start(invocation("sh", "-c", f"sleep 600; : {mark}")) as child:
        child.read(0.01)
        # What the shell starts is a copy of it for a moment.
        wait_until(lambda: processes_with(mark, "cmdline") == {child.pid})


def test_the_agent_gets_exactly_the_environment_arguments_and_directory_it_was_given(tmp_path: Path):
    code = """
import os, sys
os.write(1, repr((dict(os.environb), sys.argv[1:], os.getcwd())).encode())
"""
    env = {"LC_ALL": "C.UTF-8", "EMPTY": "", "LINES": "a\nb=c", "BYTES": "\udcff", "BIG": "x" * 100_000}
    env |= {f"V{number}": "y" * 10_000 for number in range(50)}
    child = start(Invocation((sys.executable, "-S", "-c", code, "", "ü \n"), env, os.path.relpath(tmp_path)))
    out, err = to_the_end(child)
    assert err == b""
    got_env, got_argv, got_cwd = eval(out)
    assert got_env == {os.fsencode(key): os.fsencode(value) for key, value in env.items()}
    assert (got_argv, got_cwd) == (["", "ü \n"], str(tmp_path))


@linux_only
def test_nothing_leaks_into_the_agent_but_its_three_pipes():
    code = """
import os
fds = []
for fd in os.listdir("/proc/self/fd"):
    try: os.fstat(int(fd)); fds.append(int(fd))
    except OSError: pass
os.write(1, repr(sorted(fds)).encode())
"""
    leak = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(leak, True)
    try:
        out, _ = to_the_end(start(python(code)))
    finally:
        os.close(leak)
    assert out == b"[0, 1, 2]"


@linux_only
def test_the_agent_starts_with_default_signals_and_as_leader_of_its_own_session():
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2, signal.SIGTERM})
    try:
        child = start(invocation("cat", "/proc/self/status", "/proc/self/stat"))
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR2, signal.SIGTERM})
    out, _ = to_the_end(child)
    fields = dict(line.split(b":\t", 1) for line in out.split(b"\n") if b":\t" in line)
    # Signals 32 and 33 belong to the C library; whoever ignored them did so below it.
    settable = sum(1 << (number - 1) for number in signal.valid_signals())
    assert (int(fields[b"SigBlk"], 16), int(fields[b"SigIgn"], 16) & settable) == (0, 0)
    group, session = out.rpartition(b")")[2].split()[2:4]
    assert int(group) == int(session) == child.pid


def test_a_harness_without_standard_descriptors_can_run_an_agent(tmp_path: Path):
    code = """
import os, sys
from harness.process.child import Child
from harness.process.invocation import Invocation
child = Child(Invocation(("cat",), dict(os.environ), "/", b"prompt"))
out = b""
while child.exit is None:
    out += b"".join(chunk.data for chunk in child.read())
open(sys.argv[1], "wb").write(out)
"""
    command = 'exec "$0" -c "$1" "$2" <&- >&- 2>&-'
    subprocess.run(["sh", "-c", command, sys.executable, code, tmp_path / "out"], check=True)
    assert (tmp_path / "out").read_bytes() == b"prompt"


# Mistakes of the caller


def refused(what: Invocation, error: type[HarnessError]) -> HarnessError:
    with pytest.raises(error) as caught:
        Child(what)
    assert caught.value.message
    assert caught.value.hint
    return caught.value


def test_a_missing_program_is_named():
    assert "no-such-agent" in refused(invocation("no-such-agent"), AgentNotFound).message
    assert "/no/such" in refused(invocation("/no/such"), AgentNotFound).message
    refused(Invocation(("sleep", "1"), {"PATH": ""}, "/"), AgentNotFound)
    refused(invocation(), AgentNotFound)


def test_a_file_that_is_not_executable_is_named(tmp_path: Path):
    agent = tmp_path / "agent"
    agent.write_text("#!/bin/sh\n")
    assert str(agent) in refused(invocation(str(agent)), SpawnFailed).message
    assert str(agent) in refused(Invocation(("agent",), {"PATH": str(tmp_path)}, "/"), SpawnFailed).message


def test_a_program_is_looked_up_on_the_path_it_is_given_and_relative_to_its_directory(tmp_path: Path):
    agent = tmp_path / "bin" / "agent"
    agent.parent.mkdir()
    agent.write_text("#!/bin/sh\necho here")
    agent.chmod(0o755)
    for name, path in (("agent", str(agent.parent)), ("agent", "/nowhere:bin"), ("bin/agent", "")):
        child = start(Invocation((name,), {"PATH": path}, str(tmp_path)))
        assert to_the_end(child)[0] == b"here\n"


@pytest.mark.parametrize("content", ["#!/no/such/interpreter\n", "neither program nor script\n"])
def test_a_program_that_the_system_cannot_run_is_an_error(tmp_path: Path, content: str):
    agent = tmp_path / "agent"
    agent.write_text(content)
    agent.chmod(0o755)
    refused(invocation(str(agent)), SpawnFailed)


def test_a_bad_directory_is_named(tmp_path: Path):
    file = tmp_path / "file"
    file.touch()
    for path in (tmp_path / "missing", file):
        assert str(path) in refused(invocation("true", cwd=str(path)), InvalidDirectory).message


@pytest.mark.parametrize(
    "what",
    [
        invocation("echo", "x" * 5_000_000),
        invocation("echo", "a\0b"),
        invocation("echo", "\ud800"),
        invocation("echo", **{"A=B": "c"}),
        invocation("echo", **{"": "c"}),
    ],
    ids=["too long", "NUL", "surrogate", "equals sign in a name", "empty name"],
)
def test_what_cannot_be_passed_to_a_program_is_an_error(what: Invocation):
    refused(what, SpawnFailed)


def test_too_few_descriptors_are_an_error_and_leak_none():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    before = len(os.listdir("/dev/fd"))
    for limit in range(4, 20):
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
        try:
            refused(invocation("true"), SpawnFailed)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert len(os.listdir("/dev/fd")) == before


# Guests in other programs


def test_an_agent_can_be_run_from_any_thread():
    outputs: list[bytes] = []
    threads = [
        threading.Thread(
            target=lambda number=number: outputs.append(to_the_end(start(invocation("echo", str(number))))[0])
        )
        for number in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outputs) == [b"%d\n" % number for number in range(8)]


def test_an_agent_can_be_run_inside_an_asyncio_program():
    def run(number: int) -> bytes:
        return to_the_end(start(invocation("echo", str(number))))[0]

    async def main() -> list[bytes]:
        other = await asyncio.create_subprocess_exec("true")
        return [
            run(0),
            *await asyncio.gather(*(asyncio.to_thread(run, n) for n in (1, 2))),
            await other.wait(),
        ]

    assert asyncio.run(main()) == [b"0\n", b"1\n", b"2\n", 0]


@linux_only
def test_fifty_agents_leave_no_descriptor_and_no_zombie():
    to_the_end(start(invocation("true")))
    before = sorted(os.listdir("/dev/fd"))
    children_before = children()
    for number in range(50):
        child = start(invocation(("true", "sleep")[number % 2], "600", stdin=(None, b"", b"x")[number % 3]))
        if number % 2:
            child.close()
        else:
            to_the_end(child)
    with pytest.raises(SpawnFailed):
        start(invocation("echo", "x" * 5_000_000))
    assert sorted(os.listdir("/dev/fd")) == before
    assert children() == children_before


def test_a_run_costs_little_more_than_an_empty_python():
    def cpu_s(work: Callable[[], object]) -> float:
        def now() -> float:
            return sum(
                usage.ru_utime + usage.ru_stime
                for usage in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
            )

        costs = []
        for _ in range(7):
            began = now()
            work()
            costs.append(now() - began)
        return min(costs)

    def empty_python() -> None:
        os.waitpid(os.posix_spawn(sys.executable, [sys.executable, "-c", "pass"], os.environ), 0)

    assert cpu_s(lambda: to_the_end(start(invocation("true")))) < 3 * cpu_s(empty_python)


# A stdin that stays open


def test_a_stdin_that_stays_open_takes_more_until_it_is_closed() -> None:
    child = start(Invocation(("cat",), {"PATH": os.environ["PATH"]}, "/", b"first ", stdin_stays_open=True))
    assert read_until(child, b"first ") == b"first "
    child.write(b"second ")
    assert read_until(child, b"second ") == b"second "
    child.write(b"x" * 3_000_000)
    child.write(b"y")
    child.close_stdin()
    out, _ = to_the_end(child)
    assert out == b"x" * 3_000_000 + b"y"
    assert child.exit == ChildExit(code=0, signal=None)


def test_what_is_written_to_a_child_that_does_not_read_any_more_is_dropped() -> None:
    child = start(
        Invocation(
            ("sh", "-c", "exec 0<&-; echo deaf; sleep 0.2"),
            {"PATH": os.environ["PATH"]},
            "/",
            stdin_stays_open=True,
        )
    )
    read_until(child, b"deaf")
    child.write(b"x" * 3_000_000)
    to_the_end(child)
    child.write(b"after its end")
    assert child.exit == ChildExit(code=0, signal=None)
