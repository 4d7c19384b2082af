"""What was said and done in a log, as another agent can continue it: prompts, answers, and calls with their results.

Of a sub-agent only the result of its call is taken. Every call has exactly one result; one that never came is marked
as missing. Reasoning is left out, because it is bound to its provider.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec

from harness.events import Operation

NO_RESULT = "[interrupted: this call has no result]"
NO_OUTPUT = "(no output)"


class HandedPrompt(msgspec.Struct, frozen=True, kw_only=True):
    """What a person said."""

    text: str
    at_ms: int = 0


class HandedCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call with its result."""

    tool_name: str
    input: Any = None
    operations: tuple[Operation, ...] = ()
    output: str = NO_RESULT
    has_failed: bool = True
    exit_code: int | None = None
    at_ms: int = 0
    ended_ms: int = 0


class HandedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """One answer of a model: words, then calls. At least one of them."""

    text: str = ""
    calls: tuple[HandedCall, ...] = ()
    at_ms: int = 0


HandedTurn: TypeAlias = HandedPrompt | HandedAnswer


class Losses(msgspec.Struct, frozen=True, kw_only=True):
    """What of the log is not in the conversation, or not as it was."""

    reasoning: bool = False
    files: int = 0
    """Images and documents."""
    sub_agents: int = 0
    no_result: int = 0
    """Calls whose result never came."""
    shortened: int = 0
    """Outputs and inputs of calls."""
    left_out: int = 0
    """The oldest messages."""
    is_compacted: bool = False
    """A summary of the agent stands for what came before it."""
    masked: int = 0


class HandedConversation(msgspec.Struct, frozen=True, kw_only=True):
    agent: str
    """The last that worked in it."""
    version: str = ""
    session_id: str = ""
    """The agent's own, or that of the log."""
    cwd: str = ""
    model: str = ""
    turns: tuple[HandedTurn, ...] = ()
    losses: Losses = Losses()

    @property
    def calls(self) -> list[HandedCall]:
        return [call for turn in self.turns if isinstance(turn, HandedAnswer) for call in turn.calls]

    @property
    def prompts(self) -> list[HandedPrompt]:
        return [turn for turn in self.turns if isinstance(turn, HandedPrompt)]

    @property
    def started_ms(self) -> int:
        return self.turns[0].at_ms if self.turns else 0

    @property
    def ended_ms(self) -> int:
        calls = [call.ended_ms for call in self.calls]
        return max((*calls, *(turn.at_ms for turn in self.turns)), default=0)


def with_texts(value: Any, change: Callable[[str], str]) -> Any:
    """A JSON value with `change` applied to each of its texts."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {name: with_texts(inner, change) for name, inner in value.items()}
    if isinstance(value, list):
        return [with_texts(inner, change) for inner in value]
    return value
