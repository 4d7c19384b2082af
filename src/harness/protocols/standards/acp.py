"""ACP: the messages of a connection, of both sides or of the agent alone, or only the updates of a session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from harness.contracts.translator import Record
from harness.events import Event, Message, Relay, RelayReply
from harness.events.relay import RelayChoice
from harness.formats.fields import first_text, items_of, output_of, record_of, text_of
from harness.protocols.acp.stream import AcpTranslator

_ANSWERS = {"stopReason": "session/prompt", "sessionId": "session/new", "protocolVersion": "initialize"}
"""What an answer is to, where only the agent was recorded."""
_CHOICES: dict[str, Literal["allow-once", "allow-always", "reject-once"]] = {
    "allow_once": "allow-once",
    "allow_always": "allow-always",
    "reject_once": "reject-once",
    "reject_always": "reject-once",
}
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
        "request/session/request_permission": "_ask",
        "answer/session/request_permission": "_answer",
        "update/user_message": "_user",
        "update/user_message_chunk": "_user",
    }

    def __init__(self) -> None:
        super().__init__()
        self._requests: dict[str, str] = {}
        """Methods of the client's requests that have no answer yet."""
        self._questions: dict[str, Relay] = {}
        """What the agent asks, by the ids of its requests."""

    def record(self, record: Record) -> Sequence[Event]:
        request_id, method = str(record.get("id")), record.get("method")
        result = record_of(record.get("result"))
        if "id" in record and method in _CLIENT_METHODS:
            self._requests[request_id] = method
        elif "id" in record and method is None and request_id in self._questions and "outcome" in result:
            record = {**record, "id": f"session/request_permission#{request_id}"}
        elif "id" in record and method is None and not _CLIENT_ANSWERS & result.keys():
            guess = next((answer for name, answer in _ANSWERS.items() if name in result), "")
            if name := self._requests.pop(request_id, guess):
                record = {**record, "id": f"{name}#{request_id}"}
        return super().record(record)

    def _initialized(self, record: Record) -> Sequence[Event]:
        out = super()._initialized(record)
        self.is_history = False
        return out

    def _prompt(self, record: Record) -> Sequence[Event]:
        blocks = [record_of(block) for block in items_of(record_of(record.get("params")).get("prompt"))]
        return [Message(role="user", text=output_of(blocks))] if blocks else []

    def _ask(self, record: Record) -> Sequence[Event]:
        out = list(super()._asked(record))
        parameters = record_of(record.get("params"))
        call = record_of(parameters.get("toolCall")) or record_of(
            record_of(parameters.get("subject")).get("toolCall")
        )
        choices = [
            RelayChoice(
                id=text_of(option.get("optionId")),
                kind=_CHOICES[text_of(option.get("kind"))],
                label=text_of(option.get("name")),
            )
            for option in map(record_of, items_of(parameters.get("options")))
            if option.get("kind") in _CHOICES
        ]
        relay = Relay(
            id=f"ask-{record['id']}",
            call_id=text_of(call.get("toolCallId")),
            tool_name=text_of(call.get("kind")),
            input=call.get("rawInput"),
            question=first_text(parameters, "title") or text_of(call.get("title")),
            choices=choices or None,
        )
        self._questions[str(record["id"])] = relay
        return [*out, relay]

    def _answer(self, record: Record) -> Sequence[Event]:
        relay = self._questions.pop(text_of(record.get("id")).partition("#")[2])
        outcome = record_of(record_of(record.get("result")).get("outcome"))
        name = text_of(outcome.get("optionId"))
        choice = next((option for option in relay.choices or () if option.id == name), None)
        is_approved = choice is not None and choice.kind != "reject-once"
        is_always = choice is not None and choice.kind == "allow-always"
        return [RelayReply(id=relay.id, approved=is_approved, always=is_always, choice=name)]

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
