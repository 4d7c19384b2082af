"""Where a server of ours listens: the options for it, and that nobody opens it to others by accident."""

from __future__ import annotations

import argparse

from harness.errors import UsageError

_LOOPBACK = ("127.0.0.1", "::1", "localhost")


def add_listening(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--host", default="127.0.0.1", metavar="ADDRESS", help="where to listen (default: the loopback alone)"
    )
    parser.add_argument(
        "--allow-remote",
        action="append",
        default=[],
        metavar="NAME",
        help="let other machines in, under this host name: whoever has the token can then run commands as you, "
        "and everything crosses the network unencrypted (may be repeated)",
    )


def checked_host(arguments: argparse.Namespace) -> str:
    """Raises UsageError for an address that others can reach, unless that is wanted."""
    host: str = arguments.host
    if host not in _LOOPBACK and not arguments.allow_remote:
        raise UsageError(
            f"{host} can be reached by other machines",
            hint="if you want that, name the host under which they reach it: --allow-remote NAME",
        )
    return "127.0.0.1" if host == "localhost" else host
