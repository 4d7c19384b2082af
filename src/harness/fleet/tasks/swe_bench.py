"""Instances of SWE-bench: one JSON object a line.

They are graded by SWE-bench's own harness from the predictions that `harness fleet export --format swe-bench` writes, so
these tasks have no check here. An instance works on a clone of its repository, `<repositories>/<owner>__<name>` or
`<repositories>/<name>`, else in the container image that it names (`image_name`, `docker_image`).
"""

from __future__ import annotations

import os
from typing import Any

import msgspec

from harness.errors import UsageError
from harness.fleet.plans.plan import FleetTask
from harness.fleet.tasks.harbor import read_text
from harness.formats.fields import text_of

_NEEDED = ("instance_id", "repo", "base_commit", "problem_statement")
_ABOUT = ("FAIL_TO_PASS", "PASS_TO_PASS", "version", "environment_setup_commit")


def read(path: str, repositories: str) -> list[FleetTask]:
    """Raises UsageError, naming the line."""
    tasks = []
    for number, line in enumerate(read_text(path).split("\n"), 1):
        if line.strip():
            tasks.append(_instance(line, f"{path}:{number}", repositories))
    return tasks


def _instance(line: str, place: str, repositories: str) -> FleetTask:
    try:
        data = msgspec.json.decode(line, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise UsageError(f"{place}: not a JSON object: {error}") from error
    missing = [name for name in _NEEDED if not text_of(data.get(name))]
    if missing:
        raise UsageError(f"{place}: an instance of SWE-bench needs {', '.join(missing)}")
    repo = data["repo"]
    clone = _clone(repo, repositories)
    image = text_of(data.get("image_name")) or text_of(data.get("docker_image"))
    if not clone and not image:
        raise UsageError(f"{place}: there is neither a clone of {repo} in `repositories` nor an `image_name`")
    return FleetTask(
        id=data["instance_id"],
        prompt=data["problem_statement"],
        workspace=clone,
        commit=data["base_commit"] if clone else "",
        image="" if clone else image,
        source="swe-bench",
        metadata={"repo": repo, **{name: data[name] for name in _ABOUT if name in data}},
    )


def _clone(repo: str, repositories: str) -> str:
    if not repositories or ".." in repo:
        return ""
    names = (repo.replace("/", "__"), repo.rpartition("/")[2])
    paths = (os.path.join(repositories, name) for name in names)
    return next((path for path in paths if os.path.isdir(path)), "")
