"""Pieces of a streamed text take a short way through the pipeline, and give what the long way gives."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from harness.agents.claude.agent import ClaudeTranslator
from harness.events import Event
from harness.log.raw import RawOutput, RawStart
from harness.runs.pipeline import Pipeline

_MESSAGE = {"type": "message_start", "message": {"id": "m"}}
_FIRST = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Once"}}


class LongWay(ClaudeTranslator):
    def pieces(self, lines: Sequence[bytes]) -> Sequence[Event] | None:
        return None


def _line(event: Any, **more: Any) -> bytes:
    return (
        json.dumps({"type": "stream_event", "event": event, **more}, separators=(",", ":")).encode() + b"\n"
    )


def _run(translator: ClaudeTranslator, *lines: bytes) -> tuple[list[Event], dict[str, int], list[bytes]]:
    pipeline = Pipeline(translator)
    pipeline.feed(RawStart(at_ms=1, agent="claude", cwd="/x"))
    events = list(pipeline.feed(RawOutput(at_ms=2, stream="stdout", data=b"".join(lines))))
    return events, dict(pipeline.rules), pipeline.lost


@pytest.mark.parametrize(
    "line",
    [
        _line({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": " upon"}}),
        _line({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": ""}}),
        _line({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "\ud800"}}),
        _line({"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "next"}}),
        _line({"type": "content_block_delta", "index": 0, "delta": {"type": "new_delta", "text": "x"}}),
        _line({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": 7}}),
        _line({"type": "content_block_delta", "delta": {"type": "text_delta", "text": "no number"}}),
        _line(_FIRST, parent_tool_use_id="call"),
        _line(_FIRST, parent_tool_use_id=None, session_id="s", uuid="u"),
        _line({"type": "ping"}),
        _line("no event"),
        b'{"type":"stream_event","event":{"type":"content_block_delta"\n',
        b'{"type":"stream_event"} and more\n',
        b"\n",
    ],
    ids=lambda line: line.decode()[24:90],
)
def test_the_short_way_gives_what_the_long_way_gives(line: bytes) -> None:
    lines = (_line(_MESSAGE), _line(_FIRST), line, _line(_FIRST))

    assert _run(ClaudeTranslator(), *lines) == _run(LongWay(), *lines)


def test_lines_are_counted_whether_records_or_not_and_a_last_one_needs_no_end() -> None:
    lines = (_line(_MESSAGE), _line(_FIRST), b"\n", b"word\n", _line(_FIRST)[:-1])

    events, rules, lost = _run(ClaudeTranslator(), *lines)

    assert [getattr(event, "text", None) for event in events][-1] == "Once"
    assert rules == {"stream_event": 3, "blank": 1, "unknown": 1}
    assert not lost
