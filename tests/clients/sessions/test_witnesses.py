"""What Harness has recorded of a session and what its agent has stored are joined run by run: each token counts once."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.clients.sessions.witnesses import JoinedUsage, RunTimes, join_usage, native_runs
from harness.events import Usage
from harness.histories.catalogue import Catalogue
from harness.histories.catalogue_rows import CataloguedRun, CataloguedSession
from harness.histories.catalogue_usage import CataloguedUsage, UsageChoice
from harness.histories.registry import load_all
from harness.log.ids import new_run_id, time_of
from harness.usage.ledger import AccountedDelta, AccountedRun
from harness.usage.prices import USUAL
from stored_homes import cases

SESSION = ("codex", "thread")
NUMBER = 7
CHILD = 8
MINUTE = 60_000
START = 1_790_000_000_123


class StoredRuns:
    """A catalogue with one session, and perhaps one of its sub-agents."""

    def __init__(
        self, counts: dict[int, int], child: dict[str, Any] | None = None, child_count: int = 0
    ) -> None:
        """`counts`: minute of each run → tokens; 0: the store knows of none."""
        self._counts = counts
        self._child = child
        self._child_count = child_count
        self.usage = SimpleNamespace(rows=self._rows)

    def names(self) -> dict[tuple[str, str], int]:
        child = {("codex", "child"): CHILD} if self._child is not None else {}
        return {SESSION: NUMBER, **child}

    def runs(self, numbers: Iterable[int]) -> dict[int, list[CataloguedRun]]:
        if NUMBER not in numbers:
            return {}
        each = enumerate(sorted(self._counts), 1)
        return {NUMBER: [CataloguedRun(NUMBER, run, START + minute * MINUTE, 0) for run, minute in each]}

    def copies(self) -> list[Any]:
        return []

    def children(self, agents: Iterable[str]) -> list[Any]:
        assert "codex" in agents
        if self._child is None:
            return []
        about = {"number": CHILD, "agent": "codex", "session_id": "child", "cwd": "", "parent_id": ""}
        return [SimpleNamespace(**{**about, **self._child})]

    def _rows(self, only: Collection[int]) -> Iterator[CataloguedUsage]:
        for run, (minute, count) in enumerate(sorted(self._counts.items()), 1):
            if count:
                at_ms = START + minute * MINUTE
                usage = Usage(input=count)
                yield CataloguedUsage(NUMBER, run, *SESSION, "/w", at_ms, "m", USUAL, usage)
        if CHILD in only:
            usage = Usage(input=self._child_count)
            yield CataloguedUsage(CHILD, 1, "codex", "child", "/w", START, "m", USUAL, usage)


def _ours(minute: int, count: int, *, is_cumulative: bool = False, call_id: str = "") -> AccountedRun:
    """A run of Harness that lasts a minute and begins a little before its prompt is stored."""
    at_ms = START + minute * MINUTE
    run_id = new_run_id(at_ms - 500)
    deltas = [AccountedDelta(at_ms + 900, run_id, "m", call_id, Usage(input=count))] if count else []
    return AccountedRun(
        log_id=f"log {minute}",
        run_id=run_id,
        agent=SESSION[0],
        session_id=SESSION[1],
        started_ms=at_ms + 300,  # the agent's first word comes behind the prompt
        ended_ms=at_ms + MINUTE,
        models={},
        names={},
        deltas=deltas,
        is_cumulative=is_cumulative,
        is_over=True,
        cwd="/w",
    )


def _joined(stored: StoredRuns, *ours: AccountedRun) -> JoinedUsage:
    return join_usage(ours, cast("Catalogue", stored))


def _count(joined: JoinedUsage) -> int:
    return sum(one.usage.input or 0 for one in joined.invocations)


def _by_run(joined: JoinedUsage) -> dict[str, int]:
    """Those without Harness under the name of the session."""
    found: dict[str, int] = {}
    for one in joined.invocations:
        made_ms = time_of(one.run_id)
        name = "thread" if made_ms is None else f"log {(made_ms - START + 500) // MINUTE}"
        found[name] = found.get(name, 0) + (one.usage.input or 0)
    return found


def test_runs_without_harness_before_between_and_after_count_beside_ours() -> None:
    stored = StoredRuns({0: 222, 10: 111, 20: 111, 30: 111, 40: 111})
    joined = _joined(stored, _ours(10, 111), _ours(30, 111))
    assert _by_run(joined) == {"thread": 444, "log 10": 111, "log 30": 111}
    assert {one.log_id for one in joined.invocations} == {"log 30"}  # it is one session
    assert joined.sessions == {NUMBER}


def test_a_conversation_of_several_agents_keeps_its_own_part() -> None:
    ours, other, later = _ours(10, 111), _ours(20, 5), _ours(30, 111)
    other.log_id, other.session_id = ours.log_id, "another agent's"
    joined = _joined(StoredRuns({0: 222, 10: 111, 30: 111}), ours, other, later)
    assert sorted((one.log_id, one.usage.input) for one in joined.invocations) == [
        ("log 10", 5),
        ("log 10", 111),
        ("log 30", 111),
        ("log 30", 222),
    ]


def test_a_run_of_ours_without_usage_takes_that_of_the_store() -> None:
    joined = _joined(StoredRuns({0: 222, 10: 555}), _ours(10, 0))
    assert _by_run(joined) == {"thread": 222, "log 10": 555}


def test_a_run_of_which_the_store_says_nothing_counts_as_recorded() -> None:
    assert _by_run(_joined(StoredRuns({0: 222, 10: 0}), _ours(10, 111))) == {"thread": 222, "log 10": 111}


def test_of_two_accounts_the_fuller_one_counts() -> None:
    assert _count(_joined(StoredRuns({10: 111}), _ours(10, 100))) == 111
    assert _count(_joined(StoredRuns({10: 100}), _ours(10, 111))) == 111


def test_a_run_that_states_the_total_of_its_session_is_counted_as_stored() -> None:
    stored = StoredRuns({0: 222, 10: 111, 20: 111})
    assert _count(_joined(stored, _ours(10, 333, is_cumulative=True))) == 444


def test_a_share_of_a_total_that_includes_what_happened_between_is_counted_as_stored() -> None:
    """It is what the total has grown by since the run of ours before."""
    stored = StoredRuns({0: 222, 10: 111, 20: 111, 30: 111})
    ours = _ours(10, 333, is_cumulative=True), _ours(30, 222)
    assert _by_run(_joined(stored, *ours)) == {"thread": 333, "log 10": 111, "log 30": 111}


def test_a_total_after_a_run_that_was_held_in_a_conversation_is_counted_as_stored() -> None:
    """That one states what it has used itself, so that the next total has all that happened since the last total."""
    stored = StoredRuns({0: 222, 10: 111, 20: 111, 30: 111, 40: 900, 50: 111})
    ours = _ours(10, 333, is_cumulative=True), _ours(30, 111), _ours(50, 1122)
    assert _by_run(_joined(stored, *ours)) == {"thread": 1233, "log 10": 111, "log 30": 111, "log 50": 111}


class ForkedRuns(StoredRuns):
    """Its first two runs are copies of those of a session that Harness has never run, where they are counted."""

    ORIGINAL = 9

    def copies(self) -> list[Any]:
        return [((NUMBER, run), (self.ORIGINAL, run)) for run in (1, 2)]

    def _rows(self, only: Collection[int]) -> Iterator[CataloguedUsage]:
        yield from super()._rows(only)
        for run, count in ((1, 222), (2, 111)) if self.ORIGINAL in only else ():
            yield CataloguedUsage(
                self.ORIGINAL, run, "codex", "o", "/w", START + run, "m", USUAL, Usage(input=count)
            )


def test_a_total_of_a_fork_has_what_the_fork_has_copied() -> None:
    """Codex states the total of the thread, of which the run of Harness before it is taken off."""
    stored = ForkedRuns({0: 0, 10: 0, 20: 111, 30: 111, 40: 111, 50: 111})
    joined = _joined(stored, _ours(20, 111), _ours(30, 444), _ours(50, 222))
    assert _by_run(joined) == {"log 20": 111, "log 30": 111, "thread": 111, "log 50": 111}


def test_a_total_without_a_store_stays_a_total() -> None:
    joined = _joined(StoredRuns({0: 0, 10: 0}), _ours(10, 333, is_cumulative=True))
    assert [one.is_cumulative for one in joined.invocations] == [True]


def test_two_runs_of_ours_for_one_stored_prompt_are_one_account() -> None:
    """The second answers a question of the first, and has no prompt."""
    stored = StoredRuns({10: 222})
    assert _count(_joined(stored, _ours(10, 111), _ours(12, 111))) == 222
    assert _count(_joined(stored, _ours(10, 0), _ours(12, 0))) == 222


@pytest.mark.parametrize("parent_id", ["thread", ""])
def test_a_sub_agent_of_a_run_of_ours_counts_once(parent_id: str) -> None:
    child = {"started_ms": START + 10 * MINUTE + 5_000, "parent_id": parent_id}
    stored = StoredRuns({0: 222, 10: 555}, child, 222)
    assert _count(_joined(stored, _ours(10, 777))) == 222 + 777  # ours includes it
    assert _count(_joined(stored, _ours(10, 0))) == 222 + 777
    assert _count(_joined(stored, _ours(10, 555))) == 222 + 777
    assert _joined(stored, _ours(10, 777)).sessions == {NUMBER, CHILD}


@pytest.mark.parametrize(
    "child",
    [
        {"started_ms": START + 5_000, "parent_id": "thread"},
        {"started_ms": START + 10 * MINUTE + 5_000, "parent_id": "another"},
        {"started_ms": START + 10 * MINUTE + 5_000, "cwd": "/elsewhere"},
    ],
)
def test_a_sub_agent_of_another_run_is_counted_elsewhere(child: dict[str, Any]) -> None:
    joined = _joined(StoredRuns({0: 200, 10: 555}, child, 222), _ours(10, 777))
    assert joined.sessions == {NUMBER}
    assert _count(joined) == 200 + 777


def test_sessions_that_no_store_has_are_left_alone() -> None:
    alone = _ours(10, 111)
    alone.session_id = "unknown"
    joined = _joined(StoredRuns({0: 222}), alone)
    assert joined.invocations == [alone]
    assert joined.sessions == frozenset()


def test_stores_with_whole_seconds_and_runs_that_end_at_once_are_told_apart() -> None:
    times = RunTimes([_ours(10, 111)])
    whole = (START + 10 * MINUTE - 400) // 1_000 * 1_000
    runs = [
        CataloguedRun(NUMBER, 1, START, 0),
        CataloguedRun(NUMBER, 2, whole, 0),
        CataloguedRun(NUMBER, 3, START + 11 * MINUTE + 1, 0),
        CataloguedRun(NUMBER, 4, START + 10 * MINUTE - 501, 0),
    ]
    assert [one.run for one in native_runs(runs, times)] == [1, 3, 4]


@pytest.mark.parametrize("name", ["claude/2.1.325/fork", "opencode/1.18.33/fork"])
@pytest.mark.parametrize("is_reversed", [False, True])
@pytest.mark.parametrize("fork_by", ["its agent", "Harness", "a slow Harness"])
@pytest.mark.parametrize("again", [(), (0,), (1,), (0, 1, 0)])
def test_what_a_fork_has_copied_of_a_run_of_ours_counts_once(
    tmp_path: Path, name: str, is_reversed: bool, fork_by: str, again: tuple[int, ...]
) -> None:
    """The catalogue counts a copied model call in the session that it has read last. `again`: which of both are read again."""
    home = next(case.unpack(tmp_path / "home") for case in cases() if str(case) == name)
    catalogue = Catalogue(str(tmp_path / "histories.sqlite"), load_all())
    catalogue.refresh(home)
    catalogue.read(sorted(catalogue.sessions(), key=lambda one: one.session_id, reverse=is_reversed))
    original, fork = both = sorted(catalogue.sessions(), key=lambda one: one.runs)
    assert (original.runs, fork.runs) == (1, 2)
    for number in (both[index].number for index in again):
        with sqlite3.connect(tmp_path / "histories.sqlite") as file:
            file.execute("UPDATE sessions SET read_mark = '' WHERE number = ?", (number,))
            file.execute("DELETE FROM states WHERE session = ?", (number,))
        file.close()
        catalogue.read(catalogue.sessions())
    stored = catalogue.runs([original.number, fork.number])
    truth = sum(row.usage.all_tokens for row in catalogue.usage.rows())
    first = _recorded(original, stored[original.number][0])
    ours = [first]
    if fork_by != "its agent":  # the slow one began before the copies were written
        end_ms = stored[original.number][0].started_ms + 2_000
        last = stored[fork.number][1]
        ours.append(_recorded(fork, last, last.started_ms - end_ms if "slow" in fork_by else 500))
    joined = join_usage(ours, catalogue)
    others = catalogue.usage.sums((), UsageChoice(without=joined.sessions))
    counted = [one.usage for one in joined.invocations] + [one.usage for one in others]
    assert sum(usage.all_tokens for usage in counted) == truth == 2 * 1250


def _recorded(session: CataloguedSession, run: CataloguedRun, ahead_ms: int = 500) -> AccountedRun:
    """Harness has seen the same."""
    at_ms = run.started_ms
    run_id = new_run_id(at_ms - ahead_ms)
    return AccountedRun(
        log_id=run_id,
        run_id=run_id,
        agent=session.agent,
        session_id=session.session_id,
        started_ms=at_ms - 400,
        ended_ms=at_ms + 1_500,
        models={},
        names={},
        deltas=[AccountedDelta(at_ms, run_id, "m", "", Usage(input=1000, output=50, cache_read=200))],
        is_over=True,
        cwd=session.cwd,
    )
