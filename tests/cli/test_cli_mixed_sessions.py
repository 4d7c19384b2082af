"""A session that is used with Harness and without it in turn: listed once, found and counted completely."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from cli_machine import CliMachine

SESSION = "5d3c1a52-7c0b-4a3e-9d7a-000000000001"
USAGE = {"input_tokens": 100, "output_tokens": 11}


def _iso(at_ms: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at_ms / 1000)) + f".{at_ms % 1000:03d}Z"


def _turn(at_ms: int, number: int, prompt: str, answer: str, session: str = SESSION) -> list[dict[str, Any]]:
    """As Claude Code stores a prompt and its answer."""
    common = {"sessionId": session, "cwd": "/w", "version": "2.1.325"}
    content = [{"type": "text", "text": answer}]
    message = {"id": f"msg_{number}", "model": "claude-sonnet-4-5", "role": "assistant", "usage": USAGE}
    return [
        {**common, "type": "user", "timestamp": _iso(at_ms), "message": {"role": "user", "content": prompt}},
        {
            **common,
            "type": "assistant",
            "timestamp": _iso(at_ms + 40),
            "requestId": f"req_{number}",
            "message": {**message, "content": content, "stop_reason": "end_turn"},
        },
    ]


def _store(machine: CliMachine, *turns: list[dict[str, Any]]) -> Path:
    path = machine.home / ".claude" / "projects" / "-w" / f"{turns[0][0]['sessionId']}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(record, separators=(",", ":")) for turn in turns for record in turn]
    path.write_text("\n".join(lines) + "\n")
    return path


def _stream(number: int, answer: str, *, has_usage: bool, session: str = SESSION) -> tuple[str, ...]:
    used: dict[str, Any] = {"usage": USAGE} if has_usage else {}
    message = {"id": f"msg_{number}", "model": "claude-sonnet-4-5", "role": "assistant", **used}
    records = [
        {"type": "system", "subtype": "init", "session_id": session, "model": "claude-sonnet-4-5"},
        {
            "type": "assistant",
            "session_id": session,
            "message": {**message, "content": [{"type": "text", "text": answer}]},
        },
        {"type": "result", "subtype": "success", "is_error": False, "session_id": session, "result": answer},
    ]
    return tuple(json.dumps(record) for record in records)


@pytest.fixture(params=[True, False], ids=["stream with usage", "stream without usage"])
def mixed(cli: CliMachine, request: pytest.FixtureRequest) -> CliMachine:
    """Native, Harness, native: 111 tokens each."""
    hour_ms = 3_600_000
    now_ms = int(time.time() * 1000)
    first = _turn(now_ms - hour_ms, 1, "Native first about armadillo", "Armadillos dig.")
    _store(cli, first)
    cli.install("claude", *_stream(2, "Bandicoots hop.", has_usage=bool(request.param)))
    assert cli.call("run", "--agent", "claude", "--prompt", "Harness second about bandicoot").code == 0
    started_ms = cli.log()[0]["timestamp_ms"]
    second = _turn(started_ms, 2, "Harness second about bandicoot", "Bandicoots hop.")
    third = _turn(now_ms + hour_ms, 3, "Native third about capybara", "Capybaras swim.")
    _store(cli, first, second, third)
    return cli


@pytest.mark.parametrize("word", ["armadillo", "armadillos dig", "bandicoot", "capybara", "capybaras"])
def test_every_part_is_found_once(mixed: CliMachine, word: str) -> None:
    hits = mixed.call("sessions", "search", word, "--json").data["hits"]
    assert len(hits) == 1
    assert hits[0]["is_ours"] == (word == "bandicoot")


def test_it_is_listed_once_by_its_own_name(mixed: CliMachine) -> None:
    (entry,) = mixed.call("sessions", "list", "--json").data
    assert entry["agent_session_id"] == SESSION
    assert entry["name"] == "Native first about armadillo"
    assert "Native first about armadillo" in mixed.call("sessions", "list").out


def test_every_token_counts_once(mixed: CliMachine) -> None:
    total = mixed.call("usage", "--json").data["total"]
    assert (total["input"], total["output"]) == (300, 33)
    assert total["sessions"] == 1
    (row,) = mixed.call("usage", "--by", "session", "--json").data["rows"]
    (log_id,) = [path.stem for path in mixed.logs()]
    assert (row["session"], row["input"]) == (log_id, 300)


def test_showing_our_part_says_where_the_rest_is(mixed: CliMachine) -> None:
    (log_id,) = [path.stem for path in mixed.logs()]
    answer = mixed.call("sessions", "show", log_id)
    assert "Bandicoots hop." in answer.out
    assert "Armadillos" not in answer.out
    assert (
        f"2 more prompts of this session came without harness: `harness sessions show claude:{SESSION}`"
        in " ".join(answer.err.split())
    )
    whole = mixed.call("sessions", "show", SESSION)
    assert all(word in whole.out for word in ("Armadillos dig.", "Bandicoots hop.", "Capybaras swim."))
    assert "came without" not in whole.err


def test_a_session_that_harness_alone_has_run_is_as_it_was(cli: CliMachine) -> None:
    cli.install("claude", *_stream(1, "Bandicoots hop.", has_usage=True))
    assert cli.call("run", "--agent", "claude", "--prompt", "Only ours").code == 0
    _store(cli, _turn(cli.log()[0]["timestamp_ms"], 1, "Only ours", "Bandicoots hop."))
    (entry,) = cli.call("sessions", "list", "--json").data
    assert (entry.get("name", ""), entry["prompt"]) == ("", "Only ours")
    assert cli.call("usage", "--json").data["total"]["input"] == 100
    (log_id,) = [path.stem for path in cli.logs()]
    assert "without harness" not in cli.call("sessions", "show", log_id).err


def _earlier_conversation(machine: CliMachine, at_ms: int) -> str:
    """The log of a conversation as versions wrote it that did not note what its agents call their sessions."""
    log_id, run_id = "01a1e6bb-3907-781b-85a5-96b6334c47e2", "01a1e6bb-3908-713c-b19e-4cf5cd24e5e8"
    of_run = {"timestamp_ms": at_ms, "run_id": run_id}
    events = [
        {"type": "ThreadCreated", "timestamp_ms": at_ms, "run_id": log_id, "id": log_id, "resource_id": "x"},
        {**of_run, "type": "SessionStart", "session_id": SESSION, "agent": "claude", "cwd": "/w"},
        {**of_run, "type": "Message", "role": "user", "text": "An earlier conversation"},
        {**of_run, "type": "UsageDelta", "usage": {"input": 100, "output": 11}, "model": "m", "id": "msg_1"},
        {**of_run, "type": "Result", "success": True, "outcome": "completed", "timestamp_ms": at_ms + 900},
    ]
    machine.sessions.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({**event, "seq": seq}) for seq, event in enumerate(events)]
    (machine.sessions / f"{log_id}.ndjson").write_text("\n".join(lines) + "\n")
    about = {"session_id": log_id, "agent": "x", "kind": "thread", "resource_id": "x", "cwd": "/w"}
    about |= {"prompt": "An earlier conversation", "success": True, "outcome": "completed"}
    times = {"start_time": str(at_ms // 1000), "created_ms": at_ms, "updated_ms": at_ms}
    (machine.sessions / f"{log_id}.meta.json").write_text(json.dumps({**about, **times}))
    return log_id


def test_a_conversation_of_an_earlier_version_is_listed_found_and_counted_once(cli: CliMachine) -> None:
    at_ms = int(time.time() * 1000) - 60_000
    log_id = _earlier_conversation(cli, at_ms)
    _store(cli, _turn(at_ms + 10, 1, "An earlier conversation", "Armadillos dig."))
    for _again in range(2):  # once read from the log, once as it was stored
        (entry,) = cli.call("sessions", "list", "--json").data
        assert entry["session_id"] == log_id
        (hit,) = cli.call("sessions", "search", "conversation", "--json").data["hits"]
        assert hit["id"] == log_id
        total = cli.call("usage", "--json").data["total"]
        assert (total["sessions"], total["input"], total["output"]) == (1, 100, 11)


def test_a_fork_and_its_original_cost_in_the_list_what_is_billed(mixed: CliMachine) -> None:
    fork = SESSION.replace("000000000001", "000000000002")
    answer = "Dugongs graze."
    mixed.install("claude", *_stream(4, answer, has_usage=True, session=fork))
    assert mixed.call("run", "--agent", "claude", "--prompt", "Fourth about dugong").code == 0
    now_ms = int(time.time() * 1000)
    mixed.call("usage")
    copies = [
        _turn(now_ms - 3_600_000, 1, "Native first about armadillo", "Armadillos dig.", fork),
        _turn(now_ms - 2_000, 2, "Harness second about bandicoot", "Bandicoots hop.", fork),
    ]
    _store(mixed, *copies, _turn(now_ms, 4, "Fourth about dugong", answer, fork))
    billed = mixed.call("usage", "--json").data["total"]
    assert billed["input"] == 400
    listed = mixed.call("sessions", "list", "--json").data
    assert len(listed) == 2
    assert sum(one["total_cost_usd"] for one in listed) == pytest.approx(billed["cost_usd"])


def test_the_list_says_what_it_has_cost_as_the_bill_does(mixed: CliMachine) -> None:
    billed = mixed.call("usage", "--json").data["total"]["cost_usd"]
    (entry,) = mixed.call("sessions", "list", "--json").data
    assert entry["total_cost_usd"] == pytest.approx(billed) == pytest.approx(3 * (0.0003 + 0.000165))
    assert "$0.001  Native first" in mixed.call("sessions", "list").out
    mixed.call("sessions", "delete", entry["session_id"], "--yes")
    (stored,) = mixed.call("sessions", "list", "--json").data
    assert stored["total_cost_usd"] == pytest.approx(billed)


@pytest.mark.parametrize("is_mixed", [False, True])
def test_a_cost_that_is_stated_of_some_messages_is_not_that_of_the_others(
    cli: CliMachine, is_mixed: bool
) -> None:
    """Versions before 1.0.9 wrote the cost of each message into the record, later ones do not."""
    now_ms = int(time.time() * 1000)
    first, second = (_turn(now_ms - 3_600_000 + i, i, f"Prompt {i}", f"Answer {i}.") for i in (1, 2))
    first[1]["costUSD"] = 0.5
    turns = [first, second]
    _store(cli, *turns)
    if is_mixed:
        cli.install("claude", *_stream(3, "Bandicoots hop.", has_usage=True))
        assert cli.call("run", "--agent", "claude", "--prompt", "Prompt 3").code == 0
        _store(cli, *turns, _turn(cli.log()[0]["timestamp_ms"], 3, "Prompt 3", "Bandicoots hop."))
    total = cli.call("usage", "--json").data["total"]
    computed_usd = (1 + is_mixed) * (0.0003 + 0.000165)
    assert (total["cost_usd"], total["cost_source"]) == (pytest.approx(0.5 + computed_usd), "mixed")
    (entry,) = cli.call("sessions", "list", "--json").data
    assert entry["total_cost_usd"] == pytest.approx(total["cost_usd"])


def test_the_list_says_the_same_cost_whatever_was_read_before(cli: CliMachine) -> None:
    """What a fork has copied of a session without Harness is known only once that session was read."""
    fork = SESSION.replace("000000000001", "000000000002")
    early_ms = int(time.time() * 1000) - 3_600_000
    first = _turn(early_ms, 1, "Native first", "Armadillos dig.")
    _store(cli, first)
    cli.install("claude", *_stream(2, "Dugongs graze.", has_usage=True, session=fork))
    assert cli.call("run", "--agent", "claude", "--prompt", "In the fork").code == 0
    copy = _turn(early_ms, 1, "Native first", "Armadillos dig.", fork)
    _store(cli, copy, _turn(cli.log()[0]["timestamp_ms"], 2, "In the fork", "Dugongs graze.", fork))
    listed = [cli.call("sessions", "list", "--json").data for _ in range(2)]
    assert listed[0] == listed[1]
    billed = cli.call("usage", "--json").data["total"]["cost_usd"]
    assert sum(one.get("total_cost_usd") or 0.0 for one in listed[0]) == pytest.approx(billed)
