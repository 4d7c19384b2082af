"""A model that makes the same call again and again is told, and then stopped; one that makes progress is left alone."""

from __future__ import annotations

from itertools import count

from harness.events import Error, ToolEnd
from harness.native.loop.loop_guard import STOPPED_AT, TOLD_AT
from harness.native.tools.function_tool import tool
from played_model import calls, play, says


@tool(quick=True)
def look(path: str) -> str:
    """Look."""
    return f"nothing in {path}"


def test_the_same_call_with_the_same_result_is_told_and_then_ends_the_run() -> None:
    answers = [calls((f"c{number}", "look", {"path": "a"})) for number in range(20)]
    played = play(*answers, tools=(look,), stops_repeats=True, max_iterations=50)
    assert played.result.outcome == "failed"
    outputs = [end.output for end in played.of(ToolEnd)]
    assert len(outputs) == STOPPED_AT
    assert outputs[TOLD_AT - 2] == "nothing in a"
    assert "call number 3 with these arguments" in outputs[TOLD_AT - 1]
    [error] = played.of(Error)
    assert error.code == "repeated_calls"


def test_a_circle_of_calls_is_noticed_too() -> None:
    answers = [calls((f"c{number}", "look", {"path": "ab"[number % 2]})) for number in range(30)]
    played = play(*answers, tools=(look,), stops_repeats=True, max_iterations=50)
    assert [one.code for one in played.of(Error)] == ["repeated_calls"]


def test_a_call_whose_result_changes_is_no_loop() -> None:
    number = count()

    @tool(quick=True)
    def poll() -> str:
        """Look at a server."""
        return f"request {next(number)}"

    answers = [calls((f"c{number}", "poll", {})) for number in range(20)]
    played = play(*answers, says("done"), tools=(poll,), stops_repeats=True, max_iterations=50)
    assert played.result.text == "done"


def test_programs_decide_for_themselves() -> None:
    answers = [calls((f"c{number}", "look", {"path": "a"})) for number in range(20)]
    played = play(*answers, says("done"), tools=(look,), max_iterations=50)
    assert played.result.text == "done"
