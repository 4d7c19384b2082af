"""What starts fleets elsewhere: the scripts do what they say, and the files say what the scripts and commands take."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import small_fleet
from python_programs import PYTHON

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """With `harness` on the PATH, and a data folder of its own."""
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin/harness"
    program.write_text(f'#!/bin/sh\nexec {PYTHON} -m harness "$@"\n')
    program.chmod(0o755)
    path = f"{tmp_path}/bin{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "XDG_DATA_HOME": str(tmp_path / "data"), "RUNNER_TEMP": str(tmp_path)}


def _bash(script: Path, env: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    argv = ["bash", str(script), *words]
    return subprocess.run(argv, env=env, capture_output=True, text=True, check=False, timeout=100, cwd=ROOT)


@pytest.mark.slow
def test_the_action_reports_compares_and_fails_when_a_variant_is_worse(
    tmp_path: Path, env: dict[str, str]
) -> None:
    script = (DEPLOY / "action.sh").read_text()
    (example,) = re.findall(r"^#   (FLEET_.*) deploy/action\.sh$", script, re.MULTILINE)
    env |= {
        **dict(word.split("=", 1) for word in shlex.split(example)),
        "FLEET_MAX_DROP": "0.05",
        "GITHUB_STEP_SUMMARY": str(tmp_path / "step"),
        "GITHUB_OUTPUT": str(tmp_path / "outputs"),
    }
    done = _bash(DEPLOY / "action.sh", env)
    assert done.returncode == 3, done.stderr  # it dropped, but two tasks are too few to be sure
    folder = tmp_path / "fleet"
    assert {path.name for path in folder.iterdir()} == {
        *("events.ndjson", "report.txt", "report.html", "compare.txt", "summary.md")
    }
    summary = (tmp_path / "step").read_text()
    assert summary.startswith("## Fleet plan\n\n```\n")
    assert "careful" in summary
    assert "no clear winner" in summary
    assert (tmp_path / "outputs").read_text() == f"folder={folder}\nsummary={folder}/summary.md\n"
    del env["FLEET_COMPARE"]
    assert _bash(DEPLOY / "action.sh", env).returncode == 0  # it is done, and nothing is compared


def test_the_action_ends_with_the_code_of_a_plan_that_is_wrong(tmp_path: Path, env: dict[str, str]) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text("repeats = 0\n")
    done = _bash(DEPLOY / "action.sh", {**env, "FLEET_PLAN": str(plan)})
    assert done.returncode == 2
    assert "plan.toml:1: repeats" in done.stderr


@pytest.mark.slow
def test_a_task_of_a_slurm_array_works_on_its_case(tmp_path: Path, env: dict[str, str]) -> None:
    variants = [small_fleet.variant(tmp_path, small_fleet.SOLVES)]
    tasks = [small_fleet.task("one"), small_fleet.task("two")]
    fleet = small_fleet.fleet(tmp_path, small_fleet.plan(tmp_path, variants, tasks))
    cases = tmp_path / "cases.txt"
    cases.write_text("\n".join(fleet.plan.cases))
    done = _bash(DEPLOY / "slurm.sh", env | {"SLURM_ARRAY_TASK_ID": "2"}, fleet.directory, str(cases))
    assert done.returncode == 0, done.stderr
    assert list(fleet.records.results()) == [list(fleet.plan.cases)[1]]
    done = _bash(DEPLOY / "slurm.sh", env | {"SLURM_ARRAY_TASK_ID": "3"}, fleet.directory, str(cases))
    assert "the file has no such line" in done.stderr
    claim = fleet.records.claim(next(iter(fleet.plan.cases)))
    assert claim is not None
    with claim:
        done = _bash(DEPLOY / "slurm.sh", env | {"SLURM_ARRAY_TASK_ID": "1"}, fleet.directory, str(cases))
    assert done.returncode == 0, done.stderr  # another worker has it


def _yaml(path: Path) -> Any:
    return pytest.importorskip("yaml", reason="PyYAML is not installed").safe_load(path.read_text())


def test_the_inputs_of_the_action_are_those_that_its_script_takes() -> None:
    action = _yaml(ROOT / "action.yml")
    text = (ROOT / "action.yml").read_text()
    for name in action["inputs"]:
        assert f"inputs.{name} " in text, name
    script = (DEPLOY / "action.sh").read_text()
    taken = set(re.findall(r"\$\{?(FLEET_[A-Z_]+)", script)) - {"FLEET_OUTPUT"}
    (fleet,) = [step for step in action["runs"]["steps"] if step.get("id") == "fleet"]
    assert set(fleet["env"]) == taken
    assert all(step["shell"] == "bash" for step in action["runs"]["steps"])
    # An input in a script would be run as a part of it.
    assert not [step for step in action["runs"]["steps"] if "${{" in step["run"]]


def test_the_services_and_jobs_run_commands_that_there_are(env: dict[str, str]) -> None:
    compose = _yaml(DEPLOY / "compose.yaml")
    assert set(compose["services"]) == {"postgres", "server", "worker"}
    assert all(port.startswith("127.0.0.1:") for port in compose["services"]["server"]["ports"])
    job = _yaml(DEPLOY / "kubernetes.yaml")
    assert (job["kind"], job["spec"]["backoffLimit"]) == ("Job", 0)
    (worker,) = job["spec"]["template"]["spec"]["containers"]
    # The id of a case may be all digits, or look like a number with an exponent.
    text = (DEPLOY / "kubernetes.yaml").read_text().partition("\nkind:")[2]
    for line in text.split("\n"):
        assert not re.search(r"""(?<!["\w-])(?:FLEET|CASE)(?!["\w])""", line.partition("#")[0]), line
    for words in (compose["services"]["server"]["command"], worker["args"]):
        command = [word for word in words if word in {"serve", "fleet", "work"}]
        known = subprocess.run(
            [sys.executable, "-m", "harness", *command, "--help"], capture_output=True, text=True, check=True
        )
        options = {word.partition("=")[0] for word in words if word.startswith("--")}
        assert options - set(re.findall(r"--[\w-]+", known.stdout)) == set()
