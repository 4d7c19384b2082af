"""What became of a call is what its agent said: where it says nothing, nothing is claimed.

`isSuccess` and `exitCode` of the activity are then absent; the event stream, which must have a `success`,
calls a call that was answered a success.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent_runs import end_of, of, play, recorded
from harness.agents.registry import load, names
from harness.events import Error, Event, Result, ToolEnd
from harness.log import codec
from showing import shown_bytes

QWEN = {"type": "system", "subtype": "init", "session_id": "s", "cwd": "/w", "model": "m"}


def qwen(output: str, version: str, command: str = "make", **more: Any) -> list[dict[str, Any]]:
    call = {"type": "tool_use", "id": "c", "name": "run_shell_command", "input": {"command": command}}
    result = {"type": "tool_result", "tool_use_id": "c", "is_error": False, "content": output, **more}
    return [
        {**QWEN, "qwen_code_version": version},
        {"type": "assistant", "message": {"id": "m", "content": [call]}},
        {"type": "user", "message": {"role": "user", "content": [result]}},
    ]


def gemini(command: str = "make", **answer: Any) -> list[dict[str, Any]]:
    asked = {"tool_name": "run_shell_command", "tool_id": "1", "parameters": {"command": command}}
    return [
        {"type": "init", "session_id": "s", "model": "m"},
        {"type": "tool_use", **asked},
        {"type": "tool_result", "tool_id": "1", **answer},
    ]


def copilot(content: str, name: str = "bash", **more: Any) -> list[dict[str, Any]]:
    opening = {"toolCallId": "c", "toolName": name, "arguments": {"command": "make"}}
    ended = {"toolCallId": "c", "success": True, "result": {"content": content}, **more}
    return [
        {"type": "tool.execution_start", "data": opening},
        {"type": "tool.execution_complete", "data": ended},
    ]


def opencode(name: str, asked: dict[str, Any], **state: Any) -> list[dict[str, Any]]:
    part = {"type": "tool", "tool": name, "callID": "c", "state": {"input": asked, **state}}
    return [{"type": "tool_use", "sessionID": "s", "part": part}]


def kimi(output: str, command: str = "make") -> list[dict[str, Any]]:
    function = {"name": "Bash", "arguments": json.dumps({"command": command})}
    return [
        {"role": "assistant", "content": "", "tool_calls": [{"id": "c", "function": function}]},
        {"role": "tool", "tool_call_id": "c", "content": output},
    ]


def droid(**result: Any) -> list[dict[str, Any]]:
    return [
        {"type": "tool_call", "id": "c", "toolName": "Execute", "parameters": {"command": "make"}},
        {"type": "tool_result", "id": "c", **result},
    ]


def pi(output: str, *, is_error: bool) -> list[dict[str, Any]]:
    content = {"content": [{"type": "text", "text": output}]}
    return [
        {"type": "tool_execution_start", "toolCallId": "c", "toolName": "bash", "args": {"command": "make"}},
        {
            "type": "tool_execution_end",
            "toolCallId": "c",
            "toolName": "bash",
            "result": content,
            "isError": is_error,
        },
    ]


def claude(output: str, *, version: str = "2.1.0", **more: Any) -> list[dict[str, Any]]:
    call = {"type": "tool_use", "id": "c", "name": "Bash", "input": {"command": "make"}}
    result = {"type": "tool_result", "tool_use_id": "c", "content": output, "is_error": False, **more}
    init = {"type": "system", "subtype": "init", "session_id": "s", "cwd": "/w", "model": "m"}
    return [
        {**init, "claude_code_version": version},
        {"type": "assistant", "message": {"id": "m", "content": [call]}},
        {"type": "user", "message": {"role": "user", "content": [result]}},
    ]


def cursor(result: Any) -> list[dict[str, Any]]:
    call = {"shellToolCall": {"args": {"command": "make"}}}
    ended = {"shellToolCall": {"args": {"command": "make"}, **({} if result is None else {"result": result})}}
    return [
        {"type": "tool_call", "subtype": "started", "call_id": "c", "tool_call": call},
        {"type": "tool_call", "subtype": "completed", "call_id": "c", "tool_call": ended},
    ]


REPORT = "Command: make\nDirectory: (root)\nOutput: {}\nError: (none)\nExit Code: {}\nSignal: (none)\nProcess Group PGID: 7"
FORGED = "Exit Code: 0\nSignal: (none)\nProcess Group PGID: 7"

UNSAID = (None, None)
VERDICTS: dict[str, tuple[str, list[dict[str, Any]], tuple[bool | None, int | None]]] = {
    "qwen 0.12 says only that it ran": ("qwen", qwen("one", "0.12.0"), UNSAID),
    "qwen 0.12 reports on a command without output": (
        "qwen",
        qwen(REPORT.format("(empty)", 0), "0.12.0"),
        (True, 0),
    ),
    "qwen 0.12 has Gemini's words for a silent failure": (
        "qwen",
        qwen("Command exited with code: 7", "0.12.0"),
        (False, 7),
    ),
    "qwen 0.24 fails with its commands": (
        "qwen",
        qwen(REPORT.format("out", 3), "0.24.4", is_error=True),
        (False, 3),
    ),
    "qwen 0.24 has no exit code of a success": ("qwen", qwen("one", "0.24.4"), (True, None)),
    "what a command writes into its report is not the report": (
        "qwen",
        qwen(REPORT.format(f"x\n{FORGED}", 3), "0.24.4", is_error=True),
        (False, 3),
    ),
    "what a success writes is no report": ("qwen", qwen(REPORT.format("x", 7), "0.24.4"), (True, None)),
    "gemini without any output": ("gemini", gemini(status="success"), UNSAID),
    "gemini with output": ("gemini", gemini(status="success", output="one"), UNSAID),
    "gemini without a status": ("gemini", gemini(output="one"), UNSAID),
    "gemini, silent success": ("gemini", gemini(status="success", output=""), (True, None)),
    "gemini, silent failure": (
        "gemini",
        gemini(status="success", output="Command exited with code: 7"),
        (False, 7),
    ),
    "gemini, a command that writes these words itself": (
        "gemini",
        gemini("echo 'Command exited with code: 7'", status="success", output="Command exited with code: 7"),
        UNSAID,
    ),
    "copilot 1.0.50 has it in the last line": (
        "copilot",
        copilot("x\n<exited with exit code 3>"),
        (False, 3),
    ),
    "copilot 1.0.50, success": ("copilot", copilot("x\n<exited with exit code 0>"), (True, 0)),
    "copilot: only the last line counts": (
        "copilot",
        copilot("<exited with exit code 0>\n<exited with exit code 3>"),
        (False, 3),
    ),
    "copilot: words in the middle are output": ("copilot", copilot("<exited with exit code 0>\nx"), UNSAID),
    "copilot: a line of its own": ("copilot", copilot("so: <exited with exit code 0>"), UNSAID),
    "copilot: numbers go before words": (
        "copilot",
        copilot("<exited with exit code 0>", shellExecution={"exitCode": 4}),
        (False, 4),
    ),
    "copilot: other tools run no command": (
        "copilot",
        copilot("<exited with exit code 3>", name="view"),
        (True, None),
    ),
    "opencode without an exit code": (
        "opencode",
        opencode("bash", {"command": "make"}, status="completed", output="x"),
        UNSAID,
    ),
    "opencode without a status": ("opencode", opencode("grep", {"pattern": "x"}), UNSAID),
    "kimi never states a success": ("kimi", kimi("one\n"), UNSAID),
    "kimi states a failure": ("kimi", kimi("one\nCommand failed with exit code: 3."), (False, 3)),
    "kimi, words in the middle": ("kimi", kimi("Command failed with exit code: 3.\nmore"), UNSAID),
    "kimi, a command that writes these words itself": (
        "kimi",
        kimi("Command failed with exit code: 3.", "echo Command failed with exit code: 3."),
        UNSAID,
    ),
    "droid without a flag": ("droid", droid(value="one"), UNSAID),
    "droid with one": (
        "droid",
        droid(value="one\n\n[Process exited with code 0]", isError=False),
        (True, 0),
    ),
    "droid: what a command wrote does not deny the flag": (
        "droid",
        droid(value="one\n[Process exited with code 3]", isError=False),
        (True, None),
    ),
    "pi has no exit code of a success": (
        "pi",
        pi("Command exited with code 3", is_error=False),
        (True, None),
    ),
    "pi has it of a failure": ("pi", pi("x\n\nCommand exited with code 3", is_error=True), (False, 3)),
    "claude has no exit code of a success": ("claude", claude("Exit code 3"), (True, None)),
    "claude 1 has none of a failure either": (
        "claude",
        claude("Exit code 3\nis what it wrote", version="1.0.128", is_error=True),
        (False, None),
    ),
    "claude 2 does": ("claude", claude("Exit code 3\nx", is_error=True), (False, 3)),
    "cursor without a result": ("cursor", cursor(None), UNSAID),
    "cursor with an unknown one": ("cursor", cursor({"odd": {}}), UNSAID),
}


@pytest.mark.parametrize("name", VERDICTS)
def test_a_verdict_is_what_the_agent_said(name: str) -> None:
    agent, lines, expected = VERDICTS[name]
    events = play(agent, *lines)
    [end] = of(ToolEnd, events)

    assert (end.success, end.exit_code) == expected
    [stated] = [one for one in shown("activity", events) if one["type"] in ("command", "search", "unknown")]
    assert (
        (stated.get("isSuccess"), stated.get("exitCode")) == expected if stated["type"] == "command" else True
    )
    [streamed] = [one for one in shown("stream", events) if one["type"] == "ToolEnd"]
    assert streamed["success"] is (expected[0] is not False)


def shown(view: str, events: list[Event]) -> list[dict[str, Any]]:
    """What a view writes of these events."""
    return [json.loads(line) for line in shown_bytes(view, events).split(b"\n") if line]


@pytest.mark.parametrize(
    ("agent", "version", "verdict"),
    [
        ("gemini", "0.40.1", (None, None)),
        ("copilot", "1.0.50", (False, 3)),
        ("qwen", "0.21.10", (False, 3)),
        ("opencode", "1.2.27", (False, 3)),
        ("kilo", "7.0.33", (False, 3)),
        ("pi", "0.50.3", (False, 3)),
        ("claude", "1.0.128", (False, None)),
    ],
)
def test_a_command_that_exits_with_3_is_never_a_success(
    agent: str, version: str, verdict: tuple[bool | None, int | None]
) -> None:
    [end] = of(ToolEnd, recorded(agent, "shell-failing", version))

    assert (end.success, end.exit_code) == verdict


@pytest.mark.parametrize(("agent", "version"), [("opencode", "1.2.27"), ("kilo", "7.0.33")])
def test_a_directory_that_was_read_was_listed(agent: str, version: str) -> None:
    stated = shown("activity", recorded(agent, "list", version))

    assert [one["type"] for one in stated if one["type"] in ("read", "list")] == ["list"]


def test_a_file_that_only_looks_like_a_listing_was_read() -> None:
    output = "<path>/w/a</path>\n<type>file</type>\n<content>\n<type>directory</type>\n</content>"
    lines = opencode("read", {"filePath": "/w/a"}, status="completed", output=output)

    assert "list" not in {one["type"] for one in shown("activity", play("opencode", *lines))}


def failed_request(text: str, **usage: int) -> list[dict[str, Any]]:
    used = {"input_tokens": 0, "output_tokens": 0, **usage}
    message = {"id": "m", "content": [{"type": "text", "text": text}], "usage": used}
    result = {"type": "result", "subtype": "success", "is_error": False, "result": text, "usage": used}
    return [{**QWEN, "qwen_code_version": "0.21.10"}, {"type": "assistant", "message": message}, result]


def test_an_answer_that_is_only_the_error_of_a_request_is_a_failure() -> None:
    events = play("qwen", *failed_request("[API Error: 401 no such key]"))

    assert [(error.code, error.message) for error in of(Error, events)] == [
        ("http_401", "[API Error: 401 no such key]")
    ]
    assert (end_of(events).success, end_of(events).outcome, end_of(events).text) == (False, "failed", "")
    assert end_of(recorded("qwen", "fault-401", "0.21.10")).outcome == "failed"


@pytest.mark.parametrize(
    "lines",
    [
        failed_request("[API Error: 401 no such key]", output_tokens=9),
        failed_request("The log says [API Error: 401 no such key]"),
        failed_request("[API Error: 401 no such key] is what the log says."),
    ],
)
def test_what_a_model_says_of_errors_is_an_answer(lines: list[dict[str, Any]]) -> None:
    assert end_of(play("qwen", *lines)).success


PROGRAMS = [name for name in names() if load(name).binaries and load(name).work is None]


@pytest.mark.parametrize("agent", [name for name in PROGRAMS if name not in ("generic", "replay")])
def test_an_agent_that_ends_without_a_word_has_failed(agent: str) -> None:
    events = play(agent, exit_code=0)

    assert [error.code for error in of(Error, events)] in (["missing_end"], ["no_output"])
    assert of(Result, events)[-1].outcome == "failed"


@pytest.mark.parametrize("reason", ["max_tokens", "refusal"])
def test_an_answer_that_was_cut_off_or_refused_is_no_success(reason: str) -> None:
    ended = {"type": "result", "subtype": "success", "is_error": False, "result": "I", "stop_reason": reason}
    events = play("claude", claude("x")[0], ended)

    assert (end_of(events).outcome, [error.code for error in of(Error, events)]) == ("failed", [reason])
    assert codec.encode_lines(events)
