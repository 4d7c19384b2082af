"""A compacted conversation: which turns remain, and how long it is.

Rules
1. What remains follows from the turns before and from the `Compacted` event alone, so that the reader of a
   log has the same conversation as its writer.
2. A call and its results are never separated.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

import msgspec
from msgspec.structs import replace

from harness.contracts.model import Attachment, ToolSpec, ToolTurn, Turn, UserTurn
from harness.conversation.turns import TranscriptEntry
from harness.events import Compacted

_SUMMED_UP = """\
The conversation became too long, and its beginning was summed up. What stands in <summary> is all that is left of \
what came before the following messages. Go on from there, and do not begin again.
<summary>
{}
</summary>"""
_BYTES_PER_TOKEN = 4
_TOKENS_OF_AN_IMAGE = 1_600
_LONGEST_OUTPUTS = (50_000, 20_000, 8_000, 3_000, 1_000, 300)
"""Lengths that outputs are shortened to: the first that is enough."""


def summary_turn(summary: str) -> UserTurn:
    return UserTurn(_SUMMED_UP.format(summary))


def is_summary(turn: Turn) -> bool:
    return isinstance(turn, UserTurn) and turn.text.startswith(_SUMMED_UP.partition("{}")[0])


def compacted(entries: Sequence[TranscriptEntry], event: Compacted) -> list[TranscriptEntry]:
    """The entries that remain after the compaction."""
    if event.kept is None:
        return list(entries)
    at = max(0, len(entries) - event.kept)
    before, kept = entries[:at], entries[at:]
    if not event.summary:
        return [*_shortened_entries(before, event.longest_output), *kept]
    name = f"{event.run_id}/{event.seq}"
    summary = TranscriptEntry(summary_turn(event.summary), name, event.timestamp_ms, event.seq)
    return [summary, *_shortened_entries(kept, event.longest_output)]


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
        if one.media_type.startswith("image/")
        else len(one.data) // (2 * _BYTES_PER_TOKEN)
        for one in attachments
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
