"""Token counts: a cheap estimate, and a window of entries whose lengths are cached."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from typing import TypeAlias

from harness.contracts.model import AssistantTurn, Attachment, ToolTurn, Turn, UserTurn
from harness.conversation.turns import TranscriptEntry
from harness.models.turn_cache import encode, text_of

TokenCounter: TypeAlias = Callable[[str], int]
"""Counts the tokens of a text; may be replaced by a custom function."""

_BYTES_PER_TOKEN = 4
_TURN_TOKENS = 4
_IMAGE_TOKENS = 1_600
_BASE64_BYTES_PER_TOKEN = 6


def estimated_tokens(text: str) -> int:
    """An estimate: a token is about four bytes of UTF-8."""
    size = len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
    return -(-size // _BYTES_PER_TOKEN)


def turn_tokens(turn: Turn, count: TokenCounter = estimated_tokens) -> int:
    """The tokens of a whole turn: text, calls with their arguments, attachments."""
    tokens = _TURN_TOKENS + count(turn.text)
    if isinstance(turn, AssistantTurn):
        for call in turn.calls:
            tokens += count(call.name) + count(encode(call.input).decode())
    elif isinstance(turn, UserTurn | ToolTurn):
        tokens += sum(attachment_tokens(attachment, count) for attachment in turn.attachments)
    return tokens


def attachment_tokens(attachment: Attachment, count: TokenCounter = estimated_tokens) -> int:
    if attachment.media_type.startswith("image/"):
        return _IMAGE_TOKENS
    text = text_of(attachment)
    return count(text) if text is not None else len(attachment.data) // _BASE64_BYTES_PER_TOKEN


class TokenWindow:
    """Contract: `take` processes only new entries. All other methods refer to the entries taken last."""

    def __init__(self, count: TokenCounter = estimated_tokens) -> None:
        self._count = count
        self._entries: Sequence[TranscriptEntry] = ()
        self._last: TranscriptEntry | None = None
        self._places: list[int] = []
        self._sums = [0]

    def take(self, entries: Sequence[TranscriptEntry]) -> None:
        known_length = self.length
        if known_length > len(entries) or (known_length and entries[known_length - 1] is not self._last):
            self._places, self._sums = [], [0]
            known_length = 0
        for entry in entries[known_length:]:
            self._sums.append(self._sums[-1] + turn_tokens(entry.turn, self._count))
            self._places.append(max(entry.seq, self._places[-1] if self._places else -1))
        self._entries = entries
        self._last = entries[self.length - 1] if self.length else None

    @property
    def length(self) -> int:
        return len(self._places)

    def after(self, seq: int) -> list[TranscriptEntry]:
        return list(self._entries[bisect_right(self._places, seq) : self.length])

    def from_seq(self, seq: int) -> list[TranscriptEntry]:
        """The entries from `seq` on; a result without its call is left out."""
        start = bisect_left(self._places, seq)
        while start < self.length and not starts_group(self._entries[start]):
            start += 1
        return list(self._entries[start : self.length])

    def tokens_after(self, seq: int) -> int:
        return self._sums[-1] - self._sums[bisect_right(self._places, seq)]

    def tail_seq(self, tokens: float) -> int:
        """The start of a tail with at most that many tokens, but at least the last exchange; -1 if none."""
        start = self.length
        while start > 0:
            before = start - 1
            while before > 0 and not starts_group(self._entries[before]):
                before -= 1
            if start < self.length and self._sums[-1] - self._sums[before] > tokens:
                break
            start = before
        return self._places[start] if start < self.length else -1


def last_seq(entries: Sequence[TranscriptEntry]) -> int:
    """The highest `seq` of the entries."""
    return max(entry.seq for entry in entries)


def starts_group(entry: TranscriptEntry) -> bool:
    """Whether a conversation may be split before this entry: never between a call and its result."""
    return not isinstance(entry.turn, ToolTurn)
