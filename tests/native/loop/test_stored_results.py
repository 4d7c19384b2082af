"""What a tool gives as data is in the log beside its text, if a log can hold it."""

from __future__ import annotations

from typing import Any

import pytest

from harness.contracts.tool import ToolOutput
from harness.events import ToolEnd
from harness.folds.run_events.events import outcome_of
from harness.log.codec import decode, encode
from harness.native.loop import tool_messages
from harness.native.tools.function_tool import tool
from played_model import calls, play, says


def end_of(value: Any) -> ToolEnd:
    @tool(quick=True)
    def give() -> Any:
        """Give it."""
        return value

    [end] = play(calls(("c", "give", {})), says("ok"), tools=(give,)).of(ToolEnd)
    assert decode(encode(end)) == end
    return end


def test_data_that_a_function_returns_is_stored_as_data_and_as_text() -> None:
    end = end_of({"rows": (1, 2)})

    assert (end.output, end.result) == ('{"rows":[1,2]}', {"rows": [1, 2]})
    assert outcome_of(end) == {"context": '{"rows":[1,2]}', "result": {"rows": [1, 2]}}


def test_a_text_is_its_own_result() -> None:
    end = end_of("fine")

    assert (end.output, end.result) == ("fine", None)


def test_what_no_log_can_hold_stays_text() -> None:
    assert end_of(ToolOutput(text="fine", result=object())).result is None


def test_data_that_is_too_large_stays_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool_messages, "MOST_RESULT_BYTES", 10)

    assert end_of({"rows": list(range(100))}).result is None
