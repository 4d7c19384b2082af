"""Which agent a record of Cline belongs to: its sub-agents write to the same stream, without names.

Rules
1. An agent that waits for its tools is silent. If only one agent can be speaking, it is that one.
2. A piece of text carries all that was written before it, so it continues the text that it begins
   with. Usage carries the sums of its agent so far, so it belongs to whom they fit.
3. What can still be of several agents is held back until one of them is named by a hook: it calls
   a tool, or ends. Of such an answer no pieces are emitted, only the whole.
4. What follows a usage record is of the same answer.
5. Members of a team are named, but their usage comes a second time without the name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.events import (
    Event,
    Message,
    ReasoningDelta,
    TextDelta,
    TextRetracted,
    Usage,
    UsageDelta,
)
from harness.formats.fields import amount_of, besides, count_of, text_of


@dataclass(slots=True, eq=False)
class ClineSpeaker:
    """The main agent, a sub-agent, or a member of the team."""

    run_id: str = ""
    is_member: bool = False
    is_gone: bool = False
    waits_for: set[str] = field(default_factory=set)
    """Its open calls."""
    announced_calls: int = 0
    """Calls that a hook has announced, and that are not in the stream yet."""
    text: str = ""
    """What it has written so far of the text that it is writing."""
    text_id: str = ""
    reasoning: str = ""
    reasoning_id: str = ""
    used: tuple[int, int] = (0, 0)
    """Its own sums of input and output."""

    @property
    def is_silent(self) -> bool:
        return bool(self.waits_for) or self.announced_calls > 0


@dataclass(slots=True)
class _Answer:
    """Of an agent that is not known yet: its usage and its texts."""

    usage: dict[str, Any]
    candidates: list[ClineSpeaker]
    texts: list[str] = field(default_factory=list)
    reasonings: list[str] = field(default_factory=list)


class ClineSpeakers:
    def __init__(self) -> None:
        self.main = ClineSpeaker()
        self.is_alone = True
        """There is only the main agent."""
        self.model = ""
        self.has_usage = False
        self._speakers: dict[str, ClineSpeaker] = {}
        self._held_answers: list[_Answer] = []
        self._last_usage: dict[str, Any] = {}
        self._numbers = 0

    def of(self, agent_id: str) -> ClineSpeaker:
        """An agent by its id; who is unknown is the main one."""
        return self._speakers.get(agent_id, self.main)

    def join(self, agent_id: str, run_id: str, *, is_member: bool = False) -> None:
        self._speakers[agent_id] = ClineSpeaker(run_id=run_id, is_member=is_member)
        self.is_alone = False

    def leave(self, agent_id: str) -> list[Event]:
        """An agent has ended: it is named, and will say no more."""
        speaker = self._speakers.get(agent_id)
        if speaker is None:
            return []
        out = self.named(speaker)
        speaker.is_gone = True
        del self._speakers[agent_id]
        self.is_alone = not self._speakers
        for answer in self._held_answers:
            answer.candidates = [each for each in answer.candidates if each is not speaker]
        return out

    def named(self, speaker: ClineSpeaker) -> list[Event]:
        """A hook names the agent that wrote last: the first answer that can be its own is attributed to it."""
        for answer in self._held_answers:
            if speaker in answer.candidates and _fits(speaker, answer.usage):
                return self._resolve(answer, speaker)
        return []

    def likely_speaker(self) -> ClineSpeaker:
        """The agent that writes now, or the first that may."""
        return next(iter(self._candidates()), self.main)

    def finish(self) -> list[Event]:
        """What could not be attributed belongs to the first agent that is possible."""
        return [
            event
            for answer in list(self._held_answers)
            for event in self._resolve(answer, next(iter(answer.candidates), self.main))
        ]

    def text_piece(self, event: dict[str, Any], speaker: ClineSpeaker | None) -> Sequence[Event]:
        text, whole = text_of(event.get("text")), text_of(event.get("accumulated"))
        if speaker is None:
            speaker = self.main if self.is_alone else self._writer(whole[: -len(text)] if text else "")
        if speaker is None or not text:
            return ()
        out: list[Event] = []
        is_anew = bool(speaker.text) and whole == text
        if is_anew:
            out.append(TextRetracted(id=speaker.text_id, run_id=speaker.run_id))
        if is_anew or not speaker.text:
            speaker.text_id = self._name("text")
        speaker.text = whole or speaker.text + text
        out.append(TextDelta(id=speaker.text_id, text=text, run_id=speaker.run_id))
        return out

    def text_end(self, event: dict[str, Any], speaker: ClineSpeaker | None) -> Sequence[Event]:
        text = text_of(event.get("text")) or text_of(event.get("content"))
        if speaker is None and not self.is_alone:
            speaker = next((each for each in self._plain() if each.text and each.text == text), None)
            if speaker is None and self._held_answers and self._held_answers[-1].usage is self._last_usage:
                self._held_answers[-1].texts.append(text)
                return ()
        speaker = speaker or (self.main if self.is_alone else self.likely_speaker())
        out = self._confirmed(speaker)
        out += self._message(speaker, text)
        return out

    def reasoning_piece(self, event: dict[str, Any], speaker: ClineSpeaker | None) -> Sequence[Event]:
        text = text_of(event.get("reasoning"))
        if speaker is None:
            speaker = self.main if self.is_alone else self._only_candidate()
        if speaker is None or not text:
            return ()
        if not speaker.reasoning:
            speaker.reasoning_id = self._name("reasoning")
        speaker.reasoning += text
        return (ReasoningDelta(id=speaker.reasoning_id, text=text, run_id=speaker.run_id),)

    def reasoning_end(self, event: dict[str, Any], speaker: ClineSpeaker | None) -> Sequence[Event]:
        text = text_of(event.get("reasoning"))
        if speaker is None and not self.is_alone:
            speaker = next((each for each in self._plain() if each.reasoning == text and text), None)
            if speaker is None and self._held_answers and self._held_answers[-1].usage is self._last_usage:
                self._held_answers[-1].reasonings.append(text)
                return ()
        return self._reasoning(speaker or (self.main if self.is_alone else self.likely_speaker()), text)

    def usage(self, event: dict[str, Any], speaker: ClineSpeaker | None) -> Sequence[Event]:
        self._last_usage = event
        if speaker is None and self.is_alone:
            speaker = self.main
        if speaker is not None:
            self._held_answers = [answer for answer in self._held_answers if answer.usage != event]
            return self._used(speaker, event)
        if any(each.is_member and each.used == _sums(event) for each in self._speakers.values()):
            return ()
        candidates = [each for each in self._candidates(members=True) if _fits(each, event)]
        candidates = candidates or self._candidates() or [self.main]
        if len(candidates) == 1:
            # A member's usage comes again, with its name.
            return () if candidates[0].is_member else self._used(candidates[0], event)
        self._held_answers.append(_Answer(event, candidates))
        return ()

    def _name(self, kind: str) -> str:
        self._numbers += 1
        return f"{kind}-{self._numbers}"

    def _plain(self) -> list[ClineSpeaker]:
        """The agents whose records do not name them."""
        return [each for each in (self.main, *self._speakers.values()) if not each.is_member]

    def _candidates(self, *, members: bool = False) -> list[ClineSpeaker]:
        speakers = (self.main, *self._speakers.values())
        return [each for each in speakers if not each.is_silent and (members or not each.is_member)]

    def _only_candidate(self) -> ClineSpeaker | None:
        candidates = self._candidates()
        return candidates[0] if len(candidates) == 1 else None

    def _writer(self, before: str) -> ClineSpeaker | None:
        """Whose text continues after `before`; None when several are possible."""
        if before and (speaker := next((each for each in self._plain() if each.text == before), None)):
            return speaker
        only = self._only_candidate()
        if only is not None or before:
            return only
        free = [each for each in self._candidates() if not each.text]
        return free[0] if len(free) == 1 else None

    def _confirmed(self, speaker: ClineSpeaker) -> list[Event]:
        """It is known which agent writes now, and so whose the usage just before was."""
        answer = self._held_answers[-1] if self._held_answers else None
        if answer is None or answer.usage is not self._last_usage or answer.texts:
            return []
        return self._resolve(answer, speaker) if speaker in answer.candidates else []

    def _resolve(self, answer: _Answer, speaker: ClineSpeaker) -> list[Event]:
        self._held_answers = [each for each in self._held_answers if each is not answer]
        out = self._used(speaker, answer.usage)
        for text in answer.reasonings:
            out += self._reasoning(speaker, text)
        for text in answer.texts:
            out += self._message(speaker, text)
        return out

    def _message(self, speaker: ClineSpeaker, text: str) -> list[Event]:
        name = speaker.text_id if speaker.text else self._name("text")
        speaker.text = ""
        return [Message(role="assistant", text=text, id=name, run_id=speaker.run_id)] if text else []

    def _reasoning(self, speaker: ClineSpeaker, text: str) -> list[Event]:
        was_emitted, speaker.reasoning = bool(speaker.reasoning), ""
        if was_emitted or not text:
            return []
        return [ReasoningDelta(id=self._name("reasoning"), text=text, run_id=speaker.run_id)]

    def _used(self, speaker: ClineSpeaker, event: dict[str, Any]) -> list[Event]:
        speaker.used = _sums(event) or speaker.used
        usage = usage_of(event)
        if not usage:
            return []
        self.has_usage = True
        return [UsageDelta(usage=usage, model=self.model, run_id=speaker.run_id)]


def _sums(event: dict[str, Any]) -> tuple[int, int] | None:
    sums = count_of(event.get("totalInputTokens")), count_of(event.get("totalOutputTokens"))
    return None if sums[0] is None or sums[1] is None else (sums[0], sums[1])


def _fits(speaker: ClineSpeaker, event: dict[str, Any]) -> bool:
    sums = _sums(event)
    if sums is None:
        return True
    new = (count_of(event.get("inputTokens")) or 0, count_of(event.get("outputTokens")) or 0)
    return (speaker.used[0] + new[0], speaker.used[1] + new[1]) == sums


def usage_of(data: dict[str, Any]) -> Usage:
    """Its input includes what came from and went to the cache. A cost of 0 is an unknown price."""
    total, cache_read, cache_write = (
        count_of(data.get(name)) for name in ("inputTokens", "cacheReadTokens", "cacheWriteTokens")
    )
    cost = amount_of(data.get("cost")) or None
    return Usage(
        input=besides(total, cache_read, cache_write),
        output=count_of(data.get("outputTokens")),
        cache_read=cache_read,
        cache_write=cache_write,
        cost_usd=cost,
        cost_source="stated" if cost is not None else "",
    )
