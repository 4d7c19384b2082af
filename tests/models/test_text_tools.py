"""Tools in plain text: told to the model, read from its answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from harness.contracts.model import Ask, AssistantTurn, Call, SystemTurn, ToolSpec, ToolTurn, UserTurn
from harness.events import Event, Message, StepEnd, TextDelta
from harness.models.text_tools import TextTools

READ = ToolSpec("read", "Read a file.", {"type": "object", "properties": {"filePath": {"type": "string"}}})
CALL = '<tool_call>{"name": "read", "arguments": {"filePath": "a<b.py"}}</tool_call>'


class Played:
    name = "ollama/old"

    def __init__(self, text: str, size: int) -> None:
        self.asked: list[Ask] = []
        self._pieces = [text[start : start + size] for start in range(0, len(text), size)]
        self._text = text

    async def answer(self, ask: Ask) -> AsyncIterator[Event]:
        self.asked.append(ask)
        for piece in self._pieces:
            yield TextDelta(id="m", text=piece)
        yield Message(role="assistant", text=self._text, id="m")
        yield StepEnd(id="", stop_reason="end")


def answer(text: str, ask: Ask | None = None, size: int = 1000) -> tuple[list[Event], Ask]:
    model = Played(text, size)

    async def events() -> list[Event]:
        return [event async for event in TextTools(model).answer(ask or Ask(turns=(), tools=(READ,)))]

    return asyncio.run(events()), model.asked[0]


def shown(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
def test_calls_are_parts_and_never_shown_as_text(size: int) -> None:
    events, _ = answer(f"I look.\n{CALL}\n{CALL.replace('a<b', 'c')}", size=size)
    [message] = [event for event in events if isinstance(event, Message)]
    assert message.text == "I look."
    assert [part["input"]["filePath"] for part in message.parts or ()] == ["a<b.py", "c.py"]
    assert shown(events).strip() == "I look."
    assert isinstance(events[-1], StepEnd)
    assert events[-1].stop_reason == "tool_calls"


@pytest.mark.parametrize(
    "text", ["a < b and <tool is fine>", "if a <", "<tool_call>not json</tool_call>", "<tool_call>[]"]
)
@pytest.mark.parametrize("size", [1, 1000])
def test_what_is_no_call_is_shown_whole(text: str, size: int) -> None:
    events, _ = answer(text, size=size)
    assert shown(events) == text
    assert events[-1].stop_reason == "end"  # type: ignore[attr-defined]


def test_a_call_that_was_not_closed_counts() -> None:
    events, _ = answer(CALL.removesuffix("</tool_call>"))
    [message] = [event for event in events if isinstance(event, Message)]
    assert message.parts


def test_the_model_is_told_of_tools_and_of_what_was_called() -> None:
    turns = (
        SystemTurn("Work."),
        UserTurn("go"),
        AssistantTurn("I look.", (Call("1", "read", {"filePath": "a.py"}), Call("2", "read", {}))),
        ToolTurn("1", "one"),
        ToolTurn("2", "two"),
    )
    _, asked = answer("Done.", Ask(turns=turns, tools=(READ,)))
    assert asked.tools == ()
    work, told, _go, said, result = asked.turns
    assert work == SystemTurn("Work.")
    assert isinstance(told, SystemTurn)
    assert '"name":"read"' in told.text
    assert isinstance(said, AssistantTurn)
    assert not said.calls
    assert said.text.count("<tool_call>") == 2
    assert result == UserTurn(
        "<tool_response>\none\n</tool_response>\n<tool_response>\ntwo\n</tool_response>"
    )


def test_without_tools_nothing_is_told() -> None:
    _, asked = answer("Hi.", Ask(turns=(UserTurn("go"),)))
    assert asked.turns == [UserTurn("go")]
