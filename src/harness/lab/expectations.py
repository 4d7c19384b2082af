"""What a scenario expects of a run, and the comparison with its events: whatever is missing is a finding."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from harness.agents.registry import load
from harness.contracts.translator import Translator
from harness.events import (
    Error,
    Event,
    Message,
    Outcome,
    ReasoningDelta,
    Result,
    SessionStart,
    TasksChanged,
    ToolEnd,
    ToolStart,
    Warning,
)
from harness.events.operation import Operation
from harness.folds.finished import Finished, FinishedFold
from harness.lab.doctor_report import Finding, FindingKind
from harness.log.run_tree import RunTree

_Kind: TypeAlias = Literal["command", "read", "write", "search", "list", "skill", "fetch", "spawn", "tasks"]


class _Strict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class ExpectedOperation(_Strict, frozen=True, kw_only=True, omit_defaults=True):
    """What is given must be so; what is not, may be anything. The last three are of the call."""

    kind: _Kind
    path: str | None = None
    start_line: int | None = None
    end_line: int | None = None
    command: str | None = None
    """A part of it: some agents show the shell that they run it with."""
    query: str | None = None
    name: str | None = None
    success: bool | None = None
    exit_code: int | None = None
    output: str | None = None
    """A part of it."""


class ExpectedTool(_Strict, frozen=True, kw_only=True):
    """A call without an operation."""

    name: str
    """A part of the tool's name."""
    output: str = ""


class Expectation(_Strict, frozen=True, kw_only=True):
    outcome: Outcome = "completed"
    texts: tuple[str, ...] = ()
    reasoning: tuple[str, ...] = ()
    operations: tuple[ExpectedOperation, ...] = ()
    tools: tuple[ExpectedTool, ...] = ()
    usage: dict[Literal["input", "output", "cache_read", "cache_write", "reasoning"], int] = {}
    """Of the whole run."""
    tasks: tuple[str, ...] = ()
    """What is on the agent's own list at some time."""
    sub_agents: int = 0
    is_failure_explained: bool = False
    files: dict[str, str] = {}
    """Path → what it must contain afterwards."""
    absent: tuple[str, ...] = ()
    """Files that must not be there afterwards."""
    heard: tuple[str, ...] = ()
    """Texts that the model must get in one of its requests (two-way scenarios)."""


_OF_THE_CALL = ("success", "exit_code", "output")


class _SeenOperation(msgspec.Struct, frozen=True):
    """One operation with the call that did it."""

    operation: Operation
    call: ToolEnd


def missing(expected: Expectation, events: Sequence[Event], cwd: str) -> Iterator[Finding]:
    """Everything that should be visible and is not."""
    result = next((event for event in reversed(events) if isinstance(event, Result)), None)
    if result is None:
        yield Finding(kind="broken", what="the run has no result")
        return
    yield from _outcome(expected, result, events)
    top = events[0].run_id
    texts = [*_spoken(events, top), result.text]
    for text in expected.texts:
        if not any(text in seen_text for seen_text in texts):
            yield _degraded(f"text {text!r}")
    thought = "".join(event.text for event in events if isinstance(event, ReasoningDelta))
    yield from (_degraded(f"reasoning {text!r}") for text in expected.reasoning if text not in thought)
    yield from _operations(expected, events, cwd)
    yield from _usage(expected, result)
    task_texts = {task.text for event in events if isinstance(event, TasksChanged) for task in event.tasks}
    yield from (_degraded(f"task {text!r}") for text in expected.tasks if text not in task_texts)
    children = {event.run_id for event in events if isinstance(event, SessionStart) and event.run_id != top}
    if len(children) < expected.sub_agents:
        yield _degraded("the run of the sub-agent")
    yield from _files(expected, cwd)


def _degraded(what: str) -> Finding:
    return Finding(kind="degraded", what=what)


def _wrong(what: str) -> Finding:
    return Finding(kind="wrong", what=what)


def _outcome(expected: Expectation, result: Result, events: Sequence[Event]) -> Iterator[Finding]:
    if result.outcome != expected.outcome:
        what = f"outcome {result.outcome!r} where {expected.outcome!r} was expected"
        errors = [event.message for event in events if isinstance(event, Error | Warning)]
        kind: FindingKind = "broken" if expected.outcome == "completed" else "wrong"
        yield Finding(kind=kind, what=what, example=" / ".join(errors[-3:])[:300])
    if expected.is_failure_explained and not any(isinstance(event, Error) for event in events):
        yield _degraded("an error that explains the failure")


def _spoken(events: Sequence[Event], top: str) -> list[str]:
    """Also what was cut off, but nothing that was withdrawn."""
    tree = RunTree()
    fold = FinishedFold(tree)
    items: list[Finished] = []
    for event in events:
        tree.feed(event)
        items += fold.feed(event)
    items += fold.finish()
    messages = (item for item in items if isinstance(item, Message) and item.role == "assistant")
    return [message.text for message in messages if message.run_id == top]


def _operations(expected: Expectation, events: Sequence[Event], cwd: str) -> Iterator[Finding]:
    operations = list(_seen(events))
    for expectation in expected.operations:
        alike = [operation for operation in operations if _is_meant(expectation, operation.operation, cwd)]
        if not alike:
            yield _degraded(f"operation {_named(expectation)}")
            continue
        yield from min((_of_the_call(expectation, operation) for operation in alike), key=_weight)
    ends = [event for event in events if isinstance(event, ToolEnd)]
    for tool in expected.tools:
        if not any(tool.name in end.tool_name and tool.output in (end.output or "") for end in ends):
            yield _degraded(
                f"call of {tool.name!r}" + (f" with output {tool.output!r}" if tool.output else "")
            )


def _seen(events: Sequence[Event]) -> Iterator[_SeenOperation]:
    starts = {(event.run_id, event.call_id): event for event in events if isinstance(event, ToolStart)}
    for event in events:
        if isinstance(event, ToolEnd):
            start = starts.get((event.run_id, event.call_id))
            operations = (
                event.operations if event.operations is not None else start.operations if start else []
            )
            yield from (_SeenOperation(operation, event) for operation in operations)


def _is_meant(expectation: ExpectedOperation, operation: Operation, cwd: str) -> bool:
    fields = msgspec.to_builtins(operation)
    if fields["kind"] != expectation.kind:
        return False
    return all(
        _is_same(name, value, fields.get(name), cwd)
        for name, value in _given(expectation).items()
        if name not in _OF_THE_CALL and value is not None
    )


def _is_same(name: str, expectation: object, actual: object, cwd: str) -> bool:
    if name == "path" and isinstance(actual, str) and isinstance(expectation, str):
        absolute = os.path.join(os.path.realpath(cwd), actual)
        return os.path.realpath(absolute) == os.path.realpath(os.path.join(cwd, expectation))
    if name == "command" and isinstance(actual, str) and isinstance(expectation, str):
        return expectation in actual
    return expectation == actual


def _of_the_call(expectation: ExpectedOperation, seen: _SeenOperation) -> list[Finding]:
    """What the end of a call should have, and lacks or has differently."""
    own = msgspec.to_builtins(seen.operation)
    findings = []
    for name in ("success", "exit_code"):
        value, actual = getattr(expectation, name), own.get(name, getattr(seen.call, name))
        if value is None or actual == value:
            continue
        if actual in (None, msgspec.UNSET):
            findings.append(_degraded(f"{name} {value!r} of {_named(expectation)}"))
        else:
            findings.append(
                _wrong(f"{name} of {_named(expectation)} is shown as {actual!r}, and was {value!r}")
            )
    if expectation.output is not None and expectation.output not in (seen.call.output or ""):
        findings.append(_degraded(f"output {expectation.output!r} of {_named(expectation)}"))
    return findings


def _weight(findings: list[Finding]) -> tuple[bool, int]:
    return any(finding.kind == "wrong" for finding in findings), len(findings)


def _given(expectation: ExpectedOperation) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(expectation)
    del fields["kind"]
    return fields


def _named(expectation: ExpectedOperation) -> str:
    fields = {name: value for name, value in _given(expectation).items() if name not in _OF_THE_CALL}
    return " ".join([expectation.kind, *(f"{name}={value!r}" for name, value in fields.items())])


def _usage(expected: Expectation, result: Result) -> Iterator[Finding]:
    for name, expected_count in expected.usage.items():
        actual = getattr(result.usage, name, None)
        if actual is None:
            yield _degraded(f"usage.{name}")
        elif actual != expected_count:
            yield _wrong(f"usage.{name} is shown as {actual}, and was {expected_count}")


def _files(expected: Expectation, cwd: str) -> Iterator[Finding]:
    for name, content in expected.files.items():
        try:
            with open(os.path.join(cwd, name), encoding="utf-8", errors="replace") as file:
                is_there = content in file.read()
        except OSError:
            is_there = False
        if not is_there:
            yield Finding(kind="broken", what=f"{name} was not written as asked")
    for name in expected.absent:
        if os.path.lexists(os.path.join(cwd, name)):
            yield Finding(kind="broken", what=f"{name} was written though that was forbidden")


# Which fields an agent's records have had so far, so that new ones are noticed.
#
# `known/<agent>.json` maps each kind of record to the paths of its fields; `docs/known_fields.py` writes it
# from recordings. Only the doctor reads it: a translator never minds a field that it does not know.


KnownFields: TypeAlias = dict[str, list[str]]

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "known")
_DEEPEST = 4
_FREE = frozenset(
    [
        "args",
        "arguments",
        "env",
        "input",
        "inputs",
        "metadata",
        "parameters",
        "rawInput",
        "rawOutput",
        "schema",
        "tool_input",
    ]
)
"""What tools take and give has any shape: it is not looked into."""
_NAME = re.compile(r"[A-Za-z_$@][A-Za-z_]*\d?")
_LONGEST_NAME = 40


def load_known(agent: str) -> KnownFields:
    """Empty for an agent of which there are no recordings: then no field is called unknown."""
    try:
        with open(os.path.join(FOLDER, f"{agent}.json"), "rb") as file:
            return msgspec.json.decode(file.read(), type=KnownFields)
    except OSError:
        return {}


def records_in(stdout: bytes) -> Iterator[dict[str, Any]]:
    for line in stdout.split(b"\n"):
        if line.lstrip().startswith(b"{"):
            try:
                record = msgspec.json.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue
            if isinstance(record, dict):
                yield record


def paths_of(record: dict[str, Any]) -> set[str]:
    """`message.content[].text` and so on. Keys that are data (ids, file names) count as `*`."""
    return set(_paths(record, "", 1))


def _paths(value: Any, above: str, depth: int) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from _paths(item, f"{above}[]", depth)
    elif isinstance(value, dict) and depth <= _DEEPEST:
        for key, inner in value.items():
            is_name = len(key) <= _LONGEST_NAME and _NAME.fullmatch(key)
            path = f"{above}.{key if is_name else '*'}".lstrip(".")
            yield path
            if key not in _FREE:
                yield from _paths(inner, path, depth + 1)


def collect(agent: str, recordings: Iterable[bytes], earlier: KnownFields | None = None) -> KnownFields:
    """What these recordings have, added to what was known."""
    paths_by_kind = {kind: set(paths) for kind, paths in (earlier or {}).items()}
    translator = load(agent).translator()
    for stdout in recordings:
        for record in records_in(stdout):
            paths_by_kind.setdefault(_kind(translator, record), set()).update(paths_of(record))
    return {kind: sorted(paths) for kind, paths in sorted(paths_by_kind.items())}


class UnknownField(msgspec.Struct, frozen=True):
    """A field that no recording has."""

    kind: str
    path: str
    example: str


def unknown_fields(agent: str, stdout: bytes, known_fields: KnownFields) -> list[UnknownField]:
    """Each once, with the first record that has it."""
    translator = load(agent).translator()
    fields: dict[tuple[str, str], UnknownField] = {}
    for record in records_in(stdout):
        kind = _kind(translator, record)
        if kind not in known_fields:
            continue
        new = paths_of(record) - set(known_fields[kind])
        for path in sorted(new):
            if path.rpartition(".")[0] in new:
                continue  # what is new above it says enough
            text = msgspec.json.encode(record).decode()[:300]
            fields.setdefault((kind, path), UnknownField(kind, path, text))
    return list(fields.values())


def _kind(translator: Translator, record: dict[str, Any]) -> str:
    try:
        return translator.kind(record)
    except Exception:  # noqa: BLE001 # no agent writes such a record, and the run has reported it
        return ""
