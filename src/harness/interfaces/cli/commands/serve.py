"""A page, and a server for programs, on this machine: watch any session, start agents, answer and steer them.

It prints a link that works once. Nobody but you can use it: it listens on the loopback, and asks for a token.
"""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from harness.interfaces.cli.console import Console
from harness.interfaces.cli.listening import add_listening, checked_host
from harness.interfaces.cli.parser import completes, port

if TYPE_CHECKING:
    from harness.config import Settings
    from harness.interfaces.server.desk import Setup
    from harness.log.store import Store

SUMMARY = "a page for the browser, and a server for programs"
USUAL_PORT = 4780


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--port",
        type=port,
        default=USUAL_PORT,
        metavar="N",
        help=f"0 for any free one (default: {USUAL_PORT})",
    )
    completes(
        add("-a", "--agent", default="", metavar="NAME", help="the agent that new conversations get"),
        "agents",
    )
    add("-m", "--model", default="", metavar="NAME", help="the model that they get")
    add(
        "--store",
        default="",
        metavar="WHERE",
        help="where conversations are kept: a folder, or postgresql://USER@HOST/DATABASE, which several servers "
        "may have in common (default: where `harness run` records)",
    )
    add("-d", "--cwd", default="", metavar="DIR", help="where they work (default: here)")
    add_listening(parser)


def execute(arguments: argparse.Namespace, console: Console) -> int:
    from harness.interfaces.cli import preferences
    from harness.interfaces.cli.extras import require_server

    require_server()
    host = checked_host(arguments)
    settings = preferences.load(console, has_verbose=arguments.verbose)
    return _serve(arguments, host, settings, console)


def _serve(arguments: argparse.Namespace, host: str, settings: Settings, console: Console) -> int:
    from harness.interfaces.cli import preferences
    from harness.interfaces.cli.interruption import raise_on_interrupt
    from harness.interfaces.cli.output import write_text
    from harness.interfaces.cli.server_address import leave_address, token_path
    from harness.interfaces.server.app import OWN_NAMES, Plan, Server, open_access
    from harness.interfaces.server.failures import Failures
    from harness.interfaces.server.serving import Serving, bind
    from harness.interfaces.server.shared_desk import desk_for
    from harness.interfaces.server.ways import MODES

    store = _store(arguments.store) if arguments.store else preferences.open_store(settings)
    default = _default(arguments, settings)
    listening = bind(host, arguments.port)
    plan = Plan(
        store=store,
        desk=lambda: desk_for(store, default),
        access=open_access(),
        settings=settings,
        default=default,
        port=listening.getsockname()[1],
        modes=MODES,
        names=(*OWN_NAMES, *arguments.allow_remote),
        report=console.debug if console.is_verbose else None,
        failures=Failures(console.say, is_verbose=console.is_verbose),
    )

    def tell() -> None:
        leave_address(f"http://{plan.hosts[0]}")
        write_text(f"{plan.new_link}\n")
        console.say(f"Open this link; it works once. The token for programs is in {token_path()}.")
        if arguments.allow_remote:
            names = ", ".join(arguments.allow_remote)
            console.warning(
                f"other machines can reach this server as {names}: whoever has the token can run commands as you"
            )
        console.say("Ctrl-C ends it, and what it runs.")

    raise_on_interrupt()
    try:
        Serving(Server(plan).guarded(), listening, tell).run()
    finally:
        listening.close()
    return 0


def _store(where: str) -> Store:
    """Raises HarnessError also when it cannot be reached: better now than at the first request."""
    from harness.log.open_store import open_store
    from harness.log.store import Query

    store = open_store(where)
    store.find(Query(limit=1))
    return store


def _default(arguments: argparse.Namespace, settings: Settings) -> Setup:
    from harness.errors import UsageError
    from harness.interfaces.cli.asking import agent_of
    from harness.interfaces.server.desk import Setup
    from harness.interfaces.server.ways import checked_directory
    from harness.sources.request import OWN_AGENT

    try:
        agent = agent_of(arguments.agent, settings).name
    except UsageError:
        if arguments.agent:
            raise
        agent = OWN_AGENT  # nothing was chosen: the one that is always there
    return Setup(agent=agent, model=arguments.model, cwd=checked_directory(arguments.cwd or os.getcwd()))
