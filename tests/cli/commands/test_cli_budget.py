"""`harness budget`, and runs that reach a limit: refused, ended, asked and answered."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from cli_machine import CliMachine
from pty_terminal import PtyTerminal

STEPS = 3
"""Model calls of a run, each of which costs a dollar."""


@pytest.fixture
def paid(cli: CliMachine) -> tuple[str, ...]:
    """A run of the built-in agent that costs $3.00."""
    script = cli.root / "paid.toml"
    calls = '[{ tool = "list", input = {} }], ' * (STEPS - 1)
    script.write_text(
        f'usage = {{ input = 1_000_000, output = 0 }}\nturns = [{calls}[{{ text = "Done." }}]]\n'
    )
    priced(cli, f"scripted/{script}")
    return ("run", "--agent", "native", "--model", f"scripted/{script}", "--prompt", "go")


def config_of(cli: CliMachine) -> Path:
    return cli.home / ".config/harness/config.toml"


def priced(cli: CliMachine, model: str) -> None:
    path = config_of(cli)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'# mine\n[prices."{model}"]\ninput = 1.0\noutput = 1.0\n')


def of_type(cli: CliMachine, kind: str) -> list[dict[str, Any]]:
    """Of the latest session."""
    lines = cli.logs()[-1].read_text().split("\n")
    return [event for line in lines if line and (event := json.loads(line))["type"] == kind]


def limits(cli: CliMachine) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = cli.call("budget", "--json").data["limits"]
    return found


def test_limits_are_set_shown_and_removed_and_the_file_keeps_its_comments(
    cli: CliMachine, paid: tuple[str, ...]
) -> None:
    assert "no limit is set" in cli.call("budget").err
    assert cli.call("budget", "set", "--day", "20", "--month", "300").code == 0
    assert cli.call("budget", "set", "--project", ".", "--day", "5").code == 0
    assert cli.call("budget", "set", "--each-project", "--month", "50").code == 0
    assert [(one["period"], one["project"], one["limit_usd"]) for one in limits(cli)] == [
        ("day", None, 20.0),
        ("month", None, 300.0),
        ("day", str(cli.project), 5.0),
        ("month", str(cli.project), 50.0),
    ]
    assert cli.call("budget", "unset", "--day").code == 0
    assert cli.call("budget", "unset", "--project", ".", "--day").code == 0
    assert [one["limit_usd"] for one in limits(cli)] == [300.0, 50.0]
    assert config_of(cli).read_text().startswith("# mine\n[prices.")
    assert cli.call("budget", "set").code == 2
    assert cli.call("budget", "set", "--day", "-1").code == 2


def test_what_was_spent_is_counted_once_and_runs_of_other_projects_count_for_all(
    cli: CliMachine, paid: tuple[str, ...], tmp_path: Path
) -> None:
    cli.call("budget", "set", "--day", "100")
    cli.call("budget", "set", "--each-project", "--day", "50")
    (elsewhere := tmp_path / "elsewhere").mkdir()
    assert cli.call(*paid).code == 0
    assert cli.call(*paid, "--cwd", str(elsewhere)).code == 0
    assert [(one["project"], one["spent_usd"], one["left_usd"]) for one in limits(cli)] == [
        (None, 6.0, 94.0),
        (str(cli.project), 3.0, 47.0),
    ]
    shown = cli.call("budget").out
    assert "today           $6.00  $100.00  $94.00  6%" in shown
    assert "project, today  $3.00   $50.00  $47.00  6%" in shown


def test_where_nothing_can_answer_a_run_ends_at_the_limit_and_the_next_is_refused(
    cli: CliMachine, paid: tuple[str, ...]
) -> None:
    cli.call("budget", "set", "--day", "2")
    assert cli.call(*paid).code == 1
    assert of_type(cli, "Result")[-1]["outcome"] == "limit_exceeded"
    [error] = of_type(cli, "Error")
    assert (error["code"], error["message"]) == (
        "spending_limit",
        "stopped: today's limit of $2.00 is reached ($2.00 spent)",
    )
    before = len(list(cli.sessions.glob("*.ndjson")))
    refused = cli.call(*paid)
    assert refused.code == 75
    assert "today's limit of $2.00 is reached ($2.00 spent)" in refused.err
    assert "harness budget set --day USD" in refused.err
    assert len(list(cli.sessions.glob("*.ndjson"))) == before
    cli.call("budget", "set", "--day", "10")
    assert cli.call(*paid).code == 0


def test_a_run_warns_once_when_most_of_a_limit_is_spent(cli: CliMachine, paid: tuple[str, ...]) -> None:
    cli.call("budget", "set", "--day", "3.5")
    answer = cli.call(*paid, "--format", "ndjson")
    assert answer.code == 0
    [] = of_type(cli, "Warning")  # the last call is not followed by another
    cli.call("budget", "set", "--day", "5")
    answer = cli.call(*paid, "--format", "ndjson")
    [warning] = of_type(cli, "Warning")
    assert warning["message"] == "80% of today's limit of $5.00 are spent ($4.00)"
    assert warning["message"] in answer.err


def test_in_a_terminal_it_asks_and_continues_for_as_much_as_is_answered(
    cli: CliMachine, paid: tuple[str, ...]
) -> None:
    cli.call("budget", "set", "--day", "1")
    with PtyTerminal(cli, *paid) as terminal:
        terminal.until("Today's limit of $1.00 is reached ($1.00 spent). Continue?")
        terminal.until("[1] Continue for $0.25 more")
        terminal.type("what for?\n")
        terminal.until("neither an amount nor a refusal")
        terminal.type("1\n")
        terminal.until("Today's limit of $1.00, then $1.25, is reached ($2.00 spent). Continue?")
        terminal.type("$5\n")
        terminal.until("Done.")
        assert terminal.process.wait() == 0
    raised = [(event["limit_usd"], event["until_usd"]) for event in of_type(cli, "BudgetExtended")]
    assert raised == [(1.0, 1.25), (1.0, 7.0)]


def test_in_a_terminal_the_answer_may_be_to_stop(cli: CliMachine, paid: tuple[str, ...]) -> None:
    cli.call("budget", "set", "--day", "1")
    with PtyTerminal(cli, *paid) as terminal:
        terminal.until("Continue?")
        terminal.type("2\n")
        assert terminal.process.wait() == 1
    assert of_type(cli, "Result")[-1]["outcome"] == "limit_exceeded"


def streamed(**event: Any) -> str:
    return json.dumps({"type": "stream_event", "event": event, "session_id": "mock-session"})


USED = {"input_tokens": 1_000_000, "output_tokens": 0}
MESSAGE = {"id": "m1", "type": "message", "role": "assistant", "model": "claude-mock", "content": []}
CLAUDE_USED = (
    streamed(type="message_start", message={**MESSAGE, "usage": USED}),
    streamed(type="message_delta", delta={"stop_reason": "end_turn"}, usage=USED),
    streamed(type="message_stop"),
)
CLAUDE_START = '{"type":"system","subtype":"init","session_id":"mock-session","model":"claude-mock","cwd":"/mock","tools":[]}'


def program(cli: CliMachine) -> None:
    """It spends a dollar, then works on until it is stopped, or for a while."""
    priced(cli, "claude-mock")
    cli.install(
        "claude",
        CLAUDE_START,
        *CLAUDE_USED,
        before="echo $$ > pid; : > ticks; cat >/dev/null",  # it may be paused as soon as it has spent
        after="n=0; while [ $n -lt 40 ]; do n=$((n+1)); echo $n >> ticks; sleep 0.05; done\n"
        'echo \'{"type":"result","subtype":"success","is_error":false,"result":"Finished.","session_id":"mock-session"}\'',
    )


def wait_until_stopped(pid: int) -> None:
    ends_s = time.monotonic() + 60
    while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
        assert time.monotonic() < ends_s
        time.sleep(0.01)


def test_a_program_is_paused_while_it_is_asked_about(cli: CliMachine) -> None:
    program(cli)
    cli.call("budget", "set", "--day", "0.5")
    ticks = cli.project / "ticks"
    with PtyTerminal(cli, "run", "--agent", "claude", "--prompt", "go") as terminal:
        terminal.until("Today's limit of $0.50 is reached ($1.00 spent). Continue?")
        wait_until_stopped(int((cli.project / "pid").read_text()))
        paused_at = len(ticks.read_text().split())
        time.sleep(0.4)
        assert len(ticks.read_text().split()) == paused_at < 40
        terminal.type("1\n")
        terminal.until("Finished.")
        assert terminal.process.wait() == 0
    assert len(ticks.read_text().split()) == 40
    [extended] = of_type(cli, "BudgetExtended")
    assert extended["until_usd"] == 1.12
    assert cli.call("sessions", "check", "last").code == 0


def test_a_program_that_is_asked_about_can_be_stopped(cli: CliMachine) -> None:
    program(cli)
    cli.call("budget", "set", "--day", "0.5")
    with PtyTerminal(cli, "run", "--agent", "claude", "--prompt", "go") as terminal:
        terminal.until("Continue?")
        terminal.type("2\n")
        assert terminal.process.wait() == 1
    assert of_type(cli, "Result")[-1]["outcome"] == "limit_exceeded"
    with PtyTerminal(cli, "run", "--agent", "claude", "--prompt", "go") as terminal:
        terminal.until("($1.00 spent). Continue?")  # before it is started
        terminal.process.send_signal(signal.SIGTERM)
        assert terminal.process.wait() == 143
    assert of_type(cli, "Result")[-1]["outcome"] == "interrupted"
    assert cli.call("sessions", "check", "last").code == 0


def test_a_program_ends_at_the_limit_where_nothing_can_answer(cli: CliMachine) -> None:
    program(cli)
    cli.call("budget", "set", "--day", "0.5")
    assert cli.call("run", "--agent", "claude", "--prompt", "go").code == 1
    assert of_type(cli, "Error")[-1]["code"] == "spending_limit"
    assert of_type(cli, "Result")[-1]["outcome"] == "limit_exceeded"
    assert cli.call("run", "--agent", "claude", "--prompt", "go").code == 75


def test_a_model_without_a_price_is_named_and_not_limited(cli: CliMachine) -> None:
    program(cli)
    config_of(cli).write_text("")
    cli.call("budget", "set", "--day", "0.5")
    answer = cli.call("run", "--agent", "claude", "--prompt", "go", "--format", "ndjson")
    assert answer.code == 0
    assert "the model claude-mock has no price, so that no budget limits this run" in answer.err
    [shown] = limits(cli)
    assert (shown["spent_usd"], shown["is_cost_complete"]) == (0.0, False)
    assert "≥ $0.00" in cli.call("budget").out


def test_a_project_can_lower_its_limit_and_never_raise_one(cli: CliMachine, paid: tuple[str, ...]) -> None:
    cli.call("budget", "set", "--each-project", "--day", "5")
    cli.call("budget", "set", "--day", "9")
    hostile = "[budget]\nday_usd = 1000\nmonth_usd = 1000\nproject_day_usd = 1000\n"
    hostile += f'[project_budgets."{cli.project}"]\nday_usd = 1000\n'
    (cli.project / "harness.toml").write_text(hostile)
    assert [one["limit_usd"] for one in limits(cli)] == [9.0, 5.0]
    cli.settle(hostile)
    assert [one["limit_usd"] for one in limits(cli)] == [9.0, 5.0], "a trusted one neither"
    (cli.project / "harness.toml").write_text("[budget]\nproject_day_usd = 2\n")
    assert [one["limit_usd"] for one in limits(cli)] == [9.0, 2.0]
    assert cli.call(*paid).code == 1
    refused = cli.call(*paid)
    assert refused.code == 75
    assert "today's limit of $2.00 for project is reached" in refused.err


def test_a_wrong_limit_is_no_absent_limit(cli: CliMachine, paid: tuple[str, ...]) -> None:
    with config_of(cli).open("a") as file:
        file.write('[budget]\nday_usd = "much"\n')
    answer = cli.call(*paid)
    assert answer.code == 2
    assert "an amount of dollars above 0 was expected" in answer.err
