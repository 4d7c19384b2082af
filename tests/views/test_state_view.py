"""The state of a conversation, and the deltas that lead from each moment to the next."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any

import msgspec

from harness.events import (
    Compacted,
    Error,
    Event,
    FollowUpsChanged,
    Message,
    ReasoningDelta,
    Relay,
    RelayReply,
    Result,
    SessionStart,
    Suspended,
    Task,
    TasksChanged,
    TextDelta,
    TextRetracted,
    ThreadCreated,
    ThreadRenamed,
    ToolEnd,
    ToolInputDelta,
    ToolProgress,
    ToolStart,
    Usage,
    UsageDelta,
    Warning,
)
from harness.events.operation import Command
from harness.folds.page_state.calls import LONGEST_OUTPUT
from harness.folds.page_state.fold import StateFold
from harness.folds.page_state.object_stream import ObjectChange, apply
from showing import shown

START = SessionStart(agent="claude", model="opus", cwd="/w")


def state_of(*events: Event) -> dict[str, Any]:
    fold = StateFold()
    for event in events:
        fold.feed(event)
    return fold.value


def wired(operations: Sequence[ObjectChange]) -> list[dict[str, Any]]:
    """As a client gets them."""
    read: list[dict[str, Any]] = json.loads(msgspec.json.encode(operations))
    return read


def test_a_conversation_has_the_shape_that_the_protocol_names() -> None:
    state = state_of(
        START,
        Message(role="user", text="hello"),
        TextDelta(id="1", text="Hel"),
        TextDelta(id="1", text="lo"),
        Message(role="assistant", id="1", text="Hello"),
        ToolStart(call_id="c", tool_name="Bash", input={"command": "ls"}, operations=[Command(command="ls")]),
        ToolEnd(call_id="c", tool_name="Bash", success=True, output="a", exit_code=0),
        Message(role="assistant", text="Done."),
        UsageDelta(usage=Usage(input=1, output=2)),
        Result(success=True, text="Done.", duration_ms=5),
    )
    user, assistant = state["messages"]
    assert state["status"] == "idle"
    assert "error" not in state
    assert (user["role"], user["content"], user["status"]) == ("user", "hello", "complete")
    assert assistant["content"] == "Hello\n\nDone."
    assert assistant["status"] == "complete"
    assert [part["type"] for part in assistant["parts"]] == ["text", "tool", "text"]
    (call,) = assistant["toolCalls"]
    assert {name: call[name] for name in ("id", "name", "status", "output", "exitCode", "operations")} == {
        "id": "c",
        "name": "Bash",
        "status": "complete",
        "output": "a",
        "exitCode": 0,
        "operations": [{"kind": "command", "command": "ls"}],
    }
    assert state["usage"]["output"] == 2
    assert (state["agent"], state["model"], state["cwd"]) == ("claude", "opus", "/w")
    assert state["runs"][0]["status"] == "completed"


def test_the_answer_is_pending_then_streaming_then_complete() -> None:
    fold = StateFold()
    seen = []
    for event in (
        START,
        Message(role="user", text="q"),
        TextDelta(text="a"),
        TextDelta(text="b"),
        Result(success=True),
    ):
        fold.feed(event)
        seen.append([message["status"] for message in fold.value["messages"]])
    assert seen == [
        [],
        ["complete", "pending"],
        ["complete", "streaming"],
        ["complete", "streaming"],
        ["complete", "complete"],
    ]


def test_a_piece_of_text_is_sent_as_a_piece() -> None:
    fold = StateFold()
    for event in (START, Message(role="user", text="q"), TextDelta(text="a")):
        fold.feed(event)
    assert wired(fold.feed(TextDelta(text=" world"))) == [
        {"type": "append-text", "path": ["messages", "1", "parts", "0", "text"], "value": " world"},
        {"type": "append-text", "path": ["messages", "1", "content"], "value": " world"},
        {"type": "set", "path": ["seq"], "value": 4},
    ]


def test_a_run_that_failed_leaves_its_error_and_the_next_run_clears_it() -> None:
    failed = (START, Message(role="user", text="q"), Error(message="no money"))
    end = Result(success=False, outcome="failed")
    state = state_of(*failed, end)
    assert (state["status"], state["error"]) == ("error", "no money")
    assert state["messages"][-1]["status"] == "error"
    again = state_of(*failed, end, SessionStart(run_id="two"))
    assert (again["status"], again["error"]) == ("running", None)


def test_a_run_that_was_cancelled_keeps_what_it_said_and_is_no_error() -> None:
    state = state_of(START, TextDelta(text="half"), Result(success=False, outcome="interrupted"))
    assert state["status"] == "idle"
    assert state["messages"][0]["content"] == "half"
    assert state["messages"][0]["status"] == "complete"


def test_a_run_that_never_ended_is_interrupted_once_the_log_has_no_writer() -> None:
    fold = StateFold()
    for event in (START, ToolStart(call_id="c", tool_name="Bash")):
        fold.feed(event)
    before = fold.value
    assert apply(before, wired(fold.abandon())) == fold.value
    assert fold.value["status"] == "idle"
    assert fold.value["runs"][0]["status"] == "interrupted"
    assert fold.abandon() == []


def test_a_suspended_run_still_runs_and_is_not_abandoned() -> None:
    fold = StateFold()
    for event in (START, Relay(id="r", kind="question", question="which?"), Suspended()):
        fold.feed(event)
    assert fold.abandon() == []
    assert fold.value["runs"][0]["status"] == "suspended"
    assert fold.value["relays"][0]["status"] == "pending"


def test_a_sub_agent_speaks_within_the_call_that_began_it() -> None:
    state = state_of(
        START,
        ToolStart(call_id="c", tool_name="Task"),
        SessionStart(run_id="child", parent_id="c", name="explorer"),
        TextDelta(run_id="child", text="inner"),
        ToolStart(run_id="child", call_id="d", tool_name="Task"),
        SessionStart(run_id="grandchild", parent_id="d"),
        Message(run_id="grandchild", role="assistant", text="innermost"),
        UsageDelta(run_id="grandchild", usage=Usage(input=3)),
        Result(run_id="grandchild", success=True),
        Result(run_id="child", success=True),
        TextDelta(text="outer"),
    )
    call = state["messages"][0]["toolCalls"][0]
    assert state["messages"][0]["content"] == "outer"
    assert call["messages"][0]["content"] == "inner"
    assert call["messages"][0]["toolCalls"][0]["messages"][0]["content"] == "innermost"
    assert [run["parentCallId"] for run in state["runs"]] == ["", "c", "d"]
    assert [run["usage"]["input"] for run in state["runs"]] == [3, None, 3]


def test_a_call_is_seen_while_it_is_written_and_while_it_waits_to_be_allowed() -> None:
    events = [
        SessionStart(run_id="r"),
        ToolInputDelta(run_id="r", call_id="1", tool_name="bash", text='{"command"'),
        ToolInputDelta(run_id="r", call_id="1", tool_name="bash", text=':"ls"}'),
        Relay(run_id="r", id="relay", call_id="r/1", tool_name="bash", input={"command": "ls"}),
        RelayReply(run_id="r", id="relay", approved=True),
        ToolStart(run_id="r", call_id="r/1", tool_name="bash", input={"command": "ls"}),
        ToolEnd(run_id="r", call_id="r/1", tool_name="bash", success=True),
    ]
    calls = [state_of(*events[:count])["messages"][0]["toolCalls"] for count in range(2, len(events) + 1)]
    assert all(len(found) == 1 for found in calls)
    assert [found[0]["inputText"] for found in calls][:3] == ['{"command"', '{"command":"ls"}', ""]
    assert [found[0]["id"] for found in calls] == ["1", "1", "r/1", "r/1", "r/1", "r/1"]
    assert calls[2][0]["relayId"] == "relay"
    assert calls[-1][0]["status"] == "complete"


def test_the_first_answer_to_a_relay_counts() -> None:
    state = state_of(
        START,
        Relay(id="relay", call_id="c", tool_name="bash", input={}),
        RelayReply(id="relay", approved=False, reason="no"),
        RelayReply(id="relay", approved=True),
    )
    assert state["relays"][0]["status"] == "denied"
    assert state["relays"][0]["reason"] == "no"
    call = state["messages"][0]["toolCalls"][0]
    assert (call["status"], call["output"]) == ("error", "no")


def test_a_call_that_was_denied_is_an_error_though_its_agent_reports_its_end() -> None:
    state = state_of(
        START,
        Relay(id="relay", call_id="c", tool_name="bash", input={}),
        RelayReply(id="relay", approved=False),
        ToolStart(call_id="c", tool_name="bash", input={}),
        ToolEnd(call_id="c", tool_name="bash", success=True, output="not approved"),
    )
    (call,) = state["messages"][0]["toolCalls"]
    assert (call["status"], call["output"]) == ("error", "not approved")


def test_a_relay_without_an_answer_ends_with_its_run() -> None:
    state = state_of(START, Relay(id="relay"), Result(success=False, outcome="interrupted"))
    assert state["relays"][0]["status"] == "denied"


def test_retracted_text_is_removed_and_what_differs_from_the_whole_is_corrected() -> None:
    state = state_of(
        START,
        TextDelta(id="1", text="wrong"),
        TextRetracted(id="1"),
        TextDelta(id="1", text="right"),
        Message(role="assistant", id="1", text="[masked]"),
        TextDelta(id="2", text="beg"),
        Message(role="assistant", id="2", text="beginning"),
    )
    assert state["messages"][0]["content"] == "[masked]\n\nbeginning"


def test_a_warning_does_not_cut_a_text_in_two() -> None:
    state = state_of(START, TextDelta(text="wo"), Warning(message="careful"), TextDelta(text="rd"))
    assert state["messages"][0]["content"] == "word"
    assert [part["type"] for part in state["messages"][0]["parts"]] == ["text", "notice"]


def test_notices_before_the_run_begins_are_in_its_message() -> None:
    state = state_of(Warning(message="no such option"), START, Message(role="user", text="q"))
    assert [message["role"] for message in state["messages"]] == ["user", "assistant"]
    assert state["messages"][1]["parts"][0]["text"] == "no such option"


def test_a_queued_prompt_is_a_pending_message_until_its_turn_comes() -> None:
    queue = FollowUpsChanged(pending=[{"id": "f1", "content": "next"}, {"id": "f2", "content": "last"}])
    before = (START, Message(role="user", text="first"), TextDelta(text="a"), queue)
    state = state_of(*before)
    assert [one["text"] for one in state["followUps"]] == ["next", "last"]
    assert [message["status"] for message in state["messages"]] == [
        "complete",
        "streaming",
        "pending",
        "pending",
    ]
    later = state_of(
        *before,
        Result(success=True),
        FollowUpsChanged(pending=[{"id": "f2", "content": "last"}], taken_by="two"),
        SessionStart(run_id="two"),
        Message(run_id="two", role="user", text="next", id="f1"),
        TextDelta(run_id="two", text="b"),
        FollowUpsChanged(pending=[]),
    )
    assert [(message["content"], message["status"]) for message in later["messages"]] == [
        ("first", "complete"),
        ("a", "complete"),
        ("next", "complete"),
        ("b", "streaming"),
        ("last", "error"),
    ]


def test_what_is_said_comes_before_the_prompts_that_wait() -> None:
    """Even before its run has started, and when a user writes to a run that continues."""
    state = state_of(
        FollowUpsChanged(pending=[{"id": "f1", "content": "second"}]),
        SessionStart(run_id="one"),
        Message(run_id="one", role="user", text="first"),
        TextDelta(run_id="one", text="a"),
        FollowUpsChanged(pending=[{"id": "f1", "content": "second"}, {"id": "f2", "content": "third"}]),
        Message(run_id="one", role="user", text="by the way"),
        TextDelta(run_id="one", text="b"),
    )
    said = [(message["content"], message["status"]) for message in state["messages"]]
    assert said == [
        ("first", "complete"),
        ("a", "complete"),
        ("by the way", "complete"),
        ("b", "streaming"),
        ("second", "pending"),
        ("third", "pending"),
    ]


def test_a_thread_shows_its_own_id_title_tasks_and_usage_over_all_runs() -> None:
    state = state_of(
        ThreadCreated(id="thread"),
        SessionStart(run_id="one", agent="a"),
        UsageDelta(run_id="one", usage=Usage(input=1, cost_usd=0.5)),
        Result(run_id="one", success=True, total_cost_usd=1.0),
        ThreadRenamed(title="Better"),
        SessionStart(run_id="two", agent="b"),
        TasksChanged(run_id="two", tasks=[Task(text="do", status="in_progress", active_form="doing")]),
        UsageDelta(run_id="two", usage=Usage(input=2, cost_usd=0.5)),
        Compacted(run_id="two", before_tokens=9, after_tokens=3),
        ReasoningDelta(run_id="two", text="hm"),
    )
    assert (state["sessionId"], state["title"], state["agent"]) == ("thread", "Better", "b")
    assert state["tasks"] == [{"id": "", "text": "do", "status": "in_progress", "activeForm": "doing"}]
    assert (state["usage"]["input"], state["usage"]["costUsd"]) == (3, 1.5)


def test_long_output_is_cut_and_its_length_is_shown() -> None:
    state = state_of(
        START,
        ToolStart(call_id="c", tool_name="Bash"),
        ToolProgress(call_id="c", text="x" * (LONGEST_OUTPUT - 1)),
        ToolProgress(call_id="c", text="yyy"),
        ToolProgress(call_id="c", text="zzz"),
    )
    call = state["messages"][0]["toolCalls"][0]
    assert len(call["output"]) == LONGEST_OUTPUT
    assert call["outputLength"] == LONGEST_OUTPUT + 5


def test_an_event_costs_the_same_in_a_long_conversation() -> None:
    def seconds(fold: StateFold) -> float:
        began = time.process_time()
        for _ in range(2_000):
            fold.feed(TextDelta(text="ten chars."))
        return time.process_time() - began

    short = StateFold()
    short.feed(START)
    long = StateFold()
    long.feed(START)
    for number in range(300):
        long.feed(ToolStart(call_id=str(number), tool_name="Bash"))
        long.feed(ToolEnd(call_id=str(number), tool_name="Bash", success=True, output="x" * 10_000))
        long.feed(TextDelta(text="y" * 3_000))
    least_short = min(seconds(short) for _ in range(5))
    assert min(seconds(long) for _ in range(5)) < 4 * least_short + 0.01


def test_the_views_show_the_state_and_the_way_to_it() -> None:
    events = (START, Message(role="user", text="é\ud800"), TextDelta(text="a"), Result(success=True))
    state = json.loads(shown("state", *events))
    first, *rest = [json.loads(line) for line in shown("delta", *events).split("\n") if line]
    assert first["type"] == "state"
    value = first["state"]
    for message in rest:
        value = apply(value, message["operations"])
        assert message["seq"] == value["seq"]
    assert value == state
