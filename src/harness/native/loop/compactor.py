"""Keeps the conversation of a run within what its model can read.

Rules
1. Before a model call: where a conversation has outgrown most of the window, long outputs of older calls are shortened, if
   that is enough; else everything but the last turns is summed up by the same model. Either way it is rewritten once.
2. A model that refuses what it is sent as too long is asked once more, with less.
3. When no summary can be made, the run continues: long outputs are shortened instead. After some failures in a row no
   summary is asked for any more, unless by a person.
4. A conversation that has to be compacted again and again is not going to end: that is said, and then the run ends.
5. What is open, the to-do list above all, is stated anew after a summary: it must not depend on what the model remembers.
   A file that was read before it must be read again before it is changed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from msgspec.structs import replace

from harness.contracts.model import ToolSpec, Turn
from harness.conversation import compaction
from harness.conversation.compaction import is_summary, tail_start, tokens_in
from harness.events import Compacted, Error, Event, Info, Task, Warning
from harness.models.failure import is_too_long, stated_window
from harness.native.loop.cancellation import check_stopped
from harness.native.loop.loop_context import AgentOptions, LoopContext
from harness.native.loop.model_calls import ModelStep, ModelSteps
from harness.native.loop.run_recorder import RunRecorder
from harness.native.loop.summaries import Summaries, Summary
from harness.native.loop.transcript import LoopTranscript

_FULL = 0.8
"""Share of the window: a longer conversation is compacted."""
_KEPT = 0.2
"""Share of the window: the last turns, which stay as they are."""
_KEPT_OF_ALL = 0.25
"""Share of the conversation, where a person asks for it: what stays as it is."""
_ENOUGH = 0.5
"""Share of the window: how long the compacted conversation may be."""
_SHORT_ENOUGH = 0.6
"""Share of the window: if shortened outputs make it no longer than that, nothing is summed up."""
_RECENT = 0.25
"""Share of the window: outputs among the last turns are not shortened, as long as anything else can be."""
_SHORTENED = (20_000, 8_000, 3_000, 1_000)
"""Characters that older outputs may be shortened to without a summary; less than that says nothing."""
_GROWTH = 0.1
"""Share of the window: how much must be added before it is tried again."""
_REFUSED = 0.75
"""Of the length that was refused, in our own count: the window is no larger, whatever was thought of it."""
_FITS = 0.95
"""Share of the window: in a longer conversation nothing can be asked any more, not even for a summary."""
_MOST_FAILURES = 3
"""So many summaries in a row that could not be made: no other one is asked for."""
_CLOSE = 3
"""Steps: a compaction that comes so soon after another one was not worth much."""
_OFTEN, _TOO_OFTEN = 2, 5
"""So many of them, one soon after the other: it is said, or the run ends."""
_LONGEST_PATH = 4_096


class Compactor:
    def __init__(
        self,
        context: LoopContext,
        options: AgentOptions,
        steps: ModelSteps,
        transcript: LoopTranscript,
        recorder: RunRecorder,
        open_tasks: Callable[[], Sequence[Task]] = tuple,
        running: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        """`running`: what goes on in the background."""
        self._context = context
        self._options = options
        self._steps = steps
        self._transcript = transcript
        self._recorder = recorder
        self._emit = recorder.put
        self._open_tasks = open_tasks
        self._running = running
        self._summaries = Summaries(context, options, steps, transcript, recorder)
        self._window = options.window()
        self._added = 0
        """Estimated tokens added since the provider last counted, in the turns before `_counted_turns`."""
        self._counted_turns = transcript.measured.turns
        self._try_at = 0.0
        """The next compaction is not tried before the conversation has this many tokens."""
        self._summary = Summary()
        """The last one."""
        self._in_a_row = 0
        """Compactions, each soon after the one before."""
        self._last_at: int | None = None
        """The step before which it was last compacted."""

    async def ask(self, tools: Sequence[ToolSpec]) -> ModelStep:
        """One model call with the whole transcript, or with less of it when that is too long: then there are two."""
        steps, turns, model = self._steps, self._transcript.turns, self._options.model.name
        await self._make_room(tools)
        if self._in_a_row >= _TOO_OFTEN:
            return self._give_up()
        turns_sent = len(turns)
        step = await steps.ask(turns, tools, _refusal_as_warning)
        refusal = step.error
        if refusal is not None and _is_refusal(refusal):
            check_stopped(self._context)
            if not await self._make_room_after(refusal, tools):
                steps.fail(_last_refusal(refusal, model))
                return step
            turns_sent = len(turns)
            step = await steps.ask(turns, tools, partial(_last_refusal, model=model))
        self._measure(step, turns_sent)
        return step

    async def compact(self, tools: Sequence[ToolSpec], focus: str = "") -> None:
        """Because a person wants it. That there is nothing to leave out is said."""
        self._transcript.failed_summaries = 0
        is_done = await self._compact("manual", max(1, self._size(tools)), tools, focus)
        if not is_done and not self._summary.trouble:
            self._emit(Info(message="there is nothing to sum up yet", code="nothing_to_compact"))

    async def _make_room(self, tools: Sequence[ToolSpec]) -> None:
        """Before a model call."""
        if self._is_far_from_full():
            return
        size = self._size(tools)
        if size > max(_FULL * self._window, self._try_at):
            if await self._compact("auto", size, tools):
                self._watch_how_often()
            self._try_at = self._size(tools) + _GROWTH * self._window

    def _watch_how_often(self) -> None:
        step, last = self._steps.count, self._last_at
        self._in_a_row = self._in_a_row + 1 if last is not None and step - last < _CLOSE else 1
        self._last_at = step
        if self._in_a_row == _OFTEN:
            self._emit(
                Warning(
                    message=f"the conversation was compacted twice within {_CLOSE} steps: the window of "
                    f"{self._options.model.name} ({self._window} tokens) is small for this work",
                    code="compacted_often",
                )
            )

    def _give_up(self) -> ModelStep:
        """Each step fills what the last compaction has won: the run costs without coming further."""
        error = Error(
            message=f"the conversation was compacted {_TOO_OFTEN} times, each time within {_CLOSE} steps, and is full "
            f"again: {self._window} tokens are too few for this work; choose a model with a larger window, or state "
            "the real one with --context-window",
            code="compacted_too_often",
        )
        step = ModelStep(self._context.new_id())
        step.error = error
        self._steps.fail(error)
        return step

    async def _make_room_after(self, refusal: Error, tools: Sequence[ToolSpec]) -> bool:
        """The model could not read all of it. False when nothing can be left out."""
        size = self._size(tools)
        known_size = int(_REFUSED * max(size, tokens_in(self._transcript.turns)))
        self._window = min(self._window, known_size, stated_window(refusal.message) or known_size)
        return await self._compact("too_long", size, tools)

    def _measure(self, step: ModelStep, turns_sent: int) -> None:
        """How long the provider says that it was; `turns_sent`: how many turns."""
        if (measurement := compaction.measured(step.usage, turns_sent)) is not None:
            self._transcript.measured = measurement
            self._added, self._counted_turns = 0, turns_sent

    def _is_far_from_full(self) -> bool:
        """By a bound that costs little: a token is at least one character, and the calls of an answer are in its count."""
        measured = self._transcript.measured
        if measured.answer is None:
            return False
        turns = self._transcript.turns[measured.turns :]
        if any(getattr(turn, "attachments", ()) for turn in turns):
            return False
        if any(getattr(turn, "calls", ()) for turn in turns[1:]):
            return False
        added = sum([len(turn.text) for turn in turns])
        return measured.tokens + measured.answer + added < _FULL * self._window

    def _size(self, tools: Sequence[ToolSpec]) -> int:
        turns, measured = self._transcript.turns, self._transcript.measured
        if self._counted_turns < len(turns):
            self._added += tokens_in(turns[self._counted_turns :])
            self._counted_turns = len(turns)
        unmeasured = 0 if measured.turns else compaction.tokens_of_tools(tools)
        return measured.tokens + self._added + unmeasured

    async def _compact(self, trigger: str, size: int, tools: Sequence[ToolSpec], focus: str = "") -> bool:
        """False when there was nothing to leave out."""
        turns = self._turns()
        # The provider may count more than we do: shares of the window are taken in our own count.
        own = compaction.tokens_of_tools(tools) + tokens_in(self._transcript.prompt)
        window = self._window * min(1.0, (own + tokens_in(turns)) / size)
        event = Compacted(trigger=trigger, before_tokens=size)
        if trigger == "auto" and (longest := _shorten(turns, own, window)) is not None:
            event = replace(event, longest_output=longest)
            return self._apply(event, tail_start(turns, int(_RECENT * window)), tools)
        # A person who asks for it wants it shorter, also where there is room.
        most_kept = (
            min(_KEPT * window, _KEPT_OF_ALL * tokens_in(turns)) if trigger == "manual" else _KEPT * window
        )
        at = tail_start(turns, int(most_kept))
        if trigger == "manual" and tokens_in(turns[at:]) > most_kept:
            at = len(turns)  # no model call follows that would need the last turn
        before, turns_kept = turns[:at], turns[at:]
        most = int(_ENOUGH * window)
        if any(not is_summary(turn) for turn in before) and await self._has_summary(
            before, most, tools, focus, is_here=trigger != "too_long" and size < _FITS * self._window
        ):
            longest = compaction.enough(turns_kept, most) if tokens_in(turns_kept) > most else None
            event = replace(event, summary=self._summary.text, longest_output=longest)
            return self._apply(event, at, tools) and self._restate()
        if tokens_in(turns_kept) > most:
            at = len(turns)
        longest = compaction.enough(turns[:at], max(0, most - tokens_in(turns[at:])))
        if all(compaction.shortened(turn, longest) is turn for turn in turns[:at]):
            return False
        return self._apply(replace(event, longest_output=longest), at, tools)

    async def _has_summary(
        self, before: Sequence[Turn], most: int, tools: Sequence[ToolSpec], focus: str, *, is_here: bool
    ) -> bool:
        """Asks for one, unless that has failed too often. A warning says why there is none."""
        if self._transcript.failed_summaries >= _MOST_FAILURES:
            return False
        self._summary = await self._summaries.of(before, most, tools, focus, is_here=is_here)
        if self._summary.text:
            self._transcript.failed_summaries = 0
            return True
        self._transcript.failed_summaries += 1
        is_last = self._transcript.failed_summaries == _MOST_FAILURES
        then = "; it is not tried again" if is_last else ""
        self._emit(
            Warning(
                message=f"the conversation could not be summed up: {self._summary.trouble}; long outputs are shortened "
                f"instead{then}",
                code="compaction_failed",
            )
        )
        return False

    def _restate(self) -> bool:
        """What is open, from what is known and not from what the summary says of it."""
        tasks = [task for task in self._open_tasks() if task.status != "completed"]
        if tasks and self._options.restates_tasks:
            lines = "\n".join(f"- [{task.status}] {task.text}" for task in tasks)
            self._recorder.add_reminder(f"Of the to-do list is open:\n{lines}")
        if running := self._running():
            lines = "\n".join(f"- {name}" for name in running)
            self._recorder.add_reminder(f"Still running in the background:\n{lines}")
        self._context.outbox.flush()
        return True

    def _turns(self) -> list[Turn]:
        """Without the system prompt."""
        return self._transcript.turns[len(self._transcript.prompt) :]

    def _apply(self, event: Compacted, at: int, tools: Sequence[ToolSpec]) -> bool:
        # What was added while the model wrote the summary comes after these turns, and stays.
        turns = self._turns()
        event = replace(event, kept=len(turns) - at)
        turns_left = compaction.compacted(self._transcript.listed(), event)
        after = tokens_in([*self._transcript.prompt, *(entry.turn for entry in turns_left)])
        after += compaction.tokens_of_tools(tools)
        if event.summary:
            self._context.files.forget(but=list(_named_in(turns[at:], self._context.cwd)))
        self._context.outbox.flush()
        self._emit(replace(event, after_tokens=after))
        self._context.outbox.flush()
        stamped = self._context.outbox.last
        self._transcript.compact(stamped if isinstance(stamped, Compacted) else event)
        self._added = self._counted_turns = 0
        return True


def _named_in(turns: Iterable[Turn], cwd: str) -> Iterator[str]:
    """What calls in these turns name, as paths; few of them are files."""
    for turn in turns:
        for call in getattr(turn, "calls", ()):
            values = call.input.values() if isinstance(call.input, dict) else ()
            texts = (value for value in values if isinstance(value, str))
            yield from (
                os.path.join(cwd, text) for text in texts if len(text) <= _LONGEST_PATH and "\0" not in text
            )


def _refusal_as_warning(error: Error) -> Event:
    """A refusal that is answered with less is no failure."""
    if not _is_refusal(error):
        return error
    return Warning(
        message=f"the conversation is too long for the model, and is shortened: {error.message}",
        code="context_length_exceeded",
    )


def _last_refusal(error: Error, model: str) -> Error:
    """The error for a conversation that cannot be made short enough."""
    if not _is_refusal(error):
        return error
    return replace(
        error,
        message=f"the conversation is too long for {model}, and shortening it did not help: {error.message}",
        code="context_length_exceeded",
    )


def _is_refusal(error: Error) -> bool:
    return is_too_long(error.code, error.message)


def _shorten(turns: Sequence[Turn], own: int, window: float) -> int | None:
    """To what length older outputs must be shortened so that nothing need be summed up; None: that is not enough."""
    at, most = tail_start(turns, int(_RECENT * window)), _SHORT_ENOUGH * window - own
    tokens_kept = tokens_in(turns[at:])
    for longest in _SHORTENED:
        if tokens_kept + tokens_in(compaction.shortened(turn, longest) for turn in turns[:at]) <= most:
            return longest
    return None
