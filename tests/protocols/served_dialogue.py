"""Recordings of servers in both directions, played against a driver and its translator. Not a test."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from harness.agents.registry import load
from harness.contracts.driver import Asked, Driver, Move, Moves, Prompt, Send, TurnEnded
from harness.contracts.request import Permissions, Request
from harness.contracts.translator import Ending, Translator
from harness.events import Event, RelayReply
from harness.log.raw import RawStart

ROOT = Path(__file__).parents[1] / "recordings" / "two-way"
VERSIONS = {"opencode": "1.18.33", "kilo": "7.7.9"}
CASES = [
    (agent, path.name.removesuffix(".jsonl.gz"))
    for agent, version in VERSIONS.items()
    for path in sorted((ROOT / f"{agent}-serve" / version).glob("*.jsonl.gz"))
]


def recorded(agent: str, name: str) -> list[dict[str, Any]]:
    """Entries `{dir, msg}`: `in` was requested, `out` answered, `event` came over the stream."""
    path = ROOT / f"{agent}-serve" / VERSIONS[agent] / f"{name}.jsonl.gz"
    return [msgspec.json.decode(line) for line in gzip.decompress(path.read_bytes()).splitlines()]


def event(name: str, **properties: Any) -> dict[str, Any]:
    return {"event": name, "data": {"id": "evt_1", "type": name, "properties": properties}}


BUSY = event("session.status", sessionID="ses_1", status={"type": "busy"})
PERMISSION = {
    "id": "per_1",
    "permission": "bash",
    "patterns": ["touch a"],
    "metadata": {"command": "touch a"},
}


class ServedDialogue:
    """A driver at work: what it wrote, what it reported, and the events of each turn."""

    def __init__(self, agent: str = "opencode", permissions: Permissions = "ask", **options: Any) -> None:
        self.agent = load(agent)
        assert self.agent.two_way is not None
        self.two_way = self.agent.two_way
        self.options = options
        request = Request(agent=agent, prompt="go", permissions=permissions, **options)
        self.driver: Driver = self.two_way.driver(request, "line")
        self.translator: Translator = self._new_translator()
        self.moves: list[Move] = []
        self.written: list[dict[str, Any]] = []
        self.events: list[Event] = []
        self.turns: list[list[Event]] = []

    def _new_translator(self) -> Translator:
        translator = self.two_way.translator()
        translator.begin(RawStart(at_ms=0, agent=self.agent.name, cwd="/repo", request=self.options))
        return translator

    def do(self, moves: Moves | None) -> list[Move]:
        assert moves is not None
        for move in moves:
            if isinstance(move, Send):
                assert move.data.endswith(b"\n")
                assert b"\n" not in move.data[:-1]
                self.written.append(msgspec.json.decode(move.data))
            else:
                self.moves.append(move)
            if isinstance(move, TurnEnded):
                self.events += self.translator.finish(Ending())
                self.turns.append(self.events)
                self.translator, self.events = self._new_translator(), []
        return [move for move in moves if not isinstance(move, Send)]

    def hears(self, *records: dict[str, Any]) -> list[Move]:
        moves: list[Move] = []
        for record in records:
            self.events += self.translator.record(record)
            line = msgspec.json.encode(record)
            if not line.startswith(self.driver.skips):
                moves += self.do(self.driver.receive(record))
        return moves

    def answers(self, body: Any = None, status: int = 200, path: str = "") -> list[Move]:
        """The answer to the oldest request (to this path) that has none."""
        waiting = (each for each in self.written if "answered" not in each)
        asked = next(each for each in waiting if each["path"].partition("?")[0].endswith(path))
        asked["answered"] = True
        return self.hears({"id": asked["id"], "status": status, "body": body})

    def begin(self, session_id: str = "ses_1") -> None:
        self.do(self.driver.begin())
        self.answers({"id": session_id, "directory": "/repo"})

    def reply(self, relay_id: str, approved: bool = True, **more: Any) -> None:
        self.do(self.driver.answer(RelayReply(id=relay_id, approved=approved, **more)))

    @property
    def asked(self) -> list[Asked]:
        return [move for move in self.moves if isinstance(move, Asked)]

    def last(self) -> tuple[str, str, Any]:
        request = self.written[-1]
        return request["method"], request["path"], request.get("body")


def new_dialogue(**options: Any) -> ServedDialogue:
    dialogue = ServedDialogue(**options)
    dialogue.begin()
    return dialogue


def busy(**options: Any) -> ServedDialogue:
    dialogue = new_dialogue(**options)
    dialogue.do(dialogue.driver.prompt(Prompt(id="p1", text="go")))
    dialogue.answers(status=204)
    dialogue.hears(BUSY)
    return dialogue


def asked(session_id: str = "ses_1", **more: Any) -> dict[str, Any]:
    tool = {"messageID": "msg_1", "callID": "call_1"}
    return event("permission.asked", sessionID=session_id, tool=tool, **{**PERMISSION, **more})


def play(agent: str, name: str, permissions: Permissions = "ask") -> tuple[ServedDialogue, list[str]]:
    """Play a recording: do what was done in it. Returns what was written otherwise than in the recording."""
    dialogue = ServedDialogue(agent, permissions)
    differences: list[str] = []
    for entry in recorded(agent, name):
        message = entry["msg"]
        if entry["dir"] == "event":
            dialogue.hears({"event": message["type"], "data": message})
        elif entry["dir"] == "out" and isinstance(message, dict):
            open_paths = [each["path"] for each in dialogue.written if "answered" not in each]
            if message["path"] in open_paths:
                dialogue.answers(message.get("body"), message["status"], message["path"])
        elif entry["dir"] == "in":
            differences += _perform(dialogue, message)
    return dialogue, differences


def _perform(dialogue: ServedDialogue, wanted: dict[str, Any]) -> Iterator[str]:
    """Do with the driver what was done in the recording; requests that only looked at something are left out."""
    driver, path, body = dialogue.driver, wanted["path"], wanted.get("body") or {}
    count = len(dialogue.written)
    match path.split("/")[1:]:
        case ["session"]:
            dialogue.do(driver.begin())
            count, body = len(dialogue.written) - 1, {}
        case ["session", driver.session_id, "prompt_async"] if "parts" in body:
            _say(dialogue, body)
        case ["session", _, "abort"]:
            dialogue.do(driver.interrupt())
            dialogue.do(driver.cancel_all())
        case ["permission" | "question" as kind, native_id, "reply"] if native_id in _open_ids(driver):
            relay_id = next(key for key, native in driver.open.items() if native.id == native_id)
            answer = body["answers"][0] if kind == "question" else None
            is_refused = body.get("reply") == "reject"
            dialogue.reply(relay_id, not is_refused, reason=body.get("message", ""), answer=answer)
            if body.get("reply") == "always":
                body = {"reply": "once"}  # "always" is a matter of our own rules
        case _:
            return
    written = dialogue.written[count]
    if (written["method"], written["path"]) != (wanted["http"], path):
        yield f"{written} instead of {wanted}"
    for key, value in body.items():
        if written["body"].get(key) != value:
            yield f"{key}: {written['body'].get(key)!r} instead of {value!r}"


def _say(dialogue: ServedDialogue, body: dict[str, Any]) -> None:
    from harness.contracts.model import Attachment

    driver = dialogue.driver
    text, *files = body["parts"]
    attachments = tuple(
        Attachment(file["mime"], file["url"].partition("base64,")[2], file["filename"]) for file in files
    )
    model = body.get("model")
    driver.configure(
        model=f"{model['providerID']}/{model['modelID']}" if model else "", mode=body.get("agent", "")
    )
    prompt = Prompt(id=f"prompt-{len(dialogue.written)}", text=text["text"], attachments=attachments)
    dialogue.do(driver.steer(prompt) if driver.is_busy else driver.prompt(prompt))


def _open_ids(driver: Driver) -> set[str]:
    return {native.id for native in driver.open.values()}
