"""A compacted conversation: which turns remain, and how long it is.

Rules
1. What remains follows from the turns before and from the `Compacted` event alone, so that the reader of a
   log has the same conversation as its writer.
2. A call and its results are never separated.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from harness.contracts.model import Attachment, ToolSpec, ToolTurn, Turn, UserTurn
from harness.conversation.turns import TranscriptEntry
from harness.events import Compacted, Usage

_SUMMED_UP = """\
The conversation became too long, and its beginning was summed up. What stands in <summary> is all that is left of \
what came before the following messages. Go on from there, and do not begin again.
<summary>
{}
</summary>"""
_SAID = "\n<messages-of-the-user>\n{}\n</messages-of-the-user>"
_SAID_BEFORE = re.compile(r"\n<messages-of-the-user>\n(.*)\n</messages-of-the-user>\Z", re.DOTALL)
_SAID_TOKENS = 10_000
"""Of what the user said before: at most so much, or a tenth of the conversation, is quoted beside a summary."""
_BYTES_PER_TOKEN = 4
_TOKENS_OF_AN_IMAGE = 1_600
_LONGEST_OUTPUTS = (50_000, 20_000, 8_000, 3_000, 1_000, 300)
"""Lengths that outputs are shortened to: the first that is enough."""


class Measured(NamedTuple):
    """How long the provider said that a conversation is, when it was last asked."""

    tokens: int = 0
    turns: int = 0
    """How many there were."""
    answer: int | None = None
    """Tokens of the answer, which is the turn after them; None where nothing was said of it."""


def measured(usage: Usage, turns: int) -> Measured | None:
    """`turns`: how many were sent. None where the provider does not say how much it has read."""
    reported = (usage.input or 0) + (usage.cache_read or 0) + (usage.cache_write or 0)
    if not reported:
        return None
    answer = None if usage.output is None else usage.output + (usage.reasoning or 0)
    return Measured(reported, turns, answer)


def summary_turn(summary: str, quotes: str = "") -> UserTurn:
    """`said`: messages of the user that the summary replaces, in the user's own words."""
    return UserTurn(_SUMMED_UP.format(summary) + (_SAID.format(quotes) if quotes else ""))


def is_summary(turn: Turn) -> bool:
    return isinstance(turn, UserTurn) and turn.text.startswith(_SUMMED_UP.partition("{}")[0])


def compacted(entries: Sequence[TranscriptEntry], event: Compacted) -> list[TranscriptEntry]:
    """The entries that remain after the compaction."""
    if event.kept is None:
        return list(entries)
    at = max(0, len(entries) - event.kept)
    before, recent = entries[:at], entries[at:]
    if not event.summary:
        return [*_shortened_entries(before, event.longest_output), *recent]
    name = f"{event.run_id}/{event.seq}"
    most = min(_SAID_TOKENS, (event.before_tokens or 0) // 10)
    turn = summary_turn(event.summary, _said((entry.turn for entry in before), most))
    summary = TranscriptEntry(turn, name, event.timestamp_ms, event.seq)
    return [summary, *_shortened_entries(recent, event.longest_output)]


def _said(turns: Iterable[Turn], most_tokens: int) -> str:
    """What the user said in these turns: the latest messages, as far as they fit, oldest first.

    A summary may lose a condition, and would lose it for good: what was asked for is quoted instead.
    """
    texts: list[str] = []
    for turn in turns:
        if not isinstance(turn, UserTurn):
            continue
        if not is_summary(turn):
            texts += [turn.text] if turn.text and not turn.text.startswith("<") else []  # a signal is marked
        elif earlier := _SAID_BEFORE.search(turn.text):
            texts.append(earlier[1])
    room, quoted = most_tokens * _BYTES_PER_TOKEN, []
    for text in reversed(texts):
        room -= len(text)
        if room < 0:
            break
        quoted.append(text)
    return "\n\n".join(reversed(quoted))


def _shortened_entries(entries: Iterable[TranscriptEntry], longest: int | None) -> Iterable[TranscriptEntry]:
    for entry in entries:
        turn = entry.turn if longest is None else shortened(entry.turn, longest)
        yield entry if turn is entry.turn else replace(entry, turn=turn)


def shortened(turn: Turn, longest: int) -> Turn:
    """The same, unless it is an output that is too long."""
    if not isinstance(turn, ToolTurn) or (len(turn.text) <= longest and not turn.attachments):
        return turn
    text = without_middle(turn.text, longest)
    if turn.attachments:
        text = f"{text}\n[{len(turn.attachments)} files were left out]"
    return ToolTurn(turn.call_id, text, is_error=turn.is_error)


def without_middle(text: str, longest: int) -> str:
    if len(text) <= longest:
        return text
    head = longest // 2
    tail = longest - head
    return f"{text[:head]}\n[{len(text) - longest} characters were left out here]\n{text[len(text) - tail :]}"


def tail_start(turns: Sequence[Turn], most_tokens: int) -> int:
    """Where the last turns begin that fit the limit; at least one turn, with the results of its calls."""
    start, size = len(turns), 0
    for at in range(len(turns) - 1, -1, -1):
        size += tokens_of(turns[at])
        if size > most_tokens and start < len(turns):
            break
        if not isinstance(turns[at], ToolTurn):
            start = at
    return start


def enough(turns: Sequence[Turn], most_tokens: int) -> int:
    """To what length outputs must be shortened so that everything fits the limit, as far as that helps."""
    for longest in _LONGEST_OUTPUTS:
        if tokens_in(shortened(turn, longest) for turn in turns) <= most_tokens:
            return longest
    return _LONGEST_OUTPUTS[-1]


def tokens_in(turns: Iterable[Turn]) -> int:
    return sum(map(tokens_of, turns))


def tokens_of(turn: Turn) -> int:
    """An estimate: only the provider knows the exact number."""
    size = _bytes(turn.text)
    for call in getattr(turn, "calls", ()):
        size += len(call.name) + len(encoded(call.input))
    attachments: tuple[Attachment, ...] = getattr(turn, "attachments", ())
    files = sum(
        _TOKENS_OF_AN_IMAGE
        if attachment.media_type.startswith("image/")
        else len(attachment.data) // (2 * _BYTES_PER_TOKEN)
        for attachment in attachments
    )
    return size // _BYTES_PER_TOKEN + files + 4


def tokens_of_tools(tools: Sequence[ToolSpec]) -> int:
    return len(encoded(tools)) // _BYTES_PER_TOKEN


def encoded(value: object) -> bytes:
    """As JSON. A model or a server may have written half a character, which only escapes can show."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(value)).encode("ascii")


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
