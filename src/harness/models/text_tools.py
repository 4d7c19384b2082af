"""Tools in plain text, for models whose server passes on none: the model is told of them and writes its calls into its answer.

    <tool_call>{"name": "read", "arguments": {"filePath": "a.py"}}</tool_call>

This is the form that most open models have been trained on, whatever their server knows of it.
"""

from __future__ import annotations

import os
import re
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from harness.contracts.model import Ask, AssistantTurn, Model, SystemTurn, ToolSpec, ToolTurn, Turn, UserTurn
from harness.events import Event, Message, StepEnd, TextDelta
from harness.formats.json_lines import DECODE_ERRORS
from harness.models.turn_cache import arguments_of

_MARK = "<tool_call>"
_CALL = re.compile(r"<tool_call>\s*(\{.*?\})\s*(?:</tool_call>|(?=<tool_call>)|\Z)", re.DOTALL)
_TOLD = (
    "You can call tools. To call one, write exactly this, and then nothing more:\n"
    '<tool_call>{{"name": "NAME", "arguments": {{…}}}}</tool_call>\n'
    "Several calls are several such lines. What they gave comes in the next message. The tools, with their arguments as JSON "
    "Schema:\n{tools}"
)


class TextTools:
    """Implements `Model`: another one, without what its server would make of tools."""

    def __init__(self, model: Model) -> None:
        self.name = model.name
        self.takes_schema_beside_tools = False
        self._model = model

    async def answer(self, ask: Ask) -> AsyncGenerator[Event]:
        plain = replace(ask, turns=_as_text(ask.turns, ask.tools), tools=())
        rest, has_calls = "", False
        stream = self._model.answer(plain)
        try:
            async for event in stream:
                if isinstance(event, TextDelta):
                    rest += event.text
                    visible, rest = _showable(rest)
                    if visible:
                        yield replace(event, text=visible)
                elif isinstance(event, Message):
                    message = _with_calls(event)
                    has_calls = bool(message.parts)
                    if rest and not has_calls:
                        yield TextDelta(id=event.id, text=rest)
                    rest = ""
                    yield message
                elif isinstance(event, StepEnd) and has_calls:
                    yield replace(event, stop_reason="tool_calls")
                else:
                    yield event
        finally:
            if (close := getattr(stream, "aclose", None)) is not None:
                await close()


def _showable(text: str) -> tuple[str, str]:
    """What of it is certainly no call, and the rest."""
    at = text.find("<")
    while at >= 0:
        rest = text[at : at + len(_MARK)]
        if _MARK.startswith(rest):
            return text[:at], text[at:]
        at = text.find("<", at + 1)
    return text, ""


def _with_calls(message: Message) -> Message:
    """The calls of an answer as parts, and its text without them."""
    calls = [call for match in _CALL.finditer(message.text) for call in _call(match[1])]
    if not calls:
        return message
    return replace(message, text=_CALL.sub("", message.text).strip(), parts=calls)


def _call(text: str) -> list[dict[str, Any]]:
    try:
        value = msgspec.json.decode(text.encode())
    except DECODE_ERRORS:
        return []
    name, arguments = value.get("name"), value.get("arguments", value.get("parameters"))
    if not isinstance(name, str) or not name:
        return []
    return [
        {"type": "tool_call", "id": f"call_{os.urandom(8).hex()}", "name": name, "input": arguments or {}}
    ]


def _as_text(turns: Sequence[Turn], tools: Sequence[ToolSpec]) -> list[Turn]:
    """The conversation without calls and results of the API, and with the tools as an instruction."""
    plain: list[Turn] = []
    for turn in turns:
        if isinstance(turn, AssistantTurn) and turn.calls:
            plain.append(AssistantTurn("\n".join(filter(None, [turn.text, *map(_written, turn.calls)]))))
        elif isinstance(turn, ToolTurn):
            _join(plain, turn)
        else:
            plain.append(turn)
    if not tools:
        return plain
    entries = [
        {"name": tool.name, "description": tool.description, "parameters": tool.schema} for tool in tools
    ]
    instruction = _TOLD.format(tools="\n".join(msgspec.json.encode(call).decode() for call in entries))
    count = next((at for at, turn in enumerate(plain) if not isinstance(turn, SystemTurn)), len(plain))
    return [*plain[:count], SystemTurn(instruction), *plain[count:]]


def _written(call: Any) -> str:
    value = {"name": call.name, "arguments": arguments_of(call)}
    return f"{_MARK}{msgspec.json.encode(value).decode()}</tool_call>"


def _join(plain: list[Turn], turn: ToolTurn) -> None:
    """The results of one step are one message: such models know no two in a row."""
    text = f"<tool_response>\n{turn.text}\n</tool_response>"
    last = plain[-1] if plain else None
    if isinstance(last, UserTurn) and last.text.endswith("</tool_response>"):
        plain[-1] = UserTurn(f"{last.text}\n{text}", (*last.attachments, *turn.attachments))
    else:
        plain.append(UserTurn(text, turn.attachments))
