"""Shortens a conversation to what a model's context takes: the newest stays whole, failures and words always.

1. Outputs and long arguments of older calls become their first and last lines, the oldest first.
2. If that is not enough, the oldest messages after the first prompt are left out.
Every shortened text says how much of it is missing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec.structs import replace

from harness.contracts.conversation import (
    HandedAnswer,
    HandedCall,
    HandedConversation,
    HandedPrompt,
    HandedTurn,
    with_texts,
)

MOST_CHARACTERS = 400_000
"""About 100,000 tokens: half of what the usual context takes."""
LONGEST_OUTPUT = 60_000
"""Of any one output, however new it is."""
_SHORT = 600
_ALWAYS_WHOLE = 5
"""The last calls."""


def within_budget(conversation: HandedConversation, most: int = MOST_CHARACTERS) -> HandedConversation:
    turns = list(conversation.turns)
    shortened = _cut_longest(turns)
    if size_of(turns) > most:
        shortened |= _cut_old_calls(turns, most)
    left_out = _leave_out(turns, most)
    losses = replace(conversation.losses, shortened=len(shortened), left_out=left_out)
    return replace(conversation, turns=tuple(turns), losses=losses)


def size_of(turns: Iterable[HandedTurn]) -> int:
    return sum(_size(turn) for turn in turns)


def cut(text: str, most: int) -> str:
    """The first and the last lines of a long text, and how much is missing between them."""
    if len(text) <= most:
        return text
    head, tail = text[: most * 2 // 3], text[-(most // 3) :]
    if "\n" in head[most // 3 :]:
        head = head[: head.rindex("\n")]
    if "\n" in tail[: most // 6]:
        tail = tail[tail.index("\n") + 1 :]
    missing = len(text) - len(head) - len(tail)
    return f"{head}\n[… {missing:,} characters left out …]\n{tail}"


def _size(turn: HandedTurn) -> int:
    if isinstance(turn, HandedPrompt):
        return len(turn.text)
    return len(turn.text) + sum(len(call.output) + _input_size(call.input) for call in turn.calls)


def _input_size(value: Any) -> int:
    return len(msgspec.json.encode(value, enc_hook=str))


def _cut_old_calls(turns: list[HandedTurn], most: int) -> set[tuple[int, int]]:
    """From the oldest on, as many as needed; failures and the last ones stay as they are."""
    places = [
        (number, position)
        for number, turn in enumerate(turns)
        if isinstance(turn, HandedAnswer)
        for position in range(len(turn.calls))
    ]
    too_much = size_of(turns) - most
    shortened: set[tuple[int, int]] = set()
    for number, position in places[: max(0, len(places) - _ALWAYS_WHOLE)]:
        if too_much <= 0:
            break
        turn = turns[number]
        assert isinstance(turn, HandedAnswer), "only answers have calls"
        if turn.calls[position].has_failed:
            continue
        before = _size(turn)
        calls = list(turn.calls)
        calls[position] = _cut_call(calls[position], _SHORT)
        turns[number] = replace(turn, calls=tuple(calls))
        saved = before - _size(turns[number])
        if saved > 0:
            too_much -= saved
            shortened.add((number, position))
    return shortened


def _cut_longest(turns: list[HandedTurn]) -> set[tuple[int, int]]:
    shortened: set[tuple[int, int]] = set()
    for number, turn in enumerate(turns):
        if not isinstance(turn, HandedAnswer) or not turn.calls:
            continue
        calls = [_cut_call(call, LONGEST_OUTPUT) for call in turn.calls]
        changed = [position for position, call in enumerate(calls) if call != turn.calls[position]]
        if changed:
            turns[number] = replace(turn, calls=tuple(calls))
            shortened |= {(number, position) for position in changed}
    return shortened


def _cut_call(call: HandedCall, most: int) -> HandedCall:
    arguments = with_texts(call.input, lambda text: cut(text, most))
    return replace(call, output=cut(call.output, most), input=arguments)


def _leave_out(turns: list[HandedTurn], most: int) -> int:
    """The oldest messages after the first prompt, until the rest fits; the last one stays."""
    first = 1 if turns and isinstance(turns[0], HandedPrompt) else 0
    size, left_out = size_of(turns), 0
    while size > most and first + left_out < len(turns) - 1:
        size -= _size(turns[first + left_out])
        left_out += 1
    del turns[first : first + left_out]
    return left_out
