"""What the model has to be told of the state of things: its task list and its objective, as far as it changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from harness.events import Signal, Task
from harness.session.builtin.task_signal import TaskSignal
from harness.session.goals import Objective, objective_update
from harness.session.state_lanes import IsVisible, StateLanes


def state_signals(
    lanes: StateLanes,
    tasks: Sequence[Task],
    objective: Objective | None,
    *,
    max_runs: int,
    is_visible: IsVisible,
    new_id: Callable[[], str],
) -> list[Signal]:
    """To be put before the model in this order; empty when it knows everything.

    Whoever puts them into the log feeds them to the lanes from there: asking twice before that tells twice.
    """
    updates = (
        TaskSignal().update(lanes.lane(TaskSignal.id), tasks, is_visible),
        objective_update(lanes.lane("goal"), objective, max_runs, is_visible),
    )
    signals = (
        lanes.signal(update, id=new_id(), is_visible=is_visible) for update in updates if update is not None
    )
    return [signal for signal in signals if signal is not None]
