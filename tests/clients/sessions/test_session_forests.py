"""Originals, forks, resumed sessions, runs of Harness and sub-agents in one store, read in any order: each token once."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from harness.clients.sessions.witnesses import join_usage
from harness.contracts.history import Home
from harness.events import Usage
from harness.histories.catalogue import Catalogue
from harness.histories.catalogue_filter import SessionFilter
from harness.histories.catalogue_usage import UsageChoice
from harness.histories.registry import load_all
from harness.log.ids import new_run_id
from harness.usage.ledger import AccountedDelta, AccountedRun

START = 1_790_000_000_123


@dataclass(eq=False)
class Turn:
    """A prompt and what followed from it."""

    number: int
    at_ms: int
    calls: list[tuple[str, int]]
    """Ids of messages, and what they have used."""
    children: list[tuple[str, int]]
    """The same of its sub-agent."""


@dataclass(eq=False)
class Session:
    session_id: str
    turns: list[Turn] = field(default_factory=list)
    read: list[Turn] = field(default_factory=list)
    """As it was when the catalogue last saw it."""
    is_deleted: bool = False


class Forest:
    """The store of Claude Code as people leave it who steer it with and without Harness."""

    def __init__(self, home: Path, seed: int) -> None:
        self.source = random.Random(seed)
        self.sessions: list[Session] = []
        self.ours: dict[Turn, AccountedRun] = {}
        self.home = Home(str(home), {}, ())
        self._folder = home / ".claude" / "projects" / "-w"
        self._folder.mkdir(parents=True)
        self._now_ms = START
        self._turns = 0
        self._children = set[tuple[str, int]]()

    def path(self, session: Session) -> Path:
        return self._folder / f"{session.session_id}.jsonl"

    def grow(self) -> None:
        """A turn in a session, or the first of a new one."""
        session = self.source.choice([*self._existing(), None])
        if session is None:
            session = self._new()
        self._add_turn(session)

    def fork(self) -> None:
        original = self.source.choice(self._existing() or [self._new()])
        if not original.turns:
            self._add_turn(original)
            return
        fork = self._new()
        fork.turns = original.turns[: self.source.randint(1, len(original.turns))]
        if self.source.random() < 0.7:
            self._add_turn(fork)
        self._write(fork)

    def rewrite(self) -> None:
        """Turns are taken back, as by agents that delete them from their stores; what Harness has run stays."""
        if sessions := [one for one in self._existing() if len(one.turns) > 1]:
            session = self.source.choice(sessions)
            kept = [turn for turn in session.turns if turn in self.ours or self.source.random() < 0.6]
            session.turns = kept or session.turns[-1:]
            self._write(session)

    def touch(self) -> None:
        if sessions := self._existing():
            self._now_ms += 1_000
            os.utime(self.path(self.source.choice(sessions)), ns=(self._now_ms * 1_000_000,) * 2)

    def delete(self) -> None:
        """What the catalogue has read of it is known for good."""
        if sessions := [one for one in self._existing() if one.read == one.turns]:
            session = self.source.choice(sessions)
            session.is_deleted = True
            self.path(session).unlink()

    def restore(self) -> None:
        """As from a backup."""
        if sessions := [one for one in self.sessions if one.is_deleted]:
            session = self.source.choice(sessions)
            session.is_deleted = False
            self._write(session)

    def truth(self) -> int:
        """What sub-agents have used stays in files of their own."""
        stored = {call for session in self.sessions for turn in session.read for call in turn.calls}
        return sum(count for _key, count in stored | self._children)

    def _existing(self) -> list[Session]:
        return [session for session in self.sessions if not session.is_deleted]

    def _new(self) -> Session:
        number = self.source.getrandbits(32)
        session = Session(f"{number:08x}-0000-4000-8000-{len(self.sessions):012}")
        self.sessions.append(session)
        return session

    def _add_turn(self, session: Session) -> None:
        self._turns += 1
        self._now_ms += 60_000
        sizes = [self.source.randint(1, 10**6) for _ in range(self.source.randint(1, 3))]
        calls = [(f"msg_{self._turns}_{number}", size) for number, size in enumerate(sizes)]
        children = [(f"msg_{self._turns}_child", self.source.randint(1, 10**6))]
        turn = Turn(self._turns, self._now_ms, calls, children if self.source.random() < 0.3 else [])
        session.turns = [*session.turns, turn]
        if self.source.random() < 0.4:
            self.ours[turn] = self._recorded(session, turn)
        if turn.children:
            self._children |= {*turn.children}
            folder = self._folder / session.session_id / "subagents"
            folder.mkdir(parents=True, exist_ok=True)
            records = list(
                _records(session, turn, turn.children, isSidechain=True, agentId=f"a{turn.number}")
            )
            _write_lines(folder / f"agent-a{turn.number}.jsonl", records)
        self._write(session)

    def _recorded(self, session: Session, turn: Turn) -> AccountedRun:
        """A stream may lack calls that the store has."""
        stated = [*turn.calls, *turn.children][: self.source.choice([0, 1, 9, 9])]
        run_id = new_run_id(turn.at_ms - 500)
        return AccountedRun(
            log_id=run_id,
            run_id=run_id,
            agent="claude",
            session_id=session.session_id,
            started_ms=turn.at_ms - 400,
            ended_ms=turn.at_ms + 20_000,
            models={},
            names={},
            deltas=[
                AccountedDelta(turn.at_ms, run_id, "m", "", Usage(input=count)) for _key, count in stated
            ],
            is_over=True,
            cwd="/w",
        )

    def _write(self, session: Session) -> None:
        records = [record for turn in session.turns for record in _records(session, turn, turn.calls)]
        _write_lines(self.path(session), records)
        os.utime(self.path(session), ns=((self._now_ms + self._turns) * 1_000_000,) * 2)


def _records(
    session: Session, turn: Turn, calls: list[tuple[str, int]], **more: Any
) -> Iterator[dict[str, Any]]:
    def record(kind: str, after_ms: int, **message: Any) -> dict[str, Any]:
        at = datetime.fromtimestamp((turn.at_ms + after_ms) / 1000, UTC).isoformat(timespec="milliseconds")
        about = {"cwd": "/w", "sessionId": session.session_id, "version": "2.1.325", "isSidechain": False}
        return {
            "type": kind,
            "timestamp": at.replace("+00:00", "Z"),
            **about,
            **more,
            "message": {"role": kind, **message},
        }

    yield record("user", 0, content=f"Turn {turn.number}")
    for number, (key, count) in enumerate(calls, start=1):
        usage = {"input_tokens": count, "output_tokens": 0}
        answer = [{"type": "text", "text": "An answer."}]
        whole = record("assistant", 1_000 * number, id=key, model="m", content=answer, usage=usage)
        yield {**whole, "requestId": f"req_{key}"}


def _write_lines(path: Path, records: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(record, separators=(",", ":")) + "\n" for record in records))


class Reader:
    """Two processes that have the same catalogue, one after the other."""

    def __init__(self, forest: Forest, path: Path) -> None:
        self._forest = forest
        self._catalogues = [Catalogue(str(path), load_all()) for _ in range(2)]

    def count(self) -> tuple[int, int]:
        """What the store alone has, and what both witnesses have."""
        source, catalogue = self._forest.source, self._forest.source.choice(self._catalogues)
        catalogue.refresh(self._forest.home)
        unread = [one for one in catalogue.sessions() if not one.is_read]
        source.shuffle(unread)
        catalogue.read(unread[: source.randint(0, len(unread))])
        catalogue.read_each(SessionFilter(only_unread=True))
        for session in self._forest.sessions:
            session.read = session.read if session.is_deleted else session.turns
        stored = sum(row.usage.input or 0 for row in catalogue.usage.rows())
        joined = join_usage(list(self._forest.ours.values()), catalogue)
        others = catalogue.usage.sums((), UsageChoice(without=joined.sessions))
        counted = [one.usage for one in joined.invocations] + [one.usage for one in others]
        return stored, sum(usage.input or 0 for usage in counted)

    def close(self) -> None:
        for catalogue in self._catalogues:
            catalogue.close()


@pytest.mark.parametrize("seed", [*range(3), 214, 262, 305, 445, 472])
def test_every_token_of_a_forest_of_sessions_counts_once_after_every_step(seed: int, tmp_path: Path) -> None:
    """The last seeds found links between the wrong runs, and copies whose original had been deleted."""
    forest = Forest(tmp_path / "home", seed)
    reader = Reader(forest, tmp_path / "histories.sqlite")
    acts = [forest.grow, forest.grow, forest.fork, forest.fork]
    acts += [forest.rewrite, forest.touch, forest.delete, forest.restore]
    done: list[str] = []
    for _ in range(45):
        act = forest.source.choice(acts)
        act()
        done.append(act.__name__)
        if forest.source.random() > 0.6:
            continue  # several things happen before the catalogue is read again
        found = reader.count()
        assert found == (forest.truth(),) * 2, done
    reader.close()
