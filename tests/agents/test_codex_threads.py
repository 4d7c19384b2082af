"""Codex in a two-way conversation: its threads as events, compared with those of `codex exec` for the same script."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from agent_runs import end_of, of
from codex_dialogues import OWN, one_way, recorded, said
from harness.agents.codex.agent import AGENT, CodexTranslator, conversation_command
from harness.agents.codex.threads import CodexThreadTranslator
from harness.contracts.agent import Version
from harness.contracts.request import Permissions, Request
from harness.events import (
    Error,
    Event,
    Message,
    ReasoningDelta,
    Result,
    SessionStart,
    TasksChanged,
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
from harness.log.raw import RawEntry, RawExit, RawOutput, RawStart
from harness.runs.pipeline import Pipeline

THREAD, TURN = "th", "tu"
OPENED = {"id": 2, "result": {"thread": {"id": THREAD}, "model": "gpt"}}


def translated(entries: Iterable[RawEntry], translator: Any = CodexThreadTranslator) -> list[Event]:
    return _fed(Pipeline(translator()), entries)


def _fed(pipeline: Pipeline, entries: Iterable[RawEntry]) -> list[Event]:
    events = [event for entry in entries for event in pipeline.feed(entry)]
    assert not pipeline.lost
    return events


def output(*lines: Any, stream: Any = "stdout") -> RawOutput:
    data = [line if isinstance(line, bytes) else msgspec.json.encode(line) for line in lines]
    return RawOutput(at_ms=1, stream=stream, data=b"".join(one + b"\n" for one in data))


def start(**more: Any) -> RawStart:
    return RawStart(at_ms=0, agent="codex", prompt="go", two_way=True, **{"cwd": "/repo", **more})


ALIVE = RawExit(at_ms=2, is_alive=True, turn="completed")


def cwd_of(name: str) -> str:
    return f"/workspace/{name.partition('/')[2]}"


def runs_of(name: str) -> list[list[Event]]:
    """The events of each run of a recording."""
    runs: list[tuple[RawStart, list[RawOutput]]] = []
    for line in recorded(name):
        if line["dir"] == "note" and "run" in line["msg"]:
            run = line["msg"]["run"]
            request = {"resume": run["resume"]} if run["resume"] else {}
            begin = start(session_id=run["session_id"], request=request, cwd=cwd_of(name))
            runs.append((begin, []))
        elif line["dir"] in ("out", "err"):
            data = line["msg"].encode() if line["dir"] == "err" else line["msg"]
            runs[-1][1].append(output(data, stream="stdout" if line["dir"] == "out" else "stderr"))
    found, carried = [], dict[str, Any]()
    for begin, lines in runs:
        pipeline = Pipeline(CodexThreadTranslator())
        found.append(_fed(pipeline, [replace(begin, carried=carried), *lines, ALIVE]))
        carried = pipeline.translator.carried()
    return found


def turn(*records: Any, end: Any = None) -> list[Event]:
    """The events of one turn in a new process, without those of its frame."""
    opening = {"method": "turn/started", "params": {"threadId": THREAD, "turn": {"id": TURN}}}
    ended = {"id": TURN, "status": "completed"} if end is None else {"id": TURN, **end}
    last = {"method": "turn/completed", "params": {"threadId": THREAD, "turn": ended}}
    return translated([start(), output(OPENED, opening, *records, last), ALIVE])[2:]


def note(method: str, **params: Any) -> dict[str, Any]:
    return {"method": method, "params": {"threadId": THREAD, "turnId": TURN, **params}}


def item(step: str, kind: str, **fields: Any) -> dict[str, Any]:
    return note(f"item/{step}", item={"type": kind, "id": "i1", **fields})


def usage(total: int, last: int, **more: Any) -> dict[str, Any]:
    counts = [{"inputTokens": n, "cachedInputTokens": 0, "outputTokens": n} for n in (total, last)]
    tokens = dict(zip(("total", "last"), counts, strict=True))
    return note("thread/tokenUsage/updated", tokenUsage=tokens, **more)


# Recordings


@pytest.mark.parametrize("name", OWN)
def test_everything_in_a_recording_is_known(name: str) -> None:
    for events in runs_of(name):
        assert not of(Unknown, events)
        assert isinstance(events[0], SessionStart)
        assert len([event for event in of(Result, events) if not event.run_id]) == 1


def _calls(events: list[Event], run_id: str) -> list[tuple[Any, ...]]:
    """Each call with what it does, whatever its id: the patches of a two-way conversation have their content too."""
    found = []
    for opening in of(ToolStart, events, run_id):
        [end] = [one for one in of(ToolEnd, events, run_id) if one.call_id == opening.call_id]
        done = opening.operations if end.operations is None else end.operations
        name = opening.input if opening.tool_name == "shell" else None
        found.append((opening.tool_name, name, end.success, end.exit_code, end.output, _unnamed(done)))
    return found


def _unnamed(operations: Any) -> Any:
    return [{**msgspec.to_builtins(one), "agent_id": ""} for one in operations]


def _used(events: list[Event], run_id: str) -> Usage:
    total = Usage()
    for delta in of(UsageDelta, events, run_id):
        total = total.plus(delta.usage)
    return total


def _said(events: list[Event], run_id: str) -> list[tuple[str, str]]:
    return [(message.role, message.text) for message in of(Message, events, run_id)]


SAME = ["0.166.0/hello", "0.166.0/tools", "0.166.0/todo", "0.166.0/subagent", "0.166.0/error-401"]
SAME += ["0.130.0/hello", "0.130.0/subagent"]


@pytest.mark.parametrize("name", SAME)
def test_the_same_script_gives_the_same_events_one_way_and_two_way(name: str) -> None:
    lines = output(one_way(name).rstrip(b"\n"))
    begin = RawStart(at_ms=0, agent="codex", prompt="go", cwd=cwd_of(name), argv=["codex", "exec"])
    code = 1 if name.endswith("401") else 0
    single = translated([begin, lines, RawExit(at_ms=2, code=code)], CodexTranslator)
    [double] = runs_of(name)

    assert _said(double, "") == _said(single, "")
    assert _calls(double, "") == _calls(single, "")
    assert _used(double, "") == _used(single, "")
    reasoning = ["".join(one.text for one in of(ReasoningDelta, events)) for events in (single, double)]
    assert reasoning[0] == reasoning[1]
    assert [(e.message, e.code) for e in of(Error, double)] == [
        (e.message, e.code) for e in of(Error, single)
    ]
    assert [e.message for e in of(Warning, double)] == [e.message for e in of(Warning, single)]
    done = [
        [[t.status == "completed" for t in e.tasks] for e in of(TasksChanged, x)] for x in (double, single)
    ]
    assert done[0][-1:] == done[1][-1:]
    assert end_of(double).text == end_of(single).text
    children = [[e for e in of(SessionStart, x) if e.run_id] for x in (single, double)]
    assert len(children[0]) == len(children[1])
    for one, two in zip(*children, strict=True):
        ends = [
            next(e for e in of(Result, single, one.run_id)),
            next(e for e in of(Result, double, two.run_id)),
        ]
        assert (ends[0].outcome, ends[0].text) == (ends[1].outcome, ends[1].text)


def test_a_sub_agent_is_a_run_with_its_own_calls_and_usage() -> None:
    [events] = runs_of("0.166.0/subagent-asks")
    [child] = [event for event in of(SessionStart, events) if event.run_id]
    [spawn] = [event for event in of(ToolStart, events, "") if event.tool_name == "spawn_agent"]

    assert child.parent_id == spawn.call_id
    kinds = [type(event) for event in events if event.run_id == child.run_id]
    assert [kind for kind in kinds if kind not in (TextDelta, UsageDelta)] == [
        SessionStart,
        Message,
        ToolStart,
        ToolEnd,
        Message,
        Result,
    ]
    assert _used(events, child.run_id).output == 100


def test_an_interrupted_turn_leaves_nothing_in_the_next_run() -> None:
    first, second = runs_of("0.166.0/interrupt-in-tool")

    [call] = of(ToolEnd, first)
    assert call.success is None or call.success is False
    assert not of(ToolStart, second)
    assert isinstance(second[0], SessionStart)
    assert isinstance(first[0], SessionStart)
    assert second[0].session_id == first[0].session_id


@pytest.mark.parametrize("version", ["0.166.0", "0.130.0"])
def test_the_usage_of_a_second_prompt_is_its_own(version: str) -> None:
    first, second = runs_of(f"{version}/two-prompts")
    assert _used(first, "").output == _used(second, "").output == 50


@pytest.mark.parametrize(("version", "retracted"), [("0.166.0", 1), ("0.130.0", 0)])
def test_what_a_message_in_the_middle_breaks_off_is_void(version: str, retracted: int) -> None:
    [events] = runs_of(f"{version}/steer-in-text")

    void = {event.id for event in of(TextRetracted, events)}
    assert len(void) == retracted
    assert not void & {message.id for message in of(Message, events)}
    streamed = {event.id for event in of(TextDelta, events)}
    assert streamed - void == {message.id for message in of(Message, events) if message.role == "assistant"}


@pytest.mark.parametrize("version", ["0.166.0", "0.130.0"])
def test_the_usage_of_a_resumed_thread_is_that_of_the_run(version: str) -> None:
    first, second = runs_of(f"{version}/resume")
    assert _used(second, "") == _used(first, "")
    assert _used(second, "").output == 50


@pytest.mark.parametrize("name", ["mcp-approval-elicitation", "compact-and-usage", "queue", "model-switch"])
def test_what_another_client_was_sent_is_known_too(name: str) -> None:
    events = translated([start(), output(*said(f"0.166.0/another-client-{name}")), ALIVE])
    assert not of(Unknown, events)


@settings(max_examples=15, deadline=None)
@given(st.sampled_from(OWN), st.lists(st.integers(0, 5000), max_size=6))
def test_the_events_do_not_depend_on_how_the_lines_arrive(name: str, cuts: list[int]) -> None:
    lines = [msgspec.json.encode(one) + b"\n" for one in said(name)]
    whole = translated([start(), RawOutput(at_ms=1, stream="stdout", data=b"".join(lines)), ALIVE])
    places = sorted({cut % (len(lines) + 1) for cut in cuts} | {0, len(lines)})
    blocks = [
        RawOutput(at_ms=1, stream="stdout", data=b"".join(lines[begin:end]))
        for begin, end in pairwise(places)
        if begin < end
    ]
    assert translated([start(), *blocks, ALIVE]) == whole


# Rules


def test_a_message_is_streamed_under_the_id_that_it_has_as_a_whole() -> None:
    pieces = [note("item/agentMessage/delta", itemId="i1", delta=text) for text in ("He", "llo")]
    events = turn(
        item("started", "agentMessage", text=""), *pieces, item("completed", "agentMessage", text="Hello")
    )

    assert events[:3] == [
        TextDelta(id="i1", text="He"),
        TextDelta(id="i1", text="llo"),
        Message(role="assistant", text="Hello", id="i1"),
    ]


def test_a_piece_of_another_message_is_not_taken_for_one_of_this() -> None:
    odd = [
        note("item/agentMessage/delta", itemId="i2", delta="other"),
        note("item/agentMessage/delta", itemId="i1", delta=""),
        note("item/agentMessage/delta", itemId="i1", delta=7),
        note("item/agentMessage/delta", itemId="i1", delta="this"),
    ]
    events = turn(item("started", "agentMessage", text=""), *odd)

    assert of(TextDelta, events) == [TextDelta(id="i2", text="other"), TextDelta(id="i1", text="this")]


def test_what_was_streamed_before_a_retry_is_void() -> None:
    error = {"message": "Reconnecting... 1/2", "additionalDetails": "it broke"}
    events = turn(
        item("started", "agentMessage", text=""),
        note("item/agentMessage/delta", itemId="i1", delta="He"),
        note("error", error=error, willRetry=True),
    )

    assert events[1:3] == [
        TextRetracted(id="i1"),
        Warning(message="Reconnecting... 1/2 (it broke)", code="retry"),
    ]


def test_an_error_that_the_end_repeats_is_said_once() -> None:
    error = {"message": "no key"}
    failed = {"status": "failed", "error": error}
    events = turn(note("error", error=error, willRetry=False), end=failed)

    assert of(Error, events) == [Error(message="no key", code="turn_failed")]
    assert isinstance(events[-1], Result)
    assert events[-1].outcome == "failed"


def test_output_of_a_command_comes_while_it_runs() -> None:
    command = {"command": "ls", "cwd": "/repo", "status": "inProgress"}
    ended = {**command, "status": "completed", "aggregatedOutput": "a\n", "exitCode": 0, "durationMs": 5}
    events = turn(
        item("started", "commandExecution", **command),
        note("item/commandExecution/outputDelta", itemId="i1", delta="a\n"),
        item("completed", "commandExecution", **ended),
    )

    [progress] = of(ToolProgress, events)
    [end] = of(ToolEnd, events)
    assert (progress.call_id, progress.text) == ("i1", "a\n")
    assert (end.success, end.exit_code, end.output, end.duration_ms) == (True, 0, "a\n", 5)


def test_a_call_that_was_not_allowed_has_failed() -> None:
    command = {"command": "rm -rf .", "status": "inProgress"}
    [_, end, _] = turn(
        item("started", "commandExecution", **command),
        item("completed", "commandExecution", **{**command, "status": "declined"}),
    )
    assert isinstance(end, ToolEnd)
    assert end.success is False


def test_usage_is_counted_once_however_often_it_is_said() -> None:
    events = turn(usage(10, 10), usage(10, 10), usage(25, 15), usage(25, 0))
    assert [delta.usage.output for delta in of(UsageDelta, events)] == [10, 15]


def test_in_the_middle_of_a_session_the_usage_of_the_first_call_is_its_own() -> None:
    opening = {"method": "turn/started", "params": {"threadId": THREAD, "turn": {"id": TURN}}}
    events = translated([start(session_id=THREAD), output(opening, usage(110, 10)), ALIVE])

    assert [delta.usage.output for delta in of(UsageDelta, events)] == [10]
    assert isinstance(events[0], SessionStart)
    assert events[0].session_id == THREAD


def test_a_sub_agent_that_works_on_in_the_next_run_is_a_run_there_too() -> None:
    child = {"threadId": "child", "turnId": "ct"}
    said = {"type": "agentMessage", "id": "m", "text": "Sub done."}
    records = [
        note("item/completed", item=said, **child),
        usage(30, 10, **child),
        {"method": "turn/completed", "params": {**child, "turn": {"id": "ct", "status": "completed"}}},
    ]
    events = translated([start(session_id=THREAD), output(*records), ALIVE])

    [end] = of(Result, events, "child")
    assert (end.outcome, end.text) == ("completed", "Sub done.")
    assert [delta.usage.output for delta in of(UsageDelta, events, "child")] == [10]


def test_an_unknown_item_is_emitted_when_it_has_ended_or_the_run_has() -> None:
    events = turn(item("started", "dream"), item("completed", "dream", of="sheep"))
    assert [event.raw["of"] for event in of(Unknown, events)] == ["sheep"]
    assert [event.raw["type"] for event in of(Unknown, turn(item("started", "dream")))] == ["dream"]


def test_unknown_notifications_and_requests_are_unknown_and_responses_are_not() -> None:
    odd = [{"method": "odd/thing"}, {"method": "odd/request", "id": 0}, {"id": 9, "error": {"message": "no"}}]
    assert [event.raw["method"] for event in of(Unknown, turn(*odd))] == ["odd/thing", "odd/request"]


def test_a_warning_on_both_pipes_is_said_once() -> None:
    line = b"2026-11-15T19:18:34Z ERROR codex_app_server: no bubblewrap"
    events = translated(
        [
            start(),
            output(line, stream="stderr"),
            output({"method": "configWarning", "params": {"summary": "no bubblewrap"}}),
            ALIVE,
        ]
    )
    assert len(of(Warning, events)) == 1


def test_a_process_that_ends_in_a_turn_has_failed() -> None:
    opening = {"method": "turn/started", "params": {"threadId": THREAD, "turn": {"id": TURN}}}
    events = translated([start(), output(OPENED, opening), RawExit(at_ms=2, code=1)])

    assert [error.code for error in of(Error, events)] == ["missing_end"]
    assert isinstance(events[-1], Result)
    assert events[-1].outcome == "failed"


_LINES = [line for name in OWN for line in said(name)]
_ODD: st.SearchStrategy[Any] = st.sampled_from([None, True, 0, -1, "", "x", [], [1], {}, {"id": 0}])


def _mutated(record: Any, path: list[int], value: Any) -> Any:
    if not path or not isinstance(record, dict) or not record:
        return value
    name = sorted(record)[path[0] % len(record)]
    return {**record, name: _mutated(record[name], path[1:], value)}


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(_LINES), st.lists(st.integers(0, 9), max_size=4), _ODD), max_size=12)
)
def test_whatever_codex_writes_the_run_ends_with_its_result(mutations: list[Any]) -> None:
    lines = [_mutated(*mutation) for mutation in mutations]
    events = translated([start(), output(*lines), ALIVE])

    assert isinstance(events[-1], Result)


@pytest.mark.parametrize("permissions", ["ask", "read-only"])
@pytest.mark.parametrize(
    ("version", "writing"), [((0, 169), "features.unified_exec_tty"), ((0, 150), "features.unified_exec")]
)
def test_what_it_does_without_asking_is_switched_off_where_all_is_asked_about(
    permissions: Permissions, version: Version, writing: str
) -> None:
    request = Request(
        agent="codex",
        prompt="go",
        permissions=permissions,
        extra_args=("-c", "features.view_image=true"),
    )
    args = conversation_command(request, version).args
    assert {f"{writing}=false", "features.view_image=false", 'web_search="disabled"'} <= {*args}
    assert args.index("features.view_image=true") < args.index("features.view_image=false")


def test_with_full_access_it_keeps_its_terminals_images_and_searches() -> None:
    request = Request(agent="codex", prompt="go", permissions="full-access")
    assert conversation_command(request, (0, 169)).args == ("app-server",)


def test_a_conversation_is_started_without_a_prompt() -> None:
    command = conversation_command(Request(agent="codex", prompt="go", extra_args=("-c", "a=1")), (0, 166))
    assert command.args == ("app-server", "-c", "a=1")
    assert AGENT.two_way is not None
    assert AGENT.two_way.since == (0, 130)
    assert AGENT.two_way.asks_since == (0, 166)  # 0.147 runs what it takes for reading
