"""Searching for all literals at once finds the same as searching for each, in any text and from any thread."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import pytest

from harness.log.redact.redactor import Redactor
from harness.log.redact.secret_shapes import LiteralSearch

LITERALS = (b"\x00nul\xff", b"sk-", b"sk-ant-", b"aQQa", b"QQ", b"@", b"(.*)[a-z]+$", b"x" * 256)


def _each(text: bytes, literals: tuple[bytes, ...] = LITERALS) -> list[tuple[int, int]]:
    return [
        (number, start + len(literal))
        for number, literal in enumerate(literals)
        for start in range(len(text))
        if text.startswith(literal, start)
    ]


def _random_text(chance: random.Random, pieces: int) -> bytes:
    noise = [b"a", b"Q", b"x" * 100, b"\n", b"sk", b"-", b"\x00", b"\xff", b"z.*"]
    return b"".join(chance.choices([*LITERALS, *noise], k=pieces))


@pytest.mark.parametrize("literals", [LITERALS, LITERALS[1:]], ids=["with a NUL", "without"])
def test_every_occurrence_is_found_also_where_they_overlap(literals: tuple[bytes, ...]) -> None:
    chance = random.Random(1)
    search = LiteralSearch(literals)
    for _ in range(200):
        text = _random_text(chance, chance.randrange(60))
        assert sorted(search.hits(text)) == _each(text, literals)


@pytest.fixture(autouse=True)
def _nothing_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LiteralSearch, "seen_bytes", 0)


def test_what_comes_first_is_found_as_what_comes_later() -> None:
    for text in (b"", b"nothing", b"one sk-ant-", b"much " * 10_000 + b"sk-", b"QQQ"):
        assert sorted(LiteralSearch(LITERALS).hits(text)) == _each(text)


@pytest.mark.parametrize("before", [b"", b"much " * 10_000], ids=["first", "later"])
def test_where_once_is_enough_each_literal_is_found_once(before: bytes) -> None:
    chance = random.Random(2)
    search = LiteralSearch(LITERALS[1:4], once=LITERALS[4:])
    search.hits(before)
    for _ in range(50):
        text = _random_text(chance, chance.randrange(60))
        found = search.hits(text)
        everything = _each(text, LITERALS[1:])
        assert set(found) <= set(everything)
        assert sorted(hit for hit in found if hit[0] < 3) == [hit for hit in everything if hit[0] < 3]
        once = sorted(number for number, _ in found if number >= 3)
        assert once == sorted({number for number, _ in everything if number >= 3})


def test_threads_do_not_disturb_each_other() -> None:
    search = LiteralSearch(LITERALS)
    texts = [_random_text(random.Random(number), 2_000) for number in range(40)]
    with ThreadPoolExecutor(8) as pool:
        for text, hits in zip(texts, pool.map(search.hits, texts), strict=True):
            assert len(hits) == len(_each(text))


def test_a_value_longer_than_what_is_looked_for_is_masked_as_a_whole_or_not_at_all() -> None:
    value = "".join(random.Random(3).choices("abcdefgh0123ABCD", k=2_000))
    redactor = Redactor({"KEY_FILE": value})
    assert redactor.feed(f"a {value} b\n".encode()) == b"a [REDACTED:KEY_FILE] b\n"
    almost = f"a {value[:-1]}! b\n".encode()
    assert redactor.feed(almost) == almost


@pytest.mark.parametrize("noise", [b"", b"ZQJX@YVzKBjGHWMF" * 5_000], ids=["alone", "among noise"])
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


def test_a_secret_in_the_first_short_lines_is_found_before_the_library_is_loaded() -> None:
    redactor = Redactor({"KEY": "correct-horse-battery"})

    assert redactor.feed(b"nothing here\n") == b"nothing here\n"
    assert redactor.feed(b"correct-horse-battery\n") == b"[REDACTED:KEY]\n"
