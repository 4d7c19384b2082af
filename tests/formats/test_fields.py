"""What a tool gave back is text afterwards, whatever it was before."""

from __future__ import annotations

from typing import Any

import pytest

from agent_runs import of, play
from harness.events import ToolEnd
from harness.formats.fields import exit_code_of, output_of

IMAGE = {"type": "image", "data": "…", "mimeType": "image/png"}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as it is\n", "as it is\n"),
        (None, ""),
        ([{"type": "text", "text": "a"}, "b"], "a\nb"),
        ([IMAGE, {"type": "image", "source": {"media_type": "image/jpeg"}}], "[image: image/png]\n[image: image/jpeg]"),
        ([{"type": "resource", "resource": {"uri": "file:///a", "text": "inside"}}], "inside"),
        ([{"type": "resource", "resource": {"uri": "file:///a"}}], "[resource: file:///a]"),
        ([{"type": "resource_link", "uri": "file:///b"}], "[resource_link: file:///b]"),
        ([{"type": "tool_reference", "tool_name": "grep"}], "[tool_reference: grep]"),
        ([{"type": "new"}], "[new]"),
        ([{"type": "content", "content": {"type": "text", "text": "deeper"}}], "deeper"),
        ([{"type": "web_search_result", "url": "http://x", "title": "X"}], "[web_search_result: http://x]"),
        ({"rows": 3}, '{"rows":3}'),
        ([5, None, {"a": 1}], '5\nnull\n{"a":1}'),
        (False, "false"),
    ],
)  # fmt: skip
def test_any_value_becomes_text(value: Any, text: str) -> None:
    assert output_of(value) == text


@pytest.mark.parametrize(
    ("value", "code"), [(0, 0), (-9, -9), (True, None), ("3", None), (2**40, None), (None, None)]
)
def test_an_exit_code_is_a_whole_number_of_either_sign(value: Any, code: int | None) -> None:
    assert exit_code_of(value) == code


def codex(output: Any) -> list[dict[str, Any]]:
    item = {"id": "i", "type": "command_execution", "command": "make", "exit_code": 0}
    return [{"type": "item.completed", "item": {**item, "aggregated_output": output}}]


def gemini(output: Any) -> list[dict[str, Any]]:
    opening = {"type": "tool_use", "tool_id": "i", "tool_name": "read_file", "parameters": {"file_path": "a"}}
    return [opening, {"type": "tool_result", "tool_id": "i", "status": "success", "output": output}]


def pi(output: Any) -> list[dict[str, Any]]:
    opening = {"type": "tool_execution_start", "toolCallId": "i", "toolName": "read", "args": {"path": "a"}}
    return [opening, {"type": "tool_execution_end", "toolCallId": "i", "result": output, "isError": False}]


def copilot(output: Any) -> list[dict[str, Any]]:
    opening = {"toolCallId": "i", "toolName": "view", "arguments": {"path": "/a"}}
    ended = {"toolCallId": "i", "success": True, "result": {"content": output}}
    return [
        {"type": "tool.execution_start", "data": opening},
        {"type": "tool.execution_complete", "data": ended},
    ]


def droid(output: Any) -> list[dict[str, Any]]:
    opening = {"type": "tool_call", "id": "i", "toolName": "Read", "parameters": {"file_path": "a"}}
    return [opening, {"type": "tool_result", "id": "i", "isError": False, "value": output}]


def goose(output: Any) -> list[dict[str, Any]]:
    asked = {"status": "success", "value": {"name": "tree", "arguments": {"path": "."}}}
    opening = {"type": "toolRequest", "id": "i", "toolCall": asked}
    ended = {"type": "toolResponse", "id": "i", "toolResult": {"status": "success", "value": output}}
    return [
        {"type": "message", "message": {"role": "assistant", "content": [opening]}},
        {"type": "message", "message": {"role": "user", "content": [ended]}},
    ]


def antigravity(output: Any) -> list[dict[str, Any]]:
    info = {"name": "view_file", "parameters": {"AbsolutePath": "/a"}, "output": output}
    step = {"step_index": 1, "state": "DONE", "step_type": "tool", "tool_info": info}
    return [{"event": "step_update", "step_update": step}]


def cline(output: Any) -> list[dict[str, Any]]:
    fields = {"contentType": "tool", "toolName": "run_commands", "toolCallId": "i"}
    given = [{"query": "make", "result": output, "success": True}]
    return [
        {
            "type": "agent_event",
            "event": {"type": "content_start", "input": {"commands": ["make"]}, **fields},
        },
        {"type": "agent_event", "event": {"type": "content_end", "output": given, **fields}},
    ]


@pytest.mark.parametrize("lines", [codex, gemini, pi, copilot, droid, goose, antigravity, cline])
@pytest.mark.parametrize(
    ("output", "text"), [("plain", "plain"), ([{"type": "text", "text": "in a block"}], "in a block")]
)
def test_no_agents_output_is_lost_for_its_shape(lines: Any, output: Any, text: str) -> None:
    end = of(ToolEnd, play(lines.__name__, *lines(output)))[0]

    assert (end.success, end.output) == (True, text)


@pytest.mark.parametrize("lines", [codex, gemini, copilot, droid, antigravity, cline])
def test_an_output_that_is_data_is_preserved_as_json(lines: Any) -> None:
    assert of(ToolEnd, play(lines.__name__, *lines({"rows": 3})))[0].output == '{"rows":3}'
