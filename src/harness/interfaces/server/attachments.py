"""What comes with a prompt: images and documents, as the wire has them."""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Sequence

from harness.errors import UsageError
from harness.interfaces.commands import Attached
from harness.session.signals import File, contents, is_text, split
from harness.sources.model import Attachment


def spoken(
    prompt: str, attachments: Sequence[Attached], *, takes_files: bool
) -> tuple[str, tuple[Attachment, ...]]:
    """The text and the files that are said. Who takes no files is told those that are text. Raises UsageError."""
    for one in attachments:
        _check(one)
    if takes_files:
        return prompt, tuple(Attachment(one.media_type, one.data, one.name) for one in attachments)
    texts, files = split(contents(prompt, map(_file, attachments)))
    return "\n\n".join(texts), tuple(files)


def _check(one: Attached) -> None:
    try:
        data = b64decode(one.data, validate=True)
    except (Base64Error, ValueError):
        data = b""
    if not data or "/" not in one.media_type:
        name = one.name or one.media_type or "an attachment"
        raise UsageError(
            f"{name[:100]!r} cannot be attached",
            hint="it needs a mediaType, and data that is base64 and not empty",
        )


def _file(one: Attached) -> File:
    data = f"data:{one.media_type};base64,{one.data}" if is_text(one.media_type) else one.data
    return File(data=data, media_type=one.media_type, filename=one.name)
