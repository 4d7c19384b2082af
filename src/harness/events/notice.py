"""Notices for people (errors, warnings, remarks), and what could not be read."""

from __future__ import annotations

from typing import Any

from harness.events.envelope import Event


class Error(Event, frozen=True, kw_only=True):
    """Something went wrong. It does not end the run: only `Result` does."""

    message: str
    code: str = ""


class Warning(Event, frozen=True, kw_only=True):
    """Something a person should know, though the run continues."""

    message: str
    code: str = ""


class Info(Event, frozen=True, kw_only=True):
    """A remark: nothing is wrong."""

    message: str
    code: str = ""


class Unknown(Event, frozen=True, kw_only=True):
    """A native record, or a part of one, that no rule knows, as it came."""

    raw: Any
    reason: str = ""


class Unrecognized(Event, frozen=True, kw_only=True):
    """An event of a newer version. `unread` holds the whole line; the codec writes exactly that, so that reading and
    writing a log loses nothing.
    """
