"""The vocabulary of a decision: the call that a question is about, the mode of a run, and the answers there are."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, get_args

import msgspec

Answer: TypeAlias = Literal["allow", "ask", "deny"]
ModeName: TypeAlias = Literal["read-only", "plan", "ask", "accept-edits", "full-access"]
Category: TypeAlias = Literal["own", "read", "edit", "execute", "network", "mcp", "other", "unknown"]
"""
- `own`: only concerns the conversation: a to-do list, a question to the user, a plan
- `read`, `edit`: files that its arguments name
- `execute`: a command, and everything that starts a program or another agent: skills, slash commands, code cells
- `network`: fetches or searches; a request tells its receiver something
- `mcp`: a tool of a server, whatever it says of itself
- `other`: what the author of a tool of this process calls so
- `unknown`: not in the agent's tool table
"""
CATEGORIES = frozenset(get_args(Category))


class ProposedCall(msgspec.Struct, frozen=True, kw_only=True):
    """One call as the question states it."""

    tool: str
    category: Category = "unknown"
    input: Any = None
    """The arguments, as they came."""
    command: str = ""
    """The command line, where the tool runs one."""
    paths: tuple[str, ...] = ()
    """Every path that the arguments name, as written; of a move both."""
    cwd: str = ""
    """Where relative paths begin and the command runs; empty: in the workspace's own folder."""
    place: str = ""
    """Where a tool of this process runs its commands, as its author chose; what is elsewhere is not free."""
    server: str = ""
    """Of a tool of an MCP server: its name."""
    is_confined: bool = False
    """A tool of this process keeps to the folder by itself, or its author states the category and it names no path."""
    id: str = ""
    """The model's own of the call, where it is known."""
    lists: bool = False
    """It gives back names of files, and nothing that is in them."""
    doubt: str = ""
    """Why it is not certain what would be done; then it is asked about, whatever was granted."""


class AccessMode(msgspec.Struct, frozen=True, kw_only=True):
    """What holds where no rule decides."""

    name: str
    answers: Mapping[str, Answer]
    """By category; one that is missing asks. `read` and `edit` speak of files below the folder."""
    is_fixed: bool = False
    """No rule, grant or answer loosens it: what is not allowed here is denied."""

    def answer(self, category: str) -> Answer:
        return self.answers.get(category, "deny" if self.is_fixed else "ask")


def _mode(name: ModeName, *allowed: Category, is_fixed: bool = False) -> AccessMode:
    answers: dict[str, Answer] = dict.fromkeys(allowed, "allow")
    return AccessMode(name=name, answers=MappingProxyType(answers), is_fixed=is_fixed)


READ_ONLY = _mode("read-only", "own", "read", is_fixed=True)
PLAN = _mode("plan", "own", "read", is_fixed=True)
ASK = _mode("ask", "own", "read")
ACCEPT_EDITS = _mode("accept-edits", "own", "read", "edit")
FULL_ACCESS = _mode("full-access", *get_args(Category))
MODES: Mapping[str, AccessMode] = MappingProxyType(
    {mode.name: mode for mode in (READ_ONLY, PLAN, ASK, ACCEPT_EDITS, FULL_ACCESS)}
)
