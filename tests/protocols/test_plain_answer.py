"""Answers that are no records: plain text keeps its layout, one printed object is read whole."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent_runs import end_of, of, play
from harness.events import Message, SessionStart, ToolEnd, Unknown

WITH_PLAIN_ANSWERS = (
    *("antigravity", "claude", "codex", "copilot", "cursor", "droid"),
    *("gemini", "goose", "grok", "kimi", "pi", "qwen"),
)


@pytest.mark.parametrize("agent", WITH_PLAIN_ANSWERS)
def test_an_answer_in_plain_text_keeps_its_paragraphs_and_its_indentation(agent: str) -> None:
    events = play(agent, "", "First.", "", "    indented {not json}", "", "Last.", "")

    assert end_of(events).text == "First.\n\n    indented {not json}\n\nLast."
    assert end_of(events).success
    assert of(Message, events)[-1].text == end_of(events).text


@pytest.mark.parametrize("agent", WITH_PLAIN_ANSWERS)
def test_a_broken_record_is_no_answer(agent: str) -> None:
    events = play(agent, '{"type":"thread.sta')

    assert of(Unknown, events) == [Unknown(raw='{"type":"thread.sta')]
    assert not end_of(events).success


def test_text_before_the_first_record_is_preserved_and_so_is_text_around_one() -> None:
    record: dict[str, Any] = {"type": "session", "id": "s-1", "cwd": "/here"}
    events = play("pi", "a notice", "", f"\ufeffglued {json.dumps(record)}")

    assert of(Unknown, events) == [Unknown(raw="a notice"), Unknown(raw="glued")]
    assert of(SessionStart, events)[0].session_id == "s-1"


def test_several_records_may_come_as_one_array() -> None:
    lines = [
        {"type": "thread.started", "thread_id": "th"},
        {"type": "turn.started"},
        {"type": "turn.completed"},
    ]

    assert end_of(play("codex", json.dumps(lines))).success


def test_the_one_object_that_goose_prints_is_read_like_its_records() -> None:
    call = {"status": "success", "value": {"name": "shell", "arguments": {"command": "echo {}"}}}
    result = {"status": "success", "value": {"content": [{"type": "text", "text": "{}"}], "isError": False}}
    printed = {
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "do it"}]},
            {
                "id": "m",
                "role": "assistant",
                "content": [{"type": "toolRequest", "id": "c", "toolCall": call}],
            },
            {"role": "user", "content": [{"type": "toolResponse", "id": "c", "toolResult": result}]},
            {"id": "n", "role": "assistant", "content": [{"type": "text", "text": "Done: {}"}]},
        ],
        "metadata": {"total_tokens": 12, "input_tokens": 10, "output_tokens": 2, "status": "completed"},
    }
    events = play("goose", *json.dumps(printed, indent=2).split("\n"))

    assert not of(Unknown, events)
    assert [(end.output, end.success) for end in of(ToolEnd, events)] == [("{}", True)]
    assert (end_of(events).success, end_of(events).text) == (True, "Done: {}")
    assert end_of(events).usage is not None
