"""`harness usage`: what everything came to, for people and for programs."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from cli_machine import CliMachine
from harness.cli.commands.usage import moment_ms
from harness.events import Event, Message, Result, SessionStart, Usage, UsageDelta
from harness.log import codec
from harness.log.ids import new_run_id
from harness.log.store import Metadata
from harness.log.stores.files import FileStore

DAY_MS = 86_400_000
NOON_MS = 1_790_000_000_000 // DAY_MS * DAY_MS + DAY_MS // 2
"""2026-09-21, in the test's time zone."""


def record(cli: CliMachine, usage: Usage | None, at_ms: int = NOON_MS, **fields: Any) -> str:
    """One session that used so much, as a run leaves it behind."""
    fields = {"agent": "claude", "model": "claude-opus-5-5", "text": "hello", **fields}
    store, run_id = FileStore(str(cli.sessions)), new_run_id(at_ms)
    events: list[Event] = [
        SessionStart(agent=fields["agent"], model=fields["model"], session_id=run_id),
        Message(role="assistant", text=fields["text"]),
        *([UsageDelta(usage=usage)] if usage is not None else []),
        Result(success=True, usage=usage),
    ]
    writer = store.create(Metadata(session_id=run_id, agent_name=fields.get("player", fields["agent"])))
    writer.append(
        [replace(event, seq=seq, run_id=run_id, timestamp_ms=at_ms) for seq, event in enumerate(events)]
    )
    writer.close()
    return run_id


STATED = Usage(input=1_234_567, output=890, cache_read=0, cost_usd=1.5, cost_source="stated")
UNSTATED = Usage(input=1_000_000, output=100_000, reasoning=0)


def test_people_see_an_aligned_table_with_grouped_numbers_and_where_costs_come_from(cli: CliMachine) -> None:
    record(cli, STATED)
    record(cli, UNSTATED, agent="codex", model="gpt-5.1")
    record(cli, Usage(input=7), agent="goose", model="")
    answer = cli.call("usage")

    assert answer.code == 0
    assert answer.out == (
        "AGENT   SESSIONS      INPUT  CACHED   OUTPUT  REASONING       COST\n"
        "codex          1  1,000,000       –  100,000          0    $2.2500  computed\n"
        "claude         1  1,234,567       0      890          –    $1.5000  stated\n"
        "goose          1          7       –        –          –          –\n"
        "────────────────────────────────────────────────────────────────────────────\n"
        "total          3  2,234,574       0  100,890          0  ≥ $3.7500  mixed\n"
    )
    assert "computed costs are estimates, from list prices of 20" in answer.err
    assert "no price is known for models that were never named" in answer.err


def test_programs_get_the_same_with_null_for_what_is_unknown(cli: CliMachine) -> None:
    record(cli, STATED)
    record(cli, Usage(input=7), agent="goose", model="mystery")
    record(cli, None, agent="kimi")
    data = cli.call("usage", "--json").data

    assert data["by"] == "agent"
    assert data["rows"] == [
        {
            "agent": "claude",
            "sessions": 1,
            "input": 1_234_567,
            "cache_read": 0,
            "cache_write": None,
            "output": 890,
            "reasoning": None,
            "cost_usd": 1.5,
            "cost_source": "stated",
            "is_cost_complete": True,
        },
        {
            "agent": "goose",
            "sessions": 1,
            "input": 7,
            "cache_read": None,
            "cache_write": None,
            "output": None,
            "reasoning": None,
            "cost_usd": None,
            "cost_source": None,
            "is_cost_complete": False,
        },
    ]
    assert (data["total"]["cost_usd"], data["total"]["is_cost_complete"]) == (1.5, False)
    assert data["models_without_price"] == ["mystery"]
    assert data["sessions_without_usage"] == 1
    assert data["prices_date"]


@pytest.mark.parametrize("by", ["agent", "model", "day", "session", "sub-agent"])
def test_it_can_be_seen_by_anything(cli: CliMachine, by: str) -> None:
    log_id = record(cli, STATED)
    rows = cli.call("usage", "--by", by, "--json").data["rows"]
    shown = cli.call("usage", "--by", by).out

    keys = {
        "agent": "claude",
        "model": "claude-opus-5-5",
        "day": "2026-09-21",
        "session": log_id,
        "sub-agent": None,
    }
    assert [row[by.replace("-", "_")] for row in rows] == [keys[by]]
    assert shown.split("\n")[0].startswith(by.upper())
    in_table = {"session": f"{log_id[:8]} 2026-09-21 12:00 claude", "sub-agent": "(the agents themselves)"}
    assert shown.split("\n")[1].startswith(in_table.get(by, keys[by]))


def test_only_what_was_used_since_a_day_is_counted(cli: CliMachine) -> None:
    record(cli, STATED, NOON_MS)
    record(cli, UNSTATED, NOON_MS + DAY_MS)

    assert cli.call("usage", "--since", "2026-09-22", "--json").data["total"]["input"] == 1_000_000
    assert cli.call("usage", "--since", "2026-09-21", "--json").data["total"]["input"] == 2_234_567
    assert cli.call("usage", "--since", "2026-09-23", "--json").data["rows"] == []


def test_a_time_may_be_given_in_many_ways(cli: CliMachine) -> None:
    now_ms = time.time() * 1000

    assert moment_ms("2h") == pytest.approx(now_ms - 2 * 3_600_000, abs=60_000)
    assert moment_ms("7d") == pytest.approx(now_ms - 7 * DAY_MS, abs=60_000)
    assert moment_ms("1w") == pytest.approx(now_ms - 7 * DAY_MS, abs=60_000)
    assert now_ms - DAY_MS - 3_600_000 <= moment_ms("today") <= now_ms


@pytest.mark.parametrize("text", ["yesterday", "2026-13-01", "7x", "-7d", "d", "99999999d"])
def test_any_other_time_is_a_mistake(cli: CliMachine, text: str) -> None:
    answer = cli.call("usage", f"--since={text}")

    assert (answer.code, answer.out) == (2, "")
    assert "a date like 2026-08-31" in answer.err


def test_prices_of_the_project_and_of_a_file_count(cli: CliMachine) -> None:
    record(cli, Usage(input=1_000_000), agent="codex", model="some/own-model-20260101")
    assert cli.call("usage", "--json").data["total"]["cost_usd"] is None
    file = cli.project / "prices.toml"
    file.write_text("[prices.own-model]\ninput = 2\n")
    assert cli.call("usage", "--prices", str(file), "--json").data["total"]["cost_usd"] == 2
    cli.settle('[prices."own-model"]\ninput = 3\n')
    assert cli.call("usage", "--prices", str(file), "--json").data["total"]["cost_usd"] == 3


def test_prices_that_cannot_be_read_are_reported_without_a_table(cli: CliMachine) -> None:
    record(cli, STATED)
    answer = cli.call("usage", "--prices", "nowhere.toml")

    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("harness: nowhere.toml cannot be read")


def test_a_store_without_sessions_shows_it(cli: CliMachine) -> None:
    answer = cli.call("usage")

    assert (answer.code, answer.out) == (0, "")
    assert "no usage was recorded" in answer.err
    assert cli.call("usage", "--json").data["rows"] == []


def test_sessions_that_tell_nothing_are_mentioned(cli: CliMachine) -> None:
    record(cli, None)

    assert "1 session has no usage" in cli.call("usage").err


def test_a_real_run_is_counted_and_its_replay_is_not(cli: CliMachine) -> None:
    cli.install("claude")
    assert cli.call("run", "-a", "claude", "-p", "x").code == 0
    before = cli.call("usage", "--json").data["total"]
    assert (before["input"], before["output"], before["cost_usd"]) == (1200, 345, 0.043)
    record(cli, STATED, player="replay")

    assert cli.call("usage", "--json").data["total"] == before


def test_words_about_usage_in_a_message_do_not_count(cli: CliMachine) -> None:
    line = codec.encode(UsageDelta(usage=Usage(input=999), run_id="r")).decode()
    record(cli, Usage(input=1), text=f'{line}\n"UsageDelta" "Result"')

    assert cli.call("usage", "--json").data["total"]["input"] == 1


def test_names_that_an_agent_made_up_cannot_command_the_terminal(cli: CliMachine) -> None:
    record(cli, Usage(input=1), model="evil\x1b[2J\nmodel" + "x" * 100)
    answer = cli.call("usage", "--by", "model")

    assert "\x1b" not in answer.out + answer.err
    assert answer.out.count("\n") == 4


def test_a_log_that_cannot_be_read_is_left_out_with_a_warning(cli: CliMachine) -> None:
    record(cli, STATED)
    broken = cli.sessions / f"{new_run_id(NOON_MS)}.ndjson"
    broken.symlink_to(Path("/nowhere"))
    answer = cli.call("usage", "--json")

    assert answer.data["total"]["input"] == 1_234_567
    assert f"session {broken.stem} cannot be read" in answer.err
