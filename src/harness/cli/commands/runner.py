"""Run agents on this machine for a server elsewhere, which starts, follows and stops them over HTTP.

It listens on loopback, requires a token, and prints its address. From elsewhere use
`harness run --agent remote --prompt … -- --runner URL --token-file FILE [--agent NAME] [--cwd DIR]`.
"""

from __future__ import annotations

import argparse
import os

from harness.cli.console import Console
from harness.cli.output import write_text
from harness.cli.parser import port
from harness.clients.server_address import (
    add_listening,
    add_token,
    checked_host,
    require_server,
    token_of_environment,
    token_path,
)

SUMMARY = "run agents here for a server elsewhere"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--port", type=port, default=0, metavar="N", help="(default: any free one)")
    add("-d", "--cwd", default="", metavar="DIR", help="the workspace (default: here)")
    add_token(parser)
    add_listening(parser)


def execute(arguments: argparse.Namespace, console: Console) -> int:
    from harness.cli import preferences

    require_server()
    host = checked_host(arguments)
    from harness.cli.interruption import raise_on_interrupt
    from harness.cli.run_request import quoted
    from harness.cli.tracing import traced
    from harness.clients.conversations.presets import checked_directory
    from harness.server.access.guard import RequestGuard
    from harness.server.access.host_names import names_of
    from harness.server.access.responses import Failures
    from harness.server.app import open_access
    from harness.server.runner.app import Runner, drop_lost_clients
    from harness.server.serving import Serving, bind

    settings = preferences.load(console, has_verbose=arguments.verbose)
    runner = Runner(preferences.open_store(settings), checked_directory(arguments.cwd or os.getcwd()))
    token = token_of_environment()
    names_of(arguments.port, arguments.allow_remote, arguments.public_url)  # before anything is opened
    access = open_access(arguments.token_file, token)
    listening = bind(host, arguments.port)
    drop_lost_clients(listening)
    names = names_of(listening.getsockname()[1], arguments.allow_remote, arguments.public_url)
    guarded = RequestGuard(
        runner.app(),
        access=access,
        names=names,
        report=console.debug if console.is_verbose else None,
        failures=Failures(console.say, is_verbose=console.is_verbose),
    )

    def announce() -> None:
        url, token_file = names.url, arguments.token_file or token_path()
        write_text(f"{url}\n")
        console.say(
            f"harness run --agent remote --prompt … -- --runner {url} --token-file {quoted(token_file)}"
        )
        console.say("Ctrl-C stops the runner and everything it runs.")

    raise_on_interrupt()
    try:
        with traced(settings, console.warning):
            Serving(guarded, listening, announce).run()
    finally:
        listening.close()
    return 0
