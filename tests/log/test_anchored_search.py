"""Searching by rare bytes finds the same as searching plainly, wherever and however often they stand."""

from __future__ import annotations

import random
import re

import pytest

from harness.log.anchored_search import RARE_BYTES, AnchoredSearch, quick_places, rarest_byte
from harness.log.redact import Redactor


def test_places_found_by_a_rare_byte_are_all_places() -> None:
    chance = random.Random(1)
    pieces = [b"Authorization", b"zebra ", b"uthoriz", b"x" * 900, b"uthorization", b"\n"]
    for _ in range(200):
        text = b"".join(chance.choices(pieces, k=chance.randrange(40)))

        places = quick_places(text, b"uthorization")

        assert places is None or places == [match.start() for match in re.finditer(b"uthorization", text)]


def test_a_byte_that_is_not_rare_in_this_text_is_left_to_an_expression() -> None:
    assert quick_places(b"z" * 100_000, b"uthorization") is None
    assert quick_places(b"a" * 100_000, b"uthorization") == []


def test_a_needle_without_any_rare_byte_is_left_to_an_expression() -> None:
    assert rarest_byte(b"needle") == b""
    assert quick_places(b"a" * 100_000, b"needle") is None


@pytest.mark.parametrize("filler", [b" ", b"Q", b"Q "], ids=["rare", "dense", "common"])
def test_values_are_found_whether_their_anchor_is_rare_or_not(filler: bytes) -> None:
    search = AnchoredSearch(b"Q")
    search.add(b"Q7(?<=aQQ7)", 1, "value", [b"aQQ7"])
    text = b"aQQ7" + filler * 50_000 + b"aQQ7aQQ7"

    found = [(span.start, span.end) for span in search.spans(text)]

    assert found == [(match.start(), match.end()) for match in re.finditer(b"aQQ7", text)]


@pytest.mark.parametrize("noise", [b"", RARE_BYTES * 5_000], ids=["alone", "among many rare bytes"])
@pytest.mark.parametrize(
    ("text", "masked"),
    [
        (b"postgres://me:hunter2222@db/x", b"postgres://me:[REDACTED:url-password]@db/x"),
        (b"Authorization: Bearer abcDEF0123456789xyz", b"Authorization: Bearer [REDACTED:authorization]"),
        (b"AKIAABCDEFGHIJKLMNOP", b"[REDACTED:aws-key-id]"),
    ],
    ids=["url", "header", "key"],
)
def test_secrets_are_masked_however_much_noise_there_is(text: bytes, masked: bytes, noise: bytes) -> None:
    block = noise + b" \n" + text + b"\n"

    assert Redactor().feed(block) == noise + b" \n" + masked + b"\n"


def test_a_secret_in_the_first_short_lines_is_found_before_anything_is_compiled() -> None:
    redactor = Redactor({"KEY": "correct-horse-battery"})

    assert redactor.feed(b"nothing here\n") == b"nothing here\n"
    assert redactor.feed(b"correct-horse-battery\n") == b"[REDACTED:KEY]\n"
