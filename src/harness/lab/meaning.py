"""What a scripted model can ask an agent to do, said by meaning: a bench turns it into that agent's own tool."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec


class _Meaning(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="call", tag=str.lower
):
    """One call. Paths are as the script has them; a bench makes them absolute where its agent wants that."""


class Read(_Meaning, frozen=True, kw_only=True):
    path: str
    lines: tuple[int, int] | None = None
    """First and last line, both included, from 1."""


class Write(_Meaning, frozen=True, kw_only=True):
    path: str
    content: str


class Edit(_Meaning, frozen=True, kw_only=True):
    path: str
    old: str
    new: str


class Patch(_Meaning, frozen=True, kw_only=True):
    patch: str
    """Several files at once: `*** Begin Patch … *** End Patch`."""


class Run(_Meaning, frozen=True, kw_only=True):
    command: str


class Search(_Meaning, frozen=True, kw_only=True):
    query: str
    path: str = "."


class List(_Meaning, frozen=True, kw_only=True):
    path: str = "."


class TodoItem(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    text: str
    status: Literal["pending", "in_progress", "completed"] = "pending"


class Todo(_Meaning, frozen=True, kw_only=True):
    items: tuple[TodoItem | str, ...]

    @property
    def entries(self) -> tuple[TodoItem, ...]:
        return tuple(TodoItem(text=item) if isinstance(item, str) else item for item in self.items)


class Skill(_Meaning, frozen=True, kw_only=True):
    name: str


class Agent(_Meaning, frozen=True, kw_only=True):
    """A sub-agent; the lane whose marker is in the prompt answers it."""

    prompt: str
    title: str = "Sub-task"


class Mcp(_Meaning, frozen=True, kw_only=True):
    server: str
    tool: str
    input: dict[str, Any] = {}


class Fetch(_Meaning, frozen=True, kw_only=True):
    url: str
    """One that begins with a slash is a page of the lab's own server."""


Meaning: TypeAlias = Read | Write | Edit | Patch | Run | Search | List | Todo | Skill | Agent | Mcp | Fetch

MEANINGS: dict[str, type[Meaning]] = {
    kind.__name__.lower(): kind
    for kind in (Read, Write, Edit, Patch, Run, Search, List, Todo, Skill, Agent, Mcp, Fetch)
}


def name_of(meaning: Meaning) -> str:
    """As a script spells it."""
    return type(meaning).__name__.lower()
