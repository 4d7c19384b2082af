"""Which session may have made a commit, where none has said so: by what it wrote, and when.

`sure` is a session whose own `git commit` reported the hash. It is `likely` if a session wrote a file with exactly the
content that the commit has, and a `guess` if it only wrote one of its files shortly before. A commit of a bot is never
guessed: the sessions of the day would all fit.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from hashlib import sha1, sha256
from typing import NamedTuple

from harness.events import Event, ToolStart
from harness.interfaces.cli.history_sessions import HistorySessions, history_of
from harness.sources.imports.catalogue import CataloguedSession
from harness.sources.imports.catalogue_filter import SessionFilter
from harness.sources.imports.catalogue_search import FoundPassage, SessionSearch
from harness.sources.imports.stored_log import StoredLog
from harness.sources.workspace.git_calls import GitCalls, GitFailed

_HASH = re.compile(r"[0-9a-f]{4,64}")
_BOT = re.compile(r"\[bot\]|\bbot\b|noreply@(?!anthropic)|dependabot|renovate", re.IGNORECASE)
_BEFORE_MS = 86_400_000
"""A session that ended longer before the commit than this did not lead to it."""
_MOST_FILES = 20
_CONTENTS = ("content", "file_text", "contents")
_DELETED = "0" * 40
_BLOB = 3
_FIELDS = 5
"""Of a line of `diff-tree`: two modes, two hashes of contents, and what was done."""


class GitCommit(NamedTuple):
    root: str
    at_ms: int
    author: str
    blobs: dict[str, str]
    """Path → hash of its content after the commit."""


class LikelySession(NamedTuple):
    session: CataloguedSession
    passage: FoundPassage
    certainty: str
    """`likely` or `guess`."""


def read_commit(commit: str, directory: str) -> GitCommit | None:
    """None if the directory is in no repository that has it."""
    if _HASH.fullmatch(commit) is None:
        return None
    root = _repository(directory)
    if not root:
        return None
    git = GitCalls(root)
    try:
        head = git.ask("show", "--no-patch", "--format=%ct%n%an <%ae>", f"{commit}^{{commit}}")
        tree = git.ask("diff-tree", "-r", "-z", "--root", "--no-commit-id", commit)
    except GitFailed:
        return None
    seconds, _, author = head.decode("utf-8", "replace").partition("\n")
    blobs: dict[str, str] = {}
    for line in tree.decode("utf-8", "replace").split("\0:"):
        about, _, path = line.rstrip("\0").partition("\0")
        fields = about.lstrip(":").split()
        if len(fields) >= _FIELDS and not fields[_BLOB].startswith(_DELETED):
            blobs[path] = fields[_BLOB]
    return GitCommit(root, int(seconds) * 1000, author, blobs) if seconds.isdecimal() else None


def likely_sessions(
    commit: GitCommit, histories: HistorySessions, chosen: SessionFilter
) -> Iterator[LikelySession]:
    """Those that are likely first."""
    found: dict[int, CataloguedSession] = {}
    wrote: dict[int, FoundPassage] = {}
    for path in [*commit.blobs][:_MOST_FILES]:
        for hit in histories.search(SessionSearch(file=path), chosen):
            session = hit.session
            is_near = session.started_ms <= commit.at_ms <= session.ended_ms + _BEFORE_MS
            if hit.passage.how == "wrote" and is_near and session.cwd.startswith(commit.root):
                found[session.number], wrote[session.number] = session, hit.passage
    likely = {number for number, session in found.items() if _wrote_content(session, commit)}
    for number in sorted(found, key=lambda number: (number not in likely, -found[number].changed_ms)):
        if number in likely:
            yield LikelySession(found[number], wrote[number], "likely")
        elif _BOT.search(commit.author) is None:
            yield LikelySession(found[number], wrote[number], "guess")


def _wrote_content(session: CataloguedSession, commit: GitCommit) -> bool:
    log = StoredLog(history_of(session), session.stored, redact=False)
    blobs = {*commit.blobs.values()}
    return any(_blob_of(text, len(next(iter(blobs), ""))) in blobs for text in _contents(log.events()))


def _contents(events: Iterator[Event]) -> Iterator[str]:
    """The contents of files that were written whole."""
    for event in events:
        if isinstance(event, ToolStart) and isinstance(event.input, dict):
            for name in _CONTENTS:
                if isinstance(text := event.input.get(name), str):
                    yield text


def _blob_of(text: str, digits: int) -> str:
    """As git names a content; repositories have hashes of 40 or of 64 digits."""
    data = text.encode("utf-8", "surrogatepass")
    hashed = sha256 if digits == 64 else sha1
    return hashed(b"blob %d\0" % len(data) + data).hexdigest()


def _repository(directory: str) -> str:
    """The folder of the repository that a directory is in; empty if it is in none."""
    folder = os.path.abspath(directory)
    while not os.path.lexists(os.path.join(folder, ".git")):
        above = os.path.dirname(folder)
        if above == folder:
            return ""
        folder = above
    return folder
