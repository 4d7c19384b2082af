"""Whatever is done to a recording: no exception, no lost line, everything opened is closed, one `Result` last.

`HARNESS_MUTATIONS=200` tries that many mutations of every recording; the default keeps the suite quick.
"""

from __future__ import annotations

import os
import random
import zlib
from collections.abc import Callable

import recorded_runs
from harness.agents.registry import load
from harness.events import Event, Result, SessionStart, ToolEnd, ToolStart
from harness.formats.json_lines import LineBlocks
from harness.log.codec import encode_lines
from harness.log.raw import RawExit, RawOutput, RawStart
from harness.runs.pipeline import Pipeline
from harness.testing.golden import Case, translate

ROUNDS = int(os.environ.get("HARNESS_MUTATIONS", "3"))
LARGE_BYTES = 300_000
"""Recordings beyond this are mutated less often: they differ from others only in size."""

Lines = list[bytes]


def drop_some(lines: Lines, chance: random.Random) -> Lines:
    return [line for line in lines if chance.random() > 0.2]


def duplicate_some(lines: Lines, chance: random.Random) -> Lines:
    return [line for line in lines for _ in range(2 if chance.random() < 0.2 else 1)]


def reorder(lines: Lines, chance: random.Random) -> Lines:
    return chance.sample(lines, len(lines))


def garble(lines: Lines, chance: random.Random) -> Lines:
    out = []
    for line in lines:
        changed = bytearray(line)
        if changed and chance.random() < 0.3:
            for _ in range(chance.randint(1, 8)):
                changed[chance.randrange(len(changed))] = chance.choice(b'\x00\xff{}[]",:0aZ\xc3')
        out.append(bytes(changed).replace(b"\n", b" "))
    return out


def miss_the_start(lines: Lines, chance: random.Random) -> Lines:
    return lines[chance.randint(1, max(1, len(lines) // 2)) :]


def miss_the_end(lines: Lines, chance: random.Random) -> Lines:
    kept = lines[: chance.randint(0, max(0, len(lines) - 1))]
    return [*kept[:-1], kept[-1][: chance.randint(0, len(kept[-1]))]] if kept else []


def change_types(lines: Lines, chance: random.Random) -> Lines:
    """Values of another type where a reader expects its own."""
    pairs = [
        (b":true", b":[]"),
        (b":null", b":{}"),
        (b':"', b':["x"],"z":"'),
        (b":{", b':7,"q":{'),
        (b":[", b':"s","w":['),
    ]
    old, new = chance.choice(pairs)
    return [line.replace(old, new, chance.randint(1, 3)) if chance.random() < 0.5 else line for line in lines]


def swap_keys(lines: Lines, chance: random.Random) -> Lines:
    keys = [
        b"type",
        b"id",
        b"text",
        b"content",
        b"message",
        b"input",
        b"name",
        b"event",
        b"part",
        b"usage",
        b"tool",
    ]
    old, new = chance.sample(keys, 2)
    return [line.replace(b'"%b":' % old, b'"%b":' % new) if chance.random() < 0.5 else line for line in lines]


MUTATIONS: tuple[Callable[[Lines, random.Random], Lines], ...] = (
    drop_some,
    duplicate_some,
    reorder,
    garble,
    miss_the_start,
    miss_the_end,
    change_types,
    swap_keys,
)


def run_lines(agent: str, lines: Lines, exit_code: int | None) -> tuple[Pipeline, list[Event]]:
    pipeline = Pipeline(load(agent).translator())
    events = list(pipeline.feed(RawStart(at_ms=0, agent=agent, prompt="do it", cwd="/workspace")))
    events += pipeline.feed(
        RawOutput(at_ms=1, stream="stdout", data=b"".join(line + b"\n" for line in lines))
    )
    events += pipeline.feed(RawExit(at_ms=2, code=exit_code))
    return pipeline, events


def assert_whole(pipeline: Pipeline, events: list[Event]) -> None:
    assert not pipeline.lost
    started = sorted((event.run_id, event.call_id) for event in events if isinstance(event, ToolStart))
    ended = sorted((event.run_id, event.call_id) for event in events if isinstance(event, ToolEnd))
    assert started == ended
    results = sorted(event.run_id for event in events if isinstance(event, Result))
    runs = sorted(event.run_id for event in events if isinstance(event, SessionStart))
    assert results == runs
    assert isinstance(events[-1], Result)
    assert results.count("") == 1
    assert encode_lines(events).count(b"\n") == len(events)


@recorded_runs.each(recorded_runs.CASES)
def test_a_mutated_recording_is_taken_whole(case: Case) -> None:
    lines = case.stdout.split(b"\n")
    chance = random.Random(zlib.crc32(str(case).encode()))
    rounds = ROUNDS if len(case.stdout) < LARGE_BYTES else min(ROUNDS, 2)
    for _ in range(rounds):
        mutated = lines
        for mutate in chance.sample(MUTATIONS, chance.randint(1, 2)):
            mutated = mutate(mutated, chance)
        assert_whole(*run_lines(case.agent, mutated, chance.choice([0, 1, 143, None])))


@recorded_runs.each([case for case in recorded_runs.CASES if len(case.stdout) < LARGE_BYTES][::7])
def test_any_split_of_the_bytes_gives_the_same_events(case: Case) -> None:
    _, whole = translate(case)
    expected = [event for event in whole if not isinstance(event, Result)]
    chance = random.Random(7)
    blocks = LineBlocks()
    pipeline = Pipeline(load(case.agent).translator())
    meta = case.meta
    events = list(
        pipeline.feed(
            RawStart(
                at_ms=0,
                agent=case.agent,
                version=case.version,
                cwd=meta.cwd,
                prompt=meta.prompt,
                argv=meta.argv,
            )
        )
    )
    data, position = case.stdout, 0
    while position < len(data):
        size = chance.choice([1, 2, 7, 100, 5000])
        block = blocks.feed(data[position : position + size])
        position += size
        events += pipeline.feed(RawOutput(at_ms=1, stream="stdout", data=block))
    events += pipeline.feed(RawOutput(at_ms=1, stream="stdout", data=blocks.finish()))
    if case.stderr:
        events += pipeline.feed(RawOutput(at_ms=1, stream="stderr", data=case.stderr))
    code = meta.exit_code or 0
    events += pipeline.feed(
        RawExit(at_ms=1, code=None if code < 0 else code, signal=-code if code < 0 else None)
    )

    assert [event for event in events if not isinstance(event, Result)] == expected
