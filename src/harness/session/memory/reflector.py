"""The reflector: observations in, shorter observations out."""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

from harness.session.memory import prompts
from harness.session.memory.ask_text import ModelFailed, Patience, answer_text
from harness.session.memory.config import MemoryConfig
from harness.session.memory.observations import is_degenerate, regrouped, with_short_lines
from harness.session.memory.observer import tagged
from harness.session.memory.thresholds import compression_levels
from harness.session.memory.tokens import TokenCounter, estimated_tokens
from harness.sources.model import Ask, Model, SystemTurn, UserTurn

_ANY_TAG = re.compile(r"^[ \t]*</?(observations|current-task|suggested-response)>[ \t]*$\n?", re.MULTILINE)


class Reflected(msgspec.Struct, frozen=True, kw_only=True):
    observations: str
    tokens: int
    cycle_id: str
    """Of the try that counts."""


class Reflector:
    """Contract: raises ModelFailed, and nothing else, when nothing shorter came of it; its `cycle_id`, where it
    has one, is the try that was the last.
    """

    def __init__(
        self, config: MemoryConfig, patience: Patience, count: TokenCounter = estimated_tokens
    ) -> None:
        self._config = config
        self._patience = patience
        self._count = count

    async def reflect(
        self,
        model: Model,
        observations: str,
        target_tokens: int,
        cycle_id: str,
        again: Callable[[str, str], str],
    ) -> Reflected:
        """`again(cycle_id, reason)` is told of each try that was too long, and gives the id of the next.

        When all of them were, the shortest is taken if it is shorter than what there was.
        """
        levels = compression_levels(model.name)
        before = self._count(observations)
        best: Reflected | None = None
        for level in levels:
            answer = await self._ask(model, observations, level)
            text = regrouped(with_short_lines(answer), observations, cycle_id)
            found = Reflected(observations=text, tokens=self._count(text), cycle_id=cycle_id)
            reason = _broken(answer) or _too_long(found.tokens, min(target_tokens, before))
            if not reason:
                return found
            if not _broken(answer) and found.tokens < (best.tokens if best else before):
                best = found
            if level == levels[-1]:
                break
            cycle_id = again(cycle_id, reason)
        if best is None:
            raise ReflectionMissed(reason, cycle_id)
        return Reflected(observations=best.observations, tokens=best.tokens, cycle_id=cycle_id)

    async def _ask(self, model: Model, observations: str, level: int) -> str:
        own = self._config.reflection
        system = prompts.REFLECTOR.format(
            what=prompts.WHAT_TO_NOTE,
            format=prompts.FORMAT,
            sections="",
            instruction=prompts.INSTRUCTION.format(own.instruction) if own.instruction else "",
        )
        said = prompts.REFLECT.format(observations=observations, pressure=prompts.PRESSURE[level])
        ask = Ask(
            turns=(SystemTurn(system), UserTurn(said)),
            max_output_tokens=own.max_output_tokens,
            temperature=own.temperature,
        )
        return parse_reflection(await answer_text(model, ask, self._patience))


class ReflectionMissed(ModelFailed):
    """No try was shorter than what there was; `cycle_id` is that of the last."""

    def __init__(self, message: str, cycle_id: str) -> None:
        super().__init__(message, "not_compressed")
        self.cycle_id = cycle_id


def _broken(answer: str) -> str:
    """Why an answer is none; empty when it is one."""
    if not answer.strip():
        return "the reflector said nothing"
    return "the reflector repeated itself without end" if is_degenerate(answer) else ""


def _too_long(tokens: int, target: int) -> str:
    return "" if tokens < target else f"{tokens} tokens are not below {target}"


def parse_reflection(text: str) -> str:
    """Without the tag, all of it counts."""
    found = tagged(text, "observations")
    return _ANY_TAG.sub("", text).strip() if found is None else found
