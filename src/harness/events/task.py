"""The agent's own to-do list."""

from __future__ import annotations

from typing import Literal

import msgspec

from harness.events.envelope import Event


class Task(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    text: str
    status: Literal["pending", "in_progress", "completed"] = "pending"
    id: str = ""
    active_form: str = ""
    """What is said while it is being worked on."""


class TasksChanged(Event, frozen=True, kw_only=True):
    """The whole list as it is now."""

    tasks: list[Task]
