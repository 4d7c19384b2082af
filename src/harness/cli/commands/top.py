"""All sessions in one list: what needs you, what runs, what has ended; answer, steer, stop and open them.

It reads the files of this machine, or with --server a `harness serve`. Sessions of `harness chat` and `harness run` in
other terminals are answered over their sockets, those of a server by the server. `?` lists the keys.
"""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from harness.cli.console import Console, can_erase, is_terminal, wants_color
from harness.clients.server_address import add_server
from harness.errors import UsageError

if TYPE_CHECKING:
    from harness.folds.inbox.row import InboxRow

SUMMARY = "all sessions: what needs you, what runs; answer, steer, stop"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_server(parser)
    parser.add_argument("--quiet", action="store_true", help="no bell when something needs you")


def execute(arguments: argparse.Namespace, console: Console) -> int:
    from harness.cli.preferences import open_sessions
    from harness.cli.top.screen import TopScreen, TopTerminal

    if not (is_terminal(0) and can_erase(1, os.environ)):
        raise UsageError("this needs a terminal", hint="`harness sessions list` prints the sessions")
    color = wants_color(arguments.color, os.environ, is_terminal=True)
    with open_sessions(arguments, console) as inbox, TopTerminal(os.environ, color=color) as terminal:
        return TopScreen(inbox, terminal, _open_session, rings=not arguments.quiet).run()


def _open_session(row: InboxRow | None) -> None:
    """In this terminal, until the person leaves it."""
    from harness.cli.main import main

    if row is None:
        main(["chat"])
        return
    if row.is_live:
        main(["attach", row.id])
    else:
        main(["sessions", "show", row.id])
    os.write(1, b"\n[Enter] back to the list ")
    os.read(0, 1)
