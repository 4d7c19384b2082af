"""The short way to a summary gives what reading a session whole gives."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from stored_corpus import Corpus
from stored_homes import HomeCase, cases, sessions

from harness.events.usage import CLASSES
from harness.sources.imports.history import Home, StoredSession
from harness.sources.imports.registry import load, load_all
from harness.sources.imports.summary import SessionSummary, read_whole

SKIMMED = [history.agent for history in load_all() if history.skim is not None]
READ_WHOLE = {"claude/2.1.325/handed-over", "codex/0.166.0/handed-over"}
"""Their files were written by other programs, with spaces between keys and values. Also read whole are files of
sub-agents that older versions of Claude write beside their session's, which have no prompt."""
FIELDS = ("title", "prompt", "model", "cwd", "version", "parent_id", "started_ms", "outcome", "runs")


def _skimmed(agent: str, session: StoredSession) -> SessionSummary | None:
    history = load(agent)
    assert history is not None
    assert history.skim is not None
    return history.skim(session)


def _whole(agent: str, session: StoredSession) -> SessionSummary:
    history = load(agent)
    assert history is not None
    return read_whole(history, session)


def _tokens(summary: SessionSummary) -> Counter[tuple[str, str]]:
    found = Counter[tuple[str, str]]()
    for used in summary.used:
        for name in CLASSES:
            found[used.model, name] += getattr(used.usage, name) or 0
    return +found


def _expect_same(agent: str, session: StoredSession) -> None:
    short, long = _skimmed(agent, session), _whole(agent, session)
    assert short is not None
    assert {name: getattr(short, name) for name in FIELDS} == {name: getattr(long, name) for name in FIELDS}
    assert _tokens(short) == _tokens(long)


@pytest.mark.parametrize("case", [case for agent in SKIMMED for case in cases(agent)], ids=str)
def test_the_short_way_says_the_same_of_every_recorded_store(case: HomeCase, tmp_path: Path) -> None:
    for session in sessions(case, case.unpack(tmp_path)):
        if str(case) in READ_WHOLE or session.is_child:
            assert _skimmed(case.agent, session) is None
        else:
            _expect_same(case.agent, session)


def test_the_short_way_says_the_same_of_a_corpus(tmp_path: Path) -> None:
    Corpus(tmp_path, seed=5, mean_bytes=20_000).fill(30)
    for agent in SKIMMED:
        history = load(agent)
        assert history is not None
        for session in history.find(Home(str(tmp_path))):
            _expect_same(agent, session)


def test_a_file_that_is_not_as_expected_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"type":"assistant","message":{"id":5}}\n{"type":"user","message":7}\n')
    session = StoredSession(agent="claude", session_id="a", path=str(path), mark="", changed_ms=0)
    assert _skimmed("claude", session) is None
    path.write_text('{"timestamp":"x","type":"turn_context","payload":[]}\n')
    assert _skimmed("codex", session) is None
