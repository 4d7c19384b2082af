"""Stack traces of programs that run on Node, as they appear line by line on stderr.

Attempt 1 failed with status 500 … _ApiError: …      the message: not a part of the trace
    at throwErrorIfNotOK (file:///…/chunk.js:267833:24)
    at async Turn.run (file:///…/chunk.js:333001:24) {
  status: 500,
  [cause]: SocketError: other side closed
}
"""

from __future__ import annotations

import re

_FRAME = re.compile(r"at (?:async )?(?:.+ \([^()]*\)|\S+:\d+:\d+)(?: \{)?")
_PROPERTY = re.compile(r"\[?[a-z]\w*\]?: .*|[}\]],?")


class NodeTraces:
    """Tells the lines of a trace from what is said around them; give it every line in order."""

    __slots__ = ("_is_inside",)

    def __init__(self) -> None:
        self._is_inside = False

    def takes(self, line: str) -> bool:
        """Whether a line, without the blanks around it, belongs to a trace."""
        is_frame = _FRAME.fullmatch(line) is not None
        self._is_inside = is_frame or (self._is_inside and _PROPERTY.fullmatch(line) is not None)
        return self._is_inside
