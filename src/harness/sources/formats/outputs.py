"""What tools give back, as text: a string, blocks of a message, or any other JSON value."""

from __future__ import annotations

from typing import Any

import msgspec

from harness.sources.formats.fields import first_text, record_of, text_of

_encode = msgspec.json.Encoder().encode
_NAMES = ("tool_name", "media_type", "mimeType", "uri", "url", "title")


def output_of(value: Any) -> str:
    """Text as it is, blocks line by line, and whatever else as JSON; nothing ("") for null."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(_words_of(item) for item in value)
    return "" if value is None else _words_of(value)


def _words_of(item: Any, *, is_inner: bool = False) -> str:
    """Of a block its text; one that has none (an image, a link) is named, as its bytes tell a reader nothing."""
    if isinstance(item, str):
        return item
    block = record_of(item)
    inner = record_of(block.get("resource"))
    for text in (block.get("text"), inner.get("text")):
        if isinstance(text, str):
            return text
    kind = text_of(block.get("type"))
    if not kind:
        return _encode(item).decode()
    if (said := block.get("content")) and not is_inner:
        return "\n".join(
            _words_of(each, is_inner=True) for each in (said if isinstance(said, list) else [said])
        )
    name = first_text({**inner, **record_of(block.get("source")), **block}, *_NAMES)
    return f"[{kind}: {name}]" if name else f"[{kind}]"
