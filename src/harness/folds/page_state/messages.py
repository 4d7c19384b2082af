"""Adds text, reasoning and notices to the messages of a state."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from harness.events import Message, ReasoningDelta, TextDelta, Usage
from harness.folds.page_state import shapes
from harness.folds.page_state.object_stream import Path
from harness.folds.page_state.tree import Tree

# The place of a run in the state: the message that it is writing, its text streams, its calls.


class OpenStream(msgspec.Struct):
    """A text or reasoning that is being streamed. Calls in between may split it into several parts."""

    message: Path
    parts: list[Path]


class CallPlace(msgspec.Struct):
    place: Path
    part: Path
    started_ms: int = -1
    is_started: bool = False
    """Whether it is being carried out; before, its arguments are being streamed, or it waits for approval."""
    is_open: bool = True
    is_refused: bool = False
    """It was denied; some agents report an end of it nevertheless."""


class ShownRun(msgspec.Struct):
    """One run. Contract: plain data, so that a snapshot can hold it."""

    run_id: str
    home: Path = ("messages",)
    """The list that its messages are in."""
    parent_call: str = ""
    is_hidden: bool = False
    """A child that was not announced: no call is known to show its output in."""
    position: int = -1
    """Its position among the runs of the state; -1 until its `SessionStart`."""
    message: Path | None = None
    """The assistant's message that it is writing."""
    last_stream: str = ""
    """The stream whose part is the last of the message; "" if the last part is something else."""
    streams: dict[str, OpenStream] = {}
    calls: dict[str, CallPlace] = {}
    early_notices: list[dict[str, str]] = []
    """Notices that came before the run had started."""
    error: str = ""
    is_ended: bool = False
    used: Usage = Usage()
    """With all that is below it, if it is at the top."""
    reported: Usage = Usage()
    """What it reported on the way; `used` is that, or what it stated at its end if that is more."""
    stated: Usage | None = None
    stated_usd: float | None = None
    used_earlier: Usage = Usage()
    """Before it was started again under the same id: each time it ends, it states what it used since."""


_TEXT, _REASONING = "text", "reasoning"
_CONVERSATION: Path = ("messages",)


class MessageWriter:
    """`queued`: the positions of the queued messages. New messages are inserted before them."""

    def __init__(self, tree: Tree, new_id: Callable[[], str], queued: dict[str, str]) -> None:
        self._tree = tree
        self._new_id = new_id
        self._queued = queued

    def text(self, shown_run: ShownRun, event: TextDelta) -> None:
        if event.text:
            self._stream(shown_run, _TEXT, event.id, event.text, event.timestamp_ms)

    def reasoning(self, shown_run: ShownRun, event: ReasoningDelta) -> None:
        if event.text:
            self._stream(shown_run, _REASONING, event.id, event.text, event.timestamp_ms)

    def withdraw(self, shown_run: ShownRun, stream_id: str) -> None:
        for kind in (_TEXT, _REASONING):
            stream = shown_run.streams.pop(f"{kind}:{stream_id}", None)
            if stream is not None:
                self._rewrite(stream, "", is_text=kind == _TEXT)
        shown_run.last_stream = ""

    def leave_open_texts(self, shown_run: ShownRun) -> None:
        """What is written next is new, also under an id that was used before."""
        shown_run.streams.clear()
        shown_run.last_stream = ""

    def message(self, shown_run: ShownRun, event: Message) -> None:
        if event.role == "user":
            self.add_user_message(
                shown_run, event.text, event.parts, message_id=event.id, at_ms=event.timestamp_ms
            )
        elif event.role == "assistant":
            self._add_assistant_message(shown_run, event)

    def add_user_message(
        self,
        shown_run: ShownRun,
        text: str,
        parts: Any,
        *,
        message_id: str,
        at_ms: int,
        status: str = "complete",
    ) -> Path:
        """Add a user's message, to which an answer is expected."""
        self.close(shown_run, "complete")
        message = shapes.message(
            message_id or self._new_id(), "user", status=status, created_ms=at_ms, run_id=shown_run.run_id
        )
        message["content"] = text
        message["parts"] = [{"type": "text", "text": text}] if text else []
        message["parts"] += shapes.files_of(parts)
        place = self._add(shown_run.home, message)
        if not shown_run.is_ended and shown_run.position >= 0:
            self.current(shown_run, at_ms)
        return place

    def current(self, shown_run: ShownRun, at_ms: int, *, begins: bool = False) -> Path:
        """The message that the run writes into. `begins`: content is added to it now."""
        if shown_run.message is None:
            status = "streaming" if begins else "pending"
            blank = shapes.message(
                self._new_id(), "assistant", status=status, created_ms=at_ms, run_id=shown_run.run_id
            )
            blank["parts"] = shown_run.early_notices
            shown_run.message = self._add(shown_run.home, blank)
            shown_run.early_notices = []
        elif begins:
            self._tree.change((*shown_run.message, "status"), "streaming")
        return shown_run.message

    def _add(self, home: Path, message: dict[str, Any]) -> Path:
        return (
            self.add_before(message, self._queued)
            if home == _CONVERSATION
            else self._tree.push(home, message)
        )

    def add_before(self, message: dict[str, Any], waiting: Iterable[str]) -> Path:
        """Into the conversation, before these of the messages that wait."""
        positions = [int(self._queued[key]) for key in waiting]
        if not positions:
            return self._tree.push(_CONVERSATION, message)
        first = min(positions)
        for key, position in self._queued.items():
            if int(position) >= first:
                self._queued[key] = str(int(position) + 1)
        return self._tree.insert(_CONVERSATION, first, message)

    def add_part(self, shown_run: ShownRun, part: dict[str, Any], at_ms: int) -> Path:
        shown_run.last_stream = ""
        return self._tree.push((*self.current(shown_run, at_ms, begins=True), "parts"), part)

    def notice(self, shown_run: ShownRun, level: str, text: str, code: str, at_ms: int) -> None:
        """Add a notice. It does not split the text that is being streamed."""
        remark = shapes.notice(level, text, code)
        if shown_run.message is None and shown_run.position < 0:
            shown_run.early_notices.append(remark)
        else:
            self._tree.push((*self.current(shown_run, at_ms), "parts"), remark)

    def is_followed(self, shown_run: ShownRun) -> bool:
        """Whether messages of other runs come after the one that a top run is writing."""
        if shown_run.message is None:
            return False
        later = self._tree.at(_CONVERSATION)[int(shown_run.message[-1]) + 1 :]
        return any(message["runId"] not in ("", shown_run.run_id) for message in later)

    def close(self, shown_run: ShownRun, status: str) -> None:
        """The message is complete."""
        if shown_run.message is not None:
            self._tree.change((*shown_run.message, "status"), status)
        shown_run.message = None
        shown_run.last_stream = ""

    def _stream(self, shown_run: ShownRun, kind: str, stream_id: str, text: str, at_ms: int) -> None:
        key = f"{kind}:{stream_id}"
        message = self.current(shown_run, at_ms, begins=True)
        stream = shown_run.streams.get(key)
        if stream is None or stream.message != message:
            stream = shown_run.streams[key] = OpenStream(message, [])
        if shown_run.last_stream != key or not stream.parts:
            self._open_part(shown_run, key, stream, kind, text)
            return
        self._tree.append((*stream.parts[-1], "text"), text)
        if kind == _TEXT:
            self._tree.append((*message, "content"), text)

    def _open_part(self, shown_run: ShownRun, key: str, stream: OpenStream, kind: str, text: str) -> None:
        content = (*stream.message, "content")
        stream.parts.append(self._tree.push((*stream.message, "parts"), {"type": kind, "text": text}))
        shown_run.last_stream = key
        if kind == _TEXT:
            is_first = not self._tree.at(content)
            self._tree.append(content, text if is_first else f"\n\n{text}")

    def _add_assistant_message(self, shown_run: ShownRun, event: Message) -> None:
        key = f"{_TEXT}:{event.id}"
        stream = shown_run.streams.pop(key, None)
        if shown_run.last_stream == key:
            shown_run.last_stream = ""
        if stream is None:
            if event.text:
                message = self.current(shown_run, event.timestamp_ms, begins=True)
                self._open_part(shown_run, "", OpenStream(message, []), _TEXT, event.text)
        else:
            self._settle(stream, event.text)
        for file in shapes.files_of(event.parts):
            self.add_part(shown_run, file, event.timestamp_ms)

    def _settle(self, stream: OpenStream, text: str) -> None:
        """The complete message is known: it replaces what was streamed of it."""
        streamed_text = "".join(self._tree.text((*part, "text")) for part in stream.parts)
        if text == streamed_text or not text:
            return
        if text.startswith(streamed_text) and self._is_last_text(stream):
            self._tree.append((*stream.parts[-1], "text"), text[len(streamed_text) :])
            self._tree.append((*stream.message, "content"), text[len(streamed_text) :])
        elif text.strip() != streamed_text.strip():
            self._rewrite(stream, text, is_text=True)

    def _is_last_text(self, stream: OpenStream) -> bool:
        """Whether no other text of the message comes after this one."""
        parts = self._tree.at((*stream.message, "parts"))
        return all(part["type"] != _TEXT for part in parts[int(stream.parts[-1][-1]) + 1 :])

    def _rewrite(self, stream: OpenStream, text: str, *, is_text: bool) -> None:
        for number, part in enumerate(stream.parts):
            self._tree.set((*part, "text"), "" if number else text)
        if is_text:
            parts = self._tree.at((*stream.message, "parts"))
            texts = [str(part["text"]) for part in parts if part["type"] == _TEXT]
            self._tree.set((*stream.message, "content"), "\n\n".join(text for text in texts if text))
