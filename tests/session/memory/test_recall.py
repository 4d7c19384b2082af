"""The originals of what is noted can be looked up again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from harness.contracts.model import AssistantTurn, Attachment, Call, ToolTurn, Turn, UserTurn
from harness.contracts.tool import ToolContext, ToolFailure
from harness.conversation.turns import TranscriptEntry
from harness.session.memory import RecallTool, ThreadSummary
from memory_bench import MINUTE_MS, START_MS, Bench, noted, run, texts, tokens

DAY_MS = 24 * 60 * MINUTE_MS


def _entries(*turns: tuple[str, Turn]) -> list[TranscriptEntry]:
    return [
        TranscriptEntry(turn, id, START_MS + seq * MINUTE_MS, seq) for seq, (id, turn) in enumerate(turns)
    ]


class Archived:
    thread_id = "here"

    def __init__(self) -> None:
        call = Call("c1", "read", {"path": "a.txt"})
        self.said = {
            "here": _entries(
                ("m1", UserTurn("Read a.txt", (Attachment("image/png", "AA", "plan.png"),))),
                ("m2", AssistantTurn("Let me look.", (call,))),
                ("m2", ToolTurn("c1", "x" * 2_000 + " the END")),
                ("m3", AssistantTurn("It ends with END.")),
                *((f"n{number}", UserTurn(f"number {number}")) for number in range(30)),
            ),
            "there": _entries(("t1", UserTurn("The secret WORD is elsewhere"))),
        }

    async def threads(self) -> Sequence[ThreadSummary]:
        return [
            ThreadSummary(id="here", title="Here", created_ms=START_MS, updated_ms=START_MS),
            ThreadSummary(id="there", created_ms=START_MS - 3 * DAY_MS, updated_ms=START_MS),
        ]

    async def entries(self, thread_id: str) -> Sequence[TranscriptEntry]:
        return self.said.get(thread_id, [])

    async def threads_with(self, query: str) -> Sequence[str]:
        return list(self.said)


def _recall(scope: Any = "resource", **arguments: Any) -> str:
    tool = RecallTool(Archived(), scope=scope, timezone="UTC")
    return run(tool.run(arguments, ToolContext(cwd="/"))).text


def test_messages_are_read_from_a_cursor_on() -> None:
    text = _recall(cursor="m1", limit=2)
    assert text.startswith(
        "[m1] 2025-12-04 15:00\n[p0] user: Read a.txt\n[p1] attachment: plan.png (image/png)"
    )
    assert '[p1] tool call read: {"path":"a.txt"}' in text
    assert "[p2] tool result: xxx" in text
    assert 'recall cursor="m2" partIndex=2' in text
    assert "the END" not in text
    assert text.endswith("[more messages: 31 after]")


def test_one_part_is_read_whole() -> None:
    assert _recall(cursor="m2", partIndex=2).endswith("x the END")
    with pytest.raises(ToolFailure, match="3 parts"):
        _recall(cursor="m2", partIndex=7)


def test_a_range_of_a_group_is_a_cursor_too() -> None:
    assert _recall(cursor="m3:n4", limit=1).startswith("[m3]")


def test_pages_go_forward_and_backward() -> None:
    assert _recall(cursor="n5", page=2, limit=3).startswith("[n8]")
    assert _recall(cursor="n5", page=-1, limit=3).startswith("[n2]")
    assert _recall(cursor="n5", page=-2, limit=3).startswith("[m3]")
    assert _recall(page=1, limit=1).startswith("[m1]")
    assert _recall(page=-1, limit=1).startswith("[n29]")
    assert _recall(page=99) == "[more messages: 33 before]"


def test_detail_shows_everything() -> None:
    assert "the END" in _recall(cursor="m2", limit=1, detail="high")


def test_threads_are_listed_by_day() -> None:
    text = _recall(mode="threads")
    assert "here (this one): Here" in text
    assert "there: without a title" in text
    assert _recall(mode="threads", after="2025-12-02").startswith("here")
    assert _recall(mode="threads", before="2025-12-04").startswith("there")
    assert _recall(mode="threads", before="2000-01-01") == "there are no such threads"


def test_words_are_found_in_all_threads() -> None:
    assert _recall(mode="search", query="word SECRET").startswith("in thread there\n[t1]")
    assert "[m2]" in _recall(mode="search", query="the end")
    assert _recall(mode="search", query="nowhere").startswith("no message")
    with pytest.raises(ToolFailure, match="query"):
        _recall(mode="search")


def test_in_scope_thread_nothing_else_can_be_read() -> None:
    assert _recall("thread", mode="search", query="secret").startswith("no message")
    assert "there:" not in _recall("thread", mode="threads")
    with pytest.raises(ToolFailure, match="only this conversation"):
        _recall("thread", threadId="there")
    assert _recall(threadId="there").startswith("[t1]")


def test_an_unknown_cursor_is_said_to_be_one() -> None:
    with pytest.raises(ToolFailure, match="no message 'zz'"):
        _recall(cursor="zz")


def test_notes_name_the_messages_they_were_made_of() -> None:
    async def check() -> None:
        config = {"retrieval": True, "observation": {"messageTokens": 1_000, "bufferTokens": False}}
        bench = Bench(config, [noted("a fact")])
        bench.user(tokens(500))
        bench.calls(tokens(600))
        turns = await bench.settled(1)
        first, last = bench.entries[0].message_id, bench.entries[-1].message_id
        assert f'<observation-group id="cycle-1" range="{first}:{last}">' in texts(turns)
        assert "`recall`" in texts(turns)
        bench = Bench({"observation": {"messageTokens": 1_000, "bufferTokens": False}}, [noted("a fact")])
        bench.user(tokens(500))
        bench.calls(tokens(600))
        assert "observation-group" not in texts(await bench.settled(1))

    run(check())


def test_recalling_counts_as_reading() -> None:
    tool = RecallTool(Archived())
    (operation,) = tool.operations({"mode": "search", "query": "x"})
    assert type(operation).__name__ == "Search"
    assert tool.permission({"query": "x"}).params is None
