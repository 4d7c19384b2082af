"""What a person should hear of: errors, warnings, remarks, and what nobody could read."""

from __future__ import annotations

from typing import Any

from harness.events.envelope import Event


class Error(Event, frozen=True, kw_only=True):
    message: str
    code: str = ""


class Warning(Event, frozen=True, kw_only=True):
    message: str
    code: str = ""


class Info(Event, frozen=True, kw_only=True):
    message: str
    code: str = ""


class Unknown(Event, frozen=True, kw_only=True):
    """A native record, or a part of one, that no rule knows: kept whole."""

    raw: Any
    reason: str = ""
