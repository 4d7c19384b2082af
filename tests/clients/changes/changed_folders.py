"""Folders with files, logs that changed them, and repositories made with the real git."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.clients.changes.review import Review
from harness.events import Event, Message, Result, SessionStart, ToolEnd, ToolStart
from harness.events.operation import Write
from harness.folds.changes.fold import ChangeHistory

GIT_ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "A",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "A",
    "GIT_COMMITTER_EMAIL": "a@example.org",
}


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=folder, env=GIT_ENVIRONMENT, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def repository(folder: Path, files: dict[str, str]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q", "-b", "main")
    git(folder, "config", "user.name", "A")
    git(folder, "config", "user.email", "a@example.org")
    write(folder, files)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "first")
    return folder


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())


class ChangingAgent:
    """Changes files as an agent does, and writes the log of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.history = ChangeHistory()
        self._seq = 0
        self._calls = 0
        self._run = ""
        self._now_ms = 1_000_000_000_000

    def turn(self, name: str) -> None:
        if self._run:
            self._feed(Result(success=True))
        self._run = name
        self._feed(SessionStart(agent="otter", cwd=str(self.folder)))
        self._feed(Message(role="user", text=f"please do {name}"))

    def write(self, name: str, text: str) -> None:
        is_new = not (self.folder / name).exists()
        write(self.folder, {name: text})
        self._call(name, {"path": name, "content": text}, "create" if is_new else "update")

    def edit(self, name: str, old: str, new: str) -> None:
        path = self.folder / name
        before = path.read_bytes().decode()
        assert before.count(old) == 1
        path.write_bytes(before.replace(old, new).encode())
        self._call(name, {"path": name, "old_string": old, "new_string": new}, "update")

    def delete(self, name: str) -> None:
        (self.folder / name).unlink()
        self._call(name, {"path": name}, "delete")

    def move(self, name: str, to: str, patch: str = "") -> None:
        """`patch`: the lines of a hunk that changes it as well; the file is then as the caller makes it."""
        (self.folder / to).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / name).rename(self.folder / to)
        text = f"*** Begin Patch\n*** Update File: {name}\n*** Move to: {to}\n{patch}*** End Patch\n"
        self._calls += 1
        call: dict[str, Any] = {"call_id": f"c{self._calls}", "tool_name": "apply_patch"}
        writes = [
            Write(path=str(self.folder / name), change="move"),
            Write(path=str(self.folder / to), change="create"),
        ]
        self._feed(ToolStart(**call, input={"patch": text}, operations=writes))
        self._feed(ToolEnd(**call, success=True, output="done"))

    def only_says(self, name: str, change: str = "") -> None:
        """A log without texts, as of a program that writes files."""
        self._call(name, {"command": f"make {name}"}, change)

    def review(self) -> Review:
        return Review(self.history)

    def _call(self, name: str, asked: Any, change: str) -> None:
        self._calls += 1
        path = str(self.folder / name)
        call: dict[str, Any] = {"call_id": f"c{self._calls}", "tool_name": "write"}
        self._feed(ToolStart(**call, input=asked, operations=[Write(path=path, change=change)]))
        if os.path.exists(path):  # the clocks of the log and of the files agree
            self._now_ms = os.stat(path).st_mtime_ns // 1_000_000
        self._feed(ToolEnd(**call, success=True, output="done"))

    def _feed(self, event: Event) -> None:
        stamped = type(event)(
            **{
                name: getattr(event, name)
                for name in event.__struct_fields__
                if name not in ("seq", "run_id", "timestamp_ms")
            },
            seq=self._seq,
            run_id=self._run,
            timestamp_ms=self._now_ms,
        )
        self._seq += 1
        self.history.feed(stamped)


def later(path: Path, seconds: int = 60) -> None:
    """As if it was written later."""
    status = path.stat()
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + seconds * 1_000_000_000))


def summaries(review: Review, scope: str = "conversation") -> Sequence[tuple[str, str, int, int]]:
    return [(file.path, file.change, file.added, file.removed) for file in review.listing(scope).files]
