"""Errors of model servers as agents pass them on: JSON, alone or after some words, a status, and what is tried next."""

from __future__ import annotations

import re

from harness.events import Event, Warning
from harness.sources.formats.fields import first_text, record_of
from harness.sources.translation.json_lines import DECODE_ERRORS, decode


def plain(message: str) -> str:
    """An error as a person would tell it."""
    start = message.find("{")
    if start < 0:
        return message
    try:
        told = record_of(decode(message[start:]))
    except (*DECODE_ERRORS, UnicodeEncodeError):
        return message
    inner = first_text(record_of(told.get("error")), "message") or first_text(told, "message", "error")
    return message[:start] + inner if inner else message


def code_of(message: str, otherwise: str) -> str:
    """The status that the message begins with."""
    status = re.match(r"(\d{3})\b", message)
    return f"http_{status[1]}" if status is not None else otherwise


def retried(
    failure: str, attempt: int | None, most: int | None, delay_ms: float | None, *, counted: str = "retry"
) -> list[Event]:
    """The model is asked again; `counted` is what the numbers count."""
    which = f"; {counted} {attempt} of {most}" if attempt and most else ""
    when = "" if delay_ms is None else f" in {delay_ms / 1000:.1f} s"
    return [Warning(message=f"{failure}{which}{when}", code="retry")]
