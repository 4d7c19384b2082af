"""ACP: the messages of a connection, of both sides or of the agent alone, or only the updates of a session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from harness.contracts.translator import Record
from harness.events import Event, Message
from harness.formats.fields import items_of, output_of, record_of, text_of
from harness.protocols.acp.stream import AcpTranslator

_ANSWERS = {"stopReason": "session/prompt", "sessionId": "session/new", "protocolVersion": "initialize"}
"""What an answer is to, where only the agent was recorded."""
_CLIENT_METHODS = (
    *("initialize", "session/prompt"),
    *("session/new", "session/load", "session/resume", "session/fork"),
)
_CLIENT_ANSWERS = frozenset(("outcome", "action"))
"""Answers of the client, whose ids are those of the agent's requests."""


class AcpRecording(AcpTranslator):
    """Ids of requests are those of any client, and what a loaded session repeats is all that there is of it."""

    agent: ClassVar[str] = "acp"
    announces_end: ClassVar[bool] = False
    rules: ClassVar[dict[str, str]] = {
        **AcpTranslator.rules,
        "request/session/prompt": "_prompt",
        "update/user_message": "_user",
        "update/user_message_chunk": "_user",
    }

    def __init__(self) -> None:
        super().__init__()
        self._requests: dict[str, str] = {}
        """Methods of the client's requests that have no answer yet."""

    def record(self, record: Record) -> Sequence[Event]:
        request_id, method = str(record.get("id")), record.get("method")
        result = record_of(record.get("result"))
        if "id" in record and method in _CLIENT_METHODS:
            self._requests[request_id] = method
        elif "id" in record and method is None and not _CLIENT_ANSWERS & result.keys():
            guess = next((one for name, one in _ANSWERS.items() if name in result), "")
            if name := self._requests.pop(request_id, guess):
                record = {**record, "id": f"{name}#{request_id}"}
        return super().record(record)

    def _initialized(self, record: Record) -> Sequence[Event]:
        out = super()._initialized(record)
        self.is_history = False
        return out

    def _prompt(self, record: Record) -> Sequence[Event]:
        blocks = [record_of(one) for one in items_of(record_of(record.get("params")).get("prompt"))]
        return [Message(role="user", text=output_of(blocks))] if blocks else []

    def _user(self, record: Record) -> Sequence[Event]:
        update = record_of(record_of(record.get("params")).get("update"))
        content = update.get("content")
        text = output_of(content if isinstance(content, list) else [content] if content else [])
        return (
            [*self._flush_all(), Message(role="user", text=text, id=text_of(update.get("messageId")))]
            if text
            else []
        )


TRANSLATOR = AcpRecording
