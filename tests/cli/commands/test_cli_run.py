"""`harness run`: what is asked, what comes out, and how it ends."""

from __future__ import annotations

import json
import os
import re
import subprocess

import pytest

from cli_machine import CLAUDE_LINES, CliMachine
from harness.clients import exit_codes, formats
from harness.config.settings import PERMISSION_SPELLINGS


def test_a_run_of_claude_is_one_stream_of_events(cli: CliMachine) -> None:
    cli.install("claude")
    answer = cli.call("run", "-a", "claude", "-p", "analyse it")
    start, asked, texts, result = answer.events
    assert (answer.code, answer.err) == (0, "")
    assert (start["type"], start["session_id"], start["agent"]) == ("SessionStart", "mock-session", "claude")
    assert (asked["role"], asked["text"]) == ("user", "analyse it")
    assert (texts["role"], texts["text"]) == ("assistant", "I will look.")
    assert (result["type"], result["success"], result["text"]) == ("Result", True, "Analysis complete.")
    assert all(event["timestamp_ms"] > 0 for event in answer.events)


def test_a_run_of_codex_is_one_stream_of_events(cli: CliMachine) -> None:
    cli.install("codex")
    answer = cli.call("run", "-a", "codex", "-p", "list it", "--usage")
    assert answer.code == 0
    assert answer.types == [
        "SessionStart",
        "Message",
        "Message",
        "ToolStart",
        "ToolEnd",
        "UsageDelta",
        "Result",
    ]
    assert answer.events[0]["session_id"] == "th-mock"
    assert answer.events[4]["success"] is True


def test_the_log_is_the_superset_of_the_stream_and_can_be_proved(cli: CliMachine) -> None:
    cli.install("codex")
    shown = cli.call("run", "-a", "codex", "-p", "x").types
    logged = [event["type"] for event in cli.log()]
    assert [event["seq"] for event in cli.log()] == list(range(len(logged)))
    assert {*shown} <= {*logged}
    assert cli.call("sessions", "check", "last").code == 0


@pytest.mark.parametrize("name", ["claude", "CLAUDE", "claude-code", "claude_code"])
def test_an_agent_may_be_called_by_any_of_its_names(cli: CliMachine, name: str) -> None:
    cli.install("claude")
    assert cli.call("run", "-a", name, "-p", "x", "--dry-run").code == 0


@pytest.mark.parametrize("text", formats.spellings())
def test_every_format_is_accepted_under_every_name(cli: CliMachine, text: str) -> None:
    cli.install("claude")
    answer = cli.call("run", "-a", "claude", "-p", "x", "--output", text.replace("-", "_"))
    assert (answer.code, bool(answer.out)) == (0, True)
    assert cli.call("run", "-a", "claude", "-p", "x", "-f", text, "--dry-run").code == 0


def test_text_is_the_answer_alone_and_the_bill_goes_to_standard_error(cli: CliMachine) -> None:
    cli.install("claude")
    answer = cli.call("run", "-a", "claude", "-p", "x", "-f", "text")
    assert answer.out.startswith("I will look.\n")
    assert answer.err == "Total: 1.2k in / 345 out, $0.043, 1.5s\n"


@pytest.mark.parametrize("format", ["text", "markdown", "json", "usage"])
def test_errors_of_a_run_are_reported_on_standard_error_where_the_format_cannot(
    cli: CliMachine, format: str
) -> None:
    cli.install("claude", CLAUDE_LINES[0], after="echo boom >&2; exit 3")
    answer = cli.call("run", "-a", "claude", "-p", "x", "-f", format)
    assert answer.code == 1
    assert "error: agent process failed with exit code 3: boom" in answer.err


def test_json_is_one_object(cli: CliMachine) -> None:
    cli.install("claude")
    data = cli.call("run", "-a", "claude", "-p", "x", "-f", "json").data
    assert (data["type"], data["success"], data["result"]) == ("result", True, "Analysis complete.")


@pytest.mark.parametrize("mode", PERMISSION_SPELLINGS)
def test_every_permission_mode_is_accepted_under_every_name(cli: CliMachine, mode: str) -> None:
    cli.install("claude")
    answer = cli.call("run", "-a", "claude", "-p", "x", "--permissions", mode, "--dry-run")
    flag = {"full-access": "--dangerously-skip-permissions", "read-only": "--permission-mode plan"}
    assert answer.code == 0
    assert flag.get(PERMISSION_SPELLINGS[mode], "") in answer.out


@pytest.mark.parametrize(
    ("words", "shown_text"),
    [
        (["-a", "foobar", "-p", "x"], "unknown agent: foobar"),
        (["-a", "claude", "-p", "x", "--permissions", "foobar"], "unknown permission mode: foobar"),
        (["-a", "claude", "-p", "x", "--output", "xml"], "unknown output format: xml"),
        (
            ["-a", "claude", "-p", "x", "--cwd", "/nonexistent/abc"],
            "working directory does not exist: /nonexistent/abc",
        ),
        (
            ["-a", "claude", "-p", "x", "--cwd", "/dev/null"],
            "working directory is not a directory: /dev/null",
        ),
        (["-a", "claude", "-p", ""], "--prompt was given an empty value"),
        (["-a", "claude", "-p", " \n"], "the prompt is empty"),
        (["-a", "claude"], "no prompt was given"),
        (
            ["-a", "claude", "--prompt-file", "missing.md"],
            "cannot read the prompt file missing.md: No such file",
        ),
        (["-a", "claude", "--prompt-file", "."], "cannot read the prompt file .: Is a directory"),
        (["-a", "claude", "fix", "it"], "unexpected: fix it\n  give the prompt with --prompt"),
        (["-a", "claude", "-p", "x", "--env", "novalue"], "--env takes NAME=VALUE, not 'novalue'"),
        (["-a", "claude", "-p", "x", "--extra-args", "it's"], "--extra-args cannot be split"),
        (["-a", "replay", "--recording", "missing.jsonl"], "there is no recording at"),
    ],
)
def test_what_cannot_be_asked_prints_nothing_on_standard_output(
    cli: CliMachine, words: list[str], shown_text: str
) -> None:
    cli.install("claude")
    answer = cli.call("run", *words)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith(f"harness: {shown_text}"), answer.err
    assert cli.logs() == []


def test_the_agent_may_be_left_out_when_exactly_one_is_installed(cli: CliMachine) -> None:
    none = cli.call("run", "-p", "x")
    cli.install("codex")
    one = cli.call("run", "-p", "x", "--dry-run")
    cli.install("claude")
    several = cli.call("run", "-p", "x")
    assert (none.code, "no agent was named, none is installed" in none.err) == (2, True)
    assert (one.code, one.out.split("\n")[0]) == (0, f"Binary: {cli.bin / 'codex'}")
    assert several.code == 2
    assert "no agent was named and several are installed: claude, codex" in several.err


def test_the_prompt_comes_from_the_option_else_the_file_else_standard_input(cli: CliMachine) -> None:
    cli.install("claude", before='PROMPT=$(cat); echo "$PROMPT" >asked.txt')
    (cli.project / "task.md").write_text("\ufeff  from the file\n\n")
    for words, prompt in (
        (["-p", " from the option ", "--prompt-file", "task.md"], " from the option "),
        (["--prompt-file", "task.md"], "from the file"),
        ([], "from standard input"),
        (["--prompt-file", "-"], "from standard input"),
    ):
        process = cli.spawn("run", "-a", "claude", *words, stdin=subprocess.PIPE)
        out, err = process.communicate(b"\n from standard input\n", timeout=100)
        assert (process.returncode, err) == (0, b"")
        assert json.loads(out.split(b"\n")[1])["text"] == prompt
        assert (cli.project / "asked.txt").read_text() == f"{prompt}\n"


def test_a_prompt_that_is_not_text_is_repaired_with_a_warning(cli: CliMachine) -> None:
    cli.install("claude")
    (cli.project / "task.md").write_bytes(b"caf\xe9 \x00 here")
    answer = cli.call("run", "-a", "claude", "--prompt-file", "task.md")
    assert answer.events[1]["text"] == "caf\ufffd \x00 here"
    assert answer.err.startswith("harness: warning: task.md is not all UTF-8 text (byte 3)")


def test_a_prompt_of_ten_megabytes_arrives_whole(cli: CliMachine) -> None:
    cli.install("claude", before="cat >asked.txt")
    (cli.project / "task.md").write_text("x" * 10_000_000)
    assert cli.call("run", "-a", "claude", "--prompt-file", "task.md", "-f", "json").code == 0
    assert (cli.project / "asked.txt").stat().st_size == 10_000_000


def test_the_model_is_looked_up_in_the_registry(cli: CliMachine) -> None:
    cli.install("claude")
    cli.install("codex")
    known = cli.call("run", "-a", "claude", "-m", "opus", "-p", "x", "--dry-run")
    raw = cli.call("run", "-a", "claude", "-m", "claude-opus-4-6", "-p", "x", "--dry-run")
    unmapped = cli.call("run", "-a", "codex", "-m", "opus", "-p", "x", "--dry-run")
    assert "--model claude-opus-4-6" in known.out
    assert "--model claude-opus-4-6" in raw.out
    assert "--model opus" in unmapped.out
    assert "model opus has no mapping for Codex" in unmapped.err


def test_an_unsupported_option_is_reported_and_dropped(cli: CliMachine) -> None:
    cli.install("codex")
    answer = cli.call("run", "-a", "codex", "-p", "x", "--system-prompt", "be brief")
    assert answer.code == 0
    assert answer.err.startswith("harness: warning: Codex does not support --system-prompt")


def test_a_file_of_servers_that_is_not_there_is_refused_before_the_run(cli: CliMachine) -> None:
    cli.install("claude")
    answer = cli.call("run", "-a", "claude", "-p", "x", "--mcp", "missing.json")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("harness: there is no such file: missing.json\n")


def test_the_output_is_teed_into_a_file(cli: CliMachine) -> None:
    cli.install("claude")
    answer = cli.call("run", "-a", "claude", "-p", "x", "-o", "out.ndjson")
    assert (cli.project / "out.ndjson").read_text() == answer.out != ""


def test_an_output_file_that_cannot_be_opened_is_a_warning(cli: CliMachine) -> None:
    cli.install("claude")
    path = cli.project / "missing" / "out"
    answer = cli.call("run", "-a", "claude", "-p", "x", "--output-file", str(path))
    assert (answer.code, answer.types[-1]) == (0, "Result")
    assert answer.err == f"harness: warning: could not open output file {path}: No such file or directory\n"


def test_arguments_environment_and_directory_reach_the_agent(cli: CliMachine) -> None:
    cli.install(
        "claude", before='cat >/dev/null; echo "$PWD|$MODE|$*" >/$MODE/seen'.replace("/$MODE/", '"$MODE"/')
    )
    where = cli.home / "x"
    where.mkdir()
    answer = cli.call(
        "run",
        "-a",
        "claude",
        "-p",
        "x",
        "-d",
        str(where),
        "--env",
        f"MODE={where}",
        "--resume",
        "abc",
        "--max-turns",
        "3",
        "--max-budget",
        "5.0",
        "--append-system-prompt",
        "hi there",
        "--extra-args",
        "--one 'two three'",
        "--",
        "--four",
    )
    assert answer.code == 0
    cwd, mode, arguments = (where / "seen").read_text().strip().split("|")
    assert (cwd, mode) == (str(where), str(where))
    assert "--resume abc" in arguments
    assert "--max-turns 3 --max-budget-usd 5 --append-system-prompt hi there" in arguments
    assert arguments.endswith("--one two three --four")


def test_another_program_may_be_named(cli: CliMachine) -> None:
    cli.install("claude").rename(cli.project / "mine")
    assert cli.call("run", "-a", "claude", "-p", "x", "--binary", "./mine").code == 0


def test_a_session_may_be_named_and_tagged(cli: CliMachine) -> None:
    cli.install("claude")
    cli.call("run", "-a", "claude", "-p", "x", "--name", "first try", "--tag", "a", "--tag", "b")
    metadata = cli.metadata()
    assert (metadata["name"], metadata["tags"], metadata["success"]) == ("first try", ["a", "b"], True)


def test_secrets_are_masked_unless_that_is_switched_off(
    cli: CliMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "k9-very-secret-Value-77"
    monkeypatch.setenv("SERVICE_TOKEN", secret)
    cli.install("claude", *(line.replace("I will look.", secret) for line in CLAUDE_LINES))
    masked = cli.call("run", "-a", "claude", "-p", "x")
    assert (masked.code, secret in masked.out) == (0, False)
    assert not any(secret in path.read_text() for path in cli.sessions.iterdir())
    assert secret in cli.call("run", "-a", "claude", "-p", "x", "--no-redact").out


def test_a_run_that_cannot_be_recorded_is_run_all_the_same(
    cli: CliMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.install("claude")
    monkeypatch.setenv("XDG_DATA_HOME", "/proc/nowhere")
    answer = cli.call("run", "-a", "claude", "-p", "x")
    assert (answer.code, answer.types[-1]) == (0, "Result")
    # The undo of the turn is warned about by a thread of its own, before or after.
    expected = "harness: warning: not recorded: cannot create the log"
    assert any(line.startswith(expected) for line in answer.err.splitlines()), answer.err


def test_a_recording_is_played_as_an_agent(cli: CliMachine) -> None:
    recording = cli.project / "case.stdout.jsonl"
    recording.write_text("\n".join(CLAUDE_LINES) + "\n")
    (cli.project / "case.meta.json").write_text('{"agent": "claude", "prompt": "as recorded"}')
    answer = cli.call("run", "--agent", "replay", "--recording", str(recording))
    assert answer.code == 0
    assert answer.events[1]["text"] == "as recorded"
    assert answer.types == ["SessionStart", "Message", "Message", "Result"]


def test_a_recording_of_an_unknown_agent_is_stored_with_a_warning(cli: CliMachine) -> None:
    recording = cli.project / "wild.jsonl"
    recording.write_text('{"type":"hello"}\n')
    answer = cli.call("run", "--recording", "wild.jsonl")
    assert (answer.code, answer.types) == (0, ["SessionStart", "Result"])
    assert (
        "the agent that wrote this is unknown, so no line is understood: name it with --as NAME" in answer.err
    )


def test_verbose_shows_what_is_run(cli: CliMachine) -> None:
    cli.install("claude")
    answer = cli.call("run", "-a", "claude", "-p", "x", "-m", "opus", "-v")
    assert "harness: model opus is claude-opus-4-6 for Claude Code" in answer.err
    assert re.search(rf"harness: run \S+: {re.escape(str(cli.bin / 'claude'))} --print", answer.err)


def test_a_view_that_breaks_is_a_bug_that_leaves_no_agent_behind(
    cli: CliMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.install("claude", *CLAUDE_LINES[:2], after="exec sleep 60")

    class Broken:
        def feed(self, event: object) -> list[bytes]:
            raise ZeroDivisionError("oops")

    monkeypatch.setattr(formats, "open_view", lambda *_: Broken())
    answer = cli.call("run", "-a", "claude", "-p", "x")
    assert (answer.code, answer.out) == (exit_codes.BUG, "")
    assert answer.err.startswith("harness: this is a bug in harness: ZeroDivisionError: oops\n")
    assert cli.log()[-1]["outcome"] == "interrupted"


def test_a_full_disk_behind_standard_output_stops_the_agent(cli: CliMachine) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("needs /dev/full")
    cli.install("claude", *CLAUDE_LINES[:2], after="exec sleep 60")
    with open("/dev/full", "wb") as full:
        process = cli.spawn("run", "-a", "claude", "-p", "x", stdout=full)
        _, err = process.communicate(timeout=100)
    assert process.returncode == 1
    assert err == b"harness: cannot write to standard output: No space left on device\n  is the disk full?\n"
    assert cli.metadata()["outcome"] == "interrupted"


@pytest.mark.parametrize("option", ["--resume", "--cwd", "--model", "--permissions", "--binary", "--name"])
def test_an_empty_value_never_means_what_its_absence_would(cli: CliMachine, option: str) -> None:
    cli.install("claude")
    answer = cli.call("run", "-a", "claude", "-p", "x", option, "")
    assert (answer.code, answer.out) == (2, "")
    assert f"{option} was given an empty value" in answer.err
    assert cli.logs() == []
