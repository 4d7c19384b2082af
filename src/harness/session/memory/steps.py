"""Reading the entries of a conversation: whether calls are open, and the transcript for the observer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import tzinfo
from fnmatch import fnmatchcase

from harness.contracts.model import AssistantTurn, Attachment, SystemTurn, ToolTurn, UserTurn
from harness.conversation.turns import StepContext, TranscriptEntry
from harness.models.turn_cache import encode
from harness.session.memory.dates import day_text, local
from harness.session.memory.tokens import TokenCounter, estimated_tokens


def model_name(step: StepContext) -> str:
    return step.model.name


def has_open_calls(entries: Sequence[TranscriptEntry]) -> bool:
    """Whether the last answer waits for results: a call and its result must not be separated."""
    answered: set[str] = set()
    for entry in reversed(entries):
        turn = entry.turn
        if isinstance(turn, ToolTurn):
            answered.add(turn.call_id)
        elif isinstance(turn, AssistantTurn):
            return any(call.id not in answered for call in turn.calls)
    return False


_MOST_RESULT_TOKENS = 10_000
_CHARACTERS_PER_TOKEN = 4


class ObserverTranscript:
    """Entries as text. Attachments that the observer may see are collected separately."""

    def __init__(
        self,
        entries: Sequence[TranscriptEntry],
        in_zone: tzinfo | None,
        *,
        attachments: bool | tuple[str, ...] = True,
        count: TokenCounter = estimated_tokens,
    ) -> None:
        self.attachments: list[Attachment] = []
        self._attachments = attachments
        self._count = count
        self._images = self._files = 0
        self._names = {
            call.id: call.name
            for entry in entries
            if isinstance(entry.turn, AssistantTurn)
            for call in entry.turn.calls
        }
        lines: list[str] = []
        day = ""
        for entry in entries:
            moment = local(entry.created_ms, in_zone)
            if (today := day_text(moment)) != day:
                lines += ["", today] if lines else [today]
                day = today
            lines += self._lines(entry, f"{moment:%H:%M}")
        self.text: str = "\n".join(lines)

    def _lines(self, entry: TranscriptEntry, time: str) -> Iterator[str]:
        turn = entry.turn
        match turn:
            case SystemTurn():
                return
            case UserTurn():
                yield f"User ({time}): {self._with_placeholders(turn.text, turn.attachments)}"
            case ToolTurn():
                name = self._names.get(turn.call_id, "")
                result = self._with_placeholders(self._cut(turn.text), turn.attachments)
                kind = "Tool Error" if turn.is_error else "Tool Result"
                yield f"{kind} {name} ({time}): {result}" if name else f"{kind} ({time}): {result}"
            case AssistantTurn():
                if turn.text.strip():
                    yield f"Assistant ({time}): {turn.text}"
                for call in turn.calls:
                    yield f"Tool Call {call.name} ({time}): {self._cut(encode(call.input).decode())}"

    def _with_placeholders(self, text: str, attachments: Sequence[Attachment]) -> str:
        return "\n".join(filter(None, [text, *map(self._placeholder, attachments)]))

    def _placeholder(self, attachment: Attachment) -> str:
        if self._is_wanted(attachment.media_type.lower()):
            self.attachments.append(attachment)
        if attachment.media_type.startswith("image/"):
            self._images += 1
            kind = f"Image #{self._images}"
        else:
            self._files += 1
            kind = f"File #{self._files}"
        return f"[{kind}: {attachment.name}]" if attachment.name else f"[{kind}]"

    def _is_wanted(self, media_type: str) -> bool:
        if isinstance(self._attachments, bool):
            return self._attachments
        return any(fnmatchcase(media_type, pattern.lower()) for pattern in self._attachments)

    def _cut(self, text: str) -> str:
        if len(text) <= _MOST_RESULT_TOKENS or self._count(text) <= _MOST_RESULT_TOKENS:
            return text
        return f"{text[: _MOST_RESULT_TOKENS * _CHARACTERS_PER_TOKEN]}\n[the rest is left out]"
