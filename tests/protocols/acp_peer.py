"""An ACP driver, and short ways to speak with it."""

from __future__ import annotations

import json
from typing import Any

from harness.contracts.driver import Asked, Prompt, Send
from harness.contracts.request import Request
from harness.events import RelayReply
from harness.protocols.acp.driver import AcpDriver, AcpProgram
from harness.protocols.acp.stream import AcpTranslator

PLAIN = AcpProgram(translator=AcpTranslator, capabilities=frozenset({"approve", "files"}))
OPTIONS = [
    {"optionId": "for-ever", "name": "Always", "kind": "allow_always"},
    {"optionId": 0, "name": "Allow", "kind": "allow_once"},
    {"optionId": "no", "name": "Reject", "kind": "reject_once"},
]


class Peer:
    """A driver, and short ways to speak with it."""

    def __init__(self, program: AcpProgram = PLAIN, **request: Any) -> None:
        self.driver = AcpDriver(program, Request(agent="x", cwd="/w", **request), "line")
        self.moves: list[Any] = []

    def do(self, moves: Any) -> list[dict[str, Any]]:
        self.moves = list(moves or ())
        return [json.loads(move.data) for move in self.moves if isinstance(move, Send)]

    def hear(self, record: Any) -> list[dict[str, Any]]:
        return self.do(self.driver.receive(record))

    def answer(self, method: str, result: Any = None, error: Any = None) -> list[dict[str, Any]]:
        """Answer our latest request of this method."""
        number = self.driver._last_id
        while f"{method}#{number}" not in self.driver._waiting:
            number -= 1
            assert number > 0, f"no {method} waits"
        end = {"error": error} if error else {"result": {} if result is None else result}
        return self.hear({"jsonrpc": "2.0", "id": f"{method}#{number}", **end})

    def open(self, initialized: Any = None, session: Any = None) -> list[dict[str, Any]]:
        self.do(self.driver.begin())
        self.answer("initialize", {"protocolVersion": 1, "agentCapabilities": {}, **(initialized or {})})
        opens = "session/new" if not self.driver.request.resume else ""
        if opens:
            return self.answer(opens, {"sessionId": "s", **(session or {})})
        return []

    def prompt(self, text: str = "go") -> list[dict[str, Any]]:
        return self.do(self.driver.prompt(Prompt(id="p", text=text)))

    def ask(self, request_id: Any = 0, **call: Any) -> str:
        """The agent asks for permission; returns the id of the relay."""
        called = {"toolCallId": "c1", "title": "touch a", "rawInput": {"command": "touch a"}, **call}
        params = {"sessionId": "s", "toolCall": called, "options": OPTIONS}
        self.hear({"id": request_id, "method": "session/request_permission", "params": params})
        [asked] = self.moves
        assert isinstance(asked, Asked)
        return asked.relay.id

    def reply(self, relay_id: str, **reply: Any) -> list[dict[str, Any]]:
        return self.do(self.driver.answer(RelayReply(id=relay_id, **reply)))

    def has(self, kind: type) -> list[Any]:
        return [move for move in self.moves if isinstance(move, kind)]
