"""A conversation that outgrows its model is summed up, and continues; the log has enough to continue anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from conversation_kit import Talk, assert_consistent, in_loop
from harness.contracts.model import (
    Ask,
    AssistantTurn,
    Call,
    SystemTurn,
    ToolSpec,
    ToolTurn,
    Turn,
    UserTurn,
)
from harness.contracts.tool import ToolContext
from harness.conversation.compaction import is_summary, tail_start, tokens_of, tokens_of_tools
from harness.conversation.history import history
from harness.conversation.turns import TranscriptEntry
from harness.events import (
    Compacted,
    Error,
    Event,
    Message,
    SessionStart,
    Signal,
    StepEnd,
    StepStart,
    Usage,
    UsageDelta,
    Warning,
)
from harness.models.registry import USUAL, window_of
from harness.native.loop.loop_context import AgentOptions
from harness.native.tools.function_tool import tool
from played_model import Played, calls, play, says

WINDOW = 1_000
LONG = "x" * 1_200
"""About 300 tokens."""
TOO_LONG = "prompt is too long: 208310 tokens > 200000 maximum"


@tool(quick=True)
def read(count: int) -> str:
    """Give so many characters."""
    return "x" * count


def reads(call_id: str, count: int = 1_200, usage: Usage | None = None) -> list[Event]:
    call = {"type": "tool_call", "id": call_id, "name": "read", "input": {"count": count}}
    used = [UsageDelta(usage=usage)] if usage is not None else []
    return [Message(role="assistant", text="", parts=[call]), *used, StepEnd(id="", stop_reason="tool_calls")]


def answers(text: str, usage: Usage | None = None) -> list[Event]:
    used = [UsageDelta(usage=usage)] if usage is not None else []
    return [Message(role="assistant", text=text), *used, StepEnd(id="", stop_reason="end")]


def refuses(message: str = TOO_LONG, code: str = "invalid_request_error") -> list[Event]:
    return [Error(message=message, code=code), StepEnd(id="", stop_reason="error")]


def run(*played: Any, **options: Any) -> Played:
    options.setdefault("context_window", WINDOW)
    return play(*played, tools=(read,), **options)


def entries(turns: Sequence[Turn]) -> list[TranscriptEntry]:
    return [TranscriptEntry(turn, "", -1, -1) for turn in turns]


def sent(played: Played, at: int) -> list[Turn]:
    """Of a model call: what it was sent, without the system prompt."""
    return [turn for turn in played.model.asked[at][0] if not isinstance(turn, SystemTurn)]


def test_what_has_outgrown_the_window_is_summed_up_but_for_the_last_turns() -> None:
    played = run(
        reads("a"),
        reads("b"),
        reads("c"),
        answers("the goal is X", usage=Usage(input=700, output=20)),
        answers("done"),
        system_prompt="be good",
        prompt="do X",
    )

    assert played.result.success
    assert played.result.text == "done"
    asked, _tools = played.model.asked[3]
    assert isinstance(asked[0], SystemTurn)
    assert "do X" in asked[1].text
    assert "read" in asked[1].text
    assert _tools == ()
    asked, tools = played.model.asked[4]
    assert asked[0] == SystemTurn("be good")
    assert is_summary(asked[1])
    assert "the goal is X" in asked[1].text
    assert asked[2:] == (
        AssistantTurn("", (Call("c", "read", {"count": 1_200}),)),
        ToolTurn("c", LONG),
    )
    assert [one.name for one in tools] == ["read"]


def test_the_log_reports_it_and_what_the_summary_used_is_counted() -> None:
    played = run(
        reads("a"),
        reads("b"),
        reads("c"),
        answers("so far", usage=Usage(input=700, output=20)),
        answers("done"),
    )

    [compacted] = played.of(Compacted)
    assert compacted.trigger == "auto"
    assert compacted.summary == "so far"
    assert compacted.kept == 2
    assert compacted.before_tokens > 0.8 * WINDOW > compacted.after_tokens
    assert len(played.of(StepStart)) == 4  # the summary is no answer
    assert [one.text for one in played.of(Message) if one.role == "assistant"] == ["", "", "", "done"]
    assert played.result.usage == Usage(input=700, output=20)
    assert [one.usage for one in played.of(UsageDelta)] == [Usage(input=700, output=20)]


def test_the_length_that_the_provider_reports_goes_before_our_own_estimate() -> None:
    near = Usage(input=100, cache_read=500, cache_write=180)
    played = run(reads("a", 10, near), reads("b", 10, Usage(input=780)), answers("done"))
    assert not played.of(Compacted)  # 780 and a few are below 800

    played = run(reads("a", 10, Usage(input=850)), answers("sum"), answers("done"))
    [compacted] = played.of(Compacted)
    assert compacted.before_tokens >= 850


def test_a_short_conversation_stays_as_it_is() -> None:
    played = run(reads("a"), reads("b"), answers("done"))
    assert not played.of(Compacted)
    assert len(played.model.asked) == 3


@in_loop
async def test_the_next_process_sends_the_same_conversation() -> None:
    options = {"tools": (read,), "context_window": WINDOW}
    talk = Talk(
        reads("a"), reads("b"), reads("c"), answers("so far"), answers("done"), answers("more"), **options
    )
    await talk.send("one")
    talk.check()
    assert is_summary(talk.turns[0])

    other = talk.after_death(answers("more"), **options)
    await other.send("two")
    await talk.send("two")

    assert other.model.asked[-1] == talk.model.asked[-1]
    assert len(other.model.asked[-1][0]) == 5
    talk.check()
    other.check()


@in_loop
async def test_what_is_added_while_the_model_sums_up_stays() -> None:
    talk: Talk

    async def adding(_ask: Ask) -> Any:
        talk.conversation.add(Signal(id="s", category="notification", tag_name="news", contents="it rains"))
        for event in answers("so far"):
            yield event

    talk = Talk(
        reads("a"), reads("b"), reads("c"), adding, answers("done"), tools=(read,), context_window=WINDOW
    )
    await talk.send("one")

    talk.check()
    turns = talk.model.asked[4][0]
    assert is_summary(turns[0])
    assert "it rains" in turns[-1].text


def test_a_session_of_several_logs_is_rebuilt_over_all_of_them() -> None:
    first = run(reads("a"), reads("b"), answers("one"), prompt="first")
    before = history(first.events).turns
    second = run(answers("so far"), answers("two"), prompt="second", turns=before, context_window=600)

    turns = history(second.events, before).turns
    assert turns[:-1] == sent(second, 1)
    assert turns[-1] == AssistantTurn("two")
    assert_consistent(entries(turns))


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (TOO_LONG, "invalid_request_error"),
        (
            "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000",
            "invalid_request_error",
        ),
        ("anything", "context_length_exceeded"),
        ("Your input exceeds the context window of this model.", "invalid_request_error"),
        (
            "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens",
            "http_400",
        ),
        (
            "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
            "INVALID_ARGUMENT",
        ),
        ("the request exceeds the available context size (4096 tokens), try increasing it", "http_400"),
    ],
)
def test_a_model_that_refuses_what_is_too_long_is_asked_again_with_less(message: str, code: str) -> None:
    played = run(
        reads("a"),
        reads("b"),
        refuses(message, code),
        answers("so far"),
        answers("done"),
        context_window=10_000,
    )

    assert played.result.success
    assert not played.of(Error)
    [warning] = played.of(Warning)
    assert message in warning.message
    [compacted] = played.of(Compacted)
    assert compacted.trigger == "too_long"
    assert is_summary(sent(played, 4)[0])
    assert_consistent(entries(sent(played, 4)))
    turns = history(played.events).turns
    assert turns[:-1] == sent(played, 4)


def test_a_model_that_refuses_twice_ends_the_run_with_a_clear_error() -> None:
    played = run(reads("a"), reads("b"), refuses(), answers("so far"), refuses())

    assert played.result.outcome == "failed"
    [error] = played.of(Error)
    assert "too long for test/played" in error.message
    assert TOO_LONG in error.message
    assert error.code == "context_length_exceeded"


def test_a_prompt_that_is_too_long_by_itself_ends_the_run_with_a_clear_error() -> None:
    played = run(refuses(), prompt=LONG)

    assert played.result.outcome == "failed"
    [error] = played.of(Error)
    assert "too long for test/played" in error.message
    assert len(played.model.asked) == 1


def test_another_failure_is_reported_as_it_was() -> None:
    played = run(refuses("no such model", "not_found"))
    [error] = played.of(Error)
    assert (error.message, error.code) == ("no such model", "not_found")
    assert len(played.model.asked) == 1


def test_without_a_summary_long_outputs_are_shortened_and_the_run_continues() -> None:
    played = run(
        reads("a"), reads("b", 1_400), reads("c", 400), refuses("overloaded", "boom"), answers("done")
    )

    assert played.result.success
    assert not played.of(Error)
    [warning] = played.of(Warning)
    assert "overloaded" in warning.message
    turns = sent(played, 4)
    assert_consistent(entries(turns))
    first, second, third = [turn for turn in turns if isinstance(turn, ToolTurn)]
    assert len(first.text) < 1_200
    assert "characters were left out" in second.text
    assert third.text == "x" * 400
    assert history(played.events).turns[:-1] == turns


def test_one_output_that_alone_is_too_long_is_shortened() -> None:
    played = run(reads("a", 100), reads("b", 8_000), answers("so far"), answers("done"))

    turns = sent(played, 3)
    assert is_summary(turns[0])
    assert isinstance(turns[-1], ToolTurn)
    assert "characters were left out" in turns[-1].text
    assert history(played.events).turns[:-1] == turns


def test_a_summary_is_summed_up_with_what_followed_it() -> None:
    played = run(
        *(reads(id) for id in "abc"),
        answers("first"),
        reads("d"),
        reads("e"),
        answers("second"),
        answers("done"),
    )

    assert [one.summary for one in played.of(Compacted)] == ["first", "second"]
    assert "first" in sent(played, 6)[0].text
    turns = sent(played, 7)
    assert "first" not in turns[0].text
    assert history(played.events).turns[:-1] == turns


def test_a_sub_agent_is_held_within_the_window_as_well() -> None:
    @tool
    async def delegate(task: str, context: ToolContext) -> str:
        """Give a task to a sub-agent."""
        assert context.spawn is not None
        return await context.spawn(task)

    played = play(
        calls(("s", "delegate", {"task": "look"})),
        *(reads(id) for id in "abc"),
        answers("so far"),
        answers("found"),
        says("done"),
        tools=(read, delegate),
        context_window=WINDOW,
    )
    [compacted] = played.of(Compacted)
    nested = [one.run_id for one in played.of(SessionStart) if one.parent_id]
    assert [compacted.run_id] == nested
    assert played.result.success
    assert len(history(played.events).turns) == 4  # what is left of the sub-agent's words is not the caller's


def test_what_another_one_chooses_to_send_is_left_alone() -> None:
    async def all_of_it(context: Any) -> list[Turn]:
        return [entry.turn for entry in context.entries]

    played = run(reads("a"), reads("b"), reads("c"), answers("done"), before_step=all_of_it)
    assert not played.of(Compacted)


def test_where_nobody_chooses_what_is_sent_it_is_summed_up() -> None:
    async def nothing(_context: Any) -> None:
        return None

    played = run(
        reads("a"), reads("b"), reads("c"), answers("the goal is X"), answers("done"), before_step=nothing
    )
    assert [event.summary for event in played.of(Compacted)] == ["the goal is X"]
    assert played.result.text == "done"


@in_loop
async def test_the_next_message_knows_how_long_the_provider_said_the_conversation_is() -> None:
    talk = Talk(
        answers("hello", usage=Usage(input=900, output=1)),
        answers("short", usage=Usage(input=9, output=1)),
        answers("done"),
        context_window=WINDOW,
    )
    await talk.send("hi there, you and all the others")
    await talk.send("and now?")
    [event] = talk.of(Compacted)
    assert event.before_tokens > 900


def test_a_summary_longer_than_what_it_sums_up_is_not_taken() -> None:
    played = run(reads("a"), reads("b"), reads("c"), answers("word " * 5_000), answers("done"), prompt="do X")
    assert [event.summary for event in played.of(Compacted)] == [""]
    assert any("longer than what it sums up" in event.message for event in played.of(Warning))
    assert played.result.text == "done"


def test_half_a_character_in_a_tool_or_a_call_breaks_no_count() -> None:
    half = "\ud83d"
    call = AssistantTurn("", (Call("a", "read", {"path": half}),))
    assert tokens_of(call) > 0
    assert tokens_of_tools([ToolSpec("read", half, {"type": "object"})]) > 0


def test_the_last_turns_never_begin_with_a_result() -> None:
    call = AssistantTurn("", (Call("a", "read", {}), Call("b", "read", {})))
    turns = [UserTurn("hi"), call, ToolTurn("a", LONG), ToolTurn("b", LONG)]
    assert tail_start(turns, 10) == 1
    assert tail_start(turns, 10_000) == 0
    assert tail_start([*turns, UserTurn("next")], 10) == 4


def test_a_window_is_known_by_the_models_name() -> None:
    assert window_of("anthropic/claude-sonnet-4-6") == 200_000
    assert window_of("gemini/gemini-2.5-pro") == 1_000_000
    assert window_of("openrouter/openai/o3") == 200_000
    assert window_of("vllm/something-new") == USUAL
    assert AgentOptions(model=None).context_window is None  # type: ignore[arg-type]
