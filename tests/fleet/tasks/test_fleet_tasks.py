"""Task formats of others."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.fleet.container import CaseContainer
from harness.fleet.planning import completed
from harness.fleet.plans.plan import ContainerSettings, FleetPlan, Variant, with_variables
from harness.fleet.scores import is_solved, scores_of
from harness.fleet.tasks.load import load_tasks
from harness.fleet.tasks.terminal_bench import scalars

HARBOR = """
version = "1.0"
[metadata]
difficulty = "easy"
[agent]
timeout_sec = 120.0
[verifier]
timeout_sec = 30.0
[environment]
cpus = 2
memory_mb = 2048
env = { MODE = "test" }
"""
TERMINAL_BENCH = """# a comment
instruction: |-
  Create a file called hello.txt.

    Indented: yes
  End it with a newline.
author_email: someone@example.com
difficulty: "easy"
tags:
  - files
  - easy
parser_name: pytest # the usual one
max_agent_timeout_sec: 360.0
max_test_timeout_sec: 60
folded: >
  one
  two

  three
"""


def _harbor(folder: Path, name: str, text: str = HARBOR) -> Path:
    task = folder / name
    (task / "tests").mkdir(parents=True)
    (task / "environment").mkdir()
    (task / "environment/app.py").write_text("print(1)\n")
    (task / "tests/test.sh").write_text("exit 0\n")
    (task / "task.toml").write_text(text)
    (task / "instruction.md").write_text("<!-- canary GUID 123 -->\n\nWrite a file.\n")
    return task


def test_a_harbor_task_without_an_image_is_a_task_of_its_own_folder(tmp_path: Path) -> None:
    folder = _harbor(tmp_path, "one")
    (task,) = load_tasks(str(folder), "")
    assert (task.id, task.prompt, task.source) == ("one", "Write a file.\n", "harbor")
    assert (task.workspace, task.image, task.check) == (str(folder / "environment"), "", "bash tests/test.sh")
    assert (task.timeout_s, task.check_timeout_s, task.env) == (120.0, 30.0, {"MODE": "test"})
    assert task.metadata == {"difficulty": "easy"}
    assert (task.cpus, task.memory_mb, task.refusal) == (2.0, 2048.0, "")


def test_a_folder_of_tasks_and_a_pattern_give_all_of_them(tmp_path: Path) -> None:
    for name in ("one", "two"):
        _harbor(tmp_path, name)
    (tmp_path / "not-a-task").mkdir()
    assert [task.id for task in load_tasks(str(tmp_path), "")] == ["one", "two"]
    assert [task.id for task in load_tasks(f"{tmp_path}/t*", "")] == ["two"]


def test_a_harbor_task_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not TOML"):
        load_tasks(str(_harbor(tmp_path, "one", "[agent")), "")


IMAGE = '[environment]\ndocker_image = "x:1"\n'


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[[steps]]\nname = 'a'\n", "several steps"),
        (f"{IMAGE}gpus = 4\n", "GPUs"),
        (f"{IMAGE}mcp_servers = [{{ name = 'x' }}]\n", "MCP servers"),
        (f"{IMAGE}healthcheck = {{ command = 'x' }}\n", "health check"),
        (f"{IMAGE}privileged = true\n", "not known here .`privileged`"),
        (f"{IMAGE}volumes = ['/data:/data']\n", "not known here .`volumes`"),
        (f"{IMAGE}network_mode = 'allowlist'\n", "a network that is limited"),
        (f"{IMAGE}[agent]\nallowed_hosts = ['a.example']\n", "some hosts alone"),
        (f"{IMAGE}[verifier]\nnetwork_mode = 'allowlist'\n", "a network that is limited"),
        (f"{IMAGE}[agent]\nnetwork_mode = 'no-network'\n", "another network for the agent"),
        (f"{IMAGE}[[verifier.collect]]\ncommand = 'x'\n", "commands in services"),
        (f"{IMAGE}os = 'windows'\n", "windows"),
        (f"{IMAGE}[verifier.environment]\ndocker_image = 'y'\n", "an environment of its own"),
        (f"{IMAGE}[verifier]\nuser = 'grader'\n", "the user grader"),
        ("[environment]\nnetwork_mode = 'no-network'\n", "needs a container"),
        (f"{IMAGE}allow_internet = false\n", "must have no network"),
        (f"{IMAGE}network_mode = 'no-network'\n", "must have no network"),
        (
            f"{IMAGE}[verifier.env]\nKEY = '${{HARNESS_NO_SUCH_KEY}}'\n",
            "HARNESS_NO_SUCH_KEY, which is not set",
        ),
    ],
)
def test_what_a_harbor_task_demands_and_cannot_have_is_refused(
    tmp_path: Path, text: str, reason: str
) -> None:
    tasks = tuple(load_tasks(str(_harbor(tmp_path, "one", text)), ""))
    made = FleetPlan(name="x", tasks=tasks, variants=(Variant(name="c", agent="claude", binary="/bin/true"),))
    with pytest.raises(UsageError, match=reason):
        completed(made, lambda one: one, is_local=True)


@pytest.mark.parametrize(
    ("said", "megabytes"), [("'2G'", 2048.0), ("'512 MB'", 512.0), ("'1.5g'", 1536.0), ("'4096MiB'", 4096.0)]
)
def test_memory_as_older_harbor_tasks_say_it_is_kept(tmp_path: Path, said: str, megabytes: float) -> None:
    (task,) = load_tasks(str(_harbor(tmp_path, "one", f"{IMAGE}memory = {said}\n")), "")
    assert (task.memory_mb, task.refusal) == (megabytes, "")


def test_an_amount_of_memory_that_is_none_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no amount of memory: 'much'"):
        load_tasks(str(_harbor(tmp_path, "one", f"{IMAGE}memory = 'much'\n")), "")


def test_a_harbor_task_with_services_or_a_verdict_in_a_container_is_refused(tmp_path: Path) -> None:
    with_services = _harbor(tmp_path, "services", IMAGE)
    (with_services / "environment/docker-compose.yaml").write_text("services:\n  main: {}\n  db: {}\n")
    without_image = _harbor(tmp_path, "verdict", "")
    (without_image / "tests/test.sh").write_text("echo 1 > /logs/verifier/reward.txt\n")
    refusals = [task.refusal for task in load_tasks(str(tmp_path), "")]
    assert refusals == [
        "it needs services beside its container (docker-compose.yaml)",
        "it needs a container, since its verdict is written to /logs, and names no image",
    ]


def test_what_a_harbor_task_demands_is_kept(tmp_path: Path) -> None:
    text = f"{IMAGE}workdir = '/srv'\ncpus = 2\nmemory_mb = 512\n[verifier.env]\nMODE = '${{MODE:-quick}}'\nN = 3\n"
    (task,) = load_tasks(str(_harbor(tmp_path, "one", text)), "")
    assert (task.workdir, task.cpus, task.memory_mb, task.refusal) == ("/srv", 2.0, 512.0, "")
    assert with_variables(task.check_env, {"MODE": "long"}) == {"MODE": "long", "N": "3"}
    assert with_variables(task.check_env, {}) == {"MODE": "quick", "N": "3"}
    assert (task.reward, list(task.files)) == ("/logs/verifier/reward", ["/tests"])  # not in the workspace
    settings = ContainerSettings()
    options = list(CaseContainer("/place", task, settings)._options())
    assert options[options.index("--cpus") + 1] == "2"
    assert options[options.index("--memory") + 1] == "512m"


@pytest.mark.parametrize(
    ("data", "score", "solved"),
    [
        (b"1\n", {"score": 1.0}, True),
        (b"0.5", {"score": 0.5}, False),
        (b'{"reward" : 1.0}', {"reward": 1.0}, True),
        (b'{"reward": 1, "style": 0.2}', {"reward": 1.0, "style": 0.2}, True),
        (b'{"a": 1, "b": 0.9}', {"a": 1.0, "b": 0.9}, False),
    ],
)
def test_a_reward_is_read_however_it_is_written(data: bytes, score: dict[str, float], solved: bool) -> None:
    found = scores_of(data)
    assert found == score
    assert is_solved(found) is solved


@pytest.mark.parametrize("data", [b"", b"yes", b"{}", b"nan", b'{"reward": "1"}', b"[1]", b"\xff"])
def test_what_is_no_reward_is_none(data: bytes) -> None:
    assert scores_of(data) is None


def test_a_terminal_bench_task_with_further_services_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "hello"
    folder.mkdir()
    (folder / "task.yaml").write_text(TERMINAL_BENCH)
    (folder / "docker-compose.yaml").write_text("services:\n  client:\n    build: .\nvolumes:\n  data: {}\n")
    assert load_tasks(str(folder), "")[0].refusal == ""
    (folder / "docker-compose.yaml").write_text(
        "services:\n  client:\n    build: .\n  database:\n    image: x\n"
    )
    assert "database" in load_tasks(str(folder), "")[0].refusal


def test_a_terminal_bench_task_is_read_and_needs_its_image(tmp_path: Path) -> None:
    folder = tmp_path / "hello"
    (folder / "tests").mkdir(parents=True)
    (folder / "run-tests.sh").write_text("exit 0\n")
    (folder / "Dockerfile").write_text("FROM scratch\n")
    (folder / "task.yaml").write_text(TERMINAL_BENCH)
    (task,) = load_tasks(str(folder), "")
    assert task.prompt == "Create a file called hello.txt.\n\n  Indented: yes\nEnd it with a newline."
    assert (task.timeout_s, task.check_timeout_s) == (360.0, 60.0)
    assert task.metadata == {"difficulty": "easy", "parser_name": "pytest"}
    assert scalars(TERMINAL_BENCH)["folded"] == "one two\nthree\n"
    assert (task.image, task.context) == ("", str(folder))
    made = FleetPlan(name="x", tasks=(task,), variants=(Variant(name="n", agent="native"),))
    with pytest.raises(UsageError, match="1 of 1 tasks cannot be run here") as caught:
        completed(made, lambda one: one, is_local=True)
    assert "the agent native is not a program that could run in one" in caught.value.message


def _instance(**fields: str) -> str:
    known = {"instance_id": "o__r-1", "repo": "o/r", "base_commit": "main", "problem_statement": "It fails."}
    return json.dumps({**known, "FAIL_TO_PASS": "[]", **fields})


def test_an_instance_of_swe_bench_works_on_a_clone(tmp_path: Path) -> None:
    repository = tmp_path / "clones/o__r"
    repository.mkdir(parents=True)
    git = ["git", "-C", str(repository), "-c", "user.name=x", "-c", "user.email=x@x"]
    subprocess.run([*git, "init", "-q", "-b", "main"], check=True)
    subprocess.run([*git, "commit", "-qm", "one", "--allow-empty"], check=True)
    lines = tmp_path / "swe.jsonl"
    lines.write_text(f"{_instance()}\n\n")
    (task,) = load_tasks(str(lines), str(tmp_path / "clones"))
    assert (task.id, task.workspace, task.commit, task.check) == ("o__r-1", str(repository), "main", "")
    variants = (Variant(name="n", agent="native"),)
    fixed = completed(FleetPlan(name="x", tasks=(task,), variants=variants), lambda one: one, is_local=True)
    assert len(fixed.tasks[0].commit) == 40
    with pytest.raises(
        UsageError, match=r"swe.jsonl:1: there is neither a clone of o/r in `repositories` nor"
    ):
        load_tasks(str(lines), "")
    lines.write_text(_instance(image_name="swebench/o__r-1"))
    (inside,) = load_tasks(str(lines), "")
    assert (inside.image, inside.workspace, inside.commit) == ("swebench/o__r-1", "", "")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("{", "swe.jsonl:1: not a JSON object"),
        (_instance(repo=""), "swe.jsonl:1: .* needs repo"),
        ("[]", "not a JSON"),
    ],
)
def test_a_line_that_is_no_instance_is_named(tmp_path: Path, line: str, expected: str) -> None:
    (tmp_path / "swe.jsonl").write_text(line)
    with pytest.raises(UsageError, match=expected):
        load_tasks(str(tmp_path / "swe.jsonl"), "")


def test_a_folder_of_files_with_tasks_is_a_folder_of_tasks(tmp_path: Path) -> None:
    """And what else lies there is not."""
    for name in ("a", "b"):
        (tmp_path / f"{name}.toml").write_text(f'[[task]]\nid = "{name}"\nprompt = "Go."\ncheck = "true"\n')
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "x"\n')
    assert [task.id for task in load_tasks(str(tmp_path), "")] == ["a", "b"]
