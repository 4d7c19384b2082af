"""What a model has done: tool calls from the first piece of their arguments to the end, and code run in a REPL."""

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
    """Output of a call while it runs."""

    call_id: str
    text: str = ""
    stream: Literal["", "stdout", "stderr"] = ""
    """Of a program that the call runs; empty where the agent does not say."""


class FileTexts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A file, or a part of it, before and after a call."""

    path: str
    after: str
    before: str | None = None
    """None: there was no file."""


class ToolEnd(Event, frozen=True, kw_only=True):
    """A call has ended. Every `ToolStart` has one, even where the agent reports none."""

    call_id: str
    tool_name: str
    success: bool | None = None
    """None: the agent has not reported it, or was stopped before."""
    output: str | None = None
    exit_code: int | None = None
    duration_ms: int | None = None
    operations: list[Operation] | None = None
    """When present, replaces those of `ToolStart`: some things are known only at the end."""
    parts: list[Any] | None = None
    """Images and files that came besides the text, as a message has them."""
    changes: list[FileTexts] | None = None
    """What it changed in files, where the agent shows that instead of the arguments of the call."""
    result: Any = None
    """The same as data, where the tool gives that besides its text."""
    raw: Any = None

    @property
    def has_failed(self) -> bool:
        """A call without a stated outcome has succeeded if it has an output, and failed if it has none."""
        return self.output is None if self.success is None else not self.success


class ReplInput(Event, frozen=True, kw_only=True):
    """The model has written code (RLM), which is about to run in its REPL."""

    id: str
    code: str
    iteration: int = 0


class ReplProgress(Event, frozen=True, kw_only=True):
    """Output of the code while it runs."""

    id: str
    text: str
    stream: Literal["stdout", "stderr"] = "stdout"


class ReplOutput(Event, frozen=True, kw_only=True):
    """The code has run. `done`: it gave the final answer."""

    id: str
    stdout: str = ""
    error: str = ""
    done: bool = False
    iteration: int = 0
    duration_ms: int | None = None
    truncated: bool = False
