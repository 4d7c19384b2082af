"""A limit holds before the call that would exceed it: the provider never sees that one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gateway_place import Place
from harness.contracts.request import GatewayOptions, Limits, Request
from harness.events import ModelCall
from harness.runs.run import start

PRICES = '[prices."claude-sonnet-4-5"]\ninput = 1000.0\noutput = 1000.0\ncache_read = 1000.0\n'


@pytest.fixture(autouse=True)
def _prices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dollar for a thousand tokens."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "config/harness").mkdir(parents=True)
    (tmp_path / "config/harness/config.toml").write_text(PRICES)


def _run(place: Place, **options: Any) -> tuple[Any, list[ModelCall]]:
    request = Request(
        agent="claude",
        prompt="Go.",
        cwd=str(place.cwd),
        model="claude-sonnet-4-5",
        gateway=GatewayOptions(),
        **options,
    )
    run = start(request, store=place.store)
    calls = [event for event in run if isinstance(event, ModelCall)]
    return run.wait(), calls


def test_the_call_too_many_is_refused_before_it_is_made(place: Place) -> None:
    # Each answer costs 1.25 dollars: 1000 tokens, 200 from the cache, 50 written.
    result, calls = _run(place, limits=Limits(max_budget_usd=2.6))
    assert result.outcome != "completed"
    assert len(place.lab.requests) == 2
    assert [call.status for call in calls] == [200, 200, 402]
    assert calls[-1].origin == "gateway"


def test_what_stays_below_the_limit_is_not_touched(place: Place) -> None:
    result, calls = _run(place, limits=Limits(max_budget_usd=50.0))
    assert result.outcome == "completed"
    assert [call.status for call in calls] == [200, 200, 200]
    assert result.total_cost_usd == pytest.approx(3.75)
