"""How long something is for a model: an estimate that costs nothing, in place of each provider's own count."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from harness.sources.model import AssistantTurn, Attachment, ToolTurn, Turn, UserTurn
from harness.sources.models.turn_cache import encode, text_of

TokenCounter: TypeAlias = Callable[[str], int]
"""Tokens of a text; anybody's own may be used."""

_BYTES_PER_TOKEN = 4
_TURN_TOKENS = 4
_IMAGE_TOKENS = 1_600
_BASE64_BYTES_PER_TOKEN = 6


def estimated_tokens(text: str) -> int:
    """A token is about four bytes of UTF-8."""
    size = len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
    return -(-size // _BYTES_PER_TOKEN)


def turn_tokens(turn: Turn, count: TokenCounter = estimated_tokens) -> int:
    """All of what a turn says: text, calls with their arguments, attachments."""
    tokens = _TURN_TOKENS + count(turn.text)
    if isinstance(turn, AssistantTurn):
        for call in turn.calls:
            tokens += count(call.name) + count(encode(call.input).decode())
    elif isinstance(turn, UserTurn | ToolTurn):
        tokens += sum(attachment_tokens(one, count) for one in turn.attachments)
    return tokens


def attachment_tokens(attachment: Attachment, count: TokenCounter = estimated_tokens) -> int:
    if attachment.media_type.startswith("image/"):
        return _IMAGE_TOKENS
    text = text_of(attachment)
    return count(text) if text is not None else len(attachment.data) // _BASE64_BYTES_PER_TOKEN
