"""Run events: byte for byte on logs of our own agents."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harness.contracts.model import Attachment, Call
from harness.events import (
    Error,
    Event,
    Info,
    Message,
    ReasoningDelta,
    Relay,
    RelayReply,
    ReplInput,
    ReplOutput,
    ReplProgress,
    Result,
    SessionStart,
    StepStart,
    TextDelta,
    TextRetracted,
    ToolEnd,
    ToolProgress,
    ToolStart,
    Unknown,
    Usage,
    UsageDelta,
    Warning,
)
from harness.log import codec
from own_runs import CONCURRENT_CALLS, LS, RUN, SINGLE_CALL, asked, begin, ended, of, result, started, step
from showing import shown


def lines(*events: Event) -> list[str]:
    return shown("events", *events).split("\n")[:-1]


def written(*events: Event) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines(*events)]


def types(*events: Event) -> list[str]:
    return [event["type"] for event in written(*events)]


def test_an_agent_with_a_single_call_is_written_as_a_whole() -> None:
    assert lines(*SINGLE_CALL) == [
        '{"type":"harness_start","runId":"run"}',
        '{"type":"text","runId":"step-1","parentId":"run","id":"t1","content":"Let me "}',
        '{"type":"text","runId":"step-1","parentId":"run","id":"t1","content":"look."}',
        '{"type":"tool_call","runId":"step-1","parentId":"run","id":"tc-1","name":"bash","input":{"command":"ls"}}',
        '{"type":"usage","runId":"step-1","parentId":"run","inputTokens":10,"outputTokens":1}',
        (
            '{"type":"relay","runId":"run","kind":"permission","id":"ask-tc-1","toolCallId":"run/tc-1",'
            '"tool":"bash","params":{"command":"ls"}}'
        ),
        '{"type":"tool_call","runId":"run","id":"run/tc-1","name":"bash","input":{"command":"ls"}}',
        (
            '{"type":"tool_result","runId":"run","id":"run/tc-1","name":"bash",'
            '"output":{"context":"a.py\\n","result":{"exitCode":0}}}'
        ),
        '{"type":"text","runId":"step-2","parentId":"run","id":"t2","content":"One file."}',
        '{"type":"usage","runId":"step-2","parentId":"run","inputTokens":20,"outputTokens":2}',
        '{"type":"harness_end","runId":"run"}',
    ]


def test_concurrent_calls_are_asked_for_then_allowed_then_carried_out() -> None:
    concise = [
        f"{event['type']} {event.get('toolCallId', event.get('id', ''))}".strip()
        for event in written(*CONCURRENT_CALLS)
    ]

    assert concise == [
        "harness_start",
        "text t1",
        "tool_call tc-1",
        "tool_call tc-2",
        "usage",
        "relay run/tc-1",
        "relay run/tc-2",
        "tool_call run/tc-1",
        "tool_call run/tc-2",
        "tool_result run/tc-2",
        "tool_result run/tc-1",
        "text t2",
        "usage",
        "harness_end",
    ]


def test_a_call_of_a_model_alone_is_its_text_then_its_usage() -> None:
    assert types(*of(RUN, *step(1, "a", "b", "c"))) == ["text", "text", "text", "usage"]


def test_a_model_call_that_asks_for_a_tool_emits_it_after_the_text() -> None:
    assert types(*of(RUN, *step(1, "a", "b", calls={"tc-1": LS}))) == ["text", "text", "tool_call", "usage"]


def test_a_request_that_is_still_a_struct_is_written() -> None:
    message = Message(role="assistant", text="", parts=[Call("tc-1", "bash", LS)])

    assert written(*of(RUN, StepStart(id="s"), message)) == [
        {"type": "tool_call", "runId": "s", "parentId": "run", "id": "tc-1", "name": "bash", "input": LS}
    ]


def test_an_agent_without_steps_speaks_for_itself() -> None:
    events = of(
        RUN,
        SessionStart(agent="claude"),
        ReasoningDelta(id="m1", text="Hm."),
        TextDelta(id="m1", text="Hi"),
        Message(role="assistant", id="m1", text="Hi there"),
        ToolStart(call_id="c1", tool_name="Bash", input=LS),
        ToolProgress(call_id="c1", text="a"),
        ToolProgress(call_id="c1", text="b"),
        ToolEnd(call_id="c1", tool_name="Bash", success=True, output="ab"),
        UsageDelta(usage=Usage(input=1, output=2, cache_read=30, cache_write=400, reasoning=5)),
        Error(message="boom", code="x"),
        Result(success=False, outcome="failed"),
    )

    assert lines(*events) == [
        '{"type":"harness_start","runId":"run"}',
        '{"type":"reasoning","runId":"run","id":"m1","content":"Hm."}',
        '{"type":"text","runId":"run","id":"m1:2","content":"Hi"}',
        '{"type":"text","runId":"run","id":"m1:2","content":" there"}',
        '{"type":"tool_call","runId":"run","id":"c1","name":"Bash","input":{"command":"ls"}}',
        '{"type":"tool_progress","runId":"run","id":"c1:progress:1","toolCallId":"c1","name":"Bash","content":"a"}',
        '{"type":"tool_progress","runId":"run","id":"c1:progress:2","toolCallId":"c1","name":"Bash","content":"b"}',
        '{"type":"tool_result","runId":"run","id":"c1","name":"Bash","output":{"context":"ab"}}',
        '{"type":"usage","runId":"run","inputTokens":431,"outputTokens":7,"cacheReadTokens":30,"cacheCreationTokens":400}',
        '{"type":"error","runId":"run","message":"boom"}',
        '{"type":"harness_end","runId":"run"}',
    ]


def test_a_subagent_hangs_on_the_call_that_began_it_with_each_of_its_events() -> None:
    call = started("tc-1", {"task": "look"})
    child = [*begin("look", parent_id="run/tc-1"), *step(2, "found"), result("found")]
    grandchild = of("grandkid", SessionStart(parent_id="kid/tc-9"), Result(success=True))
    inner = ToolStart(call_id="kid/tc-9", tool_name="agent")
    events = [
        *of(RUN, *begin("go"), call),
        *of("kid", *child[:-1], inner),
        *grandchild,
        *of("kid", child[-1]),
    ]

    assert [
        (event["type"], event["runId"], event.get("parentId"), event.get("depth"))
        for event in written(*events)
    ] == [
        ("harness_start", "run", None, None),
        ("tool_call", "run", None, None),
        ("harness_start", "kid", "run/tc-1", 1),
        ("text", "step-2", "kid", None),
        ("usage", "step-2", "kid", None),
        ("tool_call", "kid", "run/tc-1", None),
        ("harness_start", "grandkid", "kid/tc-9", 2),
        ("harness_end", "grandkid", "kid/tc-9", None),
        ("harness_end", "kid", "run/tc-1", None),
    ]


@pytest.mark.parametrize(
    "refused",
    [
        [asked("tc-1", LS), RelayReply(id="ask-tc-1", approved=False, reason="not here")],
        [RelayReply(id="run/tc-1", approved=False, reason="not here", by="policy")],
    ],
    ids=["asked", "by policy"],
)
def test_a_refused_call_has_a_result_and_never_was(refused: list[Event]) -> None:
    never_was = [started("tc-1", LS), ended("tc-1", "no", success=False)]
    events = written(*of(RUN, *step(1, calls={"tc-1": LS}), *refused, *never_was))

    assert [event["id"] for event in events if event["type"] == "tool_call"] == ["tc-1"]
    assert events[-1] == {
        "type": "tool_result",
        "runId": "run",
        "id": "run/tc-1",
        "name": "bash",
        "output": {"status": "denied", "reason": "not here"},
    }


def test_a_call_that_had_started_before_it_asked_ends_refused() -> None:
    refusal = RelayReply(id="ask-tc-1", approved=False)
    events = written(
        *of(RUN, started("tc-1", LS), asked("tc-1", LS), refusal, ended("tc-1", "rejected", success=False))
    )

    assert [event["type"] for event in events] == ["tool_call", "relay", "tool_result"]
    assert events[-1]["output"] == {"status": "denied"}


@pytest.mark.parametrize(
    ("end", "output"),
    [
        ({"output": "fine"}, {"context": "fine"}),
        ({"output": "fine", "exit_code": 0}, {"context": "fine", "result": {"exitCode": 0}}),
        ({"output": None}, {}),
        ({"output": "x", "success": None}, {"context": "x"}),
        (
            {"output": "2 failed", "success": False, "exit_code": 1},
            {"context": "2 failed", "result": {"exitCode": 1}},
        ),
        ({"output": "no such file", "success": False}, {"error": "no such file"}),
        ({"output": None, "success": False}, {"error": "failed"}),
        (
            {"output": '{"status":"denied","reason":"never"}', "success": False},
            {"status": "denied", "reason": "never"},
        ),
        ({"output": '{"error":"bad arguments"}', "success": False}, {"error": "bad arguments"}),
        ({"output": '{"error":"x","more":1}', "success": False}, {"error": '{"error":"x","more":1}'}),
        ({"output": '{"error":', "success": False}, {"error": '{"error":'}),
    ],
)
def test_a_result_has_the_shape_of_what_happened(end: dict[str, Any], output: Any) -> None:
    assert (
        written(*of(RUN, started("tc-1", LS), ended("tc-1", **{"output": "", **end})))[-1]["output"] == output
    )


def test_malformed_arguments_are_written_as_they_are() -> None:
    malformed = {"__toolParseError": True, "parseError": "eof", "rawArguments": "{"}

    assert [
        event["input"]
        for event in written(*of(RUN, *step(1, calls={"tc-1": malformed}), started("tc-1", malformed)))
        if "input" in event
    ] == [malformed] * 2


def test_an_error_of_a_model_is_written_under_its_call() -> None:
    assert written(*of(RUN, StepStart(id="s1"), Error(message="overloaded")))[-1] == {
        "type": "error",
        "runId": "s1",
        "parentId": "run",
        "message": "overloaded",
    }


def test_a_model_that_writes_programs_is_written_with_them() -> None:
    events = of(
        RUN,
        SessionStart(agent="rlm"),
        TextDelta(id="t1", text="Look."),
        ReplInput(id="p1", code="print(1)"),
        ReplProgress(id="p1", text="1\n"),
        ReplProgress(id="p1", text="!\n", stream="stderr"),
        ReplOutput(id="p1", stdout="1\n", error="E", duration_ms=3, truncated=True),
        ReplInput(id="p2", code="FINAL(1)", iteration=1),
        ReplOutput(id="p2", done=True, iteration=1),
        Message(role="assistant", text="1"),
        result("1"),
    )

    assert lines(*events)[2:] == [
        '{"type":"repl_input","runId":"run","id":"p1","code":"print(1)","iteration":0}',
        '{"type":"repl_progress","runId":"run","id":"p1:1","chunk":"1\\n","stream":"stdout"}',
        '{"type":"repl_progress","runId":"run","id":"p1:2","chunk":"!\\n","stream":"stderr"}',
        '{"type":"repl_output","runId":"run","id":"p1","stdout":"1\\n","error":"E","done":false,"iteration":0,"durationMs":3,"truncated":true}',
        '{"type":"repl_input","runId":"run","id":"p2","code":"FINAL(1)","iteration":1}',
        '{"type":"repl_output","runId":"run","id":"p2","stdout":"","done":true,"iteration":1}',
        '{"type":"text","runId":"run","id":"run:text","content":"1"}',
        '{"type":"harness_end","runId":"run","reason":"final","iterations":2,"totalUsage":{"inputTokens":30,"outputTokens":3}}',
    ]


@pytest.mark.parametrize(
    ("outcome", "programs", "reason"),
    [
        ("completed", 0, None),
        ("limit_exceeded", 0, None),
        ("interrupted", 0, "aborted"),
        ("limit_exceeded", 1, "max_iterations"),
        ("failed", 1, None),
        ("interrupted", 1, "aborted"),
    ],
)
def test_a_run_ends_for_a_reason_where_there_is_a_word_for_it(
    outcome: Any, programs: int, reason: str | None
) -> None:
    run: list[Event] = [ReplInput(id="p1", code="1"), ReplOutput(id="p1")] * programs
    end = written(*of(RUN, *run, Result(success=False, outcome=outcome, turns=3)))[-1]

    assert end.get("reason") == reason
    assert end.get("iterations") == (3 if programs else None)


def test_questions_of_other_kinds_are_written_too() -> None:
    relay = Relay(id="q", kind="question", question="Which?", options=["a", "b"])

    assert written(*of(RUN, relay)) == [
        {
            "type": "relay",
            "runId": "run",
            "kind": "question",
            "id": "q",
            "toolCallId": "",
            "tool": "",
            "params": {"question": "Which?", "options": ["a", "b"]},
        }
    ]


def test_an_answer_that_is_only_in_the_result_comes_before_the_end() -> None:
    assert types(*of(RUN, SessionStart(), Result(success=True, text="42"))) == [
        "harness_start",
        "text",
        "harness_end",
    ]
    assert types(*of(RUN, Message(role="assistant", text="42"), Result(success=True, text="42"))) == [
        "text",
        "harness_end",
    ]


def test_no_two_streams_share_an_id() -> None:
    def said(stream: str, text: str) -> list[Event]:
        return [TextDelta(id=stream, text=text), Message(role="assistant", id=stream, text=text)]

    events = [
        *of("a", *said("1", "x"), *said("", "y"), *said("", "z")),
        *of("b", *said("1", "x"), *said("", "y")),
    ]

    assert [event["id"] for event in written(*events)] == ["1", "a:text", "a:text:2", "1:2", "b:text"]


def test_a_message_that_differs_from_what_was_streamed_is_written_whole() -> None:
    events = of(RUN, TextDelta(id="m", text="Hello"), Message(role="assistant", id="m", text="Goodbye, all"))

    assert [(event["id"], event["content"]) for event in written(*events)] == [
        ("m", "Hello"),
        ("m:2", "Goodbye, all"),
    ]


def test_a_new_try_of_a_model_is_a_new_stream() -> None:
    events = of(RUN, TextDelta(id="m", text="Hel"), TextRetracted(id="m"), TextDelta(id="m", text="Hello"))

    assert [(event["id"], event["content"]) for event in written(*events)] == [("m", "Hel"), ("m:2", "Hello")]


def test_messages_of_users_and_events_without_an_equivalent_are_not_written() -> None:
    image = Attachment("image/png", "aGk=")
    events = [
        Message(role="user", text="Hi", parts=[image]),
        Message(role="system", text="Be brief."),
        Warning(message="w"),
        Info(message="i"),
        Unknown(raw=1),
        TextDelta(text=""),
        codec.decode(b'{"type":"Later","x":1}'),
    ]

    assert lines(*of(RUN, *events)) == []


def test_half_a_character_does_not_stop_the_stream() -> None:
    assert written(*of(RUN, TextDelta(text="\ud83d")))[0]["content"] == "\ufffd"
