"""Recorded conversations with `codex app-server`, held again with the driver. Not a test.

A line of a recording is `{"dir": "in" | "out" | "err" | "note", "msg": …}`: what we wrote, what Codex wrote, and what the
run did. Recordings named `another-client-…` were made by another program, and only Codex's side of them is used.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from harness.agents.codex.driver import CodexAppServer
from harness.agents.codex.limits import LIMITS
from harness.contracts.driver import Asked, Move, Moves, Prompt, Send, SessionKnown
from harness.contracts.request import Request
from harness.events import Relay, RelayReply
from harness.log import codec
from harness.protocols.json_rpc import RpcRequest
from harness.version import __version__

FOLDER = Path(__file__).parents[1] / "recordings" / "two-way" / "codex-app-server"
Line = dict[str, Any]


def _names(pattern: str) -> list[str]:
    found = sorted(FOLDER.glob(f"*/{pattern}.bidi.jsonl.gz"))
    return [f"{path.parent.name}/{path.name.removesuffix('.bidi.jsonl.gz')}" for path in found]


FOREIGN = _names("another-client-*")
OWN = [name for name in _names("*") if name not in FOREIGN]


def recorded(name: str) -> list[Line]:
    data = gzip.decompress((FOLDER / f"{name}.bidi.jsonl.gz").read_bytes())
    return [msgspec.json.decode(line) for line in data.splitlines()]


def one_way(name: str) -> bytes:
    """What `codex exec --json` wrote for the same script."""
    return gzip.decompress((FOLDER / f"{name}.exec.jsonl.gz").read_bytes())


def said(name: str) -> list[Any]:
    return [line["msg"] for line in recorded(name) if line["dir"] == "out"]


def driver(**more: Any) -> CodexAppServer:
    return CodexAppServer(Request(agent="codex", **more), "line")


def written(moves: Moves | None) -> list[Any]:
    """What is sent; each piece is one whole line of JSON."""
    lines = [move.data for move in moves or () if isinstance(move, Send)]
    assert all(data.endswith(b"\n") and data.count(b"\n") == 1 for data in lines)
    return [msgspec.json.decode(data) for data in lines]


# Short ways to write what Codex says

THREAD, TURN, CHILD = "th", "tu", "child"
OPENED = {"id": 2, "result": {"thread": {"id": THREAD}, "model": "gpt"}}


def of(kind: Any, moves: Moves) -> list[Any]:
    return [move for move in moves if isinstance(move, kind)]


def note(method: str, **params: Any) -> dict[str, Any]:
    return {"method": method, "params": {"threadId": THREAD, "turnId": TURN, **params}}


def started(thread: str = THREAD, turn: str = TURN) -> dict[str, Any]:
    return {"method": "turn/started", "params": {"threadId": thread, "turn": {"id": turn}}}


def completed(status: str = "completed", thread: str = THREAD, turn: str = TURN) -> dict[str, Any]:
    ended = {"id": turn, "status": status, "error": {"message": "why"} if status == "failed" else None}
    return {"method": "turn/completed", "params": {"threadId": thread, "turn": ended}}


def request(method: str, number: Any = 0, **params: Any) -> dict[str, Any]:
    return {"id": number, **note(method, **params)}


def command(number: Any = 0, **params: Any) -> dict[str, Any]:
    return request(
        "item/commandExecution/requestApproval", number, **{"itemId": "c1", "command": "touch a", **params}
    )


def ready(**more: Any) -> CodexAppServer:
    codex = driver(**more)
    codex.begin()
    codex.receive({"id": 1, "result": {}})
    assert codex.receive(OPENED)[0] == SessionKnown(THREAD)
    return codex


def busy(**more: Any) -> CodexAppServer:
    """Ids up to 3 are used: the next request has 4."""
    codex = ready(**more)
    assert written(codex.prompt(Prompt(id="p", text="go")))[0]["method"] == "turn/start"
    codex.receive(started())
    return codex


def asked(codex: CodexAppServer, record: dict[str, Any]) -> Relay:
    [move] = codex.receive(record)
    assert isinstance(move, Asked)
    return move.relay


class Player:
    """Holds a recorded conversation: gives the driver what Codex said, and what the run was asked to do."""

    def __init__(self, name: str) -> None:
        self.moves: list[Move] = []
        self.sent: list[Any] = []
        """What the driver has written, and the recording has not shown yet."""
        self._lines: Iterator[Line] = iter(recorded(name))
        self.driver = driver()

    def play(self) -> None:
        for line in self._lines:
            match line["dir"]:
                case "out":
                    self._do(self.driver.receive(line["msg"]))
                case "in":
                    self._expect(line["msg"])
                case "note" if "run" in line["msg"]:
                    self._begin_run(line["msg"]["run"])
                case "note":
                    self._given(line["msg"]["event"])

    def _do(self, moves: Moves | None) -> None:
        assert moves is not None
        self.moves += moves
        self.sent += written(moves)

    def _begin_run(self, run: dict[str, str]) -> None:
        if not run["session_id"]:
            self.driver = driver(permissions=run["permissions"], resume=run["resume"])

    def _given(self, event: Any) -> None:
        """A reply is made where the recording has it. A question must have been asked before."""
        found = codec.decode(msgspec.json.encode(event))
        if isinstance(found, Relay):
            asked = [move.relay for move in self.moves if isinstance(move, Asked)]
            assert found.id in {relay.id for relay in asked}
        if isinstance(found, RelayReply) and found.by != "policy":
            self._do(self.driver.answer(found))

    def _expect(self, message: Any) -> None:
        if not self.sent:
            self._act(message)
        ours = self.sent.pop(0)
        assert _comparable(ours) == _comparable(_of_this_version(message))

    def _act(self, message: Any) -> None:
        """What the run did to make the driver write this."""
        params = message.get("params", {})
        match message.get("method"):
            case "initialize":
                self._do(self.driver.begin())
            case "turn/start":
                mode = params.get("collaborationMode", {}).get("mode", "")
                self.driver.configure(model=params.get("model", ""), mode=mode)
                self._do(self.driver.prompt(_prompt(params)))
            case "turn/steer":
                self._do(self.driver.steer(_prompt(params)))
            case "turn/interrupt":
                self._do(self.driver.interrupt())
            case None:
                natives = [native for native in self.driver.open.values() if isinstance(native, RpcRequest)]
                assert message["id"] in [native.id for native in natives], message
                self._do(self.driver.cancel_all())


def _prompt(params: Any) -> Prompt:
    return Prompt(id=params["clientUserMessageId"], text=params["input"][0]["text"])


def _of_this_version(message: Any) -> Any:
    """A recording names the Harness that made it, and what that one did not want to hear; the driver must name the one
    that it is now, which listens to the limits of the account.
    """
    if message.get("method") != "initialize":
        return message
    params = message["params"]
    capabilities = dict(params["capabilities"])
    unwanted = capabilities["optOutNotificationMethods"]
    capabilities["optOutNotificationMethods"] = [name for name in unwanted if name != LIMITS]
    client = {**params["clientInfo"], "version": __version__}
    return {**message, "params": {**params, "clientInfo": client, "capabilities": capabilities}}


def _comparable(message: Any) -> Any:
    """Without what depends on the request of the run: where it works, its model, and what its rights were then."""
    params = message.get("params", {})
    if message.get("method") in ("thread/start", "thread/resume"):
        params = {name: value for name, value in params.items() if name not in ("cwd", "model", "sandbox")}
    return {**message, "params": params}
