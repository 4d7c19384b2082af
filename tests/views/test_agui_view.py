"""AG-UI: the rules of the protocol, by its own package, on every log; and what becomes of a question."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import ag_ui.core
import pytest
from pydantic import TypeAdapter, ValidationError

from harness.events import (
    Event,
    Message,
    Relay,
    RelayChoice,
    RelayReply,
    Result,
    SessionStart,
    TextDelta,
    ToolEnd,
    ToolStart,
)
from showing import shown
from standard_logs import on_each, on_recordings

ADAPTER: TypeAdapter[Any] = TypeAdapter(ag_ui.core.Event)
PAIRS = {
    "TEXT_MESSAGE": ("START", "CONTENT", "END", "messageId"),
    "TOOL_CALL": ("START", "ARGS", "END", "toolCallId"),
    "REASONING_MESSAGE": ("START", "CONTENT", "END", "messageId"),
}


def told(log: Sequence[Event]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in shown("agui", *log).split("\n") if line]


def streams(events: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """The runs of AG-UI, each from its start to its end."""
    found: list[list[dict[str, Any]]] = []
    for event in events:
        if event["type"] == "RUN_STARTED":
            found.append([])
        found[-1].append(event)
    return found


def check_order(stream: Sequence[dict[str, Any]]) -> None:
    """What the client refuses: pieces outside of their message, things that stay open, words after the end."""
    assert stream[0]["type"] == "RUN_STARTED"
    assert stream[-1]["type"] in {"RUN_FINISHED", "RUN_ERROR"}
    opened: set[tuple[str, str]] = set()
    for event in stream[1:-1]:
        kind = event["type"]
        assert kind not in {"RUN_STARTED", "RUN_FINISHED", "RUN_ERROR"}
        for prefix, (start, piece, end, field) in PAIRS.items():
            key = (prefix, event.get(field, ""))
            if kind == f"{prefix}_{start}":
                assert key not in opened
                opened.add(key)
            elif kind in {f"{prefix}_{piece}", f"{prefix}_{end}"}:
                assert key in opened, event
                assert kind.endswith("END") or event["delta"]
                opened -= {key} if kind.endswith("END") else set()
        for prefix, name, ends in (
            ("STEP", "stepName", ("FINISHED",)),
            ("SUBAGENT", "subagentRunId", ("FINISHED", "ERROR")),
        ):
            key = (prefix, event.get(name, ""))
            if kind == f"{prefix}_STARTED":
                assert key not in opened
                opened.add(key)
            elif kind in {f"{prefix}_{end}" for end in ends}:
                opened.remove(key)
        if "subagentRunId" in event and not kind.startswith("SUBAGENT"):
            assert ("SUBAGENT", event["subagentRunId"]) in opened, event
    if stream[-1].get("code") != "harness.unfinished":
        assert not opened


def check_all(events: Sequence[dict[str, Any]]) -> None:
    for stream in streams(events):
        check_order(stream)


@on_each
def test_every_log_is_accepted(log: list[Event]) -> None:
    events = told(log)
    for event in events:
        ADAPTER.validate_python(event)
    check_all(events)
    ids = [event["runId"] for event in events if event["type"] == "RUN_STARTED"]
    assert len(ids) == len(set(ids))


@on_recordings
def test_all_calls_and_texts_of_a_run_are_told(log: list[Event]) -> None:
    events = told(log)
    ends = sum(isinstance(event, ToolEnd) for event in log)
    assert sum(event["type"] == "TOOL_CALL_RESULT" for event in events) == ends
    words = "".join(event["delta"] for event in events if event["type"] == "TEXT_MESSAGE_CONTENT")
    for event in log:
        if isinstance(event, Message) and event.role == "assistant" and event.text:
            assert event.text[:20] in words


ASKING: list[Event] = [
    SessionStart(run_id="t", agent="x"),
    TextDelta(run_id="t", id="m", text="I "),
    ToolStart(run_id="t", call_id="c", tool_name="bash", input={"command": "ls"}),
    Relay(
        run_id="t",
        id="q",
        call_id="c",
        tool_name="bash",
        choices=[RelayChoice(id="once", kind="allow-once", label="Allow")],
    ),
    Relay(run_id="t", id="r", kind="question", question="Which?", options=["a", "b"]),
    RelayReply(run_id="t", id="q", approved=True),
    ToolEnd(run_id="t", call_id="c", tool_name="bash", success=True, output="a.py"),
    RelayReply(run_id="t", id="r", approved=True, answer="a"),
    Message(run_id="t", role="assistant", id="m", text="I am done."),
    Result(run_id="t", success=True, text="I am done."),
]


def test_a_question_ends_the_run_and_the_answer_begins_the_next() -> None:
    first, second, third = streams(told(ASKING))
    (interrupt,) = first[-1]["outcome"]["interrupts"]
    assert (interrupt["id"], interrupt["reason"], interrupt["toolCallId"]) == ("q", "harness:permission", "c")
    assert interrupt["responseSchema"]["properties"]["choice"]["enum"] == ["once"]
    assert (second[0]["runId"], second[0]["parentRunId"]) == ("t#2", "t")
    (interrupt,) = second[-1]["outcome"]["interrupts"]
    assert (interrupt["id"], interrupt["reason"]) == ("r", "input_required")
    assert interrupt["responseSchema"]["properties"]["answer"]["enum"] == ["a", "b"]
    kinds = [event["type"] for event in third]
    assert kinds.index("TOOL_CALL_RESULT") < kinds.index("TEXT_MESSAGE_CONTENT")
    assert third[-1]["outcome"] == {"type": "success"}
    text = "".join(event.get("delta", "") for event in [*first, *third] if "TEXT" in event["type"])
    assert text == "I am done."


def test_a_stopped_run_is_cancelled_and_a_failed_one_is_an_error() -> None:
    start = SessionStart(run_id="t", agent="x")
    stopped = told([start, Result(run_id="t", success=False, outcome="interrupted")])
    assert stopped[-1]["outcome"] == {"type": "cancelled"}
    failed = told([start, Result(run_id="t", success=False, outcome="failed", text="no key")])
    assert (failed[-1]["type"], failed[-1]["message"], failed[-1]["code"]) == (
        "RUN_ERROR",
        "no key",
        "failed",
    )
    assert told([start])[-1]["code"] == "harness.unfinished"


@pytest.mark.parametrize(
    "missing", ["TEXT_MESSAGE_START", "TEXT_MESSAGE_END", "TOOL_CALL_START", "RUN_STARTED"]
)
def test_a_stream_without_one_of_its_parts_is_refused(missing: str) -> None:
    events = [event for event in told(ASKING) if event["type"] != missing]
    with pytest.raises((AssertionError, KeyError, IndexError)):
        check_all(events)


def test_an_event_without_a_field_is_refused() -> None:
    with pytest.raises(ValidationError):
        ADAPTER.validate_python(
            {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": ""} | {"delta": None}
        )
