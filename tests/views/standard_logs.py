"""The logs that every format of others is tried on: all recordings, unusual and changed ones, and one with everything."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest
from msgspec.structs import replace

import recorded_runs
import unusual_logs
from changed_logs import MUTATIONS, Log, changed
from harness.events import Event
from harness.log import codec

RECORDINGS = sorted((Path(__file__).parents[1] / "agents").glob("*/*/*/events.ndjson"))
AGENTS = sorted({path.parents[2].name for path in RECORDINGS})
GROUPS = [*AGENTS, "unusual", "changed"]
FIRST_MS = 1_794_769_890_000
CHANGED = 160


@cache
def everything() -> tuple[Event, ...]:
    """A made-up log: a sub-agent that asks, programs, images, sounds, retracted text, skills, a run that was killed."""
    return tuple(_decoded(Path(__file__).with_name("made_up.ndjson")))


def _decoded(path: Path) -> Iterator[Event]:
    for line in path.read_bytes().split(b"\n"):
        if line:
            yield codec.decode(line)


def recording(path: Path) -> Log:
    """The golden events as a log has them."""
    name = "-".join(path.parts[-4:-1])
    return [
        replace(
            event,
            seq=number,
            timestamp_ms=FIRST_MS + 37 * number,
            run_id=f"{event.run_id or 'top'}@{name}",
        )
        for number, event in enumerate(_decoded(path))
    ]


def logs(group: str) -> Iterator[tuple[str, Log]]:
    if group == "unusual":
        yield from unusual_logs.LOGS.items()
        yield "everything", list(everything())
    elif group == "changed":
        cases = random.Random(30).sample(recorded_runs.CASES, CHANGED)
        for number, case in enumerate(cases):
            mutation = MUTATIONS[number % len(MUTATIONS)]
            yield f"{case} {mutation.__name__}", changed(case, mutation)
    else:
        for path in RECORDINGS:
            if path.parents[2].name == group:
                yield str(path), recording(path)


def on_each(test: Callable[[Log], None]) -> Callable[[str], None]:
    """Run a test on every log, one test for each group; it names the logs that fail."""
    return _on_groups(GROUPS, test)


def on_recordings(test: Callable[[Log], None]) -> Callable[[str], None]:
    """The same on those that real agents have made, in which nothing is missing."""
    return _on_groups(AGENTS, test)


def _on_groups(groups: Sequence[str], test: Callable[[Log], None]) -> Callable[[str], None]:
    @pytest.mark.parametrize("group", groups)
    def on_group(group: str) -> None:
        failures, count = [], 0
        for name, log in logs(group):
            count += 1
            try:
                test(log)
            except Exception as error:
                error.add_note(f"log: {name}")
                failures.append(error)
        if failures:
            raise ExceptionGroup(f"{len(failures)} of {count} logs", failures[:5])

    on_group.__doc__ = test.__doc__
    return on_group
