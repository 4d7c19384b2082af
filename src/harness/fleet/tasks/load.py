"""The tasks at a path: a folder of one task, a folder of such folders or of .toml files, a file of tasks, or a pattern of those."""

from __future__ import annotations

import os
from glob import glob

from harness.errors import UsageError
from harness.fleet.plans.plan import FleetTask
from harness.fleet.plans.plan_file import PlanText
from harness.fleet.tasks import harbor, swe_bench, terminal_bench

_FOLDERS = {harbor.FILE: harbor.read, terminal_bench.FILE: terminal_bench.read}
"""The file that marks a folder as a task of a format → what reads it."""


def load_tasks(path: str, repositories: str) -> list[FleetTask]:
    """`repositories`: a folder of Git clones. Raises UsageError, naming the file and what is wrong with it."""
    names = sorted(glob(os.path.expanduser(path))) if not os.path.lexists(path) else [path]
    tasks = [task for name in names for task in _at(os.path.abspath(name), repositories)]
    if not tasks:
        known_formats = (
            f"a folder with {' or '.join(_FOLDERS)}, .toml files with [[task]], or SWE-bench lines (.jsonl)"
        )
        raise UsageError(f"there are no tasks at {path}", hint=f"expected {known_formats}")
    return tasks


def _at(path: str, repositories: str) -> list[FleetTask]:
    if path.endswith((".jsonl", ".ndjson")):
        return swe_bench.read(path, repositories)
    if path.endswith(".toml"):
        return PlanText(path).own_tasks()
    if not os.path.isdir(path):
        return []
    for name, reader in _FOLDERS.items():
        if os.path.isfile(os.path.join(path, name)):
            return [reader(path)]
    return [task for name in sorted(os.listdir(path)) for task in _inside(os.path.join(path, name))]


def _inside(path: str) -> list[FleetTask]:
    """Of one entry of a folder: what is no task there is something else of the folder."""
    if path.endswith(".toml"):
        return PlanText(path).own_tasks() if _has_tasks(path) else []
    return [reader(path) for name, reader in _FOLDERS.items() if os.path.isfile(os.path.join(path, name))]


def _has_tasks(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return any(line.startswith(b"[[task]]") for line in file)
    except OSError:
        return False
