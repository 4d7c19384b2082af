"""Pi: command lines, what its recordings must come to, and rules said one by one."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

import agent_runs
import recorded_runs
from agent_runs import of
from harness.agents.pi.agent import PI, PiRpcTranslator, command
from harness.approvals.call import ASK, READ_ONLY
from harness.approvals.decide import decide
from harness.approvals.work_folder import WorkFolder
from harness.contracts.request import Request
from harness.events import (
    Compacted,
    Error,
    Message,
    ReasoningDelta,
    Result,
    SessionStart,
    TextDelta,
    TextRetracted,
    ToolEnd,
    ToolInputDelta,
    ToolProgress,
    ToolStart,
    Unknown,
    Usage,
    UsageDelta,
    Warning,
)
from harness.events.operation import Command, List, Read, Search, Skill, Write
from harness.log.raw import RawExit, RawOutput, RawStart
from harness.runs.pipeline import Pipeline
from harness.testing.golden import Case, translate

play = partial(agent_runs.play, "pi", cwd="")
CASES = {f"{case.version}/{case.name}": case for case in recorded_runs.CASES if case.agent == "pi"}
SESSION = {"type": "session", "id": "s-1", "cwd": "/here"}
ALWAYS = ("--mode", "json", "--print")


def answer(text: str, reason: str = "stop", **more: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": [{"type": "text", "text": text}], "stopReason": reason, **more}
    return {"type": "message_end", "message": message}


def begin(name: str, call_id: str = "c1", **args: Any) -> dict[str, Any]:
    return {"type": "tool_execution_start", "toolCallId": call_id, "toolName": name, "args": args}


def end(text: str, call_id: str = "c1", *, is_error: bool = False, **more: Any) -> dict[str, Any]:
    result = {"content": [{"type": "text", "text": text}], **more}
    return {"type": "tool_execution_end", "toolCallId": call_id, "result": result, "isError": is_error}


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (Request(agent="pi"), ()),
        (Request(agent="pi", permissions="agent-default"), ()),
        (Request(agent="pi", permissions="read-only"), ("--tools", "read,grep,find,ls")),
        (Request(agent="pi", model="openai/gpt-5"), ("--model", "openai/gpt-5")),
        (Request(agent="pi", resume="abc"), ("--session", "abc")),
        (Request(agent="pi", continue_last=True), ("--continue",)),
        (
            Request(agent="pi", system_prompt="Be brief.", append_system_prompt="Always."),
            ("--system-prompt", "Be brief.", "--append-system-prompt", "Always."),
        ),
        (Request(agent="pi", extra_args=("--thinking", "high")), ("--thinking", "high")),
    ],
)
def test_a_request_becomes_arguments(request_: Request, expected: tuple[str, ...]) -> None:
    assert command(request_, ()).args == (*ALWAYS, *expected)


def test_the_prompt_goes_through_stdin() -> None:
    made = command(Request(agent="pi", prompt="- über @this"), ())

    assert made.stdin == "- über @this".encode()
    assert made.args == ALWAYS


OUTCOMES = {
    "1.5.0/hello": "completed",
    "1.5.0/err500_then_ok": "completed",
    "1.5.0/empty": "completed",
    "1.5.0/err400_context": "failed",
    "1.5.0/err429_forever": "failed",
    "1.5.0/err500_forever": "failed",
    "1.5.0/drop_mid_forever": "failed",
    "1.5.0/tool_then_error": "failed",
    "1.5.0/length": "failed",
    "1.5.0/sigint_tool": "interrupted",
    "1.5.0/sigterm_stream": "interrupted",
    "0.73.1/err500_forever": "failed",
    "0.73.1/sigterm_tool": "interrupted",
}


@pytest.mark.parametrize("name", OUTCOMES)
def test_the_result_is_true_whatever_the_exit_code_says(name: str) -> None:
    _, events = translate(CASES[name])

    assert events[-1].outcome == OUTCOMES[name]
    assert len(of(Error, events)) == (OUTCOMES[name] != "completed" and name != "1.5.0/length")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("1.5.0/reasoning", Usage(input=300, output=40, cache_read=0, cache_write=0, reasoning=50)),
        ("0.73.1/reasoning", Usage(input=300, output=90, cache_read=0, cache_write=0)),
        ("1.5.0/tools", Usage(input=2700, output=550, cache_read=300, cache_write=0, reasoning=0)),
        ("0.73.1/tools", Usage(input=2700, output=550, cache_read=300, cache_write=0)),
        ("1.5.0/compact", Usage(input=199_100, output=520, cache_read=0, cache_write=0, reasoning=0)),
    ],
)
def test_usage_is_what_the_model_was_scripted_to_use(name: str, expected: Usage) -> None:
    case = CASES[name]
    _, events = translate(case)
    used = events[-1].usage

    assert msgspec.structs.replace(used, cost_usd=None, cost_source="") == expected
    turns = _answered(case, len(of(UsageDelta, events)))
    assert used.input + used.cache_read == sum(turn.get("input", 100) for turn in turns)
    assert used.output + (used.reasoning or 0) == sum(turn.get("output", 20) for turn in turns)
    assert used.cost_source == "stated"


def _answered(case: Case, count: int) -> list[dict[str, int]]:
    """Scripted usage of the answers that were given."""
    return [turn.get("usage", {}) for turn in case.meta.script["main"]][:count]


def test_failed_answers_have_used_nothing_that_is_known() -> None:
    _, events = translate(CASES["1.5.0/err429_forever"])

    assert not of(UsageDelta, events)
    assert events[-1].usage is None


def test_tokens_that_cost_nothing_have_a_price_that_pi_was_not_given() -> None:
    used = {"input": 1200, "output": 80, "cost": {"input": 0, "output": 0, "total": 0}}
    ended = {"type": "agent_end", "messages": []}
    (delta,) = of(UsageDelta, play(SESSION, answer("Hi", usage=used, responseId="r-1"), ended))
    assert delta.usage == Usage(input=1200, output=80)


def test_usage_is_counted_once_from_the_answer_itself() -> None:
    used = {"input": 1200, "output": 80, "cacheRead": 10_000}
    turn = {"type": "turn_end", "message": {"role": "assistant", "usage": used}}
    ended = {"type": "agent_end", "messages": []}

    events = play(SESSION, answer("Hi", usage=used, model="m", responseId="r-1"), turn, ended)

    assert of(UsageDelta, events) == [
        UsageDelta(usage=Usage(input=1200, output=80, cache_read=10_000), model="m", id="r-1")
    ]


def test_an_answer_that_is_asked_for_again_is_taken_back() -> None:
    _, events = translate(CASES["1.5.0/drop_mid"])

    assert [event.id for event in of(TextRetracted, events)] == ["message-1:0"]
    assert [event.code for event in of(Warning, events)] == ["retry"]
    assert [event.text for event in of(Message, events)][1:] == ["Recovered after the drop."]
    assert not of(Error, events)


def test_the_last_of_several_failed_answers_stands() -> None:
    _, events = translate(CASES["1.5.0/drop_mid_forever"])

    assert len(of(TextRetracted, events)) == 3
    assert of(Message, events)[-1].id == "message-4:0"
    assert [event.message for event in of(Error, events)] == ["terminated"]


def test_retries_that_are_called_off_end_with_an_error() -> None:
    failed = answer("", "error", errorMessage="503 Busy")
    retry = {"type": "auto_retry_start", "attempt": 1, "maxAttempts": 3, "delayMs": 2000}
    off = {"type": "auto_retry_end", "success": False, "attempt": 1, "finalError": "Retry cancelled"}

    events = play(SESSION, failed, retry, off, {"type": "agent_settled", "aborted": False})

    assert [event.message for event in of(Error, events)] == ["Retry cancelled"]
    assert events[-1].outcome == "failed"


def test_an_abort_is_an_interruption() -> None:
    events = play(SESSION, answer("Half", "aborted"), {"type": "agent_settled", "aborted": True})

    assert events[-1].outcome == "interrupted"


@pytest.mark.parametrize("name", ["1.5.0/reasoning", "0.73.1/reasoning", "1.5.0/unicode", "0.73.1/unicode"])
def test_pieces_add_up_to_the_message_of_the_same_id(name: str) -> None:
    _, events = translate(CASES[name])
    streamed: dict[str, str] = {}
    for event in of(TextDelta, events):
        streamed[event.id] = streamed.get(event.id, "") + event.text

    assert streamed == {event.id: event.text for event in of(Message, events) if event.role == "assistant"}
    scripted = "".join(turn.get("reasoning", "") for turn in CASES[name].meta.script["main"])
    assert "".join(event.text for event in of(ReasoningDelta, events)) == scripted


@pytest.mark.parametrize("name", ["1.5.0/parallel", "1.5.0/large_write", "0.73.1/parallel"])
def test_pieces_of_tool_input_name_their_call(name: str) -> None:
    _, events = translate(CASES[name])
    written: dict[str, str] = {}
    for event in of(ToolInputDelta, events):
        written[event.call_id] = written.get(event.call_id, "") + event.text

    asked = {event.call_id: event.input for event in of(ToolStart, events)}
    assert {call_id: msgspec.json.decode(text) for call_id, text in written.items()} == asked


@pytest.mark.parametrize(
    ("name", "args", "expected"),
    [
        (
            "read",
            {"path": "a.py", "offset": 5, "limit": 10},
            [Read(path="/here/a.py", start_line=5, end_line=14)],
        ),
        ("read", {"path": "a.py", "limit": 10}, [Read(path="/here/a.py", start_line=1, end_line=10)]),
        ("read", {"path": "skills/x/SKILL.md"}, [Skill(path="/here/skills/x/SKILL.md", name="x")]),
        ("Write", {"path": "/a", "content": ""}, [Write(path="/a")]),
        ("edit", {"path": "a", "edits": []}, [Write(path="/here/a", change="update")]),
        ("grep", {"pattern": "foo", "path": "src"}, [Search(query="foo", path="/here/src")]),
        ("find", {"pattern": "*.py"}, [Search(query="*.py")]),
        ("ls", {}, [List()]),
        ("Bash", {"command": "npm test"}, [Command(command="npm test")]),
        ("bash", {"command": "cat a.txt"}, [Read(path="/here/a.txt")]),
        ("codemode", {"code": "1"}, []),
    ],
)
def test_a_tool_means_an_operation(name: str, args: dict[str, Any], expected: list[Any]) -> None:
    [start] = of(ToolStart, play(SESSION, begin(name, **args)))

    assert start.operations == expected
    assert start.raw is None


def test_a_call_that_is_unknown_is_preserved_as_it_came() -> None:
    record = begin("mcp__lab__echo", text="hi")

    assert of(ToolStart, play(SESSION, record))[0].raw == record


def test_a_failed_command_states_its_exit_code_as_text_or_as_a_number() -> None:
    in_words = end("out\n\nCommand exited with code 3", is_error=True)
    in_numbers = end("", "c2", is_error=True, structuredContent={"exit_code": 127})

    events = play(SESSION, begin("bash", command="x"), in_words, begin("bash", "c2", command="y"), in_numbers)

    assert [(event.success, event.exit_code) for event in of(ToolEnd, events)] == [(False, 3), (False, 127)]


def test_real_ranges_come_with_the_result() -> None:
    read = end("x\n\n[Showing lines 1-800 of 16001 (50.0KB limit). Use offset=801 to continue.]")
    edit = end("ok", "c2", details={"diff": " 1 a\n-2 b\n+2 B\n+3 C\n 4 d", "firstChangedLine": 2})

    events = play(SESSION, begin("read", path="a"), read, begin("edit", "c2", path="b"), edit)

    assert [event.operations for event in of(ToolEnd, events)] == [
        [Read(path="/here/a", start_line=1, end_line=800)],
        [Write(path="/here/b", start_line=2, end_line=3, change="update")],
    ]


def test_progress_states_only_what_is_new() -> None:
    def update(text: str) -> dict[str, Any]:
        content = [{"type": "text", "text": text}] if text else []
        return {"type": "tool_execution_update", "toolCallId": "c1", "partialResult": {"content": content}}

    shown = ("", "one\n", "one\ntwo\n", "two\nthree\n")
    events = play(SESSION, begin("bash", command="x"), *map(update, shown))

    assert [event.text for event in of(ToolProgress, events)] == ["one\n", "two\n", "two\nthree\n"]


def test_the_result_of_a_call_that_was_never_announced_is_unknown() -> None:
    assert of(Unknown, play(SESSION, end("?")))


def test_a_result_that_brings_its_own_input_stands_alone() -> None:
    record = {**end("ok"), "toolName": "read", "input": {"path": "a"}}

    events = play(SESSION, record)

    assert of(ToolStart, events)[0].operations == [Read(path="/here/a")]
    assert of(ToolEnd, events)[0].success is True


def test_the_prompt_is_not_repeated_but_later_ones_are_emitted() -> None:
    def user(text: str) -> dict[str, Any]:
        return {
            "type": "message_end",
            "message": {"role": "user", "content": [{"type": "text", "text": text}]},
        }

    string = {"type": "message_end", "message": {"role": "assistant", "content": "Hello"}}
    events = play(SESSION, user("do it"), string, user("and more"))

    assert of(SessionStart, events)[0].session_id == "s-1"
    said = [(event.role, event.text) for event in of(Message, events)]
    assert said == [("user", "do it"), ("assistant", "Hello"), ("user", "and more")]


def test_compaction_is_emitted_when_it_has_happened() -> None:
    done = {"type": "compaction_end", "reason": "threshold", "result": {"summary": "…", "tokensBefore": 9}}
    failed = {"type": "auto_compaction_end", "aborted": False, "errorMessage": "too small"}

    events = play(SESSION, {"type": "compaction_start"}, done, failed)

    assert of(Compacted, events) == [Compacted(trigger="threshold", before_tokens=9)]
    assert [event.code for event in of(Warning, events)] == ["compaction_failed"]


def test_what_an_unfinished_answer_has_used_counts() -> None:
    piece = {"type": "text_delta", "contentIndex": 0, "delta": "He"}
    update = {"type": "message_update", "usage": {"input": 7, "output": 1}, "assistantMessageEvent": piece}

    events = play(SESSION, update, exit_code=143)

    assert of(UsageDelta, events)[0].usage == Usage(input=7, output=1)
    assert of(Result, events)[-1].outcome == "interrupted"


@pytest.mark.parametrize(
    ("stated", "success"),
    [
        ({"status": "completed"}, True),
        ({"state": "error"}, False),
        ({"error": "no such file"}, False),
        ({"result": {"content": []}}, True),
        ({"status": "new"}, None),
    ],
)
def test_a_call_may_be_stated_by_its_end_alone(stated: dict[str, Any], success: bool | None) -> None:
    end = {
        "type": "tool_execution_end",
        "toolName": "read",
        "input": {"path": "a", "start_line": 3},
        **stated,
    }
    events = play(SESSION, end, end)

    assert [start.operations for start in of(ToolStart, events)] == [[Read(path="/here/a", start_line=3)]] * 2
    assert [each.success for each in of(ToolEnd, events)] == [success, success]


def test_what_was_not_streamed_is_one_message() -> None:
    parts = [
        {"type": "text", "text": "a"},
        {"type": "thinking", "thinking": "hm"},
        {"type": "text", "text": "a"},
    ]
    events = play(
        SESSION,
        {"type": "message_end", "message": {"role": "assistant", "content": parts, "stopReason": "stop"}},
    )

    assert [each.text for each in of(Message, events) if each.role == "assistant"] == ["aa"]
    assert [each.text for each in of(ReasoningDelta, events)] == ["hm"]


def test_what_a_tool_states_as_data_alone_is_its_output() -> None:
    start = {"type": "tool_execution_start", "toolCallId": "c", "toolName": "bash", "args": {"command": "x"}}
    given = {"content": [], "structuredContent": {"output": "so", "exit_code": -9}}
    end = {"type": "tool_execution_end", "toolCallId": "c", "result": given, "isError": True}

    ended = of(ToolEnd, play(SESSION, start, end))[0]
    assert (ended.output, ended.exit_code) == ("so", -9)


@pytest.mark.parametrize(
    ("wanted", "stated"),
    [("gone-model", "lab-model"), ("lab/lab-model", "lab/lab-model"), ("lab-model", "lab-model"), ("", "")],
)
def test_a_conversation_names_the_model_that_answers(wanted: str, stated: str) -> None:
    """Pi stays with the model before where it does not have the one that was asked for."""
    pipeline = Pipeline(PiRpcTranslator())
    events = [*pipeline.feed(RawStart(at_ms=0, agent="pi", model=wanted, prompt="go", two_way=True))]
    data = {"sessionId": "s", "model": {"id": "lab-model", "provider": "lab"}}
    state = {"type": "response", "command": "get_state", "success": True, "data": data}
    events += pipeline.feed(RawOutput(at_ms=1, stream="stdout", data=msgspec.json.encode(state) + b"\n"))
    events += pipeline.feed(RawExit(at_ms=2, is_alive=True, turn="completed"))
    assert [event.model for event in events if isinstance(event, SessionStart)] == [stated]


@pytest.mark.parametrize("tool", ["search", "glob", "list"])
def test_a_tool_of_an_extension_is_not_taken_for_one_that_reads_files(tool: str, tmp_path: Path) -> None:
    """Pi has no tool of that name itself: it may look for something in the network."""
    call = PI.call(tool, {"query": "secret", "path": "."}, str(tmp_path))
    folder = WorkFolder(root=os.path.realpath(tmp_path))
    assert [decide([call], mode, (), folder).answer for mode in (ASK, READ_ONLY)] == ["ask", "deny"]
