"""What a run costs whose agent does not say: from prices, and marked so wherever it is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent_runs import end_of, of
from harness import FileStore, Limits, Request, start
from harness.events import Error, Event, Warning
from harness.runs.audit import check
from showing import shown_bytes

SAYS = """#!/bin/sh
echo '{"type":"init","session_id":"s","model":"%s"}'
echo '{"type":"message","role":"assistant","content":"Hi.","delta":true}'
echo '{"type":"result","status":"success","stats":%s}'
"""


@pytest.fixture(autouse=True)
def priced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "config" / "harness"
    folder.mkdir(parents=True)
    (folder / "prices.toml").write_text('[prices."otter-1"]\ninput = 2.0\noutput = 10.0\ncache_read = 0.5\n')
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def gemini(folder: Path, model: str, **limits: Any) -> tuple[list[Event], FileStore]:
    used = {"input_tokens": 1_500_000, "output_tokens": 100_000, "cached": 500_000, "input": 1_000_000}
    stats = {
        "total_tokens": 1_600_000,
        **used,
        "duration_ms": 5,
        "models": {model: {**used, "total_tokens": 1_600_000}},
    }
    binary = folder / "gemini"
    binary.write_text(SAYS % (model, json.dumps(stats)))
    binary.chmod(0o755)
    store = FileStore(str(folder / "sessions"))
    request = Request(
        agent="gemini", prompt="go", binary=str(binary), cwd=str(folder), limits=Limits(**limits)
    )
    run = start(request, store=store)
    events = list(run)
    assert not check(store, run.id).problems
    return events, store


def test_a_cost_that_the_agent_does_not_state_is_computed_and_says_so(tmp_path: Path) -> None:
    events, store = gemini(tmp_path, "otter-1")
    end = end_of(events)
    expected = 2.0 + 0.25 + 1.0

    assert end.total_cost_usd == pytest.approx(expected)
    assert end.usage is not None
    assert (end.usage.cost_usd, end.usage.cost_source) == (pytest.approx(expected), "computed")
    line = json.loads(shown_bytes("stream", events).split(b"\n")[-2])
    assert (line["total_cost_usd"], line["cost_source"]) == (pytest.approx(expected), "computed")
    report = json.loads(shown_bytes("result", events))
    assert (report["total_cost_usd"], report["cost_source"]) == (pytest.approx(expected), "computed")
    assert json.loads(shown_bytes("usage", events))["total"]["cost_source"] == "computed"
    [metadata] = store.list()
    assert (metadata.total_cost_usd, metadata.cost_source) == (pytest.approx(expected), "computed")


def test_a_model_without_a_price_has_no_cost(tmp_path: Path) -> None:
    events, _ = gemini(tmp_path, "badger-1")

    assert end_of(events).total_cost_usd is None
    assert b"cost_source" not in shown_bytes("stream", events)


SPENDS = """#!/bin/sh
case "$1" in --version) echo 1.18.33; exit 0;; esac
echo '{"type":"step_start","sessionID":"s","part":{"id":"p1"}}'
echo '{"type":"step_finish","sessionID":"s","part":{"id":"p2","reason":"tool-calls","cost":0,"tokens":{"input":600000,"output":0}}}'
exec sleep 300
"""


STEP = '{"type":"step_finish","sessionID":"s","part":{"id":"%s","reason":"stop","cost":%s,"tokens":{"input":%d,"output":0}}}'


def _opencode(folder: Path, *steps: str) -> Any:
    binary = folder / "opencode"
    lines = ['{"type":"step_start","sessionID":"s","part":{"id":"p0"}}', *steps]
    said = "\n".join(f"echo '{line}'" for line in lines)
    binary.write_text(f'#!/bin/sh\ncase "$1" in --version) echo 1.18.33; exit 0;; esac\n{said}\n')
    binary.chmod(0o755)
    request = Request(agent="opencode", prompt="go", model="otter-1", binary=str(binary), cwd=str(folder))
    return end_of(list(start(request, store=FileStore(str(folder / "sessions")))))


def test_calls_without_a_stated_cost_are_computed_beside_those_that_have_one(tmp_path: Path) -> None:
    end = _opencode(tmp_path, STEP % ("p1", "0.25", 5), STEP % ("p2", "0", 500_000))
    assert (end.total_cost_usd, end.usage.cost_source) == (pytest.approx(1.25), "computed")
    end = _opencode(tmp_path, STEP % ("p1", "0.25", 5))
    assert (end.total_cost_usd, end.usage.cost_source) == (0.25, "stated")


def test_a_budget_counts_what_was_computed(tmp_path: Path) -> None:
    binary = tmp_path / "opencode"
    binary.write_text(SPENDS)
    binary.chmod(0o755)
    limits = Limits(max_budget_usd=1.0)
    run = start(
        Request(
            agent="opencode",
            prompt="go",
            model="otter-1",
            binary=str(binary),
            cwd=str(tmp_path),
            limits=limits,
        ),
        store=FileStore(str(tmp_path / "sessions")),
    )
    events = list(run)

    assert [error.code for error in of(Error, events)] == ["max_budget"]
    assert (end_of(events).outcome, end_of(events).total_cost_usd) == ("limit_exceeded", pytest.approx(1.2))


@pytest.mark.parametrize(
    ("model", "limits", "codes"),
    [
        ("badger-1", {"max_budget_usd": 1.0}, ["budget_unpriced"]),
        ("badger-1", {}, []),
        ("otter-1", {"max_budget_usd": 9.0}, []),
    ],
)
def test_a_budget_that_does_not_count_a_model_says_so(
    tmp_path: Path, model: str, limits: dict[str, Any], codes: list[str]
) -> None:
    binary = tmp_path / "opencode"
    binary.write_text(SPENDS.replace("exec sleep 300", "exit 0"))
    binary.chmod(0o755)
    store = FileStore(str(tmp_path / "sessions"))
    request = Request(
        agent="opencode",
        prompt="go",
        model=model,
        binary=str(binary),
        cwd=str(tmp_path),
        limits=Limits(**limits),
    )
    run = start(request, store=store)
    warnings = [event for event in run if isinstance(event, Warning)]
    assert [warning.code for warning in warnings if "price" in warning.message] == codes
    assert not check(store, run.id).problems
