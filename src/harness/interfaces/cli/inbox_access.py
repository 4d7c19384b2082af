"""The inbox as commands need it: from the files, or from the server that `--server` names."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from harness.interfaces.cli.console import Console

if TYPE_CHECKING:
    from harness.interfaces.inbox.source import InboxSource


def open_for(arguments: argparse.Namespace, console: Console) -> InboxSource:
    """Raises HarnessError."""
    from harness.interfaces.cli import preferences
    from harness.interfaces.inbox.listing import known_prices
    from harness.interfaces.inbox.source import open_inbox
    from harness.interfaces.server_address import address_of, require_server, token_of

    settings = preferences.load(console, has_verbose=arguments.verbose)
    store = preferences.open_store(settings)
    if not arguments.server:
        return open_inbox(store, known_prices())
    require_server()
    url, token = address_of(arguments.server), token_of(arguments.token_file)
    return open_inbox(store, known_prices(), url=url, token=token)
