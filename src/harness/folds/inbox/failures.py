"""Why a run ended as it did, in one line for people: what happened, and what to do next where that is known."""

from __future__ import annotations

import re

from harness.formatting.escapes import single_line

LOST = "lost"
"""The code of the `Error` with which the log of a process that died is completed."""
PROGRAM_CLOSED = "program_closed"
"""The code of the `Warning` that a program writes when it is closed while a run of it works."""

_LONGEST = 300
_WORDS = {
    "timed_out": "timed out",
    "stalled": "stopped: it wrote nothing",
    "limit_exceeded": "reached its limit",
    "agent_not_found": "the agent is not installed",
    "spawn_failed": "the agent could not be started",
}
_TIMED = frozenset(("timed_out", "stalled"))
_FAILED = re.compile(r"^(?:error|failed)\s*:\s*", re.IGNORECASE)
"""What the word before it says already."""
_LOGIN = re.compile(
    r"authenticat|\b401\b|unauthori[sz]ed|not logged in|log ?in again|sign ?in again|please (?:log|sign) ?in"
    r"|(?:run|use) /login|(?:login|session|token|credentials?) (?:has |have )?expired|invalid (?:api key|x-api-key)"
    r"|(?:api key|token) (?:is )?(?:invalid|not valid)",
    re.IGNORECASE,
)


def failure_text(outcome: str, error: str, duration_ms: int | None) -> str:
    text = _WORDS.get(outcome, outcome.replace("_", " "))
    if outcome in _TIMED:
        return f"{text} after {_rough(duration_ms)}" if duration_ms else text
    reason = _first_line(error)
    if reason and outcome != "failed":
        text = f"{text}: {reason}"
    elif reason:
        text = _FAILED.sub("", reason) or reason
    return text


def login_hint(error: str, login: str) -> str:
    """What to do where the provider did not accept who asked. `login`: how one logs in to the agent, if that is known."""
    return f"Log in again: {login}" if login and _LOGIN.search(error) else ""


def _rough(duration_ms: int) -> str:
    """30 min, 45 s, 2 h 05 min."""
    seconds = round(duration_ms / 1000)
    if seconds < 60:
        return f"{seconds} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min"


def _first_line(text: str) -> str:
    line = next((line.strip() for line in text.split("\n") if line.strip()), "")
    line = single_line(line)
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"
