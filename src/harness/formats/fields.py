"""Values of native records, whatever an agent put into them: fields of the wanted kind, JSON within JSON, and text
of outputs.
"""

from __future__ import annotations

from typing import Any

import msgspec

from harness.formats.json_lines import DECODE_ERRORS, decode
from harness.log.codec import storable

_LARGEST_COUNT = 2**63 - 1
_LARGEST_EXIT_CODE = 2**31


def text_of(value: Any) -> str:
    return value if isinstance(value, str) else ""


def first_text(record: dict[str, Any], *names: str) -> str:
    """The first of these fields that holds any text."""
    for name in names:
        value = record.get(name)
        if isinstance(value, str) and value:
            return value
    return ""


def record_of(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def items_of(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def count_of(value: Any) -> int | None:
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST_COUNT
    return value if is_count else None


def exit_code_of(value: Any) -> int | None:
    """A whole number, which may be below zero."""
    is_code = type(value) is int and abs(value) < _LARGEST_EXIT_CODE
    return value if is_code else None


def amount_of(value: Any) -> float | None:
    """A finite number, not below zero."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return float(value) if 0 <= value <= _LARGEST_COUNT else None


_USUAL_SPEEDS = ("standard", "default", "normal")


def speed_of(speed: object) -> str:
    """As `UsageDelta.speed`: empty for the usual one."""
    return speed if isinstance(speed, str) and speed not in _USUAL_SPEEDS else ""


def besides(total: int | None, *parts: int | None) -> int | None:
    """What is left of a count without others that were counted into it; None where it is not known."""
    return None if total is None else max(0, total - sum(part or 0 for part in parts))


def decoded(text: str) -> Any:
    """What JSON text holds; None when it is none."""
    try:
        return decode(text.encode("utf-8", "surrogatepass"))
    except (*DECODE_ERRORS, ValueError):
        return None


def arguments_of(value_or_text: Any) -> Any:
    """What a call is given: data, JSON text that holds it, or a text that is none."""
    value = decoded(value_or_text) if isinstance(value_or_text, str) else None
    return value_or_text if value is None else value


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
    """Of a block its text; one that has none (an image, a link) is named, as its bytes are of no use to a reader."""
    if isinstance(item, str):
        return item
    block = record_of(item)
    inner = record_of(block.get("resource"))
    for text in (block.get("text"), inner.get("text")):
        if isinstance(text, str):
            return text
    kind = text_of(block.get("type"))
    if not kind:
        return _as_json(item)
    if (content := block.get("content")) and not is_inner:
        return "\n".join(
            _words_of(each, is_inner=True) for each in (content if isinstance(content, list) else [content])
        )
    name = first_text({**inner, **record_of(block.get("source")), **block}, *_NAMES)
    return f"[{kind}: {name}]" if name else f"[{kind}]"


def _as_json(item: Any) -> str:
    try:
        return _encode(item).decode()
    except (OverflowError, UnicodeEncodeError, RecursionError):  # a number that no JSON file can hold
        return _encode(storable(item)).decode()


_OVERLAP = 200
"""How much of the end of earlier output is looked for in later output, to find where that continues."""


def continuation(start: str, text: str) -> str:
    """What `text` adds to `known`: it repeats it from its beginning on, or only its end."""
    if text.startswith(start):
        return text[len(start) :]
    overlap = start[-_OVERLAP:]
    at = text.rfind(overlap)
    return text[at + len(overlap) :] if at >= 0 else text


def with_one_text(blocks: list[Any]) -> list[Any]:
    """Several texts in one record are one; it stands where the first of them does.

    Not for an answer that was streamed before: there each text has a name of its own.
    """
    texts = [block for block in map(record_of, blocks) if text_of(block.get("text"))]
    if len(texts) < 2:
        return blocks
    whole = {**texts[0], "text": "".join(block["text"] for block in texts)}
    rest = {id(block) for block in texts[1:]}
    return [whole if block is texts[0] else block for block in blocks if id(block) not in rest]


# Paths as agents write them: joined and normalized as text, without the file system.


_ROOTED = ("/", "~", "$", "\\")
"""How a path begins that no directory goes in front of: also what only a shell could expand."""


def absolute(path: str, cwd: str) -> str:
    """`path` as seen from `cwd`, without `.`, `..` and empty segments.

    A relative path stays as written where `cwd` is not known (""), and so does what is no plain path:
    `~/x`, `$HOME/x`, `C:/x`. No path ("") stays none.
    """
    if path.startswith("/"):
        return _collapse(path)
    if not path or not cwd or path.startswith(_ROOTED) or path[1:3] in (":/", ":\\"):
        return path
    return _collapse(f"{cwd}/{path}")


def _collapse(path: str) -> str:
    is_absolute = path.startswith("/")
    segments: list[str] = []
    for segment in path.split("/"):
        if segment in ("", "."):
            continue
        if segment != "..":
            segments.append(segment)
        elif segments and segments[-1] != ".." and not segments[-1].startswith(("~", "$")):
            segments.pop()
        elif not is_absolute:
            segments.append(segment)
    return "/" + "/".join(segments) if is_absolute else "/".join(segments) or "."
