"""No command sends a terminal what it would obey: neither in its messages, nor in formats for programs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cli_machine import CliMachine
from harness.cli import output
from harness.clients import formats
from harness.formatting.escapes import UNSEEN, escaped_json, neutralised

HOSTILE = (
    "x\x1b]52;c;ZXZpbA==\x07\x1b[2J\x9b31m\x9d0;title\x9c\u202e\u2066cba\u2069\u200b\u200d\u2028\x7f\rover"
    "\U000e0041"
)


@pytest.fixture
def terminal(cli: CliMachine, monkeypatch: pytest.MonkeyPatch) -> CliMachine:
    """Standard output is taken for a terminal."""
    monkeypatch.setattr(output, "is_terminal", lambda fd: True)
    return cli


def hostile_stream(place: str) -> list[str]:
    message = {"id": "m1", "role": "assistant", "model": "m", "content": [{"type": "text", "text": HOSTILE}]}
    call = {"type": "tool_use", "id": "c1", "name": f"Tool{HOSTILE}", "input": {HOSTILE: HOSTILE}}
    result = {"type": "tool_result", "tool_use_id": "c1", "content": HOSTILE}
    records: list[dict[str, Any]] = [
        {"type": "system", "subtype": "init", "model": f"m{HOSTILE}", "cwd": place, "tools": []},
        {"type": "assistant", "message": message},
        {"type": "assistant", "message": {**message, "id": "m2", "content": [call]}},
        {"type": "user", "message": {"role": "user", "content": [result]}},
        {"type": "result", "subtype": "success", "is_error": False, "result": HOSTILE},
    ]
    return [json.dumps({**record, "session_id": "s"}) for record in records]


def obeyed(text: str) -> list[str]:
    """The characters that a terminal would obey, or that would make the text look like another one."""
    return [found for found in UNSEEN.findall(text) if neutralised(found) != found]


@pytest.mark.parametrize(
    "words",
    [
        ["run", "-a", HOSTILE, "-p", "x"],
        ["run", "-a", "claude", "-p", "x", "--cwd", f"/{HOSTILE}"],
        ["run", "-a", "claude", "-p", "x", "--model", HOSTILE, "--format", HOSTILE],
        ["sessions", "show", HOSTILE],
        ["sessions", "list", "--since", HOSTILE],
        ["hand-over", HOSTILE, "--to", HOSTILE],
        ["lab", "check", HOSTILE],
        ["config", "get", HOSTILE],
        ["models", "resolve", HOSTILE],
        ["fleet", "run", HOSTILE],
        ["chat", "--resume", HOSTILE],
        ["trust", HOSTILE],
        ["attach", HOSTILE],
        [HOSTILE],
        [f"--{HOSTILE}"],
    ],
    ids=lambda words: words[0][:8].replace(HOSTILE[:8], "alone"),
)
def test_messages_name_what_was_given_without_its_commands(cli: CliMachine, words: list[str]) -> None:
    answer = cli.call(*words)

    assert answer.code
    assert not UNSEEN.findall(answer.err)
    assert not obeyed(answer.out)


@pytest.mark.parametrize("name", formats.names())
def test_every_format_is_harmless_on_a_terminal(terminal: CliMachine, name: str) -> None:
    terminal.install("claude", *hostile_stream(str(terminal.project)))
    live = terminal.call("run", "-a", "claude", "-p", HOSTILE.replace("\0", ""), "--format", name)
    stored = terminal.call("sessions", "show", "last", "--format", name)

    assert (live.code, stored.code) == (0, 0)
    assert not obeyed(live.out + live.err)
    assert not obeyed(stored.out + stored.err)


@pytest.mark.parametrize("words", [["sessions", "list", "--json"], ["sessions", "search", "over", "--json"]])
def test_documents_for_programs_are_the_same_on_a_terminal(
    cli: CliMachine, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    cli.install("claude", *hostile_stream(str(cli.project)))
    cli.call("run", "-a", "claude", "-p", HOSTILE)
    piped = cli.call(*words)
    monkeypatch.setattr(output, "is_terminal", lambda fd: True)
    shown = cli.call(*words)

    assert UNSEEN.search(piped.out)
    assert not UNSEEN.search(shown.out)
    assert json.loads(shown.out) == json.loads(piped.out)


def test_a_document_says_the_same_with_escapes() -> None:
    document = json.dumps({HOSTILE: [HOSTILE, "plain ä 漢", 1.5]}, ensure_ascii=False, indent=2)

    assert json.loads(escaped_json(document)) == json.loads(document)
    assert not UNSEEN.search(escaped_json(document))
    assert "plain ä 漢" in escaped_json(document)
