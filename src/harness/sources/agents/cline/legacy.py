"""The flat say/ask stream that Cline wrote before 3.0: each line is a message of its chat.

{"type":"say","say":"text","text":"I will look.","ts":1760501486669,"partial":true}

Only messages are translated. What tools did is text for a screen there, and stays unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from harness.events import Error, Event, Message, ReasoningDelta, Result, TextDelta, Warning
from harness.sources.formats.fields import decoded, first_text, record_of, text_of

_SAID_NOTHING_NEW = (
    "task",
    "api_req_started",
    "api_req_finished",
    "checkpoint_created",
    "deleted_api_reqs",
)


class LegacyChat:
    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        """What was emitted so far of messages that come in pieces."""
        self._said: dict[str, Callable[[str, str, bool], Sequence[Event]]] = {
            "text": self._text,
            "completion_result": self._completion,
            "reasoning": self._reasoning,
            "error": self._error,
            "api_req_failed": self._error,
            "error_retry": self._retry,
            "api_req_retried": self._retry,
            "command_permission_denied": self._denied,
        } | dict.fromkeys(_SAID_NOTHING_NEW, _nothing)
        self._asked: dict[str, Callable[[str, str, bool], Sequence[Event]]] = {
            "followup": self._question,
            "plan_mode_respond": self._question,
            "completion_result": self._completion,
            "api_req_failed": self._error,
        }

    def feed(self, record: dict[str, Any]) -> Sequence[Event] | None:
        """None when the message is of a kind that is not taken over."""
        kind = text_of(record.get("type"))
        actions = self._said if kind == "say" else self._asked
        action = actions.get(text_of(record.get(kind)))
        if action is None:
            return None
        text = first_text(record, "text", "reasoning")
        return action(text, str(record.get("ts", "")), record.get("partial") is True)

    def _text(self, text: str, name: str, is_partial: bool) -> Sequence[Event]:
        if is_partial:
            new = self._new_part(text, name)
            return [TextDelta(id=name, text=new)] if new else ()
        self._texts.pop(name, None)
        return [Message(role="assistant", text=text, id=name)] if text else ()

    def _reasoning(self, text: str, name: str, _is_partial: bool) -> Sequence[Event]:
        new = self._new_part(text, name)
        return [ReasoningDelta(id=name, text=new)] if new else ()

    def _new_part(self, text: str, name: str) -> str:
        known = self._texts.get(name, "")
        self._texts[name] = text
        return text[len(known) :] if text.startswith(known) else text

    def _completion(self, text: str, name: str, is_partial: bool) -> Sequence[Event]:
        said = self._text(text, name, is_partial)
        return said if is_partial else [*said, Result(success=True, text=text)]

    def _question(self, text: str, name: str, is_partial: bool) -> Sequence[Event]:
        if is_partial:
            return ()
        data = record_of(decoded(text))
        return self._text(first_text(data, "question", "response") or text, name, is_partial)

    def _error(self, text: str, _name: str, is_partial: bool) -> Sequence[Event]:
        return () if is_partial else [Error(message=text or "the request to the model failed", code="error")]

    def _retry(self, text: str, _name: str, is_partial: bool) -> Sequence[Event]:
        return () if is_partial else [Warning(message=text or "a request is sent again", code="retry")]

    def _denied(self, text: str, _name: str, is_partial: bool) -> Sequence[Event]:
        return () if is_partial else [Warning(message=text or "permission denied", code="permission_denied")]


def _nothing(_text: str, _name: str, _is_partial: bool) -> Sequence[Event]:
    return ()
