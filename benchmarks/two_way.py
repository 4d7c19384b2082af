"""What a conversation with an agent program costs beside a run that is only watched.

usage: python benchmarks/two_way.py [turn] [second] [idle]      (default: all)

The program is a script that costs us nothing: it writes lines that were made before, and its own CPU is not counted.
`turn`: the same lines, watched and held in a conversation. `second`: another prompt in the same process. `idle`:
processes that wait for their next prompt.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from corpus import claude_lines
from measuring import Cpu, least, least_in_turn, memory_mb, size

from harness.contracts.request import Request
from harness.events import Relay
from harness.log.stores.files import FileStore
from harness.runs.dialogue import ProgramConversation
from harness.runs.launch import prepare
from harness.runs.run import start
from python_programs import python_program

ROUNDS = size(7, 1)
IDLE_LINES = size(50, 1)
LONG = size(20_000, 80)
MOST_RATIO, MOST_SECOND_MS, MOST_IDLE_MB = 1.2, 20.0, 5.0
_PROGRAM = """import os, sys
if "--version" in sys.argv:
    print("2.1.325 (Claude Code)")
    sys.exit()
here = os.path.dirname(os.path.abspath(__file__))
def say(name):
    with open(os.path.join(here, name), "rb") as file:
        data = memoryview(file.read())
    while data:
        data = data[os.write(1, data):]
if "--input-format" not in sys.argv:
    say("turn")
    sys.exit()
for line in sys.stdin.buffer:
    if b'"initialize"' in line:
        say("hello")
    elif line.startswith(b'{"type":"user"'):
        say("began")
        if os.path.exists(os.path.join(here, "question")):
            say("question")
            sys.stdin.buffer.readline()
        say("turn")
        say("ended")
"""
_STATE = {"type": "system", "subtype": "session_state_changed", "session_id": "s"}
_INPUT = {"command": "make", "description": "Build"}


class Lab:
    """A program that says these lines for every prompt."""

    def __init__(self, lines: list[str], *, asks: bool = False) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="two-way-"))
        self.binary = python_program(self.folder / "claude", _PROGRAM, "-S")
        self._write("hello", [_json({"type": "control_response", "response": {"request_id": "harness-1"}})])
        self._write("began", [_json({**_STATE, "state": "running"})])
        self._write("ended", [_json({**_STATE, "state": "idle"})])
        init = {"type": "system", "subtype": "init", "session_id": "s", "model": "m", "tools": []}
        self._write("turn", [_json(init), *lines])
        if asks:
            asked = {"subtype": "can_use_tool", "tool_name": "Bash", "input": _INPUT, "tool_use_id": "c"}
            self._write("question", [_json({"type": "control_request", "request_id": "q", "request": asked})])

    def run(self, conversation: ProgramConversation | None = None, *, two_way: bool) -> None:
        store = FileStore(str(self.folder / "store"))
        run = start(self.request(two_way=two_way), store=store, conversation=conversation)
        for batch in run.batches():
            for event in batch:
                if isinstance(event, Relay):
                    run.reply(event.id, approved=True)
        assert run.wait().outcome == "completed", run.wait()

    def request(self, *, two_way: bool) -> Request:
        return Request(
            agent="claude",
            prompt="measure",
            binary=str(self.binary),
            cwd=str(self.folder),
            two_way=two_way,
            permissions="agent-default",
        )

    def close(self) -> None:
        shutil.rmtree(self.folder)

    def _write(self, name: str, lines: list[str]) -> None:
        (self.folder / name).write_text("".join(lines), encoding="utf-8")


def _json(record: Any) -> str:
    return json.dumps(record, separators=(",", ":")) + "\n"


def _cpu_ms(work: Callable[[], object]) -> float:
    with Cpu() as cpu:
        work()
    return cpu.seconds * 1000


def turn() -> None:
    """The same lines, watched and in a conversation."""
    print("\n| turn | watched, CPU ms | conversation, CPU ms | ratio |\n|---|---|---|---|")
    for name, lines, asks in (
        ("60 lines", list(claude_lines(60)), False),
        ("60 lines and a question", list(claude_lines(60)), True),
        (f"{LONG} lines", list(claude_lines(LONG)), False),
    ):
        lab = Lab(lines, asks=asks)
        found = least_in_turn(
            ROUNDS,
            {
                "watched": lambda lab=lab: _cpu_ms(lambda: lab.run(two_way=False)),
                "held": lambda lab=lab: _cpu_ms(lambda: lab.run(two_way=True)),
            },
        )
        lab.close()
        ratio = found["held"] / found["watched"]
        print(f"| {name} | {found['watched']:.1f} | {found['held']:.1f} | {ratio:.2f} |", flush=True)
    print(f"\naim: a conversation costs at most {MOST_RATIO} times as much")


def second() -> None:
    """Another prompt in the same process: from the call to the end of a short turn."""
    lab, held = Lab(list(claude_lines(5))), ProgramConversation()
    lab.run(held, two_way=True)
    line = held.line
    again = least(ROUNDS, lambda: _cpu_ms(lambda: lab.run(held, two_way=True)))
    assert held.line is line, "the same process answers"
    launching = least(ROUNDS, lambda: _cpu_ms(lambda: prepare(lab.request(two_way=True))))
    held.close()
    lab.close()
    print(f"\n| another prompt, CPU ms | of it `prepare` |\n|---|---|\n| {again:.1f} | {launching:.2f} |")
    print(f"\naim: at most {MOST_SECOND_MS:g} ms")


def idle() -> None:
    """Processes that wait: what each takes in this process, and in the watchdog beside it."""
    lab = Lab(list(claude_lines(60)))
    first = ProgramConversation()
    lab.run(first, two_way=True)
    held = [first]
    before = memory_mb()
    for _ in range(IDLE_LINES):
        held.append(ProgramConversation())
        lab.run(held[-1], two_way=True)
    here = (memory_mb() - before) / IDLE_LINES
    watchdogs = [_parent_of(one.line.child.pid) for one in held[1:] if one.line is not None]
    beside = _mean_private_mb(watchdogs)
    for one in held:
        one.close()
    lab.close()
    print(f"\n| {IDLE_LINES} waiting processes | MB each |\n|---|---|\n| in this process | {here:.2f} |")
    if beside is None:
        print("| in its watchdog, not shared | – (only root may look at it) |")
    else:
        print(f"| in its watchdog, not shared | {beside:.2f} |\n| together | {here + beside:.2f} |")
    print(f"\naim: at most {MOST_IDLE_MB:g} MB each")


def _parent_of(pid: int) -> int:
    """The watchdog of an agent is its parent."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[1])


def _mean_private_mb(pids: list[int]) -> float | None:
    """None where that is not shown: a watchdog keeps others from looking into it."""
    try:
        return sum(map(_private_mb, pids)) / len(pids)
    except PermissionError:
        return None


def _private_mb(pid: int) -> float:
    """Memory of a process that no other has. Linux only."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("Private_")) / 1024


def main(names: list[str]) -> None:
    os.environ["XDG_CACHE_HOME"] = cache = tempfile.mkdtemp(prefix="two-way-cache-")
    try:
        for part in (turn, second, idle):
            if not names or part.__name__ in names:
                part()
    finally:
        shutil.rmtree(cache)


if __name__ == "__main__":
    main(sys.argv[1:])
