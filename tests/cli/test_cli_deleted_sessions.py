"""Sessions that their agent has deleted, and prompts that were taken back."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from cli_machine import CliMachine

sys.path.insert(0, str(Path(__file__).parents[1] / "histories"))
from stored_homes import cases

CLAUDE = "33dadd08-e106-4698-90c8-83a1c1f512c6"


@pytest.fixture
def stored(cli: CliMachine) -> CliMachine:
    next(case for case in cases() if str(case) == "claude/2.1.325/resume").unpack(cli.home)
    assert cli.call("sessions", "list").code == 0
    return cli


def _delete(machine: CliMachine) -> None:
    next(machine.home.rglob(f"{CLAUDE}.jsonl")).unlink()


@pytest.mark.parametrize("name", [CLAUDE, CLAUDE[:8], f"claude:{CLAUDE}"])
def test_a_kept_copy_is_shown_under_the_id_that_people_know(stored: CliMachine, name: str) -> None:
    assert stored.call("sessions", "keep", CLAUDE).code == 0
    before = stored.call("sessions", "show", name).out
    _delete(stored)
    answer = stored.call("sessions", "show", name)
    assert answer.code == 0
    assert answer.out
    assert answer.out == before
    assert "claude has deleted this session" in answer.err
    assert stored.call("sessions", "check", name).code == 0
    path = stored.call("sessions", "path", name).out.strip()
    assert Path(path).is_file()
    kept = stored.call("sessions", "keep", name)
    assert (kept.code, "1 were there already" in kept.err) == (0, True)


@pytest.mark.parametrize("words", [("show",), ("check",), ("replay", "--fast"), ("path",), ("keep",)])
def test_what_was_not_kept_is_said_to_be_deleted(stored: CliMachine, words: tuple[str, ...]) -> None:
    _delete(stored)
    answer = stored.call("sessions", words[0], CLAUDE, *words[1:])
    assert answer.code != 0
    assert not answer.out
    assert "claude has deleted this session: it was missing first on 20" in " ".join(answer.err.split())


def test_the_list_marks_what_was_deleted(stored: CliMachine) -> None:
    _delete(stored)
    assert CLAUDE[:8] not in stored.call("sessions", "list").out
    (line,) = [
        line for line in stored.call("sessions", "list", "--all").out.splitlines() if CLAUDE[:8] in line
    ]
    assert " deleted " in line


def test_resuming_a_deleted_session_names_the_way(stored: CliMachine) -> None:
    stored.install("claude")
    assert stored.call("sessions", "keep", CLAUDE).code == 0
    _delete(stored)
    answer = stored.call("resume", CLAUDE, "Go on")
    assert answer.code == 2
    assert "has deleted this session" in answer.err
    assert "harness hand-over" in answer.err


def _record(kind: str, uuid: str, parent: str | None, text: str) -> dict[str, Any]:
    message: dict[str, Any] = {"role": kind, "content": text}
    if kind == "assistant":
        message = {
            "id": f"msg_{uuid}",
            "model": "m",
            "role": kind,
            "content": [{"type": "text", "text": text}],
        }
    times = {"timestamp": "2026-11-14T10:00:00.000Z", "cwd": "/", "sessionId": CLAUDE, "version": "2.1.325"}
    return {"type": kind, "uuid": uuid, "parentUuid": parent, "message": message, **times}


@pytest.mark.parametrize("branch", ["a1", None], ids=["a later prompt", "the first prompt"])
def test_what_was_taken_back_is_shown_but_not_handed_over(cli: CliMachine, branch: str | None) -> None:
    first = [_record("user", "p1", None, "First about yak"), _record("assistant", "a1", "p1", "Yaks graze.")]
    records = [
        *first,
        _record("user", "p2", "a1", "Second about rhino"),
        _record("assistant", "a2", "p2", "Rhinos charge."),
        _record("user", "p3", branch, "Third about zebu"),
        _record("assistant", "a3", "p3", "Zebus rest."),
    ]
    path = cli.home / ".claude" / "projects" / "-" / f"{CLAUDE}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    assert "Rhinos charge." in cli.call("sessions", "show", CLAUDE).out
    cli.install("codex")
    answer = cli.call("hand-over", CLAUDE, "--to", "codex", "--as", "briefing", "--dry-run")
    count = 1 if branch else 2
    assert answer.code == 0, answer.err
    assert f"{6 - 2 * count} messages" in answer.err
    assert f"{count} prompt" in answer.err
    assert "taken back" in answer.err
