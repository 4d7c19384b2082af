"""Error messages as agents pass them on: of model servers (JSON, a status, a retry), and stack traces of Node."""

from __future__ import annotations

import re

from harness.events import Event, Warning
from harness.formats.fields import first_text, record_of
from harness.formats.json_lines import DECODE_ERRORS, decode


def plain(message: str) -> str:
    """The message within the JSON of an error."""
    start = message.find("{")
    if start < 0:
        return message
    try:
        data = record_of(decode(message[start:]))
    except (*DECODE_ERRORS, UnicodeEncodeError):
        return message
    inner = first_text(record_of(data.get("error")), "message") or first_text(data, "message", "error")
    return message[:start] + inner if inner else message


def code_of(message: str, default: str) -> str:
    """The status that the message begins with."""
    status = re.match(r"(\d{3})\b", message)
    return f"http_{status[1]}" if status is not None else default


def retried(
    failure: str, attempt: int | None, most: int | None, delay_ms: float | None, *, counted: str = "retry"
) -> list[Event]:
    """The model is asked again; `counted` is what the numbers count."""
    which = f"; {counted} {attempt} of {most}" if attempt and most else ""
    when = "" if delay_ms is None else f" in {delay_ms / 1000:.1f} s"
    return [Warning(message=f"{failure}{which}{when}", code="retry")]


_FRAME = re.compile(r"at (?:async )?(?:.+ \([^()]*\)|\S+:\d+:\d+)(?: \{)?")
_PROPERTY = re.compile(r"\[?[a-z]\w*\]?: .*|[}\]],?")


class NodeTraces:
    """Recognizes the lines of a stack trace on stderr; give it every line in order.

    Attempt 1 failed with status 500 … _ApiError: …      the message: not a part of the trace
        at throwErrorIfNotOK (file:///…/chunk.js:267833:24)
        at async Turn.run (file:///…/chunk.js:333001:24) {
      status: 500,
      [cause]: SocketError: other side closed
    }
    """

    __slots__ = ("_is_inside",)

    def __init__(self) -> None:
        self._is_inside = False

    def takes(self, line: str) -> bool:
        """Whether a line, without the blanks around it, belongs to a trace."""
        is_frame = _FRAME.fullmatch(line) is not None
        self._is_inside = is_frame or (self._is_inside and _PROPERTY.fullmatch(line) is not None)
        return self._is_inside
