"""A known secret as it may be written: in JSON, in a URL, in base64.

Most values have no character that is ever escaped, so that most of these spellings are one and the same.
"""

from __future__ import annotations

import re
from binascii import b2a_base64
from collections.abc import Iterator

_UNRESERVED = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~"
_KEPT_BY_JAVASCRIPT = b"!'()*"
_JSON_ESCAPES = {code: f"\\u{code:04x}" for code in range(32)} | {
    ord(character): escape
    for character, escape in zip(
        '"\\\n\r\t\b\f', ('\\"', "\\\\", "\\n", "\\r", "\\t", "\\b", "\\f"), strict=True
    )
}
_ESCAPED_FOR_HTML = {ord(character): f"\\u{ord(character):04x}" for character in "&<>"}
_URL_ALPHABET = bytes.maketrans(b"+/", b"-_")


def spellings(value: str) -> list[bytes]:
    """The value as it is, in JSON (also in JSON within JSON), in URLs, and in base64 wherever it stands there."""
    raw = _encoded(value)
    return [
        raw,
        *(_encoded(text) for text in _in_json(value)),
        *_in_url(raw),
        *_in_base64(raw),
    ]


def _in_json(value: str) -> Iterator[str]:
    escaped = value.translate(_JSON_ESCAPES)
    ascii_only = _ascii_escaped(escaped)
    yield escaped
    yield escaped.translate(_JSON_ESCAPES)
    yield ascii_only
    yield ascii_only.translate(_JSON_ESCAPES)
    yield escaped.translate(_ESCAPED_FOR_HTML)  # as Go writes it
    yield escaped.replace("/", "\\/")  # as PHP and Swift do


def _in_url(raw: bytes) -> Iterator[bytes]:
    yield re.sub(rb"%[0-9A-Fa-f]{2}", lambda match: bytes([int(match[0][1:], 16)]), raw)
    for unescaped in (b"", b"/", _KEPT_BY_JAVASCRIPT):
        yield _percent_encoded(raw, _UNRESERVED + unescaped)
    yield b"+".join(_percent_encoded(part, _UNRESERVED) for part in raw.split(b" "))
    yield _percent_encoded(raw, _UNRESERVED, b"%%%02x")


def _in_base64(raw: bytes) -> Iterator[bytes]:
    """Alone, or behind any other text (`user:password`), which moves it by no, one or two bytes."""
    for moved in range(3):
        encoded = b2a_base64(bytes(moved) + raw, newline=False)
        if moved:
            # The first characters are partly, the last one perhaps, of what stands beside the value.
            encoded = encoded[moved + 1 : (moved + len(raw)) * 8 // 6]
        encoded = encoded.rstrip(b"=")
        yield encoded
        yield encoded.translate(_URL_ALPHABET)


def _encoded(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def _percent_encoded(raw: bytes, kept: bytes, escape: bytes = b"%%%02X") -> bytes:
    if not raw.strip(kept):
        return raw
    return b"".join(bytes([byte]) if byte in kept else escape % byte for byte in raw)


def _ascii_escaped(text: str) -> str:
    if text.isascii():
        return text
    return "".join(
        character if character < "\x80" else f"\\u{unit:04x}"
        for character in text
        for unit in _utf16_units(character)
    )


def _utf16_units(character: str) -> list[int]:
    encoded = character.encode("utf-16-be", "surrogatepass")
    return [int.from_bytes(encoded[index : index + 2], "big") for index in range(0, len(encoded), 2)]
