"""Plays recorded ACP sessions against the driver: feeds what the agent wrote, does what was done, collects what we write.

Ids of requests are the only thing that differs by design: ours have the method in them.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from harness.agents.registry import load, names
from harness.contracts.agent import TwoWay
from harness.contracts.driver import Asked, Driver, Move, Prompt, Send, TurnEnded, Withdrawn
from harness.contracts.request import Request
from harness.events import Event, RelayReply
from harness.log.raw import RawExit, RawOutput, RawStart
from harness.protocols.acp.driver import AcpDriver, AcpProgram
from harness.protocols.acp.stream import AcpTranslator
from harness.runs.pipeline import Pipeline

RECORDINGS = Path(__file__).parents[1] / "recordings" / "two-way"
AGENTS = tuple(
    name
    for name in names()
    if (known := load(name).two_way) is not None and getattr(known.driver, "func", None) is AcpDriver
)
ADAPTERS = AcpProgram(
    translator=AcpTranslator, capabilities=frozenset({"approve", "ask", "files", "mode", "model"})
)
"""For claude-agent-acp and codex-acp, which are no agents of ours: everything by the protocol alone."""


_REOPENS = ("session/load", "session/resume")
"""The second repeats no history: the driver prefers it where the agent has it."""


def recordings() -> list[Path]:
    return sorted(path for path in RECORDINGS.glob("acp*/*/*.jsonl.gz") if "same-script" not in path.name)


def two_way_of(name: str) -> TwoWay:
    if name in AGENTS:
        two_way = load(name).two_way
        assert two_way is not None
        return two_way
    return ADAPTERS.two_way(two_way_of("kimi").command, since=())


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).decode().splitlines()]


class Dialogue:
    """One process of an agent: a driver, and a pipeline for each of its turns."""

    def __init__(self, name: str, *, cwd: str, resume: str = "", v2: bool = False) -> None:
        self.two_way = two_way_of(name)
        request = Request(agent=name, cwd=cwd, permissions="ask", resume=resume)
        self.driver: Driver = self.two_way.driver(request, "line")
        if v2:
            program = AcpProgram(translator=AcpTranslator, capabilities=frozenset({"approve"}), version=2)
            self.driver = AcpDriver(program, request, "line")
        self.name, self.cwd = name, cwd
        self.moves: list[Move] = []
        self.written: list[dict[str, Any]] = []
        self.asked: list[Asked] = []
        self.turns: list[list[Event]] = []
        self.pipeline: Pipeline | None = None
        self._new_turn("")

    def _new_turn(self, prompt: str) -> None:
        self.pipeline = Pipeline(self.two_way.translator())
        events = self.pipeline.feed(RawStart(at_ms=1, agent=self.name, cwd=self.cwd, prompt=prompt))
        self.turns.append(list(events))

    def do(self, moves: Sequence[Move] | None) -> list[dict[str, Any]]:
        """Carry out what the driver wants; returns what it wrote."""
        wrote = []
        for move in moves or ():
            self.moves.append(move)
            if isinstance(move, Send):
                assert move.data.endswith(b"\n")
                assert move.data.count(b"\n") == 1
                wrote.append(json.loads(move.data))
            elif isinstance(move, Asked):
                self.asked.append(move)
            elif isinstance(move, Withdrawn):
                self.asked = [one for one in self.asked if one.relay.id != move.relay_id]
        self.written += wrote
        return wrote

    def hear(self, record: dict[str, Any]) -> list[dict[str, Any]]:
        assert self.pipeline is not None
        data = json.dumps(record).encode() + b"\n"
        self.turns[-1] += self.pipeline.feed(RawOutput(at_ms=2, stream="stdout", data=data))
        wrote = self.do(self.driver.receive(record))
        if any(isinstance(move, TurnEnded) for move in self.moves):
            self.end_turn()
        return wrote

    def end_turn(self) -> None:
        if self.pipeline is not None and not self.pipeline.lifecycle.ended:
            self.turns[-1] += self.pipeline.feed(RawExit(at_ms=3, code=0))

    def prompt(self, text: str) -> list[dict[str, Any]]:
        if self.driver.session_id and self.pipeline is not None and self.pipeline.lifecycle.ended:
            self._new_turn(text)
        self.moves = []
        return self.do(self.driver.prompt(Prompt(id="prompt", text=text)))

    @property
    def ends(self) -> list[TurnEnded]:
        return [move for move in self.moves if isinstance(move, TurnEnded)]


class Recorded:
    """A recording as a dialogue: `play` yields each thing that was written then, and what the driver writes for it."""

    def __init__(self, path: Path) -> None:
        self.lines = lines_of(path)
        self.scenario = path.name.removesuffix(".jsonl.gz")
        folder = path.parts[-3]
        self.name = folder.split("-", 1)[1]
        loaded = next(iter(self._sent("session/load", "session/resume")), {})
        opened = next(iter(self._sent("session/new", "session/load", "session/resume")), {})
        self.dialogue = Dialogue(
            self.name,
            cwd=opened.get("cwd", "/workspace"),
            resume=loaded.get("sessionId", ""),
            v2=folder.startswith("acp2-"),
        )
        self._ids: dict[Any, Any] = {}
        """Id of a request in the recording → ours; None: we do not send it."""
        self._pending: list[dict[str, Any]] = []
        """What the driver wrote, and the recording has not come to yet."""

    def _sent(self, *methods: str) -> Iterator[dict[str, Any]]:
        for line in self.lines:
            if line["dir"] == "in" and isinstance(line["msg"], dict) and line["msg"].get("method") in methods:
                yield line["msg"]["params"]

    def play(self) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
        self._pending = self.dialogue.do(self.dialogue.driver.begin())
        for line in self.lines:
            said = line["msg"]
            if line["dir"] == "out" and isinstance(said, dict):
                self._hear(said)
            elif line["dir"] == "in" and isinstance(said, dict):
                yield said, self._act(said)

    def _hear(self, said: dict[str, Any]) -> None:
        if "method" not in said and "id" in said:
            if self._ids.get(said["id"]) is None:
                return  # the answer to something that we never send
            said = {**said, "id": self._ids[said["id"]]}
        self._pending += self.dialogue.hear(said)

    def _act(self, said: dict[str, Any]) -> list[dict[str, Any]]:
        method = said.get("method")
        if method is None:
            wrote = self._answer(said)
        elif method == "session/prompt" and not self.dialogue.driver.is_busy and said["params"].get("prompt"):
            wrote = self.dialogue.prompt(said["params"]["prompt"][0]["text"])
        elif method == "session/cancel":
            wrote = self.dialogue.do(self.dialogue.driver.interrupt())
        else:
            wrote = []
        found = [*self._pending, *wrote]
        self._pending = []
        if "id" in said and method is not None:
            wanted = _REOPENS if method in _REOPENS else (method,)
            same = [one for one in found if one.get("method") in wanted]
            self._ids[said["id"]] = same[0]["id"] if same else None
        return found

    def _answer(self, said: dict[str, Any]) -> list[dict[str, Any]]:
        """Answer the question that was answered then, in the same way."""
        driver = self.dialogue.driver
        natives = {relay_id: native for relay_id, native in driver.open.items() if native.has_id(said["id"])}
        result = said.get("result") or {}
        for relay_id, native in natives.items():
            outcome = result.get("outcome", {})
            if outcome.get("outcome") == "cancelled" or result.get("action") == "cancel":
                return self.dialogue.do(driver.cancel_all())
            options = {one["optionId"]: one["kind"] for one in native.params.get("options", ())}
            is_allowed = options.get(outcome.get("optionId"), result.get("action", "")).startswith(
                ("allow", "accept")
            )
            answer = next(iter(result.get("content", {}).values()), "B")
            return self.dialogue.do(
                driver.answer(RelayReply(id=relay_id, approved=is_allowed, answer=answer)) or ()
            )
        return []
