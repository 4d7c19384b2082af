"""What a question for permission carries besides its call, as plain data: it can be sent to a page as it is."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict


class GrantData(TypedDict, total=False):
    """Calls that an option allows from now on; the label of the option says it in words."""

    tool: str
    params: dict[str, str]
    """Argument → pattern."""
    closed: bool
    """Only calls without other arguments than those of `params`."""
    command: str
    options: list[str]
    path: str
    server: str
    category: str


class QuestionOption(TypedDict):
    """One of the possible answers. Only what its label says is ever granted."""

    id: str
    kind: Literal["allow-once", "allow-always", "reject-once"]
    label: str
    grants: NotRequired[list[GrantData]]


class PreviewedFile(TypedDict):
    """What the call would do to one file."""

    path: str
    change: str
    """`create`, `update` or `delete`."""
    added: int
    removed: int
    diff: str
    hiddenLines: NotRequired[int]
    """How many lines of the difference are left out."""


class QuestionedCall(TypedDict):
    """One of the calls that an answer is for."""

    toolName: str
    input: Any
    category: str
    why: str
