"""Let an editor use any agent: an agent of the Agent Client Protocol (ACP), on standard input and output.

Editors start it themselves: give them this command. Sessions of Harness and of the agents' own histories can be listed,
loaded and continued; questions are asked in the editor, under your own rules for permissions. What an editor was lost
in the middle of is asked again when the session is loaded, here or elsewhere.
"""

from __future__ import annotations

import argparse
from functools import partial
from typing import TYPE_CHECKING

from harness.cli.console import Console
from harness.cli.parser import completes
from harness.cli.protocol_programs import PERMISSIONS, default_setup, protocol_output

if TYPE_CHECKING:
    from harness.clients.conversations.backend import Setup
    from harness.config import Settings
    from harness.log.stores.files import FileStore

SUMMARY = "be an agent of ACP for an editor, with any agent behind it"

_STAYS_S = 1800.0
"""So long it waits for an answer to an agent program when its editor is gone."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    completes(add("-a", "--agent", default="", metavar="NAME", help="agent of new sessions"), "agents")
    add("-m", "--model", default="", metavar="NAME", help="model of new sessions")
    help_text = "what it may do without asking: ask (default), accept-edits, read-only, full-access"
    add("--permissions", choices=tuple(PERMISSIONS), default="ask", metavar="MODE", help=help_text)
    add(
        "--no-histories",
        action="store_true",
        help="leave out the sessions that agents have stored themselves",
    )


def execute(arguments: argparse.Namespace, console: Console) -> int:
    import asyncio

    from harness.cli import preferences
    from harness.cli.log_notes import LogNotes
    from harness.cli.tracing import traced

    settings = preferences.load(console, has_verbose=arguments.verbose)
    settings.require_valid()
    store = preferences.open_store(settings)
    default = default_setup(arguments, settings)
    with LogNotes(console), traced(settings, console.warning):
        asyncio.run(_serve(store, default, settings, console, has_histories=not arguments.no_histories))
    return 0


async def _serve(
    store: FileStore, default: Setup, settings: Settings, console: Console, *, has_histories: bool
) -> None:
    from harness.clients.acp.connection import AcpConnection
    from harness.clients.acp.host import AcpHost
    from harness.clients.acp.stdio import serve
    from harness.clients.conversations.shared_backend import open_backend

    target = protocol_output(console)
    backend = open_backend(store, default)
    host = AcpHost(store, backend, default, settings, histories=has_histories, is_reachable=True)
    try:
        await serve(partial(AcpConnection, host), 0, target)
        await host.wait_for_answers(_STAYS_S)
    finally:
        await host.close()
