"""Run events through a view and see what a reader sees."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any

from harness.events import Event
from harness.stage import ViewOptions, run_through


def shown(view: str, *events: Event, **options: Any) -> str:
    """Everything that a view of that name writes, as text."""
    return shown_bytes(view, events, **options).decode()


def shown_bytes(view: str, events: Iterable[Event], **options: Any) -> bytes:
    return b"".join(run_through(import_module(f"harness.views.{view}").open(ViewOptions(**options)), events))
