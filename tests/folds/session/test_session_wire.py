"""The events of a session on the wire, and tokens in its spelling."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from harness.events import TextDelta, ToolEnd, ToolStart
from harness.folds.session import events as wire
from harness.folds.session.events import EVENTS, encode, from_wire, to_wire
from harness.folds.session.messages import HarnessMessage, MessageDraft
from harness.folds.session.parts import TextPart
from harness.folds.session.usage import NOTHING_USED, TokenUsage, read_usage
from session_log import DONE, START, emitted

NAMES = """
mode_changed model_changed thread_changed thread_created thread_deleted state_changed agent_start agent_end
message_start message_update message_end tool_start tool_approval_required tool_suspended tool_update tool_end
tool_input_start tool_input_delta tool_input_end usage_update error info system_reminder state_signal
reactive_signal notification notification_summary follow_up_queued steering_queued workspace_status_changed workspace_ready
workspace_error om_status om_activation om_model_changed om_observation_start om_observation_end
om_observation_failed om_reflection_start om_reflection_end om_reflection_failed om_buffering_start
om_buffering_end om_buffering_failed om_thread_title_updated subagent_start subagent_text_delta
subagent_tool_start subagent_tool_end subagent_end subagent_model_changed task_updated goal_evaluation
shell_output display_state_changed text thinking tool_call tool_result image file
tool_suspension_cancelled command_exit
"""


def test_there_is_an_event_of_every_name() -> None:
    assert set(EVENTS) == set(NAMES.split())


def test_every_event_is_documented_with_its_fields() -> None:
    page = Path(__file__).parents[3].joinpath("docs", "harness-events.md").read_text(encoding="utf-8")
    for name, kind in EVENTS.items():
        fields = [
            f"`{field.encode_name}{'' if field.required else '?'}`" for field in msgspec.structs.fields(kind)
        ]
        assert f"| `{name}` | {', '.join(fields)} |" in page, name


def test_what_is_optional_is_absent_and_what_may_be_null_is_null() -> None:
    assert to_wire(wire.ThreadChangedEvent(thread_id="t", previous_thread_id=None)) == {
        "type": "thread_changed",
        "threadId": "t",
        "previousThreadId": None,
    }
    assert to_wire(wire.ModelChangedEvent(model_id="m")) == {"type": "model_changed", "modelId": "m"}
    assert to_wire(wire.ToolEndEvent(tool_call_id="c", result=None, is_error=False)) == {
        "type": "tool_end",
        "toolCallId": "c",
        "result": None,
        "isError": False,
    }
    assert wire.ModelChangedEvent(model_id="m").type == "model_changed"


def test_events_survive_the_wire() -> None:
    events = emitted(
        START,
        TextDelta(text="x"),
        ToolStart(call_id="c", tool_name="t"),
        ToolEnd(call_id="c", tool_name="t"),
        DONE,
    )

    assert [from_wire(json.loads(encode(event))) for event in events] == events
    for odd in ({"type": "later"}, {}, [], "x", {"type": "agent_end", "reason": 7}):
        with pytest.raises(msgspec.ValidationError):
            from_wire(odd)


def test_whatever_an_agent_wrote_can_be_encoded() -> None:
    deep: object = 1
    for _ in range(3000):
        deep = [deep]
    events = emitted(
        START,
        TextDelta(text="half \ud83d"),
        ToolStart(call_id="c", tool_name="t", input={"n": 10**30, "deep": deep, "s": "\ud800"}),
        DONE,
    )

    for event in events:
        assert json.loads(encode(event))["type"] == event.type


def test_a_draft_continues_where_it_was_stored() -> None:
    draft = MessageDraft("m", 1)
    first, second = (draft.begin(TextPart(text="")) for _ in range(2))
    draft.write(first, "a")
    draft.write(second, "b")
    draft.rewrite(first, None)

    again = MessageDraft.from_data(msgspec.to_builtins(draft.data()))
    again.write(second, "c")

    assert HarnessMessage(again, len(again.changes)).content == [TextPart(text="bc")]
    assert again.size == 3


@pytest.mark.parametrize(
    ("data", "usage"),
    [
        (
            {"promptTokens": 3, "completionTokens": 2},
            TokenUsage(prompt_tokens=3, completion_tokens=2, total_tokens=5),
        ),
        (
            {"inputTokens": 3, "outputTokens": 2},
            TokenUsage(prompt_tokens=3, completion_tokens=2, total_tokens=5),
        ),
        (
            {"inputTokens": "3", "outputTokens": "2", "totalTokens": "9"},
            TokenUsage(prompt_tokens=3, completion_tokens=2, total_tokens=9),
        ),
        (
            {"inputTokens": 1, "reasoningTokens": 4, "cachedInputTokens": 0, "raw": {"x": 1}},
            TokenUsage(
                prompt_tokens=1, total_tokens=1, reasoning_tokens=4, cached_input_tokens=0, raw={"x": 1}
            ),
        ),
        ({"promptTokens": "many", "completionTokens": True}, TokenUsage()),
        (None, TokenUsage()),
    ],
)
def test_usage_is_read_in_either_spelling(data: object, usage: TokenUsage) -> None:
    assert read_usage(data) == usage


def test_usage_adds_up_and_the_last_raw_counts() -> None:
    added = NOTHING_USED.plus(TokenUsage(prompt_tokens=1, total_tokens=1, raw=1)).plus(
        TokenUsage(reasoning_tokens=2, raw=2)
    )

    assert to_wire(added) == {
        "promptTokens": 1,
        "completionTokens": 0,
        "totalTokens": 1,
        "reasoningTokens": 2,
        "cachedInputTokens": 0,
        "cacheCreationInputTokens": 0,
        "raw": 2,
    }
    assert read_usage(to_wire(added)) == added
