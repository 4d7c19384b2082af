"""Images that are too large: an API refuses the whole conversation for one of them, so it is not shown."""

from __future__ import annotations

import struct
from base64 import b64encode
from pathlib import Path

import msgspec
import pytest

from harness.contracts.model import Ask, AssistantTurn, Attachment, Call, ToolTurn, UserTurn
from harness.models.registry import open_model
from harness.models.turn_cache import longest_side
from model_asking import KEY

PAGE = Path(__file__).parents[2] / "docs" / "page.png"


def png(width: int, height: int, more: int = 0) -> Attachment:
    data = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", width, height) + bytes(more)
    return Attachment("image/png", b64encode(data).decode(), "shot.png")


def jpeg(width: int, height: int) -> bytes:
    described = b"\xff\xe1" + struct.pack(">H", 60_002) + bytes(60_000)
    return b"\xff\xd8" + described + b"\xff\xc2" + struct.pack(">HBHH", 17, 8, height, width) + bytes(20)


def webp(kind: bytes, body: bytes) -> bytes:
    return b"RIFF\0\0\0\0WEBP" + kind + bytes(4) + body


@pytest.mark.parametrize(
    ("media_type", "data", "side"),
    [
        ("image/jpeg", jpeg(30, 9001), 9001),
        ("image/jpeg", b"\xff\xd8\xff\xe1\xff\xff", 0),
        ("image/gif", b"GIF89a" + struct.pack("<HH", 12, 700), 700),
        ("image/webp", webp(b"VP8X", bytes(4) + b"\x0f\x27\0" + b"\x01\0\0"), 10_000),
        ("image/webp", webp(b"VP8L", b"\x2f" + struct.pack("<I", 99 | 499 << 14)), 500),
        ("image/webp", webp(b"VP8 ", b"\0\0\0\x9d\x01\x2a" + struct.pack("<HH", 300, 20)), 300),
        ("image/webp", webp(b"VP8 ", b""), 0),
        ("image/png", b"", 0),
        ("image/heic", b"whatever", 0),
    ],
)
def test_the_longer_side_is_read_from_the_first_bytes(media_type: str, data: bytes, side: int) -> None:
    assert longest_side(media_type, b64encode(data).decode()) == side


def test_a_real_image_has_the_size_that_it_has() -> None:
    data = PAGE.read_bytes()
    width, height = struct.unpack(">II", data[16:24])
    assert longest_side("image/png", b64encode(data).decode()) == max(width, height) > 500
    assert longest_side("image/png", "no base64") == 0


def emitted(*images: Attachment) -> str:
    """What a request of ours says of them: half of them a person showed, half of them a tool."""
    half = len(images) // 2
    turns = [
        UserTurn("look", images[:half]),
        AssistantTurn("", (Call("c", "shoot", {}),)),
        ToolTurn("c", "done", attachments=images[half:]),
    ]
    model = open_model("anthropic/claude-sonnet-4-6", {"ANTHROPIC_API_KEY": KEY})
    body: bytes = model._wire.prepare(Ask(turns=turns)).body  # type: ignore[attr-defined]
    return msgspec.json.encode(msgspec.json.decode(body)).decode()


def test_one_that_is_too_wide_or_too_heavy_is_named_instead() -> None:
    body = emitted(png(8000, 10), png(10, 8001), png(10, 10, more=4_000_000))
    assert body.count('"type":"image"') == 1
    assert "[shot.png cannot be shown: its longer side has 8001 pixels, and may have 8000]" in body
    assert "[shot.png cannot be shown: it has 4.0 MB, and may have 3.9]" in body


def test_where_there_are_many_all_of_them_have_to_be_small() -> None:
    assert emitted(*[png(2001, 10)] * 20).count('"type":"image"') == 20
    body = emitted(*[png(2001, 10)] * 3, *[png(2000, 10)] * 18)
    assert body.count('"type":"image"') == 18
    assert "may have 2000 in a conversation with more than 20 images]" in body
