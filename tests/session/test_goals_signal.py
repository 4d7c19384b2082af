"""What the model is sent about the objective it works toward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness.session.goals import Objective, objective_update
from harness.session.state import StateLanes


def objective(**more: Any) -> Objective:
    return Objective(
        **{
            "objective": "ship it",
            "status": "active",
            "runs_used": 1,
            "started_at": 1,
            "updated_at": 1,
            **more,
        }
    )


def test_the_model_sees_the_objective_and_once_that_there_is_none_any_more() -> None:
    lanes = StateLanes()
    is_visible: Callable[[str], bool] = lambda _: True  # noqa: E731

    def tell(current: Objective | None) -> Any:
        update = objective_update(lanes.lane("goal"), current, 5, is_visible)
        if update is not None:
            signal = lanes.signal(update, id="s", is_visible=is_visible)
            assert signal is not None
            lanes.feed(signal)
        return update

    assert tell(None) is None
    first = tell(objective())
    assert (first.tag_name, first.mode, first.contents) == ("current-objective", "snapshot", "\n  ship it\n")
    assert first.attributes == {"status": "active", "runsUsed": 1, "maxRuns": 5}
    assert tell(objective()) is None
    assert tell(objective(runs_used=2)) is not None
    retracted = tell(objective(status="done"))
    assert (retracted.contents, retracted.attributes) == ("", {"status": "none"})
    assert tell(objective(status="paused")) is None
    assert tell(None) is None


def test_an_objective_that_left_the_window_is_reported_again() -> None:
    lanes = StateLanes()
    update = objective_update(lanes.lane("goal"), objective(), 5, lambda _: True)
    assert update is not None
    signal = lanes.signal(update, id="s", is_visible=lambda _: True)
    assert signal is not None
    lanes.feed(signal)
    assert objective_update(lanes.lane("goal"), objective(), 5, lambda _: False) is not None
