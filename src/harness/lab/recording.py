"""Saves what an agent wrote in the layout of recorded tests: `<agent>/<version>/<scenario>/`."""

from __future__ import annotations

import os

import msgspec

from harness.errors import UsageError
from harness.lab.scenario import Scenario
from harness.lab.trial import Performance, Subject


def require_writable(root: str) -> None:
    """Make the folder of recordings. Raises UsageError: better now than after the first scenario."""
    try:
        os.makedirs(root, exist_ok=True)
        if not os.access(root, os.W_OK | os.X_OK):
            raise PermissionError(13, "Permission denied")
    except OSError as error:
        raise UsageError(
            f"cannot record in {root!r}: {error.strerror or error}",
            hint="give --record a folder that may be written",
        ) from error


def save_recording(root: str, subject: Subject, scenario: Scenario, performance: Performance) -> None:
    version = subject.version or "unknown"
    folder = os.path.join(root, subject.agent.name, version, scenario.name)
    os.makedirs(folder, exist_ok=True)
    meta = {
        "agent": subject.agent.name,
        "version": version,
        "scenario": scenario.name,
        "argv": performance.argv,
        "cwd": performance.request.cwd,
        "prompt": performance.request.prompt,
        "exit_code": performance.exit_code,
        "line_times_ms": performance.line_times_ms,
        "script": scenario.source,
    }
    files = {
        "stdout.jsonl": performance.stdout,
        "stderr.txt": performance.stderr,
        "meta.json": msgspec.json.format(msgspec.json.encode(meta), indent=1) + b"\n",
    }
    for name, content in files.items():
        if content or name != "stderr.txt":
            with open(os.path.join(folder, name), "wb") as file:
                file.write(content)
