"""What a tool call means, whoever made it: decided once, by the agent's own translator."""

from __future__ import annotations

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
    """Only when one call does several things that can fail apart; otherwise `ToolEnd.success` counts."""


class Command(_Operation, frozen=True, kw_only=True):
    command: str
    cwd: str = ""
    exit_code: int | None = None
    """Only when one call runs several commands; otherwise `ToolEnd.exit_code` counts."""


class Read(_Operation, frozen=True, kw_only=True):
    path: str
    start_line: int | None = None
    end_line: int | None = None


class Write(_Operation, frozen=True, kw_only=True):
    path: str
    start_line: int | None = None
    end_line: int | None = None
    change: str = ""
    """`create`, `update`, `delete` or `move` where the agent says."""


class Search(_Operation, frozen=True, kw_only=True):
    query: str
    path: str = ""


class List(_Operation, frozen=True, kw_only=True):
    path: str = ""


class Skill(_Operation, frozen=True, kw_only=True):
    path: str
    name: str = ""
    start_line: int | None = None
    end_line: int | None = None


class Fetch(_Operation, frozen=True, kw_only=True):
    """A page of the web, or a web search (`query`)."""

    url: str = ""
    query: str = ""


class Spawn(_Operation, frozen=True, kw_only=True):
    """A sub-agent: started by this call, or (`action`) heard of again through it."""

    agent_id: str = ""
    name: str = ""
    task: str = ""
    action: str = "started"
    """`started`, `completed` or `failed`."""


class Tasks(_Operation, frozen=True, kw_only=True):
    """The agent's own to-do list was read or changed; the list itself is `TasksChanged`."""


Operation: TypeAlias = Command | Read | Write | Search | List | Skill | Fetch | Spawn | Tasks
