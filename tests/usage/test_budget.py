"""Limits: which hold where, what was spent under them, when a day begins, and the user's file when they are set."""

from __future__ import annotations

import os
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import config
from harness.config.own_file import changed
from harness.errors import BadConfig, BudgetExceeded, StoreError, UsageError
from harness.events import (
    BudgetExtended,
    RelayReply,
    Result,
    SessionStart,
    Usage,
    UsageDelta,
    Warning,
)
from harness.log.hub import Hub
from harness.log.store import KEPT, Metadata, Query
from harness.log.stores.files import FileStore
from harness.usage.budget import BudgetGuard, answer, question, spent_under
from harness.usage.budget_settings import (
    BudgetChange,
    BudgetLimit,
    limits_in,
    period_end_ms,
    period_start_ms,
)
from harness.usage.prices import Price, Prices

PRICES = Prices("2026-01-01", {"big": Price(input=1.0, output=1.0)})
DOLLAR = Usage(input=1_000_000)
DAY = BudgetLimit("day", 10.0)


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    return FileStore(str(tmp_path / "sessions"))


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def spend(
    store: FileStore,
    log_id: str,
    dollars: int,
    *,
    at_ms: int | None = None,
    cwd: str = "/w",
    ends: bool = True,
) -> Hub:
    """A run of this many calls of a dollar each."""
    at_ms = int(time.time() * 1000) if at_ms is None else at_ms
    metadata = Metadata(session_id=log_id, agent_name="native", model="big", cwd=cwd)
    hub = Hub(store, log_id, store.create(metadata), lambda: at_ms)
    source = hub.source(log_id)
    source.append([SessionStart(agent="native", model="big", cwd=cwd)])
    source.append([UsageDelta(usage=DOLLAR, model="big", id=f"c{number}") for number in range(dollars)])
    if ends:
        source.append([Result(success=True)])
        hub.close()
    return hub


def guard(store: FileStore, *limits: BudgetLimit, log_id: str = "own", asks: bool = False) -> BudgetGuard:
    return BudgetGuard(limits or (DAY,), PRICES, store, log_id, asks=asks)


# What was spent


def test_runs_under_way_count_and_the_own_run_counts_once(store: FileStore) -> None:
    spend(store, "done", 3)
    live = spend(store, "live", 2, ends=False)
    own = spend(store, "own", 1, ends=False)
    watch = guard(store)
    assert watch.look(0.0) is None
    assert watch.left_usd() == 4.0
    live.source("live").append([UsageDelta(usage=DOLLAR, model="big", id="c9")])
    own.source("own").append([UsageDelta(usage=DOLLAR, model="big", id="c9")])
    [state] = spent_under([DAY], store, PRICES)
    assert state.spent_usd == 8.0
    fresh = guard(store)
    assert fresh.look(5.0) is None, "what it has spent before is the beginning"
    assert fresh.look(6.0) is None
    reached = fresh.look(7.0)
    assert reached is not None
    assert reached.spent_usd == 10.0
    for hub in (live, own):
        hub.close()


def test_what_another_process_spends_is_noticed(store: FileStore, tmp_path: Path) -> None:
    now_s = time.time()
    clock = [now_s]
    watch = BudgetGuard((DAY,), PRICES, store, "own", asks=False, now_s=lambda: clock[0])
    assert watch.look(1.0) is None
    spend(FileStore(store.directory), "theirs", 9)
    assert watch.look(2.0) is None, "read a moment ago"
    clock[0] += 6
    reached = watch.look(2.0)
    assert reached is not None
    assert reached.spent_usd == 10.0


def test_logs_that_did_not_change_are_not_read_again(
    store: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [time.time()]
    for number in range(3):
        spend(store, f"log{number}", 1)
    watch = BudgetGuard((DAY,), PRICES, store, "own", asks=False, now_s=lambda: clock[0])
    assert watch.look() is None
    asked: list[Query] = []
    find = store.find

    def noted(query: Query) -> list[Metadata]:
        asked.append(query)
        return find(query)

    monkeypatch.setattr(store, "find", noted)
    clock[0] += 6
    assert watch.left_usd() == 7.0
    assert asked == [], "nothing has changed"
    spend(store, "new", 4)
    clock[0] += 6
    assert watch.left_usd() == 3.0
    assert [query.limit for query in asked] == [200]


def test_logs_that_cannot_be_read_refuse_a_run_and_end_none(
    store: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [time.time()]
    spend(store, "a", 4)
    watch = BudgetGuard((DAY,), PRICES, store, "own", asks=False, now_s=lambda: clock[0])
    assert watch.look() is None

    def broken(query: Query) -> list[Metadata]:
        raise StoreError("the disk is gone")

    spend(store, "b", 1)
    monkeypatch.setattr(store, "find", broken)
    clock[0] += 6
    assert watch.look(1.0) is None
    assert watch.look(6.0) is not None, "what was read last counts"
    with pytest.raises(StoreError):
        guard(store).look()


def test_copies_of_sessions_that_agents_recorded_do_not_count(store: FileStore) -> None:
    spend(store, "copy", 20)
    metadata = store.metadata("copy")
    metadata.settings = {KEPT: {"agent": "claude"}}
    store.save_metadata(metadata)
    assert guard(store).look() is None


@pytest.mark.usefixtures("berlin")
def test_a_day_and_a_month_are_those_of_the_local_time_zone(store: FileStore) -> None:
    half_past_midnight_s = 1_774_996_200.0  # 2026-04-01 00:30 in Berlin, 22:30 of the day before in UTC
    start_ms = 1_774_994_400_000
    for period in ("day", "month"):
        assert period_start_ms(period, half_past_midnight_s) == start_ms
    assert period_end_ms("day", half_past_midnight_s) == start_ms + 86_400_000
    assert period_end_ms("month", half_past_midnight_s) == start_ms + 30 * 86_400_000
    spend(store, "before", 5, at_ms=start_ms - 1)
    spend(store, "after", 2, at_ms=start_ms)
    [day, month] = spent_under([DAY, BudgetLimit("month", 10.0)], store, PRICES, half_past_midnight_s)
    assert (day.spent_usd, month.spent_usd) == (2.0, 2.0)
    last_sunday_s = 1_774_737_000.0  # 2026-03-28 23:30; the next day has 23 hours
    assert (
        period_end_ms("day", last_sunday_s + 3600) - period_start_ms("day", last_sunday_s + 3600)
        == 23 * 3_600_000
    )


def test_a_run_over_midnight_counts_from_zero_again(store: FileStore) -> None:
    noon = time.mktime((2026, 6, 15, 23, 59, 50, 0, 0, -1))
    clock = [noon]
    watch = BudgetGuard((DAY,), PRICES, store, "own", asks=False, now_s=lambda: clock[0])
    assert watch.look(0.0) is None
    assert watch.look(12.0) is not None
    clock[0] += 20
    assert watch.look(12.0) is None
    assert watch.look(21.0) is None
    assert watch.look(22.0) is not None


# At a limit


def test_an_extension_holds_for_its_conversation_and_its_day(store: FileStore) -> None:
    hub = spend(store, "own", 10, ends=False)
    watch = guard(store, asks=True)
    state = watch.look()
    assert state is not None
    asked = question(state, "r1")
    more = answer(asked, RelayReply(id="r1", approved=True, answer=asked.options[0] if asked.options else ""))
    assert more == 2.5
    extended = watch.extend(asked, more)
    assert watch.look(2.0) is None
    assert watch.look(2.5) is not None
    hub.source("own").append([extended])
    assert guard(store).look() is None
    assert guard(store, log_id="other").look() is not None
    hub.source("own").append(
        [BudgetExtended(period="day", limit_usd=10, until_usd=99, since_ms=extended.since_ms - 1)]
    )
    assert guard(store).look(3.0) is None, "what was spent before is the beginning"
    hub.close()


@pytest.mark.parametrize(
    ("said", "more"),
    [
        ("Stop", None),
        ("no", None),
        ("", None),
        ("y", 2.5),
        ("$5", 5.0),
        ("7,25 more", 7.25),
        (3, 3.0),
        ({"answer": "4"}, 4.0),
    ],
)
def test_answers_are_amounts_or_refusals(store: FileStore, said: object, more: float | None) -> None:
    spend(store, "own", 10)
    state = guard(store).look()
    assert state is not None
    asked = question(state, "r1")
    assert answer(asked, RelayReply(id="r1", approved=True, answer=said)) == more
    assert answer(asked, RelayReply(id="r1", approved=False, answer=said)) is None
    with pytest.raises(UsageError, match="neither an amount nor a refusal"):
        answer(asked, RelayReply(id="r1", approved=True, answer="as you like"))


def test_a_run_that_may_not_ask_is_refused_with_what_to_do(store: FileStore) -> None:
    spend(store, "a", 10)
    with pytest.raises(
        BudgetExceeded, match=r"today's limit of \$10.00 is reached \(\$10.00 spent\)"
    ) as refused:
        guard(store).refuse_if_reached()
    assert "harness budget set --day USD" in refused.value.hint


def test_most_of_a_limit_gives_one_warning(store: FileStore) -> None:
    watch = guard(store)
    for spent_usd in (0.0, 7.9, 8.0, 9.0):
        watch.look(spent_usd)
    [warning] = watch.take_warnings()
    assert isinstance(warning, Warning)
    assert warning.message == "80% of today's limit of $10.00 are spent ($8.00)"
    watch.note_unpriced(["odd"])
    watch.note_unpriced(["odd"])
    assert len(watch.take_warnings()) == 1


# Which limits hold


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    path = tmp_path / "config/harness/config.toml"
    path.parent.mkdir(parents=True)
    return path


def held(folder: Path) -> dict[tuple[str, str], float]:
    return {
        (one.period, os.path.basename(one.project)): one.limit_usd
        for one in limits_in(config.load(str(folder), {}), str(folder))
    }


def test_the_nearest_folder_with_limits_holds_and_worktrees_belong_to_their_repository(
    tmp_path: Path, home: Path
) -> None:
    shop, worktree = tmp_path / "shop", tmp_path / "trees/fix"
    (shop / "app").mkdir(parents=True)
    (shop / ".git/worktrees/fix").mkdir(parents=True)
    (shop / ".git/HEAD").write_text("ref: refs/heads/main\n")
    worktree.mkdir(parents=True)
    (worktree / ".git").write_text(f"gitdir: {shop}/.git/worktrees/fix\n")
    (shop / ".git/worktrees/fix/gitdir").write_text(f"{worktree}/.git\n")
    (hostile := tmp_path / "hostile").mkdir()
    (hostile / ".git").write_text(f"gitdir: {shop}/.git/worktrees/fix\n")
    home.write_text(
        f'[budget]\nday_usd = 50\nproject_day_usd = 5\nproject_month_usd = 60\n[project_budgets."{shop}"]\nday_usd = 9\n'
        f'[project_budgets."{tmp_path}"]\nday_usd = 20\n'
    )
    expected = {("day", ""): 50.0, ("day", "shop"): 9.0, ("month", "shop"): 60.0}
    for folder in (shop, shop / "app", worktree):
        assert held(folder) == expected, folder
    elsewhere = tmp_path / "other"
    elsewhere.mkdir()
    assert held(elsewhere) == {
        ("day", ""): 50.0,
        ("day", tmp_path.name): 20.0,
        ("month", "other"): 60.0,
    }
    assert ("month", "hostile") in held(hostile), "it only says that it belongs to the shop"
    of_shop = BudgetLimit("day", 1.0, str(shop))
    included = [of_shop.includes(str(folder)) for folder in (worktree, hostile, tmp_path / "shopping")]
    assert included == [True, False, False]


# The user's file


KEYS = st.sampled_from(["day", "month"])
CHANGES = st.lists(
    st.builds(
        BudgetChange,
        KEYS,
        st.one_of(st.none(), st.floats(0.01, 1e6)),
        st.sampled_from(["", "", "/home/me/a.b", '/odd "name"', "/ä/日本"]),
        st.just(False),
    ),
    max_size=6,
)
FILES = st.sampled_from(
    [
        "",
        "# mine\ndefault_model = 'x'\n",
        '[budget] # limits\n  day_usd = 5 # a note\n\n[prices."m"]\ninput = 1.0\n',
        'budget.day_usd = 5\n[agents.claude]\nmodel = "x"',
        '[agents.claude]\r\nmodel = "[budget]"\r\n',
    ]
)


@given(FILES, CHANGES)
def test_setting_limits_changes_nothing_else_in_the_file(text: str, changes: list[BudgetChange]) -> None:
    before = tomllib.loads(text)
    try:
        after = changed(text, [change.own_change for change in changes])
    except BadConfig:
        assert text.startswith("budget.")  # in a form that cannot be changed safely
        return
    now = tomllib.loads(after)
    for name in before.keys() - {"budget", "project_budgets"}:
        assert now[name] == before[name]
    for line in text.split("\n"):
        if "_usd" not in line:
            assert line in after.split("\n")
    last = {(change.project, change.period): change.limit_usd for change in changes}
    for (project, period), usd in last.items():
        table = now.get("project_budgets", {}).get(project, {}) if project else now.get("budget", {})
        assert table.get(f"{period}_usd") == usd
