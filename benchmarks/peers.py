"""Harness beside other agent frameworks, in one run: scripted models in process, CPU time, the least of several rounds.

usage: python benchmarks/peers.py --install                     make a virtual environment for each peer (once)
       python benchmarks/peers.py [--rounds N] [PEER ...]       measure, and print one table (default: all)

Each file of `peers/` is one framework, used as its documentation says, and has the same names: `stream` is
one answer of so many pieces of text through its streaming API, `work` is so many model calls that each ask
for a trivial tool (with `folder`: persisted there by its own means). `mark` is called at every model call.
Nothing leaves this machine. Every measurement is a process of its own, and the peers take turns, so that a
busy moment falls on all of them. Differences below 1.5x mean little on a machine that others use.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from functools import cache
from importlib import util
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from measuring import PRINT_CPU_AND_MEMORY, Cpu, cpu_of, environment, size

HERE = Path(__file__).parent
FOLDER = HERE / "peers"
CACHE = HERE.parent / ".cache" / "peers"
OURS, FLOOR = "harness", "bare"
DELTAS = size(10_000, 20)
LENGTHS = {10: 5, 100: 10, 990: 10}
"""At which step a step's cost is looked at → how many steps before and after it are taken with it."""
STEPS = size(1_000, 20)
SHORT_STEPS = size(120, 20)
PERSISTED_STEPS = size(200, 3)
LIMIT_S = 100.0
"""For one run of steps: what grows with every step would take for ever."""
COLUMNS = {
    "bulk_us": "µs per delta, many at once",
    "ticks_us": "µs per delta, one at a time",
    "step_10_us": "µs per tool step, 10th",
    "step_100_us": "100th",
    "step_990_us": "990th",
    "persisted_us": "µs per tool step, persisted",
    "persisted_kb": "KB stored per step",
    "import_ms": "import, CPU ms",
    "hello_ms": "first answer, CPU ms",
    "hello_mb": "memory then, MB",
}


def peer_names() -> list[str]:
    names = sorted(path.stem for path in FOLDER.glob("*.py"))
    return sorted(names, key=lambda name: (name != OURS, name != FLOOR))


def load(name: str) -> Any:
    """Not as a module of its name: that is the framework's."""
    spec = util.spec_from_file_location(f"peer_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@cache
def constants_of(name: str) -> dict[str, Any]:
    """What the file of a peer says about it, read without its framework."""
    import ast

    tree = ast.parse((FOLDER / f"{name}.py").read_text())
    nodes = [node for node in tree.body if isinstance(node, ast.Assign | ast.AnnAssign) and node.value]
    found: dict[str, Any] = {}
    for node in nodes:
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        if isinstance(target, ast.Name) and target.id.isupper() and not target.id.startswith("_"):
            found[target.id] = ast.literal_eval(node.value)  # type: ignore[arg-type]
    return found


def python_of(name: str) -> str:
    return sys.executable if not constants_of(name)["INSTALL"] else str(CACHE / name / "bin" / "python")


def install() -> None:
    for name in peer_names():
        packages = constants_of(name)["INSTALL"]
        if not packages:
            continue
        print(f"{name}: {' '.join(packages)}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", str(CACHE / name)], check=True)
        subprocess.run([python_of(name), "-m", "pip", "install", "--quiet", *packages], check=True)
        # Otherwise the first process that imports it is measured compiling it.
        subprocess.run([python_of(name), "-m", "compileall", "-q", str(CACHE / name / "lib")], check=False)


# --- in the process of a peer --------------------------------------------------------------------------


async def no_pause() -> None:
    """The next piece of text is there already."""


async def tick() -> None:
    """The next piece of text comes in a turn of its own of the event loop."""
    await asyncio.sleep(0)


def measure_deltas(name: str) -> dict[str, Any]:
    peer = load(name)
    asyncio.run(peer.stream(min(DELTAS, 200), no_pause))
    costs: dict[str, Any] = {}
    for column, pause in (("bulk_us", no_pause), ("ticks_us", tick)):
        with Cpu() as cpu:
            events = asyncio.run(peer.stream(DELTAS, pause))
        costs[column] = cpu.seconds / DELTAS * 1e6
        assert events >= DELTAS, f"only {events} events came out of {DELTAS} deltas"
    return costs


def measure_steps(name: str) -> dict[str, Any]:
    peer = load(name)
    asyncio.run(peer.work(20, int))
    costs: dict[str, Any] = {}
    # Ten steps of a fast peer are over in a millisecond, in which anything may happen.
    for steps in (*[SHORT_STEPS] * 5, STEPS):
        began_s = time.monotonic()
        at_s: list[float] = []

        def mark(began_s: float = began_s, at_s: list[float] = at_s) -> None:
            at_s.append(time.process_time())
            if time.monotonic() - began_s > LIMIT_S:
                print(json.dumps(_least(costs, _along(at_s))), flush=True)
                os._exit(0)  # a framework may take an exception for a failure of the model, and ask again

        asyncio.run(peer.work(steps, mark))
        assert len(at_s) >= steps, f"only {len(at_s)} model calls in {steps} steps"
        costs.update(_least(costs, _along(at_s)))
    return costs


def _least(costs: dict[str, Any], others: dict[str, Any]) -> dict[str, Any]:
    both = {column: min(cost, others.get(column, cost)) for column, cost in costs.items()}
    return {**others, **both, "steps": others["steps"]}


def _along(at_s: list[float]) -> dict[str, Any]:
    costs: dict[str, Any] = {"steps": len(at_s) - 1}
    for length, around in LENGTHS.items():
        if length + around < len(at_s):
            costs[f"step_{length}_us"] = (at_s[length + around] - at_s[length - around]) / (2 * around) * 1e6
    return costs


def measure_persisted(name: str) -> dict[str, Any]:
    peer = load(name)
    if not peer.PERSISTS:
        return {}
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as folder:
        asyncio.run(peer.work(5, int, first))
        cost_us = cpu_of(lambda: asyncio.run(peer.work(PERSISTED_STEPS, int, folder))) / PERSISTED_STEPS * 1e6
        stored = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
    return {"persisted_us": cost_us, "persisted_kb": stored / PERSISTED_STEPS / 1000}


MEASUREMENTS = {
    "deltas": measure_deltas,
    "steps": measure_steps,
    "persisted": measure_persisted,
}


# --- around them ---------------------------------------------------------------------------------------


def quiet_environment() -> dict[str, str]:
    """Without tracing and telemetry."""
    return {**environment(), "DO_NOT_TRACK": "1", "OTEL_SDK_DISABLED": "true", "PYTHONWARNINGS": "ignore"}


HELLO = """
import asyncio, importlib.util, sys
spec = importlib.util.spec_from_file_location("peer", sys.argv[1])
peer = sys.modules["peer"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(peer)
async def no_pause(): pass
asyncio.run(peer.stream(3, no_pause))
"""


def command_of(name: str, measurement: str) -> list[str]:
    if measurement in MEASUREMENTS:
        return [python_of(name), __file__, "--child", name, measurement]
    program = HELLO if measurement == "hello" else constants_of(name)["IMPORT"]
    return [python_of(name), "-c", program + PRINT_CPU_AND_MEMORY, str(FOLDER / f"{name}.py")]


def ask(name: str, measurement: str) -> dict[str, Any]:
    command = command_of(name, measurement)
    done = subprocess.run(command, env=quiet_environment(), capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.split("\n") if line.startswith("{")]
    if not lines:
        print(f"{name} {measurement}: failed\n{done.stderr[-600:]}", file=sys.stderr)
        return {}
    answer: dict[str, Any] = json.loads(lines[-1])
    return (
        answer
        if measurement in MEASUREMENTS
        else {f"{measurement}_{unit}": cost for unit, cost in answer.items()}
    )


Costs = dict[str, dict[str, list[float]]]


def measure_all(names: list[str], rounds: int) -> Costs:
    costs: Costs = {name: {} for name in names}
    for round_number in range(rounds):
        for measurement in ("import", "hello", *MEASUREMENTS):
            for name in names:
                print(
                    f"round {round_number + 1}: {measurement} of {name}   ",
                    end="\r",
                    file=sys.stderr,
                    flush=True,
                )
                for column, cost in ask(name, measurement).items():
                    costs[name].setdefault(column, []).append(cost)
    print(file=sys.stderr)
    return costs


def table(costs: Costs, versions: dict[str, str]) -> str:
    ours = costs.get(OURS, {})
    rows = ["| | " + " | ".join(COLUMNS.values()) + " |", "|---" * (len(COLUMNS) + 1) + "|"]
    for name, columns in costs.items():
        title = f"{constants_of(name)['TITLE']} {versions[name]}".strip()
        cells = [_cell(columns, ours if name != OURS else {}, column) for column in COLUMNS]
        rows.append(f"| {title} | " + " | ".join(cells) + " |")
    return "\n".join(rows)


def _cell(costs: dict[str, list[float]], ours: dict[str, list[float]], column: str) -> str:
    if column not in costs:
        stopped = min(costs.get("steps", [STEPS]))
        return f"(stopped at step {stopped:.0f})" if column.startswith("step_") and stopped < STEPS else "–"
    least, most = min(costs[column]), max(costs[column])
    shown = _number(least) if _number(least) == _number(most) else f"{_number(least)}–{_number(most)}"
    if column not in ours:
        return shown
    ratio = least / min(ours[column])
    return f"**{ratio:.{1 if ratio >= 0.95 else 2}f}×** ({shown})"


def _number(cost: float) -> str:
    return f"{cost:,.1f}" if cost < 10 else f"{cost:,.0f}"


def version_of(name: str) -> str:
    package = constants_of(name)["PACKAGE"]
    if not package:
        return ""
    code = f"import importlib.metadata as m; print(m.version({package!r}))"
    return subprocess.run(
        [python_of(name), "-c", code], check=True, capture_output=True, text=True
    ).stdout.strip()


def main() -> None:
    words = sys.argv[1:]
    if words[:1] == ["--child"]:
        print(json.dumps(MEASUREMENTS[words[2]](words[1])))
        return
    if words == ["--install"]:
        install()
        return
    rounds = int(words[1]) if words[:1] == ["--rounds"] else 3
    names = words[2:] if words[:1] == ["--rounds"] else words
    wanted = [name for name in peer_names() if not names or name in names]
    missing = [name for name in wanted if not Path(python_of(name)).exists()]
    if missing:
        print(f"not installed: {', '.join(missing)}\n  python benchmarks/peers.py --install", file=sys.stderr)
    wanted = [name for name in wanted if name not in missing]
    versions = {name: version_of(name) for name in wanted}
    costs = measure_all(wanted, rounds)
    print(table(costs, versions))
    print(
        f"\n{time.strftime('%Y-%m-%d')}, Python {sys.version.split()[0]}, {os.cpu_count()} CPUs, {rounds} rounds: least–most; × is the least beside our least."
    )


if __name__ == "__main__":
    main()
