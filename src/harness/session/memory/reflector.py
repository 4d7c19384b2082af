"""The reflector shortens observations, in the background in advance, or at once when they are too long."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable

import msgspec

from harness.contracts.model import Ask, Model, SystemTurn, UserTurn
from harness.events import (
    BufferingEnd,
    BufferingFailed,
    BufferingStart,
    Event,
    MemoryActivated,
    ReflectionEnd,
    ReflectionFailed,
    ReflectionStart,
)
from harness.session.memory import prompts
from harness.session.memory.ask_text import MemoryFailure, ModelFailed, RetryPolicy, answer_text
from harness.session.memory.config import MemoryConfig
from harness.session.memory.memory_state import THRESHOLD, MemoryState, Trigger
from harness.session.memory.observations import (
    is_degenerate,
    oldest_lines,
    regrouped,
    tail_after,
    with_short_lines,
)
from harness.session.memory.observer import STOPPED, tagged
from harness.session.memory.thresholds import (
    block_after,
    compression_levels,
    is_early_reflection_worthwhile,
    reflection_slice,
    slice_target,
)
from harness.session.memory.tokens import TokenCounter, estimated_tokens

_ANY_TAG = re.compile(r"^[ \t]*</?(observations|current-task|suggested-response)>[ \t]*$\n?", re.MULTILINE)


class Reflected(msgspec.Struct, frozen=True, kw_only=True):
    observations: str
    tokens: int
    cycle_id: str
    """The id of the attempt that counts."""


class Reflector:
    """Contract: raises only ModelFailed, when there is no shorter result; its `cycle_id`, if it has one, is
    that of the last attempt.
    """

    def __init__(
        self, config: MemoryConfig, retry: RetryPolicy, count: TokenCounter = estimated_tokens
    ) -> None:
        self._config = config
        self._retry = retry
        self._count = count

    async def reflect(
        self,
        model: Model,
        observations: str,
        target_tokens: int,
        cycle_id: str,
        again: Callable[[str, str], str],
    ) -> Reflected:
        """`again(cycle_id, reason)` is called for each failed attempt, and returns the id of the next.

        If all attempts fail, the shortest is used, provided that it is shorter than the input.
        """
        levels = compression_levels(model.name)
        before = self._count(observations)
        best: Reflected | None = None
        for level in levels:
            answer = await self._ask(model, observations, level)
            text = regrouped(with_short_lines(answer), observations, cycle_id)
            reflected = Reflected(observations=text, tokens=self._count(text), cycle_id=cycle_id)
            reason = _broken(answer) or _too_long(reflected.tokens, min(target_tokens, before))
            if not reason:
                return reflected
            if not _broken(answer) and reflected.tokens < (best.tokens if best else before):
                best = reflected
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
        prompt = prompts.REFLECT.format(observations=observations, pressure=prompts.PRESSURE[level])
        ask = Ask(
            turns=(SystemTurn(system), UserTurn(prompt)),
            max_output_tokens=own.max_output_tokens,
            temperature=own.temperature,
        )
        return parse_reflection(await answer_text(model, ask, self._retry))


class ReflectionMissed(ModelFailed):
    """No attempt was shorter than the input; `cycle_id` is that of the last."""

    def __init__(self, message: str, cycle_id: str) -> None:
        super().__init__(message, "not_compressed")
        self.cycle_id = cycle_id


def _broken(answer: str) -> str:
    """Why an answer is unusable; empty when it is usable."""
    if not answer.strip():
        return "the reflector gave no answer"
    return "the reflector repeated itself without end" if is_degenerate(answer) else ""


def _too_long(tokens: int, target: int) -> str:
    return "" if tokens < target else f"{tokens} tokens are not below {target}"


def parse_reflection(text: str) -> str:
    """The reflection in an answer: the content of the tag, or the whole answer without it."""
    text_found = tagged(text, "observations")
    return _ANY_TAG.sub("", text).strip() if text_found is None else text_found


class ReflectionScheduler:
    def __init__(
        self,
        state: MemoryState,
        model: Callable[[], Model],
        retry: RetryPolicy,
        on_failure: Callable[[MemoryFailure], None],
        longest_wait_s: float,
    ) -> None:
        self._state = state
        self._model = model
        self._retry = retry
        self._on_failure = on_failure
        self._longest_wait_s = longest_wait_s
        self._in_vain_at = -1
        """The length of the notes when a reflection failed to bring them below the threshold."""
        self.task: asyncio.Task[None] | None = None

    @property
    def is_buffering(self) -> bool:
        return self.task is not None and not self.task.done()

    async def reflect_if_due(self, early: Trigger | None = None) -> None:
        """Buffer, activate or reflect now, as the length of the notes requires. Raises MemoryFailure."""
        state = self._state
        tokens, threshold = state.fold.known.observation_tokens, state.reflection_threshold
        if tokens < threshold:
            if early is None or not self._activate_early(early):
                self._buffer_if_due(tokens)
            return
        if self._activate(THRESHOLD):
            return
        own = state.config.reflection
        if state.config.reflection_activation is not None:
            if tokens < block_after(own.block_after, own.observation_tokens):
                self._buffer_if_due(tokens)
                return
            await self._wait()
            if self._activate(THRESHOLD):
                return
        if tokens != self._in_vain_at:
            await self._reflect()

    def _activate_early(self, trigger: Trigger) -> bool:
        state = self._state
        knowledge, activation = state.fold.known, state.config.reflection_activation
        if knowledge.reflection is None or activation is None:
            return False
        tail = state.count(tail_after(knowledge.observations, knowledge.reflection.lines))
        threshold = state.reflection_threshold
        if not is_early_reflection_worthwhile(knowledge.reflection.tokens, tail, threshold, activation):
            return False
        return self._activate(trigger)

    def _activate(self, trigger: Trigger) -> bool:
        """Activate the reflection that was made in advance, if there is one."""
        state = self._state
        knowledge = state.fold.known
        reflection = knowledge.reflection
        if reflection is None:
            return False
        tail = state.count(tail_after(knowledge.observations, reflection.lines))
        state.put(
            MemoryActivated(
                cycle_id=reflection.cycle_id,
                operation_type="reflection",
                chunks_activated=1,
                tokens_activated=reflection.input_tokens,
                observation_tokens=reflection.tokens + tail,
                generation_count=knowledge.generation + 1,
                **trigger.fields,
            )
        )
        return True

    def _buffer_if_due(self, tokens: int) -> None:
        state = self._state
        activation = state.config.reflection_activation
        if activation is None or self.is_buffering or state.fold.known.reflection is not None:
            return
        worth = reflection_slice(activation, state.reflection_threshold)
        if tokens < worth:
            return
        observations = state.fold.known.observations
        lines = oldest_lines(observations, worth, state.count)
        oldest = "\n".join(observations.split("\n")[:lines])
        size = state.count(oldest)
        cycle_id = self._start_buffering(size)
        generation = state.fold.known.generation
        self.task = asyncio.create_task(self._buffer(cycle_id, oldest, lines, size, generation))

    def _start_buffering(self, size: int) -> str:
        cycle_id = self._state.begin()
        start = BufferingStart(cycle_id=cycle_id, operation_type="reflection", tokens_to_buffer=size)
        self._state.put(start)
        return cycle_id

    async def _buffer(self, cycle_id: str, oldest: str, lines: int, size: int, generation: int) -> None:
        state = self._state
        cycles = [cycle_id]

        def again(failed: str, reason: str) -> str:
            state.end(failed, self._buffering_failed(failed, reason, will_retry=True))
            cycles.append(self._start_buffering(size))
            return cycles[-1]

        try:
            reflected = await self._reflector.reflect(
                self._model(), oldest, slice_target(size), cycle_id, again
            )
        except asyncio.CancelledError:
            state.end(cycles[-1], self._buffering_failed(cycles[-1], STOPPED))
            raise
        except Exception as error:  # noqa: BLE001 # the conversation goes on without; the failure is an event
            state.end(cycles[-1], self._buffering_failed(cycles[-1], str(error)))
            self._on_failure(MemoryFailure("reflection", "buffering", str(error)))
            return
        state.end(
            cycles[-1],
            BufferingEnd(
                cycle_id=cycles[-1],
                operation_type="reflection",
                tokens_buffered=size,
                buffered_tokens=reflected.tokens,
                observations=reflected.observations,
                reflected_lines=lines,
                generation_count=generation,
            ),
        )

    def _buffering_failed(self, cycle_id: str, error: str, *, will_retry: bool = False) -> Event:
        return BufferingFailed(
            cycle_id=cycle_id,
            operation_type="reflection",
            error=error,
            will_retry=will_retry,
            stopped=error == STOPPED,
        )

    async def _reflect(self) -> None:
        """Reflect now, while the run waits."""
        state = self._state
        knowledge = state.fold.known
        before, started_ms = knowledge.observation_tokens, state.clock_ms()
        cycles = [self._start(before)]

        def again(failed: str, reason: str) -> str:
            state.end(failed, self._failed(failed, started_ms, reason, will_retry=True))
            cycles.append(self._start(before))
            return cycles[-1]

        threshold = state.reflection_threshold
        try:
            reflected = await self._reflector.reflect(
                self._model(), knowledge.observations, threshold, cycles[0], again
            )
        except asyncio.CancelledError:
            state.end(cycles[-1], self._failed(cycles[-1], started_ms, STOPPED))
            raise
        except Exception as error:
            state.end(cycles[-1], self._failed(cycles[-1], started_ms, str(error)))
            raise MemoryFailure("reflection", "run", str(error)) from error
        state.end(
            cycles[-1],
            ReflectionEnd(
                cycle_id=cycles[-1],
                duration_ms=max(0, state.clock_ms() - started_ms),
                compressed_tokens=reflected.tokens,
                observations=reflected.observations,
                generation_count=knowledge.generation + 1,
            ),
        )
        self._in_vain_at = reflected.tokens if reflected.tokens >= threshold else -1

    def _start(self, tokens: int) -> str:
        cycle_id = self._state.begin()
        self._state.put(ReflectionStart(cycle_id=cycle_id, tokens_to_reflect=tokens))
        return cycle_id

    def _failed(self, cycle_id: str, started_ms: int, error: str, *, will_retry: bool = False) -> Event:
        duration_ms = max(0, self._state.clock_ms() - started_ms)
        return ReflectionFailed(
            cycle_id=cycle_id,
            error=error,
            duration_ms=duration_ms,
            will_retry=will_retry,
            stopped=error == STOPPED,
        )

    @property
    def _reflector(self) -> Reflector:
        return Reflector(self._state.config, self._retry, self._state.count)

    async def _wait(self) -> None:
        if self.task is not None and not self.task.done():
            await asyncio.wait({self.task}, timeout=self._longest_wait_s)

    async def close(self) -> None:
        if self.task is not None and not self.task.done():
            self.task.cancel()
            await asyncio.wait({self.task})
