"""The help of the command line, and its errors."""

from __future__ import annotations

import argparse
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import harness
from cli_machine import CliMachine
from harness.agents import registry
from harness.cli import parser
from harness.cli.commands import list as listing
from harness.cli.console import wants_color
from harness.cli.main import main
from harness.clients import exit_codes, formats

COMMANDS = parser.names()


def test_the_version_is_printed_without_loading_anything(cli: CliMachine) -> None:
    program = (
        "import sys\n"
        "from harness.cli.main import main\n"
        "code = main(['--version'])\n"
        "print(code, {'argparse', 'msgspec', 're', 'json'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == f"harness {harness.__version__}\n0 set()\n"


def test_without_a_command_the_usage_is_shown_on_standard_error(cli: CliMachine) -> None:
    answer = cli.call()
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("Usage: harness")
    assert all(f"  {name} " in answer.err for name in COMMANDS)


@pytest.mark.parametrize("words", [["--help"], ["-h"], ["help"]])
def test_help_is_printed_on_standard_output(cli: CliMachine, words: list[str]) -> None:
    answer = cli.call(*words)
    assert (answer.code, answer.err) == (0, "")
    assert "Run coding agents" in answer.out


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself_and_its_actions(cli: CliMachine, name: str) -> None:
    answer = cli.call(name, "--help")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out == cli.call("help", name).out
    for action in getattr(parser.load(name), "ACTIONS", {}):
        below = cli.call(name, action, "--help")
        assert (below.code, below.err) == (0, "")
        assert f"harness {name} {action}" in below.out


def test_the_help_of_run_names_every_agent_and_every_format(cli: CliMachine) -> None:
    text = re.sub(r"\s+", " ", cli.call("run", "--help").out)
    assert f"{', '.join(registry.names())} (default" in text
    assert all(formats.BEST_NAMES.get(name, name) in text for name in formats.names())


def test_the_help_of_models_names_the_model_registry(cli: CliMachine) -> None:
    assert "model registry" in cli.call("models", "--help").out


def test_an_unknown_command_is_answered_with_the_one_that_was_meant(cli: CliMachine) -> None:
    answer = cli.call("sesions")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err == "harness: unknown command: sesions\n  did you mean `harness sessions`?\n"


@pytest.mark.parametrize(
    ("words", "shown_text"),
    [
        (["--nonsense"], "unknown option: --nonsense"),
        (["run", "--nonsense"], "unrecognized arguments: --nonsense"),
        (["run", "--prompt"], "argument -p/--prompt: expected one argument"),
        (["run", "--timeout", "soon"], "argument --timeout: a number was expected, not 'soon'"),
        (["run", "--timeout", "0"], "argument --timeout: a number above 0 was expected, not '0'"),
        (["run", "--timeout", "inf"], "argument --timeout: a number above 0 was expected, not 'inf'"),
        (["run", "--timeout", "nan"], "argument --timeout: a number above 0 was expected, not 'nan'"),
        (["run", "--max-turns", "-1"], "argument --max-turns: "),
        (
            ["run", "--max-turns", "1.5"],
            "argument --max-turns: a whole number above 0 was expected, not '1.5'",
        ),
        (["run", "--max-budget", "free"], "argument --max-budget-usd/--max-budget: a number was expected"),
        (["sessions", "lst"], "unknown action: lst\n  did you mean `harness sessions list`?"),
        (["agents", "nonsense"], "unknown action: nonsense\n  expected one of: list, check, "),
        (["sessions", "list", "--limit", "-1"], "--limit: a whole number, 0 or more, was expected, not '-1'"),
        (["serve", "--port", "99999"], "argument --port: a port between 0 and 65535 was expected"),
        (["models", "fetch"], "the following arguments are required: MODEL"),
        (["doctor", "native"], "the doctor cannot examine native"),
        (["run", "-p", "x", "--resume", "a", "--continue"], "--continue: not allowed with argument --resume"),
        (["run", "--agent", "replay", "-p", "x"], "no recording was named\n  give one with --recording FILE"),
        (["attach", "--url", "nonsense"], "not the address of a server: 'nonsense'"),
        (["sessions", "show"], "the following arguments are required: ID"),
        (["sessions", "list", "--", "x"], "`harness sessions` takes nothing after --"),
        (["check"], "the following arguments are required: AGENT"),
        (["completion", "cobol"], "unknown shell: cobol"),
    ],
)
def test_a_wrong_command_line_gives_one_clear_line(
    cli: CliMachine, words: list[str], shown_text: str
) -> None:
    answer = cli.call(*words)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("harness: ")
    assert shown_text in answer.err
    assert answer.err.count("\n") <= 2


def test_nothing_that_is_shown_without_asking_is_wider_than_a_terminal() -> None:
    assert [line for line in parser.overview().split("\n") if len(line) > 80] == []


def test_a_server_that_does_not_answer_is_reported_at_once(cli: CliMachine) -> None:
    pytest.importorskip("websockets", reason="pip install harness-agents[server] to test what needs it")
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    (cli.project / "token").write_text("secret\n")
    answer = cli.call("attach", "--url", url, "--token-file", "token")
    assert (answer.code, answer.out) == (1, "")
    assert answer.err.startswith(f"harness: no server answers at {url}: ")
    assert answer.err.endswith("\n  `harness serve` starts one\n")


def test_seconds_may_carry_a_unit() -> None:
    assert [parser.seconds(text) for text in ("90", "90s", "1.5m", "2h")] == [90, 90, 90, 7200]


def test_options_of_all_commands_may_stand_before_the_command(cli: CliMachine) -> None:
    assert cli.call("-v", "--no-color", "config", "show").code == 0
    assert cli.call("config", "-v", "show").code == 0
    assert cli.call("config", "--json").data["log_level"] == "warn"


def test_a_bug_is_one_line_and_its_traceback_a_private_file(
    cli: CliMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> int:
        raise ZeroDivisionError("two\nlines")

    monkeypatch.setattr(listing, "execute", broken)
    answer = cli.call("list")
    assert (answer.code, answer.out) == (exit_codes.BUG, "")
    found = re.fullmatch(
        r"harness: this is a bug in harness: ZeroDivisionError: two\n  please report it with the details in (.+)\n",
        answer.err,
    )
    assert found, answer.err
    assert "Traceback (most recent call last)" in Path(found[1]).read_text()
    assert os.stat(found[1]).st_mode & 0o777 == 0o600


def test_a_deleted_current_directory_is_reported(cli: CliMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    removed = cli.project / "gone"
    removed.mkdir()
    monkeypatch.chdir(removed)
    removed.rmdir()
    answer = cli.call("run", "-a", "claude", "-p", "x")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("harness: the current directory cannot be used: No such file or directory\n")


def test_ctrl_c_is_quiet(cli: CliMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(listing, "execute", interrupted)
    answer = cli.call("list")
    assert (answer.code, answer.out, answer.err) == (130, "", "")


@pytest.mark.parametrize("words", ["list", "sessions", "--help", "config", "models"])
def test_a_reader_that_has_left_is_no_reason_for_a_traceback(cli: CliMachine, words: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    process = cli.spawn(words, stdout=writer)
    os.close(writer)
    _, err = process.communicate(timeout=100)
    assert b"Traceback" not in err
    assert b"BrokenPipe" not in err
    assert process.returncode == 141 or (words == "sessions" and process.returncode == 0)


def test_closed_standard_streams_do_not_let_output_into_other_files(cli: CliMachine) -> None:
    cli.install("claude")
    command = 'exec "$0" -m harness.cli.main run -a claude -p x <&- >&- 2>&-'
    done = subprocess.run(["sh", "-c", command, sys.executable], env=cli.environ, check=False)
    assert done.returncode == 0
    assert [event["type"] for event in cli.log()][-1] == "Result"


@pytest.mark.parametrize(
    ("choice", "environ", "terminal", "expected"),
    [
        ("auto", {"TERM": "xterm"}, True, True),
        ("auto", {"TERM": "xterm"}, False, False),
        ("auto", {"TERM": "dumb"}, True, False),
        ("auto", {}, True, False),
        ("auto", {"TERM": "xterm", "NO_COLOR": "1"}, True, False),
        ("auto", {"TERM": "xterm", "NO_COLOR": ""}, True, True),
        ("auto", {"FORCE_COLOR": "1"}, False, True),
        ("auto", {"FORCE_COLOR": "0", "TERM": "xterm"}, False, False),
        ("auto", {"FORCE_COLOR": "1", "NO_COLOR": "1"}, True, False),
        ("always", {"NO_COLOR": "1"}, False, True),
        ("never", {"FORCE_COLOR": "1"}, True, False),
    ],
)
def test_colour_follows_the_option_then_the_environment_then_the_terminal(
    choice: str, environ: dict[str, str], terminal: bool, expected: bool
) -> None:
    assert wants_color(choice, environ, is_terminal=terminal) is expected


def test_main_returns_a_code_for_anything(cli: CliMachine) -> None:
    assert main(["\udcff\0"]) == 2


def test_a_duration_of_several_units_is_their_sum() -> None:
    from harness.cli.parser import seconds

    assert (seconds("1h30m"), seconds("2m5s"), seconds("1.5m")) == (5400, 125, 90)
    for wrong in ("1h30", "h", "30mm", "0m", "-1m", "1.2.3s"):
        with pytest.raises(argparse.ArgumentTypeError):
            seconds(wrong)
