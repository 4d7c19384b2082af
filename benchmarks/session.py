"""What a session costs around its agent: CPU and bytes per message, per piece of text, per tool step, at any length.

usage: python benchmarks/session.py [first] [deltas] [steps] [length]      (default: all)

Everything is kept in files, the display state is folded, and one subscriber is told everything. Each number is the
least of several rounds, or the median of many; "loop" is the same without a session: the floor.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path

from harness.events import Message, Result, SessionStart, StepEnd, StepStart, TextDelta, UsageDelta
from harness.folds.session.events import HarnessEvent
from harness.log.hub import Hub
from harness.log.ids import new_run_id
from harness.log.store import Metadata
from harness.log.stores.files import FileStore
from harness.native.loop.conversation import AgentConversation
from harness.native.loop.loop_context import AgentOptions, LoopContext
from harness.questions.permissions import Permissions
from harness.session.config import Mode
from harness.session.harness import Harness

sys.path.insert(0, str(Path(__file__).parent))

from measuring import Cpu, least, size
from scripted import USED, Caller, Later, Talker, add

ROUNDS = size(5, 1)
MOST_DELTAS, MOST_STEPS = 20_000, 500
DELTAS = size(MOST_DELTAS, 20)
STEPS = size(MOST_STEPS, 5)
SENDS = size(200, 2)
TURNS = size(200, 2)
LENGTHS = size((100, 5_000), (4, 8))
_SERVE = "--serve"


class Subscriber:
    """Is told everything, and notes when the first of it came."""

    def __init__(self) -> None:
        self.told = 0
        self.first_s: float | None = None

    def __call__(self, event: HarnessEvent) -> None:
        self.told += 1
        if self.first_s is None and event.type == "agent_start":
            self.first_s = time.process_time()


def harness_on(folder: str, model: object) -> tuple[Harness, Subscriber]:
    """In an empty folder of its own: what it costs to look at the files of a real one is measured by `undo.py`."""
    work = f"{folder}/work"
    os.makedirs(work, exist_ok=True)
    os.environ["XDG_DATA_HOME"] = f"{folder}/home"  # where the undo of its calls is: it goes with the rest
    harness = Harness(
        id="bench",
        cwd=work,
        modes=[Mode(id="build")],
        storage=FileStore(folder),
        resolve_model=lambda _model_id: model,  # type: ignore[arg-type, return-value]
        initial_state={"currentModelId": "bench/model", "yolo": True},
        tools=[add],
    )
    subscriber = Subscriber()
    harness.subscribe(subscriber)
    return harness, subscriber


async def session_s(model: object) -> float:
    """CPU of one message in a session, which is not its first: an index is made once, and modules are loaded once."""
    with tempfile.TemporaryDirectory() as folder:
        harness, _ = harness_on(folder, Later(model))
        await harness.init()
        await harness.create_thread()
        await harness.send_message(content="hello")
        with Cpu() as cpu:
            outcome = await harness.send_message(content="go")
        await harness.destroy()
    check_end(outcome.success, outcome.error)
    return cpu.seconds


def check_end(is_success: bool, error: str) -> None:
    """What ended early costs little: it says nothing."""
    if not is_success:
        raise SystemExit(f"the run that was measured has ended early: {error}")


async def loop_s(model: object) -> float:
    """CPU of the same on a conversation alone, in files as well."""
    with tempfile.TemporaryDirectory() as folder:
        store = FileStore(folder)
        hub = Hub(store, "log", store.create(Metadata(session_id="log", kind="thread")))
        conversation = AgentConversation(LoopContext(hub, cwd=folder, env={}, secrets={}))
        options = AgentOptions(
            model=model,  # type: ignore[arg-type]
            tools=(add,),
            permissions=Permissions("allow"),
            max_iterations=10_000,
        )
        with Cpu() as cpu:
            ended = await conversation.send(options, "go")
        hub.close()
    check_end(isinstance(ended, Result) and ended.success, str(ended))
    return cpu.seconds


def least_s(work: Callable[[], Awaitable[float]], rounds: int = ROUNDS) -> float:
    async def once() -> float:
        return await work()

    return least(rounds, lambda: asyncio.run(once()))


def row(name: str, figure: str, beside: str, target: str = "", *, is_met: bool = True) -> None:
    verdict = "" if not target else "met" if is_met else "MISSED"
    print(f"{name:<46} {figure:>10}   {beside:<26} {target:<26} {verdict}".rstrip(), flush=True)


def measure_first() -> None:
    async def work() -> list[tuple[float, float]]:
        spent: list[tuple[float, float]] = []
        with tempfile.TemporaryDirectory() as folder:
            harness, subscriber = harness_on(folder, Talker(1, 1))
            await harness.init()
            await harness.create_thread()
            for _ in range(SENDS):
                subscriber.first_s = None
                started_s = time.process_time()
                outcome = await harness.send_message(content="go")
                ended_s = time.process_time()
                check_end(outcome.success, outcome.error)
                assert subscriber.first_s is not None
                spent.append((subscriber.first_s - started_s, ended_s - started_s))
            await harness.destroy()
        return spent

    first_ms, run_ms = (statistics.median(column) * 1e3 for column in zip(*asyncio.run(work()), strict=True))
    row("send to first event", f"{first_ms:.2f} ms", "", "≤ 0.2 ms", is_met=first_ms <= 0.2)
    row("a message and an answer of one piece", f"{run_ms:.2f} ms", "", "≤ 0.7 ms", is_met=run_ms <= 0.7)


def measure_deltas() -> None:
    for per_tick in (1, 10):
        model = Talker(DELTAS, per_tick)
        ours_us = least_s(partial(session_s, model)) / DELTAS * 1e6
        floor_us = least_s(partial(loop_s, model)) / DELTAS * 1e6
        beside = f"loop {floor_us:.2f} µs, {ours_us / floor_us:.1f} ×"
        name = f"text delta, {per_tick} at a time"
        row(name, f"{ours_us:.2f} µs", beside, "≤ 10 µs", is_met=ours_us <= 10)


def measure_steps() -> None:
    ours_us = least_s(lambda: session_s(Caller(STEPS))) / STEPS * 1e6
    floor_us = least_s(lambda: loop_s(Caller(STEPS))) / STEPS * 1e6
    beside = f"loop {floor_us:.0f} µs, {ours_us / floor_us:.1f} ×"
    row("persisted tool step", f"{ours_us:.0f} µs", beside, "≤ 70 µs", is_met=ours_us <= 70)


def grown(folder: str, messages: int) -> None:
    """A thread of so many messages, written as a session would have."""
    store = FileStore(folder)
    metadata = Metadata(session_id="thread", kind="thread", resource_id="bench")
    hub = Hub(store, "thread", store.create(metadata))
    for number in range(messages // 2):
        run_id = new_run_id(hub.clock())
        text = f"answer {number} " + "word " * 40
        hub.source(run_id).append(
            [
                SessionStart(agent="native", model="bench/model"),
                Message(role="user", text=f"question {number}", id=new_run_id(hub.clock())),
                StepStart(id=f"s{number}", model="bench/model"),
                *(TextDelta(id="m", text="word ") for _ in range(8)),
                Message(role="assistant", text=text, id="m"),
                UsageDelta(usage=USED),
                StepEnd(id=f"s{number}", stop_reason="end"),
                Result(success=True, outcome="completed", text=text),
            ]
        )
    hub.close()
    store.close()


def written_bytes() -> int:
    """By this process, into whatever file, so far; zero where the system does not tell."""
    try:
        with open("/proc/self/io", encoding="ascii") as file:
            counters = dict(line.split(": ") for line in file.read().split("\n") if line)
    except OSError:
        return 0
    return int(counters["wchar"])


async def serve_turns(messages: int) -> None:
    """A process of its own: opens a thread of that length, then makes a turn for each line that it reads.

    Prints the CPU of the opening, of the first turn, and then of each turn, with the bytes that were written.
    """

    def tell(started_s: float, bytes_before: int = 0) -> None:
        written = written_bytes() - bytes_before if bytes_before else 0
        print(time.process_time() - started_s, written, flush=True)

    with tempfile.TemporaryDirectory() as folder:
        grown(folder, messages)
        harness, _ = harness_on(folder, Talker(20, 5))
        await harness.init()
        await harness.select_or_create_thread()  # the first time there is no snapshot yet
        await harness.send_message(content="first")
        await harness.destroy()

        harness, _ = harness_on(folder, Talker(20, 5))
        await harness.init()
        started_s = time.process_time()
        await harness.select_or_create_thread()
        tell(started_s)
        started_s = time.process_time()
        await harness.send_message(content="again")  # reads what the model is to see
        tell(started_s)
        while line := sys.stdin.readline():
            bytes_before, started_s = written_bytes(), time.process_time()
            await harness.send_message(content=line.strip())
            tell(started_s, bytes_before)
        await harness.destroy()


class Length:
    """The process that keeps a thread of one length."""

    def __init__(self, messages: int) -> None:
        command = [sys.executable, os.path.abspath(__file__), _SERVE, str(messages)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.opening_s, self.first_s = self._answer()[0], self._answer()[0]
        self.turns: list[tuple[float, float]] = []

    def turn(self, text: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{text}\n")
        self._process.stdin.flush()
        self.turns.append(self._answer())

    def close(self) -> None:
        self._process.communicate()

    def medians(self) -> tuple[float, float]:
        """CPU and bytes of a turn."""
        spent, written = zip(*self.turns, strict=True)
        return statistics.median(spent), statistics.median(written)

    def _answer(self) -> tuple[float, float]:
        assert self._process.stdout is not None
        spent, written = self._process.stdout.readline().split()
        return float(spent), float(written)


def measure_length() -> None:
    """Turn by turn, first in one process and then in the other, so that a busy moment falls on both."""
    few, many = LENGTHS
    short, long = Length(few), Length(many)
    for number in range(TURNS):
        short.turn(f"question {number}")
        long.turn(f"question {number}")
    short.close()
    long.close()
    names = (("a turn", "ms", 1e3), ("bytes stored by a turn", "kB", 1e-3))
    for (name, unit, scale), before, after in zip(names, short.medians(), long.medians(), strict=True):
        ratio = after / before if before else 1.0
        beside = f"at {few}: {before * scale:.2f} {unit}, {ratio:.2f} ×"
        figure = f"{after * scale:.2f} {unit}"
        row(f"{name} at {many:,} messages", figure, beside, "≤ 1.5 ×", is_met=ratio <= 1.5)
    # Without a target: what the model is to see is read once, when something is first said in a thread.
    once = (
        ("opening it", short.opening_s, long.opening_s),
        ("the turn after that", short.first_s, long.first_s),
    )
    for name, before, after in once:
        beside = f"at {few}: {before * 1e3:.1f} ms, {after / before:.1f} ×"
        row(f"{name} at {many:,} messages", f"{after * 1e3:.1f} ms", beside)


MEASUREMENTS: dict[str, Callable[[], None]] = {
    "first": measure_first,
    "deltas": measure_deltas,
    "steps": measure_steps,
    "length": measure_length,
}


def main(chosen: Sequence[str]) -> None:
    if chosen[:1] == [_SERVE]:
        asyncio.run(serve_turns(int(chosen[1])))
        return
    if unknown := sorted(set(chosen) - set(MEASUREMENTS)):
        raise SystemExit(f"unknown: {', '.join(unknown)}; there are: {', '.join(MEASUREMENTS)}")
    print(f"{os.cpu_count()} processors, Python {sys.version.split()[0]}; CPU time")
    for name, measure in MEASUREMENTS.items():
        if not chosen or name in chosen:
            measure()


if __name__ == "__main__":
    main(sys.argv[1:])
