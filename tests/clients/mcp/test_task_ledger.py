"""What the tasks of a tree of servers cost is counted once, for all servers."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from harness.clients.mcp.limits import LEDGER, TASK, CallLimits, RunCosts
from harness.clients.mcp.task_ledger import FOLDER, TaskLedger
from harness.errors import UsageError
from harness.events import Usage, UsageDelta


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    return tmp_path / "harness" / FOLDER


def server(stack: ExitStack, environ: dict[str, str], budget_usd: float | None = None) -> CallLimits:
    limits = CallLimits(environ, budget_usd)
    stack.callback(limits.close)
    return limits


def below(limits: CallLimits, log_id: str) -> dict[str, str]:
    """What a server has in its environment which this task has started."""
    return dict(limits.environment(log_id, "run"))


def test_a_server_below_another_one_counts_for_both(stack: ExitStack) -> None:
    first = server(stack, {}, 10.0)
    assert first.admit(None) == 10
    first.begin("task", 10)
    second = server(stack, below(first, "task"))
    assert second.admit(4.0) == 4
    second.begin("sub-task", 4.0)
    second.spend("sub-task", 3.0)
    first.spend("task", 2.0)
    assert first.admit(None) == second.admit(None) == 5
    second.spend("sub-task", 1.0)
    assert not second.has_left("sub-task")
    assert first.has_left("task")
    second.spend("sub-task", 4.0)
    assert not first.has_left("task")
    for limits in (first, second):
        with pytest.raises(UsageError, match="used up"):
            limits.admit(None)


def test_a_task_with_a_limit_ends_by_what_its_own_tasks_cost(stack: ExitStack) -> None:
    first = server(stack, {})
    for task, budget in (("dear", None), ("cheap", 1.0)):
        assert first.admit(budget) == budget
        first.begin(task, budget)
    for task in ("dear", "cheap"):
        second = server(stack, below(first, task))
        second.admit(None)
        second.begin(f"below {task}", None)
        second.spend(f"below {task}", 1.5)
    assert first.has_left("dear")
    assert not first.has_left("cheap")
    first.begin("cheap", 2.0)
    assert first.has_left("cheap")  # a new turn counts from zero


def test_the_limit_of_a_server_below_is_its_own(stack: ExitStack) -> None:
    first = server(stack, {}, 10.0)
    first.admit(None)
    first.begin("task", None)
    second = server(stack, below(first, "task"), 3.0)
    assert second.admit(5.0) == 3
    assert first.admit(5.0) == 5


def test_a_file_that_cannot_be_used_lets_nothing_be_spent(stack: ExitStack, folder: Path) -> None:
    """Where there is a limit; without one there is nothing to count."""
    first = server(stack, {}, 10.0)
    first.admit(None)
    first.begin("task", None)
    told = below(first, "task")
    [path] = folder.iterdir()
    path.unlink()
    with pytest.raises(UsageError, match="cannot be used"):
        server(stack, told).admit(None)
    assert server(stack, {LEDGER: str(path), TASK: "task"}).admit(2.0) == 2


def test_what_an_agent_states_at_its_end_is_counted_before_and_once() -> None:
    costs = RunCosts(lambda model, usage, _rate: (usage.input or 0) / 10 if model else None)
    call = UsageDelta(usage=Usage(input=5), model="m")
    assert [costs.more_usd(call), costs.more_usd(call)] == [0.5, 0.5]
    assert costs.more_usd(UsageDelta(usage=Usage(cost_usd=1.25, cost_source="stated"))) == 0.25
    assert costs.more_usd(UsageDelta(usage=Usage(cost_usd=0.5, cost_source="stated"), id="a call")) == 0.5
    assert not costs.has_unknown
    assert costs.more_usd(UsageDelta(usage=Usage(input=5))) == 0
    assert costs.has_unknown


def test_lines_that_nobody_wrote_give_nothing_back(stack: ExitStack) -> None:
    ledger = TaskLedger.create("own")
    stack.callback(ledger.close)
    ledger.begin("a", "b", 1.0)
    ledger.begin("b", "a", 2.0)  # a circle
    with open(ledger.path, "ab") as file:
        file.write(
            b'[]\n{"task": "a", "usd": -5}\n{"task": "a", "usd": "x"}\nno JSON\n{"task": "a", "usd": 1e999}\n'
        )
    ledger.spend("a", 0.25)
    assert ledger.left_usd("a") == 0.75
    assert ledger.left_usd("unknown") is None


def test_what_a_killed_server_has_left_is_removed_later(folder: Path) -> None:
    folder.mkdir(parents=True)
    old, new = folder / "old.ndjson", folder / "new.ndjson"
    for path in (old, new):
        path.touch()
    long_ago_s = time.time() - 40 * 86_400
    os.utime(old, (long_ago_s, long_ago_s))
    TaskLedger.create("own").close()
    assert list(folder.iterdir()) == [new]


@pytest.mark.skipif(
    not Path("/proc/self/environ").exists(),
    reason="this system does not show what its processes were started with",
)
def test_a_server_is_told_by_the_processes_above_it_too(stack: ExitStack) -> None:
    """An agent that does not pass its environment on does not begin a budget of its own."""
    first = server(stack, {}, 1.0)
    first.admit(None)
    first.begin("task", None)
    first.spend("task", 1.0)
    program = (
        "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]], env={}, check=True)"
    )
    probe = (
        "from harness.clients.mcp.limits import CallLimits\n"
        "from harness.errors import UsageError\n"
        "try:\n  CallLimits({}).admit(None)\n"
        "except UsageError as error:\n  print(error.message)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, probe],
        env={**os.environ, **below(first, "task")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "used up" in done.stdout
