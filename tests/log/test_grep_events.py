"""Reading only the lines that matter gives the same events as reading all of them."""

from __future__ import annotations

import io

import pytest

from harness.events import Event, Message, TextDelta, Unrecognized, UsageDelta
from harness.events.usage import Usage
from harness.log import codec
from harness.log import query as skimming
from harness.log.query import grep_events

DELTA = UsageDelta(usage=Usage(input=1), run_id="r", seq=0)
LINES = codec.encode_lines(
    [
        Message(role="user", text='I say "UsageDelta" and \\"UsageDelta\\"'),
        DELTA,
        TextDelta(id="t", text="between"),
        UsageDelta(usage=Usage(input=2), model="UsageDelta"),
    ]
)


def skimmed(data: bytes, *words: str) -> list[Event]:
    return list(grep_events(io.BytesIO(data), words))


def test_lines_with_a_word_are_read_and_others_are_not() -> None:
    assert [type(event) for event in skimmed(LINES, "UsageDelta")] == [UsageDelta, UsageDelta]
    assert [type(event) for event in skimmed(LINES, "UsageDelta", "TextDelta")] == [
        UsageDelta,
        TextDelta,
        UsageDelta,
    ]
    assert skimmed(LINES, "Result") == []


def test_a_line_that_is_still_being_written_is_left_out() -> None:
    assert skimmed(LINES + b'{"type":"UsageDelta","usage":{"inp', "UsageDelta") == skimmed(
        LINES, "UsageDelta"
    )


def test_an_empty_file_has_no_events() -> None:
    assert skimmed(b"", "UsageDelta") == []


@pytest.mark.parametrize("block_bytes", [1, 2, 7, 50, 1000])
def test_where_a_block_ends_makes_no_difference(monkeypatch: pytest.MonkeyPatch, block_bytes: int) -> None:
    whole = skimmed(LINES, "UsageDelta")
    monkeypatch.setattr(skimming, "_BLOCK_BYTES", block_bytes)

    assert skimmed(LINES, "UsageDelta") == whole


def test_whole_events_in_a_damaged_line_are_saved() -> None:
    damaged = b'{"type":"TextDel' + codec.encode(DELTA) + b"\n"

    assert skimmed(damaged + LINES, "UsageDelta")[0] == DELTA


def test_an_event_of_a_newer_version_is_kept_as_it_is() -> None:
    (event,) = skimmed(b'{"type":"Newer","about":"UsageDelta"}\n', "UsageDelta")

    assert isinstance(event, Unrecognized)


def test_a_line_of_many_megabytes_is_no_trouble() -> None:
    long = codec.encode_lines([Message(role="user", text="x" * 5_000_000)])

    assert skimmed(long + LINES + long, "UsageDelta") == skimmed(LINES, "UsageDelta")
