"""Turns in a provider's format: each is encoded once, so a call in a long conversation costs only a join.

Below that, helpers for calls and attachments that all APIs need: valid names and ids, text, media types,
image sizes.
"""

from __future__ import annotations

import re
from binascii import Error as Base64Error
from binascii import a2b_base64
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from harness.contracts.model import AssistantTurn, Attachment, Call, SystemTurn, ToolSpec, Turn

_encode = msgspec.json.Encoder().encode
_Item = TypeVar("_Item", Turn, ToolSpec)
_Encoded = TypeVar("_Encoded")


def encode(value: Any) -> bytes:
    """JSON of any value; invalid Unicode (half a surrogate pair, from a tool's output) becomes `?`."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return _encode(_clean(msgspec.to_builtins(value)))


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_clean(name): _clean(inner) for name, inner in value.items()}
    return [_clean(inner) for inner in value] if isinstance(value, list) else value


class EncodedOnce(Generic[_Item, _Encoded]):
    """Caches the encoding of each object for as long as it is used.

    Contract: may be used from several threads; two may then encode the same thing, which does no harm.
    Objects are compared by identity, and held, because an id could be reused.
    """

    def __init__(self, encode_one: Callable[[_Item], _Encoded]) -> None:
        self._encode_one: Callable[[_Item], _Encoded] = encode_one
        self._young: dict[int, tuple[_Item, _Encoded]] = {}
        self._old: dict[int, tuple[_Item, _Encoded]] = {}

    def all(self, items: Sequence[_Item]) -> list[_Encoded]:
        young = self._young
        if len(young) > 2 * len(items) + _SPARE:
            # Most entries belong to finished conversations: those that are not used from now on are dropped.
            self._old, self._young = young, {}
            young = self._young
        count = len(items)
        while count and id(items[count - 1]) not in young:
            count -= 1  # new entries are at the end
        try:
            encoded = [young[id(item)][1] for item in items[:count]]
        except KeyError:
            return [self._one(item) for item in items]
        return encoded + [self._one(item) for item in items[count:]]

    def _one(self, item: _Item) -> _Encoded:
        key = id(item)
        entry = self._young.get(key) or self._old.get(key)
        if entry is None:
            entry = (item, self._encode_one(item))
        self._young[key] = entry
        return entry[1]


_SPARE = 256


def ids_in(turns: Sequence[Turn]) -> set[str]:
    """The ids of all calls of a conversation."""
    return {call.id for turn in turns if isinstance(turn, AssistantTurn) for call in turn.calls}


def fitting_id(id: str, allowed: str, length: int = 32) -> str:
    """A call id that the API accepts: the original may come from another provider or another agent."""
    if re.fullmatch(allowed, id):
        return id
    from hashlib import sha256

    return sha256(id.encode("utf-8", "surrogatepass")).hexdigest()[:length]


def fitting_name(call: Call) -> str:
    """A tool name that every API accepts: models invent names, and APIs refuse invalid ones."""
    return _UNUSABLE.sub("_", call.name)[:_LONGEST_NAME] or "unknown"


def arguments_of(call: Call) -> dict[str, Any]:
    """The arguments as an object, as every API requires; other agents may send a text, a list, or nothing."""
    if isinstance(call.input, dict):
        return call.input
    return {} if call.input is None else {"input": call.input}


_UNUSABLE = re.compile(r"[^a-zA-Z0-9_-]")
_LONGEST_NAME = 64


def split_system(turns: Sequence[Turn]) -> tuple[str, Sequence[Turn]]:
    """Split off the leading system turns: their text, and the conversation."""
    count = 0
    for turn in turns:
        if not isinstance(turn, SystemTurn):
            break
        count += 1
    head = [turn.text for turn in turns[:count] if isinstance(turn, SystemTurn)]
    return "\n\n".join(head), turns[count:]


def later_instruction(turn: SystemTurn) -> str:
    """An instruction in the middle of a conversation, for APIs that accept one only at the beginning."""
    return f"<system>\n{turn.text}\n</system>"


def text_of(attachment: Attachment) -> str | None:
    """The content of a text file; None for everything else."""
    kind = attachment.media_type.partition(";")[0].strip().lower()
    if not (kind.startswith("text/") or kind in _TEXTUAL or kind.endswith(("+json", "+xml"))):
        return None
    try:
        return a2b_base64(attachment.data).decode("utf-8", "replace")
    except (Base64Error, ValueError):
        return None


_TEXTUAL = frozenset(
    ("application/json", "application/xml", "application/yaml", "application/toml", "application/javascript")
)


def true_media_type(attachment: Attachment) -> str:
    """The media type. For known kinds of images and documents, the first bytes decide; empty if none fits."""
    claimed = attachment.media_type
    if claimed not in _BEGINNINGS:
        return claimed
    try:
        head = a2b_base64(attachment.data[:_HEAD_CHARACTERS])
    except (Base64Error, ValueError):
        return ""
    return known_media_type(head)


def known_media_type(head: bytes) -> str:
    """Of a known kind of images or documents, by its first bytes; empty for everything else."""
    return next((kind for kind, begins in _BEGINNINGS.items() if re.match(begins, head, re.DOTALL)), "")


_HEAD_CHARACTERS = 1368
_BEGINNINGS = {
    "image/png": rb"\x89PNG",
    "image/jpeg": rb"\xff\xd8\xff",
    "image/gif": rb"GIF8",
    "image/webp": rb"RIFF.{4}WEBP",
    "application/pdf": rb".{,1000}%PDF",
}


def titled_text(attachment: Attachment, text: str) -> str:
    """A text file inside a message."""
    name = attachment.name.replace('"', "'")
    return f'<file name="{name}">\n{text}\n</file>' if name else text


def cannot_show(attachment: Attachment) -> str:
    """The text that replaces an attachment which the API does not accept."""
    return f"[{attachment.name or 'a file'} of type {attachment.media_type} cannot be shown to this model]"


def data_url(attachment: Attachment) -> str:
    return f"data:{attachment.media_type};base64,{attachment.data}"


_NAMED_SCHEMAS = frozenset(("properties", "patternProperties", "$defs", "definitions"))
_VALUES = frozenset(("enum", "const", "default", "examples"))


def schema_format(schema: dict[str, Any]) -> dict[str, Any]:
    """A response schema, strict if it qualifies: servers refuse strict mode for others."""
    shut = closed(schema)
    strict = is_strict(shut)
    return {"name": "answer", "schema": shut if strict else schema, "strict": strict}


def closed(schema: Any) -> Any:
    """The same schema, with no additional properties in objects that list theirs, as providers require."""
    if isinstance(schema, list):
        return [closed(inner) for inner in schema]
    if not isinstance(schema, dict):
        return schema
    copy: dict[str, Any] = {}
    for name, inner in schema.items():
        if name in _NAMED_SCHEMAS and isinstance(inner, dict):
            copy[name] = {key: closed(value) for key, value in inner.items()}
        else:
            copy[name] = inner if name in _VALUES else closed(inner)
    if isinstance(schema.get("properties"), dict):
        copy.setdefault("additionalProperties", False)
    return copy


def is_strict(schema: Any) -> bool:
    """Whether every object of a closed schema requires all its properties, as strict modes demand."""
    if isinstance(schema, list):
        return all(map(is_strict, schema))
    if not isinstance(schema, dict):
        return True
    properties = schema.get("properties")
    if isinstance(properties, dict):
        required = schema.get("required", [])
        if schema.get("additionalProperties") is not False or set(required) != set(properties):
            return False
    return all(
        all(map(is_strict, inner.values()))
        if name in _NAMED_SCHEMAS and isinstance(inner, dict)
        else name in _VALUES or is_strict(inner)
        for name, inner in schema.items()
    )


_IMAGE_HEAD_CHARACTERS = 4 * 65_536
"""In base64: long metadata may precede the size of a JPEG."""
_FRAMES = frozenset((*range(0xC0, 0xC4), *range(0xC5, 0xC8), *range(0xC9, 0xCC), *range(0xCD, 0xD0)))
"""The segments of a JPEG that contain its size."""


def longest_side(media_type: str, data: str) -> int:
    """The longest side of an image in pixels, from its first bytes; 0 if unknown. `data` is base64."""
    reader = _READERS.get(media_type)
    if reader is None:
        return 0
    try:
        return reader(a2b_base64(data[:_IMAGE_HEAD_CHARACTERS]))
    except (Base64Error, ValueError, IndexError):
        return 0


def _png(head: bytes) -> int:
    return max(int.from_bytes(head[16:20]), int.from_bytes(head[20:24]))


def _gif(head: bytes) -> int:
    return max(int.from_bytes(head[6:8], "little"), int.from_bytes(head[8:10], "little"))


def _jpeg(head: bytes) -> int:
    place = 2
    while head[place] == 0xFF:
        kind, length = head[place + 1], int.from_bytes(head[place + 2 : place + 4])
        if kind in _FRAMES:
            height, width = head[place + 5 : place + 7], head[place + 7 : place + 9]
            return max(int.from_bytes(width), int.from_bytes(height))
        place += 2 + length
    return 0


def _webp(head: bytes) -> int:
    kind, body = head[12:16], head[20:]
    if kind == b"VP8X":
        return 1 + max(int.from_bytes(body[4:7], "little"), int.from_bytes(body[7:10], "little"))
    if kind == b"VP8L":
        bits = int.from_bytes(body[1:5], "little")
        return 1 + max(bits & 0x3FFF, bits >> 14 & 0x3FFF)
    frame = re.match(rb".{3}\x9d\x01\x2a(..)(..)", body, re.DOTALL)
    return max(int.from_bytes(side, "little") & 0x3FFF for side in frame.groups()) if frame else 0


_READERS: Mapping[str, Callable[[bytes], int]] = {
    "image/png": _png,
    "image/gif": _gif,
    "image/jpeg": _jpeg,
    "image/webp": _webp,
}
