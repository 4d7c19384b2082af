"""Messages as users see them, complete or still being written.

A message that is being written is an append-only draft; an event carries the draft and its length at that time.
So a piece of text costs the same however long the message is, and a stored event does not change: the text is
joined when it is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias, cast

import msgspec

from harness.folds.session.parts import MessagePart, Part, TextPart, ThinkingPart

# A piece costs the same however long the text is; the pieces are joined when the text is read.


class Growing:
    """A text that grows by pieces; they are joined when it is read."""

    __slots__ = ("_pieces",)

    def __init__(self, text: str = "") -> None:
        self._pieces: list[str] = [text] if text else []

    def add(self, piece: str) -> None:
        """Append one piece."""
        self._pieces.append(piece)

    def extend(self, pieces: Iterable[str]) -> None:
        """Append several pieces."""
        self._pieces.extend(pieces)

    def __str__(self) -> str:
        pieces = self._pieces
        if len(pieces) > 1:
            pieces[:] = ("".join(pieces),)
        return pieces[0] if pieces else ""

    def __bool__(self) -> bool:
        return bool(str(self))

    def __repr__(self) -> str:
        return f"Growing({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return str(self) == str(other) if isinstance(other, Growing | str) else NotImplemented

    __hash__: ClassVar[None] = None  # type: ignore[assignment] # it grows


Role: TypeAlias = Literal["user", "assistant", "system"]
StopReason: TypeAlias = Literal["complete", "tool_use", "aborted", "error"]


class MessageData(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A message as plain data: what is on the wire."""

    id: str
    role: Role
    content: list[MessagePart]
    created_at: int
    """Milliseconds since the epoch."""
    attributes: dict[str, Any] | None = None
    stop_reason: StopReason | None = None
    error_message: str | None = None


class _Resumed(NamedTuple):
    """The pieces that follow belong to that part."""

    place: int


class _Replaced(NamedTuple):
    """That part now has this text; None: it is retracted."""

    place: int
    text: str | None


class _Open:
    """A part that grows, while it is joined."""

    __slots__ = ("is_thinking", "text")

    def __init__(self, text: str, *, is_thinking: bool) -> None:
        self.text = Growing(text)
        self.is_thinking = is_thinking

    def part(self) -> Part:
        text = str(self.text)
        return ThinkingPart(thinking=text) if self.is_thinking else TextPart(text=text)


class DraftData(msgspec.Struct, kw_only=True):
    """The current state of a draft, without its history."""

    id: str
    created_at: int
    parts: list[MessagePart | None]
    """None for a retracted part: positions do not change."""
    size: int


class MessageDraft:
    """The changes of a message in order: the first n of them give the message at version n.

    A change is a part (added), a text (appended to the part being written), `_Resumed` or `_Replaced`.
    """

    __slots__ = ("_applied", "_slots", "changes", "created_at", "id", "size", "writing", "written")

    def __init__(self, id: str, created_at: int, parts: Sequence[Part] = ()) -> None:
        self.id: str = id
        self.created_at: int = created_at
        self.changes: list[Part | str | _Resumed | _Replaced] = list(parts)
        self.writing: int = -1
        """The part that added text belongs to."""
        self.written: int = len(parts)
        """How many parts there are, including the retracted ones."""
        self.size: int = 0
        """The approximate length in characters; never shrinks."""
        self._slots = _Slots()
        self._applied = 0
        """How many changes are in the slots."""

    def begin(self, part: Part) -> int:
        """Add a part; a text part can grow. Returns its position, which identifies it."""
        self.changes.append(part)
        self.writing = self.written
        self.written += 1
        return self.writing

    def write(self, place: int, text: str) -> None:
        """Append text to a part that grows."""
        if place != self.writing:
            self.changes.append(_Resumed(place))
            self.writing = place
        self.changes.append(text)
        self.size += len(text)

    def rewrite(self, place: int, text: str | None) -> None:
        """Replace the text of a part; None retracts it."""
        self.changes.append(_Replaced(place, text))

    def parts(self, version: int) -> list[Part]:
        """The draft after that many changes."""
        return [part for part in self._at(version).parts() if part is not None]

    def data(self) -> DraftData:
        parts: Any = self._at(len(self.changes)).parts()
        return DraftData(id=self.id, created_at=self.created_at, parts=parts, size=self.size)

    @classmethod
    def from_data(cls, data: Any) -> MessageDraft:
        """Raises msgspec.ValidationError."""
        draft_data = msgspec.convert(data, DraftData)
        draft = cls(draft_data.id, draft_data.created_at)
        for part in draft_data.parts:
            place = draft.begin(TextPart(text="") if part is None else part)
            if part is None:
                draft.rewrite(place, None)
        draft.writing, draft.size = -1, draft_data.size
        return draft

    def _at(self, version: int) -> _Slots:
        """Reading the newest state costs only what was added since the last read; an old state costs all of it."""
        if version < self._applied:
            slots = _Slots()
            slots.apply(self.changes[:version])
            return slots
        if version > self._applied:
            self._slots.apply(self.changes[self._applied : version])
            self._applied = version
        return self._slots


class _Slots:
    """The positions of a message with their parts."""

    __slots__ = ("_slots", "_writing")

    def __init__(self) -> None:
        self._slots: list[Part | _Open | None] = []
        self._writing: Part | _Open | None = None

    def parts(self) -> list[Part | None]:
        return [slot.part() if isinstance(slot, _Open) else slot for slot in self._slots]

    def apply(self, changes: Sequence[Part | str | _Resumed | _Replaced]) -> None:
        slots, writing = self._slots, self._writing
        for change in changes:
            if isinstance(change, str):
                if isinstance(writing, _Open):
                    writing.text.add(change)
            elif isinstance(change, _Resumed):
                writing = slots[change.place]
            elif isinstance(change, _Replaced):
                self._replace(change)
            else:
                writing = _opened(change)
                slots.append(writing)
        self._writing = writing

    def _replace(self, change: _Replaced) -> None:
        was = self._slots[change.place]
        if isinstance(was, _Open):
            if change.text is None:
                self._slots[change.place] = None
            else:
                was.text = Growing(change.text)


def _opened(part: Part) -> Part | _Open:
    if isinstance(part, TextPart):
        return _Open(part.text, is_thinking=False)
    return _Open(part.thinking, is_thinking=True) if isinstance(part, ThinkingPart) else part


class Frame(msgspec.Struct, frozen=True, gc=False):
    """The attributes of a message besides its parts."""

    role: Role = "assistant"
    stop_reason: StopReason | None = None
    error_message: str | None = None
    attributes: dict[str, Any] | None = None


_WRITING = Frame()


class HarnessMessage:
    """Contract: never changes. Compared by content."""

    __slots__ = ("_draft", "_frame", "_version")

    def __init__(self, draft: MessageDraft, version: int, frame: Frame = _WRITING) -> None:
        """For a writer with a draft; otherwise use `of`, or read it from data."""
        self._draft = draft
        self._version = version
        self._frame = frame

    @classmethod
    def of(
        cls,
        *,
        id: str,
        role: Role,
        content: Sequence[Part],
        created_at: int,
        attributes: dict[str, Any] | None = None,
        stop_reason: StopReason | None = None,
        error_message: str | None = None,
    ) -> HarnessMessage:
        """A message from the values of its properties; `content` is its parts."""
        draft = MessageDraft(id, created_at, content)
        return cls(draft, len(content), Frame(role, stop_reason, error_message, attributes))

    @classmethod
    def from_data(cls, data: Any) -> HarnessMessage:
        """Raises msgspec.ValidationError."""
        message_data = data if isinstance(data, MessageData) else msgspec.convert(data, MessageData)
        return cls.of(**{name: getattr(message_data, name) for name in message_data.__struct_fields__})

    @property
    def id(self) -> str:
        """The id of the message."""
        return self._draft.id

    @property
    def role(self) -> Role:
        """Who it is from: user, assistant or system."""
        return self._frame.role

    @property
    def content(self) -> list[MessagePart]:
        """Its parts, in order."""
        return cast("list[MessagePart]", self._draft.parts(self._version))

    @property
    def created_at(self) -> int:
        """When it began, milliseconds since the epoch."""
        return self._draft.created_at

    @property
    def attributes(self) -> dict[str, Any] | None:
        """What a signal has besides its text; None for other messages."""
        return self._frame.attributes

    @property
    def stop_reason(self) -> StopReason | None:
        """Why an answer ended; None while it is being written."""
        return self._frame.stop_reason

    @property
    def error_message(self) -> str | None:
        """What went wrong, of an answer that ended with an error."""
        return self._frame.error_message

    @property
    def text(self) -> str:
        """All its text parts, joined."""
        return "\n".join(part.text for part in self.content if isinstance(part, TextPart))

    @property
    def size(self) -> int:
        """Its approximate length in characters."""
        return self._draft.size

    def data(self) -> MessageData:
        """The message as plain data, as it is on the wire."""
        return MessageData(
            id=self.id,
            role=self.role,
            content=self.content,
            created_at=self.created_at,
            attributes=self.attributes,
            stop_reason=self.stop_reason,
            error_message=self.error_message,
        )

    def __eq__(self, other: object) -> bool:
        return self.data() == other.data() if isinstance(other, HarnessMessage) else NotImplemented

    __hash__: ClassVar[None] = None  # type: ignore[assignment] # compared by content, which may not be hashable

    def __repr__(self) -> str:
        return f"HarnessMessage({self.data()!r})"
