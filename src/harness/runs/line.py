"""A line: one agent process that is held in a conversation, and its driver. It outlives a run.

    (starts) ──▶ (used by a run) ──▶ (rests) ──▶ (used by the next run) … ──▶ (closed)
                        │                │
                        └────────────────┴──▶ the process ends: the next run starts another one, which resumes

While it rests, a thread of its own reads what the program writes, so that no pipe fills up; the next run
records it. A line that rests too long is closed. Stdin is closed here and nowhere else: to most programs
its end means that the conversation is over.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from harness.contracts.driver import Asked, Driver, Move, Moves, Notice, Send, TurnEnded, TurnStarted
from harness.contracts.translator import Record
from harness.events import Unknown
from harness.formats.json_lines import DECODE_ERRORS, LineBlocks, decode, pieces
from harness.log.raw import RawExit
from harness.process.child import Child, OutputChunk
from harness.runs.launch import Launch

if TYPE_CHECKING:
    from harness.runs.run_gateway import RunGateway

IDLE_S = 600.0
"""How long a line rests before it is closed; the agent's session is then resumed in a new process."""
_CLOSE_S = 5.0
"""For the program to end by itself once its stdin is closed."""
_MOST_UNREAD_BYTES = 8 * 1024 * 1024


class Line:
    """Contract: one thread at a time uses it: that of a run, or its own while it rests."""

    def __init__(self, launch: Launch, gateway: RunGateway | None = None) -> None:
        """`gateway`: the one that the process talks to its model through, which lives as long as the line."""
        assert launch.two_way is not None, "only two-way agents have lines"
        self.gateway = gateway
        self.id: str = secrets.token_hex(4)
        self.driver: Driver = launch.two_way.driver(launch.request, self.id)
        invocation = launch.invocation if gateway is None else gateway.pointed(launch.invocation)
        self.child: Child = _connect(replace(launch, invocation=invocation))
        self.model: str = launch.request.model
        """The model that it was given last; empty: the program's own choice."""
        self.turns = 0
        """How many prompts it has been given."""
        self.carried: dict[str, object] = {}
        """What the translator of the latest run handed on."""
        self.unread: list[OutputChunk | Send] = []
        """What came while it rested, and what was written then: the next run records it."""
        self.held: list[Move] = []
        """What the driver made of that."""
        self._identity = _identity(launch)
        self._blocks = LineBlocks()
        self._rest: threading.Thread | None = None
        self._is_wanted = threading.Event()
        self._unread_bytes = 0

    @property
    def is_open(self) -> bool:
        return self.child.exit is None

    def fits(self, launch: Launch) -> bool:
        """Whether a run with this launch can use the process: the same program, folder, environment and options."""
        resumes = launch.request.resume
        is_same = not resumes or (resumes == self.driver.session_id and not launch.request.fork)
        return self.is_open and is_same and _identity(launch) == self._identity

    def heard(self, chunks: Sequence[OutputChunk]) -> list[Move]:
        """What the driver makes of the lines that are complete now."""
        moves: list[Move] = []
        for chunk in chunks:
            if chunk.stream != "stdout":
                continue
            for record in self._records(self._blocks.feed(chunk.data)):
                moves += self._moves_of(record)
        return moves

    def close(self) -> None:
        """End the conversation: the end of stdin first, then by force. Blocks until the process is gone."""
        self.take_back()
        if self.is_open:
            self.child.close_stdin()
            deadline_s = time.monotonic() + _CLOSE_S
            while self.is_open and (left_s := deadline_s - time.monotonic()) > 0:
                self._put_aside(self.child.read(left_s))
        self.child.close()
        if self.gateway is not None:
            self.gateway.close()

    def exit(self, at_ms: int, turn_end: TurnEnded | None, message: str, *, is_alive: bool) -> RawExit:
        """How a turn ended, and the process if it has."""
        exit = RawExit(at_ms=at_ms, session_id=self.driver.session_id, is_alive=is_alive)
        if (end := self.child.exit) is not None:
            exit = replace(
                exit,
                code=end.code,
                signal=end.signal,
                survivors=end.survivors,
                refused=list(end.refused),
            )
        if turn_end is not None:
            # The process ended because its stdin did: its signal and what it left say nothing of the turn.
            exit = replace(exit, turn=turn_end.outcome, message=message, signal=None)
        return exit

    # Between two runs

    def rest(self, on_turn: Callable[[], object] | None = None, idle_s: float | None = None) -> None:
        """No run uses it from now on. `on_turn`: called when the program begins a turn or asks by itself."""
        self._is_wanted.clear()
        self._rest = threading.Thread(
            target=self._idle,
            args=(on_turn, IDLE_S if idle_s is None else idle_s),
            name=f"line-{self.id}",
            daemon=True,
        )
        self._rest.start()

    def take_back(self) -> None:
        """A run uses it again, or it is closed."""
        if self._rest is not None and self._rest is not threading.current_thread():
            self._is_wanted.set()
            self.child.wake()
            self._rest.join()
            self._rest = None
            self._unread_bytes = 0

    def _idle(self, on_turn: Callable[[], object] | None, idle_s: float) -> None:
        deadline_s = time.monotonic() + idle_s
        while not self._is_wanted.is_set() and self.is_open:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                self.close()
                return
            if self._unread_bytes >= _MOST_UNREAD_BYTES:
                self._is_wanted.wait(left_s)  # the program waits as well: its pipe is full
                continue
            chunks = self.child.read(left_s)
            self._put_aside(chunks)
            news = self._written(self.heard(chunks))
            self.held += news
            if on_turn is not None and any(isinstance(move, TurnStarted | Asked) for move in news):
                on_turn()
                on_turn = None

    def _put_aside(self, chunks: Sequence[OutputChunk]) -> None:
        if self._unread_bytes < _MOST_UNREAD_BYTES:
            self.unread += chunks
            self._unread_bytes += sum(len(chunk.data) for chunk in chunks)

    def _written(self, moves: Moves) -> list[Move]:
        """Write what is to be written; returns the other moves."""
        for move in moves:
            if isinstance(move, Send):
                self.unread.append(move)
                self.child.write(move.data)
        return [move for move in moves if not isinstance(move, Send)]

    def _records(self, block: bytes) -> Iterator[Record]:
        skips, skips_unless = self.driver.skips, self.driver.skips_unless
        for line in [part for part in block.split(b"\n") if part and not part.startswith(skips)]:
            if any(line.startswith(beginning) and mark not in line for beginning, mark in skips_unless):
                continue
            try:
                records = [decode(line)]
            except DECODE_ERRORS:
                records = pieces(line)
            yield from (value for value in records if type(value) is dict)

    def _moves_of(self, record: Record) -> Moves:
        try:
            return self.driver.receive(record)
        except Exception as error:  # noqa: BLE001 # a program's odd line must not end the conversation
            return [Notice(Unknown(raw=record, reason=f"the driver failed: {error!r}"))]


def _connect(launch: Launch) -> Child:
    assert launch.two_way is not None
    if launch.two_way.transport == "stdio":
        return Child(launch.invocation)
    from harness.process.http_child import HttpChild

    return HttpChild(launch.invocation)


def _identity(launch: Launch) -> tuple[object, ...]:
    request, plan, two_way = launch.request, launch.gateway, launch.agent.two_way
    env = {name: value for name, value in launch.invocation.env.items() if name not in launch.run_variables}
    return (
        *(request.gateway, request.sealed, (plan.upstream, plan.model) if plan is not None else None),
        *(launch.binary, launch.version, request.cwd, env),
        *(request.permissions, request.sandbox, request.mcp, request.extra_args),
        *request.tool_servers,
        *(request.system_prompt, request.append_system_prompt, request.effort),
        request.output_schema if two_way is not None and two_way.has_schema_at_start else None,
    )
