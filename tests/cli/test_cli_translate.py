"""`harness translate`: output recorded elsewhere becomes any view."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from cli_machine import CLAUDE_LINES, CODEX_LINES, CliMachine, wait_until
from harness.agents import registry

RECORDED = Path(__file__).parents[1] / "agents"


def test_a_recording_becomes_the_same_events_as_a_run(cli: CliMachine) -> None:
    (cli.project / "out.jsonl").write_text("\n\n".join(CODEX_LINES))
    answer = cli.call("translate", "--agent", "codex", "out.jsonl", "--usage")
    assert (answer.code, answer.err) == (0, "")
    assert answer.types == ["SessionStart", "Message", "ToolStart", "ToolEnd", "UsageDelta", "Result"]
    assert all(event["timestamp_ms"] > 0 for event in answer.events)


@pytest.mark.parametrize("format", ["text", "markdown", "json", "log", "usage", "pretty"])
def test_a_recording_becomes_any_format(cli: CliMachine, format: str) -> None:
    (cli.project / "out.jsonl").write_text("\n".join(CLAUDE_LINES))
    answer = cli.call("translate", "--agent", "claude-code", "out.jsonl", "-f", format)
    assert (answer.code, bool(answer.out)) == (0, True)


def test_a_stream_is_translated_as_it_comes(cli: CliMachine) -> None:
    process = cli.spawn("translate", "--agent", "claude", stdin=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(CLAUDE_LINES[0].encode() + b"\n")
    process.stdin.flush()
    assert json.loads(process.stdout.readline())["type"] == "SessionStart"
    rest, err = process.communicate("\n".join(CLAUDE_LINES[1:]).encode(), timeout=100)
    assert [json.loads(line)["type"] for line in rest.strip().split(b"\n")] == ["Message", "Result"]
    assert (process.returncode, err) == (0, b"")


def test_a_check_shows_what_became_of_each_line(cli: CliMachine) -> None:
    (cli.project / "out.jsonl").write_text("\n".join([*CLAUDE_LINES, "", "not json"]) + "\n")
    answer = cli.call("translate", "--agent", "claude", "--check", "out.jsonl", "-f", "text")
    assert answer.code == 0
    counts = dict(line.split(None, 1)[::-1] for line in answer.err.strip().split("\n")[1:])
    assert answer.err.startswith("5 lines:\n")
    assert counts == {"system/init": "1", "assistant": "1", "result": "1", "blank": "1", "unknown": "1"}


def test_no_input_is_too_bad(cli: CliMachine) -> None:
    (cli.project / "odd").write_bytes(
        b"\xef\xbb\xbf"
        + CLAUDE_LINES[0].encode()
        + b"\n\xff\xfe\x00\n"
        + b"[" * 1500
        + b"\n"
        + b'{"type":"assistant"}{"type":"user"}\nwarning: {"type":"nothing"}\n"\\ud800"\n{"type":"\\ud800","type":1}\n'
    )
    for format in ("ndjson", "log", "pretty", "markdown", "text", "json"):
        answer = cli.call("translate", "--agent", "claude", "--check", "odd", "-f", format)
        assert answer.code == 0, answer.err
        assert "Traceback" not in answer.err


@pytest.mark.parametrize(
    ("words", "shown_text"),
    [
        (["--agent", "foobar"], "unknown agent: foobar"),
        (["--agent", "claude", "missing"], "cannot read 'missing': No such file or directory"),
        (["--agent", "claude", "."], "cannot read the recording: Is a directory"),
        (["--agent", "claude", "-f", "xml", "missing"], "cannot read 'missing'"),
        ([], "the following arguments are required: -a/--agent"),
    ],
)
def test_what_cannot_be_translated_is_reported(cli: CliMachine, words: list[str], shown_text: str) -> None:
    answer = cli.call("translate", *words)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith(f"harness: {shown_text}")


def test_a_reader_that_leaves_ends_the_translation(cli: CliMachine) -> None:
    process = cli.spawn("translate", "--agent", "claude", stdin=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(CLAUDE_LINES[0].encode() + b"\n")
    process.stdin.flush()
    process.stdout.readline()
    process.stdout.close()
    process.stdin.write(CLAUDE_LINES[1].encode() + b"\n")
    process.stdin.flush()
    wait_until(lambda: process.poll() is not None)
    assert process.returncode == 141
    assert process.stderr is not None
    assert process.stderr.read() == b""


def test_recordings_of_real_runs_lose_no_line(cli: CliMachine) -> None:
    """One of each agent; all of them are checked where agents are tested."""
    for agent in registry.names():
        if not (RECORDED / agent).is_dir():
            continue
        path = min(RECORDED.glob(f"{agent}/*/*/stdout.jsonl"), key=os.fspath)
        answer = cli.call("translate", "--agent", agent, "--check", str(path), "-f", "log")
        assert answer.code == 0, answer.err
        assert answer.types[-1] == "Result"


def test_a_document_in_a_standard_is_read_over_many_lines_and_a_stream_as_it_comes(cli: CliMachine) -> None:
    steps = [
        {"step_id": 1, "source": "user", "message": "What is here?"},
        {"step_id": 2, "source": "agent", "message": "Nothing."},
    ]
    document = {"schema_version": "ATIF-v1.8", "agent": {"name": "otter", "version": "1"}, "steps": steps}
    (cli.project / "trajectory.json").write_text(json.dumps(document, indent=2))
    answer = cli.call("translate", "--from", "atif", "trajectory.json", "-f", "text")
    assert (answer.code, answer.out.strip()) == (0, "Nothing.")
    stream = 'data: {"type":"RUN_STARTED","threadId":"t","runId":"r"}\n\ndata: {"type":"TEXT_MESSAGE_CHUNK","delta":"Hi."}\n\n'
    (cli.project / "stream.txt").write_text(stream)
    answer = cli.call("translate", "--from", "agui", "stream.txt", "-f", "text", "--check")
    assert (answer.code, answer.out.strip()) == (0, "Hi.")
    answer = cli.call("translate", "--from", "agui", "--agent", "claude", "stream.txt")
    assert answer.code == 2
    assert "--from is instead of --agent" in answer.err
