"""Interrupting `harness run`, and readers that leave: the run still ends in order."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from cli_machine import CLAUDE_LINES, CliMachine, wait_until

STUBBORN = "trap '' INT TERM; while :; do sleep 0.05; done"


def _running(
    cli: CliMachine, *words: str, after: str = "exec sleep 60", **options: Any
) -> subprocess.Popen[bytes]:
    """A run that has shown its first events and still runs."""
    cli.install("claude", *CLAUDE_LINES[:2], after=f"echo $$ >agent.pid; {after}")
    process = cli.spawn("run", "-a", "claude", "-p", "x", *words, **options)
    assert process.stdout is not None
    assert b'"SessionStart"' in process.stdout.readline()
    wait_until(lambda: (cli.project / "agent.pid").exists() and (cli.project / "agent.pid").read_text())
    return process


def _agent_is_gone(cli: CliMachine) -> bool:
    return not Path(f"/proc/{(cli.project / 'agent.pid').read_text().strip()}").exists()


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_ends_the_run_in_order(cli: CliMachine, number: int, code: int) -> None:
    process = _running(cli)
    process.send_signal(number)
    out, err = process.communicate(timeout=100)
    assert (process.returncode, err) == (code, b"")
    last = json.loads(out.strip().split(b"\n")[-1])
    assert (last["type"], last["success"]) == ("Result", False)
    assert cli.log()[-1]["outcome"] == cli.metadata()["outcome"] == "interrupted"
    assert _agent_is_gone(cli)


def _press(process: subprocess.Popen[bytes], number: signal.Signals) -> int:
    """Send it until the process has ended: how often? Signals that wait together count as one on a busy machine."""
    for times in range(1, 1000):
        process.send_signal(number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=0.1)
            return times
    raise TimeoutError(f"{times} signals did not end it")


def test_signals_one_after_the_other_press_harder(cli: CliMachine) -> None:
    process = _running(cli, after=STUBBORN)
    process.send_signal(signal.SIGINT)
    wait_until(lambda: b'"control"' in next(cli.sessions.glob("*.raw")).read_bytes())
    _press(process, signal.SIGINT)
    process.communicate(timeout=100)
    assert process.returncode == 130
    assert cli.log()[-1]["outcome"] == "interrupted"
    assert cli.log()[-1]["signal"] == signal.SIGKILL
    assert _agent_is_gone(cli)


def test_an_ignored_signal_stays_ignored(cli: CliMachine) -> None:
    """As `nohup` and background jobs of a shell ask for."""
    process = _running(
        cli,
        after="while [ ! -e go ]; do sleep 0.02; done",
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    )
    process.send_signal(signal.SIGHUP)
    (cli.project / "go").touch()
    process.communicate(timeout=100)
    assert cli.log()[-1]["outcome"] == "failed"  # it has not reported how it ended, but it was not stopped
    assert not any('"control"' in path.read_text() for path in cli.sessions.glob("*.raw"))


def test_a_reader_that_leaves_stops_a_silent_agent(cli: CliMachine) -> None:
    process = _running(cli)
    assert process.stdout is not None
    process.stdout.close()
    process.wait(timeout=100)
    assert process.stderr is not None
    assert process.stderr.read() == b""
    assert process.returncode == 141
    assert cli.log()[-1]["type"] == "Result"
    assert cli.metadata()["outcome"] == "interrupted"
    assert _agent_is_gone(cli)


def test_piping_into_head_shows_one_line_and_no_traceback(cli: CliMachine) -> None:
    cli.install("claude", *CLAUDE_LINES[:1], *[CLAUDE_LINES[1]] * 200, after="exec sleep 60")
    process = cli.spawn("run", "-a", "claude", "-p", "x")
    head = subprocess.run(
        [str(cli.bin / "head"), "-1"], stdin=process.stdout, capture_output=True, check=True
    )
    assert process.stdout is not None
    process.stdout.close()
    _, err = process.communicate(timeout=100)
    assert (process.returncode, err) == (141, b"")
    assert json.loads(head.stdout)["type"] == "SessionStart"
    assert cli.log()[-1]["type"] == "Result"


def test_a_reader_that_has_read_everything_may_leave_before_we_do(cli: CliMachine) -> None:
    cli.install("claude")
    process = cli.spawn("run", "-a", "claude", "-p", "x")
    assert process.stdout is not None
    for line in process.stdout:
        if b'"Result"' in line:
            break
    process.stdout.close()
    assert process.wait(timeout=100) == 0


def test_the_file_gets_everything_though_the_reader_left(cli: CliMachine) -> None:
    process = _running(cli, "-o", "out.ndjson")
    assert process.stdout is not None
    process.stdout.close()
    process.wait(timeout=100)
    lines = (cli.project / "out.ndjson").read_text().strip().split("\n")
    assert json.loads(lines[-1])["type"] == "Result"


def test_output_to_a_pipe_that_never_blocks_arrives_whole(cli: CliMachine) -> None:
    cli.install(
        "claude",
        CLAUDE_LINES[0],
        *[CLAUDE_LINES[1].replace("I will", "I will " * 500)] * 100,
        CLAUDE_LINES[2],
    )
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    process = cli.spawn("run", "-a", "claude", "-p", "x", stdout=writer)
    os.close(writer)
    wait_until(lambda: (next(iter(cli.logs()), None) or Path("/dev/null")).stat().st_size > 200_000)
    with os.fdopen(reader, "rb") as file:
        types = [json.loads(line)["type"] for line in file]
    process.wait(timeout=100)
    assert (process.returncode, len(types), types[-1]) == (0, 103, "Result")


def test_a_third_signal_after_the_run_leaves_a_reader_that_does_not_read(cli: CliMachine) -> None:
    lines = [CLAUDE_LINES[1].replace("I will", "I will " * 500)] * 100
    cli.install("claude", CLAUDE_LINES[0], *lines, CLAUDE_LINES[2])
    process = cli.spawn("run", "-a", "claude", "-p", "x")
    wait_until(lambda: any(cli.sessions.glob("*.meta.json")) and cli.metadata().get("outcome"))
    assert _press(process, signal.SIGTERM) >= 3
    assert process.returncode == 143
    assert cli.log()[-1]["outcome"] == "completed"


def _on_terminal(cli: CliMachine, **environ: str) -> str:
    import pty

    cli.environ |= environ
    main_end, terminal = pty.openpty()
    process = cli.spawn("run", "-a", "claude", "-p", "x", stdin=terminal, stdout=terminal, stderr=terminal)
    os.close(terminal)
    shown = b""
    with contextlib.suppress(OSError):  # the end of a terminal is an error on Linux
        while data := os.read(main_end, 65536):
            shown += data
    os.close(main_end)
    assert process.wait(timeout=100) == 0
    return shown.decode()


def test_a_run_on_a_terminal_is_for_reading_and_shows_where_the_log_is(cli: CliMachine) -> None:
    cli.install("claude")
    text = _on_terminal(cli)
    assert "I will look." in text
    assert '{"type"' not in text
    assert f"log:      {cli.logs()[0]}" in text
    assert f"show:     harness sessions show {cli.logs()[0].stem}" in text
    assert "continue: harness run --agent claude --resume mock-session" in text


def test_a_terminal_shows_a_sign_of_life_that_is_erased_again(cli: CliMachine) -> None:
    cli.install("claude", *CLAUDE_LINES[:2], after=f"sleep 0.9; cat <<'EOL'\n{CLAUDE_LINES[2]}\nEOL\n")
    text = _on_terminal(cli, TERM="xterm")
    drawn = re.findall("\x1b7.*?\x1b8", text)
    assert drawn
    assert "\x1b[K" in text.rpartition(drawn[-1])[2]
    assert "\x1b7" not in _on_terminal(cli, TERM="dumb")


INTERRUPTS_AT_AN_IMPORT = """\
import os, signal, sys

class Interrupts:
    left = int(os.environ["INTERRUPT_AT"])
    is_ours = False
    def find_spec(self, name, path=None, target=None):
        Interrupts.is_ours |= name == "harness.cli.console"
        if Interrupts.is_ours:
            Interrupts.left -= 1
            if Interrupts.left == 0:
                os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupts())
"""


@pytest.mark.parametrize("position", [1, 2, 3, 5, 8, 13, 21, 30, 40, 50, 60, 75, 90, 100])
def test_an_interrupt_amid_the_imports_ends_the_program(cli: CliMachine, position: int) -> None:
    (cli.project / "sitecustomize.py").write_text(INTERRUPTS_AT_AN_IMPORT)
    cli.install("claude", *CLAUDE_LINES[:2], after="exec sleep 60")
    cli.environ |= {"PYTHONPATH": str(cli.project), "INTERRUPT_AT": str(position)}
    process = cli.spawn("run", "-a", "claude", "-p", "x")
    _, err = process.communicate(timeout=100)
    assert (process.returncode, err) == (130, b"")
