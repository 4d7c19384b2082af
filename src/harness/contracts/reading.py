"""What is read of a stored session: its summary, its usage, the texts by which it is found, part by part."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import NamedTuple, TypeAlias

import msgspec

from harness.events import Usage
from harness.events.operation import Command, Operation, Read, Write

LONGEST_PROMPT = 2_000
_LONGEST_COMMAND = 400
"""Of a command so much can be found; more is data that was pasted into it."""
_COMMITTED = re.compile(r"^\[[^\]\n]{1,200}? ([0-9a-f]{7,40})\]", re.MULTILINE)
_HASH_LINE = re.compile(r"^(?:commit )?([0-9a-f]{7,40})(?=\s|$)", re.MULTILINE)
_COMMIT = re.compile(r"\bgit\b[^|;&\n]*\bcommit\b")


class CannotScan(Exception):
    """A file is not as expected: it must be read whole."""


TokenCounts: TypeAlias = tuple[
    int | None, int | None, int | None, int | None, int | None, int | None, float | None
]
"""The classes of tokens as `harness.events.usage.CLASSES` names them, what of `cache_write` is for an hour, the cost."""


class StoredRun(NamedTuple):
    """A prompt, and what followed it."""

    number: int
    """From 1 on, within the session."""
    started_ms: int
    prompt: str


class UsedTokens(msgspec.Struct, frozen=True, gc=False):
    """What one model call has used, or as many as the store counts together."""

    key: str
    """The same for copies of the same call: of a fork, the copy has the id of the original. Empty where no other
    session can have a copy."""
    run: int
    at_ms: int
    model: str
    counts: TokenCounts
    speed: str = ""
    """Other than the usual one."""
    over: int = 0
    """How long the prompt of the call was, as `harness.usage.prices.prompt_size` says."""


class Document(msgspec.Struct, kw_only=True):
    """A part of a session as it can be searched."""

    file: str = ""
    """The file that it is in, relative to the folder of the session's; empty for the session's own."""
    start: int = 0
    end: int = 0
    """Its bytes in the file; both 0 where it is the whole session."""
    at_ms: int = 0
    texts: list[str] = msgspec.field(default_factory=list)
    commands: dict[str, None] = msgspec.field(default_factory=dict)
    files: dict[str, None] = msgspec.field(default_factory=dict)
    """Paths after `r ` if it was read, or `w ` if it was written."""
    commits: list[str] = msgspec.field(default_factory=list)

    def add_command(self, command: str) -> bool:
        """Says whether its output may name a commit."""
        self.commands[command[:_LONGEST_COMMAND]] = None
        return makes_commit(command)

    def add_operations(self, operations: Iterable[Operation]) -> bool:
        may_commit = False
        for operation in operations:
            match operation:
                case Command(command=command):
                    may_commit = self.add_command(command) or may_commit
                case Read(path=path):
                    self.files[f"r {path}"] = None
                case Write(path=path):
                    self.files[f"w {path}"] = None
                case _:
                    pass
        return may_commit

    def add_output(self, output: str) -> None:
        """Of a command that makes a commit."""
        self.commits += commits_in(output)


def makes_commit(command: str) -> bool:
    return "commit" in command and _COMMIT.search(command) is not None


def commits_in(output: str) -> list[str]:
    """The commits that a command which makes one reports: as `git commit` does, or, where that is quiet, a line that
    begins with a hash, of which the first is the newest.
    """
    return _COMMITTED.findall(output) or _HASH_LINE.findall(output)[:1]


class SessionSummary(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A fold of a session's events."""

    title: str = ""
    prompt: str = ""
    """The first."""
    model: str = ""
    cwd: str = ""
    version: str = ""
    parent_id: str = ""
    started_ms: int = 0
    ended_ms: int = 0
    outcome: str = ""
    """Of the last run; empty for a session without one."""
    runs: int = 0


class Reading(NamedTuple):
    """A part of a session that was read."""

    summary: SessionSummary
    """Of all that was read so far."""
    documents: list[Document]
    used: list[UsedTokens]
    state: bytes = b""
    """With it, reading continues behind this part; empty where it cannot."""
    is_more: bool = False
    """Whether it adds to what was read before, or replaces it."""
    runs: Sequence[StoredRun] = ()
    """Those that begin in this part."""


def counts_of(usage: Usage) -> TokenCounts:
    return (
        usage.input,
        usage.output,
        usage.cache_read,
        usage.cache_write,
        usage.reasoning,
        usage.cache_write_1h,
        usage.cost_usd,
    )


@cache
def _secrets() -> dict[str, str]:
    from harness.log.redact.redactor import secrets_in

    return secrets_in(os.environ)


def masked(text: str) -> str:
    """The text without secrets."""
    from harness.log.redact.redactor import redact_text

    return redact_text(text, _secrets())
