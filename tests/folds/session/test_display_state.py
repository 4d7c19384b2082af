"""Every rule by which the display state changes."""

from __future__ import annotations

from typing import Any

import pytest

from harness.events import (
    Event,
    Relay,
    RelayReply,
    Resumed,
    ThreadCreated,
    ToolEnd,
    ToolStart,
    Usage,
    UsageDelta,
)
from harness.events.operation import Write
from harness.folds.session import events as wire
from harness.folds.session.display import DisplayState, reduce, reset_thread
from harness.folds.session.display_state import TaskItem
from harness.folds.session.encoding import read, to_wire
from harness.folds.session.events import HarnessEvent, HarnessMessage, TextPart, TokenUsage
from harness.views.display import DisplayFold
from session_log import DONE, START, WAITING, logged


def shown(*events: HarnessEvent, state: DisplayState | None = None, **options: Any) -> DisplayState:
    state = state or DisplayState()
    for event in events:
        reduce(state, event, **options)
    return state


def of_log(*events: Event) -> DisplayState:
    fold = DisplayFold()
    for event in logged(*events):
        fold.feed(event)
    return fold.value


def message(text: str) -> HarnessMessage:
    return HarnessMessage.of(id="m", role="assistant", content=[TextPart(text=text)], created_at=1)


def tool_start(call_id: str = "c", name: str = "bash", args: Any = None) -> wire.ToolStartEvent:
    return wire.ToolStartEvent(tool_call_id=call_id, tool_name=name, args={} if args is None else args)


def tool_end(call_id: str = "c", *, is_error: bool = False, **fields: Any) -> wire.ToolEndEvent:
    return wire.ToolEndEvent(tool_call_id=call_id, result="out", is_error=is_error, **fields)


def suspended(call_id: str) -> wire.ToolSuspendedEvent:
    return wire.ToolSuspendedEvent(
        tool_call_id=call_id, tool_name="ask_user", args={}, suspend_payload={"q": 1}
    )


APPROVAL = wire.ToolApprovalRequiredEvent(tool_call_id="c", tool_name="bash", args={})


def test_nothing_is_shown_in_the_beginning() -> None:
    assert to_wire(DisplayState()) == {
        "isRunning": False,
        "currentMessage": None,
        "queuedFollowUps": 0,
        "queuedSteering": [],
        "tokenUsage": {
            "promptTokens": 0,
            "completionTokens": 0,
            "totalTokens": 0,
            "cachedInputTokens": 0,
            "cacheCreationInputTokens": 0,
        },
        "activeTools": {},
        "toolInputBuffers": {},
        "pendingApproval": None,
        "pendingSuspensions": {},
        "activeSubagents": {},
        "omProgress": {
            "status": "idle",
            "pendingTokens": 0,
            "threshold": 30000,
            "thresholdPercent": 0,
            "observationTokens": 0,
            "reflectionThreshold": 40000,
            "reflectionThresholdPercent": 0,
            "buffered": {
                "observations": {
                    "status": "idle",
                    "chunks": 0,
                    "messageTokens": 0,
                    "projectedMessageRemoval": 0,
                    "observationTokens": 0,
                },
                "reflection": {"status": "idle", "inputObservationTokens": 0, "observationTokens": 0},
            },
            "generationCount": 0,
            "stepNumber": 0,
            "preReflectionTokens": 0,
        },
        "bufferingMessages": False,
        "bufferingObservations": False,
        "modifiedFiles": {},
        "tasks": [],
        "previousTasks": [],
    }


def test_a_run_that_begins_clears_what_the_last_one_left_but_what_still_waits() -> None:
    state = shown(
        tool_start(),
        wire.ToolInputStartEvent(tool_call_id="d", tool_name="x"),
        wire.MessageEndEvent(message=message("x")),
        APPROVAL,
        suspended("q"),
        wire.AgentStartEvent(),
    )

    assert state.is_running
    assert (state.active_tools, state.tool_input_buffers) == ({}, {})
    assert (state.current_message, state.pending_approval) == (None, None)
    assert list(state.pending_suspensions) == ["q"]


@pytest.mark.parametrize("reason", ["complete", "aborted", "error", None])
def test_a_run_that_ends_leaves_nothing_waiting_and_nothing_running(reason: Any) -> None:
    state = shown(
        wire.AgentStartEvent(),
        tool_start("a"),
        tool_end("a"),
        tool_start("b"),
        wire.ToolInputStartEvent(tool_call_id="d", tool_name="x"),
        wire.SubagentStartEvent(tool_call_id="b", agent_type="t", task="", model_id=""),
        APPROVAL,
        suspended("q"),
        wire.AgentEndEvent(reason=reason),
    )

    assert not state.is_running
    assert {call: tool.status for call, tool in state.active_tools.items()} == {
        "a": "completed",
        "b": "error",
        "d": "error",
    }
    assert (state.pending_approval, state.pending_suspensions, state.active_subagents) == (None, {}, {})


def test_a_run_that_waits_keeps_what_it_waits_for() -> None:
    state = shown(wire.AgentStartEvent(), suspended("q"), wire.AgentEndEvent(reason="suspended"))

    assert to_wire(state.pending_suspensions) == {
        "q": {"toolCallId": "q", "toolName": "ask_user", "args": {}, "suspendPayload": {"q": 1}}
    }


def test_the_answer_to_one_of_two_leaves_the_other() -> None:
    second = Relay(id="q2", kind="question", call_id="c2", tool_name="ask_user")
    state = of_log(*WAITING[:-1], second, WAITING[-1])
    assert list(state.pending_suspensions) == ["c", "c2"]

    state = of_log(
        *WAITING[:-1], second, WAITING[-1], RelayReply(id="q", approved=True, answer="a"), Resumed()
    )

    assert list(state.pending_suspensions) == ["c2"]
    assert state.is_running


@pytest.mark.parametrize("event", [tool_start("q"), tool_end("q")])
def test_a_call_that_continues_waits_no_more(event: HarnessEvent) -> None:
    approval = wire.ToolApprovalRequiredEvent(tool_call_id="q", tool_name="x", args={})

    state = shown(suspended("q"), approval, event)

    assert (state.pending_suspensions, state.pending_approval) == ({}, None)


def test_a_suspension_that_was_cancelled_is_removed() -> None:
    cancelled = wire.ToolSuspensionCancelledEvent(tool_call_id="q", tool_name="ask_user", reason="")

    assert shown(suspended("q"), cancelled).pending_suspensions == {}


def test_the_current_message_stays_after_its_end() -> None:
    first, second, third = message("a"), message("ab"), message("abc")
    state = shown(wire.MessageStartEvent(message=first))
    assert state.current_message == first
    shown(wire.MessageUpdateEvent(message=second), state=state)
    assert state.current_message == second
    shown(wire.MessageEndEvent(message=third), wire.AgentEndEvent(), state=state)
    assert state.current_message == third


def test_arguments_are_gathered_as_they_are_written() -> None:
    state = shown(
        wire.ToolInputStartEvent(tool_call_id="c", tool_name="bash"),
        wire.ToolInputDeltaEvent(tool_call_id="c", args_text_delta='{"a"'),
        wire.ToolInputDeltaEvent(tool_call_id="c", args_text_delta=":1}"),
        wire.ToolInputDeltaEvent(tool_call_id="unknown", args_text_delta="?"),
    )

    assert to_wire(state.tool_input_buffers) == {"c": {"text": '{"a":1}', "toolName": "bash"}}
    assert state.tool_input_buffers["c"].text == '{"a":1}'
    assert state.active_tools["c"].status == "streaming_input"
    shown(wire.ToolInputEndEvent(tool_call_id="c"), tool_start(args={"a": 1}), state=state)
    assert state.tool_input_buffers == {}
    assert to_wire(state.active_tools) == {"c": {"name": "bash", "args": {"a": 1}, "status": "running"}}


def test_the_progress_and_result_of_a_call_are_stored() -> None:
    state = shown(
        tool_start(),
        wire.ToolUpdateEvent(tool_call_id="c", partial_result={"done": 1}),
        wire.ShellOutputEvent(tool_call_id="c", output="a\n", stream="stdout"),
        wire.ShellOutputEvent(tool_call_id="c", output="b\n", stream="stderr"),
        tool_end(is_error=True),
        wire.ToolUpdateEvent(tool_call_id="unknown", partial_result=""),
        wire.ShellOutputEvent(tool_call_id="unknown", output="", stream="stdout"),
        tool_end("unknown"),
    )

    assert to_wire(state.active_tools) == {
        "c": {
            "name": "bash",
            "args": {},
            "status": "error",
            "partialResult": '{"done":1}',
            "result": "out",
            "isError": True,
            "shellOutput": "a\nb\n",
        }
    }
    assert state.active_tools["c"].shell_output == "a\nb\n"
    shown(wire.ToolUpdateEvent(tool_call_id="c", partial_result="half"), state=state)
    assert state.active_tools["c"].partial_result == "half"


@pytest.mark.parametrize("name", ["string_replace_lsp", "write_file", "ast_smart_edit"])
def test_tools_that_write_files_are_known_by_their_names(name: str) -> None:
    start = tool_start(name=name, args={"path": "a.py"})

    state = shown(start, tool_end(), tool_start("d", name, {"path": "a.py"}), tool_end("d"))

    assert to_wire(state.modified_files) == {"a.py": {"operations": [name, name], "firstModified": 0}}
    assert shown(start, tool_end(is_error=True)).modified_files == {}
    assert shown(tool_start(name=name), tool_end()).modified_files == {}
    assert shown(start, tool_end(), modifying_tools=()).modified_files == {}
    assert (
        "a.py"
        in shown(
            tool_start(name="Edit", args={"path": "a.py"}), tool_end(), modifying_tools=["Edit"]
        ).modified_files
    )


def test_a_file_that_any_agent_wrote_is_known_by_what_the_call_did() -> None:
    state = of_log(
        START,
        ToolStart(call_id="c", tool_name="Edit", input={"file_path": "/w/a.py"}),
        ToolEnd(call_id="c", tool_name="Edit", success=True, operations=[Write(path="/w/a.py")]),
        DONE,
    )

    assert to_wire(state.modified_files) == {"/w/a.py": {"operations": ["Edit"], "firstModified": 1002}}


def test_a_sub_agent_is_followed_until_the_run_ends() -> None:
    who = {"tool_call_id": "c", "agent_type": "t"}
    state = shown(
        wire.SubagentStartEvent(**who, task="look", model_id="m", forked=True),
        wire.SubagentTextDeltaEvent(**who, text_delta="I "),
        wire.SubagentTextDeltaEvent(**who, text_delta="look."),
        wire.SubagentToolStartEvent(**who, sub_tool_name="ls", sub_tool_args={}),
        wire.SubagentToolStartEvent(**who, sub_tool_name="ls", sub_tool_args={}),
        wire.SubagentToolEndEvent(**who, sub_tool_name="ls", sub_tool_result="", is_error=True),
        wire.SubagentEndEvent(**who, result="Seen.", is_error=False, duration_ms=7),
    )

    assert to_wire(state.active_subagents) == {
        "c": {
            "agentType": "t",
            "task": "look",
            "modelId": "m",
            "forked": True,
            "toolCalls": [{"name": "ls", "isError": True}, {"name": "ls", "isError": False}],
            "textDelta": "I look.",
            "status": "completed",
            "durationMs": 7,
            "result": "Seen.",
        }
    }
    assert state.active_subagents["c"].text_delta == "I look."


def test_usage_is_added_up() -> None:
    state = of_log(
        START, UsageDelta(usage=Usage(input=3, output=2)), UsageDelta(usage=Usage(input=1, reasoning=4))
    )

    assert to_wire(state.token_usage) == {
        "promptTokens": 4,
        "completionTokens": 6,
        "totalTokens": 10,
        "reasoningTokens": 4,
        "cachedInputTokens": 0,
        "cacheCreationInputTokens": 0,
    }


def test_the_tasks_before_are_kept_beside_the_tasks_now() -> None:
    first, second = (
        [TaskItem(id=name, content=name, status="pending", active_form=name)] for name in ("a", "b")
    )

    state = shown(wire.TaskUpdatedEvent(tasks=first), wire.TaskUpdatedEvent(tasks=second))

    assert (state.previous_tasks, state.tasks) == (first, second)


def test_follow_ups_are_counted() -> None:
    assert shown(wire.FollowUpQueuedEvent(count=2)).queued_follow_ups == 2


THREAD = wire.HarnessThread(id="t", resource_id="", created_at=0, updated_at=0)


@pytest.mark.parametrize(
    ("event", "is_reset"),
    [
        (wire.ThreadChangedEvent(thread_id="t", previous_thread_id=None), True),
        (wire.ThreadCreatedEvent(thread=THREAD), True),
        (wire.ThreadDeletedEvent(thread_id="t", was_current=True), True),
        (wire.ThreadDeletedEvent(thread_id="other"), False),
    ],
)
def test_another_thread_shows_nothing_of_the_last_but_that_a_run_continues(
    event: HarnessEvent, is_reset: bool
) -> None:
    before: list[HarnessEvent] = [
        wire.AgentStartEvent(),
        tool_start(name="write_file", args={"path": "a"}),
        tool_end(),
        wire.FollowUpQueuedEvent(count=2),
        wire.UsageUpdateEvent(usage=TokenUsage(prompt_tokens=1)),
        wire.OmBufferingStartEvent(cycle_id="c", operation_type="observation", tokens_to_buffer=1),
    ]
    state = shown(*before, event)

    expected = DisplayState(is_running=True) if is_reset else shown(*before)
    assert to_wire(state) == to_wire(expected)


def test_a_new_thread_begins_with_nothing_used() -> None:
    state = of_log(START, UsageDelta(usage=Usage(input=3)), DONE, ThreadCreated(id="clone", run_id="clone"))

    assert state.token_usage.total_tokens == 0


def test_the_state_is_changed_in_place_and_survives_being_written_and_read() -> None:
    state = shown(
        wire.AgentStartEvent(), tool_start(), wire.MessageEndEvent(message=message("x")), suspended("q")
    )

    assert to_wire(read(to_wire(state), DisplayState)) == to_wire(state)
    same = state
    reset_thread(state)
    assert same.active_tools == {}
