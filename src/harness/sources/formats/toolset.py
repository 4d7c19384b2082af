"""The tools of one agent: what a call of each means, and what its result tells beyond that."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import msgspec

from harness.events import ToolStart, Unknown
from harness.events.operation import Operation
from harness.sources.formats.fields import record_of
from harness.sources.formats.meanings import Input, Meaning, meaning_of


class Call(msgspec.Struct):
    """A tool call that has not ended yet."""

    id: str
    name: str
    input: Input
    run_id: str
    cwd: str
    operations: list[Operation] = msgspec.field(default_factory=list)

    @property
    def operation(self) -> Operation | None:
        """The first of them: most tools do one thing."""
        return self.operations[0] if self.operations else None


Verdict: TypeAlias = tuple[bool | None, int | None]
"""Whether a command succeeded, and its exit code: each None where the agent does not say."""
Judgement: TypeAlias = Callable[[Call, Any, str, bool], Verdict]
"""The call of a command, what its result says as data and as text, and whether the call itself went well →
what became of the command."""


def as_the_call(_call: Call, _detail: Any, _output: str, is_success: bool) -> Verdict:
    """Of an agent whose calls fail with their commands, and which tells no exit codes."""
    return is_success, None


def agreed(is_success: bool | None, told: re.Match[str] | None) -> int | None:
    """The exit code in a result's words (group 1). One that denies the verdict is what a command has written."""
    code = None if told is None else int(told[1])
    return code if code is None or is_success is None or is_success == (code == 0) else None


Correction: TypeAlias = Callable[[Call, Input, str], "list[Operation] | None"]
"""A call, what its result says as data and as text → its operations as they really were; None: as asked for."""


class Toolset(msgspec.Struct, frozen=True, kw_only=True):
    meanings: Mapping[str, Meaning]
    corrections: Mapping[str, Correction] = {}
    shells: frozenset[str] = frozenset()
    spawners: frozenset[str] = frozenset()
    """Tools that run another agent."""
    verdict: Judgement = as_the_call
    """What the results of shells say of their commands."""
    keeps_directory: bool = False
    """Whether the shell of the main agent stays where a command went."""

    def meaning_of(self, name: str, input: Any, cwd: str) -> list[Operation] | None:
        """The operations of a call; None when nobody knows what it means."""
        return meaning_of(self.meanings, name, input, cwd)

    def start(self, call_id: str, name: str, asked: Any, cwd: str, raw: Any) -> tuple[Call, ToolStart]:
        """A call begins; `raw` is told as well when nobody knows what it means."""
        operations = self.meaning_of(name, asked, cwd)
        call = Call(call_id, name, record_of(asked), "", cwd, operations or [])
        start = ToolStart(
            call_id=call_id,
            tool_name=name or "unknown",
            input=asked,
            operations=call.operations,
            raw=raw if operations is None else None,
        )
        return call, start

    def told_by_result(self, call: Call, detail: Any, output: str) -> list[Operation] | None:
        """The operations as a successful result tells them; None when it tells nothing better."""
        correct = self.corrections.get(call.name)
        found = correct(call, record_of(detail), output) if correct is not None else None
        return None if found == call.operations else found


def unannounced(result: Any, run_id: str = "") -> Unknown:
    """What is left of a result when nobody told of its call."""
    return Unknown(raw=result, reason="the result of a call that was never announced", run_id=run_id)


def lines_of(content: str) -> tuple[int, int] | tuple[None, None]:
    """First and last line of a file with this content."""
    return (1, content.removesuffix("\n").count("\n") + 1) if content else (None, None)
