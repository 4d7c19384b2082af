"""How many calls of other agents' models the built-in agent would take as they are: the recordings of real programs.

usage: python benchmarks/calls.py

A call counts where the name of its tool is one that models use for one of ours. It is accepted if our tool takes its
arguments; nothing is carried out.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from harness.contracts.model import Call
from harness.contracts.tool import Tool
from harness.native.tools.registry import default_tools
from harness.native.tools.spellings import in_our_words

RECORDINGS = Path(__file__).parents[1] / "tests" / "agents"
UNLIKE = frozenset(
    # Names that mean something else there: a message to a running agent, text for a running command, a query of memory.
    ("task", "search", "find", "create", "patch", "view", "execute", "subagent", "browse")
)


def recorded_calls() -> Iterator[tuple[str, dict[str, Any]]]:
    """Each way to call a tool once: its name, and the names and types of the arguments."""
    seen: set[tuple[Any, ...]] = set()
    for path in sorted(RECORDINGS.glob("**/events.ndjson")):
        for line in path.read_bytes().splitlines():
            event = msgspec.json.decode(line)
            name, given = event.get("tool_name"), event.get("input")
            if event.get("type") != "ToolStart" or not isinstance(given, dict) or not name:
                continue
            key = (name, *sorted((key, type(value).__name__) for key, value in given.items()))
            if key not in seen:
                seen.add(key)
                yield name, given


def accepted(name: str, given: dict[str, Any], tools: dict[str, Tool]) -> tuple[str, bool]:
    """The name of our tool, empty where there is none, and whether it takes the arguments."""
    call = in_our_words(Call("c", name, given), tools)
    tool = tools.get(call.name)
    if tool is None or name.lower() in UNLIKE:
        return "", False
    try:
        tool.operations(call.input)
    except Exception:  # noqa: BLE001 # whatever a tool says to an odd call, it was not taken
        return call.name, False
    return call.name, True


def shares() -> dict[str, tuple[int, int]]:
    """By tool: how many were accepted, of how many."""
    taken: Counter[str] = Counter()
    total: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        tools = {tool.spec.name: tool for tool in default_tools(folder)}
        for name, given in recorded_calls():
            ours, is_taken = accepted(name, given, tools)
            if ours:
                total[ours] += 1
                taken[ours] += is_taken
    return {name: (taken[name], total[name]) for name in sorted(total)}


def main() -> int:
    found = shares()
    for name, (taken, total) in found.items():
        print(f"{name:<12} {taken:>4} of {total:>4}  {100 * taken / total:5.1f} %")
    taken, total = (sum(pair[at] for pair in found.values()) for at in (0, 1))
    print(f"{'all':<12} {taken:>4} of {total:>4}  {100 * taken / max(1, total):5.1f} %")
    return 0


if __name__ == "__main__":
    sys.exit(main())
