"""Otter's `--talk`: prompts and answers go to its stdin as JSON lines; it asks with `ask`, and a turn ends with `bye`."""

from __future__ import annotations

from typing import Any

from harness.contracts.driver import Driver, Move, Moves, Prompt, SessionKnown, TurnEnded, line
from harness.contracts.translator import Record
from harness.events import Relay, RelayReply
from harness.formats.fields import text_of

CAPABILITIES = frozenset({"approve"})


class OtterDriver(Driver):
    capabilities = CAPABILITIES
    _is_interrupted = False

    def begin(self) -> Moves:
        return []  # it says hello by itself

    def prompt(self, prompt: Prompt) -> Moves:
        self.is_busy, self._is_interrupted = True, False
        return [line({"kind": "prompt", "text": prompt.text})]

    def interrupt(self) -> Moves:
        self._is_interrupted = True
        return [*self.cancel_all(), line({"kind": "stop"})]

    def receive(self, record: Record) -> Moves:
        match record.get("kind"):
            case "hello":
                self.is_ready, self.session_id = True, text_of(record.get("session"))
                return [SessionKnown(self.session_id)]
            case "ask":
                relay = Relay(
                    id="",
                    call_id=text_of(record.get("id")),
                    tool_name=text_of(record.get("tool")),
                    input=record.get("input"),
                )
                return [self._ask(record.get("id"), relay)]
            case "bye":
                return self._end(is_success=record.get("ok") is not False)
            case _:
                return []

    def _end(self, *, is_success: bool) -> Moves:
        self.is_busy = False
        withdrawn: list[Move] = self._withdraw(lambda _native: True)
        if self._is_interrupted:
            return [*withdrawn, TurnEnded("interrupted")]
        return [*withdrawn, TurnEnded("completed" if is_success else "failed")]

    def _answered(self, native: Any, reply: RelayReply) -> Moves:
        return [line({"kind": "answer", "id": native, "ok": reply.approved, "reason": reply.reason})]

    def _cancelled(self, native: Any) -> Moves:
        return [line({"kind": "answer", "id": native, "ok": False, "reason": "stopped"})]
