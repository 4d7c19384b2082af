"""Plans: what they say, what is wrong with them and where, and which cases they make."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

import small_fleet
from harness.errors import AgentNotFound, UsageError
from harness.fleet.fleet import create_fleet
from harness.fleet.planning import completed, plan_of_file, plan_of_paths
from harness.fleet.plans import plan as plans
from harness.fleet.plans.plan import FleetPlan, FleetTask, Variant

GOOD = """
name = "cart"
repeats = 3
budget_usd = 20.0
tasks = ["more/*.toml"]
agents = [
  { name = "plain", agent = "native", model = "scripted/demo" },
  { name = "bare", agent = "native", model = "scripted/demo", without = ["AGENTS.md"], with = { "NOTES.md" = "notes.md" } },
]
providers = { anthropic = 4 }

[limits]
run_budget_usd = 1.5
timeout = "20m"
inactivity = 90

[[task]]
id = "cart"
prompt = "The check fails. Fix it."
workspace = "."
check = "true"
[task.files]
"tests/hidden" = "notes.md"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "plan.toml").write_text(GOOD)
    (tmp_path / "notes.md").write_text("notes")
    (tmp_path / "more").mkdir()
    (tmp_path / "more/other.toml").write_text('[[task]]\nid = "other"\nprompt = "Do something."\n')
    return tmp_path


def test_a_plan_is_read_with_paths_that_hold_anywhere(folder: Path) -> None:
    plan = plan_of_file(str(folder / "plan.toml"))
    assert [task.id for task in plan.tasks] == ["cart", "other"]
    assert plan.tasks[0].workspace == str(folder)
    assert plan.tasks[0].files == {"tests/hidden": str(folder / "notes.md")}
    assert plan.variants[1].added == {"NOTES.md": str(folder / "notes.md")}
    assert (plan.limits.timeout_s, plan.limits.inactivity_s) == (1200, 90)
    assert plan.repeats == 3


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("repeats = 3", "repeat = 3", "plan.toml:3: repeat: there is no such field"),
        ("repeats = 3", "repeats = 0", "plan.toml:3: repeats: Expected `int` >= 1"),
        ("budget_usd = 20.0", "budget_usd = -1", "plan.toml:4: budget_usd: Expected `float` > 0.0"),
        ('timeout = "20m"', 'timeout = "soon"', "plan.toml:14: limits.timeout: a time like"),
        (
            'agent = "native", model = "scripted/demo", without',
            "modell = 1, without",
            "plan.toml:8: agents[1]",
        ),
        (
            'prompt = "The check fails. Fix it."',
            "",
            "plan.toml:17: task[0]: Object missing required field `prompt`",
        ),
        (
            '"tests/hidden"',
            '"../../etc/passwd"',
            "plan.toml:22: task[0].files: a path inside of the workspace",
        ),
        ('without = ["AGENTS.md"]', 'without = ["/etc"]', "plan.toml:8: agents[1].with: a path inside"),
        ('name = "cart"', 'name = "cart', "plan.toml:2: not TOML"),
        ("more/*.toml", "nothing/*", "plan.toml:5: tasks[0]: there are no tasks at"),
    ],
)
def test_a_mistake_is_reported_with_its_line(folder: Path, before: str, after: str, expected: str) -> None:
    assert before in GOOD
    (folder / "plan.toml").write_text(GOOD.replace(before, after))
    with pytest.raises(UsageError) as caught:
        plan_of_file(str(folder / "plan.toml"))
    assert caught.value.message.startswith(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, "cannot read the script"),
        ('turns = [{ txt = "x" }]', "script.toml:1: turns[0]: this part has txt"),
    ],
)
def test_a_script_that_is_missing_or_wrong_is_refused_before_any_run(
    tmp_path: Path, text: str | None, expected: str
) -> None:
    path = tmp_path / "script.toml"
    if text is not None:
        path.write_text(text)
    made = FleetPlan(
        name="x",
        tasks=(small_fleet.task(),),
        variants=(Variant(name="a", agent="native", model=f"scripted/{path}"),),
    )
    with pytest.raises(UsageError) as caught:
        completed(made, lambda one: one, is_local=True)
    assert caught.value.message.startswith("agent 'a': ")
    assert expected in caught.value.message


def test_a_plan_needs_tasks_and_agents_with_names_of_their_own(tmp_path: Path) -> None:
    task = small_fleet.task()
    variant = Variant(name="a", agent="native", model="scripted/demo")
    for tasks, variants, expected in (
        ((), (variant,), "no tasks"),
        ((task,), (), "no agents"),
        ((task, task), (variant,), "2 tasks are called 'answer'"),
        ((task,), (variant, variant), "2 agents are called 'a'"),
    ):
        with pytest.raises(UsageError, match=expected):
            completed(FleetPlan(name="x", tasks=tasks, variants=variants), lambda one: one, is_local=True)


def test_an_agent_that_is_not_installed_is_reported_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    made = FleetPlan(name="x", tasks=(small_fleet.task(),), variants=(Variant(name="c", agent="claude"),))
    with pytest.raises(AgentNotFound):
        completed(made, lambda one: one, is_local=True)
    assert completed(made, lambda one: one, is_local=False).variants


def _digest(task: FleetTask) -> str:
    made = FleetPlan(name="x", tasks=(task,), variants=(Variant(name="n", agent="native"),))
    return completed(made, lambda one: one, is_local=True).tasks[0].digest


def test_a_digest_changes_with_whatever_could_change_the_outcome(tmp_path: Path) -> None:
    workspace, hidden = tmp_path / "workspace", tmp_path / "hidden.txt"
    workspace.mkdir()
    (workspace / "a.txt").write_text("a")
    hidden.write_text("hidden")
    task = small_fleet.task(workspace=str(workspace), files={"h": str(hidden)})
    seen = [_digest(task), _digest(replace(task, prompt="Other.")), _digest(replace(task, check="false"))]
    assert _digest(task) == seen[0]
    (workspace / "a.txt").write_text("b")
    seen.append(_digest(task))
    (workspace / "a.txt").chmod(0o755)
    seen.append(_digest(task))
    (workspace / "link").symlink_to("a.txt")
    seen.append(_digest(task))
    hidden.write_text("otherwise")
    seen.append(_digest(task))
    assert len(set(seen)) == len(seen)


def test_what_a_variant_adds_is_a_part_of_it(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("Be quick.")
    variant = Variant(name="n", agent="native", added={"AGENTS.md": str(tmp_path / "AGENTS.md")})
    before = small_fleet.plan(tmp_path, [variant])
    frozen = small_fleet.fleet(tmp_path, before).plan.variants[0]
    (tmp_path / "AGENTS.md").write_text("Be thorough.")
    assert small_fleet.plan(tmp_path, [variant]).cases.keys() != before.cases.keys()
    assert Path(frozen.added["AGENTS.md"]).read_text() == "Be quick."


def test_a_commit_is_fixed_and_its_tree_is_what_counts(tmp_path: Path) -> None:
    git = ["git", "-C", str(tmp_path), "-c", "user.name=x", "-c", "user.email=x@x"]
    subprocess.run([*git, "init", "-q", "-b", "main"], check=True)
    (tmp_path / "a.txt").write_text("a")
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-qm", "one"], check=True)
    task = small_fleet.task(workspace=str(tmp_path), commit="HEAD")
    first = _digest(task)
    subprocess.run([*git, "commit", "-qm", "two", "--allow-empty"], check=True)
    assert _digest(task) == first
    for wrong in ("nonsense", "--help", "HEAD:a.txt"):
        with pytest.raises(UsageError, match="has no commit"):
            _digest(replace(task, commit=wrong))
    (tmp_path / "below").mkdir()
    with pytest.raises(UsageError, match="not the top"):
        _digest(replace(task, workspace=str(tmp_path / "below")))


def test_a_fleet_is_fixed_when_it_is_created(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "a.txt").write_text("as planned")
    variants = [small_fleet.variant(tmp_path, small_fleet.SOLVES)]
    made = small_fleet.plan(tmp_path, variants, [small_fleet.task(workspace=str(workspace))])
    fleet = small_fleet.fleet(tmp_path, made)
    (workspace / "a.txt").write_text("changed later")
    assert Path(fleet.plan.tasks[0].workspace, "a.txt").read_text() == "as planned"
    assert create_fleet(made, fleet.directory).plan == fleet.plan
    with pytest.raises(UsageError, match="exists with other cases"):
        create_fleet(replace(made, repeats=7), fleet.directory)


def test_ten_thousand_cases_are_planned_in_two_seconds() -> None:
    tasks = tuple(FleetTask(id=f"t{n}", prompt="x" * 1000, check="true") for n in range(1000))
    variants = tuple(Variant(name=f"v{n}", agent="native", model="scripted/demo") for n in range(2))
    began = time.process_time()
    made = completed(
        FleetPlan(name="x", tasks=tasks, variants=variants, repeats=5), lambda one: one, is_local=True
    )
    assert len(plans.decode(plans.encode(made)).cases) == 10_000
    assert time.process_time() - began < 2


def test_the_order_is_shuffled_and_the_same_each_time() -> None:
    tasks = tuple(FleetTask(id=f"t{n}", prompt="x", digest=str(n)) for n in range(50))
    made = FleetPlan(name="x", tasks=tasks, variants=(Variant(name="v", agent="native"),))
    order = [case.task.id for case in made.cases.values()]
    assert order == [case.task.id for case in replace(made, name="y").cases.values()]
    assert order != sorted(order, key=lambda name: int(name[1:]))


def test_paths_alone_make_a_plan_without_agents(folder: Path) -> None:
    made = plan_of_paths([str(folder / "more/other.toml")])
    assert ([task.id for task in made.tasks], made.variants) == (["other"], ())
