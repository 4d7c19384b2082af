"""The context of the main model: the notes in place of the messages they cover, then the newer messages.

Rules
1. What did not change since the last step is the same object: providers cache, and so do we.
2. The notes are shown in the parts in which they were written, oldest first: earlier parts never change.
3. What changes from step to step (the task, other threads) comes last.

A signal marks a long pause between two messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo

from harness.contracts.model import SystemTurn, Turn, UserTurn
from harness.conversation.turns import TranscriptEntry
from harness.events import Signal
from harness.session.memory import prompts
from harness.session.memory.dates import gap_text, local, with_relative_days, zone
from harness.session.memory.memory_state import MemoryState
from harness.session.memory.observations import for_the_model, parts_of, ungrouped
from harness.session.memory.steps import ObserverTranscript

CONTINUATION = UserTurn(prompts.CONTINUATION)


class MemoryContext:
    """Contract: pure, except for a cache of the previous step."""

    def __init__(self, state: MemoryState) -> None:
        self._state = state
        self._turns: dict[str, SystemTurn] = {}
        self._made_parts: tuple[str, object, list[str]] = ("", None, [])

    def turns(self, other_threads: str = "") -> list[Turn] | None:
        """The turns to show; None when all messages are shown unchanged."""
        state = self._state
        knowledge, progress = state.fold.known, state.progress
        if not knowledge.observations and progress.shown_from_seq <= 0 and not other_threads:
            return None
        texts = self._texts(other_threads)
        turns = [self._turns.get(text) or SystemTurn(text) for text in texts]
        self._turns = dict(zip(texts, turns, strict=True))
        entries = state.window.from_seq(progress.shown_from_seq)
        reminder = [CONTINUATION] if knowledge.observations else []
        return [*turns, *reminder, *(entry.turn for entry in entries)]

    def _texts(self, other_threads: str) -> list[str]:
        state = self._state
        knowledge, progress = state.fold.known, state.progress
        texts: list[str] = []
        if knowledge.observations:
            texts = [self._introduction(), *self._parts(knowledge.observations)]
        if other_threads:
            texts.append(prompts.OTHER_THREADS.format(other_threads))
        for name, text in (
            ("current-task", progress.current_task),
            ("suggested-response", progress.suggested_response),
        ):
            if text:
                texts.append(f"<{name}>\n{text}\n</{name}>")
        return texts

    def _introduction(self) -> str:
        scope = self._state.config.recall_scope
        texts = [prompts.PREAMBLE, prompts.RULES]
        if scope:
            texts.append(prompts.RECALL_RULES + (prompts.RECALL_EVERYWHERE if scope == "resource" else ""))
        return "\n\n".join(texts)

    def _parts(self, observations: str) -> list[str]:
        config = self._state.config
        today = local(self._state.clock_ms(), zone(config.timezone)).date()
        if self._made_parts[0] is observations and self._made_parts[1] == today:
            return self._made_parts[2]
        text = observations if config.recall_scope else ungrouped(observations)
        dated = with_relative_days(text, today)
        parts = [f"<observations>\n{for_the_model(part)}\n</observations>" for part in parts_of(dated)]
        self._made_parts = (observations, today, parts)
        return parts


def other_thread_text(
    thread_id: str, title: str, entries: Sequence[TranscriptEntry], config_zone: str
) -> str:
    """Another conversation, shown in addition to this one."""
    plain = title.replace('"', "'")
    name = f' title="{plain}"' if title else ""
    text = ObserverTranscript(entries, zone(config_zone), attachments=False).text
    return f'<other-conversation id="{thread_id}"{name}>\n{text}\n</other-conversation>'


REMINDER_TYPE = "temporal-gap"
_MARK = f'type="{REMINDER_TYPE}"'


def gap_signal(
    entries: Sequence[TranscriptEntry], message_id: str, now_ms: int, in_zone: tzinfo | None, signal_id: str
) -> Signal | None:
    """A signal before a new message: how long the pause was, if it was ten minutes or more."""
    if any(_precedes(entry, message_id) for entry in reversed(entries[-8:])):
        return None
    previous = next((entry for entry in reversed(entries) if not _is_mark(entry)), None)
    if previous is None:
        return None
    gap_ms = now_ms - previous.created_ms
    text = gap_text(gap_ms)
    if not text:
        return None
    timestamp = f"{local(now_ms, in_zone):%Y-%m-%d %H:%M %Z}".strip()
    details = {
        "gapText": text,
        "gapMs": gap_ms,
        "timestamp": timestamp,
        "precedesMessageId": message_id,
    }
    return Signal(
        id=signal_id,
        category="reactive",
        tag_name="system-reminder",
        contents=f"{text} — {timestamp}",
        attributes={"type": REMINDER_TYPE, **details},
        metadata={"reminderType": REMINDER_TYPE, **details},
    )


def _is_mark(entry: TranscriptEntry) -> bool:
    text = entry.turn.text
    return text.startswith("<system-reminder") and _MARK in text.partition(">")[0]


def _precedes(entry: TranscriptEntry, message_id: str) -> bool:
    return _is_mark(entry) and f'precedesMessageId="{message_id}"' in entry.turn.text
