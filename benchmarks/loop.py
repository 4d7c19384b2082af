"""What the agent loop itself costs: CPU per text delta and per tool step, with a model that costs nothing.

usage: python benchmarks/loop.py [deltas] [steps] [growth] [conversation] [compaction] [start-up]      (default: all)

Each number is the least of several rounds. "bare" is the same model read by nobody but a counter: the floor.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from harness.contracts.model import Ask, AssistantTurn, Call, ToolTurn, Turn, UserTurn
from harness.conversation.turns import TranscriptEntry
from harness.events import Event, Message, Result, StepEnd, UsageDelta
from harness.log.hub import Hub
from harness.log.store import Metadata, Store
from harness.log.stores.files import FileStore
from harness.log.stores.memory import MemoryStore
from harness.native.loop.conversation import AgentConversation
from harness.native.loop.loop_context import AgentOptions, LoopContext
from harness.native.loop.orchestrator import Orchestrator
from harness.questions.permissions import Permissions

sys.path.insert(0, str(Path(__file__).parent))

from measuring import PRINT_CPU_AND_MEMORY, Cpu, cpu_of, least, size
from scripted import USED, Caller, Talker, add

ROUNDS = size(5, 1)
DELTAS = size(20_000, 20)
STEPS = size(1_000, 20)
ENDS = size((200, 1_000, 5_000, 20_000), (8, 16))


async def run(options: AgentOptions, store: Store, *, redact: bool) -> int:
    """How many events there were. Ends the program where the run has not come to its end: that would cost too little."""
    count, end = 0, None
    async with Orchestrator(options, store=store, redact=redact) as agents:
        agents.spawn("go")
        async for event in agents.events():
            count, end = count + 1, event
    if not (isinstance(end, Result) and end.success):
        raise SystemExit(f"the run that was measured has ended early: {end}")
    return count


async def bare(model: Talker) -> int:
    return len([event async for event in model.answer(Ask(turns=()))])


def least_of(work: Callable[[], object]) -> float:
    return least(ROUNDS, lambda: cpu_of(work))


def stores(folder: str) -> dict[str, Callable[[], Store]]:
    return {"memory": MemoryStore, "files": lambda: FileStore(folder)}


def measure_deltas(folder: str) -> None:
    print("\nCPU per text delta, loop + store + one reader          µs")
    for per_tick in (256, 16, 1):
        model = Talker(DELTAS, per_tick)
        floor_us = least_of(lambda: asyncio.run(bare(model))) / DELTAS * 1e6  # noqa: B023
        print(f"  {per_tick:>3} in a tick   bare model{'':<25} {floor_us:6.2f}")
        options = AgentOptions(model=model)
        for name, make in stores(folder).items():
            for redact in (False, True):
                cost_us = least_of(lambda: asyncio.run(run(options, make(), redact=redact))) / DELTAS * 1e6  # noqa: B023
                masked = "masked" if redact else "as it is"
                print(f"  {per_tick:>3} in a tick   {name:<8} {masked:<26} {cost_us:6.2f}")


def measure_steps(folder: str) -> None:
    print(f"\nCPU per tool step (model call, permission, tool, everything logged), mean of {STEPS}        µs")
    for name, make in stores(folder).items():
        for redact in (False, True):
            cost_s = least_of(lambda: asyncio.run(run(_calling(STEPS), make(), redact=redact)))  # noqa: B023
            masked = "masked" if redact else "as it is"
            print(f"  {name:<8} {masked:<26} {cost_s / STEPS * 1e6:6.1f}")


def _calling(steps: int) -> AgentOptions:
    return AgentOptions(
        model=Caller(steps), tools=(add,), permissions=Permissions("allow"), max_iterations=steps + 1
    )


def measure_growth(folder: str) -> None:
    del folder
    steps, width = 10 * STEPS, STEPS // 10
    ends = (width + 10, STEPS, 5 * STEPS, steps)
    print(f"\nCPU per tool step along one run of {steps} steps, memory store, masked        µs")
    best: list[float] = []
    for _ in range(size(3, 1)):
        options = _calling(steps)
        asyncio.run(run(options, MemoryStore(), redact=True))
        at_s = options.model.at_s  # type: ignore[attr-defined]
        slices = [(at_s[end] - at_s[end - width]) / width * 1e6 for end in ends]
        best = [min(pair) for pair in zip(best, slices, strict=True)] if best else slices
    for end, cost_us in zip(ends, best, strict=True):
        print(f"  steps {end - width:>5} to {end:>5}  {cost_us:6.1f}   ({cost_us / best[0]:.2f}x)")


class Chatter:
    """Asks for a call, says something, asks for a call …"""

    name = "bench/chatter"

    def __init__(self) -> None:
        self._asked = 0

    async def answer(self, ask: Ask) -> AsyncIterator[Event]:
        del ask
        self._asked += 1
        if self._asked % 2:
            part = {"type": "tool_call", "id": f"c{self._asked}", "name": "add", "input": {"a": 1, "b": 2}}
            yield Message(role="assistant", text="", parts=[part])
        else:
            yield Message(role="assistant", text="done")
        yield UsageDelta(usage=USED)
        yield StepEnd(id="", stop_reason="end")


async def _talk(most_messages: int) -> list[tuple[int, float]]:
    """How many messages there were after each turn, and what the turn cost."""
    store = MemoryStore()
    hub = Hub(store, "bench", store.create(Metadata(session_id="bench", kind="thread")))
    conversation = AgentConversation(LoopContext(hub, cwd=os.getcwd(), env={}, secrets={}))
    options = AgentOptions(
        model=Chatter(), tools=(add,), permissions=Permissions("allow"), system_prompt="Add."
    )
    costs: list[tuple[int, float]] = []
    while len(conversation.entries) < most_messages:
        with Cpu() as cpu:
            await conversation.send(options, "1 and 2?")
        costs.append((len(conversation.entries), cpu.seconds))
    return costs


def measure_conversation(folder: str) -> None:
    del folder
    print("\nCPU per turn of a conversation (two model calls, one tool call), memory store, masked        µs")
    best = [1e9] * len(ENDS)
    for _ in range(size(3, 1)):
        costs = asyncio.run(_talk(ENDS[-1]))
        for place, end in enumerate(ENDS):
            near = sorted(cost_s for count, cost_s in costs if end - 200 < count <= end)
            best[place] = min(best[place], near[len(near) // 2] * 1e6)
    for end, cost_us in zip(ENDS, best, strict=True):
        print(f"  at {end:>6} messages  {cost_us:6.1f}   ({cost_us / best[0]:.2f}x)")


class Summarizer:
    """Says the same short thing to everything."""

    name = "bench/summarizer"

    async def answer(self, ask: Ask) -> AsyncIterator[Event]:
        del ask
        yield Message(role="assistant", text="Goal: count. " * 200)
        yield UsageDelta(usage=USED)
        yield StepEnd(id="", stop_reason="end")


def _long_turns(tokens: int) -> list[Turn]:
    """A conversation of that length: questions, calls and their results."""
    turns: list[Turn] = []
    for number in range(tokens // 1_000):
        call = Call(f"c{number}", "read", {"filePath": f"src/module{number}.py"})
        output = "".join(f"{line:>6}\tdef function_{line}(value): return value\n" for line in range(100))
        turns += [
            UserTurn(f"And number {number}? " * 10),
            AssistantTurn("I look.", (call,)),
            ToolTurn(call.id, output[:3_700]),
        ]
    return turns


async def _sum_up(store: Store, turns: list[Turn], options: AgentOptions) -> float:
    hub = Hub(store, "bench", store.create(Metadata(session_id="bench", kind="thread")))
    entries = [TranscriptEntry(turn, f"m{at}", at, at) for at, turn in enumerate(turns)]
    talk = AgentConversation(LoopContext(hub, cwd=os.getcwd(), env={}, secrets={}), entries)
    with Cpu() as cpu:
        await talk.compact(options)
    hub.close()
    assert len(talk.entries) < len(turns), "it was summed up"
    return cpu.seconds


def measure_compaction(folder: str) -> None:
    tokens = size(200_000, 2_000)
    turns = _long_turns(tokens)
    print(f"\nCPU of summing up a conversation of {tokens:,} tokens, {len(turns)} turns        ms")
    options = AgentOptions(model=Summarizer(), tools=(add,), context_window=tokens, system_prompt="Add.")
    for name in ("memory", "files"):
        costs = []
        for number in range(ROUNDS):
            store = MemoryStore() if name == "memory" else FileStore(f"{folder}/{number}")
            costs.append(asyncio.run(_sum_up(store, turns, options)))
        print(f"  {name:<35} {min(costs) * 1e3:6.1f}")


def measure_start_up(folder: str) -> None:
    del folder
    print("\nCPU and memory of a new process")
    programs = {
        "python alone": "pass",
        "import of the loop": "import harness.native.loop.orchestrator",
        "one answer": (
            "import asyncio, sys; sys.path.insert(0, sys.argv[1]); import loop;"
            "from harness.log.stores.memory import MemoryStore as M;"
            "asyncio.run(loop.run(loop.AgentOptions(model=loop.Talker(3, 1)), M(), redact=True))"
        ),
    }
    for name, program in programs.items():
        command = [
            sys.executable,
            "-c",
            program + PRINT_CPU_AND_MEMORY,
            os.path.dirname(os.path.abspath(__file__)),
        ]
        answers = [
            json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
            for _ in range(size(7, 1))
        ]
        cpu_ms, peak_mb = (min(answer[unit] for answer in answers) for unit in ("ms", "mb"))
        print(f"  {name:<20} {cpu_ms:6.0f} ms {peak_mb:6.1f} MB")


MEASUREMENTS = {
    "deltas": measure_deltas,
    "steps": measure_steps,
    "growth": measure_growth,
    "conversation": measure_conversation,
    "compaction": measure_compaction,
    "start-up": measure_start_up,
}


def main() -> None:
    chosen = sys.argv[1:] or list(MEASUREMENTS)
    with tempfile.TemporaryDirectory() as folder:
        for name in chosen:
            MEASUREMENTS[name](folder)


if __name__ == "__main__":
    main()
