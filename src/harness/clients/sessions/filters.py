"""Which sessions are meant, and whether one of the store is."""

from __future__ import annotations

import argparse
import os
import re
import time
from typing import TYPE_CHECKING, NamedTuple

from harness.system.plain_text import plain_text

if TYPE_CHECKING:
    from harness.log.store import Metadata

_UNIT_S = {"m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
OUTCOMES = (
    "waiting",
    "running",
    "completed",
    "failed",
    "timed_out",
    "stalled",
    "limit_exceeded",
    "interrupted",
    "unknown",
)


_SAME = {"succeeded": "completed"}
"""What lists call an outcome → its name."""


class SessionChoice(NamedTuple):
    """Which sessions are meant: what is not given does not matter."""

    agent: str = ""
    outcome: str = ""
    tags: tuple[str, ...] = ()
    since_ms: int | None = None
    """When it started."""
    until_ms: int | None = None
    project: str = ""
    model: str = ""
    is_live: bool = False
    has_all: bool = False
    """Also sessions of sub-agents, and those that their agent has deleted."""


def moment_ms(text: str) -> int:
    """A date, `today`, or so many minutes, hours, days or weeks ago; milliseconds since the epoch."""
    if (ago := re.fullmatch(r"(\d{1,6})([mhdw])", text)) is not None:
        return int((time.time() - int(ago[1]) * _UNIT_S[ago[2]]) * 1000)
    date = time.strftime("%Y-%m-%d") if text == "today" else text
    try:
        return int(time.mktime(time.strptime(date, "%Y-%m-%d")) * 1000)
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(
            f"a date like 2026-08-31, today, or 30m, 12h, 7d, 4w was expected, not {text!r}"
        ) from None


def checked(choice: SessionChoice) -> SessionChoice:
    """With the agent's own name and the outcome's. Raises UsageError, UnknownAgent."""
    from harness.agents.registry import load
    from harness.errors import UsageError

    outcome = choice.outcome.replace(" ", "_").replace("-", "_")
    outcome = _SAME.get(outcome, outcome)
    if outcome not in ("", *OUTCOMES):
        hint = f"expected one of: {', '.join(OUTCOMES)}"
        raise UsageError(f"unknown outcome: {outcome}", hint=hint)
    return choice._replace(agent=load(choice.agent).name if choice.agent else "", outcome=outcome)


def is_filtered(choice: SessionChoice) -> bool:
    return choice._replace(has_all=False) != SessionChoice()


def is_meant(metadata: Metadata, choice: SessionChoice) -> bool:
    """Whether a session of the store is."""
    from harness.log.query import age

    created_ms, _ = age(metadata)
    return (
        choice.model.lower() in metadata.model.lower()
        and _is_below(metadata.cwd, choice.project)
        and (not choice.is_live or metadata.outcome in ("running", "waiting"))
        and choice.agent in ("", metadata.agent_name)
        and choice.outcome in ("", metadata.outcome)
        and set(choice.tags) <= set(metadata.tags)
        and (choice.since_ms is None or created_ms >= choice.since_ms)
        and (choice.until_ms is None or created_ms < choice.until_ms)
    )


def _is_below(directory: str, project: str) -> bool:
    """Whether a directory is that of the project, or lies in it."""
    if not project:
        return True
    root = plain_text(os.path.abspath(os.path.expanduser(project)))
    return directory == root or directory.startswith(root.rstrip(os.sep) + os.sep)
