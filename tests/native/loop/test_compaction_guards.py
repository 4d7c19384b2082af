"""Compaction costs as little as it can, never runs away, and loses nothing that was asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from conversation_kit import Talk, in_loop
from harness.contracts.model import AssistantTurn, SystemTurn, ToolTurn, UserTurn
from harness.contracts.tool import ToolContext
from harness.conversation.compaction import is_summary
from harness.conversation.history import history
from harness.errors import UsageError
from harness.events import (
    Compacted,
    Error,
    Info,
    Message,
    Result,
    StepEnd,
    StepStart,
    ToolEnd,
    Usage,
    UsageDelta,
    Warning,
)
from harness.native.tools.function_tool import tool
from harness.native.tools.todo import TodoTool
from played_model import Played, calls, play, says

WINDOW = 8_000


@tool(quick=True)
def read(count: int) -> str:
    """Give so many characters."""
    return "x" * count


def reads(call_id: str, count: int, used: int | None = None) -> list[Any]:
    call = {"type": "tool_call", "id": call_id, "name": "read", "input": {"count": count}}
    usage = [UsageDelta(usage=Usage(input=used, output=1))] if used is not None else []
    return [
        Message(role="assistant", text="", parts=[call]),
        *usage,
        StepEnd(id="", stop_reason="tool_calls"),
    ]


def run(*played: Any, **options: Any) -> Played:
    options.setdefault("context_window", WINDOW)
    options.setdefault("tools", (read,))
    return play(*played, **options)


def fails(message: str = "overloaded") -> list[Any]:
    return [Error(message=message, code="boom"), StepEnd(id="", stop_reason="error")]


def test_the_summary_is_asked_for_in_the_conversation_itself() -> None:
    before = [UserTurn("do X"), *(UserTurn("w" * 4_000) for _ in range(6))]
    played = run(
        reads("a", 10, used=6_900), says("the goal is X"), says("done"), turns=before, system_prompt="be good"
    )
    first, summary, after = played.model.asked
    assert summary[0][: len(first[0])] == first[0]  # the provider has read all of that
    assert summary[1] == first[1]  # the tools are before everything else
    assert isinstance(summary[0][-1], UserTurn)
    assert "call no tool" in summary[0][-1].text
    assert after[0][0] == SystemTurn("be good")
    assert is_summary(after[0][1])
    assert [one.summary for one in played.of(Compacted)] == ["the goal is X"]


@pytest.mark.parametrize(
    "instead",
    [
        calls(("z", "read", {"count": 5})),
        [Message(role="assistant", text="half of i"), StepEnd(id="", stop_reason="length")],
        fails("prompt is too long: 208310 tokens > 200000 maximum"),
    ],
)
def test_a_call_or_half_a_summary_is_asked_for_again_as_a_text(instead: Any) -> None:
    before = [UserTurn("do X"), *(UserTurn("w" * 4_000) for _ in range(6))]
    played = run(reads("a", 10, used=6_900), instead, says("whole"), says("done"), turns=before)
    assert played.result.text == "done"
    assert [one.summary for one in played.of(Compacted)] == ["whole"]
    cold, tools = played.model.asked[2]
    assert "<conversation>" in cold[-1].text
    assert tools == ()


def test_long_outputs_are_shortened_first_and_nothing_is_asked_for() -> None:
    played = run(*(reads(id, 7_900) for id in "abcd"), says("done"))
    [event] = played.of(Compacted)
    assert event.summary == ""
    assert len(played.model.asked) == 5
    outputs = [turn for turn in played.model.asked[-1][0] if isinstance(turn, ToolTurn)]
    assert "characters were left out" in outputs[0].text
    assert outputs[-1].text == "x" * 7_900  # the last ones stay
    assert history(played.events).turns[:-1] == list(played.model.asked[-1][0])


def test_no_output_takes_more_than_a_part_of_a_small_window() -> None:
    played = run(reads("a", 100_000), says("done"), context_window=32_000)
    [output] = [turn for turn in played.model.asked[-1][0] if isinstance(turn, ToolTurn)]
    assert 15_000 < len(output.text) < 17_000
    assert not played.of(Compacted)


def test_a_summary_that_fails_is_not_asked_for_again_and_again() -> None:
    before = [UserTurn("do X"), *(UserTurn("w" * 4_000) for _ in range(6))]
    steps = [step for at in range(8) for step in (reads(f"r{at}", 10, used=7_000 + 900 * at), fails())]
    played = run(
        *steps[:6],
        *(reads(f"s{at}", 10, used=9_000 + 900 * at) for at in range(5)),
        says("done"),
        turns=before,
    )
    assert played.result.text == "done"
    failures = [one.message for one in played.of(Warning) if one.code == "compaction_failed"]
    assert len(failures) == 3
    assert "not tried again" in failures[-1]


def test_compactions_in_a_row_are_said_and_then_end_the_run() -> None:
    answers: list[Any] = []
    for at in range(40):
        answers += [reads(f"r{at}", 8_000, used=7_000), says("so far")]
    played = run(*answers)
    assert played.result.outcome == "failed"
    [warning] = [one for one in played.of(Warning) if one.code == "compacted_often"]
    assert "8000 tokens" in warning.message
    [error] = played.of(Error)
    assert error.code == "compacted_too_often"
    assert "--context-window" in error.message
    assert len(played.of(Compacted)) == 5


def test_what_the_user_said_is_quoted_beside_the_summary_also_the_second_time() -> None:
    wide = [UserTurn("never touch setup.py"), *(UserTurn("w" * 4_000) for _ in range(6))]
    played = run(
        reads("a", 10, used=6_900),
        says("one"),
        reads("b", 10, used=7_100),
        says("two"),
        says("done"),
        turns=wide,
    )
    assert [one.summary for one in played.of(Compacted)] == ["one", "two"]
    assert "never touch setup.py" not in played.model.asked[-1][0][0].text  # only what is latest fits
    short = [UserTurn("never touch setup.py"), AssistantTurn("s" * 20_000), UserTurn("and be quick")]
    played = run(
        reads("a", 10, used=6_900),
        says("one"),
        reads("b", 10, used=7_100),
        says("two"),
        says("done"),
        turns=short,
    )
    assert [one.summary for one in played.of(Compacted)] == ["one", "two"]
    last = played.model.asked[-1][0][0].text
    assert "never touch setup.py" in last
    assert "one" not in last.partition("<messages-of-the-user>")[0].partition("<summary>")[2]


def test_open_tasks_are_stated_anew() -> None:
    todos = [{"text": "write it", "status": "in_progress"}, {"text": "read it", "status": "completed"}]
    before = [UserTurn("do X"), *(UserTurn("w" * 4_000) for _ in range(6))]
    played = run(
        calls(("t", "todo", {"todos": todos})),
        reads("a", 10, used=6_900),
        says("so far"),
        says("done"),
        turns=before,
        tools=(read, TodoTool()),
    )
    sent = [getattr(turn, "text", "") for turn in played.model.asked[-1][0]]
    assert any("[in_progress] write it" in text for text in sent)
    assert not any("read it" in text and "to-do" in text for text in sent)
    assert [turn.text for turn in history(played.events, before).turns[:-1]] == sent


def test_what_was_read_before_the_summary_is_read_again_before_it_is_changed(tmp_path: Path) -> None:
    for name in ("early.txt", "late.txt"):
        (tmp_path / name).write_text("one\n")

    @tool
    def look(path: str, context: ToolContext) -> str:
        """Read it."""
        context.files.read(path)
        return "x" * 8_000

    @tool
    def change(path: str, context: ToolContext) -> str:
        """Change it."""
        context.files.assert_current(path)
        return "changed"

    early, late = ({"path": str(tmp_path / name)} for name in ("early.txt", "late.txt"))
    played = run(
        calls(("a", "look", early)),
        [
            *calls(("b", "look", late))[:1],
            UsageDelta(usage=Usage(input=7_000, output=1)),
            StepEnd(id="", stop_reason="tool_calls"),
        ],
        says("so far"),
        calls(("c", "change", early), ("d", "change", late)),
        says("done"),
        turns=[UserTurn("do X"), *(UserTurn("w" * 4_000) for _ in range(5))],
        tools=(look, change),
    )
    assert [one.summary for one in played.of(Compacted)] == ["so far"]
    ends = {one.call_id.rpartition("/")[2]: one for one in played.of(ToolEnd)}
    assert (ends["c"].success, ends["d"].success) == (False, True)
    assert "was not read yet" in ends["c"].output


@in_loop
async def test_a_person_may_ask_for_it() -> None:
    talk = Talk(says("w" * 3_000), says("v" * 3_000), says("short"), says("yes"), context_window=8_000)
    await talk.send("one")
    await talk.send("two")
    ended = await talk.conversation.compact(talk.options, "keep the numbers")
    assert isinstance(ended, Result)
    assert ended.success
    [event] = talk.of(Compacted)
    assert (event.trigger, event.summary) == ("manual", "short")
    assert "keep the numbers" in talk.model.asked[2][0][-1].text
    talk.check()
    await talk.send("three")
    assert is_summary(talk.model.asked[3][0][0])
    talk.check()
    assert history(talk.events).entries == talk.conversation.entries


@in_loop
async def test_nothing_to_sum_up_is_said() -> None:
    talk = Talk(says("hi"), context_window=8_000)
    await talk.conversation.compact(talk.options)
    assert [one.code for one in talk.of(Info)] == ["nothing_to_compact"]
    assert not talk.of(StepStart)


@in_loop
async def test_what_waits_is_not_summed_up() -> None:
    @tool
    async def ask(context: ToolContext) -> str:
        """Ask."""
        return str(await context.suspend(question="which?"))

    talk = Talk(calls(("a", "ask", {})), says("done"), tools=(ask,))
    await talk.send("one")
    with pytest.raises(UsageError, match="waits"):
        await talk.conversation.compact(talk.options)


@in_loop
async def test_how_long_it_is_survives_the_process() -> None:
    talk = Talk(says("hello", usage=Usage(input=7_500, output=10)), context_window=WINDOW)
    await talk.send("x" * 400)
    other = talk.after_death(says("so far"), says("done"), context_window=WINDOW)
    measured = history(other.events).measured
    assert (measured.tokens, measured.turns, measured.answer) == (7_500, 1, 10)
    other.conversation._transcript.measured = measured
    await other.send("and now?")
    assert len(other.of(Compacted)) == 1
    other.check()
