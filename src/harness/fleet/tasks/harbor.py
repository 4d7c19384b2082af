"""Tasks of Harbor: a folder with `task.toml`, `instruction.md`, `environment/` and `tests/test.sh`."""

from __future__ import annotations

import os
import re
import tomllib
from typing import Any

from harness.errors import UsageError
from harness.fleet.plan import FleetTask
from harness.sources.formats.fields import record_of, text_of

FILE = "task.toml"
_CANARY = re.compile(r"^\s*(<!--.*canary.*-->|#.*canary.*)\s*$", re.IGNORECASE)
_FOLDER = ".harbor"
_SCORE = f"{_FOLDER}/score"
_CHECK = f"""rm -rf /tests /logs/verifier && mkdir -p /logs/verifier && cp -r {_FOLDER}/tests /tests || exit 1
bash /tests/test.sh
for found in json txt; do cp /logs/verifier/reward.$found {_SCORE} 2>/dev/null && break; done
grep -Eq '^1(\\.0*)?$|"reward": *1(\\.0*)?[^0-9.]' {_SCORE}"""
"""Where Harbor's tests are, and the file that says whether they passed. A reward of 1 is a solution."""
_REQUIREMENTS = ("cpus", "memory_mb", "storage_mb", "gpus", "network_mode", "allow_internet")


def read(folder: str) -> FleetTask:
    """Raises UsageError."""
    about = _read_toml(os.path.join(folder, FILE))
    if about.get("steps"):
        raise UsageError(f"{folder}: tasks of several steps are not supported")
    environment, verifier = record_of(about.get("environment")), record_of(about.get("verifier"))
    inside = os.path.join(folder, "environment")
    image = text_of(environment.get("docker_image"))
    is_built = not image and os.path.isfile(os.path.join(inside, "Dockerfile"))
    needs_container = bool(image) or is_built
    return FleetTask(
        id=text_of(record_of(about.get("task")).get("name")) or os.path.basename(folder),
        prompt=without_canary(read_text(os.path.join(folder, "instruction.md"))),
        workspace=inside if not needs_container and os.path.isdir(inside) else "",
        image=image,
        context=inside if is_built else "",
        check=_CHECK if needs_container else "bash tests/test.sh",
        score_file=_SCORE if needs_container else "",
        files={f"{_FOLDER}/tests" if needs_container else "tests": os.path.join(folder, "tests")},
        env={name: text_of(value) for name, value in record_of(environment.get("env")).items()},
        timeout_s=_seconds(record_of(about.get("agent")).get("timeout_sec")),
        check_timeout_s=_seconds(verifier.get("timeout_sec")) or 600.0,
        source="harbor",
        metadata={
            **record_of(about.get("metadata")),
            **{name: environment[name] for name in _REQUIREMENTS if name in environment},
        },
    )


def without_canary(text: str) -> str:
    """Without the lines at the top that mark a text as not to be trained on."""
    lines = text.split("\n")
    while lines and (_CANARY.match(lines[0]) or not lines[0].strip()):
        lines.pop(0)
    return "\n".join(lines)


def read_text(path: str) -> str:
    """Raises UsageError."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        reason = (error.strerror if isinstance(error, OSError) else "it is not UTF-8") or str(error)
        raise UsageError(f"cannot read {path}: {reason}") from error


def _read_toml(path: str) -> dict[str, Any]:
    try:
        return tomllib.loads(read_text(path))
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path}: not TOML: {error}") from error


def _seconds(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and value > 0 else None
