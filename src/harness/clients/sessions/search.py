"""Search over all sessions of this machine: those that Harness has recorded, and those that agents have stored."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Collection, Iterator
from hashlib import sha1, sha256
from itertools import islice
from typing import Any, NamedTuple

from harness.clients.sessions.filters import SessionChoice, is_meant
from harness.clients.sessions.histories import (
    HistorySessions,
    RecordedSessions,
    as_filter,
    history_of,
)
from harness.clients.sessions.named_logs import find_named
from harness.contracts.reading import commits_in, makes_commit
from harness.events import Event, Message, Signal, ToolStart
from harness.events.operation import Command, Read, Write
from harness.folds.changes.edits import Edit
from harness.folds.changes.fold import EditFinder
from harness.folds.changes.texts import ABSENT, Text, applied
from harness.formatting.columns import cut
from harness.formatting.escapes import single_line
from harness.histories.catalogue_filter import SessionFilter
from harness.histories.catalogue_rows import CataloguedSession
from harness.histories.catalogue_search import FoundPassage, FoundSession, SessionSearch, shortened
from harness.histories.stored_log import StoredLog
from harness.log.private_files import open_private
from harness.log.query import age, grep_events
from harness.log.store import Metadata, Query
from harness.log.stores.files import FileStore
from harness.workspace.git_calls import GitCalls, GitFailed

# Which session may have made a commit, where none has reported it: by what it wrote, and when.
#
# `sure` is a session whose own `git commit` reported the hash. It is `likely` if a session wrote a file with exactly the
# content that the commit has, or if its edits make that content of the one before, and a `guess` if it only wrote one of its files shortly before. A commit of a bot is never
# guessed: the sessions of the day would all fit.


_HASH = re.compile(r"[0-9a-f]{4,64}")
_BOT = re.compile(r"\[bot\]|\bbot\b|noreply@(?!anthropic)|dependabot|renovate", re.IGNORECASE)
_BEFORE_MS = 86_400_000
"""A session that ended longer before the commit than this did not lead to it."""
_SECOND_MS = 1_000
"""Git has whole seconds."""
_MOST_FILES = 20
_CONTENTS = ("content", "file_text", "contents")
_NO_BLOB = "0" * 40
_BLOB_BEFORE, _BLOB = 2, 3
_FIELDS = 5
"""Of a line of `diff-tree`: two modes, two hashes of contents, and what was done."""


class GitCommit(NamedTuple):
    root: str
    at_ms: int
    author: str
    blobs: dict[str, str]
    """Path → hash of its content after the commit."""
    before: dict[str, str]
    """Path → hash of its content before it, where there was one."""


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
    blobs, before = dict[str, str](), dict[str, str]()
    for line in tree.decode("utf-8", "replace").split("\0:"):
        about, _, path = line.rstrip("\0").partition("\0")
        fields = about.lstrip(":").split()
        for paths, field in ((blobs, _BLOB), (before, _BLOB_BEFORE)):
            if len(fields) >= _FIELDS and not fields[field].startswith(_NO_BLOB):
                paths[path] = fields[field]
    return GitCommit(root, int(seconds) * 1000, author, blobs, before) if seconds.isdecimal() else None


def likely_sessions(
    commit: GitCommit, histories: HistorySessions, choice: SessionFilter
) -> Iterator[LikelySession]:
    """Those that are likely first."""
    sessions: dict[int, CataloguedSession] = {}
    wrote: dict[int, FoundPassage] = {}
    for path in [*commit.blobs][:_MOST_FILES]:
        for hit in histories.search(SessionSearch(file=path), choice):
            session = hit.session
            is_near = session.started_ms < commit.at_ms + _SECOND_MS <= session.ended_ms + _BEFORE_MS
            is_inside = session.cwd == commit.root or session.cwd.startswith(commit.root.rstrip("/") + "/")
            if hit.passage.how == "wrote" and is_near and is_inside:
                sessions[session.number], wrote[session.number] = session, hit.passage
    likely = {number for number, session in sessions.items() if _wrote_content(session, commit)}
    for number in sorted(sessions, key=lambda number: (number not in likely, -sessions[number].changed_ms)):
        if number in likely:
            yield LikelySession(sessions[number], wrote[number], "likely")
        elif _BOT.search(commit.author) is None:
            yield LikelySession(sessions[number], wrote[number], "guess")


def _wrote_content(session: CataloguedSession, commit: GitCommit) -> bool:
    log = StoredLog(history_of(session), session.stored, redact=False)
    blobs = {*commit.blobs.values()}
    texts = _contents(log.events(), _EditedTexts(commit, session.cwd))
    return any(_blob_of(text, len(next(iter(blobs), ""))) in blobs for text in texts)


def _contents(events: Iterator[Event], edited: _EditedTexts) -> Iterator[str]:
    """The contents of files that were written whole, and what edits made of those that were there."""
    finder = EditFinder()
    for event in events:
        if isinstance(event, ToolStart) and isinstance(event.input, dict):
            for name in _CONTENTS:
                if isinstance(text := event.input.get(name), str):
                    yield text
        for edit in finder.feed(event):
            if isinstance(after := edited.after(edit), str):
                yield after


class _EditedTexts:
    """The files that a commit changed, from their texts before it on."""

    def __init__(self, commit: GitCommit, cwd: str) -> None:
        self._commit = commit
        self._cwd = cwd
        self._git = GitCalls(commit.root)
        self._texts: dict[str, Text] = {}

    def after(self, edit: Edit) -> Text:
        """None where it cannot be known, or the commit does not have the file."""
        path = os.path.relpath(os.path.join(self._cwd, edit.path), self._commit.root)
        if path not in self._commit.blobs:
            return None
        if path not in self._texts:
            self._texts[path] = self._before(path)
        text = applied(self._texts[path], edit)
        if text is not None:
            self._texts[path] = text
        return text

    def _before(self, path: str) -> Text:
        blob = self._commit.before.get(path)
        if blob is None:
            return ABSENT
        try:
            return self._git.ask("cat-file", "blob", blob).decode("utf-8", "replace")
        except GitFailed:
            return None


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


_LONGEST_TITLE = 70
_COMMIT = "commit"
"""What a command contains that makes one."""


class Hit(NamedTuple):
    session_id: str
    agent: str
    project: str
    title: str
    passage: FoundPassage
    path: str
    is_ours: bool
    certainty: str = ""
    """For a commit: `sure`, `likely`, or `guess`."""

    @property
    def resume(self) -> str:
        return f"harness resume {self.session_id}"

    def as_data(self) -> dict[str, Any]:
        return {
            "id": self.session_id,
            "agent": self.agent,
            "project": self.project,
            "title": self.title,
            "at_ms": self.passage.at_ms,
            "passage": self.passage.text,
            "how": self.passage.how or None,
            "certainty": self.certainty or None,
            "resume": self.resume,
            "path": self.path,
            "is_ours": self.is_ours,
        }


def find_hits(
    search: SessionSearch,
    choice: SessionChoice,
    store: FileStore,
    histories: HistorySessions | None,
    most: int | None,
) -> list[Hit]:
    """The newest first. Of other programs' sessions, those that were read."""
    ours = list(islice(_ours(search, choice, store), most))
    if histories is None:
        return ours
    our_sessions = RecordedSessions.of(find_named(store))
    logs = {hit.session_id for hit in ours}
    hits = [*ours, *their_hits(search, choice, our_sessions, logs, histories, most)]
    if not hits and search == SessionSearch(commit=search.commit):
        return list(islice(_likely(search.commit, choice.project, histories, as_filter(choice)), most))
    return sorted(hits, key=lambda hit: -hit.passage.at_ms)[:most]


def their_hits(
    search: SessionSearch,
    choice: SessionChoice,
    ours: RecordedSessions,
    logs: Collection[str],
    histories: HistorySessions,
    most: int | None,
) -> list[Hit]:
    """Sessions that their agents have stored, the last changed first, without those that were found in one of the
    `logs` of `ours`: what was said without Harness is found here too.
    """
    hits = (
        _as_hit(match)
        for match in histories.search(search, as_filter(choice))
        if ours.logs_of(match.session).isdisjoint(logs)
    )
    return list(islice(hits, most))


def _likely(commit: str, project: str, histories: HistorySessions, choice: SessionFilter) -> Iterator[Hit]:
    """Sessions that may have made a commit of the repository here, or of the project."""
    commit_found = read_commit(commit, os.path.expanduser(project) or os.getcwd())
    for session, passage, certainty in (
        likely_sessions(commit_found, histories, choice) if commit_found is not None else ()
    ):
        yield _as_hit(FoundSession(session, passage))._replace(certainty=certainty)


def as_text(hits: list[Hit]) -> str:
    return "\n".join(map(_block, hits))


def _block(hit: Hit) -> str:
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(hit.passage.at_ms / 1000))
    title = cut(single_line(hit.title[:1000]), _LONGEST_TITLE)
    lines = [f"{when}  {single_line(hit.agent)}  {single_line(hit.project)}  {title}".rstrip()]
    what = " ".join(filter(None, (hit.certainty, hit.passage.how)))
    passage = single_line(hit.passage.text)
    if passage or what:
        lines.append("  " + ": ".join(filter(None, (what, passage))))
    return "\n".join([*lines, f"  {hit.resume}", ""])


def _as_hit(match: FoundSession) -> Hit:
    session = match.session
    return Hit(
        session_id=session.session_id,
        agent=session.agent,
        project=session.cwd,
        title=session.title or session.prompt,
        passage=match.passage,
        path=session.path,
        is_ours=False,
        certainty="sure" if match.passage.how == "committed" else "",
    )


def _ours(search: SessionSearch, choice: SessionChoice, store: FileStore) -> Iterator[Hit]:
    """The last changed first."""
    pattern = search.file or search.command or (_COMMIT if search.commit else "")
    those = store.logs_with(pattern) if pattern else None
    for metadata in store.find(Query(text=" ".join(search.parts))) if those is None or those else ():
        if (those is not None and metadata.session_id not in those) or not is_meant(metadata, choice):
            continue
        path = store.path(metadata.session_id)
        work = _done(path, search)
        passage = _message(path, search.parts, metadata) if work is not None and search.parts else work
        if work is None or passage is None:
            continue
        yield Hit(
            session_id=metadata.session_id,
            agent=metadata.agent_name or metadata.agent,
            project=metadata.cwd,
            title=metadata.name or metadata.prompt,
            passage=passage._replace(how=work.how),
            path=path,
            is_ours=True,
            certainty="sure" if work.how == "committed" else "",
        )


def _message(path: str, parts: tuple[str, ...], metadata: Metadata) -> FoundPassage | None:
    best, most = FoundPassage(age(metadata)[0], ""), 0
    for event in _events(path, ("Message", "Signal")):
        text = event.text if isinstance(event, Message) else ""
        if isinstance(event, Signal) and isinstance(event.contents, str):
            text = event.contents
        folded = text.casefold()
        own = [part for part in parts if part in folded]
        if len(own) > most:
            best, most = FoundPassage(event.timestamp_ms, shortened(text, own[0])), len(own)
    is_exact = any(" " in part for part in parts)
    return best if most or not is_exact else None


def _done(path: str, search: SessionSearch) -> FoundPassage | None:
    """What it did with the file, the command and the commit; None if it did not."""
    passage = FoundPassage(0, "")
    if not (search.file or search.command or search.commit):
        return passage
    if search.file or search.command:
        pattern = search.file or search.command
        if not _contains(path, pattern):
            return None
        matching_event = next(
            (
                matching_event
                for event in _events(path, ("ToolStart",))
                if isinstance(event, ToolStart) and (matching_event := _operated(event, search)) is not None
            ),
            None,
        )
        if matching_event is None:
            return None
        passage = matching_event
    return _committed(path, search.commit) if search.commit else passage


def _operated(event: ToolStart, search: SessionSearch) -> FoundPassage | None:
    for operation in event.operations:
        match operation:
            case Write(path=path) | Read(path=path) if search.file and search.file in path:
                how = "wrote" if isinstance(operation, Write) else "read"
                return FoundPassage(event.timestamp_ms, path, how)
            case Command(command=command) if search.command and search.command in command:
                return FoundPassage(event.timestamp_ms, shortened(command, search.command.casefold()), "ran")
            case Command(command=command) if search.file and search.file in command:
                text = shortened(command, search.file.casefold())
                return FoundPassage(event.timestamp_ms, text, "named in a command")
            case _:
                pass
    return None


def _committed(path: str, commit: str) -> FoundPassage | None:
    if not _contains(path, commit[:7]):
        return None
    calls: set[str] = set()
    for event in _events(path, ("ToolStart", "ToolEnd")):
        if isinstance(event, ToolStart):
            commands = [operation.command for operation in event.operations if isinstance(operation, Command)]
            if any(map(makes_commit, commands)):
                calls.add(event.call_id)
        elif getattr(event, "call_id", None) in calls:
            for commit_made in commits_in(getattr(event, "output", "") or ""):
                if commit_made.startswith(commit) or commit.startswith(commit_made):
                    return FoundPassage(event.timestamp_ms, commit_made, "committed")
    return None


def _contains(path: str, text: str) -> bool:
    """Whether a log may say this anywhere: before any line of it is decoded."""
    needle = json.dumps(text, ensure_ascii=False)[1:-1].encode("utf-8", "surrogatepass")
    try:
        with os.fdopen(open_private(path, os.O_RDONLY), "rb") as file:
            tail = b""
            while block := file.read(1 << 20):
                if needle in tail + block:
                    return True
                tail = block[-len(needle) :]
    except OSError:
        pass
    return False


def _events(path: str, kinds: tuple[str, ...]) -> Iterator[Event]:
    try:
        with os.fdopen(open_private(path, os.O_RDONLY), "rb", buffering=0) as file:
            yield from grep_events(file, kinds)
    except OSError:
        return
