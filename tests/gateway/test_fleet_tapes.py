"""Variants of a fleet that begin with a recorded run: the same state, and another model from there on."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from gateway_place import TURNS, Place
from harness.errors import UsageError
from harness.fleet.plans.plan import FleetPlan, Variant
from harness.fleet.plans.plan_file import PlanText
from harness.fleet.plans.plan_trust import commands_of
from harness.fleet.work import work
from harness.gateway.tape import tape_lines
from harness.log.store import read_all
from harness.log.stores.files import FileStore
from harness.runs.replay_request import recorded_entries, recorded_run

sys.path.insert(0, str(Path(__file__).parents[1] / "fleet"))
import small_fleet


@pytest.fixture
def tape(place: Place) -> str:
    run, _ = place.run()
    path = place.folder / "fix.tape"
    path.write_bytes(b"".join(tape_lines(recorded_entries(recorded_run(place.store, run.id)))))
    return str(path)


def _plan(place: Place, *variants: Variant, prompt: str = "Go.") -> FleetPlan:
    task = small_fleet.task("t", prompt=prompt, workspace=str(place.cwd), check="")
    return small_fleet.plan(place.folder, variants, [task])


def _variant(tape: str, **fields: Any) -> Variant:
    return Variant(**{"name": "fork", "agent": "claude", "tape": tape, "fork_at": 2, **fields})


def test_a_variant_goes_on_where_its_tape_ends(place: Place, tape: str) -> None:
    (place.cwd / "made.txt").unlink()  # what the recorded run has made
    plan = _plan(place, _variant(tape), _variant(tape, name="played", fork_at=None))
    fleet = small_fleet.fleet(place.folder, plan)
    Path(tape).unlink()  # the fleet has a copy of its own
    place.script([*TURNS[:2], {"text": "Another end."}])
    asked = len(place.lab.requests)
    assert [work(fleet, case_id) for case_id in fleet.plan.cases] == [0, 0]
    store = FileStore(plan.sessions)
    ends = sorted(list(read_all(store, one.session_id))[-1].text for one in store.list())  # type: ignore[attr-defined]
    assert ends == ["Another end.", "Done.", "Done."]  # the first was the recorded run
    assert len(place.lab.requests) - asked == 1


def test_a_tape_that_a_case_would_part_from_is_refused_before(place: Place, tape: str) -> None:
    with pytest.raises(UsageError, match="recorded with another prompt than that of t"):
        _plan(place, _variant(tape), prompt="Something else.")
    with pytest.raises(UsageError, match="its tape was recorded with claude"):
        _plan(place, _variant(tape, agent="codex", model="gpt-5.5"))
    with pytest.raises(UsageError, match="fork_at counts the answers of a tape"):
        _plan(place, _variant(""))
    with pytest.raises(UsageError, match="cannot read the tape"):
        _plan(place, _variant(str(place.folder / "none.tape")))


def test_a_case_with_another_tape_is_another_case(place: Place, tape: str) -> None:
    first = _plan(place, _variant(tape))
    text = Path(tape).read_text()
    elsewhere = place.folder / "copy.tape"
    elsewhere.write_text(text)
    assert _plan(place, _variant(str(elsewhere))).cases.keys() == first.cases.keys()
    elsewhere.write_text(text + text.splitlines()[-1] + "\n")
    assert _plan(place, _variant(str(elsewhere))).cases.keys() != first.cases.keys()


def test_a_variant_with_a_tape_is_sealed(place: Place, tape: str) -> None:
    plan = _plan(place, _variant(tape))
    [case] = plan.cases.values()
    request = case.request(plan, str(place.cwd), {})
    assert request.sealed == "write"
    assert request.gateway is not None
    assert request.gateway.fork_at == 2
    assert commands_of(plan) == [f"what the answers recorded in {tape} call for, sealed"]


def test_a_plan_names_the_tape_beside_itself(tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    path.write_text('agents = [{ agent = "claude", tape = "fix.tape", fork_at = 2 }]\n')
    [variant] = PlanText(str(path)).variants()
    assert (variant.tape, variant.fork_at) == (str(tmp_path / "fix.tape"), 2)
