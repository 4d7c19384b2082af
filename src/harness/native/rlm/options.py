"""How a recursive language model works, and how a person says so: `harness run --agent rlm … -- --max-depth 1`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isfinite
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from harness.contracts.model import Model
from harness.errors import UsageError
from harness.native.loop.loop_context import AgentOptions
from harness.native.rlm.repl import ReplLimits
from harness.sandbox.rungs import Rung

MAX_ITERATIONS = 20
_MEGABYTE = 1024 * 1024


class RlmOptions(msgspec.Struct, frozen=True, kw_only=True):
    agent: AgentOptions
    """Its model, permissions, budget and number of iterations; it has no tools but those of the REPL."""
    sub_model: Model | None = None
    """For queries; None: the same model."""
    max_depth: int = 2
    """How deep queries become recursive models themselves; those below are single calls of the model."""
    prefix_characters: int = 500
    """How much of the context the model is shown from the start."""
    prompt_budget: int = 10_000
    """The longest prompt of a query, in characters."""
    exec_timeout_s: float = 10.0
    sandbox: Rung | None = None
    """For commands; the REPL itself has its own confinement."""
    most_queries_at_once: int = 8
    limits: ReplLimits = ReplLimits()

    def inner(self) -> RlmOptions:
        """Those of a query."""
        agent = replace(self.agent, model=self.sub_model or self.agent.model)
        return replace(self, agent=agent, max_depth=self.max_depth - 1)


class RlmArguments(NamedTuple):
    """The options after `--`; None: not given."""

    max_depth: int | None = None
    sub_model: str | None = None
    exec_timeout_s: float | None = None
    time_limit_s: float | None = None
    memory_limit_mb: int | None = None
    max_output: int | None = None
    is_unconfined: bool = False

    def applied(self, options: RlmOptions, sub_model: Model | None) -> RlmOptions:
        limits = options.limits
        memory_bytes = None if self.memory_limit_mb is None else self.memory_limit_mb * _MEGABYTE
        limits = replace(
            limits,
            time_s=_either(self.time_limit_s, limits.time_s),
            memory_bytes=_either(memory_bytes, limits.memory_bytes),
            most_characters=_either(self.max_output, limits.most_characters),
            is_confined=not self.is_unconfined,
        )
        return replace(
            options,
            sub_model=sub_model,
            max_depth=_either(self.max_depth, options.max_depth),
            exec_timeout_s=_either(self.exec_timeout_s, options.exec_timeout_s),
            limits=replace(limits, processor_s=_processor_s(options, limits)),
        )


def parse(arguments: Sequence[str]) -> RlmArguments:
    """Raises UsageError for what it does not know."""
    options_given: dict[str, Any] = {}
    words_left = list(arguments)
    while words_left:
        flag, sign, value = words_left.pop(0).partition("=")
        option = _FLAGS.get(flag)
        if option is None:
            raise UsageError(
                f"the recursive language model knows no {flag}",
                hint=f"after -- it takes: {', '.join(_FLAGS)}",
            )
        if option.read is None:
            if sign:
                raise UsageError(f"{flag} takes no value")
            options_given[option.name] = True
            continue
        if not sign:
            if not words_left:
                raise UsageError(f"{flag} needs a value")
            value = words_left.pop(0)
        try:
            options_given[option.name] = option.read(value)
        except ValueError:
            raise UsageError(f"{flag} does not take {value!r}", hint=f"it takes {option.takes}") from None
    return RlmArguments(**options_given)


class _Option(NamedTuple):
    name: str
    read: Callable[[str], Any] | None
    takes: str = ""


def _count(text: str) -> int:
    if int(text) < 1:
        raise ValueError
    return int(text)


def _depth(text: str) -> int:
    if not 0 <= int(text) <= _DEEPEST:
        raise ValueError
    return int(text)


def _seconds(text: str) -> float:
    number = float(text)
    if not (isfinite(number) and number > 0):
        raise ValueError
    return number


def _name(text: str) -> str:
    if not text:
        raise ValueError
    return text


_DEEPEST = 8
_FLAGS = {
    "--max-depth": _Option("max_depth", _depth, f"a number from 0 to {_DEEPEST}"),
    "--sub-model": _Option("sub_model", _name, "the name of a model"),
    "--exec-timeout": _Option("exec_timeout_s", _seconds, "seconds"),
    "--time-limit": _Option("time_limit_s", _seconds, "seconds"),
    "--memory-limit-mb": _Option("memory_limit_mb", _count, "a number of megabytes"),
    "--max-output": _Option("max_output", _count, "a number of characters"),
    "--unconfined-repl": _Option("is_unconfined", None),
}


def _either(choice: Any, default: Any) -> Any:
    return default if choice is None else choice


def _processor_s(options: RlmOptions, limits: ReplLimits) -> int:
    """As much as all turns together may take: whatever still runs between them ends some time."""
    return round(options.agent.max_iterations * limits.time_s) + 60
