"""No times: how many bytecodes a message, a piece of text and a tool step cost, and which functions they are in.

usage: python benchmarks/bytecodes.py [first] [run] [delta] [step] [--functions N]      (default: all)

Unlike times, counts do not depend on what else the machine does: what a change of the program saves is seen at once, and
to the last bytecode. What is done in C (JSON, files, Hyperscan, the kernel) counts as nothing. They differ from one
version of Python to the next.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from harness.folds.session.events import HarnessEvent
from harness.log.redact.secret_shapes import LiteralSearch

sys.path.insert(0, str(Path(__file__).parent))

from measuring import size
from scripted import Caller, Later, Talker

from session import harness_on, loop_s

MESSAGES = size(10, 1)
FEW, MANY = size((10, 40), (2, 4))
_LIBRARY = str(Path(__file__).parent.parent / "src")


class Place(NamedTuple):
    """A function."""

    file: str
    line: int
    name: str

    def __str__(self) -> str:
        short = self.file.removeprefix(f"{_LIBRARY}/").rpartition("lib/python")[2]
        return f"{self.name:28} {short}:{self.line}"


class Counting:
    """Bytecodes by function, of this thread, while it is on."""

    def __init__(self) -> None:
        self.codes: Counter[Place] = Counter()
        self.calls: Counter[Place] = Counter()

    def on(self) -> None:
        sys.settrace(self._enter)

    def off(self) -> None:
        sys.settrace(None)

    def _enter(self, frame: FrameType, _event: str, _given: Any) -> Callable[..., Any]:
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        code, codes = frame.f_code, self.codes
        place = Place(code.co_filename, code.co_firstlineno, code.co_name)
        self.calls[place] += 1

        def count(_frame: FrameType, event: str, _given: Any) -> Callable[..., Any]:
            if event == "opcode":
                codes[place] += 1
            return count

        return count


async def messages(counting: Counting, until: str) -> None:
    """Of a session whose model says one piece, up to the first event of that type; empty: the whole run."""
    with tempfile.TemporaryDirectory() as folder:
        harness, _ = harness_on(folder, Talker(1, 1))
        await harness.init()
        await harness.create_thread()
        await harness.send_message(content="go")

        def stop(event: HarnessEvent) -> None:
            if event.type == until:
                counting.off()

        harness.subscribe(stop)
        for _ in range(MESSAGES):
            counting.on()
            await harness.send_message(content="go")
            counting.off()
        await harness.destroy()


async def session(counting: Counting, model: object) -> None:
    with tempfile.TemporaryDirectory() as folder:
        harness, _ = harness_on(folder, Later(model))
        await harness.init()
        await harness.create_thread()
        await harness.send_message(content="hello")
        counting.on()
        await harness.send_message(content="go")
        counting.off()
        await harness.destroy()


async def loop(counting: Counting, model: object) -> None:
    counting.on()
    await loop_s(model)
    counting.off()


def of_messages(until: str) -> tuple[Counting, float]:
    counting = Counting()
    asyncio.run(messages(counting, until))
    return counting, MESSAGES


def of_each(
    work: Callable[[Counting, object], Any], model: Callable[[int], object]
) -> tuple[Counting, float]:
    """Of one more: what many cost beyond what few do."""
    few, many = Counting(), Counting()
    asyncio.run(work(Counting(), model(FEW)))  # what is made once
    asyncio.run(work(few, model(FEW)))
    asyncio.run(work(many, model(MANY)))
    many.codes.subtract(few.codes)
    many.calls.subtract(few.calls)
    return many, MANY - FEW


def one_at_a_time(count: int) -> object:
    return Talker(count, 1)


MEASUREMENTS: dict[str, dict[str, Callable[[], tuple[Counting, float]]]] = {
    "first": {"from send to the first event": lambda: of_messages("agent_start")},
    "run": {"a message and its answer": lambda: of_messages("")},
    "delta": {
        "a text delta of a session, one at a time": lambda: of_each(session, one_at_a_time),
        "… of the loop alone": lambda: of_each(loop, one_at_a_time),
    },
    "step": {
        "a tool step of a session": lambda: of_each(session, Caller),
        "… of the loop alone": lambda: of_each(loop, Caller),
    },
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[[], *MEASUREMENTS], help="only these")
    parser.add_argument("--functions", type=int, default=0, metavar="N", help="and the N that cost most")
    options = parser.parse_args()
    LiteralSearch.seen_bytes = 10**9  # as in a process that has been at work for a while
    for name in options.names or MEASUREMENTS:
        for title, measure in MEASUREMENTS[name].items():
            counting, count = measure()
            codes, calls = counting.codes.total() / count, counting.calls.total() / count
            print(f"{title:44} {codes:10,.0f} bytecodes {calls:8,.0f} calls", flush=True)
            for place, spent in counting.codes.most_common(options.functions):
                print(f"    {spent / count:8.0f} {counting.calls[place] / count:6.1f}  {place}")


if __name__ == "__main__":
    main()
