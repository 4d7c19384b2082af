"""What the formats of others cost: CPU per event of a log, beside the format that is the log itself.

usage: python benchmarks/formats.py
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from measuring import size
from msgspec.structs import replace

from harness.events import Event
from harness.folds.standards.openai import ChatFold, ResponseFold
from harness.folds.standards.otlp import spans_as_protobuf
from harness.folds.standards.spans import SpanFold
from harness.log import codec
from harness.stage import Stage, ViewOptions, run_through

FORMATS = ("log", "acp", "agui", "atif", "otel")
MOST_US = {"acp": 10, "agui": 10, "atif": 10, "otel": 40, "chat": 10, "responses": 10}
_FOLDS: dict[str, Callable[[], Stage[Event, Any]]] = {
    "chat": lambda: ChatFold("m"),
    "responses": lambda: ResponseFold("m"),
}
"""Not a view: the server's."""
RECORDINGS = Path(__file__).parents[1] / "tests" / "agents"


def logs() -> list[list[Event]]:
    paths = sorted(RECORDINGS.glob("*/*/*/events.ndjson"))[:: size(1, 100)]
    return [list(_stamped(path)) for path in paths]


def _stamped(path: Path) -> Iterator[Event]:
    for number, line in enumerate(path.read_bytes().split(b"\n")):
        if line:
            event = codec.decode(line)
            yield replace(event, seq=number, timestamp_ms=number, run_id=f"top{event.run_id}")


def cost_us(name: str, recordings: list[list[Event]]) -> float:
    """Per event, the least of several rounds."""
    events = sum(map(len, recordings))
    best = float("inf")
    for _ in range(size(5, 1)):
        before = time.process_time()
        for log in recordings:
            if name == "protobuf":
                spans_as_protobuf(run_through(SpanFold(), log))
            elif name in _FOLDS:
                run_through(_FOLDS[name](), log)
            else:
                run_through(import_module(f"harness.views.{name}").open(ViewOptions()), log)
        best = min(best, time.process_time() - before)
    return best / events * 1e6


def main() -> None:
    recordings = logs()
    print(f"{len(recordings)} logs, {sum(map(len, recordings))} events; µs of CPU per event")
    for name in (*FORMATS, "protobuf", *_FOLDS):
        limit = MOST_US.get(name, 40)
        print(f"{name:10}{cost_us(name, recordings):8.1f}   (at most {limit})")


if __name__ == "__main__":
    main()
