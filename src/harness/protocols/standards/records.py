"""What the formats share: lines of server-sent events, and calls that are told in pieces."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from harness.contracts.toolset import PendingCall, Toolset
from harness.contracts.translator import Record, Translator
from harness.events import Event, ToolEnd, Unknown
from harness.formats.fields import arguments_of

_TOOLS = Toolset(tools={})
"""What a tool does is not known: it is that of any agent."""
_FRAMING = ("event:", "id:", "retry:", ":", "data: [DONE]", "data:[DONE]")


class StandardTranslator(Translator):
    """Inherit for a format. Its records are lines of JSON, or the data of server-sent events."""

    def __init__(self) -> None:
        super().__init__()
        self._calls: dict[str, PendingCall] = {}

    def text(self, line: str) -> Sequence[Event]:
        if line.startswith(_FRAMING) or line.strip() == "data:":  # what is after it is a record of its own
            self.rule = "framing"
            return ()
        self.rule = "unknown"
        return [Unknown(raw=line)]

    def begin_call(
        self, call_id: str, name: str, arguments: object, record: Record, run_id: str = ""
    ) -> list[Event]:
        """A call with all of its arguments. One that has before does not begin again."""
        if call_id in self._calls:
            return []
        value = None if arguments in ("", "null") else arguments_of(arguments)
        call, start = _TOOLS.start(call_id, name, value, self.working_directory, record, run_id=run_id)
        self._calls[call_id] = call
        return [start]

    def end_call(
        self, call_id: str, output: str, *, success: bool | None, name: str = "", run_id: str = ""
    ) -> list[Event]:
        """Its result; one of a call that nobody began begins it."""
        before = [] if call_id in self._calls else self.begin_call(call_id, name, {}, {}, run_id)
        call = self._calls.pop(call_id)
        end = ToolEnd(
            call_id=call.id, tool_name=call.name, success=success, output=output, run_id=call.run_id
        )
        return [*before, end]


class TextPieces(msgspec.Struct):
    """A text that is told in pieces."""

    role: str
    run_id: str
    pieces: list[str] = []

    @property
    def whole(self) -> str:
        return "".join(self.pieces)
