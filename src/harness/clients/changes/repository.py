"""The git repository of a folder: what is not committed, what differs from the base, and a commit of chosen files.

The files of the working tree are compared by Harness; see `git_calls` for why. Names are bytes that are decoded as
file names are, and relative to the top of the repository.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from hashlib import sha1, sha256
from typing import NamedTuple

from harness.clients.changes.run_folder import RunFolder
from harness.errors import UsageError
from harness.workspace.git_calls import GitCalls, GitFailed
from harness.workspace.git_directories import GIT, is_repository

_BASES = ("refs/remotes/origin/HEAD", "refs/heads/main", "refs/heads/master", "refs/remotes/origin/main")
_STAT = re.compile(
    rb"  ctime: \d+:\d+\n  mtime: (\d+):(\d+)\n[^\n]*\n[^\n]*\n  size: (\d+)\tflags: [0-9a-f]+\n"
)
_COMMITTER = re.compile(r"^committer .*> (\d+) [+-]\d+$", re.MULTILINE)
_REGULAR = ("100644", "100755")
_MOST_CHANGED = 2_000


class Stale(UsageError):
    """The files or the branch have changed since they were shown."""


class CommittedFile(NamedTuple):
    """A file in a commit or in the index."""

    mode: str
    blob: str


class IndexEntry(NamedTuple):
    mode: str
    blob: str
    modified: tuple[int, int]
    """Seconds and nanoseconds."""
    size: int


def find_repository(folder: str) -> Repository | None:
    """The repository that a folder is in; None if there is none."""
    place = os.path.realpath(folder)
    while True:
        inside = os.path.join(place, GIT)
        if is_repository(inside) or os.path.isfile(inside):  # a file leads to the repository of a worktree
            return Repository(place)
        parent = os.path.dirname(place)
        if parent == place:
            return None
        place = parent


class Repository:
    """Contract: raises GitFailed where git refuses; nothing of the working tree is changed."""

    def __init__(self, top: str) -> None:
        self.top = top
        self._calls = GitCalls(top)

    def head(self) -> str:
        """The id of the last commit; empty before the first."""
        try:
            return self._text("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
        except GitFailed:
            self._text("rev-parse", "--git-dir")  # raises if it is no repository at all
            return ""

    def branch(self) -> str:
        try:
            return self._text("symbolic-ref", "--quiet", "--short", "HEAD")
        except GitFailed:
            return ""

    def base(self) -> tuple[str, str]:
        """The name of what the branch began with, and the commit in which it did; both empty if there is none."""
        head, branch = self.head(), self.branch()
        names = ["HEAD@{upstream}", *_BASES] if branch in ("main", "master") else [*_BASES, "HEAD@{upstream}"]
        for name in names if head else ():
            with suppress(GitFailed):
                branch_name = self._text("rev-parse", "--abbrev-ref", name)
                if branch_name and branch_name != branch:
                    return branch_name, self._text("merge-base", "HEAD", name)
        return "", ""

    def changed(self, commit: str) -> dict[str, CommittedFile | None]:
        """Files that differ from a commit (empty: from nothing), and how they are in it; None: not there."""
        index = self._index()
        files: dict[str, CommittedFile | None] = {}
        if commit:
            listing = self._calls.ask("diff-index", "--cached", "-r", "-z", "--no-renames", commit)
            files |= dict(_raw_entries(listing))
        else:
            files |= dict.fromkeys(index)
        for name in self._modified(index):
            files.setdefault(name, CommittedFile(index[name].mode, index[name].blob) if commit else None)
        others = self._calls.ask("ls-files", "-z", "--others", "--exclude-standard")
        files |= {name: None for name in _names(others) if name not in files}
        return dict([*files.items()][:_MOST_CHANGED])

    def head_time_s(self) -> int:
        """When the last commit was made; 0 before the first."""
        text = self._text("cat-file", "commit", head) if (head := self.head()) else ""
        match = _COMMITTER.search(text)
        return int(match[1]) if match is not None else 0

    def differing(self, names: Iterable[str]) -> list[str]:
        """Those of these files that are not as in the last commit."""
        paths = list(names)
        committed, folder = self._entries(self.head(), paths), RunFolder(self.top)
        return [name for name in paths if not _is_as(committed.get(name), folder, name)]

    def blobs(self, commit: str, names: Iterable[str]) -> dict[str, bytes]:
        """The content of files in a commit; those that it has not, or that are no files, are left out."""
        paths = [name for name in names if "\n" not in name]
        if not commit or not paths:
            return {}
        queries = b"".join(os.fsencode(f"{commit}:{name}\n") for name in paths)
        answer = self._calls.ask("cat-file", "--batch", stdin=queries)
        contents: dict[str, bytes] = {}
        at = 0
        for name in paths:
            end = answer.index(b"\n", at)
            words = answer[at:end].split(b" ")
            at = end + 1
            if words[-1] == b"missing" or len(words) < 3 or not words[-1].isdigit():
                continue
            size = int(words[-1])
            if words[-2] == b"blob":
                contents[name] = answer[at : at + size]
            at += size + 1
        return contents

    def has_hooks(self) -> bool:
        """Whether a commit made with git would run some."""
        with suppress(OSError, GitFailed):
            place = os.path.join(self.top, self._text("rev-parse", "--git-common-dir"))
            names = os.listdir(os.path.join(place, "hooks"))
            return any(name in ("pre-commit", "commit-msg", "prepare-commit-msg") for name in names)
        return False

    def commit(self, contents: Mapping[str, bytes | None], message: str, expect_head: str) -> str:
        """Commit these files with these contents (None: removed) and nothing else; the id of the commit.

        What the user has staged stays staged. No hook runs, and nothing is signed.
        """
        head = self.head()
        if head != expect_head:
            raise Stale("the branch has another last commit than the one shown", hint="look again")
        self._refuse_filters(contents)
        before = self._entries(head, contents)
        records = self._records(contents, before)
        with tempfile.TemporaryDirectory(prefix="harness-index-") as folder:
            index = os.path.join(folder, "index")
            self._calls.ask("read-tree", *([head] if head else ["--empty"]), index=index)
            self._calls.ask(
                "update-index", "-z", "--index-info", stdin=b"".join(records.values()), index=index
            )
            tree = self._text("write-tree", index=index)
        if head and tree == self._text("rev-parse", f"{head}^{{tree}}"):
            raise UsageError("there is nothing to commit: the files are as in the last commit")
        parents = ("-p", head) if head else ()
        commit_id = self._text("commit-tree", tree, *parents, stdin=message.encode("utf-8", "replace"))
        staged = self._staged(head, contents)
        self._calls.ask(
            "update-ref", "-m", f"commit: {message[:60]}", "HEAD", commit_id, head or "0" * len(commit_id)
        )
        rest = b"".join(record for name, record in records.items() if name not in staged)
        if rest:
            self._calls.ask("update-index", "-z", "--index-info", stdin=rest)
        return commit_id

    def _records(
        self, contents: Mapping[str, bytes | None], before: Mapping[str, CommittedFile]
    ) -> dict[str, bytes]:
        """What `update-index` reads, for each file."""
        records: dict[str, bytes] = {}
        for name, data in contents.items():
            old = before.get(name)
            if data is None:
                records[name] = os.fsencode(f"0 {'0' * 40}\t{name}\0")
                continue
            has_line_feeds = old is not None and b"\r\n" in data and b"\r\n" not in self._blob(old.blob)
            content = data.replace(b"\r\n", b"\n") if has_line_feeds else data  # as git does by its settings
            blob = self._text("hash-object", "-w", "--no-filters", "--stdin", stdin=content)
            records[name] = os.fsencode(f"{self._mode(name, old)} {blob}\t{name}\0")
        return records

    def _blob(self, blob: str) -> bytes:
        return self._calls.ask("cat-file", "blob", blob)

    def _mode(self, name: str, old: CommittedFile | None) -> str:
        with suppress(OSError):
            return "100755" if os.lstat(os.path.join(self.top, name)).st_mode & 0o100 else "100644"
        return old.mode if old is not None and old.mode in _REGULAR else "100644"

    def _refuse_filters(self, names: Iterable[str]) -> None:
        """A file that git would filter (as Git LFS does) is not what is to be committed."""
        queries = b"".join(os.fsencode(f"{name}\0") for name in names)
        answer = self._calls.ask("check-attr", "-z", "--stdin", "filter", stdin=queries).split(b"\0")
        for name, _attribute, value in zip(answer[::3], answer[1::3], answer[2::3], strict=False):
            if value not in (b"unspecified", b"unset"):
                raise UsageError(
                    f"{os.fsdecode(name)} goes through the filter {value.decode('utf-8', 'replace')!r} of git",
                    hint="Harness runs no filters of a repository; commit this file with git",
                )

    def _entries(self, commit: str, names: Iterable[str]) -> dict[str, CommittedFile]:
        paths = [*names]
        if not commit or not paths:
            return {}
        listing = self._calls.ask("ls-tree", "-z", commit, "--", *paths).split(b"\0")
        files: dict[str, CommittedFile] = {}
        for line in filter(None, listing):
            head, name = line.split(b"\t", 1)
            mode, _kind, blob = head.decode().split(" ")
            files[os.fsdecode(name)] = CommittedFile(mode, blob)
        return files

    def _staged(self, head: str, names: Iterable[str]) -> set[str]:
        """Those of which the user has staged something."""
        committed, index = self._entries(head, names), self._index()
        return {
            name
            for name in names
            if (name in index or name in committed)
            and (
                name not in index or committed.get(name) != CommittedFile(index[name].mode, index[name].blob)
            )
        }

    def _index(self) -> dict[str, IndexEntry]:
        answer = self._calls.ask("ls-files", "--stage", "-z", "--debug")
        entries: dict[str, IndexEntry] = {}
        at = 0
        while at < len(answer):
            end = answer.index(b"\0", at)
            head, name = answer[at:end].split(b"\t", 1)
            mode, blob, _stage = head.decode().split(" ")
            match = _STAT.match(answer, end + 1)
            if match is None:
                raise GitFailed("git ls-files: its output is not understood")
            modified = int(match[1]), int(match[2])
            entries[os.fsdecode(name)] = IndexEntry(mode, blob, modified, int(match[3]))
            at = match.end()
        return entries

    def _modified(self, index: Mapping[str, IndexEntry]) -> Iterator[str]:
        """Files of the index that are not so in the working tree."""
        folder = RunFolder(self.top)
        for name, entry in index.items():
            if entry.mode not in _REGULAR:
                continue  # links and submodules
            try:
                status = os.lstat(os.path.join(self.top, name))
            except OSError:
                yield name
                continue
            seconds, nanoseconds = divmod(status.st_mtime_ns, 1_000_000_000)
            if (seconds, nanoseconds) == entry.modified and status.st_size & 0xFFFFFFFF == entry.size:
                continue
            if not folder.has(name) or not _is_blob(folder.read(name).data, entry.blob):
                yield name

    def _text(self, *arguments: str, stdin: bytes | None = None, index: str = "") -> str:
        return os.fsdecode(self._calls.ask(*arguments, stdin=stdin, index=index)).strip()


def _is_as(committed: CommittedFile | None, folder: RunFolder, name: str) -> bool:
    """Whether a file of the working tree is as it was committed; None: it was not."""
    if committed is None:
        return not os.path.lexists(os.path.join(folder.root, name))
    return folder.has(name) and _is_blob(folder.read(name).data, committed.blob)


def _is_blob(data: bytes | None, blob: str) -> bool:
    """Whether a content is that of a blob, also if its lines end differently."""
    if data is None:
        return False
    make = sha256 if len(blob) == 64 else sha1
    spellings = (data, data.replace(b"\r\n", b"\n")) if b"\r\n" in data else (data,)
    return any(make(b"blob %d\0" % len(each) + each).hexdigest() == blob for each in spellings)


def _raw_entries(listing: bytes) -> Iterator[tuple[str, CommittedFile | None]]:
    """Name and old side of each line of a raw diff."""
    parts = listing.split(b"\0")
    for head, name in zip(parts[::2], parts[1::2], strict=False):
        mode, _new_mode, blob, _new_blob, letter = head.decode().removeprefix(":").split(" ")
        yield os.fsdecode(name), None if letter == "A" else CommittedFile(mode, blob)


def _names(listing: bytes) -> Iterator[str]:
    return (os.fsdecode(name) for name in listing.split(b"\0") if name)
