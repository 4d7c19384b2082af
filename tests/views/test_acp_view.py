"""ACP: every update by the protocol's own schemas and by its Python package, on every log, in both versions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import acp.schema
import pytest
from jsonschema import Draft202012Validator
from pydantic import ValidationError

from harness.events import (
    Compacted,
    Event,
    FileTexts,
    Message,
    Relay,
    RelayReply,
    Result,
    SessionStart,
    TextDelta,
    TextRetracted,
    ToolEnd,
    ToolProgress,
    ToolStart,
    Warning,
)
from harness.events.operation import Command, Write
from harness.folds.standards.acp import AcpFold, AcpOptions
from harness.stage import run_through
from showing import shown
from standard_logs import everything, on_each, on_recordings

SCHEMAS = Path(__file__).with_name("acp_schemas")


@cache
def validators(version: int) -> dict[str, Draft202012Validator]:
    schema = json.loads((SCHEMAS / f"v{version}.json").read_text())
    updates = schema["$defs"]["SessionUpdate"]
    found = {}
    for one in updates.get("oneOf") or updates["anyOf"]:
        name = one.get("properties", {}).get("sessionUpdate", {}).get("const")
        if name:
            found[name] = Draft202012Validator({"$defs": schema["$defs"], **one})
    return found


_seen: set[str] = set()


def check(version: int, update: dict[str, Any]) -> None:
    shape = _shape(update)
    key = f"{version} {json.dumps(shape, sort_keys=True)}"
    if key not in _seen:
        validators(version)[update["sessionUpdate"]].validate(update)
        _seen.add(key)


def _shape(value: Any) -> Any:
    """What decides whether it is valid: everything but the words, which are strings in any case."""
    if isinstance(value, dict):
        words = ("sessionUpdate", "status", "kind", "severity", "state", "stopReason", "type", "priority")
        return {key: one if key in words else _shape(one) for key, one in value.items()}
    if isinstance(value, list):
        return sorted({json.dumps(_shape(one), sort_keys=True) for one in value})
    return type(value).__name__


def updates(log: Sequence[Event], version: Any = 1, **options: Any) -> list[dict[str, Any]]:
    return run_through(AcpFold(AcpOptions(version=version, **options)), log)


@on_each
def test_every_update_is_valid_in_both_versions(log: list[Event]) -> None:
    for version in (1, 2):
        for update in updates(log, version, notices=True, compaction=True):
            check(version, update)


@on_each
def test_rows_are_opened_before_they_change_and_paths_are_absolute(log: list[Event]) -> None:
    rows: set[str] = set()
    for update in updates(log):
        kind, row = update["sessionUpdate"], update.get("toolCallId", "")
        if kind == "tool_call":
            assert row not in rows
            rows.add(row)
        elif kind == "tool_call_update":
            assert row in rows
        for place in [*update.get("locations", ()), *_diffs(update)]:
            assert place["path"].startswith("/")


def _diffs(update: dict[str, Any]) -> list[dict[str, Any]]:
    content = update.get("content")
    return [one for one in content if one["type"] == "diff"] if isinstance(content, list) else []


@on_each
def test_the_python_package_takes_every_log(log: list[Event]) -> None:
    for line in filter(None, shown("acp", *log).split("\n")):
        acp.schema.SessionNotification.model_validate(json.loads(line)["params"])


@on_recordings
def test_the_python_package_takes_every_line_of_the_view(log: list[Event]) -> None:
    """Without notices and compaction, which it does not know, and which the view does not write."""
    ends = 0
    for line in shown("acp", *log).split("\n"):
        if line:
            update = acp.schema.SessionNotification.model_validate(json.loads(line)["params"]).update
            ends += getattr(update, "status", "") in {"completed", "failed"}
    assert ends == sum(isinstance(event, ToolEnd) for event in log)


def test_the_log_with_everything_says_what_a_client_shows() -> None:
    kinds = {update["sessionUpdate"] for update in updates(everything(), notices=True, compaction=True)}
    assert kinds >= {"user_message_chunk", "tool_call", "tool_call_update", "usage_update", "plan", "notice"}


RUN: list[Event] = [
    SessionStart(run_id="t", agent="x", cwd="/w"),
    Message(run_id="t", role="user", text="Do it."),
    TextDelta(run_id="t", id="m", text="Wrong."),
    TextRetracted(run_id="t", id="m"),
    Relay(run_id="t", id="q", call_id="c", tool_name="edit", category="edit", input={"path": "a.py"}),
    RelayReply(run_id="t", id="q", approved=True),
    ToolStart(run_id="t", call_id="c", tool_name="edit", operations=[Write(path="a.py", start_line=3)]),
    ToolProgress(run_id="t", call_id="c", text="one "),
    ToolProgress(run_id="t", call_id="c", text="two"),
    ToolEnd(
        run_id="t",
        call_id="c",
        tool_name="edit",
        success=True,
        output="ok",
        changes=[FileTexts(path="a.py", before="1\n", after="2\n")],
    ),
    ToolStart(run_id="t", call_id="d", tool_name="task", operations=[Command(command="make test")]),
    SessionStart(run_id="k", parent_id="d", name="helper"),
    Message(run_id="k", role="assistant", text="I help."),
    Result(run_id="k", success=True, text="I help."),
    ToolEnd(run_id="t", call_id="d", tool_name="task", success=False, output="no"),
    Warning(run_id="t", message="careful"),
    Compacted(run_id="t"),
    Result(run_id="t", success=True, text="Done."),
]


def test_a_question_opens_the_row_that_the_call_then_changes() -> None:
    rows = [one for one in updates(RUN) if one.get("toolCallId") == "c"]
    assert [(one["sessionUpdate"], one.get("status")) for one in rows] == [
        ("tool_call", "pending"),
        ("tool_call_update", "in_progress"),
        ("tool_call_update", None),
        ("tool_call_update", None),
        ("tool_call_update", "completed"),
    ]
    assert rows[1]["locations"] == [{"path": "/w/a.py", "line": 3}]
    assert [one["content"][0]["content"]["text"] for one in rows[2:4]] == ["one ", "one two"]
    assert rows[4]["content"][0] == {"type": "diff", "path": "/w/a.py", "oldText": "1\n", "newText": "2\n"}


def test_version_2_appends_takes_back_and_says_the_state() -> None:
    told = updates(RUN, 2)
    pieces = [one["content"]["content"]["text"] for one in told if "content_chunk" in one["sessionUpdate"]]
    assert pieces == ["one ", "two", "I help."]
    assert {"sessionUpdate": "agent_message", "messageId": "m", "content": []} in told
    states = [(one["state"], one.get("stopReason")) for one in told if one["sessionUpdate"] == "state_update"]
    assert states == [
        ("running", None),
        ("requires_action", None),
        ("running", None),
        ("idle", "end_turn"),
    ]
    (patch,) = [one["patch"] for update in told for one in _diffs(update)]
    assert patch["text"].startswith("diff --git a/w/a.py b/w/a.py\n--- a/w/a.py\n+++ b/w/a.py\n@@")


def test_words_of_a_sub_agent_are_in_the_row_of_its_call() -> None:
    (told,) = [one for one in updates(RUN) if one.get("_meta")]
    assert (told["toolCallId"], told["content"][0]["content"]["text"]) == ("d", "I help.")
    assert told["_meta"] == {"harness": {"runId": "k", "parentToolCallId": "d"}}


def test_notices_are_only_for_those_who_know_them() -> None:
    new = {"notice", "compaction_update"}
    assert not new & {one["sessionUpdate"] for one in updates(RUN)}
    assert new <= {one["sessionUpdate"] for one in updates(RUN, notices=True, compaction=True)}
    with pytest.raises(ValidationError):
        acp.schema.SessionNotification.model_validate(
            {"sessionId": "s", "update": {"sessionUpdate": "notice", "severity": "error", "title": "x"}}
        )


@pytest.mark.parametrize("missing", ["toolCallId", "title", "content"])
def test_an_update_without_what_it_needs_is_refused(missing: str) -> None:
    update = next(one for one in updates(RUN) if missing in one)
    broken = {key: value for key, value in update.items() if key != missing}
    assert list(validators(1)[update["sessionUpdate"]].iter_errors(broken))
