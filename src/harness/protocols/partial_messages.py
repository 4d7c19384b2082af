"""Model answers while they are written: the `stream_event` lines of Claude's stream-json.

Rules
1. A piece belongs to a block, and a block is named `<message id>:<number>`; the whole message that
   comes later has the same name. Tool input is named after its call.
2. What was streamed and never confirmed by a whole message is taken back when the message stops
   without having ended: the connection was lost, and the model is asked again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import msgspec

from harness.events import Event, ReasoningDelta, TextDelta, TextRetracted, ToolInputDelta, Unknown
from harness.formats.fields import count_of, record_of, speed_of, text_of
from harness.formats.json_lines import DECODE_ERRORS
from harness.protocols.model_ledger import ModelLedger, usage_of_call

_NO_BLOCK = -1
_NO_COUNTS = ("output_tokens_details", "cost", "cost_usd")
"""Fields of a usage that are no counts."""


class _TextOfPiece(msgspec.Struct, tag_field="type", tag="text_delta", gc=False):
    text: str


class _PieceOfBlock(msgspec.Struct, tag_field="type", tag="content_block_delta", gc=False):
    index: int
    delta: _TextOfPiece


class TextPiece(msgspec.Struct, tag_field="type", tag="stream_event", gc=False):
    """A line that holds the next piece of a text and nothing else."""

    event: _PieceOfBlock
    parent_tool_use_id: str | None = None


@cache
def text_piece_decoder() -> Callable[[bytes], list[TextPiece]]:
    """Of many lines at once; raises when one of them is anything else."""
    return msgspec.json.Decoder(TextPiece).decode_lines


class PartialMessage:
    """The answer that one run's model is writing now."""

    __slots__ = (
        "_actions",
        "_call_name",
        "_is_ended",
        "_ledger",
        "_model",
        "_run_id",
        "_unconfirmed",
        "_usage",
        "block_id",
        "index",
        "message_id",
        "offset",
        "text_index",
    )

    def __init__(self, run_id: str, ledger: ModelLedger) -> None:
        self.message_id = ""
        self.index = _NO_BLOCK
        """The block that is being written."""
        self.text_index: int = _NO_BLOCK
        """The same, if it is one of text that has begun: its pieces take the short way."""
        self.block_id = ""
        self.offset = 0
        """How many blocks this message has had before the agent began to count them anew."""
        self._run_id = run_id
        self._ledger = ledger
        self._model = ""
        self._call_name = ""
        self._usage: dict[str, Any] = {}
        self._is_ended = False
        self._unconfirmed: dict[int, str] = {}
        """Number → name of each block of which pieces were emitted, and not yet the whole."""
        self._actions: dict[str, Callable[[dict[str, Any], dict[str, Any]], Sequence[Event] | None]] = {
            "message_start": self._start,
            "content_block_start": self._start_block,
            "content_block_delta": self._piece,
            "content_block_stop": self._stop_block,
            "message_delta": self._end,
            "message_stop": self._stop,
            "ping": lambda _event, _record: (),
        }

    def text_pieces(self, lines: Sequence[bytes]) -> list[Event] | None:
        """The next pieces of the text that is being written; None when a line is anything else."""
        try:
            pieces = text_piece_decoder()(b"".join(lines))
        except DECODE_ERRORS:
            return None
        index, block_id = self.text_index, self.block_id
        events: list[Event] = [
            TextDelta(id=block_id, text=text)
            for piece in pieces
            if piece.event.index == index
            and (text := piece.event.delta.text)
            and not piece.parent_tool_use_id
        ]
        return events if len(events) == len(lines) == len(pieces) else None

    def feed(self, record: dict[str, Any]) -> Sequence[Event]:
        event = record_of(record.get("event"))
        action = self._actions.get(text_of(event.get("type")))
        events = None if action is None else action(event, record)
        return [Unknown(raw=event or record, run_id=self._run_id)] if events is None else events

    def confirm(self, message_id: str, index: int) -> bool:
        """The whole block has come. Whether its pieces were emitted before."""
        return message_id == self.message_id and self._unconfirmed.pop(index, None) is not None

    def close(self) -> list[Event]:
        """No more of this message will come: what it used counts, however it ended."""
        usage, speed, self._usage = usage_of_call(self._usage), speed_of(self._usage.get("speed")), {}
        return [self._ledger.call(self._model, usage, self.message_id, speed)] if usage else []

    def _start(self, event: dict[str, Any], _record: dict[str, Any]) -> list[Event]:
        out = self._take_back(0)
        out += self.close()
        message = record_of(event.get("message"))
        self.message_id = text_of(message.get("id"))
        self._model = text_of(message.get("model"))
        self._usage = dict(record_of(message.get("usage")))
        self._is_ended = False
        self._unconfirmed = {}
        self.offset = 0
        self._leave_block()
        return out

    def _start_block(self, event: dict[str, Any], _record: dict[str, Any]) -> Sequence[Event]:
        block = record_of(event.get("content_block"))
        self._enter_block(event)
        self._call_name = text_of(block.get("name"))
        self.block_id = text_of(block.get("id")) or self.block_id
        return ()

    def _piece(self, event: dict[str, Any], record: dict[str, Any]) -> Sequence[Event] | None:
        delta = record_of(event.get("delta"))
        if not self.message_id:
            self.message_id = text_of(record.get("api_message_id"))
        index = count_of(event.get("index"))
        if self.index == _NO_BLOCK or index not in (None, self.index):
            self._enter_block(event)
        match delta.get("type"):
            case "text_delta" if isinstance(text := delta.get("text"), str):
                self.text_index = self.index
                return self._emit(TextDelta(id=self.block_id, text=text, run_id=self._run_id), text)
            case "thinking_delta" if isinstance(text := delta.get("thinking"), str):
                return self._emit(ReasoningDelta(id=self.block_id, text=text, run_id=self._run_id), text)
            case "input_json_delta" if isinstance(text := delta.get("partial_json"), str):
                name, self._call_name = (self._call_name, "") if text else ("", self._call_name)
                piece = ToolInputDelta(call_id=self.block_id, text=text, tool_name=name, run_id=self._run_id)
                return self._emit(piece, text)
            case "signature_delta" | "citations_delta":
                return ()
            case _:
                return None

    def _emit(self, piece: Event, text: str) -> Sequence[Event]:
        if not text:
            return ()
        self._unconfirmed[self.offset + self.index] = self.block_id
        return (piece,)

    def _stop_block(self, _event: dict[str, Any], _record: dict[str, Any]) -> Sequence[Event]:
        self._leave_block()
        return ()

    def _end(self, event: dict[str, Any], _record: dict[str, Any]) -> Sequence[Event]:
        self._usage.update(
            (name, value)
            for name, value in record_of(event.get("usage")).items()
            if count_of(value) is not None or name in _NO_COUNTS
        )
        self._is_ended = True
        return ()

    def _stop(self, _event: dict[str, Any], record: dict[str, Any]) -> list[Event]:
        """Some agents stop a message before its whole comes: only the next one shows that none did."""
        abandoned = record.get("abandoned_blocks")
        first = count_of(record_of(abandoned).get("from_block_index")) or 0
        out = self._take_back(first, is_certain=True) if isinstance(abandoned, dict) else []
        out += self.close()
        self._leave_block()
        return out

    def _take_back(self, first: int, *, is_certain: bool = False) -> list[Event]:
        if self._is_ended and not is_certain:
            return []
        names = [self._unconfirmed.pop(index) for index in sorted(self._unconfirmed) if index >= first]
        return [TextRetracted(id=name, run_id=self._run_id) for name in names]

    def _enter_block(self, event: dict[str, Any]) -> None:
        index = count_of(event.get("index"))
        self.index = 0 if index is None else index
        self.text_index = _NO_BLOCK
        self.block_id = f"{self.message_id}:{self.offset + self.index}"

    def _leave_block(self) -> None:
        self.index = self.text_index = _NO_BLOCK
