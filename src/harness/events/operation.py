"""What a tool call means, the same for every agent: decided once, by the agent's translator.

`ToolStart.operations` has one or more of them: "ran this command", "read that file". A view shows these and need not
know the tools of any agent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import msgspec


class _Operation(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    forbid_unknown_fields=True,
    tag_field="kind",
    tag=str.lower,
):
    success: bool | None = None
    """Only when one call does several things that can fail separately; otherwise `ToolEnd.success` counts."""


class Command(_Operation, frozen=True, kw_only=True):
    """A shell command is run."""

    command: str
    cwd: str = ""
    exit_code: int | None = None
    """Only when one call runs several commands; otherwise `ToolEnd.exit_code` counts."""


class Read(_Operation, frozen=True, kw_only=True):
    """A file is read, or some lines of it."""

    path: str
    start_line: int | None = None
    end_line: int | None = None


class Write(_Operation, frozen=True, kw_only=True):
    """A file is written, or some lines of it."""

    path: str
    start_line: int | None = None
    end_line: int | None = None
    change: str = ""
    """`create`, `update`, `delete` or `move` where the agent says."""


class Search(_Operation, frozen=True, kw_only=True):
    """Files are searched for a text or a pattern."""

    query: str
    path: str = ""


class List(_Operation, frozen=True, kw_only=True):
    """A folder is listed."""

    path: str = ""


class Skill(_Operation, frozen=True, kw_only=True):
    """A skill (a file of instructions) is loaded."""

    path: str
    name: str = ""
    start_line: int | None = None
    end_line: int | None = None


class Fetch(_Operation, frozen=True, kw_only=True):
    """A page of the web, or a web search (`query`)."""

    url: str = ""
    query: str = ""


class Spawn(_Operation, frozen=True, kw_only=True):
    """A sub-agent is started by this call, or (`action`) its end is reported by it."""

    agent_id: str = ""
    name: str = ""
    task: str = ""
    action: str = "started"
    """`started`, `completed` or `failed`."""


class Tasks(_Operation, frozen=True, kw_only=True):
    """The agent's own to-do list was read or changed; the list itself is `TasksChanged`."""


Operation: TypeAlias = Command | Read | Write | Search | List | Skill | Fetch | Spawn | Tasks

_LOOKS = (Read, Search, List, Skill, Tasks)


def only_looks(operations: Sequence[Operation]) -> bool:
    """Whether a call that means this changes no file. One that says nothing may change any."""
    return bool(operations) and all(isinstance(operation, _LOOKS) for operation in operations)
