"""The inbox in a terminal: which session needs you, what for, and its conversation beside it; answer, steer, stop and
start from the keyboard. `?` lists the keys.

It follows the sessions of this machine. With --server it is a client of `harness serve`, also on another machine.
"""

from __future__ import annotations

import argparse
import os
from importlib import util
from typing import TYPE_CHECKING

from harness.cli.console import Console, is_terminal
from harness.clients.server_address import add_server, address_of, require_server, token_of
from harness.errors import MissingExtra, UsageError

if TYPE_CHECKING:
    from harness.clients.conversations.backend import Setup
    from harness.config import Settings
    from harness.tui.source_data import ScreenData

SUMMARY = "all sessions in one screen: answer, steer, stop"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_server(parser)


def execute(arguments: argparse.Namespace, console: Console) -> int:
    _require_textual()
    if not (is_terminal(0) and is_terminal(1)):
        raise UsageError("the screen needs a terminal", hint="`harness sessions list` lists the sessions")
    from harness.cli import preferences
    from harness.cli.tracing import traced

    settings = preferences.load(console, has_verbose=arguments.verbose)
    settings.require_valid()
    from harness.tui.app import InboxApp

    app = InboxApp(_data(arguments, settings), os.environ, is_notifying=settings.value("tui.notify"))
    warnings: list[str] = []  # they would be written over the screen
    try:
        with traced(settings, warnings.append):
            code = app.run()
    finally:
        for warning in warnings:
            console.warning(warning)
    if app.failure is not None:
        raise app.failure
    return code or 0


def _require_textual() -> None:
    """Raises MissingExtra."""
    if util.find_spec("textual") is None:
        raise MissingExtra("the screen needs textual", "tui")


def _data(arguments: argparse.Namespace, settings: Settings) -> ScreenData:
    from harness.cli import preferences

    if not arguments.server:
        from harness.tui.file_data import FileScreenData
        from harness.usage.prices import load

        return FileScreenData(preferences.open_store(settings), load(settings), lambda: _default(settings))
    require_server()
    from harness.tui.server_data import ServerScreenData

    url, token = address_of(arguments.server), token_of(arguments.token_file)
    return ServerScreenData(url, token)


def _default(settings: Settings) -> Setup:
    """The setup for what a conversation leaves open."""
    from harness.cli.run_request import agent_of
    from harness.clients.conversations.backend import Setup
    from harness.contracts.request import OWN_AGENT

    try:
        agent = agent_of("", settings).name
    except UsageError:
        agent = OWN_AGENT  # several are installed: each conversation names its own
    return Setup(agent=agent, cwd=os.getcwd())
