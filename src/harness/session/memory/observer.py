"""The observer turns messages into observations: in the background in advance, or at once if it must."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence

import msgspec

from harness.contracts.model import Ask, Attachment, Model, SystemTurn, UserTurn
from harness.conversation.turns import TranscriptEntry
from harness.events import (
    BufferingEnd,
    BufferingFailed,
    BufferingStart,
    MemoryActivated,
    ObservationEnd,
    ObservationFailed,
    ObservationStart,
)
from harness.session.memory import prompts
from harness.session.memory.ask_text import MemoryFailure, ModelFailed, RetryPolicy, answer_text
from harness.session.memory.config import MemoryConfig
from harness.session.memory.dates import zone
from harness.session.memory.memory_state import MemoryState, Trigger
from harness.session.memory.observations import (
    is_degenerate,
    list_lines,
    shortened,
    with_short_lines,
)
from harness.session.memory.steps import ObserverTranscript, has_open_calls
from harness.session.memory.thresholds import block_after, chunks_to_activate, is_buffering_due
from harness.session.memory.tokens import TokenCounter, estimated_tokens, last_seq, turn_tokens

_THREAD = re.compile(r'^<thread id="([^"\n]*)">[ \t]*\n(.*?)^</thread>', re.MULTILINE | re.DOTALL)
_DEGENERATE = "the observer repeated itself without end"


class Observed(msgspec.Struct, frozen=True, kw_only=True):
    """The observer's answer."""

    observations: str
    current_task: str = ""
    suggested_response: str = ""
    title: str = ""


class Before(msgspec.Struct, frozen=True, kw_only=True):
    """The earlier notes that are given to the observer."""

    observations: str = ""
    current_task: str = ""
    suggested_response: str = ""
    title: str = ""


class Observer:
    """Contract: raises ModelFailed, and nothing else, when there are no observations."""

    def __init__(
        self, config: MemoryConfig, retry: RetryPolicy, count: TokenCounter = estimated_tokens
    ) -> None:
        self._config = config
        self._retry = retry
        self._count = count

    async def observe(
        self, model: Model, entries: Sequence[TranscriptEntry], before: Before, *, is_buffering: bool = False
    ) -> Observed:
        """With `is_buffering` only notes and a title are requested: the current task is not finished yet."""
        transcript = self._transcript(entries)
        prompt = prompts.OBSERVE.format(
            previous=self._previous(before, is_buffering), messages=transcript.text
        )
        system = self._system(self._sections(is_buffering=is_buffering))
        answer = await self._ask(model, system, prompt, transcript.attachments)
        observed = parse(answer)
        if not observed.observations and tagged(answer, "observations") is None:
            raise ModelFailed("the observer wrote no observations", "no_observations")
        return observed

    async def observe_threads(
        self, model: Model, threads: dict[str, Sequence[TranscriptEntry]], before: Before
    ) -> dict[str, Observed]:
        """Observe several conversations in one call; those without an answer are missing in the result."""
        texts: list[str] = []
        attachments: list[Attachment] = []
        for thread_id, entries in threads.items():
            transcript = self._transcript(entries)
            texts.append(f'<thread id="{thread_id}">\n{transcript.text}\n</thread>')
            attachments += transcript.attachments
        previous = self._previous(Before(observations=before.observations), is_buffering=True)
        prompt = prompts.OBSERVE.format(previous=previous, messages="\n\n".join(texts))
        system = self._system(self._sections(is_buffering=False) + prompts.SEVERAL_THREADS)
        answer = await self._ask(model, system, prompt, attachments)
        sections = {section[1]: parse(section[2]) for section in _THREAD.finditer(answer)}
        return {thread_id: observed for thread_id, observed in sections.items() if thread_id in threads}

    def _transcript(self, entries: Sequence[TranscriptEntry]) -> ObserverTranscript:
        with_attachments = self._config.observation.observe_attachments
        return ObserverTranscript(
            entries, zone(self._config.timezone), attachments=with_attachments, count=self._count
        )

    def _sections(self, *, is_buffering: bool) -> str:
        names = [] if is_buffering else ["current-task", "suggested-response"]
        if self._config.observation.thread_title:
            names.append("thread-title")
        return "".join(prompts.SECTIONS[name] for name in names)

    def _system(self, sections: str) -> str:
        own = self._config.observation.instruction
        return prompts.OBSERVER.format(
            what=prompts.WHAT_TO_NOTE,
            format=prompts.FORMAT,
            sections=sections,
            instruction=prompts.INSTRUCTION.format(own) if own else "",
        )

    def _previous(self, before: Before, is_buffering: bool) -> str:
        budget = self._config.observation.previous_observer_tokens
        previous = ""
        if before.observations and (budget is False or budget > 0):
            observations = before.observations
            text = observations if budget is False else shortened(observations, int(budget), self._count)
            previous = prompts.OBSERVED_BEFORE.format(text)
        if not is_buffering:
            earlier = (
                ("current task", before.current_task),
                ("suggested response", before.suggested_response),
            )
            previous += "".join(prompts.SAID_BEFORE.format(name, text) for name, text in earlier if text)
        if before.title and self._config.observation.thread_title:
            previous += prompts.SAID_BEFORE.format("title", before.title)
        return previous

    async def _ask(self, model: Model, system: str, prompt: str, attachments: Sequence[Attachment]) -> str:
        own = self._config.observation
        ask = Ask(
            turns=(SystemTurn(system), UserTurn(prompt, tuple(attachments))),
            max_output_tokens=own.max_output_tokens,
            temperature=own.temperature,
        )
        answer = await answer_text(model, ask, self._retry)
        if is_degenerate(answer):
            answer = await answer_text(model, ask, self._retry)
            if is_degenerate(answer):
                raise ModelFailed(_DEGENERATE, "degenerate")
        if not answer.strip():
            raise ModelFailed("the observer gave no answer", "no_answer")
        return answer


def tagged(text: str, name: str) -> str | None:
    """The content of a tag that begins at the start of a line; None without the tag."""
    opening = re.search(rf"^[ \t]*<{name}>", text, re.MULTILINE)
    if opening is None:
        return None
    rest = text[opening.end() :]
    closing = re.search(rf"^[ \t]*</{name}>|</{name}>[ \t]*$", rest, re.MULTILINE)
    return (rest[: closing.start()] if closing else rest).strip()


def parse(text: str) -> Observed:
    """Parse an answer; one without the tag counts only if it is a list."""
    notes = tagged(text, "observations")
    if notes is None:
        notes = list_lines(_without_sections(text))
    return Observed(
        observations=with_short_lines(_without_sections(notes)),
        current_task=tagged(text, "current-task") or "",
        suggested_response=tagged(text, "suggested-response") or "",
        title=(tagged(text, "thread-title") or "").strip(),
    )


_SECTION = re.compile(
    r"^[ \t]*<(current-task|suggested-response|thread-title)>.*?(?:</\1>|\Z)", re.MULTILINE | re.DOTALL
)


def _without_sections(text: str) -> str:
    return _SECTION.sub("", text).strip()


STOPPED = "stopped before its end"


class ObservationScheduler:
    def __init__(
        self,
        state: MemoryState,
        model: Callable[[], Model],
        retry: RetryPolicy,
        on_failure: Callable[[MemoryFailure], None],
    ) -> None:
        self._state = state
        self._model = model
        self._retry = retry
        self._on_failure = on_failure
        self.task: asyncio.Task[None] | None = None
        """The observation that runs in the background."""

    @property
    def is_buffering(self) -> bool:
        return self.task is not None and not self.task.done()

    @property
    def observer(self) -> Observer:
        return Observer(self._state.config, self._retry, self._state.count)

    def removable_tokens(self) -> tuple[int, int]:
        """How many chunks an activation would use now, and how many message tokens they replace."""
        state = self._state
        own = state.config.observation
        sizes = [chunk.message_tokens for chunk in state.fold.known.chunks]
        block = block_after(own.block_after, state.config.message_threshold)
        number = chunks_to_activate(sizes, state.pending, state.threshold, own.buffer_activation, block)
        return number, sum(sizes[:number])

    def activate(self, trigger: Trigger) -> None:
        """Activate chunks, oldest first, so that about the floor of messages is left."""
        state = self._state
        knowledge = state.fold.known
        number, _ = self.removable_tokens()
        for chunk in knowledge.chunks[:number]:
            state.put(
                MemoryActivated(
                    cycle_id=chunk.cycle_id,
                    chunks_activated=1,
                    tokens_activated=chunk.message_tokens,
                    observation_tokens=chunk.token_count,
                    messages_activated=len(chunk.message_ids),
                    generation_count=knowledge.generation,
                    **trigger.fields,
                )
            )

    def buffer_if_due(self) -> None:
        state = self._state
        interval = state.config.buffer_tokens
        if interval is None or self.is_buffering:
            return
        unbuffered = state.window.tokens_after(state.fold.covered_seq())
        boundary = state.fold.known.boundary_tokens
        if is_buffering_due(state.pending, boundary, interval, state.threshold, unbuffered):
            self.buffer()

    def buffer(self) -> None:
        """Start to observe, in the background, the messages that are neither observed nor buffered."""
        state = self._state
        after_seq = state.fold.covered_seq()
        entries = state.window.after(after_seq)
        if not entries or has_open_calls(entries):
            return
        tokens = state.window.tokens_after(after_seq)
        cycle_id = state.begin()
        state.put(BufferingStart(cycle_id=cycle_id, tokens_to_buffer=tokens, boundary_tokens=state.pending))
        self.task = asyncio.create_task(self._buffer(cycle_id, entries, after_seq, tokens))

    async def _buffer(
        self, cycle_id: str, entries: Sequence[TranscriptEntry], after_seq: int, tokens: int
    ) -> None:
        state = self._state
        try:
            observed = await self.observer.observe(
                self._model(), entries, self._before(with_chunks=True), is_buffering=True
            )
        except asyncio.CancelledError:
            state.end(cycle_id, BufferingFailed(cycle_id=cycle_id, error=STOPPED, stopped=True))
            raise
        except Exception as error:  # noqa: BLE001 # the conversation goes on without; the failure is an event
            state.end(cycle_id, BufferingFailed(cycle_id=cycle_id, error=str(error)))
            self._on_failure(MemoryFailure("observation", "buffering", str(error)))
            return
        state.end(
            cycle_id,
            BufferingEnd(
                cycle_id=cycle_id,
                tokens_buffered=tokens,
                buffered_tokens=state.count(observed.observations),
                observations=observed.observations,
                current_task=observed.current_task,
                suggested_response=observed.suggested_response,
                title=observed.title,
                message_ids=ids_of(entries),
                after_seq=after_seq,
                observed_to_seq=last_seq(entries),
                last_observed_ms=entries[-1].created_ms,
                range=self._range(entries),
            ),
        )
        state.rename(observed.title, cycle_id)

    async def wait(self, longest_s: float) -> None:
        """Wait for the observation in the background, up to a limit."""
        if self.task is not None and not self.task.done():
            await asyncio.wait({self.task}, timeout=longest_s)

    async def observe(self) -> None:
        """Observe all unobserved messages now. Raises MemoryFailure."""
        state = self._state
        entries = state.window.after(state.progress.observed_seq)
        if not entries:
            return
        cycle_id, started_ms = self.start(state.pending)
        try:
            observed = await self.observer.observe(self._model(), entries, self._before())
        except BaseException as error:
            raise self.failed({"": cycle_id}, started_ms, error) from error
        self.finish(
            cycle_id, started_ms, entries, observed, shown_from_seq=state.window.tail_seq(state.floor)
        )

    def start(self, tokens: int) -> tuple[str, int]:
        cycle_id = self._state.begin()
        self._state.put(ObservationStart(cycle_id=cycle_id, tokens_to_observe=tokens))
        return cycle_id, self._state.clock_ms()

    def failed(self, cycles: dict[str, str], started_ms: int, error: BaseException) -> BaseException:
        """Log the failure; returns the exception to raise."""
        state = self._state
        is_failure = isinstance(error, Exception)
        for cycle_id in cycles.values():
            event = ObservationFailed(
                cycle_id=cycle_id,
                error=str(error) if is_failure else STOPPED,
                duration_ms=max(0, state.clock_ms() - started_ms),
                stopped=not is_failure,
            )
            state.end(cycle_id, event)
        return MemoryFailure("observation", "run", str(error)) if is_failure else error

    def finish(
        self,
        cycle_id: str,
        started_ms: int,
        entries: Sequence[TranscriptEntry],
        observed: Observed,
        *,
        shown_from_seq: int = -1,
        thread_id: str = "",
    ) -> None:
        """Log the observations, which puts them into effect."""
        state = self._state
        is_own = thread_id in ("", state.thread_id)
        event = ObservationEnd(
            cycle_id=cycle_id,
            duration_ms=max(0, state.clock_ms() - started_ms),
            tokens_observed=sum(turn_tokens(entry.turn, state.count) for entry in entries),
            observation_tokens=state.fold.known.observation_tokens + state.count(observed.observations),
            observations=observed.observations,
            current_task=observed.current_task,
            suggested_response=observed.suggested_response,
            title=observed.title,
            message_ids=ids_of(entries),
            observed_to_seq=last_seq(entries),
            shown_from_seq=shown_from_seq,
            last_observed_ms=entries[-1].created_ms,
            range=self._range(entries),
            thread_id="" if is_own else thread_id,
        )
        state.end(cycle_id, event)
        if is_own:
            state.rename(observed.title, cycle_id)

    def _before(self, *, with_chunks: bool = False) -> Before:
        """The existing notes; `with_chunks` includes those that are not activated yet."""
        knowledge, progress = self._state.fold.known, self._state.progress
        texts = [knowledge.observations, *(chunk.observations for chunk in knowledge.chunks if with_chunks)]
        return Before(
            observations="\n\n".join(filter(None, texts)),
            current_task=progress.current_task,
            suggested_response=progress.suggested_response,
            title=progress.title,
        )

    def _range(self, entries: Sequence[TranscriptEntry]) -> str:
        ids = ids_of(entries) if self._state.config.recall_scope else []
        return f"{ids[0]}:{ids[-1]}" if ids else ""

    async def close(self) -> None:
        if self.task is not None and not self.task.done():
            self.task.cancel()
            await asyncio.wait({self.task})


def ids_of(entries: Sequence[TranscriptEntry]) -> list[str]:
    """The message ids in order, each once; tool results may share the id of the message with the call."""
    return list(dict.fromkeys(entry.message_id for entry in entries if entry.message_id))
