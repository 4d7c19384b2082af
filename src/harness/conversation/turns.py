"""Events of a log as turns of a model, and turns as events; `TranscriptEntry` is a turn with its place in the log."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from harness.contracts.model import (
    AssistantTurn,
    Attachment,
    Call,
    Model,
    SystemTurn,
    ToolTurn,
    Turn,
    UserTurn,
)
from harness.contracts.tool import spelled
from harness.events import Message, Signal, ToolEnd

CUT_OFF = "The call was stopped before it ended; it is not known how far it came."
NOT_BEGUN = "The call was not carried out: the run was stopped before."

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.-]")
_DATA_URI = re.compile(r"data:[^,]*;base64,")
_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def message_id(event: Message | Signal) -> str:
    """The id of a message; one without an id of its own is identified by its place in the log."""
    return event.id or f"{event.run_id}/{event.seq}"


def turn_of(event: Message | Signal) -> Turn:
    """The turn that a message or a signal becomes for the model."""
    if isinstance(event, Signal):
        return _signal_turn(event)
    if event.role == "system":
        return SystemTurn(event.text)
    if event.role == "assistant":
        return AssistantTurn(event.text, tuple(calls_of(event)), event.opaque)
    return UserTurn(event.text, files_of(event.parts))


def user_message(turn: UserTurn, id: str = "") -> Message:
    """The event of a message of a person."""
    return Message(role="user", text=turn.text, id=id, parts=file_parts(turn.attachments))


def file_parts(attachments: Sequence[Attachment]) -> list[Any] | None:
    """Attachments as a log has them; None when there are none."""
    parts = [
        {
            "type": "file",
            "media_type": attachment.media_type,
            "data": attachment.data,
            "name": attachment.name,
        }
        for attachment in attachments
    ]
    return parts or None


def tool_turn(call_id: str, end: ToolEnd) -> ToolTurn:
    """What the model gets for a call that has ended; `call_id` is the model's own id of it."""
    text = CUT_OFF if end.output is None and end.success is None else end.output or ""
    return ToolTurn(call_id, text, is_error=not end.success, attachments=files_of(end.parts))


def is_call(part: Any) -> bool:
    return isinstance(part, Call) or (isinstance(part, dict) and part.get("type") == "tool_call")


def calls_of(message: Message) -> list[Call]:
    return [
        part
        if isinstance(part, Call)
        else Call(str(part.get("id", "")), str(part.get("name", "")), part.get("input"))
        for part in message.parts or ()
        if is_call(part)
    ]


def _signal_turn(signal: Signal) -> UserTurn:
    """A message of a person is plain, unless it has attributes; everything else is marked with its tag.

    Where there are files, only the first text carries the tag.
    """
    texts = _texts(signal.contents)
    attachments = files_of(signal.contents)
    attributes = {name: value for name, value in (signal.attributes or {}).items() if value is not None}
    if signal.category == "user" and not attributes:
        return UserTurn("\n".join(texts), attachments)
    if not attachments:
        texts = ["\n".join(texts)]
    first, rest = (texts[0], texts[1:]) if texts else ("", [])
    return UserTurn("\n".join([_markup(signal.tag_name, attributes, first), *rest]), attachments)


def _markup(tag: str, attributes: Mapping[str, Any], text: str) -> str:
    tag = _NOT_IN_NAMES.sub("-", tag) or "signal"
    attributes_text = "".join(
        f' {_NOT_IN_NAMES.sub("-", name)}="{_escaped(spelled(value)).replace(chr(34), "&quot;")}"'
        for name, value in attributes.items()
    )
    return f"<{tag}{attributes_text}>{_escaped(text)}</{tag}>" if text else f"<{tag}{attributes_text} />"


def _escaped(text: str) -> str:
    return text.translate(_ESCAPES)


def _texts(contents: Any) -> list[str]:
    if isinstance(contents, str):
        return [contents]
    return [
        part if isinstance(part, str) else str(part.get("text", ""))
        for part in _parts(contents)
        if isinstance(part, str) or (isinstance(part, Mapping) and part.get("type") == "text")
    ]


def files_of(parts: Any) -> tuple[Attachment, ...]:
    """The files among parts, as a log or the sender of a signal spells them."""
    files: list[Attachment] = []
    for part in _parts(parts):
        if isinstance(part, Attachment):
            files.append(part)
        elif isinstance(part, Mapping) and part.get("type") in ("file", "image"):
            data = part.get("data")
            media_type = part.get("media_type") or part.get("mediaType") or part.get("mimeType")
            if isinstance(data, str) and isinstance(media_type, str):
                name = str(part.get("name") or part.get("filename") or "")
                files.append(Attachment(media_type, _DATA_URI.sub("", data, count=1), name))
    return tuple(files)


def _parts(contents: Any) -> Sequence[Any]:
    return contents if isinstance(contents, list | tuple) else ()


class TranscriptEntry(msgspec.Struct, frozen=True, gc=False):
    """One turn, with the event that it came from."""

    turn: Turn
    message_id: str
    """That of its message or signal; results of calls have the id of the message that asked for them."""
    created_ms: int
    seq: int


class StepContext(msgspec.Struct, frozen=True):
    """What is known before a model call."""

    entries: Sequence[TranscriptEntry]
    """The conversation without the system prompt. It grows: copy what you store."""
    step_number: int
    """0 is the first model call of the run; a resumed run continues the count."""
    run_id: str
    model: Model


# The order of a conversation, whether it is being made (`transcript`) or read from a log (`history`).
#
# Rules
# 1. An answer of the model comes first, then the results of its calls in the order of the calls, then what was added
#    meanwhile: steering, signals, files.
# 2. Additions wait while the model is being asked, and while calls are open. Else they have their place at once.


_Turn = TypeVar("_Turn")


class TurnOrder(Generic[_Turn]):
    """Calls `place` with one turn after the other, each as soon as its place is known."""

    __slots__ = ("additions", "has_answer", "is_in_step", "place", "results")

    def __init__(self, place: Callable[[_Turn], object]) -> None:
        self.place = place
        self.is_in_step = False
        """Whether the model is being asked."""
        self.has_answer = False
        """Whether the last turn with a place is an answer: calls of it, and results, may still come."""
        self.results: dict[str, _Turn | None] = {}
        """By call, in the order of the calls: what has no place yet. None: the call is open."""
        self.additions: list[_Turn] = []

    @property
    def has_open_calls(self) -> bool:
        return None in self.results.values()

    def begin_step(self) -> None:
        """The model is asked with the whole conversation so far. No call is open."""
        self.settle()
        self.is_in_step = True

    def end_step(self) -> None:
        self.is_in_step = False
        self._release()

    def answer(self, turn: _Turn, calls: Iterable[str] = ()) -> None:
        """The model has answered, with these calls. No call of its answer before is open."""
        self.settle()
        self.place(turn)
        self.has_answer = True
        self.results = dict.fromkeys(calls)

    def result(self, call_id: str, turn: _Turn) -> None:
        """A call of the last answer has ended."""
        self.results[call_id] = turn
        self._release()

    def add(self, turn: _Turn) -> None:
        """Something was added that is no answer and no result."""
        if self.is_in_step or self.has_open_calls:
            self.additions.append(turn)
        else:
            self.settle()
            self.place(turn)

    def settle(self) -> None:
        """The last answer has all its results: place them, and then what was added, unless the model is being asked."""
        self.has_answer = False
        if self.results:
            results, self.results = self.results, {}
            for turn in results.values():
                assert turn is not None, "every call has a result before anything else follows"
                self.place(turn)
        if self.additions and not self.is_in_step:
            additions, self.additions = self.additions, []
            for addition in additions:
                self.place(addition)

    def _release(self) -> None:
        if self.additions and not self.is_in_step and not self.has_open_calls:
            self.settle()
