"""Bring back what the last `harness undo` of a session took.

Without SESSION it is the last one of this folder. What was changed since the undo stays, and is named. Exit codes as those
of `harness undo`.
"""

from __future__ import annotations

import argparse

from harness.cli.commands.undo import add_shared_arguments, confirm, find_log
from harness.cli.console import Console
from harness.cli.parser import completes

SUMMARY = "bring back what the last undo took"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    help_text = "an id, the beginning of one, or `last` (default: the last of this folder)"
    session = parser.add_argument("session", metavar="SESSION", nargs="?", default="", help=help_text)
    completes(session, "sessions")
    add_shared_arguments(parser)


def execute(arguments: argparse.Namespace, console: Console) -> int:
    from harness.cli import preferences
    from harness.clients.changes.undo import open_undo

    store = preferences.open_store(preferences.load(console))
    with open_undo(store, find_log(store, arguments.session)) as undo:
        return confirm(
            lambda expect: undo.redo(expect=expect),
            arguments,
            console,
            "Bring these back? [y/N] ",
            is_redo=True,
        )
