"""Carry out a plan of an undo: below the workspace, through no link, and only where a path is as it was shown.

Folders are opened one by one from the workspace's own descriptor. A file is written beside its place and renamed over it.
Killed in the middle, the same undo finishes what is left: what is done already is no longer part of its plan.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from secrets import token_hex
from typing import TypeAlias

from harness.undo.plan import Step, UndoPlan
from harness.undo.states import ABSENT, PathState, state_at
from harness.undo.store import UndoStore

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW
_JUST_NOW = "changed just now"

_WORDS = {
    errno.ELOOP: "a folder above it is a link now",
    errno.ENOTDIR: "a folder above it is none now",
    errno.ENOTEMPTY: "there are other files in the folder now",
}
_Act: TypeAlias = Callable[[int, str, Step], None]


def carry_out(store: UndoStore, plan: UndoPlan) -> dict[str, str]:
    """What could not be done: path → why."""
    writer = _Writer(store, plan)
    writer.announce()
    shallow_first = sorted(plan.steps, key=lambda step: step.path.count("/"))
    for step in reversed(shallow_first):
        if step.now != ABSENT and step.now.kind != step.target.kind:
            writer.do(step, _remove)
    for step in shallow_first:
        if step.target != ABSENT:
            writer.do(step, writer.put)
    for step in reversed(
        shallow_first
    ):  # last, since nothing could be put into a folder that is not writable
        if step.target.kind == "d":
            writer.do(step, _set_mode)
    store.forget_temporary()
    return writer.failed


def clean_up(store: UndoStore) -> None:
    """Remove what an undo that was killed has left beside the files that it wrote."""
    for path in store.temporary():
        with suppress(OSError), _parent(store.root, path) as (folder, name):
            os.unlink(name, dir_fd=folder)
    store.forget_temporary()


class _Writer:
    def __init__(self, store: UndoStore, plan: UndoPlan) -> None:
        self._store = store
        self._plan = plan
        self._temporary = f".undo-{token_hex(8)}"
        self.failed: dict[str, str] = {}

    def announce(self) -> None:
        paths = (step.path for step in self._plan.steps if step.target.kind in ("f", "l"))
        folders = {path.rpartition("/")[0] for path in paths}
        self._store.note_temporary(f"{folder}/{self._temporary}".lstrip("/") for folder in folders)

    def do(self, step: Step, act: _Act) -> None:
        if step.path in self.failed:
            return
        try:
            with _parent(self._store.root, step.path) as (folder, name):
                act(folder, name, step)
        except OSError as error:
            words = _WORDS.get(error.errno or 0)
            self.failed[step.path] = words or error.strerror or str(error)

    def put(self, folder: int, name: str, step: Step) -> None:
        _put(folder, name, step, self._content(step.target), self._temporary)

    def _content(self, target: PathState) -> bytes:
        if target.kind not in ("f", "l"):
            return b""
        own = self._plan.contents.get(target.digest)
        return self._store.content(target.digest) if own is None else own


@contextmanager
def _parent(root: str, path: str) -> Iterator[tuple[int, str]]:
    """A descriptor of the folder that a path is in, and its name there."""
    *folders, name = path.split("/")
    handle = os.open(root, _FOLDER)
    try:
        for folder in folders:
            inner = os.open(folder, _FOLDER, dir_fd=handle)
            os.close(handle)
            handle = inner
        yield handle, name
    finally:
        os.close(handle)


def _remove(folder: int, name: str, step: Step) -> None:
    present = state_at(name, folder)
    if present == ABSENT:
        return
    if present.kind == "d" == step.now.kind:
        os.rmdir(name, dir_fd=folder)  # refused by the system unless it is empty
    elif present == step.now:
        os.unlink(name, dir_fd=folder)
    else:
        raise OSError(errno.EBUSY, _JUST_NOW)


def _put(folder: int, name: str, step: Step, data: bytes, temporary: str) -> None:
    target, expected = step.target, step.now if step.now.kind == step.target.kind else ABSENT
    if state_at(name, folder) == target:
        return
    _expect(folder, name, expected)
    if target.kind == "d":
        if expected == ABSENT:
            os.mkdir(name, 0o700, dir_fd=folder)
        _set_mode(folder, name, step._replace(target=target._replace(mode=target.mode | 0o700)))
        return
    try:
        _write(folder, temporary, target, data)
        _expect(folder, name, expected)  # once more, after the time that writing took
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise


def _expect(folder: int, name: str, expected: PathState) -> None:
    if state_at(name, folder) != expected:
        raise OSError(errno.EBUSY, _JUST_NOW)


def _set_mode(folder: int, name: str, step: Step) -> None:
    handle = os.open(name, _FOLDER, dir_fd=folder)
    try:
        os.fchmod(handle, step.target.mode)
    finally:
        os.close(handle)


def _write(folder: int, name: str, target: PathState, data: bytes) -> None:
    if target.kind == "l":
        os.symlink(os.fsdecode(data), name, dir_fd=folder)
        return
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(name, flags, 0o600, dir_fd=folder), "wb") as file:
        file.write(data)
        os.fchmod(file.fileno(), target.mode)
