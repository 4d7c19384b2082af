"""`harness sessions keep`, and what other commands say of sessions that are about to be deleted."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import TYPE_CHECKING

from harness.cli.console import Console
from harness.cli.parser import completes
from harness.clients.sessions.filters import moment_ms
from harness.clients.sessions.keep import WARNED_DAYS, copied, copy_expiring, expiring_sessions
from harness.errors import UsageError

if TYPE_CHECKING:
    from harness import config
    from harness.clients.sessions.histories import HistorySessions
    from harness.histories.catalogue_rows import CataloguedSession
    from harness.log.stores.files import FileStore


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    completes(
        add("ids", metavar="ID", nargs="*", help="an id of a session that an agent has stored"), "sessions"
    )
    completes(add("-a", "--agent", default="", metavar="NAME", help="all of this agent"), "agents")
    help_text = "all that have not changed since then: 20d, 4w, 2026-08-31"
    add("--older-than", type=moment_ms, metavar="TIME", help=help_text)
    add("--all", action="store_true", help="all of all agents")


def keep(arguments: argparse.Namespace, store: FileStore, console: Console) -> int:
    """Raises UsageError, UnknownSession, UnknownAgent."""
    from harness.clients.sessions.histories import HistorySessions

    if not (arguments.ids or arguments.agent or arguments.older_than is not None or arguments.all):
        raise UsageError("nothing to copy", hint="give an ID, --agent NAME, --older-than 20d or --all")
    histories = HistorySessions(say=console.warning)
    counts = {"copied": 0, "current": 0, "empty": 0, "failed": 0}
    for session in histories.read(_chosen(arguments, histories, store)):
        counts["current" if session.gone_ms else copied(session, store, console.warning)] += 1
    console.say(f"{counts['copied']} copied, {counts['current']} were there already, in {store.directory}")
    return 1 if counts["failed"] else 0


def keep_expiring(
    histories: HistorySessions, store: FileStore, settings: config.Settings, console: Console
) -> None:
    """Where the settings ask for it, copy some of what agents are about to delete."""
    if not settings.value("histories.keep"):
        return
    some, count = copy_expiring(histories, store, console.warning)
    if count:
        console.info(f"copied {some} of {count} sessions that will be deleted")


def warn_of_expiring(histories: HistorySessions, store: FileStore, console: Console) -> None:
    """Say what is about to be lost."""
    counts: dict[str, int] = {}
    for session in expiring_sessions(histories, store):
        counts[session.agent] = counts.get(session.agent, 0) + 1
    for agent, count in counts.items():
        noun = "session" if count == 1 else "sessions"
        console.say(
            f"{agent} will delete {count} {noun} within {WARNED_DAYS} days, or has started to:"
            f" `harness sessions keep --agent {agent}` copies them"
        )


def _chosen(
    arguments: argparse.Namespace, histories: HistorySessions, store: FileStore
) -> Iterable[CataloguedSession]:
    from harness.agents.registry import load
    from harness.clients.sessions.any_session import log_of_deleted
    from harness.clients.sessions.ids import unknown
    from harness.histories.catalogue_filter import SessionFilter

    for text in arguments.ids:
        session = histories.find(text)
        if session is None:
            raise unknown(store, text)
        if session.gone_ms:
            log_of_deleted(store, session)
        yield session
    if not (arguments.agent or arguments.older_than is not None or arguments.all):
        return
    agent = load(arguments.agent).name if arguments.agent else ""
    choice = SessionFilter(agent=agent, with_deleted=False, changed_before_ms=arguments.older_than)
    yield from histories.sessions(choice)
