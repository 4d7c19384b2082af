"""The messages of other protocols as prompts: who says what, which files are there, and what came before the last message."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec

from harness.clients.commands import Attached, Submit
from harness.contracts.request import OWN_AGENT
from harness.errors import UsageError
from harness.formatting.json_text import encode

Content = str | list[dict[str, Any]] | None
_ABOVE = frozenset(("system", "developer"))
_TEXTS = (None, "text", "input_text", "output_text")
_SPOKEN = frozenset(("user", "assistant"))


class PromptMessage(msgspec.Struct, kw_only=True):
    """Of a chat, or an item of a response: a message if it has a role."""

    type: str = "message"
    role: str = ""
    content: Content = None
    approval_request_id: str = ""
    approve: bool = False
    reason: str | None = None


class LastPrompt(NamedTuple):
    text: str
    files: tuple[Attached, ...]
    instructions: str
    earlier: tuple[PromptMessage, ...]
    """What was said before it."""

    @property
    def command(self) -> Submit:
        return Submit(prompt=self.text, attachments=self.files)

    def first(self, agent: str) -> Submit:
        """For a conversation that knows nothing of what came before. The built-in agent has its own place for instructions."""
        instructions = self.instructions if agent != OWN_AGENT else ""
        parts = [
            f"<instructions>\n{instructions}\n</instructions>" if instructions else "",
            f"<conversation>\n{_transcript(self.earlier)}\n</conversation>" if self.earlier else "",
            self.text,
        ]
        return Submit(prompt="\n\n".join(part for part in parts if part), attachments=self.files)


def last_prompt(messages: Sequence[PromptMessage]) -> LastPrompt:
    """The messages of the user after the last message of anybody else. Raises UsageError."""
    talk = [message for message in messages if message.role in _SPOKEN]
    start = len(talk)
    while start and talk[start - 1].role == "user":
        start -= 1
    new = talk[start:]
    if not new:
        raise UsageError("the last message is not the user's", hint="it is the message to answer")
    above = [text_of(message.content) for message in messages if message.role in _ABOVE]
    return LastPrompt(
        "\n\n".join(text for message in new if (text := text_of(message.content))),
        tuple(file for message in new for file in files_of(message.content)),
        "\n\n".join(text for text in above if text),
        tuple(talk[:start]),
    )


def history_key(messages: Iterable[PromptMessage]) -> str:
    """The same for the same words in the same order; empty if nobody has said anything."""
    words = [
        (message.role, text_of(message.content).strip()) for message in messages if message.role in _SPOKEN
    ]
    return sha256(encode(words)).hexdigest() if words else ""


def text_of(content: Content) -> str:
    if isinstance(content, str) or content is None:
        return content or ""
    texts = (part.get("text") for part in content if isinstance(part, dict))
    return "\n".join(text for text in texts if isinstance(text, str))


def files_of(content: Content) -> list[Attached]:
    """Images, sounds and documents, in the words of OpenAI and AG-UI. Raises UsageError for what is only an address."""
    parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    return [_file(part) for part in parts if part.get("type") not in _TEXTS]


def _file(part: Mapping[str, Any]) -> Attached:
    kind = str(part.get("type"))
    inner = next(
        (part[key] for key in ("file", "input_audio", "source") if isinstance(part.get(key), dict)), part
    )
    name = str(inner.get("filename") or part.get("filename") or "")
    address = _address(part, inner)
    if address.startswith("data:") and ";base64," in address:
        media_type, _, data = address.removeprefix("data:").partition(";base64,")
        return Attached(media_type=media_type, data=data, name=name)
    value = None if inner.get("type") == "url" else inner.get("data") or inner.get("value")
    media = inner.get("mimeType") or inner.get("mime_type")
    if media is None and isinstance(inner.get("format"), str):
        media = f"audio/{inner['format']}"
    if isinstance(value, str) and value and isinstance(media, str):
        return Attached(media_type=media, data=value, name=name)
    raise UsageError(
        f"this part of a message cannot be read: {kind[:60]!r}",
        hint="give a file as a data: URL; addresses are not fetched",
    )


def _address(part: Mapping[str, Any], inner: Mapping[str, Any]) -> str:
    value: Any = part.get("image_url") or inner.get("file_data") or part.get("url")
    if isinstance(value, dict):
        value = value.get("url")
    return value if isinstance(value, str) else ""


def _transcript(messages: Iterable[PromptMessage]) -> str:
    return "\n\n".join(f"{message.role}: {text_of(message.content)}" for message in messages)
