"""`harness sessions search` over sessions of Harness and of other programs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from cli_machine import CliMachine

sys.path.insert(0, str(Path(__file__).parents[1] / "histories"))
from stored_homes import cases

CLAUDE = "33dadd08-e106-4698-90c8-83a1c1f512c6"


@pytest.fixture
def filled(cli: CliMachine) -> CliMachine:
    for case in cases():
        if str(case) in ("claude/2.1.325/resume", "codex/0.166.0/tools", "goose/1.52.0/resume"):
            case.unpack(cli.home)
    return cli


def test_ours_and_theirs_are_found(filled: CliMachine) -> None:
    filled.install("claude")
    assert filled.call("run", "--agent", "claude", "--prompt", "say hello to our own").code == 0
    answer = filled.call("sessions", "search", "hello", "--json")
    assert answer.code == 0
    hits = answer.data["hits"]
    assert not answer.data["is_cut"]
    assert {(hit["agent"], hit["is_ours"]) for hit in hits} == {
        ("claude", True),
        ("claude", False),
        ("goose", False),
    }
    assert all("hello" in hit["passage"] for hit in hits)
    assert all(hit["resume"] == f"harness resume {hit['id']}" for hit in hits)
    text = filled.call("sessions", "search", "hello", "--agent", "claude", "--limit", "1")
    assert text.out.count("harness resume") == 1
    assert "and more" in text.err
    assert CLAUDE in filled.call("sessions", "search", "hello", "--project", "/workspace/shop").out


def test_files_and_commands_of_ours_and_theirs(filled: CliMachine) -> None:
    call = (
        '{"type":"assistant","message":{"id":"m","content":[{"type":"tool_use","id":"t","name":"Bash",'
        '"input":{"command":"wc -l src/cart.py"}}]}}'
    )
    filled.install("claude", call)
    filled.call("run", "--agent", "claude", "--prompt", "count")
    hits = filled.call("sessions", "search", "--file", "src/cart.py", "--json").data["hits"]
    assert [(hit["how"], hit["is_ours"]) for hit in hits if hit["is_ours"]] == [("named in a command", True)]
    hits = filled.call("sessions", "search", "--command", "wc -l", "--json").data["hits"]
    assert ("ran", "wc -l src/cart.py") in [(hit["how"], hit["passage"]) for hit in hits]
    assert filled.call("sessions", "search", "--command", "never ran this", "--json").data["hits"] == []


def test_a_question_without_anything_is_a_mistake(filled: CliMachine) -> None:
    answer = filled.call("sessions", "search")
    assert answer.code == 2
    assert "nothing to search for" in answer.err
    assert "nothing was found" in filled.call("sessions", "search", "xyzzy").err
