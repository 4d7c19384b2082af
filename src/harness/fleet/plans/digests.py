"""Digests of tasks and files: the same task has the same digest on any machine, a changed one has another."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from hashlib import sha256

import msgspec

from harness.errors import UsageError
from harness.fleet.plans.plan import FleetTask
from harness.system import exact_json

_BLOCK_BYTES = 1 << 20
_NOT_CONTENT = ("workspace", "commit", "context", "files", "digest", "metadata", "source", "refusal")
"""Fields of a task whose digest is that of what they name, or that change nothing."""


def task_digest(task: FleetTask, workspace: str, digests: dict[str, str]) -> str:
    """`workspace`: the digest of what the agent works on. `digests`: digests of paths, so that each is read once."""
    fields = {
        name: value for name, value in msgspec.to_builtins(task).items() if name not in _NOT_CONTENT and value
    }
    content = [fields, workspace, files_digest(task.files, digests)]
    return sha256(exact_json.encode(content, order="sorted")).hexdigest()[:16]


def files_digest(files: Mapping[str, str], digests: dict[str, str]) -> str:
    """Of files by their path in the workspace; empty when there are none."""
    content = {there: path_digest(here, digests) for there, here in files.items()}
    return sha256(exact_json.encode(content, order="sorted")).hexdigest()[:16] if content else ""


def path_digest(path: str, digests: dict[str, str]) -> str:
    """Of a file, or of a folder with everything in it. Raises UsageError."""
    if path not in digests:
        try:
            digests[path] = _digest(path)
        except OSError as error:
            raise UsageError(f"cannot read {error.filename or path}: {error.strerror}") from error
    return digests[path]


def _digest(path: str) -> str:
    total = sha256()
    for relative, mode in _entries(path):
        full = os.path.join(path, relative) if relative else path
        total.update(b"%s\0%o\0" % (os.fsencode(relative), stat.S_IMODE(mode) & 0o111))
        if stat.S_ISLNK(mode):
            total.update(os.fsencode(os.readlink(full)))
        elif stat.S_ISREG(mode):
            total.update(_file_digest(full))
    return total.hexdigest()[:32]


def _file_digest(path: str) -> bytes:
    content = sha256()
    with open(path, "rb", buffering=0) as file:
        while block := file.read(_BLOCK_BYTES):
            content.update(block)
    return content.digest()


def _entries(path: str) -> list[tuple[str, int]]:
    """Everything below a path, sorted, with its mode; the path itself is the empty name."""
    found_entries = [("", os.lstat(path).st_mode)]
    folders = [""] if stat.S_ISDIR(found_entries[0][1]) else []
    while folders:
        folder = folders.pop()
        with os.scandir(os.path.join(path, folder)) as entries:
            for entry in entries:
                name = os.path.join(folder, entry.name)
                mode = entry.stat(follow_symlinks=False).st_mode
                found_entries.append((name, mode))
                if stat.S_ISDIR(mode):
                    folders.append(name)
    return sorted(found_entries)
