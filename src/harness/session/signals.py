"""Signals: what the model should know and no user typed, and user messages with attributes.

A signal has a category and a tag. The model sees `<tag name="value">escaped text</tag>`, and user messages
without attributes as they are. `harness.conversation.turns` renders them, for live and for logged runs.
Nothing here does I/O: ids come from the caller, times from the log.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias
from urllib.parse import unquote_to_bytes

import msgspec
from msgspec.structs import replace

from harness.contracts.model import Attachment
from harness.errors import UsageError
from harness.events import Signal
from harness.formatting.fences import fenced

_Category: TypeAlias = Literal["user", "state", "reactive", "notification"]
Contents: TypeAlias = str | list[dict[str, Any]]
"""Text, or parts: `{type: text, text}` and `{type: file, data, mediaType, filename?}`."""

_NORMAL: dict[str, tuple[_Category, str]] = {
    "user": ("user", "user"),
    "state": ("state", "state"),
    "reactive": ("reactive", "system-reminder"),
    "notification": ("notification", "notification"),
    "user-message": ("user", "user"),
    "system-reminder": ("reactive", "system-reminder"),
}
"""By type, including older names: its category, and its default tag."""
_MODES = ("snapshot", "delta")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_DATA_URI = re.compile(r"data:[^,]*;base64,")


def create(
    type: str,
    contents: Contents,
    *,
    id: str,
    tag_name: str = "",
    attributes: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
    state: Mapping[str, Any] | None = None,
) -> Signal:
    """Raises UsageError for an invalid type, tag or attribute name."""
    if type not in _NORMAL:
        raise UsageError(
            f"Invalid signal type: {type}", hint=f"use one of {', '.join(_NORMAL)}, and a tag of your own"
        )
    category, usual_tag = _NORMAL[type]
    tag_name = tag_name or usual_tag
    _check_name(tag_name, "tag name")
    for name in attributes or ():
        _check_name(name, "attribute name")
    return Signal(
        id=id,
        category=category,
        tag_name=tag_name,
        contents=contents,
        attributes=dict(attributes) if attributes else None,
        metadata=dict(metadata) if metadata else None,
        state=dict(state) if state else None,
    )


def from_input(value: str | Mapping[str, Any] | Signal, *, id: str) -> Signal:
    """A signal from whatever a caller passes: text, a mapping of the fields, or a signal."""
    if isinstance(value, Signal):
        return value
    if isinstance(value, str):
        return create("user", value, id=id)
    contents = value.get("contents", value.get("content", ""))
    state = _lane(value)
    data = {name: value[name] for name in ("value", "delta") if value.get(name) is not None} if state else {}
    return create(
        str(value.get("type", "user")),
        contents if isinstance(contents, str) else [dict(part) for part in contents],
        id=id if state else str(value.get("id") or id),
        tag_name=str(value.get("tagName") or value.get("tag_name") or ""),
        attributes=value.get("attributes"),
        metadata={**(value.get("metadata") or {}), **data},
        state=state,
    )


def split(contents: Any) -> tuple[list[str], tuple[Attachment, ...]]:
    """The texts and the files of contents; unknown parts are ignored."""
    if isinstance(contents, str):
        return [contents], ()
    texts: list[str] = []
    files: list[Attachment] = []
    for part in contents if isinstance(contents, Sequence) else ():
        if isinstance(part, str):
            texts.append(part)
        elif not isinstance(part, Mapping):
            continue
        elif part.get("type") == "text":
            texts.append(str(part.get("text", "")))
        elif part.get("type") in ("file", "image") and isinstance(data := _data(part), str):
            media_type = (
                part.get("mediaType") or part.get("media_type") or part.get("mimeType") or "image/png"
            )
            name = str(part.get("filename") or part.get("name") or "")
            files.append(
                Attachment(media_type=str(media_type), data=_DATA_URI.sub("", data, count=1), name=name)
            )
    return texts, tuple(files)


class Branch(msgspec.Struct, frozen=True, kw_only=True):
    """What to do while a run is active, or while idle. Attributes are added to those of the signal."""

    behavior: Literal["", "deliver", "wake", "persist", "discard"] = ""
    attributes: dict[str, Any] | None = None


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    action: Literal["deliver", "wake", "persist", "discard"]
    """`deliver`: to the current run. `wake`: start one. `persist`: to the log, for the next one."""
    signal: Signal


def decide(
    signal: Signal, *, is_active: bool, if_active: Branch | None = None, if_idle: Branch | None = None
) -> Delivery:
    """How a signal reaches the model. Raises UsageError for a behavior that does not apply."""
    branch = (if_active if is_active else if_idle) or Branch()
    usual: Literal["deliver", "wake"] = "deliver" if is_active else "wake"
    action = branch.behavior or usual
    if action not in (usual, "persist", "discard"):
        when = "while a run is active" if is_active else "while no run is active"
        raise UsageError(f"a signal cannot {action} {when}", hint=f"{usual}, persist or discard")
    if branch.attributes:
        signal = replace(signal, attributes={**(signal.attributes or {}), **branch.attributes})
    return Delivery(action=action, signal=signal)


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """What was done with a signal."""

    action: Literal["deliver", "wake", "persist", "discard"]
    run_id: str = ""
    """The run that receives it; empty when that is a later one, or none."""
    reason: Literal["", "unchanged"] = ""
    """Why it was discarded without a request to. `unchanged`: the model already has that state."""


def _lane(value: Mapping[str, Any]) -> dict[str, Any] | None:
    """The lane of a state signal with a cache key, and its mode. The given `id` is that of the lane."""
    key = value.get("cacheKey", value.get("cache_key"))
    if value.get("type") != "state" or key is None:
        return None
    lane_id, mode = value.get("id"), value.get("mode", "snapshot")
    if not isinstance(lane_id, str) or not lane_id:
        raise UsageError("a state signal with a cacheKey needs the id of its lane", hint='such as "browser"')
    if mode not in _MODES:
        raise UsageError(f"Invalid mode of a state signal: {mode}", hint=" or ".join(_MODES))
    return {"id": lane_id, "cacheKey": str(key), "mode": mode}


def _check_name(name: str, what: str) -> None:
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"Invalid signal XML {what}: {name}",
            hint="letters, digits, `_`, `.` and `-`, a letter or `_` first",
        )


def _data(part: Mapping[str, Any]) -> Any:
    return part.get("data", part.get("image"))


_DATA_URI_HEAD = re.compile(r"data:(?P<media>[^,;]*)(?P<parameters>(?:;[^,;]*)*),", re.IGNORECASE)


class File(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A file that is sent with a message."""

    data: str
    """A data URI or its base64 content; for a text file also the plain text. In a mapping also bytes."""
    media_type: str
    filename: str = ""


def contents(text: str, files: Iterable[File | Mapping[str, Any]] = ()) -> Contents:
    """The contents of a message: the text alone, or the parts in order. A text part is never empty."""
    contents_given = [_given(file) for file in files]
    if not contents_given:
        return text
    texts = [{"type": "text", "text": text}] if text else []
    return [*texts, *map(_part, contents_given)]


def is_text(media_type: str) -> bool:
    kind = media_type.partition(";")[0].strip().lower()
    return kind.startswith("text/") or kind == "application/json"


def _given(file: File | Mapping[str, Any]) -> File:
    """Raises UsageError for input that is not a file."""
    if not isinstance(file, File | Mapping):
        raise UsageError(f"not a file: {file!r:.80}", hint='give File(data="…", media_type="text/plain")')
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
    """The text of a data URI; anything else is returned as it is."""
    head = _DATA_URI_HEAD.match(data)
    if head is None:
        return data
    body = data[head.end() :]
    if ";base64" not in head["parameters"].lower():
        return unquote_to_bytes(body).decode("utf-8", "replace")
    try:
        return b64decode(body).decode("utf-8", "replace")
    except (Base64Error, ValueError):
        return data
