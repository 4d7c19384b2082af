"""Bodies come back as they were, and take little room."""

from __future__ import annotations

import random
import zlib

from harness.gateway.bodies import BodyReader, BodyWriter, StoredBody, common_prefix, common_suffix
from harness.gateway.recorded import stored_of
from harness.gateway.tape import read_tape
from harness.log.raw import RawRequest, RawResponse
from tape_files import TAPES


def test_every_body_comes_back_as_it_was() -> None:
    seeded = random.Random(11)
    writer, reader = BodyWriter(), BodyReader()
    body = b""
    for number in range(1, 400):
        match seeded.randrange(4):
            case 0:
                body = seeded.randbytes(seeded.randrange(5000))
            case 1:
                body += seeded.randbytes(700)
            case 2:
                place = seeded.randrange(len(body) + 1)
                body = body[:place] + seeded.randbytes(40) + body[place:]
            case _:
                body = body[: len(body) // 2]
        assert reader.read(number, writer.store(number, body)) == body


def test_a_long_run_of_one_conversation_takes_little_room() -> None:
    writer, reader = BodyWriter(), BodyReader()
    body = b'{"messages":[' + random.Random(3).randbytes(40_000).hex().encode() + b"]}"
    sizes = []
    for number in range(1, 201):
        body = body[:-2] + b',{"role":"user","content":"step %d"}]}' % number
        stored = writer.store(number, body)
        sizes.append(len(stored.data))
        assert reader.read(number, stored) == body
    whole = [size for size in sizes if size > 10_000]
    assert 2 <= len(whole) <= 4  # the first, and one after about 64 differences
    assert sum(sizes) < len(body) * 200 / 50


def test_a_difference_without_its_base_is_no_body() -> None:
    writer = BodyWriter()
    first, second = b"x" * 5000, b"x" * 5000 + b"y"
    writer.store(1, first)
    stored = writer.store(2, second)
    assert stored.of == 1
    assert BodyReader().read(2, stored) is None
    assert BodyReader().read(1, stored._replace(of=0, data=b"no zlib")) is None


def test_common_parts_are_counted_once() -> None:
    assert common_prefix(b"", b"abc") == 0
    assert common_prefix(b"abcd", b"abxd") == 2
    assert common_suffix(b"abcd", b"abxd", 2) == 1
    assert common_suffix(b"aaaa", b"aaa", 3) == 0  # what is in the prefix is not in the suffix


def test_real_sessions_take_less_than_an_eighth_of_what_was_sent() -> None:
    wire = stored = 0
    for path in TAPES:
        bodies = BodyReader()
        for entry in read_tape(str(path)).entries:
            if isinstance(entry, RawRequest) and entry.body_size:
                body = bodies.read(entry.id, stored_of(entry))
                assert body is not None
                assert len(body) == entry.body_size
            if isinstance(entry, RawRequest | RawResponse):
                wire += entry.body_size
                stored += len(entry.data)
            if isinstance(entry, RawResponse) and entry.data:
                assert len(zlib.decompress(entry.data)) == entry.body_size
    assert stored * 8 < wire, f"{wire / stored:.1f} times"


def test_requests_without_a_body_push_none_out() -> None:
    """Programs that ask for the list of models between their calls had calls that could not be read back."""
    writer, reader = BodyWriter(), BodyReader()
    body = bytes(range(256)) * 20
    others = [bytes([number]) * 3000 for number in range(7)]
    stored = [writer.store(number, one) for number, one in enumerate([body, *others, body], 1)]
    assert stored[-1].of == 1
    for number, (one, kept) in enumerate(zip([body, *others, body], stored, strict=True), 1):
        assert reader.read(number, kept) == one
        assert reader.read(100 + number, StoredBody(b"", 0)) == b""
