"""A message of the user, as it is sent, queued and read from the queue again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from harness.contracts.model import Attachment
from harness.events import Signal
from harness.session.argument_types import wrong
from harness.session.signals import File, contents, split
from harness.system.plain_text import plain_text


class UserMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message of the user to the agent."""

    text: str
    attachments: tuple[Attachment, ...] = ()
    id: str = ""

    @classmethod
    def of(cls, content: str, files: Iterable[File | Mapping[str, Any]] = ()) -> UserMessage:
        """Raises UsageError if the content is not text, or a file is not valid."""
        if not isinstance(content, str):
            raise wrong("content", content, "a text")
        if not files:
            return cls(text=plain_text(content))
        texts, attachments = split(contents(content, files))
        return cls(text=plain_text("\n\n".join(texts)), attachments=attachments)


def read_queued(queued: Any) -> UserMessage | Signal:
    """Decode an entry of the queue."""
    if "signal" in queued:
        return msgspec.convert(queued["signal"], Signal)
    return msgspec.convert(queued, UserMessage)
