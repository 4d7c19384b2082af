"""Recorded runs as tests: a folder is a case, and contains its expected events.

tests/agents/<agent>/<version>/<case>/
    stdout.jsonl   what the agent wrote, byte for byte
    stderr.txt     likewise (may be missing)
    meta.json      argv, prompt, cwd, exit code, when each line arrived, the script of the model
    events.ndjson  the expected events: written by `rewrite`, reviewed by people
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from harness.agents.registry import load
from harness.events import Event
from harness.log import codec
from harness.log.raw import RawEntry, RawExit, RawOutput, RawStart
from harness.runs.pipeline import Pipeline


class Meta(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The facts about a recording besides its bytes."""

    agent: str
    version: str = ""
    scenario: str = ""
    argv: list[str] = msgspec.field(default_factory=list)
    cwd: str = ""
    prompt: str = ""
    exit_code: int | None = None
    """Negative: the signal that ended it."""
    signals: list[dict[str, int]] = msgspec.field(default_factory=list)
    """Signals sent while it ran: `signal`, `at_ms`. Not passed to the pipeline, which must detect the
    interruption from the agent's own behaviour."""
    line_times_ms: list[int] = msgspec.field(default_factory=list)
    """When each line of stdout arrived, since the start."""
    script: Any = None
    """What the model was scripted to answer."""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Case:
    agent: str
    version: str
    name: str
    folder: Path

    def __str__(self) -> str:
        return f"{self.agent}/{self.version}/{self.name}"

    @property
    def meta(self) -> Meta:
        return msgspec.json.decode((self.folder / "meta.json").read_bytes(), type=Meta)

    @property
    def stdout(self) -> bytes:
        return (self.folder / "stdout.jsonl").read_bytes()

    @property
    def stderr(self) -> bytes:
        path = self.folder / "stderr.txt"
        return path.read_bytes() if path.exists() else b""

    @property
    def expected(self) -> Path:
        return self.folder / "events.ndjson"


def find_cases(root: Path) -> list[Case]:
    """All cases below `tests/agents`, sorted."""
    return [
        Case(agent=path.parts[-4], version=path.parts[-3], name=path.parts[-2], folder=path.parent)
        for path in sorted(root.glob("*/*/*/stdout.jsonl"))
    ]


def entries_of(case: Case) -> Iterator[RawEntry]:
    """The recording as the raw entries of a run."""
    meta = case.meta
    yield RawStart(
        at_ms=0, agent=case.agent, version=case.version, cwd=meta.cwd, prompt=meta.prompt, argv=meta.argv
    )
    times = iter(meta.line_times_ms)
    at_ms = 0
    lines = case.stdout.split(b"\n")
    for line in lines if lines[-1] else lines[:-1]:
        at_ms = next(times, at_ms)
        yield RawOutput(at_ms=at_ms, stream="stdout", data=line + b"\n")
    if case.stderr:
        yield RawOutput(at_ms=at_ms, stream="stderr", data=case.stderr)
    code = meta.exit_code
    is_signal = code is not None and code < 0
    yield RawExit(at_ms=at_ms, code=None if is_signal else code, signal=-code if is_signal and code else None)


def translate(case: Case) -> tuple[Pipeline, list[Event]]:
    """The events of a recording, without stamps, and the pipeline that emitted them."""
    pipeline = Pipeline(load(case.agent).translator())
    events: list[Event] = []
    for entry in entries_of(case):
        events.extend(pipeline.feed(entry))
    events.extend(pipeline.finish())
    return pipeline, events


def check(case: Case) -> str:
    """Empty when the case gives its expected events, otherwise the difference."""
    pipeline, events = translate(case)
    if pipeline.lost:
        return f"{case}: {len(pipeline.lost)} lines were lost, the first: {pipeline.lost[0][:300]!r}"
    expected = case.expected.read_bytes() if case.expected.exists() else b""
    return _difference(case, expected, codec.encode_lines(events))


def rewrite(cases: Sequence[Case]) -> Iterator[str]:
    """Write the current events as the expected ones; yields the difference of each case that changed."""
    for case in cases:
        _, events = translate(case)
        actual = codec.encode_lines(events)
        expected = case.expected.read_bytes() if case.expected.exists() else b""
        if actual != expected:
            case.expected.write_bytes(actual)
            yield _difference(case, expected, actual)


def _difference(case: Case, expected: bytes, actual: bytes) -> str:
    if expected == actual:
        return ""
    before, after = (text.decode("utf-8", "replace").split("\n") for text in (expected, actual))
    lines = difflib.unified_diff(before, after, f"{case} expected", f"{case} actual", lineterm="", n=1)
    return "\n".join(line[:400] for line in lines)
