"""The short way to a summary gives what reading a session whole gives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from harness.contracts.history import AgentHistory, Home, StoredSession
from harness.contracts.reading import CannotScan, Reading
from harness.histories.registry import load, load_all
from harness.histories.summary import read_whole
from stored_corpus import Corpus
from stored_homes import HomeCase, cases, sessions

SCANNED = [history.agent for history in load_all() if history.scanner is not None]
READ_WHOLE = {"claude/2.1.325/handed-over", "codex/0.166.0/handed-over"}
"""Their files were written by other programs, with spaces between keys and values. Also read whole are files of
sub-agents that older versions of Claude write beside their session's, which have no prompt."""
IN_ANOTHER_SESSION = Counter({"COUNT-FILES in src": 1})
"""What a sub-agent of Codex was asked for is the prompt of its own session."""
FIELDS = ("title", "prompt", "model", "cwd", "version", "parent_id", "started_ms", "outcome", "runs")


def _joined(readings: Iterable[Reading]) -> Reading:
    """All parts as one."""
    parts = [*readings]
    return Reading(
        parts[-1].summary,
        [document for part in parts for document in part.documents],
        [used for part in parts for used in part.used],
        parts[-1].state,
    )


def _history(agent: str) -> AgentHistory:
    history = load(agent)
    assert history is not None
    return history


def _scanned(agent: str, session: StoredSession, state: bytes = b"") -> Reading | None:
    scanner = _history(agent).scanner
    assert scanner is not None
    try:
        return _joined(scanner().scan(session, state))
    except CannotScan:
        return None


def _tokens(reading: Reading) -> Counter[tuple[str, int]]:
    found = Counter[tuple[str, int]]()
    for used in reading.used:
        for number, count in enumerate(used.counts):
            found[used.model, number] += int(count or 0)
    return +found


def _texts(reading: Reading) -> Counter[str]:
    return Counter(text for document in reading.documents for text in document.texts if text)


def _written(reading: Reading) -> set[str]:
    return {file for document in reading.documents for file in document.files if file.startswith("w ")}


def _expect_same(agent: str, session: StoredSession) -> None:
    short, long = _scanned(agent, session), _joined(read_whole(_history(agent), session))
    assert short is not None
    assert {name: getattr(short.summary, name) for name in FIELDS} == {
        name: getattr(long.summary, name) for name in FIELDS
    }
    assert _tokens(short) == _tokens(long)
    assert not _texts(long) - _texts(short) - IN_ANOTHER_SESSION
    assert _written(long) <= _written(short)


@pytest.mark.parametrize("case", [case for agent in SCANNED for case in cases(agent)], ids=str)
def test_the_short_way_says_the_same_of_every_recorded_store(case: HomeCase, tmp_path: Path) -> None:
    for session in sessions(case, case.unpack(tmp_path)):
        if str(case) in READ_WHOLE or session.is_child:
            assert _scanned(case.agent, session) is None
        else:
            _expect_same(case.agent, session)


def test_the_short_way_says_the_same_of_a_corpus(tmp_path: Path) -> None:
    Corpus(tmp_path, seed=5, mean_bytes=20_000).fill(30)
    for agent in SCANNED:
        history = load(agent)
        assert history is not None
        for session in history.find(Home(str(tmp_path))):
            _expect_same(agent, session)


def test_a_file_that_is_not_as_expected_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"type":"assistant","message":{"id":5}}\n{"type":"user","message":7}\n')
    session = StoredSession(agent="claude", session_id="a", path=str(path), mark="", changed_ms=0)
    assert _scanned("claude", session) is None
    path.write_text('{"timestamp":"x","type":"turn_context","payload":[]}\n')
    assert _scanned("codex", session) is None
