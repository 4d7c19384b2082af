"""Programs of this repository as another user of the machine, also where that user may not enter its folder."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from source_tree import ROOT

NOBODY = 65534
_PARTS = ("src/harness", "tests/sandbox")
"""What such programs are made of: Harness, and the scripts of the tests."""


def process_user(uid: int) -> dict[str, Any]:
    """How `subprocess` is told. Only root may change the user, and the groups."""
    return {} if uid == os.geteuid() else {"user": uid, "group": uid, "extra_groups": []}


def readable(uid: int, path: str | Path) -> str:
    """This path of the repository, or a copy of it where the user may not go: a clone in a home folder is private."""
    path = Path(path).resolve()
    if uid == os.geteuid() or _may_read(uid, str(path)):
        return str(path)
    return str(_copy() / path.relative_to(ROOT))


@cache
def libraries(uid: int) -> str:
    """For PYTHONPATH: Harness and what it needs."""
    import hyperscan
    import msgspec

    folders = {os.path.dirname(os.path.dirname(module.__file__)) for module in (msgspec, hyperscan)}
    if uid != os.geteuid() and not all(_may_read(uid, folder) for folder in folders):
        folder = _copy() / "libraries"
        for module in (msgspec, hyperscan):
            source = os.path.dirname(module.__file__)
            shutil.copytree(source, folder / os.path.basename(source), dirs_exist_ok=True)
        _open_to_all(folder)
        folders = {str(folder)}
    return os.pathsep.join((readable(uid, ROOT / "src"), *sorted(folders)))


@cache
def interpreter(uid: int) -> str:
    """A Python that this user may run, and that can load our compiled libraries; empty if there is none.

    One in a home directory often may not be run by others, and one in /tmp is not seen in a sandbox.
    """
    is_hidden = sys.executable.startswith("/tmp/")
    own = os.path.realpath(sys.executable)  # that of .venv is a link to it
    hidden_last = ("/usr/bin/python3", own, sys.executable)
    for candidate in hidden_last if is_hidden else (sys.executable, "/usr/bin/python3"):
        test = [candidate, "-c", f"import sys; sys.exit(sys.version_info[:2] != {sys.version_info[:2]})"]
        try:
            if (
                subprocess.run(
                    test, **process_user(uid), cwd="/", check=False, capture_output=True
                ).returncode
                == 0
            ):
                return candidate
        except OSError:
            continue
    return ""


@cache
def _may_read(uid: int, path: str) -> bool:
    return subprocess.run(["test", "-r", path], **process_user(uid), cwd="/", check=False).returncode == 0


@cache
def _copy() -> Path:
    folder = Path(tempfile.mkdtemp(dir="/var/tmp", prefix="harness-readable-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for part in _PARTS:
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
    _open_to_all(folder)
    return folder


def _open_to_all(folder: Path) -> None:
    """Whatever the umask is under which it was cloned."""
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
