"""The user's settings as the commands need them: loaded once, problems reported; store and inbox opened."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from harness import config
from harness.cli.console import Console
from harness.errors import InvalidDirectory

if TYPE_CHECKING:
    from harness.clients.inbox.contract import Sessions
    from harness.log.stores.files import FileStore


def load(console: Console, *, has_verbose: bool = False) -> config.Settings:
    """Settings of the current directory. Warnings are printed; errors are raised where the value is needed."""
    settings = config.load(_here())
    if not has_verbose or os.environ.get("HARNESS_LOG_LEVEL"):
        console.set_level(settings.value("log_level"))
    report_problems(settings.problems, console)
    return settings


def _here() -> str:
    try:
        return os.getcwd()
    except OSError as error:
        raise InvalidDirectory(
            f"the current directory cannot be used: {error.strerror}",
            hint="was it deleted? change to another one",
        ) from error


def report_problems(problems: Iterable[config.ConfigProblem], console: Console) -> None:
    for problem in problems:
        if not problem.is_error:
            console.warning(str(problem))


def sessions_directory(settings: config.Settings) -> str:
    directory = settings.value("log.directory")
    return os.path.expanduser(directory) if directory else config.sessions_directory()


def open_store(settings: config.Settings) -> FileStore:
    from harness.log.stores.files import FileStore

    return FileStore(sessions_directory(settings))


def open_sessions(arguments: argparse.Namespace, console: Console) -> Sessions:
    """Those of this machine, or of the server that `--server` names. Raises HarnessError."""
    from harness.clients.inbox import local_sessions
    from harness.clients.inbox.listing import known_prices
    from harness.clients.server_address import address_of, require_server, token_of

    store = open_store(load(console, has_verbose=arguments.verbose))
    if not arguments.server:
        return local_sessions.open_sessions(store, known_prices())
    require_server()
    url, token = address_of(arguments.server), token_of(arguments.token_file)
    return local_sessions.open_sessions(store, known_prices(), url=url, token=token)
