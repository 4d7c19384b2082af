"""A limit holds before the call that would exceed it: the provider never sees that one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gateway_place import Place
from harness.contracts.request import GatewayOptions, Limits, Request
from harness.errors import UsageError
from harness.events import ModelCall, Warning
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
        **{"model": "claude-sonnet-4-5", "gateway": GatewayOptions(), **options},
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


def test_a_limit_that_cannot_hold_is_refused_before_anything_starts(place: Place) -> None:
    with pytest.raises(UsageError) as caught:
        _run(place, model="anthropic/otter-1", limits=Limits(max_budget_usd=1.0))
    assert "the model otter-1 has no price" in caught.value.words
    assert '[prices."otter-1"]' in caught.value.words
    assert not place.lab.requests


def test_another_model_that_answers_needs_a_price_too(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-a-test-0123456789")
    with pytest.raises(UsageError, match="the model otter-1 has no price"):
        _run(place, model="openai/otter-1", limits=Limits(max_budget_usd=1.0))


def test_without_a_limit_no_price_is_needed(place: Place) -> None:
    result, _ = _run(place, model="anthropic/otter-1")
    assert result.outcome == "completed"


def test_a_price_of_the_settings_makes_the_limit_hold(place: Place, tmp_path: Path) -> None:
    (tmp_path / "config/harness/config.toml").write_text(PRICES.replace("claude-sonnet-4-5", "otter-1"))
    result, calls = _run(place, model="anthropic/otter-1", limits=Limits(max_budget_usd=50.0))
    assert result.outcome == "completed"
    assert result.total_cost_usd == pytest.approx(3.75)
    assert len(calls) == 3


def test_a_call_of_a_model_without_a_price_is_not_made(place: Place) -> None:
    request = Request(
        agent="claude",
        prompt="Go.",
        cwd=str(place.cwd),
        model="otter-1",  # a short name could be one that the agent alone knows
        gateway=GatewayOptions(),
        limits=Limits(max_budget_usd=1.0),
    )
    run = start(request, store=place.store)
    events = list(run)
    assert run.wait().outcome != "completed"
    assert not place.lab.requests
    calls = [event for event in events if isinstance(event, ModelCall)]
    assert {(call.status, call.origin) for call in calls} == {(402, "gateway")}
    (warning,) = (event for event in events if isinstance(event, Warning) and event.code == "budget_unpriced")
    assert '[prices."otter-1"]' in warning.message


def test_after_an_answer_that_could_not_be_counted_no_other_call_is_made(
    place: Place, tmp_path: Path
) -> None:
    # The answers say that 200 tokens came from the cache, for which there is no price.
    (tmp_path / "config/harness/config.toml").write_text(PRICES.replace("cache_read = 1000.0\n", ""))
    result, calls = _run(place, limits=Limits(max_budget_usd=50.0))
    assert result.outcome != "completed"
    assert (calls[0].status, calls[-1].status) == (200, 402)


def test_a_model_that_costs_nothing_needs_no_price(place: Place, tmp_path: Path) -> None:
    script = tmp_path / "says.json"
    events = [{"type": "text", "content": "Done."}, {"type": "usage", "inputTokens": 9}]
    script.write_text(json.dumps({"responses": [{"events": events}]}))
    result, calls = _run(place, model=f"scripted/{script}", limits=Limits(max_budget_usd=0.5))
    assert (result.outcome, [call.status for call in calls]) == ("completed", [200])
