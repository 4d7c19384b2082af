"""Tasks and objective in a real conversation: sent when they change, and not again while the model sees them."""

from __future__ import annotations

import asyncio
from itertools import count

from harness.contracts.model import UserTurn
from harness.events import Signal, Task
from harness.session.goals import Objective
from harness.session.run_hooks import state_signals
from harness.session.state import StateLanes
from thread_kit import Asked, ParentThread

OBJECTIVE = Objective(objective="ship it", status="active", runs_used=0, started_at=1, updated_at=1, id="g")


def test_the_model_is_informed_once_and_only_of_changes() -> None:
    model = Asked("one", "two", "three")

    async def go() -> list[int]:
        thread = ParentThread(model, ())
        lanes, numbers = StateLanes(), count()
        emitted: list[int] = []
        for status in ("pending", "pending", "completed"):
            assert thread.current is not None
            seen = {entry.message_id for entry in thread.current.entries}
            signals = state_signals(
                lanes,
                [Task(text="Fix", id="fix", status=status)],
                OBJECTIVE,
                max_runs=5,
                is_visible=seen.__contains__,
                new_id=lambda: f"s{next(numbers)}",
            )
            for signal in signals:
                thread.current.add(signal)
            emitted.append(len(signals))
            await thread.send("go")
            for event in thread.log():
                if isinstance(event, Signal) and event.id in {signal.id for signal in signals}:
                    lanes.feed(event)
        return emitted

    assert asyncio.run(go()) == [2, 0, 1]
    texts = [turn.text for turn in model.asked[-1][0] if isinstance(turn, UserTurn)]
    assert texts == [
        '<current-task-list count="1">\n  ○ [pending] {id: fix} Fix\n</current-task-list>',
        '<current-objective status="active" runsUsed="0" maxRuns="5">\n  ship it\n</current-objective>',
        "go",
        "go",
        '<task-list-update changes="1">\n  ✓ {id: fix} [completed] Fix\n</task-list-update>',
        "go",
    ]
