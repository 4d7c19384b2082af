"""Where a server of ours listens: the options for it, and that nobody opens it to others by accident."""

from __future__ import annotations

import argparse
import os

from harness.errors import UsageError

TOKEN_VARIABLE = "HARNESS_SERVER_TOKEN"  # noqa: S105
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


def add_listening(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--host", default="127.0.0.1", metavar="ADDRESS", help="where to listen (default: the loopback alone)"
    )
    parser.add_argument(
        "--allow-remote",
        action="append",
        default=[],
        metavar="NAME[:PORT]",
        help="let other machines in, under this host name: whoever has the token can then run commands as you, "
        "and without a proxy that encrypts, everything crosses the network in the clear (may be repeated). PORT: "
        "where they reach it, if that is neither 80, 443 nor the port it listens on",
    )
    parser.add_argument(
        "--public-url",
        default="",
        metavar="URL",
        help="where people open it, when a proxy stands before it: https://harness.example.com",
    )


def add_token(parser: argparse.ArgumentParser) -> None:
    help_text = (
        "where the token is, or is to be made (default: in your data directory; HARNESS_SERVER_TOKEN has the token "
        "itself)"
    )
    parser.add_argument("--token-file", default="", metavar="FILE", help=help_text)


def token_of_environment() -> str:
    """Taken out of the environment: what is started from here has no use for it."""
    return os.environ.pop(TOKEN_VARIABLE, "").strip()


def checked_host(arguments: argparse.Namespace) -> str:
    """Raises UsageError for an address that others can reach, unless that is wanted."""
    host: str = arguments.host
    if host not in _LOOPBACK and not (arguments.allow_remote or arguments.public_url):
        raise UsageError(
            f"{host} can be reached by other machines",
            hint="if you want that, name the host under which they reach it: --allow-remote NAME",
        )
    return "127.0.0.1" if host == "localhost" else host
