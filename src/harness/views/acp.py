"""The updates of the Agent Client Protocol (version 1), one `session/update` a line: what an editor is sent.

    {"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"0198…","update":{"sessionUpdate":"plan","entries":[]}}}

Rules
1. Prompts are in it too, as for a session that is loaded.
2. What sub-agents say is the content of the call that started them; `_meta.harness` names their run.
3. Errors, warnings and compaction are left out: only a client that has announced them knows these updates
   (`harness acp` sends them then). Retracted text stays, as version 1 cannot take it back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.events import Event
from harness.folds.standards.acp import AcpFold
from harness.formatting.json_text import encode
from harness.stage import View, ViewOptions


class Acp:
    def __init__(self) -> None:
        self._fold = AcpFold()

    def feed(self, event: Event, /) -> Sequence[bytes]:
        return [self._line(update) for update in self._fold.feed(event)]

    def finish(self) -> Sequence[bytes]:
        return ()

    def _line(self, update: dict[str, Any]) -> bytes:
        parameters = {"sessionId": self._fold.log_id, "update": update}
        return encode({"jsonrpc": "2.0", "method": "session/update", "params": parameters}) + b"\n"


def open(options: ViewOptions) -> View:
    del options
    return Acp()
