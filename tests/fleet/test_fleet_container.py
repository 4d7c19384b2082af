"""Tasks that need a container, with a real engine: agent and check run inside, and nothing is left, whatever is killed."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import small_fleet
from harness.errors import UsageError
from harness.fleet import container
from harness.fleet.fleet import Fleet
from harness.fleet.plans.plan import ContainerSettings, FleetTask, RunLimits, Variant
from harness.fleet.tasks.load import load_tasks
from harness.fleet.work import DONE, NO_RESULT, store_lost, work
from lacking import lacking

RECORDING = Path(__file__).parents[1] / "agents/claude/2.1.325/hello/stdout.jsonl"
IMAGE = "localhost/harness-test:1"
pytestmark = pytest.mark.slow
PROGRAMS = (
    "cat",
    "chown",
    "cp",
    "grep",
    "head",
    "kill",
    "ls",
    "mkdir",
    "rm",
    "sleep",
    "test",
    "touch",
    "true",
)
AGENT = """#!/bin/sh
if [ "$1" = --version ]; then echo "2.1.325 (Claude Code)"; exit; fi
cat > prompt.txt
pwd > where.txt
echo "$MODE $HOME" > mode.txt
[ "$WAIT" ] && { touch "$WAIT"; sleep 1000; }
echo 42 > answer.txt
cat /recording
"""
CHECK = 'test "$(cat answer.txt)" = 42 && test -e /etc/inside'


@pytest.fixture(scope="module")
def engine() -> Iterator[str]:
    """A Podman with a storage of its own, which has a small image."""
    podman, busybox = shutil.which("podman"), shutil.which("busybox")
    if podman is None or busybox is None:
        pytest.skip(lacking("podman or busybox"))
    with _storage() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("CONTAINERS_CONF", _write(folder / "containers.conf", _settings()))
        storage = f'[storage]\ndriver = "vfs"\ngraphroot = "{folder}/storage"\nrunroot = "{folder}/run"\n'
        patch.setenv("CONTAINERS_STORAGE_CONF", _write(folder / "storage.conf", storage))
        patch.setattr(container, "_ENGINES", ("podman",))
        container.container_engine.cache_clear()
        _import_image(podman, Path(busybox), folder)
        tried = subprocess.run(
            [podman, "run", "--rm", IMAGE, "true"], capture_output=True, check=False, timeout=100
        )
        if tried.returncode != 0:
            pytest.skip(lacking("podman that can run containers", tried.stderr.decode()[-300:]))
        yield podman
        container.container_engine.cache_clear()
        subprocess.run([podman, "rm", "-fa"], capture_output=True, check=False, timeout=100)


@contextmanager
def _storage() -> Iterator[Path]:
    """Not in the folder of a test: what is mounted there when a test fails could not be removed with it."""
    folder = tempfile.mkdtemp(prefix="harness-podman-")
    try:
        yield Path(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _settings() -> str:
    """No limit is raised, and nothing but this machine's network and control groups is needed."""
    limits = [
        f'"{name}={hard}:{hard}"'
        for name, kind in (("nofile", resource.RLIMIT_NOFILE), ("nproc", resource.RLIMIT_NPROC))
        for hard in [min(1000, *(one for one in resource.getrlimit(kind) if one > 0))]
    ]
    runtime = 'runtime = "runc"\n' if shutil.which("runc") else ""
    engine = f'[engine]\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\n{runtime}'
    return f'[containers]\ndefault_ulimits = [{", ".join(limits)}]\nnetns = "host"\n{engine}'


def _write(path: Path, text: str, mode: int = 0o644) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return str(path)


def _import_image(podman: str, busybox: Path, folder: Path) -> None:
    root = folder / "root"
    _write(root / "etc/inside", "")
    _write(root / "app/question.txt", "What is the answer?\n")
    _write(root / "recording", RECORDING.read_text())
    _write(root / "bin/claude", AGENT, 0o755)
    _write(root / "bin/bash", '#!/bin/sh\nexec sh "$@"\n', 0o755)
    (root / "tmp").mkdir()
    shutil.copy(busybox, root / "bin/busybox")
    for name in ("sh", *PROGRAMS):
        (root / "bin" / name).symlink_to("busybox")
    with tarfile.open(folder / "root.tar", "w") as archive:
        archive.add(root, ".")
    change = ("--change", "WORKDIR /app", "--change", "ENV PATH=/bin")
    argv = [podman, "import", "-q", *change, folder / "root.tar", IMAGE]
    subprocess.run(argv, check=True, capture_output=True, timeout=100)


def _fleet(folder: Path, task: FleetTask, variant: dict[str, Any] | None = None, **fields: Any) -> Fleet:
    variants = [Variant(name="claude", agent="claude", **(variant or {}))]
    return small_fleet.fleet(folder, small_fleet.plan(folder, variants, [task], **fields))


def _containers(engine: str) -> list[str]:
    """After a while: one that has lost its worker is just ending."""
    deadline = time.monotonic() + 60
    while True:
        argv = [engine, "ps", "-a", "--filter", "label=harness.fleet", "--format", "{{.Names}}"]
        found = subprocess.run(argv, capture_output=True, check=True).stdout.decode().split()
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(0.1)


def test_agent_and_check_run_inside_on_what_the_image_has(engine: str, tmp_path: Path) -> None:
    check = (
        f'{CHECK} && test "$(cat /app/answer.txt)" = 42 && grep -q "^loud $HOME$" mode.txt && test -d "$HOME"'
    )
    fleet = _fleet(tmp_path, small_fleet.task(image=IMAGE, check=check, env={"MODE": "loud"}))
    (case,) = fleet.plan.cases
    assert work(fleet, case) == DONE
    attempt = fleet.records.results()[case]
    assert (attempt.passed, attempt.outcome) == (True, "completed"), attempt
    diff = fleet.records.diff(attempt).decode()
    assert "+42" in diff
    assert "+Write the answer" in diff
    assert "question.txt" not in diff  # it came with the image
    assert f"+{fleet.workspace(case)}/repo" in diff  # the same path inside and outside
    assert not os.path.exists(fleet.workspace(case))
    assert _containers(engine) == []


def test_a_workspace_is_seen_inside(engine: str, tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    _write(tmp_path / "project/mine.txt", "mine")
    _write(tmp_path / "tool", "#!/bin/sh\necho tool", 0o755)
    task = small_fleet.task(
        image=IMAGE,
        workspace=str(tmp_path / "project"),
        setup="touch ready && test -e mine.txt",
        check=f'{CHECK} && test -e ready && test "$(/opt/tool)" = tool',
    )
    settings = ContainerSettings(mounts={"/opt/tool": str(tmp_path / "tool")}, network="none")
    fleet = _fleet(tmp_path, task, container=settings)
    (case,) = fleet.plan.cases
    assert work(fleet, case) == DONE
    assert fleet.records.results()[case].passed, fleet.records.results()[case]


def test_a_container_ends_with_its_worker(engine: str, tmp_path: Path) -> None:
    began = "began"
    fleet = _fleet(tmp_path, small_fleet.task(image=IMAGE, check=CHECK), {"env": {"WAIT": began}})
    (case,) = fleet.plan.cases
    argv = [sys.executable, "-m", "harness", "fleet", "work", fleet.directory, case]
    with subprocess.Popen(argv, stderr=subprocess.DEVNULL) as worker:
        while not os.path.exists(f"{fleet.workspace(case)}/repo/{began}"):
            assert worker.poll() is None
            time.sleep(0.05)
        worker.send_signal(signal.SIGKILL)
    assert small_fleet.left_with(fleet.workspace(case)) == []
    store_lost(fleet, case)  # as the next worker of the case does
    assert _containers(engine) == []
    assert [one.fault for one in fleet.records.faults_of(case)] == ["lost"]
    assert not os.path.exists(fleet.workspace(case))


def test_an_agent_that_takes_too_long_is_ended_inside(engine: str, tmp_path: Path) -> None:
    check = "for one in /proc/[0-9]*; do grep -q [s]leep $one/cmdline && exit 1; done; true"
    limits = RunLimits(timeout_s=1.5)
    fleet = _fleet(
        tmp_path, small_fleet.task(image=IMAGE, check=check), {"env": {"WAIT": "x"}}, limits=limits
    )
    (case,) = fleet.plan.cases
    assert work(fleet, case) == DONE
    attempt = fleet.records.results()[case]
    assert (attempt.outcome, attempt.passed) == ("timed_out", True), attempt
    assert _containers(engine) == []


def test_a_harbor_task_is_built_and_its_reward_is_the_score(engine: str, tmp_path: Path) -> None:
    folder = tmp_path / "harbor"
    _write(folder / "task.toml", 'version = "1.0"\n')
    _write(folder / "instruction.md", "Answer.")
    _write(folder / "environment/Dockerfile", f"FROM {IMAGE}\nCOPY extra.txt /app/\nUSER 1000\n")
    _write(folder / "environment/extra.txt", "extra")
    _write(
        folder / "tests/test.sh",
        "test -e extra.txt && test -e answer.txt && echo 1 > /logs/verifier/reward.txt",
    )
    (task,) = load_tasks(str(folder), "")
    fleet = _fleet(tmp_path, task)
    (case,) = fleet.plan.cases
    assert work(fleet, case) == DONE
    attempt = fleet.records.results()[case]
    assert (attempt.passed, attempt.score) == (True, {"score": 1.0}), attempt


def test_an_image_that_was_removed_is_no_fault_of_the_agent(engine: str, tmp_path: Path) -> None:
    fleet = _fleet(tmp_path, small_fleet.task(image=IMAGE, check=CHECK))
    (case,) = fleet.plan.cases
    fleet.plan = replace(fleet.plan, container=ContainerSettings(network="container:none"))
    assert work(fleet, case) == NO_RESULT
    (attempt,) = fleet.records.faults_of(case)
    assert attempt.fault == "setup_failed"
    assert "the container does not start: " in attempt.detail
    assert not os.path.exists(fleet.workspace(case))


def test_what_cannot_run_in_a_container_is_refused_before_anything_starts(
    engine: str, tmp_path: Path
) -> None:
    task = small_fleet.task(image=IMAGE)
    with pytest.raises(UsageError, match="the agent native is not a program that could run in one"):
        small_fleet.plan(tmp_path, [small_fleet.variant(tmp_path, small_fleet.SOLVES)], [task])
    with pytest.raises(UsageError, match='claude has home = "user"'):
        _fleet(tmp_path, task, {"home": "user"})
    with pytest.raises(UsageError, match=r"it needs the container image localhost/none:1: `pull -q`: .*none"):
        _fleet(tmp_path, small_fleet.task(image="localhost/none:1"))


def test_without_an_engine_the_reason_of_each_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _write(
        tmp_path / "bin/docker", "#!/bin/sh\necho 'Cannot connect to the Docker daemon.' >&2; exit 1\n", 0o755
    )
    monkeypatch.setenv("PATH", f"{tmp_path}/bin")
    monkeypatch.setattr(container, "_ENGINES", ("docker", "podman"))
    container.container_engine.cache_clear()
    with pytest.raises(UsageError, match="no container engine answers") as refused:
        _fleet(tmp_path, small_fleet.task(image=IMAGE))
    assert (
        "docker: `info`: Cannot connect to the Docker daemon.; podman: program 'podman' was not found"
        in refused.value.message
    )
