"""Tool calls: asked for, begun, going on, ended."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from harness.events.envelope import Event
from harness.events.operation import Operation


class ToolInputDelta(Event, frozen=True, kw_only=True):
    """A piece of a call's arguments (JSON text) as the model writes them."""

    call_id: str
    text: str
    tool_name: str = ""


class ToolStart(Event, frozen=True, kw_only=True):
    """A call begins. `raw` is the native record when no tool rule knew what it means."""

    call_id: str
    tool_name: str
    input: Any = None
    operations: list[Operation] = msgspec.field(default_factory=list)
    raw: Any = None


class ToolProgress(Event, frozen=True, kw_only=True):
    call_id: str
    text: str = ""
    stream: Literal["", "stdout", "stderr"] = ""
    """Of a program that the call runs; empty where nobody said."""


class ToolEnd(Event, frozen=True, kw_only=True):
    """A call has ended. Every `ToolStart` has one, whatever the agent forgot to say."""

    call_id: str
    tool_name: str
    success: bool | None = None
    """None: the agent never said (it was stopped, or does not report it)."""
    output: str | None = None
    exit_code: int | None = None
    duration_ms: int | None = None
    operations: list[Operation] | None = None
    """When present, replaces those of `ToolStart`: some things are known only at the end."""
    parts: list[Any] | None = None
    """Images and files that came besides the text, as a message has them."""
    result: Any = None
    """The same as data, where the tool gives that besides its text."""
    raw: Any = None

    @property
    def has_failed(self) -> bool:
        """Who answers without saying how it went has done it; a call that nobody answered has come to nothing."""
        return self.output is None if self.success is None else not self.success
