"""Plays recordings of both directions: against a driver in this process, or as a program over its pipes.

A recording has one JSON object per line, `{"dir": …, "msg": …}`; its file may be gzipped. `in` was written to the
agent, `out` came from its stdout, `event` from its stream of events, `err` from its stderr, and
`{"exit_code": N}` of a `note` is how it ended; other notes are passed over. Conversations that were made up may
also `wait` until there is a file.

    played = play(driver, read_recording(path), act)      # `act` performs one `in` as a call of the driver
    assert not played.differences

    request = Request(binary=peer_program(tmp_path, path, "2.1.325"), …)   # a program that answers like the agent

Ids of ours differ from the recorded ones: where they stand in the same place they are taken for each other, and
replaced in what the agent says later. Ids that an answer repeats have to be the agent's own.

The program waits at each `in` for a line of that kind, and passes over other ones. After the last line it waits for
the end of its stdin. It needs the standard library only, so that it starts at once.
"""

from __future__ import annotations

import gzip
import json
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

    from harness.contracts.driver import Driver, Move, Moves

TWO_WAY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "recordings", "two-way")
"""Recordings of both directions: `AGENT/VERSION/SCENARIO.jsonl.gz`."""

ID_KEYS = frozenset({"id", "request_id", "uuid", "message_uuid", "clientUserMessageId"})
"""Where ids of ours stand: `id` of the whole record only."""


class Step(NamedTuple):
    direction: str
    """`in`, `out`, `event`, `err`, `wait` or `exit`."""
    message: Any


def read_recording(path: str | Path) -> list[Step]:
    with open(path, "rb") as file:
        data = file.read()
    lines = (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode().splitlines()
    return list(_steps(json.loads(line) for line in lines))


def _steps(entries: Iterable[dict[str, Any]]) -> Iterable[Step]:
    for entry in entries:
        direction, message = entry["dir"], entry["msg"]
        if direction != "note":
            yield Step(direction, message)
        elif isinstance(message, dict) and "exit_code" in message:
            yield Step("exit", message["exit_code"])


# Ids


class Ids:
    """Ids of the recording → ids of ours."""

    def __init__(self) -> None:
        self._ours: dict[Any, Any] = {}

    def learn(self, recorded: Any, ours: Any) -> None:
        if isinstance(recorded, str | int) and not isinstance(recorded, bool):
            self._ours[recorded] = ours

    def renamed(self, record: Any) -> Any:
        """What the agent said, with our ids in it. Numbers are ids only as the `id` of an answer."""
        found = self._renamed(record)
        if isinstance(record, dict) and type(record.get("id")) is int and "method" not in record:
            found["id"] = self._ours.get(record["id"], record["id"])
        return found

    def _renamed(self, value: Any) -> Any:
        match value:
            case str():
                return self._ours.get(value, value)
            case list():
                return [self._renamed(item) for item in value]
            case dict():
                return {key: self._renamed(item) for key, item in value.items()}
        return value


def kind_of(record: Any) -> str:
    """What sort of line it is: its method, its type, or that it is an answer."""
    if not isinstance(record, dict):
        return "text"
    if is_answer(record):
        return "answer"
    if "http" in record:
        return f"{record['http']} {record.get('path')}"
    request = record.get("request")
    subtype = request.get("subtype", "") if isinstance(request, dict) else ""
    return str(record.get("method") or f"{record.get('type')} {subtype}".strip())


def is_answer(record: dict[str, Any]) -> bool:
    """Whether it answers a request of the other side, whose id it repeats."""
    return "result" in record or "error" in record or str(record.get("type")).endswith("_response")


def differences(recorded: Any, ours: Any, ids: Ids) -> list[str]:
    """Where a line of ours differs from the recorded one; learns the ids."""
    recorded = ids.renamed(recorded)
    maps_ids = isinstance(recorded, dict) and not is_answer(recorded)
    return list(_differences(recorded, ours, ids if maps_ids else None, ""))


def _differences(recorded: Any, ours: Any, ids: Ids | None, where: str) -> Iterable[str]:
    if isinstance(recorded, dict) and isinstance(ours, dict):
        for key in {**recorded, **ours}:
            place = f"{where}.{key}" if where else key
            is_id = ids is not None and key in ID_KEYS and (key != "id" or not where)
            if is_id and ids is not None and key in recorded and key in ours:
                ids.learn(recorded[key], ours[key])
            elif key not in ours or key not in recorded:
                value = ours.get(key, recorded.get(key))
                yield f"{place}: only {'ours' if key in ours else 'recorded'}: {json.dumps(value)[:200]}"
            else:
                yield from _differences(recorded[key], ours[key], ids, place)
    elif isinstance(recorded, list) and isinstance(ours, list) and len(recorded) == len(ours):
        for index, (one, other) in enumerate(zip(recorded, ours, strict=True)):
            yield from _differences(one, other, ids, f"{where}[{index}]")
    elif recorded != ours or type(recorded) is not type(ours):
        yield f"{where}: recorded {json.dumps(recorded)[:200]}, ours {json.dumps(ours)[:200]}"


# In this process


class Played:
    """What came of it."""

    def __init__(self) -> None:
        self.moves: list[Move] = []
        """Every move but those that write, in order."""
        self.differences: list[str] = []
        self.extra: list[Any] = []
        """Lines of ours that the recording does not have."""

    def of(self, kind: type[Any]) -> list[Any]:
        return [move for move in self.moves if isinstance(move, kind)]


Act = Callable[["Driver", Any], "Moves | None"]
"""Performs a recorded `in` as a call of the driver: prompt, steer, answer, interrupt … None: not ours to do."""


def play(
    driver: Driver,
    steps: Sequence[Step],
    act: Act,
    *,
    normal: Callable[[Any], Any] = lambda record: record,
    received: Callable[[Step], Any] = lambda step: step.message if step.direction == "out" else None,
) -> Played:
    """Feed a driver with what the agent said, do what was done to it, and compare what is written.

    What a driver writes by itself (handshakes, refusals) is compared before `act` is asked. `normal`: what is
    compared of a line, recorded or ours; None: it is not compared. `received`: the record of a step, if it has one.
    """
    return _Player(driver, act, normal, received).play(steps)


class _Player:
    def __init__(
        self, driver: Driver, act: Act, normal: Callable[[Any], Any], received: Callable[[Step], Any]
    ) -> None:
        self._driver = driver
        self._act = act
        self._normal = normal
        self._received = received
        self._written: list[Any] = []
        self._ids = Ids()
        self._played = Played()

    def play(self, steps: Sequence[Step]) -> Played:
        for step in steps:
            if step.direction == "in":
                self._perform(step.message)
            elif isinstance(record := self._received(step), dict):
                self._take(self._driver.receive(self._ids.renamed(record)))
        self._played.extra += self._written
        return self._played

    def _take(self, moves: Moves | None) -> None:
        from harness.contracts.driver import Send

        for move in moves or ():
            if not isinstance(move, Send):
                self._played.moves.append(move)
                continue
            assert move.data.endswith(b"\n"), "a line has an end"
            assert move.data.count(b"\n") == 1, "one line is written at a time"
            record = self._normal(json.loads(move.data))
            if record is not None:
                self._written.append(record)

    def _perform(self, recorded: Any) -> None:
        wanted = self._normal(recorded)
        if wanted is None or not self._writes(kind_of(wanted)):
            self._take(self._act(self._driver, self._ids.renamed(recorded)))
        if wanted is None:
            return
        if not self._writes(kind_of(wanted)):
            self._played.differences.append(f"not written: {json.dumps(wanted)[:300]}")
            return
        place = next(i for i, one in enumerate(self._written) if kind_of(one) == kind_of(wanted))
        self._played.extra += self._written[:place]
        ours = self._written[place]
        del self._written[: place + 1]
        self._played.differences += differences(wanted, ours, self._ids)

    def _writes(self, kind: str) -> bool:
        return any(kind_of(record) == kind for record in self._written)


# As a program


def peer_program(folder: Path, recording: str | Path, version: str) -> str:
    """An executable that plays the recording; asked for its version, it says that one."""
    program = folder / "peer"
    line = shlex.join([sys.executable, "-S", os.path.abspath(__file__), str(recording)])
    program.write_text(
        f'#!/bin/sh\nif [ "$1" = "--version" ]; then echo "{version}"; exit 0; fi\nexec {line} "$@"\n'
    )
    program.chmod(0o755)
    return str(program)


def main(path: str) -> int:
    ids, code = Ids(), 0
    for step in read_recording(path):
        match step.direction:
            case "in":
                if not _awaited(step.message, ids):
                    return 0  # as the agents do when their stdin ends
            case "out":
                message = step.message
                text = message if isinstance(message, str) else _line(ids.renamed(message))
                _write(1, text)
            case "err":
                _write(2, step.message if isinstance(step.message, str) else _line(step.message))
            case "wait":
                while not os.path.exists(step.message):
                    time.sleep(0.005)
            case "exit":
                code = step.message if isinstance(step.message, int) else 0
    if code < 0:
        os.kill(os.getpid(), -code)
    while sys.stdin.buffer.readline():
        pass
    return code


def _awaited(recorded: Any, ids: Ids) -> bool:
    """Wait for a line like the recorded one."""
    while line := sys.stdin.buffer.readline():
        ours = json.loads(line)
        if kind_of(ours) == kind_of(recorded):
            differences(recorded, ours, ids)
            return True
    return False


def _line(record: Any) -> str:
    return json.dumps(record, ensure_ascii=False, separators=(",", ":"))


def _write(descriptor: int, text: str) -> None:
    view = memoryview(text.encode("utf-8", "surrogatepass") + b"\n")
    while view:
        view = view[os.write(descriptor, view) :]


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1]))
    except (KeyboardInterrupt, BrokenPipeError):
        sys.exit(130)
