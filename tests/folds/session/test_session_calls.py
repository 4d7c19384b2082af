"""Calls, what they ask, and what sub-agents do."""

from __future__ import annotations

from msgspec.structs import replace

from harness.events import (
    Error,
    Forked,
    Message,
    Relay,
    RelayReply,
    ReplInput,
    ReplOutput,
    ReplProgress,
    Result,
    Resumed,
    SessionStart,
    Task,
    TasksChanged,
    TextDelta,
    ThreadCreated,
    ToolEnd,
    ToolStart,
    Usage,
    UsageDelta,
    Warning,
)
from harness.events.operation import Spawn, Write
from harness.folds.session import events as wire
from harness.folds.session.translation import SessionTranslation
from session_log import DONE, START, WAITING, emitted, logged, types, wired


def test_permission_is_an_approval_and_every_other_relay_a_suspension() -> None:
    events = emitted(
        START,
        Relay(id="1", kind="permission", call_id="c", tool_name="bash", input={"x": 1}),
        RelayReply(id="1", approved=True),
        ToolStart(call_id="c", tool_name="bash", input={"x": 1}),
        Relay(
            id="2",
            kind="question",
            call_id="d",
            tool_name="ask_user",
            input={"question": "?"},
            payload={"question": "?"},
            resume_schema={"type": "string"},
        ),
        Relay(id="3", kind="plan", question="ok?", options=["yes", "no"]),
    )

    asked = {"toolCallId": "c", "toolName": "bash", "args": {"x": 1}}
    names = ["tool_start", "message_update", "tool_approval_required"]
    assert [event.type for event in events[3:6]] == names
    assert wired(events[3]) == {"type": "tool_start", **asked}
    assert wired(events[5]) == {"type": "tool_approval_required", **asked}
    assert wired(events[-2]) == {
        "type": "tool_suspended",
        "toolCallId": "d",
        "toolName": "ask_user",
        "args": {"question": "?"},
        "suspendPayload": {"question": "?"},
        "resumeSchema": {"type": "string"},
    }
    assert wired(events[-1])["suspendPayload"] == {
        "question": "ok?",
        "options": [{"label": "yes"}, {"label": "no"}],
    }


def test_a_run_that_waits_ends_as_suspended_and_begins_again_with_its_answer() -> None:
    events = emitted(
        *WAITING,
        RelayReply(id="q", approved=True, answer="this"),
        Resumed(),
        ToolEnd(call_id="c", tool_name="ask_user", success=True, output="User answered: this"),
        TextDelta(text="Good."),
        DONE,
    )

    assert types(events)[-10:] == [
        "tool_suspended",
        "message_end",
        "agent_end",
        "agent_start",
        *("message_start", "tool_end", "message_update"),
        "message_update",
        *("message_end", "agent_end"),
    ]
    ends = [wired(event).get("reason") for event in events if event.type == "agent_end"]
    assert ends == ["suspended", "complete"]
    assert wired(next(one for one in events[5:] if one.type == "agent_start")) == {
        "type": "agent_start",
        "resumedToolCallIds": ["c"],
    }


def test_a_call_that_is_logged_again_when_it_continues_is_not_emitted_twice() -> None:
    events = emitted(
        *WAITING,
        RelayReply(id="q", approved=True, answer="this"),
        Resumed(),
        ToolStart(call_id="c", tool_name="ask_user", input={}),
        ToolEnd(call_id="c", tool_name="ask_user", success=True),
        DONE,
    )

    assert types(events).count("tool_start") == types(events).count("tool_end") == 1


def test_a_run_that_is_stopped_while_it_waits_cancels_what_it_waits_for_and_ends_only_once() -> None:
    events = emitted(*WAITING, Result(success=False, outcome="interrupted"))

    assert types(events)[-3:] == ["agent_end", "tool_suspension_cancelled", "tool_end"]
    assert wired(events[-2]) == {
        "type": "tool_suspension_cancelled",
        "toolCallId": "c",
        "toolName": "ask_user",
        "reason": "Aborted by the user",
    }


def test_an_answer_that_is_none_cancels() -> None:
    events = emitted(*WAITING, RelayReply(id="q", approved=False, reason="gone home"))

    assert wired(events[-1])["reason"] == "gone home"


def test_a_run_whose_process_died_while_it_waited_continues_in_balance() -> None:
    events = emitted(*WAITING[:-1], RelayReply(id="q", approved=True, answer="this"), Resumed(), DONE)

    assert types(events).count("agent_start") == types(events).count("agent_end") == 2


def test_a_run_that_begins_while_another_has_not_ended_ends_that() -> None:
    events = emitted(
        ThreadCreated(id="t", run_id="t"),
        START,
        TextDelta(text="half"),
        ToolStart(call_id="c", tool_name="x"),
        replace(START, run_id="r2"),
        replace(DONE, run_id="r2"),
    )

    assert types(events)[-5:] == ["tool_end", "message_end", "agent_end", "agent_start", "agent_end"]
    assert [wired(one).get("reason") for one in events if one.type == "agent_end"] == ["aborted", "complete"]


def test_a_run_inside_of_a_run_is_a_sub_agent_of_its_call() -> None:
    child = {"run_id": "kid"}
    events = emitted(
        START,
        ToolStart(
            call_id="c",
            tool_name="Task",
            input={},
            operations=[Spawn(name="explorer", task="look around")],
        ),
        SessionStart(parent_id="c", name="explorer", model="small", **child),
        Message(role="user", text="look around", **child),
        TextDelta(id="t", text="I lo", **child),
        Message(role="assistant", id="t", text="I look.", **child),
        ToolStart(call_id="d", tool_name="ls", input={"p": "."}, **child),
        ToolEnd(call_id="d", tool_name="ls", success=False, output="no", **child),
        Error(message="inner", **child),
        Warning(message="inner", **child),
        TasksChanged(tasks=[Task(text="inner")], **child),
        UsageDelta(usage=Usage(input=1), **child),
        Result(success=True, text="Seen.", duration_ms=7, **child),
        ToolEnd(call_id="c", tool_name="Task", success=True, output="Seen."),
        DONE,
    )

    found = [wired(event) for event in events if event.type.startswith("subagent")]
    who = {"toolCallId": "c", "agentType": "explorer"}
    assert found == [
        {"type": "subagent_start", **who, "task": "look around", "modelId": "small"},
        {"type": "subagent_text_delta", **who, "textDelta": "I lo"},
        {"type": "subagent_text_delta", **who, "textDelta": "ok."},
        {"type": "subagent_tool_start", **who, "subToolName": "ls", "subToolArgs": {"p": "."}},
        {
            "type": "subagent_tool_end",
            **who,
            "subToolName": "ls",
            "subToolResult": "no",
            "isError": True,
        },
        {"type": "subagent_end", **who, "result": "Seen.", "isError": False, "durationMs": 7},
    ]
    assert not {"error", "info", "task_updated"} & set(types(events))
    assert types(events).count("usage_update") == 1
    assert types(events).count("message_start") == 1


def test_two_sub_agents_of_one_call_have_different_ids() -> None:
    events = emitted(
        START,
        ToolStart(call_id="c", tool_name="swarm"),
        SessionStart(run_id="k1", parent_id="c"),
        SessionStart(run_id="k2", parent_id="c"),
        TextDelta(run_id="k2", text="x"),
    )

    starts = [event.tool_call_id for event in events if isinstance(event, wire.SubagentStartEvent)]
    assert starts == ["c", "c#2"]
    assert wired(events[-1])["toolCallId"] == "c#2"


def test_a_forked_sub_agent_is_shown_by_the_events_of_its_own_log() -> None:
    translation = SessionTranslation()
    own = logged(
        START,
        ToolStart(call_id="c", tool_name="subagent", input={}),
        Forked(call_id="c", log_id="fork", agent_type="explore", task="look", model_id="m"),
        ToolEnd(call_id="c", tool_name="subagent", success=True, output="Seen."),
    )
    begun = [one for event in own[:3] for one in translation.feed(event)]
    fork = logged(
        SessionStart(run_id="f"),
        TextDelta(run_id="f", text="I look."),
        ToolStart(run_id="f", call_id="d", tool_name="subagent"),
        ToolEnd(run_id="f", call_id="d", tool_name="subagent", success=False),
        ToolStart(run_id="f", call_id="e", tool_name="ls"),
        ToolEnd(run_id="f", call_id="e", tool_name="ls", success=True),
        Result(run_id="f", success=True, text="Seen."),
    )
    meanwhile = [one for event in fork for one in translation.feed_fork("c", event)]
    ended = translation.feed(own[3])

    assert wired(begun[-1]) == {
        "type": "subagent_start",
        "toolCallId": "c",
        "agentType": "explore",
        "task": "look",
        "modelId": "m",
        "forked": True,
    }
    assert types(meanwhile) == [
        "subagent_text_delta",
        "subagent_tool_start",
        "subagent_tool_end",
        "subagent_end",
    ]
    assert "subagent_end" not in types(ended)
    assert translation.feed_fork("c", fork[1]) == ()


def test_a_forked_sub_agent_does_not_end_with_a_sub_agent_of_its_own() -> None:
    translation = SessionTranslation()
    for event in logged(
        START,
        ToolStart(call_id="c", tool_name="subagent", input={}),
        Forked(call_id="c", log_id="fork", agent_type="explore", task="look", model_id="m"),
    ):
        translation.feed(event)
    fork = logged(
        SessionStart(run_id="f", agent="own"),
        ToolStart(run_id="f", call_id="d", tool_name="subagent"),
        SessionStart(run_id="kid", parent_id="d"),
        TextDelta(run_id="kid", text="below"),
        Result(run_id="kid", success=True),
        TextDelta(run_id="f", text="I look."),
        Result(run_id="f", success=True),
    )

    events = [one for event in fork for one in translation.feed_fork("c", event)]

    assert types(events)[-2:] == ["subagent_text_delta", "subagent_end"]
    assert "below" not in str([wired(one) for one in events])


def test_a_fork_without_a_listener_ends_with_its_call() -> None:
    events = emitted(
        START,
        ToolStart(call_id="c", tool_name="subagent"),
        Forked(call_id="c", log_id="fork", agent_type="explore"),
        ToolEnd(call_id="c", tool_name="subagent", success=True, output="Seen."),
    )

    end = next(event for event in events if isinstance(event, wire.SubagentEndEvent))
    assert (end.result, end.is_error, end.duration_ms) == ("Seen.", False, 1)


def test_usage_is_emitted_per_step_and_added_up_over_all_runs() -> None:
    translation = SessionTranslation()
    usage = Usage(input=10, cache_read=5, cache_write=1, output=3, reasoning=2)
    (event,) = translation.feed(UsageDelta(usage=usage))
    translation.feed(UsageDelta(usage=Usage(input=1)))

    assert wired(event)["usage"] == {
        "promptTokens": 16,
        "completionTokens": 5,
        "totalTokens": 21,
        "reasoningTokens": 2,
        "cachedInputTokens": 5,
        "cacheCreationInputTokens": 1,
    }
    assert translation.usage.total_tokens == 22


def test_files_that_a_call_wrote_are_emitted_for_any_tool_name() -> None:
    events = emitted(
        START,
        ToolStart(call_id="c", tool_name="Edit", operations=[Write(path="a.py")]),
        ToolEnd(call_id="c", tool_name="Edit", success=True),
        ToolStart(call_id="d", tool_name="Edit", operations=[Write(path="b.py")]),
        ToolEnd(call_id="d", tool_name="Edit", success=False),
    )

    ends = [event for event in events if isinstance(event, wire.ToolEndEvent)]
    assert [end.modified_paths for end in ends] == [["a.py"], None]
    assert ends[0].timestamp == 1002


def test_a_program_that_a_model_runs_is_emitted_as_a_call() -> None:
    events = emitted(
        START,
        ReplInput(id="p", code="print(1)"),
        ReplProgress(id="p", text="1\n", stream="stderr"),
        ReplOutput(id="p", stdout="1\n"),
        DONE,
    )

    assert types(events) == [
        *("agent_start", "message_start", "tool_start", "message_update", "shell_output"),
        *("tool_end", "message_update", "message_end", "agent_end"),
    ]
