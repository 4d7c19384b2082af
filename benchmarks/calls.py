"""How many calls of other agents' models the built-in agent would take as they are: the recordings of real programs.

usage: python benchmarks/calls.py

A call counts where the name of its tool is one that models use for one of ours; each call is counted once, however often
it was made. It is accepted if our tool takes its arguments; nothing is carried out. Of those that are refused it is said
how many the program that was recorded has refused, too: their arguments were broken, on purpose.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from harness.contracts.model import Call
from harness.contracts.tool import Tool, ToolFailure
from harness.contracts.tool_arguments import take
from harness.native.tools.edit import EditArguments
from harness.native.tools.registry import default_tools
from harness.native.tools.spellings import in_our_words
from harness.native.tools.todo import tasks_of

RECORDINGS = Path(__file__).parents[1] / "tests"
FOLDERS = ("agents", "histories")
WRITTEN_BY_US = "handed-over"
"""Sessions that Harness itself has written for another program: no model has written such a call."""


class RecordedCall(NamedTuple):
    name: str
    input: dict[str, Any]
    was_refused: bool
    """By the program itself."""


class Share(NamedTuple):
    taken: int = 0
    total: int = 0
    refused_there: int = 0
    """Of those that were not taken."""

    def plus(self, other: Share) -> Share:
        return Share(*map(sum, zip(self, other, strict=True)))


def recorded_calls() -> Iterator[RecordedCall]:
    """Each call once."""
    seen: set[tuple[str, bytes]] = set()
    for path in sorted(path for folder in FOLDERS for path in (RECORDINGS / folder).glob("**/*.ndjson")):
        if WRITTEN_BY_US in path.name:
            continue
        events = [msgspec.json.decode(line) for line in path.read_bytes().splitlines() if line[:1] == b"{"]
        ends = [event for event in events if event.get("type") == "ToolEnd"]
        failed = {end.get("call_id") for end in ends if not end.get("success")}
        for event in events:
            name, given = event.get("tool_name"), event.get("input")
            if event.get("type") != "ToolStart" or not isinstance(given, dict) or not name:
                continue
            key = (name, msgspec.json.encode(given, order="sorted"))
            if key not in seen:
                seen.add(key)
                yield RecordedCall(name, given, event.get("call_id") in failed)


def accepted(name: str, given: dict[str, Any], tools: dict[str, Tool]) -> tuple[str, bool]:
    """The name of our tool, empty where there is none, and whether it takes the arguments."""
    call = in_our_words(Call("c", name, given), tools)
    tool = tools.get(call.name)
    if tool is None:
        return "", False
    try:
        tool.operations(call.input)
        if call.name == "todo":
            tasks_of(call.input)
        elif call.name == "edit":
            take(EditArguments, call.input, "edit").replacements()
    except ToolFailure:
        return call.name, False
    return call.name, True


def shares() -> dict[str, Share]:
    """By tool."""
    found: dict[str, Share] = {}
    with tempfile.TemporaryDirectory() as folder:
        tools = {tool.spec.name: tool for tool in default_tools(folder)}
        for call in recorded_calls():
            ours, is_taken = accepted(call.name, call.input, tools)
            if ours:
                share = Share(is_taken, 1, not is_taken and call.was_refused)
                found[ours] = found.get(ours, Share()).plus(share)
    return dict(sorted(found.items()))


def all_of(found: dict[str, Share]) -> Share:
    total = Share()
    for share in found.values():
        total = total.plus(share)
    return total


def main() -> int:
    found = shares()
    for name, (taken, total, there) in [*found.items(), ("all", all_of(found))]:
        also = f", {there} of the others were refused there, too" if there else ""
        print(f"{name:<12} {taken:>4} of {total:>4}  {100 * taken / total:5.1f} %{also}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
