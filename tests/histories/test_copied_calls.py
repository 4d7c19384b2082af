"""Calls that a session, its fork and the fork's fork have in common: linked whichever of them grows and is read again."""

from __future__ import annotations

import random

import pytest

from harness.contracts.reading import Reading, SessionSummary, StoredRun, UsedTokens, counts_of
from harness.events import Usage
from harness.histories.catalogue_writer import CatalogueWriter, in_memory

_CALL = Usage(input=100, output=11)


def _reading(session: int, own: int) -> Reading:
    """Two runs that all have copies of, then those of its own."""
    keys = ["shared 1", "shared 2", *(f"{session} {number}" for number in range(own))]
    runs = [StoredRun(number, number * 1000, key) for number, key in enumerate(keys, start=1)]
    used = [UsedTokens(one.prompt, one.number, one.started_ms, "m", counts_of(_CALL)) for one in runs]
    return Reading(SessionSummary(), [], used, runs=runs)


@pytest.mark.parametrize("seed", range(10))
def test_a_fork_of_a_fork_stays_linked_with_the_first_session_when_others_are_read_again(seed: int) -> None:
    source, connection = random.Random(seed), in_memory()
    writer = CatalogueWriter(connection)
    sessions = (1, 2, 3, 4)
    order = [*sessions, *(source.choice(sessions) for _ in range(12))]
    for step, session in enumerate(order, start=1):
        writer.add(session, "opencode", _reading(session, order[:step].count(session)))
        assert not writer.give_back(session)
        (total,) = connection.execute("SELECT sum(input) FROM used").fetchone()
        assert total == (2 + step) * 100  # each shared call once, and one of its own for each time
    group = {(1, 1)}
    links = [(row[:2], row[2:]) for row in connection.execute("SELECT * FROM copies")]
    for _ in sessions:
        group |= {part for link in links if group & {*link} for part in link}
    assert group == {(session, 1) for session in sessions}
