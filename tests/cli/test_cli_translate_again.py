"""`harness translate` of the same bytes is the same bytes: ids and times are those of the recording."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from cli_machine import CLAUDE_LINES, CODEX_LINES, CliMachine
from harness.cli.recorded_output import time_of
from harness.clients import formats

RECORDED = Path(__file__).parents[1] / "agents"
SUBAGENTS = RECORDED / "claude" / "2.1.325" / "subagent" / "stdout.jsonl"
"""Its first records do not say when they were written, later ones do."""
TIMED = RECORDED / "gemini" / "0.61.0" / "hello" / "stdout.jsonl"
"""Each of its records does."""
CHANGED_S = 1_700_000_000


def _place(cli: CliMachine, source: Path, name: str = "out.jsonl") -> str:
    shutil.copyfile(source, cli.project / name)
    return name


def _translated(cli: CliMachine, *words: str) -> str:
    answer = cli.call("translate", *words)
    assert (answer.code, bool(answer.out)) == (0, True), answer.err
    return answer.out


@pytest.mark.parametrize("format", formats.names())
def test_a_recording_twice_is_the_same_bytes_in_every_format(cli: CliMachine, format: str) -> None:
    name = _place(cli, SUBAGENTS)
    words = ("--agent", "claude", name, "-f", format, "--usage", "--content")
    first = cli.call("translate", *words)
    assert first.code == 0
    assert first == cli.call("translate", *words)


@pytest.mark.parametrize("standard", ["acp", "agui", "atif", "responses"])
def test_so_is_one_in_a_standard(cli: CliMachine, standard: str) -> None:
    source = cli.project / "stream"
    if standard == "responses":
        said = {
            "type": "message",
            "id": "m",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "Yes."}],
        }
        response = {
            "id": "r",
            "object": "response",
            "status": "completed",
            "model": "otter",
            "output": [said],
        }
        source.write_text(json.dumps(response, indent=1))
    else:
        source.write_text(_translated(cli, "--agent", "claude", _place(cli, SUBAGENTS), "-f", standard))
    for format in ("ndjson", "otel", "acp", "agui", "atif"):
        words = ("--from", standard, "stream", "-f", format)
        assert _translated(cli, *words) == _translated(cli, *words)


def test_another_process_and_a_file_as_standard_input_give_the_same(cli: CliMachine) -> None:
    name = _place(cli, SUBAGENTS)
    expected = _translated(cli, "--agent", "claude", name, "-f", "otel")
    with (cli.project / name).open("rb") as recording:
        process = cli.spawn("translate", "--agent", "claude", "-f", "otel", stdin=recording)
        out, err = process.communicate(timeout=100)
    assert (process.returncode, err, out.decode()) == (0, b"", expected)


def test_times_are_those_of_the_records(cli: CliMachine) -> None:
    lines = [line for line in TIMED.read_bytes().splitlines() if line.startswith(b"{")]
    recorded = [at_ms for at_ms in map(time_of, lines) if at_ms is not None]
    name = _place(cli, TIMED)
    os.utime(cli.project / name, (CHANGED_S, CHANGED_S))
    events = [json.loads(line) for line in _translated(cli, "-a", "gemini", name, "-f", "log").splitlines()]
    shown = [event["timestamp_ms"] for event in events]
    assert (shown[0], shown[-1], shown) == (min(recorded), max(recorded), sorted(shown))
    assert set(shown) <= set(recorded)


def test_a_recording_without_times_is_of_when_the_file_was_changed(cli: CliMachine) -> None:
    recording = cli.project / "out.jsonl"
    recording.write_text("\n".join(CODEX_LINES))
    os.utime(recording, (CHANGED_S, CHANGED_S))
    events = [
        json.loads(line) for line in _translated(cli, "-a", "codex", "out.jsonl", "-f", "log").splitlines()
    ]
    assert {event["timestamp_ms"] for event in events} == {CHANGED_S * 1000}


def test_other_bytes_and_another_agent_are_another_run(cli: CliMachine) -> None:
    ids = set()
    for agent, lines in (
        ("claude", CLAUDE_LINES),
        ("claude", [*CLAUDE_LINES, "more"]),
        ("codex", CLAUDE_LINES),
    ):
        recording = cli.project / "out.jsonl"
        recording.write_text("\n".join(lines))
        os.utime(recording, (CHANGED_S, CHANGED_S))
        out = _translated(cli, "-a", agent, "out.jsonl", "-f", "log")
        ids.add(json.loads(out.splitlines()[0])["run_id"])
    assert len(ids) == 3


def test_a_pipe_without_times_has_those_of_arrival_and_a_new_id(cli: CliMachine) -> None:
    starts = []
    for _ in range(2):
        process = cli.spawn("translate", "-a", "codex", "-f", "log", stdin=subprocess.PIPE)
        before_ms = time.time_ns() // 1_000_000
        out, _err = process.communicate("\n".join(CODEX_LINES).encode(), timeout=100)
        starts.append(json.loads(out.splitlines()[0]))
        assert starts[-1]["timestamp_ms"] >= before_ms - 1
    assert starts[0]["run_id"] != starts[1]["run_id"]


@pytest.mark.parametrize("format", ["log", "otel", "acp", "agui", "atif"])
def test_a_pipe_whose_records_say_their_times_gives_the_same_twice(cli: CliMachine, format: str) -> None:
    outs = set()
    for size in (10_000_000, 700):  # however it arrives
        process = cli.spawn("translate", "-a", "gemini", "-f", format, stdin=subprocess.PIPE)
        assert process.stdin is not None
        data = TIMED.read_bytes()
        for start in range(0, len(data), size):
            process.stdin.write(data[start : start + size])
        out, err = process.communicate(timeout=100)
        assert (process.returncode, err) == (0, b"")
        outs.add(out)
    assert len(outs) == 1


@pytest.mark.parametrize(
    ("line", "at_ms"),
    [
        ('{"timestamp":"2026-11-19T10:00:00.500Z"}', 1_795_082_400_500),
        ('{"timestamp_ms":1795082400500,"message":"text"}', 1_795_082_400_500),
        ('data: {"type":"RUN_STARTED","timestamp":1795082400500}', 1_795_082_400_500),
        ('{"message":{"created":1795082400}}', 1_795_082_400_000),
        ('{"response":{"created_at":1795082400}}', 1_795_082_400_000),
        ('{"steps":[{"step_id":1},{"timestamp":"2026-11-19T10:00:00Z"}]}', 1_795_082_400_000),
        ('{"timestamp":12.5}', None),
        ('{"timestamp":900000000000000}', None),
        ('{"timestamp":"9999-12-31T23:59:59Z"}', None),
        ('{"timestamp":true,"message":[1]}', None),
        ('["2026-11-19T10:00:00Z"]', None),
        ('{"timestamp":', None),
        ("", None),
    ],
)
def test_when_a_record_says_that_it_was_written(line: str, at_ms: int | None) -> None:
    assert time_of(line.encode()) == at_ms
