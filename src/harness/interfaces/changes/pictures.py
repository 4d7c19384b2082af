"""Pictures before and after, as addresses that a page can show without asking for more."""

from __future__ import annotations

from base64 import b64encode

from harness.interfaces.changes.shapes import Pictures

_KINDS = {
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "gif": "image/gif",
    "webp": "image/webp",
    "avif": "image/avif",
    "bmp": "image/bmp",
}
"""No SVG: it is a text, and has a diff."""
_LARGEST_BYTES = 3 * 1024 * 1024


def pictures_of(path: str, before: bytes | None, after: bytes | None) -> Pictures | None:
    """None: the file is no picture."""
    kind = _KINDS.get(path.rsplit(".", 1)[-1].lower())
    if kind is None:
        return None
    return Pictures(before=_address(kind, before), after=_address(kind, after))


def _address(kind: str, data: bytes | None) -> str:
    if data is None or len(data) > _LARGEST_BYTES:
        return ""
    return f"data:{kind};base64,{b64encode(data).decode()}"
