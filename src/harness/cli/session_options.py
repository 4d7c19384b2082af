"""The options of commands that say which sessions are meant, and what is searched for."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from harness.cli.parser import completes
from harness.clients.sessions.filters import OUTCOMES, SessionChoice, checked, moment_ms
from harness.errors import UsageError
from harness.system.plain_text import plain_text

if TYPE_CHECKING:
    from harness.histories.catalogue_search import SessionSearch


def add_filters(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    completes(add("-a", "--agent", default="", metavar="NAME", help="only those of this agent"), "agents")
    outcome = parser.add_mutually_exclusive_group().add_argument
    outcome("--outcome", default="", metavar="WORD", help=f"only those that are {', '.join(OUTCOMES)}")
    outcome("--failed", dest="outcome", action="store_const", const="failed", help="only those that failed")
    help_text = "only those with this tag (may be repeated)"
    add("--tag", action="append", default=[], metavar="TEXT", help=help_text)
    help_text = "only those started since 2026-08-31, today, 12h, 7d, 4w"
    add("--since", type=moment_ms, metavar="TIME", help=help_text)
    add("--until", type=moment_ms, metavar="TIME", help="only those started before then")
    add("--project", default="", metavar="DIR", help="only those that worked in this directory, or below it")
    add("--model", default="", metavar="TEXT", help="only those of models whose name contains this")
    help_text = "also sessions of sub-agents, and those that their agent has deleted"
    add("--all", action="store_true", help=help_text)
    parser.set_defaults(live=False)


def choice_of(arguments: argparse.Namespace) -> SessionChoice:
    return SessionChoice(
        agent=arguments.agent,
        outcome=arguments.outcome,
        tags=tuple(arguments.tag),
        since_ms=arguments.since,
        until_ms=arguments.until,
        project=arguments.project,
        model=plain_text(arguments.model),
        is_live=arguments.live,
        has_all=arguments.all,
    )


def check(arguments: argparse.Namespace) -> None:
    """Raises UsageError, UnknownAgent."""
    choice = checked(choice_of(arguments))
    arguments.agent, arguments.outcome = choice.agent, choice.outcome


def asked_in(arguments: argparse.Namespace) -> SessionSearch:
    """Raises UsageError where nothing is asked for."""
    from harness.histories.catalogue_search import SessionSearch, parts_of

    search = SessionSearch(
        parts=parts_of(plain_text(" ".join(arguments.words))),
        file=plain_text(arguments.file),
        command=plain_text(arguments.command),
        commit=plain_text(arguments.commit.lower()),
    )
    if search == SessionSearch():
        raise UsageError(
            "nothing to search for", hint="give words, --file PATH, --command TEXT or --commit SHA"
        )
    return search
