"""ATIF: the rules of the format, on every recording and on a run that is known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import atif
import pytest
from pydantic import ValidationError

from harness.events import (
    Event,
    Message,
    Result,
    SessionStart,
    StepStart,
    TextDelta,
    TextRetracted,
    ToolEnd,
    ToolStart,
    Usage,
    UsageDelta,
)
from harness.log import codec
from harness.stage import run_through
from harness.views.atif import AtifView
from standard_logs import everything, on_each

RECORDINGS = sorted((Path(__file__).parents[1] / "agents").glob("*/*/*/events.ndjson"))
AGENT_ONLY = {"model_name", "reasoning_effort", "reasoning_content", "tool_calls", "metrics"}


def _document(events: Any) -> dict[str, Any]:
    view = AtifView()
    for event in events:
        assert not view.feed(event)
    (data,) = view.finish()
    atif.Trajectory.model_validate_json(data)
    found: dict[str, Any] = json.loads(data)
    return found


def _check(document: dict[str, Any]) -> int:
    """How many calls it has."""
    assert document["schema_version"] == "ATIF-v1.8"
    assert document["agent"]["name"]
    steps = document["steps"]
    assert [step["step_id"] for step in steps] == list(range(1, len(steps) + 1))
    calls = 0
    for step in steps:
        assert step["source"] in {"system", "user", "agent"}
        assert step["source"] == "agent" or not AGENT_ONLY & step.keys()
        ids = [call["tool_call_id"] for call in step.get("tool_calls", [])]
        calls += len(ids)
        assert all(isinstance(call["arguments"], dict) for call in step.get("tool_calls", []))
        assert {one["source_call_id"] for one in step.get("observation", {}).get("results", [])} <= set(ids)
    return calls + sum(map(_check, document.get("subagent_trajectories", [])))


@pytest.mark.parametrize("agent", sorted({path.parents[2].name for path in RECORDINGS}))
def test_every_recording_is_a_trajectory_with_all_of_its_calls(agent: str) -> None:
    for path in RECORDINGS:
        if path.parents[2].name == agent:
            events = [codec.decode(line) for line in path.read_bytes().split(b"\n") if line]
            starts = len({event.call_id for event in events if isinstance(event, ToolStart)})
            assert _check(_document(events)) >= starts


def test_a_sub_agent_is_a_trajectory_of_its_own() -> None:
    run = [
        SessionStart(run_id="top", agent="x", version="1", model="m", timestamp_ms=0),
        Message(run_id="top", role="user", text="Do it."),
        TextDelta(run_id="top", id="t", text="Wrong."),
        TextRetracted(run_id="top", id="t"),
        ToolStart(run_id="top", call_id="c", tool_name="task", input="text"),
        SessionStart(run_id="kid", parent_id="c", name="helper"),
        UsageDelta(run_id="kid", usage=Usage(input=1, cost_usd=0.5)),
        Result(run_id="kid", success=True),
        ToolEnd(run_id="top", call_id="c", tool_name="task", success=True, output="done"),
        UsageDelta(run_id="top", usage=Usage(input=10, cache_read=5, output=2, reasoning=1, cost_usd=1.0)),
        Result(run_id="top", success=True),
    ]
    document = _document(run)
    agent = document["steps"][1]
    assert (agent["message"], agent["tool_calls"][0]["arguments"]) == ("", {"value": "text"})
    assert agent["metrics"] == {
        "prompt_tokens": 15,
        "completion_tokens": 3,
        "cached_tokens": 5,
        "cost_usd": 1.0,
        "extra": {"reasoning": 1},
    }
    assert agent["observation"]["results"][0]["subagent_trajectory_ref"] == [{"trajectory_id": "kid"}]
    (kid,) = document["subagent_trajectories"]
    assert kid["agent"]["extra"] == {"name": "helper"}
    assert document["final_metrics"]["total_cost_usd"] == 1.5


@on_each
def test_the_official_validator_takes_every_log(log: list[Event]) -> None:
    for data in run_through(AtifView(), log):
        atif.Trajectory.model_validate_json(data)


def test_questions_and_files_are_in_it() -> None:
    document = _document(everything())
    text = json.dumps(document)
    assert "relay" in {notice["level"] for notice in document["extra"]["notices"]}
    assert '"type": "image"' in text


def test_a_step_is_a_model_call_where_the_log_says_so() -> None:
    run = [
        SessionStart(run_id="t", agent="native"),
        StepStart(run_id="t", id="1"),
        Message(run_id="t", role="assistant", text="two calls"),
        *(
            event
            for call in "ab"
            for event in (
                ToolStart(run_id="t", call_id=call, tool_name="read"),
                ToolEnd(run_id="t", call_id=call, tool_name="read", success=True, output=call),
            )
        ),
        StepStart(run_id="t", id="2"),
        Message(run_id="t", role="assistant", text="done"),
        Result(run_id="t", success=True),
    ]
    first, second = _document(run)["steps"]
    assert [call["tool_call_id"] for call in first["tool_calls"]] == ["a", "b"]
    assert second["message"] == "done"


def test_sounds_have_the_names_of_the_format() -> None:
    parts = [{"mediaType": "audio/x-wav", "data": "AA=="}, {"mediaType": "audio/unheard-of", "data": "AA=="}]
    run = [SessionStart(run_id="t", agent="x"), Message(run_id="t", role="user", text="hear", parts=parts)]
    (step,) = _document(run)["steps"]
    assert [part.get("source", {}).get("media_type") for part in step["message"]] == [None, "audio/wav"]


def _with_step(**fields: Any) -> dict[str, Any]:
    step = {"step_id": 1, "source": "user", "message": "x", **fields}
    return {"steps": [step]}


@pytest.mark.parametrize(
    "change",
    [
        {"agent": {}},
        {"surprise": 1},
        _with_step(step_id=2),
        _with_step(source="person"),
        _with_step(metrics={"prompt_tokens": 1}),
    ],
)
def test_what_breaks_a_rule_is_refused(change: dict[str, Any]) -> None:
    document = _document(everything())
    with pytest.raises(ValidationError):
        atif.Trajectory.model_validate(document | change)
