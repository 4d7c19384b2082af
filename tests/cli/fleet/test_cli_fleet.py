"""`harness fleet` as a person types it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import postgres_server
from cli_machine import CliMachine
from pty_terminal import PtyTerminal

SOLVES = """
turns = [
  [{ tool = "write", input = { file_path = "answer.txt", content = "42\\n" } }],
  [{ text = "Done." }],
]
"""
PLAN = """
agents = [
  { name = "good", agent = "native", model = "scripted/good.toml" },
  { name = "bad", agent = "native", model = "scripted/bad.toml" },
]
[[task]]
id = "answer"
prompt = "Write the answer."
check = "grep -q 42 answer.txt"
"""


@pytest.fixture
def planned(cli: CliMachine, monkeypatch: pytest.MonkeyPatch) -> CliMachine:
    monkeypatch.setenv("PATH", f"{cli.bin}:/usr/local/bin:/usr/bin:/bin")
    (cli.project / "good.toml").write_text(SOLVES)
    (cli.project / "bad.toml").write_text('turns = [[{ text = "No." }]]\n')
    (cli.project / "plan.toml").write_text(PLAN)
    return cli


def test_a_plan_is_carried_out_reported_and_compared(planned: CliMachine) -> None:
    done = planned.call("fleet", "run", "plan.toml", "--trust")
    assert done.code == 0
    assert done.types[0] == "FleetPlanned"
    assert done.types[-1] == "FleetEnded"
    assert "fleet plan: completed: 2 scored, 0 errors, 0 left" in done.err
    status = planned.call("fleet", "status", "plan", "--json").data
    assert [(case["variant"], case["state"]) for case in status["cases"]] == [
        ("good", "passed"),
        ("bad", "failed"),
    ]
    good, bad = (case["case"] for case in status["cases"])
    report = planned.call("fleet", "report", "plan")
    assert "good     1     100%" in report.out
    assert "no clear winner" in report.out
    assert "one task says nothing about others" in report.out
    assert planned.call("fleet", "compare", "plan").code == 0
    assert planned.call("fleet", "compare", "plan:good", "plan:bad", "--max-drop", "0.1").code == 3
    assert "the same for 0 steps of 1 and 0" in planned.call("fleet", "diff", "plan", good, bad).out
    assert "plan" in planned.call("fleet", "list").out
    for name in ("csv", "json", "html"):
        assert planned.call("fleet", "export", "plan", "-f", name).out
    refused = planned.call("fleet", "export", "plan", "-f", "swe-bench")
    assert (refused.code, "2 sets of predictions" in refused.err) == (2, True)
    assert planned.call("fleet", "export", "plan", "-f", "swe-bench", "-o", "predictions").code == 0
    assert sorted(one.name for one in (planned.project / "predictions").iterdir()) == [
        "bad.1.json",
        "good.1.json",
    ]
    assert planned.call("fleet", "export", "plan", "-f", "atif", "-o", "out").code == 0
    assert json.loads((planned.project / f"out/{good}.json").read_text())["schema_version"] == "ATIF-v1.8"
    assert planned.call("sessions", "list", "--tag", "fleet=plan", "--ids").out.count("\n") == 2


@pytest.mark.parametrize("name", ["harness.py", "msgspec.py", "harness/__init__.py"])
def test_workers_import_nothing_of_the_folder(planned: CliMachine, name: str) -> None:
    """`python -m` looks there first: a repository could bring a module of ours, or of a library."""
    module = planned.project / name
    module.parent.mkdir(exist_ok=True)
    module.write_text("raise SystemExit(open('imported', 'w').close())\n")
    done = planned.call("fleet", "run", "plan.toml", "--trust")
    assert "2 scored, 0 errors" in done.err
    assert not (planned.project / "imported").exists()


def test_without_an_action_fleets_are_listed(planned: CliMachine) -> None:
    empty = planned.call("fleet")
    assert (empty.code, empty.out) == (0, "")
    assert empty.err.startswith("there are no fleets")
    planned.call("fleet", "run", "plan.toml", "--trust")
    listed = planned.call("fleet")
    assert (listed.code, listed.out) == (0, planned.call("fleet", "list").out)
    assert listed.out.split("\n")[1].split()[:4] == ["plan", "2", "1", "1"]


def test_records_and_logs_may_be_in_a_database(planned: CliMachine) -> None:
    store = ("--store", postgres_server.url())
    done = planned.call("fleet", "run", "plan.toml", "--trust", *store)
    assert (done.code, done.types.count("CaseScored")) == (0, 2)
    assert "good     1     100%" in planned.call("fleet", "report", "plan", *store).out
    assert [one["name"] for one in planned.call("fleet", "list", "--json", *store).data] == ["plan"]
    (good, _bad) = planned.call("fleet", "status", "plan", "--json", *store).data["cases"]
    assert (
        "write answer.txt"
        in planned.call("fleet", "diff", "plan", good["case"], good["case"], "--json", *store).out
    )
    assert planned.logs() == []
    assert planned.call("fleet", "list").err.startswith("there are no fleets")
    assert "there is no fleet" in planned.call("fleet", "status", "other", *store).err


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("frobnicate",), "unknown action: frobnicate"),
        (("run",), "no plan was named"),
        (("run", "broken.toml"), "broken.toml:1: not TOML"),
        (("run", "missing.toml"), "cannot read the plan"),
        (("run", "plan.toml", "--name", "a b"), "cannot be the name of a fleet"),
        (("status", "nothing"), "there is no fleet in"),
        (("compare", "nothing"), "there is no fleet in"),
        (("export", "nothing", "-f", "pdf"), "invalid choice"),
        (("try",), "a prompt and at least one agent are needed"),
        (("try", "--apply", "x"), "no fleet was named"),
    ],
)
def test_what_cannot_be_asked_is_reported_in_one_line(
    planned: CliMachine, words: tuple[str, ...], expected: str
) -> None:
    (planned.project / "broken.toml").write_text("agents = [")
    answer = planned.call("fleet", *words)
    assert answer.code == 2
    assert expected in answer.err
    assert "Traceback" not in answer.err


def test_the_best_of_several_is_applied(planned: CliMachine, tmp_path: Path) -> None:
    project = tmp_path / "code"
    project.mkdir()
    (project / "answer.txt").write_text("41\n")
    scripts = [f"native/scripted/{planned.project}/{name}.toml" for name in ("good", "bad")]
    (planned.project / "good.toml").write_text(
        SOLVES.replace(
            "turns = [", 'turns = [\n  [{ tool = "read", input = { file_path = "answer.txt" } }],', 1
        )
    )
    words = ("fleet", "try", "Write the answer.", "-a", scripts[0], "-a", scripts[1], "-d", str(project))
    tried = planned.call(*words, "--name", "best", "--check", "grep -q 42 answer.txt")
    assert tried.code == 0
    assert "-41 " in tried.out
    assert "+42 " in tried.out
    case = next(line.split()[0] for line in tried.out.split("\n") if "passed" in line)
    assert (project / "answer.txt").read_text() == "41\n"
    applied = planned.call("fleet", "try", "--apply", case, "--name", "best", "-d", str(project))
    assert (applied.code, (project / "answer.txt").read_text()) == (0, "42\n")
    again = planned.call("fleet", "try", "--apply", case, "--name", "best", "-d", str(project))
    assert again.code == 2
    assert "do not fit here" in again.err


def test_on_a_terminal_the_table_is_redrawn_and_the_report_stays(planned: CliMachine) -> None:
    planned.environ["PATH"] = os.environ["PATH"]
    with PtyTerminal(planned, "fleet", "run", "plan.toml", "--trust", "--color", "never") as terminal:
        terminal.until("answer")
        terminal.until("running")
        terminal.until("pass rate")
        terminal.until("fleet plan: completed")
    assert "FleetPlanned" not in terminal.text


def test_at_a_limit_of_the_user_no_case_is_started_and_the_fleet_can_be_resumed(planned: CliMachine) -> None:
    bad = planned.project / "bad.toml"
    bad.write_text('usage = { input = 1_000_000, output = 0 }\nturns = [[{ text = "No." }]]\n')
    good = planned.project / "good.toml"
    good.write_text(f"usage = {{ input = 1_000_000, output = 0 }}\n{SOLVES}")
    settings = planned.home / ".config/harness/config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(
        "".join(f'[prices."scripted/{path}"]\ninput = 2.0\noutput = 0.0\n' for path in (bad, good))
    )
    planned.call("budget", "set", "--day", "1")
    stopped = planned.call("fleet", "run", "plan.toml", "--trust", "--jobs", "1")
    assert stopped.code == 3, stopped.err
    [reached] = [event for event in stopped.events if event["type"] == "BudgetReached"]
    assert reached["budget_usd"] == 1.0
    assert stopped.events[-1]["reason"] == "budget"
    assert stopped.events[-1]["left"] >= 1
    planned.call("budget", "set", "--day", "100")
    assert planned.call("fleet", "resume", "plan").code == 0


def test_a_plan_that_runs_commands_is_trusted_first(planned: CliMachine) -> None:
    refused = planned.call("fleet", "run", "plan.toml")
    assert refused.code == 2
    assert "check: grep -q 42 answer.txt" in refused.err
    assert "--trust" in refused.err
    assert planned.call("fleet", "list", "--json").data == []
    with PtyTerminal(planned, "fleet", "run", "plan.toml", "--color", "never") as terminal:
        terminal.until("Trust this plan, as it is now?")
        terminal.type("n\n")
        terminal.until("nothing was started")
    assert planned.call("fleet", "run", "plan.toml", "--trust").code == 0
    assert "fleet:" in planned.call("trust", "--list").out
    assert planned.call("fleet", "run", "plan.toml", "--name", "again").code == 0
    text = (planned.project / "plan.toml").read_text()
    (planned.project / "plan.toml").write_text(text.replace("grep -q 42", "touch x; grep -q 42"))
    changed = planned.call("fleet", "run", "plan.toml", "--name", "changed")
    assert (changed.code, "touch x; grep" in changed.err) == (2, True)


def test_a_plan_that_runs_nothing_of_its_own_needs_no_trust(planned: CliMachine) -> None:
    text = (planned.project / "plan.toml").read_text()
    (planned.project / "plan.toml").write_text(text.replace('check = "grep -q 42 answer.txt"', ""))
    assert planned.call("fleet", "run", "plan.toml").code == 0


def test_a_fleet_is_planned_without_running_it(planned: CliMachine) -> None:
    tried = planned.call(
        "fleet", "plan", "plan.toml", "--dry-run", "--max-budget-usd", "0.5", "--repeats", "3"
    )
    assert tried.code == 0
    assert "1 tasks × 2 variants × 3: 6 cases" in tried.out
    assert "1.50" in tried.out  # at most
    assert planned.call("fleet", "list", "--json").data == []
    made = planned.call("fleet", "plan", "plan.toml", "--trust", "--json").data
    assert (len(made["cases"]), made["is_created"]) == (2, True)
    status = planned.call("fleet", "status", "plan", "--json").data
    assert [case["state"] for case in status["cases"]] == ["waiting", "waiting"]
    resumed = planned.call("fleet", "resume", "plan", "--variant", "go*")
    assert (resumed.code, "completed: 1 scored, 0 errors, 1 left" in resumed.err) == (0, True)
    status = planned.call("fleet", "status", "plan", "--json").data
    assert [case["state"] for case in status["cases"]] == ["passed", "waiting"]
    wrong = planned.call("fleet", "resume", "plan", "--task", "cart")
    assert (wrong.code, "there are: answer" in wrong.err) == (2, True)


def test_folder_settings_hold_for_variants_that_say_nothing_of_them(planned: CliMachine) -> None:
    text = (planned.project / "plan.toml").read_text()
    text = text.replace('{ name = "bad",', '{ name = "bad", folder_settings = "use",')
    (planned.project / "plan.toml").write_text(text)
    asked = ("fleet", "plan", "plan.toml", "--trust", "--folder-settings", "none")
    assert planned.call(*asked, "--json").code == 0
    stored = json.loads((planned.sessions.parent / "fleets/plan/plan.json").read_text())
    assert [one["folder_settings"] for one in stored["variants"]] == ["none", "use"]


def test_a_fleet_is_deleted(planned: CliMachine) -> None:
    planned.call("fleet", "run", "plan.toml", "--trust")
    assert planned.call("fleet", "delete", "plan").code == 2  # nobody can be asked
    assert planned.call("fleet", "delete", "plan", "--yes").code == 0
    assert planned.call("fleet", "list", "--json").data == []
    assert planned.call("sessions", "list", "--tag", "fleet=plan", "--ids").out.count("\n") == 2
    assert planned.call("fleet", "run", "plan.toml").code == 0  # it is trusted still


def test_an_option_that_the_agent_would_not_get_is_refused_with_its_line(planned: CliMachine) -> None:
    text = (planned.project / "plan.toml").read_text()
    line = '  { name = "odd", agent = "claude", binary = "/bin/true", temperature = 0.5 },\n'
    (planned.project / "plan.toml").write_text(text.replace("agents = [\n", f"agents = [\n{line}"))
    refused = planned.call("fleet", "run", "plan.toml", "--trust")
    assert refused.code == 2
    assert "plan.toml:3: agents[0].temperature" in refused.err
    assert "does not support --temperature" in refused.err


def test_the_check_is_run_again_on_kept_workspaces(planned: CliMachine) -> None:
    text = (planned.project / "plan.toml").read_text()
    flag = planned.project / "flag"
    (planned.project / "plan.toml").write_text(text.replace("grep -q 42 answer.txt", f"test -e '{flag}'"))
    planned.call("fleet", "run", "plan.toml", "--trust", "--keep")
    assert planned.call("fleet", "report", "plan", "--json").data["report"]["variants"][0]["passed"] == 0
    flag.write_text("")
    graded = planned.call("fleet", "grade", "plan", "--variant", "good")
    assert (graded.code, "failed  passed" in graded.out) == (0, True)
    good, bad = planned.call("fleet", "report", "plan", "--json").data["report"]["variants"]
    assert (good["passed"], bad["passed"]) == (1, 0)
    assert planned.call("fleet", "grade", "plan", "--task", "answer").code == 0
    assert planned.call("fleet", "report", "plan", "--json").data["report"]["variants"][1]["passed"] == 1
