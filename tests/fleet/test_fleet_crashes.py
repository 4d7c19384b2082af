"""Schedulers and workers that are killed at random moments lose nothing and do nothing twice.

`python tests/fleet/crashes.py --sequences 100` does the same for longer.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import postgres_server
from crashes import KINDS, Sequence


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_a_fleet_survives_whatever_is_killed(tmp_path: Path, seed: int) -> None:
    sequence = Sequence(tmp_path, seed, cases=4, kills=4)
    sequence.run()
    assert sequence.killed == Counter(sequence.kinds)
    assert sequence.killed.keys() == set(KINDS)
    assert sequence.check() == []


@pytest.mark.slow
def test_two_schedulers_share_a_fleet_in_a_database(tmp_path: Path) -> None:
    sequence = Sequence(tmp_path, 3, cases=4, kills=3, database=postgres_server.url())
    sequence.run(schedulers=2)
    assert sequence.killed == Counter(sequence.kinds)
    assert sequence.check() == []
