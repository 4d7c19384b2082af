"""`harness sessions delete`: single sessions by their ids, or all that are older, of an agent, or there at all."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from harness.cli.console import Console, is_terminal
from harness.cli.parser import completes
from harness.clients.sessions.filters import SessionChoice, checked, is_meant, moment_ms
from harness.errors import LogLocked, UsageError

if TYPE_CHECKING:
    from harness.log.store import Metadata
    from harness.log.stores.files import FileStore


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    completes(add("ids", metavar="ID", nargs="*", help="an id, the beginning of one, or `last`"), "sessions")
    completes(add("-a", "--agent", default="", metavar="NAME", help="all of this agent"), "agents")
    help_text = "all that have not changed since then: 20d, 4w, 2026-08-31"
    add("--older-than", type=moment_ms, metavar="TIME", help=help_text)
    add("--project", default="", metavar="DIR", help="all that worked in this directory, or below it")
    add("--all", action="store_true", help="all that Harness has recorded")
    add("-y", "--yes", action="store_true", help="do not ask, where many are deleted")


def delete(arguments: argparse.Namespace, store: FileStore, console: Console) -> int:
    """Raises UsageError, UnknownSession, UnknownAgent, LogLocked."""
    from harness.clients.sessions.ids import find

    are_many = bool(arguments.all or arguments.agent or arguments.project or arguments.older_than is not None)
    if bool(arguments.ids) == are_many:
        hint = "give an ID, or --older-than 30d, --agent NAME, --project DIR or --all"
        raise UsageError("either single sessions or many are deleted", hint=hint)
    if are_many:
        return _delete_many(arguments, store, console)
    for log_id in dict.fromkeys([find(store, text) for text in arguments.ids]):
        store.delete(log_id)
        console.say(f"deleted {log_id}")
    return 0


def _delete_many(arguments: argparse.Namespace, store: FileStore, console: Console) -> int:
    sessions = list(_chosen(arguments, store))
    if not sessions:
        console.say("there is no such session")
        return 0
    if not arguments.yes and not _is_confirmed(sessions, store, console):
        console.say("Nothing was deleted.")
        return 1
    deleted = 0
    for metadata in sessions:
        try:
            store.delete(metadata.session_id)
        except LogLocked:
            console.warning(f"{metadata.session_id} is being written, and stays")
        else:
            deleted += 1
    console.say(f"deleted {deleted} sessions of {store.directory}; what agents have stored themselves stays")
    return 0 if deleted == len(sessions) else 1


def _chosen(arguments: argparse.Namespace, store: FileStore) -> Iterator[Metadata]:
    choice = checked(SessionChoice(agent=arguments.agent, project=arguments.project))
    for metadata in store.list():
        if is_meant(metadata, choice) and _is_old(metadata, arguments.older_than, store):
            yield metadata


def _is_old(metadata: Metadata, than_ms: int | None, store: FileStore) -> bool:
    """By its last event: a conversation that was begun long ago may still be in use."""
    if than_ms is None:
        return True
    try:
        return os.stat(store.path(metadata.session_id)).st_mtime * 1000 < than_ms
    except OSError:
        return False


def _is_confirmed(sessions: list[Metadata], store: FileStore, console: Console) -> bool:
    """Raises UsageError where nobody can be asked."""
    if not is_terminal(0):
        hint = f"--yes deletes these {len(sessions)} sessions without asking"
        raise UsageError("there is no terminal to ask on", hint=hint)
    console.put(f"Delete {len(sessions)} sessions of {store.directory} permanently? [y/N] ")
    return sys.stdin.readline().strip().lower() in {"y", "yes"}
