"""Which stored sessions a list shows beside the logs of Harness."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Literal, cast

import pytest

from harness.clients.sessions.histories import RecordedSessions
from harness.histories.catalogue_rows import CataloguedSession
from harness.log.store import Metadata

HOUR = 3_600_000


def _session(started_ms: int, ended_ms: int) -> CataloguedSession:
    about = SimpleNamespace(
        agent="claude", session_id="s", started_ms=started_ms, ended_ms=ended_ms, mark="m", number=1
    )
    return cast("CataloguedSession", about)


def _recorded(*spans: tuple[int, int], kind: Literal["run", "thread"] = "run") -> RecordedSessions:
    return RecordedSessions.of(
        Metadata(
            session_id=f"log {number}",
            agent_name="claude",
            agent_session_id="s",
            kind=kind,
            created_ms=created_ms,
            updated_ms=updated_ms,
        )
        for number, (created_ms, updated_ms) in enumerate(spans)
    )


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        ((2 * HOUR + 900, 3 * HOUR - 200), False),
        ((2 * HOUR + 900, 3 * HOUR + 900), False),
        ((1 * HOUR, 3 * HOUR - 200), True),
        ((2 * HOUR + 900, 4 * HOUR), True),
        ((0, 0), False),
    ],
    ids=[
        "all of it is ours",
        "its store is a little late",
        "began before",
        "continued after",
        "without times",
    ],
)
def test_a_session_that_was_used_before_or_after_its_logs_is_more_than_they(
    stored: tuple[int, int], expected: bool
) -> None:
    ours = _recorded((2 * HOUR, 2 * HOUR + 500), (3 * HOUR - 500, 3 * HOUR))
    assert _session(*stored) in ours
    assert ours.is_exceeded(_session(*stored)) == expected


def test_a_conversation_may_have_been_handed_an_older_session() -> None:
    ours = _recorded((2 * HOUR, 3 * HOUR), kind="thread")
    assert not ours.is_exceeded(_session(HOUR, 3 * HOUR))
    assert ours.is_exceeded(_session(HOUR, 4 * HOUR))


def test_what_is_not_recorded_is_listed_anyway() -> None:
    assert not RecordedSessions.of(()).is_exceeded(_session(HOUR, 4 * HOUR))
