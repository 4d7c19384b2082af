"""Sentences of Goose itself within the text of an answer: failures above all, its banner, and refusals.

Its exit code is 0 for nearly all failures, so these sentences are the only sign of them.
"""

from __future__ import annotations

import re

import msgspec

from harness.contracts.translator import Record
from harness.events import Outcome
from harness.formats.fields import record_of


class GooseFailure(msgspec.Struct, frozen=True):
    """Why a run cannot continue."""

    code: str
    outcome: Outcome = "failed"


INTERRUPTED = GooseFailure("interrupted", "interrupted")

_FAILURES: tuple[tuple[str, GooseFailure], ...] = (
    ("A tool call could not be parsed", GooseFailure("truncated_response")),
    ("Headless run interrupted", INTERRUPTED),
    ("I've reached the maximum number of actions", GooseFailure("max_turns", "limit_exceeded")),
    ("Network error:", GooseFailure("network_error")),
    ("Ran into this error trying to compact", GooseFailure("compaction_failed")),
    ("The model returned an empty response", GooseFailure("empty_response")),
    ("The provider refused this request", GooseFailure("refusal")),
    ("Unable to continue: Context limit", GooseFailure("context_limit")),
)
_PROVIDER_ERROR = re.compile(r"Ran into this error: (?:([A-Z][a-z]+(?: [a-z]+){0,3})(?: \(\d{3}\))?:)?")
_OWN_ID = re.compile(r"msg_[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_REFUSALS = (
    "Approval was denied",
    "Let the user know the tool call was skipped in goose chat mode",
    "The user has declined to run this tool",
    "This tool call was denied before execution",
)
NO_ANSWER = "No text content in last message"
"""What a sub-agent answers whose last message is an error, or nothing."""
INTERRUPTION = "Yes — what would you like me to do?"
"""Written without a newline when a signal stops a tool, in front of the next record."""


def failure_of(text: str) -> GooseFailure | None:
    """None: this text does not say that the run has failed."""
    matched = _PROVIDER_ERROR.match(text)
    if matched is not None:
        return GooseFailure(matched[1].lower().replace(" ", "_") if matched[1] else "provider_error")
    return next((failure for start, failure in _FAILURES if text.startswith(start)), None)


def is_own(message: Record) -> bool:
    """Whether a message may be Goose's and not the model's.

    The model's name its model from 1.50 on, and have the id that the model's server gave them.
    """
    if record_of(message.get("metadata")).get("inference"):
        return False
    message_id = message.get("id")
    return not isinstance(message_id, str) or not message_id or _OWN_ID.fullmatch(message_id) is not None


def is_refusal(output: str) -> bool:
    """Whether the result of a call says that it was never run; Goose calls that a success."""
    return output.startswith(_REFUSALS)


class Banner(msgspec.Struct):
    """The lines before the first record: the only ones that have the session's id."""

    provider: str = ""
    model: str = ""
    session_id: str = ""
    cwd: str = ""
    is_resumed: bool = False
    is_complete: bool = False

    def take(self, line: str) -> bool:
        """Whether it is a line of the banner."""
        for pattern in _BANNER:
            match = pattern.match(line)
            if match is not None:
                for name, value in match.groupdict().items():
                    self._note(name, value or "")
                return True
        return False

    def _note(self, name: str, value: str) -> None:
        if name == "status":
            self.is_resumed = value.startswith("resuming")
        else:
            setattr(self, name, value)
            self.is_complete = name == "cwd"


_BANNER = tuple(
    re.compile(pattern)
    for pattern in (
        r"__\( O\)>\s+● (?P<status>[^·]+?) · (?P<provider>\S+) (?P<model>\S+)",
        r"\\____\)\s+(?:(?P<session_id>\S+) )?· (?P<cwd>.+)",
        r"L L\s+goose is ready",
        # Until about 1.20.
        r"(?P<status>starting|resuming|running without) session \| provider: (?P<provider>\S+) model: (?P<model>\S+)",
        r"session id: (?P<session_id>\S+)",
        r"working directory: (?P<cwd>.+)",
    )
)
