"""What holds for all views, seen on every recording."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import import_module
from pkgutil import iter_modules
from random import Random

import harness.views
import recorded_runs
from harness.agents.registry import names
from harness.events import Event, SessionStart
from harness.log.hub import Hub
from harness.log.store import Metadata
from harness.log.stores.memory import MemoryStore
from harness.stage import ViewOptions, run_through
from harness.testing.golden import Case, translate
from showing import shown_bytes

VIEWS = [module.name for module in iter_modules(harness.views.__path__) if not module.ispkg]
CASES = [case for case in recorded_runs.CASES if case.agent in set(names())]
CHOICES = [
    ViewOptions(),
    ViewOptions(usage=True, reasoning=True, color=True, live=True, width=40),
]
CUTS = 1
"""In how many places each recording is cut, for each view and choice; other places for each of them."""


def test_there_are_the_views_that_a_reader_may_choose() -> None:
    assert set(VIEWS) >= {"stream", "transcript", "text", "markdown", "result", "usage", "log"}


@recorded_runs.each(CASES)
def test_every_beginning_of_a_run_can_be_seen_in_every_view(case: Case) -> None:
    """What was shown of a beginning stays when more comes: only what `finish` adds may differ."""
    _, events = translate(case)
    chance = Random(str(case))
    for view in VIEWS:
        module = import_module(f"harness.views.{view}")
        for options in CHOICES:
            whole = b"".join(run_through(module.open(options), events))
            for end in chance.choices(range(len(events) + 1), k=CUTS):
                stage = module.open(options)
                beginning = b"".join(piece for event in events[:end] for piece in stage.feed(event))
                assert whole.startswith(beginning)
                assert all(isinstance(piece, bytes) for piece in stage.finish())


@recorded_runs.each(CASES)
def test_a_run_looks_the_same_before_and_after_it_was_logged(case: Case) -> None:
    _, events = translate(case)
    if not _session_id(events):
        return  # the log gives it one of its own
    logged = _logged(events)
    for view in ("stream", "text", "markdown", "result", "transcript"):
        assert _anywhere(shown_bytes(view, logged)) == shown_bytes(view, events)


def _anywhere(shown: bytes) -> bytes:
    """Without the name of the log, which only a log has."""
    return re.sub(rb',\s*"log_id": ?"log"', b"", shown)


def _session_id(events: Sequence[Event]) -> str:
    return next(event.session_id for event in events if isinstance(event, SessionStart))


def _logged(events: Sequence[Event]) -> list[Event]:
    """The events as a log has them, at a time that no view shows."""
    store = MemoryStore()
    hub = Hub(store, "log", store.create(Metadata(session_id="log")), clock=lambda: 0)
    hub.source("0198-top").append(events)
    hub.close()
    return [event for batch in hub.batches() for event in batch]
