"""Tokens over many stored sessions: each once, for the right model, day and project."""

from __future__ import annotations

import json
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from harness.clients.sessions.histories import HistorySessions
from harness.config.files import Settings
from harness.contracts.history import Home
from harness.events.usage import CLASSES
from harness.histories.catalogue import Catalogue
from harness.histories.catalogue_filter import SessionFilter
from harness.histories.catalogue_usage import UsageChoice
from harness.histories.registry import load_all
from harness.usage.prices import load
from stored_corpus import Corpus, Truth, day_of
from stored_homes import cases


def _found(catalogue: Catalogue) -> Truth:
    found: Truth = Counter()
    for row in catalogue.usage.rows():
        for name in CLASSES:
            if count := getattr(row.usage, name):
                found[row.agent, row.model, day_of(row.at_ms), row.cwd, name] += count
    return found


def test_every_token_of_a_corpus_is_counted_once(tmp_path: Path) -> None:
    corpus = Corpus(tmp_path / "home")
    corpus.fill(120)
    catalogue = Catalogue(str(tmp_path / "histories.sqlite"), load_all())
    home = Home(str(tmp_path / "home"))
    catalogue.refresh(home)
    sessions = catalogue.read(catalogue.sessions())
    assert len(sessions) == corpus.sessions
    assert _found(catalogue) == corpus.truth
    # Read in another order, the tokens of forks are still there once.
    another = Catalogue(str(tmp_path / "another.sqlite"), load_all())
    another.refresh(home)
    another.read(reversed(another.sessions()))
    assert _found(another) == corpus.truth


def _claude_home(tmp_path: Path, *sessions: list[dict[str, Any]], spaces: bool = False) -> Home:
    folder = tmp_path / "home" / ".claude" / "projects" / "-w"
    folder.mkdir(parents=True)
    separators = (", ", ": ") if spaces else (",", ":")
    for number, records in enumerate(sessions):
        lines = [json.dumps(record, separators=separators) + "\n" for record in records]
        (folder / f"0000000{number}-0000-4000-8000-000000000000.jsonl").write_text("".join(lines))
    return Home(str(tmp_path / "home"), {}, ())


def _prompt(text: str, **more: Any) -> dict[str, Any]:
    message = {"role": "user", "content": text}
    return {"type": "user", "timestamp": "2026-11-14T10:00:00.000Z", "cwd": "/w", "message": message, **more}


def _answer(
    message_id: str, usage: dict[str, Any], model: str = "claude-sonnet-4-5", **more: Any
) -> dict[str, Any]:
    content = [{"type": "text", "text": "An answer."}]
    message = {"id": message_id, "model": model, "role": "assistant", "content": content, "usage": usage}
    return {
        "type": "assistant",
        "timestamp": "2026-11-14T10:00:05.000Z",
        "requestId": f"req_{message_id}",
        "message": message,
        **more,
    }


def _cost_usd(home: Home, tmp_path: Path) -> float:
    catalogue = Catalogue(str(tmp_path / "catalogue.sqlite"), load_all())
    catalogue.refresh(home)
    catalogue.read(catalogue.sessions())
    prices = load(Settings([]))
    rows = list(catalogue.usage.rows())
    assert rows
    return sum(prices.cost_usd(row.model, row.usage, row.rate) or 0.0 for row in rows)


@pytest.mark.parametrize("spaces", [False, True])
@pytest.mark.parametrize(
    ("usage", "cost_usd"),
    [
        (
            {
                "input_tokens": 0,
                "output_tokens": 0,
                "cache_creation_input_tokens": 120_000,
                "cache_creation": {"ephemeral_5m_input_tokens": 20_000, "ephemeral_1h_input_tokens": 100_000},
            },
            20_000 * 3.75e-6 + 100_000 * 6e-6,
        ),
        ({"input_tokens": 1_000, "output_tokens": 100, "speed": "fast"}, 6 * (0.003 + 0.0015)),
        ({"input_tokens": 1_000, "output_tokens": 100, "speed": "standard"}, 0.003 + 0.0015),
        ({"input_tokens": 300_000, "output_tokens": 1_000}, 1.8 + 0.0225),
    ],
)
def test_what_changes_the_price_of_a_call_is_read(
    usage: dict[str, Any], cost_usd: float, spaces: bool, tmp_path: Path
) -> None:
    home = _claude_home(tmp_path, [_prompt("Hello"), _answer("msg_1", usage)], spaces=spaces)
    assert _cost_usd(home, tmp_path) == pytest.approx(cost_usd)


@pytest.mark.parametrize("stamp", ["1960-01-01T00:00:00.000Z", "1969-12-31T23:59:59.999Z", "never"])
def test_what_was_used_at_an_odd_time_counts(stamp: str, tmp_path: Path) -> None:
    """The clock of a machine, or a record, may be wrong."""
    answer = _answer("msg_1", {"input_tokens": 1_000, "output_tokens": 100}, timestamp=stamp)
    home = _claude_home(tmp_path, [_prompt("Hello", timestamp=stamp), answer])
    catalogue = Catalogue(str(tmp_path / "catalogue.sqlite"), load_all())
    catalogue.refresh(home)
    catalogue.read(catalogue.sessions())
    (found,) = catalogue.usage.sums((), UsageChoice())
    assert found.usage.input == 1_000


@pytest.mark.parametrize(
    ("since", "expected"), [("10:00", 22), ("10:05", 22), ("10:14", 22), ("10:15", 0), ("09:59", 33)]
)
def test_since_a_time_means_since_its_quarter_of_an_hour(since: str, expected: int, tmp_path: Path) -> None:
    """What was used is known by quarters: a part of one would be counted or not by what came first in it."""
    usage = {"input_tokens": 10, "output_tokens": 1}
    times = {"msg_1": "09:50", "msg_2": "10:01", "msg_3": "10:10"}
    answers = [_answer(one, usage, timestamp=f"2026-11-14T{at}:00.000Z") for one, at in times.items()]
    home = _claude_home(tmp_path, [_prompt("Hello", timestamp="2026-11-14T09:49:00.000Z"), *answers])
    catalogue = Catalogue(str(tmp_path / "catalogue.sqlite"), load_all())
    catalogue.refresh(home)
    catalogue.read(catalogue.sessions())
    since_ms = int(datetime.fromisoformat(f"2026-11-14T{since}:00+00:00").timestamp() * 1000)
    found = catalogue.usage.sums((), UsageChoice(since_ms))
    assert sum((one.usage.input or 0) + (one.usage.output or 0) for one in found) == expected


@pytest.mark.parametrize("spaces", [False, True])
def test_a_fork_that_begins_with_an_answer_counts_once(spaces: bool, tmp_path: Path) -> None:
    """After a compaction: its file cannot be scanned, and is read whole."""
    usage = {"input_tokens": 100, "output_tokens": 11}
    first = [_prompt("Hello"), _answer("msg_1", usage), _prompt("More"), _answer("msg_2", usage)]
    fork = [_answer("msg_2", usage), _prompt("Again"), _answer("msg_3", usage)]
    home = _claude_home(tmp_path, first, fork, spaces=spaces)
    catalogue = Catalogue(str(tmp_path / "catalogue.sqlite"), load_all())
    catalogue.refresh(home)
    catalogue.read(catalogue.sessions())
    rows = list(catalogue.usage.rows())
    assert sum((row.usage.input or 0) + (row.usage.output or 0) for row in rows) == 333


@pytest.mark.parametrize("is_reversed", [False, True])
def test_what_a_fork_has_no_more_is_counted_in_the_original_again(is_reversed: bool, tmp_path: Path) -> None:
    """A fork may be rewritten: OpenCode deletes what was taken back, and the copies with it."""
    usage = {"input_tokens": 100, "output_tokens": 11}
    first = [_prompt("Hello"), _answer("msg_1", usage), _prompt("More"), _answer("msg_2", usage)]
    last = [_prompt("Again"), _answer("msg_3", usage)]
    home = _claude_home(tmp_path, first, [*first, *last])
    catalogue = Catalogue(str(tmp_path / "catalogue.sqlite"), load_all())

    def count() -> int:
        catalogue.refresh(home)
        unread = [one for one in catalogue.sessions() if not one.is_read]
        catalogue.read(sorted(unread, key=lambda one: one.session_id, reverse=is_reversed))
        catalogue.read_each(SessionFilter(only_unread=True))
        return sum((row.usage.input or 0) + (row.usage.output or 0) for row in catalogue.usage.rows())

    assert count() == 333
    fork = next((tmp_path / "home").rglob("00000001-*.jsonl"))
    for kept in ([*first[:2], *last], last, [*first, *last], last):
        fork.write_text("".join(json.dumps(record, separators=(",", ":")) + "\n" for record in kept))
        assert count() == 333
    assert count() == 333


def test_a_sub_agent_of_grok_is_counted_with_the_session_that_started_it(tmp_path: Path) -> None:
    """What grok states of a turn includes its sub-agents, which have sessions of their own."""
    project = tmp_path / "home" / ".grok" / "sessions" / "%2Fw"

    def add(name: str, count: int) -> None:
        (project / name).mkdir(parents=True)
        (project / name / "summary.json").write_text(json.dumps({"info": {"cwd": "/w"}}))
        usage = {"inputTokens": count, "outputTokens": 0}
        updates: list[dict[str, Any]] = [
            {"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": "Count"}},
            {"sessionUpdate": "turn_completed", "usage": usage, "stop_reason": "end_turn"},
        ]
        lines = [
            json.dumps({"timestamp": 1_790_000_000 + number, "params": {"update": update}}) + "\n"
            for number, update in enumerate(updates)
        ]
        (project / name / "updates.jsonl").write_text("".join(lines))

    add("parent", 400)
    add("child", 200)
    (project / "parent" / "subagents" / "child").mkdir(parents=True)
    catalogue = Catalogue(str(tmp_path / "catalogue.sqlite"), load_all())
    catalogue.refresh(Home(str(tmp_path / "home")))
    found = {one.session_id: one for one in catalogue.read(catalogue.sessions())}
    assert (found["child"].is_child, found["child"].parent_id) == (1, "parent")
    assert not found["parent"].is_child
    assert sum(row.usage.input or 0 for row in catalogue.usage.rows()) == 400


@pytest.mark.parametrize("is_reversed", [False, True])
def test_what_a_fork_has_copied_was_used_when_the_original_was(tmp_path: Path, is_reversed: bool) -> None:
    """OpenCode writes the copies with the time of the fork."""
    home = next(case.unpack(tmp_path / "home") for case in cases() if str(case) == "opencode/1.18.33/fork")
    catalogue = Catalogue(str(tmp_path / "catalogue.sqlite"), load_all())
    catalogue.refresh(home)
    catalogue.read(sorted(catalogue.sessions(), key=lambda one: one.session_id, reverse=is_reversed))
    times = [row.at_ms for row in catalogue.usage.rows() if row.usage.input]
    assert times == [1794770652389, 1794770676893]


def test_originals_are_read_whatever_the_time_that_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else what a fork of OpenCode has copied would be of the day of the fork, unless all was read before."""
    home = next(case.unpack(tmp_path / "home") for case in cases() if str(case) == "opencode/1.18.33/fork")
    monkeypatch.setenv("HOME", home.directory)
    sessions = HistorySessions(writes=False)
    latest_ms = max(one.changed_ms for one in sessions.sessions())
    assert len([one for one in sessions.sessions() if one.changed_ms < latest_ms]) == 1
    sessions.read_used(print, latest_ms)
    assert [one.is_read for one in sessions.sessions()] == [True, True]


def test_a_fork_of_kimi_counts_once(tmp_path: Path) -> None:
    """It is a copy of the records, which name no model call, but the step that it was made in."""
    sessions = tmp_path / "home" / ".kimi-code" / "sessions" / "wd_project"

    def turn(number: int, *steps: str) -> list[dict[str, Any]]:
        at_ms = 1_795_100_544_000 + number * 10_000
        prompt = {"type": "turn.prompt", "time": at_ms, "input": [{"type": "text", "text": f"Turn {number}"}]}
        records: list[dict[str, Any]] = [prompt]
        for step in steps:
            for kind in ("step.begin", "step.end"):
                event = {"type": kind, "uuid": step}
                records.append({"type": "context.append_loop_event", "time": at_ms, "event": event})
                if kind == "step.begin":
                    usage = {"inputOther": 100, "output": 11}
                    records.append({"type": "usage.record", "time": at_ms, "usage": usage})
        return [*records, {"type": "turn.ended", "time": at_ms + 500, "reason": "completed"}]

    def store(name: str, *records: dict[str, Any]) -> None:
        folder = sessions / name / "agents" / "main"
        folder.mkdir(parents=True)
        (folder / "wire.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))

    summed_up = {"type": "usage.record", "time": 1_795_100_549_000, "usage": {"inputOther": 1_000}}
    common = [*turn(0, "a", "b"), summed_up]
    store("session_1", *common, *turn(1, "c"))
    store("session_2", *common, {"type": "forked", "time": 1_795_100_550_000}, *turn(2, "d"))
    catalogue = Catalogue(str(tmp_path / "catalogue.sqlite"), load_all())
    catalogue.refresh(Home(str(tmp_path / "home")))
    catalogue.read(catalogue.sessions())
    used = [row.usage for row in catalogue.usage.rows()]
    assert sum(one.input or 0 for one in used) == 4 * 100 + 1_000
    assert sum(one.output or 0 for one in used) == 4 * 11
