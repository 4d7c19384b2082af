"""Masks secrets in a conversation: a store was not masked, and a log need not be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from harness.log.redact.redactor import redact_text
from harness.sources.handover.conversation import HandedCall, HandedConversation, HandedPrompt, HandedTurn

MARK = "[REDACTED:"


def masked(conversation: HandedConversation, secrets: Mapping[str, str]) -> HandedConversation:
    """`secrets`: known ones by their names, beside those that are recognized by their form."""
    turns = tuple(_turn(turn, secrets) for turn in conversation.turns)
    count = sum(_marks(turn) for turn in turns)
    return replace(conversation, turns=turns, losses=replace(conversation.losses, masked=count))


def _turn(turn: HandedTurn, secrets: Mapping[str, str]) -> HandedTurn:
    text = redact_text(turn.text, secrets)
    if isinstance(turn, HandedPrompt):
        return replace(turn, text=text)
    return replace(turn, text=text, calls=tuple(_call(call, secrets) for call in turn.calls))


def _call(call: HandedCall, secrets: Mapping[str, str]) -> HandedCall:
    return replace(call, input=_value(call.input, secrets), output=redact_text(call.output, secrets))


def _value(value: Any, secrets: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return redact_text(value, secrets)
    if isinstance(value, dict):
        return {name: _value(inner, secrets) for name, inner in value.items()}
    if isinstance(value, list):
        return [_value(inner, secrets) for inner in value]
    return value


def _marks(turn: HandedTurn) -> int:
    calls = () if isinstance(turn, HandedPrompt) else turn.calls
    return turn.text.count(MARK) + sum(f"{call.input}{call.output}".count(MARK) for call in calls)
