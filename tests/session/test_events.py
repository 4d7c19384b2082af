"""The events of a session as a closed set of classes, for programs that are checked for types."""

from __future__ import annotations

from typing import get_args

import harness
from harness.folds.session.event import HarnessEvent
from harness.folds.session.parts import Part
from harness.session import events
from harness_kit import Model, call, opened, run


def _words(event: harness.SessionEvent) -> str:
    """Checked for types like any program: every field is known."""
    match event:
        case events.TextPart(text=text):
            return text
        case events.ToolStartEvent():
            return event.tool_name
        case events.AgentEndEvent(reason=reason):
            return reason or ""
        case _:
            return ""


def test_listeners_can_distinguish_events_by_class() -> None:
    async def work() -> None:
        said: list[str] = []
        async with opened(Model(call("task_check"), "Done.")) as (one, _):
            one.subscribe(lambda event: said.append(_words(event)))
            await one.send_message(content="go")
        assert [word for word in said if word] == ["task_check", "Done.", "complete"]

    run(work)


def test_any_event_is_one_of_all_that_there_are() -> None:
    known = set(get_args(events.SessionEvent))
    assert set(events.EVENTS.values()) == known
    emitted = {
        kind
        for kind in HarnessEvent.__subclasses__()
        if kind is not Part and not kind.__name__.startswith("_") and kind.__module__.startswith("harness")
    }
    assert emitted <= known
