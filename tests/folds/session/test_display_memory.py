"""What is shown of observational memory."""

from __future__ import annotations

from typing import Any

import pytest

from harness.folds.session import events as wire
from harness.folds.session.display import DisplayState, reduce
from harness.folds.session.encoding import to_wire
from harness.folds.session.events import HarnessEvent


def shown(*events: HarnessEvent, state: DisplayState | None = None) -> DisplayState:
    state = state or DisplayState()
    for event in events:
        reduce(state, event)
    return state


def status(windows: Any) -> wire.OmStatusEvent:
    return wire.OmStatusEvent(
        windows=windows, record_id="r", thread_id="t", step_number=3, generation_count=2
    )


def observation_start() -> wire.OmObservationStartEvent:
    return wire.OmObservationStartEvent(
        cycle_id="c", operation_type="observation", tokens_to_observe=9, timestamp=77
    )


def test_a_status_is_taken_over_with_its_percents() -> None:
    state = shown(
        status(
            {
                "active": {
                    "messages": {"tokens": 15000, "threshold": 30000},
                    "observations": {"tokens": 10, "threshold": 0},
                },
                "buffered": {
                    "observations": {
                        "status": "running",
                        "chunks": 2,
                        "messageTokens": 3,
                        "projectedMessageRemoval": 4,
                        "observationTokens": 5,
                    },
                    "reflection": {"status": "complete", "inputObservationTokens": 6, "observationTokens": 7},
                },
            }
        )
    )

    progress = to_wire(state.om_progress)
    assert (progress["pendingTokens"], progress["threshold"], progress["thresholdPercent"]) == (
        15000,
        30000,
        50,
    )
    assert (progress["observationTokens"], progress["reflectionThresholdPercent"]) == (10, 0)
    assert progress["buffered"]["observations"] == {
        "status": "running",
        "chunks": 2,
        "messageTokens": 3,
        "projectedMessageRemoval": 4,
        "observationTokens": 5,
    }
    assert (progress["stepNumber"], progress["generationCount"]) == (3, 2)
    assert (state.buffering_messages, state.buffering_observations) == (True, False)


@pytest.mark.parametrize(
    "windows", [{}, {"active": 7}, {"active": {"messages": {"tokens": "x"}}, "buffered": []}]
)
def test_a_status_that_says_nothing_is_no_reason_to_fail(windows: Any) -> None:
    assert shown(status(windows)).om_progress.pending_tokens == 0


def test_an_observation_is_shown_as_long_as_it_lasts() -> None:
    state = shown(observation_start())
    progress = state.om_progress
    assert (progress.status, progress.cycle_id, progress.start_time) == ("observing", "c", 77)
    shown(
        wire.OmObservationEndEvent(cycle_id="c", duration_ms=1, tokens_observed=9, observation_tokens=4000),
        state=state,
    )
    assert (progress.status, progress.observation_tokens, progress.pending_tokens) == ("idle", 4000, 0)
    assert progress.reflection_threshold_percent == 10
    assert "cycleId" not in to_wire(progress)


def test_an_observation_that_failed_is_over() -> None:
    failed = wire.OmObservationFailedEvent(cycle_id="c", error="x", duration_ms=1)

    assert shown(observation_start(), failed).om_progress.status == "idle"


def test_a_reflection_shows_what_it_makes_of_the_notes() -> None:
    state = shown(
        wire.OmObservationEndEvent(cycle_id="c", duration_ms=1, tokens_observed=9, observation_tokens=400),
        wire.OmReflectionStartEvent(cycle_id="d", tokens_to_reflect=500),
    )
    progress = state.om_progress
    assert (progress.status, progress.pre_reflection_tokens, progress.observation_tokens) == (
        "reflecting",
        400,
        500,
    )
    shown(wire.OmReflectionEndEvent(cycle_id="d", duration_ms=1, compressed_tokens=100), state=state)
    assert (progress.status, progress.observation_tokens) == ("idle", 100)
    shown(
        wire.OmReflectionStartEvent(cycle_id="d", tokens_to_reflect=5),
        wire.OmReflectionFailedEvent(cycle_id="d", error="x", duration_ms=1),
        state=state,
    )
    assert progress.status == "idle"


@pytest.mark.parametrize(("operation", "flag"), [("observation", "messages"), ("reflection", "observations")])
@pytest.mark.parametrize("end", ["end", "failed", "activation"])
def test_buffering_is_shown_as_long_as_it_lasts(operation: Any, flag: str, end: str) -> None:
    of = {"cycle_id": "c", "operation_type": operation}
    ends: dict[str, HarnessEvent] = {
        "end": wire.OmBufferingEndEvent(**of, tokens_buffered=1, buffered_tokens=1),
        "failed": wire.OmBufferingFailedEvent(**of, error="x"),
        "activation": wire.OmActivationEvent(
            **of,
            chunks_activated=1,
            tokens_activated=1,
            observation_tokens=1,
            messages_activated=1,
            generation_count=1,
        ),
    }
    state = shown(wire.OmBufferingStartEvent(**of, tokens_to_buffer=1))
    assert getattr(state, f"buffering_{flag}")
    shown(ends[end], state=state)
    assert not getattr(state, f"buffering_{flag}")


def test_thresholds_of_the_state_count_at_once() -> None:
    state = shown(
        status({"active": {"messages": {"tokens": 50, "threshold": 100}, "observations": {"tokens": 10}}}),
        wire.StateChangedEvent(
            state={"observationThreshold": 200, "reflectionThreshold": 40, "other": 1},
            changed_keys=["observationThreshold", "reflectionThreshold"],
        ),
    )

    progress = state.om_progress
    assert (progress.threshold, progress.threshold_percent) == (200, 25)
    assert (progress.reflection_threshold, progress.reflection_threshold_percent) == (40, 25)
    shown(
        wire.StateChangedEvent(state={"observationThreshold": "many"}, changed_keys=["observationThreshold"]),
        wire.StateChangedEvent(state={"observationThreshold": 7}, changed_keys=["x"]),
        state=state,
    )
    assert progress.threshold == 200
