"""Workers as processes of this machine: each end is said once, however the system reports it."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

import small_fleet
from harness.fleet.engines.local import LocalEngine
from harness.system.contract import system
from small_fleet import SOLVES

_LONGEST_S = 60.0


def test_a_worker_whose_end_is_reported_late_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = small_fleet.plan(
        tmp_path, [small_fleet.variant(tmp_path, SOLVES)], [small_fleet.task("a"), small_fleet.task("b")]
    )
    fleet = small_fleet.fleet(tmp_path, plan)
    readable, writable = os.pipe()
    descriptors = iter([None, readable])
    monkeypatch.setattr(system, "watch_process", lambda pid: next(descriptors))
    engine = LocalEngine(fleet)
    first, second = fleet.plan.cases.values()
    engine.start(first)
    engine.start(second)
    while len(fleet.records.results()) < 2:
        time.sleep(0.02)
    ends = time.monotonic() + _LONGEST_S
    names: list[str] = []
    while not names and time.monotonic() < ends:
        names += [case_id for case_id, _how in engine.ended(0.0)]
    os.close(writable)  # now the other one is reported, too
    while len(names) < 2 and time.monotonic() < ends:
        names += [case_id for case_id, _how in engine.ended(0.1)]
    assert names == [first.id, second.id]
    assert engine.ended(0.0) == []
    engine.close()
