"""The doctor's comparison of an agent's store with the live log of the same run."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from harness.contracts.history import AgentHistory
from harness.events import Event, Result, ToolEnd, Unknown
from harness.histories.registry import load
from harness.lab.store_run import store_findings

sys.path.insert(0, str(Path(__file__).parents[1] / "histories"))
from stored_homes import HomeCase, cases, opened, sessions

TOOLS = [case for case in cases() if str(case).endswith("/tools") and case.content["live"]]


def _both(case: HomeCase, directory: Path) -> tuple[AgentHistory, list[Event], list[Event]]:
    (live,) = case.live_runs()
    (session,) = [one for one in sessions(case, case.unpack(directory)) if not one.is_child]
    history = load(case.agent)
    assert history is not None
    return history, live, [*opened(case, session).events()]


@pytest.mark.parametrize("case", TOOLS, ids=str)
def test_a_store_of_a_run_that_nothing_disturbs_says_what_the_live_log_says(
    case: HomeCase, tmp_path: Path
) -> None:
    assert store_findings(*_both(case, tmp_path)) == []


def test_what_a_store_no_longer_has_or_has_otherwise_is_found(tmp_path: Path) -> None:
    case = next(case for case in TOOLS if case.agent == "claude")
    history, live, stored = _both(case, tmp_path)
    without = [event for event in stored if not isinstance(event, ToolEnd)]
    (finding, *_more) = store_findings(history, live, without)
    assert (finding.kind, "does not have a ToolEnd" in finding.what) == ("degraded", True)
    changed = [replace(event, text="other") if isinstance(event, Result) else event for event in stored]
    assert [one.kind for one in store_findings(history, live, changed)] == ["degraded", "wrong"]
    news = Unknown(raw={"type": "brand-new"})
    assert [one.what for one in store_findings(history, live, [*stored, news])] == [
        "unknown record type 'brand-new' in the store"
    ]
