"""The observer: messages in, observations out."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from harness.session.memory import prompts
from harness.session.memory.ask_text import ModelFailed, Patience, answer_text
from harness.session.memory.config import MemoryConfig
from harness.session.memory.dates import zone
from harness.session.memory.formatting import Transcript
from harness.session.memory.observations import is_degenerate, list_lines, shortened, with_short_lines
from harness.session.memory.steps import Entry
from harness.session.memory.tokens import TokenCounter, estimated_tokens
from harness.sources.model import Ask, Attachment, Model, SystemTurn, UserTurn

_THREAD = re.compile(r'^<thread id="([^"\n]*)">[ \t]*\n(.*?)^</thread>', re.MULTILINE | re.DOTALL)
_DEGENERATE = "the observer repeated itself without end"


class Observed(msgspec.Struct, frozen=True, kw_only=True):
    """What the observer said."""

    observations: str
    current_task: str = ""
    suggested_response: str = ""
    title: str = ""


class Before(msgspec.Struct, frozen=True, kw_only=True):
    """What the observer is told of the time before."""

    observations: str = ""
    current_task: str = ""
    suggested_response: str = ""
    title: str = ""


class Observer:
    """Contract: raises ModelFailed, and nothing else, when there are no observations."""

    def __init__(
        self, config: MemoryConfig, patience: Patience, count: TokenCounter = estimated_tokens
    ) -> None:
        self._config = config
        self._patience = patience
        self._count = count

    async def observe(
        self, model: Model, entries: Sequence[Entry], before: Before, *, is_buffering: bool = False
    ) -> Observed:
        """Beforehand (`is_buffering`) only notes and a title are asked for: what is going on then is not over."""
        transcript = self._transcript(entries)
        said = prompts.OBSERVE.format(previous=self._told(before, is_buffering), messages=transcript.text)
        system = self._system(self._sections(is_buffering=is_buffering))
        answer = await self._ask(model, system, said, transcript.attachments)
        observed = parse(answer)
        if not observed.observations and tagged(answer, "observations") is None:
            raise ModelFailed("the observer wrote no observations", "no_observations")
        return observed

    async def observe_threads(
        self, model: Model, threads: dict[str, Sequence[Entry]], before: Before
    ) -> dict[str, Observed]:
        """Several conversations in one call; those that the observer said nothing of are missing."""
        texts: list[str] = []
        attachments: list[Attachment] = []
        for thread_id, entries in threads.items():
            transcript = self._transcript(entries)
            texts.append(f'<thread id="{thread_id}">\n{transcript.text}\n</thread>')
            attachments += transcript.attachments
        told = self._told(Before(observations=before.observations), is_buffering=True)
        said = prompts.OBSERVE.format(previous=told, messages="\n\n".join(texts))
        system = self._system(self._sections(is_buffering=False) + prompts.SEVERAL_THREADS)
        answer = await self._ask(model, system, said, attachments)
        found = {section[1]: parse(section[2]) for section in _THREAD.finditer(answer)}
        return {thread_id: observed for thread_id, observed in found.items() if thread_id in threads}

    def _transcript(self, entries: Sequence[Entry]) -> Transcript:
        wanted = self._config.observation.observe_attachments
        return Transcript(entries, zone(self._config.timezone), attachments=wanted, count=self._count)

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

    def _told(self, before: Before, is_buffering: bool) -> str:
        budget = self._config.observation.previous_observer_tokens
        told = ""
        if before.observations and (budget is False or budget > 0):
            known = before.observations
            text = known if budget is False else shortened(known, int(budget), self._count)
            told = prompts.OBSERVED_BEFORE.format(text)
        if not is_buffering:
            said = (("current task", before.current_task), ("suggested response", before.suggested_response))
            told += "".join(prompts.SAID_BEFORE.format(name, text) for name, text in said if text)
        if before.title and self._config.observation.thread_title:
            told += prompts.SAID_BEFORE.format("title", before.title)
        return told

    async def _ask(self, model: Model, system: str, said: str, attachments: Sequence[Attachment]) -> str:
        own = self._config.observation
        ask = Ask(
            turns=(SystemTurn(system), UserTurn(said, tuple(attachments))),
            max_output_tokens=own.max_output_tokens,
            temperature=own.temperature,
        )
        answer = await answer_text(model, ask, self._patience)
        if is_degenerate(answer):
            answer = await answer_text(model, ask, self._patience)
            if is_degenerate(answer):
                raise ModelFailed(_DEGENERATE, "degenerate")
        if not answer.strip():
            raise ModelFailed("the observer said nothing", "no_answer")
        return answer


def tagged(text: str, name: str) -> str | None:
    """What stands between a tag at the beginning of a line and its end; None without the tag."""
    opening = re.search(rf"^[ \t]*<{name}>", text, re.MULTILINE)
    if opening is None:
        return None
    rest = text[opening.end() :]
    closing = re.search(rf"^[ \t]*</{name}>|</{name}>[ \t]*$", rest, re.MULTILINE)
    return (rest[: closing.start()] if closing else rest).strip()


def parse(text: str) -> Observed:
    """An answer without the tag counts only where it is a list."""
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
