"""Sessions that agents have stored themselves, beside those of Harness."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import pytest

from cli_machine import CliMachine
from harness.log.store import Metadata
from harness.log.stores.files import FileStore

sys.path.insert(0, str(Path(__file__).parents[1] / "histories"))
from stored_homes import HomeCase, cases

CLAUDE = "33dadd08-e106-4698-90c8-83a1c1f512c6"
CODEX_CHILD = "01a1e0a3-c8ab-7ea1-960c-03bf3883cc9b"
CASES = ("claude/2.1.325/resume", "codex/0.166.0/subagent", "goose/1.52.0/resume", "gemini/0.61.0/text")


def _case(name: str) -> HomeCase:
    return next(case for case in cases() if str(case) == name)


@pytest.fixture
def filled(cli: CliMachine) -> CliMachine:
    for name in CASES:
        _case(name).unpack(cli.home)
    return cli


def test_ours_and_theirs_are_one_list(filled: CliMachine) -> None:
    filled.install("claude")
    assert filled.call("run", "--agent", "claude", "--prompt", "our own").code == 0
    answer = filled.call("sessions", "list")
    assert answer.code == 0
    lines = answer.out.splitlines()
    assert len(lines) == 6
    assert "our own" in lines[1]
    assert sum("*" in line for line in lines) == 4
    assert "* stored by the agent itself" in answer.err
    data = {entry["session_id"]: entry for entry in filled.call("sessions", "list", "--json").data}
    assert data[CLAUDE]["agent_name"] == "claude"
    assert data[CLAUDE]["history"]["runs"] == 3
    assert "history" not in next(entry for entry in data.values() if entry["prompt"] == "our own")


def test_the_last_session_is_theirs_where_there_is_none_of_ours(filled: CliMachine) -> None:
    newest = filled.call("sessions", "list", "--json", "--limit", "1").data[0]
    path = filled.call("sessions", "path", newest["session_id"])
    assert filled.call("sessions", "path", "last") == path
    assert filled.call("sessions", "show", "claude:last").out == filled.call("sessions", "show", CLAUDE).out
    filled.install("claude")
    assert filled.call("run", "--agent", "claude", "--prompt", "our own").code == 0
    assert "our own" in filled.call("sessions", "show", "last").out


def test_a_session_that_harness_has_recorded_is_listed_once(filled: CliMachine) -> None:
    filled.install("claude", f'{{"type":"system","subtype":"init","session_id":"{CLAUDE}"}}')
    filled.call("run", "--agent", "claude", "--prompt", "Please say hello")
    listed = filled.call("sessions", "list", "--json", "--agent", "claude").data
    assert [entry["agent_session_id"] for entry in listed] == [CLAUDE]
    assert "history" not in listed[0]


@pytest.mark.parametrize(
    ("words", "agents"),
    [
        (["--agent", "goose"], ["goose"]),
        (["--model", "opus"], ["claude"]),
        (["--project", "/workspace"], ["goose", "gemini", "codex", "claude"]),
        (["--project", "/workspace/blog"], []),
        (["--outcome", "unknown"], ["gemini"]),
        (["--since", "2026-11-15"], ["goose", "gemini", "codex", "claude"]),
        (["--until", "2026-11-15"], []),
        (["--all", "--agent", "codex"], ["codex", "codex"]),
        (["--live"], []),
        (["--tag", "x"], []),
    ],
)
def test_filters_are_for_both(words: list[str], agents: list[str], filled: CliMachine) -> None:
    listed = filled.call("sessions", "list", "--json", *words).data
    assert [entry["agent_name"] for entry in listed] == agents


def test_a_list_that_is_cut_shows_it(filled: CliMachine) -> None:
    answer = filled.call("sessions", "list", "--limit", "1")
    assert len(answer.out.splitlines()) == 2
    assert "… and 3 older ones" in answer.err


def test_any_session_is_shown_replayed_checked_and_located_by_its_own_id(filled: CliMachine) -> None:
    assert filled.call("sessions", "show", CLAUDE, "--format", "text").out.split("\n")[:3] == [
        "First answer.", "Second answer.", "Third answer.",
    ]  # fmt: skip
    assert filled.call("sessions", "replay", "--fast", CLAUDE[:8]).types.count("Result") == 3
    assert filled.call("sessions", "show", "goose:20261115_1").code == 0
    checked = filled.call("sessions", "check", CLAUDE, "--json").data
    assert (checked["problems"], checked["unknown"]) == ([], 0)
    assert checked["rules"]["assistant"] == 4
    assert filled.call("sessions", "path", CODEX_CHILD).out.endswith(f"{CODEX_CHILD}.jsonl\n")


def test_what_cannot_be_done_with_a_session_of_another_program_is_refused(filled: CliMachine) -> None:
    answer = filled.call("sessions", "delete", CLAUDE)
    assert (answer.code, "unknown session" in answer.err) == (2, True)
    assert filled.call("sessions", "path", CLAUDE).code == 0


def test_an_id_that_means_several_sessions_names_them(filled: CliMachine) -> None:
    answer = filled.call("sessions", "show", "01a1e0a3-c")
    assert answer.code == 2
    assert "2 sessions begin with 01a1e0a3-c: codex:" in answer.err


def test_histories_shows_what_is_there(filled: CliMachine) -> None:
    data = {entry["agent"]: entry for entry in filled.call("histories", "--json").data}
    assert data["claude"]["sessions"] == 1
    assert data["claude"]["deleted_after_days"] == 30
    assert data["claude"]["bytes"] > 30_000
    assert data["codex"]["deleted_after_days"] is None
    assert data["goose"]["bytes"] > 0
    assert data["pi"]["sessions"] == 0
    (filled.home / ".claude" / "settings.json").write_text('{"cleanupPeriodDays": 7}')
    shown = filled.call("histories").out
    assert "after 7 days" in shown
    assert "pi" not in shown.split()


def test_without_histories_none_are_shown(cli: CliMachine) -> None:
    assert "there are no sessions" in cli.call("sessions", "list").err
    assert cli.call("histories").err == "no agent has stored a session here\n"


def test_usage_counts_what_agents_have_stored_each_token_once(filled: CliMachine) -> None:
    rows = {row["agent"]: row for row in filled.call("usage", "--json").data["rows"]}
    assert {name: (row["sessions"], row["input"]) for name, row in rows.items()} == {
        "claude": (1, 4_000),
        "codex": (2, 5_000),
        "gemini": (1, 1_000),
        "goose": (1, 4_000),
    }
    assert CLAUDE[:8] in filled.call("usage", "--by", "session").out


def test_usage_of_a_run_that_harness_has_recorded_counts_once(filled: CliMachine) -> None:
    """The store has three runs of the session; the second was started by Harness, at the same time. It is one session."""
    folder = filled.sessions
    folder.mkdir(parents=True, exist_ok=True)
    log_id = "01a1e0a1-6947-7eb9-af4e-af07a7ff354c"
    at_ms = int(log_id.replace("-", "")[:12], 16)
    (live,) = [run for run in _case("claude/2.1.325/resume").live_runs() if run[0].run_id == log_id]
    store = FileStore(str(folder))
    writer = store.create(
        Metadata(
            session_id=log_id,
            agent_name="claude",
            agent_session_id=CLAUDE,
            outcome="completed",
            created_ms=at_ms,
            updated_ms=at_ms,
            duration_ms=live[-1].timestamp_ms - at_ms,
        )
    )
    writer.append(live)
    writer.close()
    rows = {row["agent"]: row for row in filled.call("usage", "--json").data["rows"]}
    assert (rows["claude"]["sessions"], rows["claude"]["input"]) == (1, 4_000)


def test_a_session_that_no_process_has_open_is_followed_to_its_end(filled: CliMachine) -> None:
    followed = filled.call("sessions", "show", CLAUDE, "--follow", "--format", "ndjson")
    assert followed.code == 0
    assert followed.out == filled.call("sessions", "show", CLAUDE, "--format", "ndjson").out


def test_a_session_is_copied_once_and_stays_when_its_agent_deletes_it(filled: CliMachine) -> None:
    before = filled.call("usage", "--json").data["total"]
    answer = filled.call("sessions", "keep", CLAUDE)
    assert (answer.code, answer.err[:8]) == (0, "1 copied")
    assert "0 copied, 1 were there" in filled.call("sessions", "keep", CLAUDE).err
    (listed,) = filled.call("sessions", "list", "--json", "--agent", "claude").data
    assert listed["agent_session_id"] == CLAUDE
    assert "history" not in listed
    assert filled.call("usage", "--json").data["total"] == before
    assert filled.call("sessions", "check", listed["session_id"]).code == 0
    (path,) = filled.home.rglob(f"{CLAUDE}.jsonl")
    path.unlink()
    shown = filled.call("sessions", "show", listed["session_id"], "--format", "ndjson")
    assert "Please say hello" in shown.out
    assert filled.call("usage", "--json").data["total"] == before
    assert filled.call("sessions", "keep").code == 2


def test_a_session_that_has_grown_since_it_was_copied_is_listed_shown_and_copied_again(
    filled: CliMachine,
) -> None:
    assert filled.call("sessions", "keep", CLAUDE).code == 0
    (path,) = filled.home.rglob(f"{CLAUDE}.jsonl")
    records = [json.loads(line) for line in path.read_text().split("\n") if line]
    asked = next(record for record in records if record["type"] == "user")
    last = next(record["uuid"] for record in reversed(records) if record.get("uuid"))
    more = {
        **asked,
        "uuid": "4b1f5a3e-0001",
        "parentUuid": last,
        "message": {"role": "user", "content": "And now?"},
    }
    with path.open("a") as file:
        file.write(json.dumps(more) + "\n")
    listed = filled.call("sessions", "list", "--json", "--agent", "claude").data
    assert sorted("history" in entry for entry in listed) == [False, True]
    assert "And now?" in filled.call("sessions", "show", CLAUDE).out
    old_s = time.time() - 29 * 86_400
    os.utime(path, (old_s, old_s))
    assert "claude will delete 1 session" in filled.call("histories").err
    assert filled.call("sessions", "keep", CLAUDE).err.startswith("1 copied")
    (listed,) = filled.call("sessions", "list", "--json", "--agent", "claude").data
    assert "And now?" in filled.call("sessions", "show", listed["session_id"]).out
    assert "will delete" not in filled.call("histories").err


def test_what_an_agent_is_about_to_delete_is_reported_and_copied_if_asked_for(
    filled: CliMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    (path,) = filled.home.rglob(f"{CLAUDE}.jsonl")
    old_s = time.time() - 29 * 86_400
    os.utime(path, (old_s, old_s))
    assert "claude will delete 1 session" in filled.call("histories").err
    monkeypatch.setenv("HARNESS_HISTORIES_KEEP", "true")
    assert "will delete" not in filled.call("histories").err
    listed = filled.call("sessions", "list", "--json", "--agent", "claude").data
    assert [(entry["prompt"], "history" in entry) for entry in listed] == [("Please say hello", False)]
