"""Real agents to test with, and ways to look at what became of them."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.process.child import Child, ChildTimeouts, OutputChunk
from harness.process.invocation import Invocation

HERE = Path(__file__).parent
FAMILY = (sys.executable, "-S", str(HERE / "family.py"))
LONE_HARNESS = (sys.executable, str(HERE / "lone_harness.py"))
QUICK = ChildTimeouts(interrupt_s=0.2, terminate_s=0.2, leftovers_s=0.1)
SLOW = ChildTimeouts(interrupt_s=300, terminate_s=300, leftovers_s=300)

linux_only = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks into /proc")


def invocation(*argv: str, stdin: bytes | None = None, cwd: str = "/", **env: str) -> Invocation:
    return Invocation(argv, {"PATH": os.environ["PATH"], **env}, cwd, stdin)


def python(code: str, *argv: str, **options: object) -> Invocation:
    return invocation(sys.executable, "-I", "-S", "-c", code, *argv, **options)


def start(what: Invocation, patience: ChildTimeouts = QUICK) -> Child:
    return Child(what, patience)


def to_the_end(child: Child) -> tuple[bytes, bytes]:
    chunks: list[OutputChunk] = []
    while child.exit is None:
        chunks += child.read(30)
    return joined(chunks, "stdout"), joined(chunks, "stderr")


def joined(chunks: list[OutputChunk], stream: str) -> bytes:
    return b"".join(chunk.data for chunk in chunks if chunk.stream == stream)


def read_until(child: Child, mark: bytes) -> bytes:
    out = b""
    while mark not in out:
        assert child.exit is None, out
        out += joined(child.read(30), "stdout")
    return out


def wait_until(condition: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.005)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] not in b"ZX"
    except OSError:
        return False


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[1])


def children() -> set[int]:
    """Of this process, the dead ones that nobody waited for included."""
    found = set()
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and parent(int(entry.name)) == os.getpid():
                found.add(int(entry.name))
    return found


def processes_with(mark: str, file: str) -> set[int]:
    found = set()
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and mark.encode() in (entry / file).read_bytes():
                found.add(int(entry.name))
    return found


def family(child: Child) -> list[int]:
    return [int(pid) for pid in read_until(child, b"\n").split()]
