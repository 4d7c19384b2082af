"""What ACP agents say, as events: the same as their one-way streams say of the same script, but for what ACP hides.

Every pair of recordings was made with one script: a text, calls that read, write, edit, run, fail, search and list, a
to-do list and a sub-agent where the agent has them, and a last text.
"""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from harness.agents.registry import load
from harness.events import (
    Event,
    Message,
    Result,
    SessionStart,
    TasksChanged,
    ToolEnd,
    ToolStart,
    Unknown,
    Usage,
)
from harness.events.operation import Spawn
from harness.log.raw import RawExit, RawOutput, RawStart
from harness.runs.pipeline import Pipeline

RECORDINGS = Path(__file__).parents[1] / "recordings" / "two-way"
AGENTS = ("goose", "gemini", "qwen", "kimi", "copilot", "cline", "droid", "grok")

_TOKENS = {"input tokens", "output tokens", "cached tokens"}
DIFFERENT: dict[str, set[str]] = {
    "goose": _TOKENS,
    "gemini": {*_TOKENS, "exit codes", "operations", "success", "to-do list"},
    # A to-do list is a plan and no call; commands that succeed have exit codes too.
    "qwen": {"exit codes", "operations", "success", "tools"},
    # Whether a call succeeded is said, and not only in words.
    "kimi": {"success"},
    # Its one-way stream says nothing of tokens.
    "copilot": _TOKENS,
    "cline": _TOKENS,
    "droid": {*_TOKENS, "exit codes", "operations"},
    "grok": set(),
}
"""Agent → what its ACP shows otherwise than its one-way stream, or not at all. docs/acp.md says it in words."""


def recorded(name: str, mode: str) -> bytes:
    [path] = RECORDINGS.glob(f"acp-{name}/*/same-script.{mode}.jsonl.gz")
    return gzip.decompress(path.read_bytes())


def events_of(name: str, mode: str, *, size: int = 0) -> list[Event]:
    agent, data = load(name), recorded(name, mode)
    assert agent.two_way is not None
    translator = agent.two_way.translator() if mode == "two-way" else agent.translator()
    [version] = {path.parent.name for path in RECORDINGS.glob(f"acp-{name}/*/same-script.{mode}.jsonl.gz")}
    pipeline = Pipeline(translator)
    start = RawStart(
        at_ms=1, agent=name, version=version, cwd="/workspace", prompt="Do it all.", two_way=mode == "two-way"
    )
    events = list(pipeline.feed(start))
    lines = data.splitlines(keepends=True)
    for block in [b"".join(lines[at : at + size]) for at in range(0, len(lines), size)] if size else [data]:
        events += pipeline.feed(RawOutput(at_ms=2, stream="stdout", data=block))
    exit = RawExit(at_ms=3, code=0, turn="completed") if mode == "two-way" else RawExit(at_ms=3, code=0)
    events += pipeline.feed(exit)
    assert not pipeline.lost
    return events


def facts_of(events: list[Event]) -> dict[str, Any]:
    """What both streams can be compared by."""
    children = [event.run_id for event in events if isinstance(event, SessionStart) and event.run_id]
    starts = [event for event in events if isinstance(event, ToolStart)]
    ends = {(event.run_id, event.call_id): event for event in events if isinstance(event, ToolEnd)}
    result = events[-1]
    assert isinstance(result, Result)
    usage = result.usage or Usage()
    return {
        "texts": [event.text for event in events if isinstance(event, Message) and not event.run_id],
        "tools": [start.tool_name for start in starts],
        "operations": [
            [
                # Ids of agents are new each time.
                replace(each, agent_id="") if isinstance(each, Spawn) else each
                for each in ends[start.run_id, start.call_id].operations or start.operations
            ]
            for start in starts
        ],
        "success": [ends[start.run_id, start.call_id].success for start in starts],
        "exit codes": [ends[start.run_id, start.call_id].exit_code for start in starts],
        "sub-agents": len(children),
        "sub-agents' calls": sum(bool(start.run_id) for start in starts),
        "input tokens": usage.input,
        "output tokens": usage.output,
        "cached tokens": usage.cache_read,
        "cost": usage.cost_usd,
        "to-do list": [
            [(task.text, task.status) for task in event.tasks]
            for event in events
            if isinstance(event, TasksChanged)
        ][-1:],
        "outcome": result.outcome,
        "answer": result.text,
    }


@pytest.mark.parametrize("name", AGENTS)
def test_a_two_way_run_gives_the_events_of_the_one_way_run(name: str) -> None:
    one, two = facts_of(events_of(name, "one-way")), facts_of(events_of(name, "two-way"))
    different = {fact for fact in one if one[fact] != two[fact]}
    assert different == DIFFERENT[name], {fact: (one[fact], two[fact]) for fact in different}


@pytest.mark.parametrize("name", AGENTS)
def test_nothing_is_unknown_and_every_call_ends(name: str) -> None:
    events = events_of(name, "two-way")
    assert not [event for event in events if isinstance(event, Unknown)]
    starts = [(event.run_id, event.call_id) for event in events if isinstance(event, ToolStart)]
    assert sorted(starts) == sorted(
        (event.run_id, event.call_id) for event in events if isinstance(event, ToolEnd)
    )
    assert len(set(starts)) == len(starts)


@pytest.mark.parametrize("name", AGENTS)
@pytest.mark.parametrize("size", [1, 7])
def test_blocks_of_any_size_give_the_same_events(name: str, size: int) -> None:
    assert events_of(name, "two-way", size=size) == events_of(name, "two-way")
