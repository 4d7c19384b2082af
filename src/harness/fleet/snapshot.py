"""What a workspace is like, at two moments, and the patch between them.

The files are read by us, not by git: whatever lies in the workspace, a repository with filters, a nested one, a link to
somewhere else, nothing of it is run or followed. Git gets their contents, in a repository of ours, and compares them there.
What `.gitignore` names is left out, unless it was there before.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha1
from typing import NamedTuple

from harness.workspace.files import open_folder
from harness.workspace.git_calls import GitCalls, GitFailed, blank_git

_GIT = ".git"
_CONFIG = (
    "[core]\n\trepositoryformatversion = 0\n\tbare = true\n\tcompression = 0\n[pack]\n\tcompression = 0\n"
)
_TIMEOUT_S = 600.0
_LARGEST_FILE_BYTES = 50 << 20
_LARGEST_SNAPSHOT_BYTES = 500 << 20
"""Of contents that are new: what is more is noted, not kept."""
_DIFF = ("--binary", "--full-index", "--no-ext-diff", "--no-textconv", "--no-renames", "--no-color")
_IGNORED = ("--no-literal-pathspecs", "check-ignore", "--no-index", "-z", "--stdin")
_COMMITTER = b"Harness <harness@localhost> 0 +0000"
_LINK, _PROGRAM, _FILE = b"120000", b"100755", b"100644"


class _Entry(NamedTuple):
    mode: bytes
    blob: bytes
    stamp: tuple[int, ...]
    """An unchanged one means that the content is unchanged: the time of the last change cannot be set."""


class Snapshots:
    """Contract: only `base` is written to."""

    def __init__(self, base: str, folder: str) -> None:
        self._base = base
        self._folder = folder
        self._entries: dict[str, _Entry] = {}
        self._stored_digests: set[bytes] = set()
        self._git = GitCalls(base, git_directory=base, timeout_s=_TIMEOUT_S)

    def prepare(self, config: str = _CONFIG, head: str = "refs/heads/none") -> None:
        """Raises OSError."""
        self._folder = os.path.realpath(self._folder)  # links above the workspace are the user's own
        for name in ("refs", "objects"):
            os.makedirs(os.path.join(self._base, name), mode=0o700, exist_ok=True)
        for name, text in (("HEAD", f"ref: {head}\n"), ("config", config)):
            with open(os.path.join(self._base, name), "w", encoding="utf-8") as file:
                file.write(text)

    def take(self, ref: str, tracked: Iterable[str] = (), message: str = "") -> None:
        """Remember how the folder is now, as a commit. `tracked`: files that count even if they are ignored.

        Raises OSError, GitFailed.
        """
        entries: dict[str, _Entry] = {}
        contents: list[bytes] = []
        room = _LARGEST_SNAPSHOT_BYTES
        for path, entry, content in self._read({*tracked, *self._entries}):
            entries[path] = entry
            if content is not None and entry.blob not in self._stored_digests:
                self._stored_digests.add(entry.blob)
                room -= len(content)
                contents += [b"blob\ndata %d\n" % len(content), content, b"\n"]
            if room < 0:
                raise OSError(None, "the workspace is too large to compare", self._folder)
        contents.append(b"commit %s\ncommitter %s\n" % (ref.encode(), _COMMITTER))
        contents.append(b"data %d\n%s\ndeleteall\n" % (len(message.encode()), message.encode()))
        contents += [
            b"M %s %s %s\n" % (entry.mode, entry.blob, _quoted(path))
            for path, entry in sorted(entries.items())
        ]
        self._entries = entries
        self._git.ask("fast-import", "--quiet", "--force", stdin=b"".join(contents))

    def patch(self, before: str, after: str) -> bytes:
        """Raises GitFailed."""
        return self._git.ask("diff-tree", "-r", "-p", *_DIFF, before, after)

    def _read(self, always: set[str]) -> Iterator[tuple[str, _Entry, bytes | None]]:
        """Path, entry, and the content unless it is known."""
        entries_seen = set()
        for path in self._listed():
            entries_seen.add(path)
            yield from self._entry(path)
        for path in sorted(always - entries_seen):
            yield from self._entry(path)

    def _listed(self) -> Iterator[str]:
        """Files that are not ignored, one level of folders after the other: `check-ignore` is asked once for each."""
        folders = [""]
        while folders:
            names: dict[str, bool] = {}
            for folder in folders:
                names.update(self._listed_in(folder))
            ignored = self._ignored(names)
            folders = [path for path, is_folder in names.items() if is_folder and path not in ignored]
            yield from (path for path, is_folder in names.items() if not is_folder and path not in ignored)

    def _listed_in(self, folder: str) -> Iterator[tuple[str, bool]]:
        try:
            with open_folder(os.path.join(self._folder, folder)) as place:
                entries = _folder_entries(place)
        except OSError:  # it is gone, became a link, or may not be read
            return
        for name, is_folder in entries:
            if name != _GIT:
                yield os.path.join(folder, name), is_folder

    def _ignored(self, paths: Mapping[str, bool]) -> set[str]:
        if not paths:
            return set()
        names = b"".join(
            b"./" + os.fsencode(path) + (b"/\0" if is_folder else b"\0") for path, is_folder in paths.items()
        )
        with blank_git(self._folder, timeout_s=_TIMEOUT_S) as git:
            try:
                answer = git.ask(*_IGNORED, stdin=names)
            except GitFailed:  # so it says that none is
                return set()
        return {os.fsdecode(name)[2:].rstrip("/") for name in answer.split(b"\0") if name}

    def _entry(self, path: str) -> Iterator[tuple[str, _Entry, bytes | None]]:
        folder, name = os.path.split(path)
        if _GIT in path.split("/"):
            return
        try:
            with open_folder(os.path.join(self._folder, folder)) as parent:
                status = os.lstat(name, dir_fd=parent)
                stamp = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
                known_entry = self._entries.get(path)
                if known_entry is not None and known_entry.stamp == (*stamp, status.st_mode):
                    yield path, known_entry, None
                    return
                content = _content(name, status, parent)
        except OSError:
            return
        if content is not None:
            mode = _LINK if stat.S_ISLNK(status.st_mode) else _PROGRAM if status.st_mode & 0o100 else _FILE
            blob = sha1(b"blob %d\0%s" % (len(content), content), usedforsecurity=False).hexdigest().encode()
            yield path, _Entry(mode, blob, (*stamp, status.st_mode)), content


def _folder_entries(folder: int) -> list[tuple[str, bool]]:
    """Names, and whether each is a folder. Raises OSError."""
    descriptor = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    try:
        with os.scandir(descriptor) as entries:
            return [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    finally:
        os.close(descriptor)


def _content(name: str, status: os.stat_result, parent: int) -> bytes | None:
    """None for what is neither a file nor a link. Raises OSError."""
    if stat.S_ISLNK(status.st_mode):
        return os.fsencode(os.readlink(name, dir_fd=parent))
    if not stat.S_ISREG(status.st_mode):
        return None
    if status.st_size > _LARGEST_FILE_BYTES:
        return b"%d bytes, which are not kept\n" % status.st_size
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=parent)
    with open(descriptor, "rb") as file:
        return file.read(_LARGEST_FILE_BYTES)


def _quoted(path: str) -> bytes:
    """As `fast-import` reads it."""
    data = os.fsencode(path)
    return b'"%s"' % data.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n")
