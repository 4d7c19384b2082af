"""How all benchmarks measure: CPU seconds, not the clock, and the least of several rounds.

CPU time, because the machine is shared: the clock would also count what others do. The least, because whatever else
happens can only add to it. Things that are compared are measured in turn (`least_in_turn`), so that a busy moment falls
on all of them, and in processes that are alike (`environment`).

    with Cpu() as cpu:                          # this process
        work()
    print(cpu.seconds)

    least(5, lambda: cpu_of(work))              # the least of five rounds
    least_in_turn(5, {"jq": …, "harness": …})   # several things, taken in turn
    cpu_of_command(["jq", "."])                 # another process and all that it starts

Nothing here needs more than the standard library: other frameworks are measured by it, each in its own environment.
"""

from __future__ import annotations

import os
import re
import resource
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self, TypeVar

Size = TypeVar("Size")
SMALLEST = "HARNESS_BENCHMARKS_SMALLEST"
"""The variable with which every benchmark is as small as it can be: to see that it works, not what it says."""

PRINT_CPU_AND_MEMORY = """
import json, time
ms = time.process_time() * 1000
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(json.dumps({"ms": ms, "mb": int(peak.split()[1]) / 1024}))
"""
"""At the end of a program for `python -c`: prints its CPU in ms and the most memory it had in MB, as JSON. Not `ru_maxrss`, which a process
inherits from the one that started it."""


def size(usual: Size, smallest: Size) -> Size:
    """How much of something is measured."""
    return smallest if os.environ.get(SMALLEST) else usual


class Cpu:
    """The CPU seconds of this process within a `with` block."""

    seconds = 0.0

    def __enter__(self) -> Self:
        self._before = time.process_time()
        return self

    def __exit__(self, *_error: object) -> None:
        self.seconds = time.process_time() - self._before


def cpu_of(work: Callable[[], object]) -> float:
    """CPU seconds of one call."""
    with Cpu() as cpu:
        work()
    return cpu.seconds


def cpu_of_command(command: list[str], env: Mapping[str, str] | None = None) -> float:
    """CPU seconds of a command and everything that it starts."""
    before = cpu_of_children()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=env or environment())
    return cpu_of_children() - before


def cpu_of_children() -> float:
    """CPU seconds of all child processes that have ended so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def cpu_of_process(pid: int) -> float:
    """CPU seconds of a process that is still running, in ticks of 10 ms. Linux only."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_mb(pid: int | str = "self", *, peak: bool = False) -> float:
    """The resident memory of a process, now or at its most; 0 when it has ended. Linux only."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    found = re.search(r"Vm%s:\s+(\d+)" % ("HWM" if peak else "RSS"), status)
    return int(found[1]) / 1024 if found else 0.0


def least(rounds: int, measure: Callable[[], float]) -> float:
    """The least of several rounds."""
    return min(measure() for _ in range(rounds))


def least_in_turn(rounds: int, measures: Mapping[str, Callable[[], float]]) -> dict[str, float]:
    """The least of each, taken in turn. The first round is not counted: it compiles and fills caches."""
    for measure in measures.values():
        measure()
    results: dict[str, list[float]] = {name: [] for name in measures}
    for _ in range(rounds):
        for name, measure in measures.items():
            results[name].append(measure())
    return {name: min(costs) for name, costs in results.items()}


def environment() -> dict[str, str]:
    """That of this process, without what would make Python compile everything each time."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
