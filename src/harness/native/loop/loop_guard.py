"""Notices a model that makes the same call again and again, with the same result: it is told, and then stopped."""

from __future__ import annotations

from collections import deque

from harness.contracts.model import Call
from harness.conversation.compaction import encoded

_REMEMBERED = 12
"""The last calls; a circle of a few calls is noticed too."""
TOLD_AT, STOPPED_AT = 3, 6
"""So many of the same among them."""


class LoopGuard:
    def __init__(self) -> None:
        self._last: deque[int] = deque(maxlen=_REMEMBERED)
        self.repeated = ""
        """The name of a tool whose call was made too often; empty: none was."""

    def notice(self, call: Call, output: str) -> str:
        """What the model is told besides the output. A call whose result changes, such as a look at a server, is none."""
        key = hash((call.name, encoded(call.input), output))
        self._last.append(key)
        count = self._last.count(key)
        if count >= STOPPED_AT:
            self.repeated = call.name
        if count < TOLD_AT:
            return ""
        return (
            f"\n[This is call number {count} with these arguments and this result. It will not change: do something else, or "
            "say what is missing.]"
        )
