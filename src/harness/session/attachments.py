"""Files that come with a message: what is text is written into it, everything else stays a file."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import unquote_to_bytes

import msgspec

from harness.errors import UsageError
from harness.rendering.fences import fenced
from harness.session.signals import Contents

_DATA_URI = re.compile(r"data:(?P<media>[^,;]*)(?P<parameters>(?:;[^,;]*)*),", re.IGNORECASE)


class File(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    data: str
    """A data URI, or what it would hold; of a text file also the text itself. In a mapping also bytes."""
    media_type: str
    filename: str = ""


def contents(text: str, files: Iterable[File | Mapping[str, Any]] = ()) -> Contents:
    """What is said: the text alone, or the parts in order. A part is never empty."""
    given = [_given(file) for file in files]
    if not given:
        return text
    said = [{"type": "text", "text": text}] if text else []
    return [*said, *map(_part, given)]


def is_text(media_type: str) -> bool:
    kind = media_type.partition(";")[0].strip().lower()
    return kind.startswith("text/") or kind == "application/json"


def _given(file: File | Mapping[str, Any]) -> File:
    """Raises UsageError for what is no file."""
    fields = msgspec.to_builtins(file, builtin_types=(bytes,)) if isinstance(file, File) else dict(file)
    data = fields.get("data")
    if isinstance(data, bytes | bytearray | memoryview):
        fields["data"] = _written(bytes(data), str(fields.get("mediaType", "")))
    try:
        return msgspec.convert(fields, File)
    except msgspec.ValidationError as error:
        raise UsageError(
            f"not a file: {error}", hint="data (a text or bytes) and mediaType are needed, filename is not"
        ) from error


def _written(data: bytes, media_type: str) -> str:
    return data.decode("utf-8", "replace") if is_text(media_type) else b64encode(data).decode("ascii")


def _part(file: File) -> dict[str, Any]:
    if is_text(file.media_type):
        title = f"[File: {file.filename}]" if file.filename else "[Attached file]"
        return {"type": "text", "text": f"{title}\n{fenced(_decoded(file.data))}"}
    name = {"filename": file.filename} if file.filename else {}
    return {"type": "file", "data": file.data, "mediaType": file.media_type, **name}


def _decoded(data: str) -> str:
    """The text of a data URI; anything else is the text already."""
    head = _DATA_URI.match(data)
    if head is None:
        return data
    body = data[head.end() :]
    if ";base64" not in head["parameters"].lower():
        return unquote_to_bytes(body).decode("utf-8", "replace")
    try:
        return b64decode(body).decode("utf-8", "replace")
    except (Base64Error, ValueError):
        return data
