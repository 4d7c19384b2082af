"""Search over all sessions of this machine: those that Harness has recorded, and those that agents have stored."""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Container, Iterator
from itertools import islice
from typing import Any, NamedTuple

from harness.errors import UsageError
from harness.events import Event, Message, Signal, ToolStart
from harness.events.operation import Command, Read, Write
from harness.interfaces.cli.console import Console
from harness.interfaces.cli.history_sessions import HistorySessions, as_filter, recorded_names
from harness.interfaces.cli.session_filters import SessionChoice, choice_of, is_meant
from harness.log.private_files import open_private
from harness.log.query import age, grep_events
from harness.log.store import Metadata, Query
from harness.log.stores.files import FileStore
from harness.sources.imports.catalogue_filter import SessionFilter
from harness.sources.imports.catalogue_search import (
    FoundPassage,
    FoundSession,
    SessionSearch,
    parts_of,
    shortened,
)
from harness.sources.imports.summary import commits_in, makes_commit
from harness.views.formatting.columns import cut
from harness.views.formatting.escapes import single_line

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


def as_asked(arguments: argparse.Namespace) -> SessionSearch:
    """Raises UsageError where nothing is asked for."""
    asked = SessionSearch(
        parts=parts_of(" ".join(arguments.words)),
        file=arguments.file,
        command=arguments.command,
        commit=arguments.commit.lower(),
    )
    if asked == SessionSearch():
        raise UsageError(
            "nothing to search for", hint="give words, --file PATH, --command TEXT or --commit SHA"
        )
    return asked


def search(arguments: argparse.Namespace, store: FileStore, console: Console) -> list[Hit]:
    """At most one more than the limit, so that the caller sees whether there are more; the newest first."""
    asked, choice = as_asked(arguments), choice_of(arguments)
    histories = HistorySessions()
    histories.read_all(console, as_filter(choice))
    return find_hits(asked, choice, store, histories, arguments.limit + 1 if arguments.limit else None)


def find_hits(
    asked: SessionSearch,
    choice: SessionChoice,
    store: FileStore,
    histories: HistorySessions | None,
    most: int | None,
) -> list[Hit]:
    """The newest first. Of other programs' sessions, those that were read."""
    ours = list(islice(_ours(asked, choice, store), most))
    if histories is None:
        return ours
    hits = [*ours, *their_hits(asked, choice, recorded_names(store.find(Query())), histories, most)]
    if not hits and asked == SessionSearch(commit=asked.commit):
        return list(islice(_likely(asked.commit, choice.project, histories, as_filter(choice)), most))
    return sorted(hits, key=lambda hit: -hit.passage.at_ms)[:most]


def their_hits(
    asked: SessionSearch,
    choice: SessionChoice,
    ours: Container[tuple[str, str]],
    histories: HistorySessions,
    most: int | None,
) -> list[Hit]:
    """Sessions of other programs that are none of `ours`, the last changed first."""
    found = (
        _as_hit(one)
        for one in histories.search(asked, as_filter(choice))
        if (one.session.agent, one.session.session_id) not in ours
    )
    return list(islice(found, most))


def _likely(commit: str, project: str, histories: HistorySessions, chosen: SessionFilter) -> Iterator[Hit]:
    """Sessions that may have made a commit of the repository here, or of the project."""
    from harness.interfaces.cli.commit_search import likely_sessions, read_commit

    found = read_commit(commit, os.path.expanduser(project) or os.getcwd())
    for session, passage, certainty in likely_sessions(found, histories, chosen) if found is not None else ():
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


def _as_hit(found: FoundSession) -> Hit:
    session = found.session
    return Hit(
        session_id=session.session_id,
        agent=session.agent,
        project=session.cwd,
        title=session.title or session.prompt,
        passage=found.passage,
        path=session.path,
        is_ours=False,
        certainty="sure" if found.passage.how == "committed" else "",
    )


def _ours(asked: SessionSearch, choice: SessionChoice, store: FileStore) -> Iterator[Hit]:
    """The last changed first."""
    wanted = asked.file or asked.command or (_COMMIT if asked.commit else "")
    those = store.logs_with(wanted) if wanted else None
    for metadata in store.find(Query(text=" ".join(asked.parts))) if those is None or those else ():
        if (those is not None and metadata.session_id not in those) or not is_meant(metadata, choice):
            continue
        path = store.path(metadata.session_id)
        done = _done(path, asked)
        said = _said(path, asked.parts, metadata) if done is not None and asked.parts else done
        if done is None or said is None:
            continue
        yield Hit(
            session_id=metadata.session_id,
            agent=metadata.agent_name or metadata.agent,
            project=metadata.cwd,
            title=metadata.name or metadata.prompt,
            passage=said._replace(how=done.how),
            path=path,
            is_ours=True,
            certainty="sure" if done.how == "committed" else "",
        )


def _said(path: str, parts: tuple[str, ...], metadata: Metadata) -> FoundPassage | None:
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


def _done(path: str, asked: SessionSearch) -> FoundPassage | None:
    """What it did with the file, the command and the commit; None if it did not."""
    found = FoundPassage(0, "")
    if not (asked.file or asked.command or asked.commit):
        return found
    if asked.file or asked.command:
        wanted = asked.file or asked.command
        if not _contains(path, wanted):
            return None
        done = next(
            (
                done
                for event in _events(path, ("ToolStart",))
                if isinstance(event, ToolStart) and (done := _operated(event, asked)) is not None
            ),
            None,
        )
        if done is None:
            return None
        found = done
    return _committed(path, asked.commit) if asked.commit else found


def _operated(event: ToolStart, asked: SessionSearch) -> FoundPassage | None:
    for operation in event.operations:
        match operation:
            case Write(path=path) | Read(path=path) if asked.file and asked.file in path:
                how = "wrote" if isinstance(operation, Write) else "read"
                return FoundPassage(event.timestamp_ms, path, how)
            case Command(command=command) if asked.command and asked.command in command:
                return FoundPassage(event.timestamp_ms, shortened(command, asked.command.casefold()), "ran")
            case Command(command=command) if asked.file and asked.file in command:
                text = shortened(command, asked.file.casefold())
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
            commands = [one.command for one in event.operations if isinstance(one, Command)]
            if any(map(makes_commit, commands)):
                calls.add(event.call_id)
        elif getattr(event, "call_id", None) in calls:
            for made in commits_in(getattr(event, "output", "") or ""):
                if made.startswith(commit) or commit.startswith(made):
                    return FoundPassage(event.timestamp_ms, made, "committed")
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
