"""The options of a gateway, the same for every command that starts agent programs."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from harness.contracts.request import GatewayOptions
from harness.errors import UsageError

LOGIN = "pass-login"


def add_gateway(add: Callable[..., object], *, takes_login: bool = False) -> None:
    """`takes_login`: `--gateway=pass-login`."""
    help_text = "put a gateway between the agent and its model: it holds the key and records every call, for `harness replay`"
    if takes_login:
        help_text += "; =pass-login: without a key, the agent's own log-in is passed on to its vendor"
        words = {"nargs": "?", "const": "key", "default": "", "choices": ("key", LOGIN), "metavar": LOGIN}
        add("--gateway", help=help_text, **words)
    else:
        add("--gateway", action="store_true", help=help_text)
    help_text = "through a gateway, and nothing else can be reached or written; =read: nor can anything of your home be read"
    seals = ("write", "read")
    add("--sealed", nargs="?", const="write", default="", choices=seals, metavar="read", help=help_text)
    help_text = "a host that a sealed run may reach besides, on port 443 (may be repeated)"
    add("--allow-host", action="append", default=[], metavar="NAME", help=help_text)


def hosts_of(arguments: argparse.Namespace) -> tuple[str, ...]:
    """Raises UsageError where they mean nothing."""
    if arguments.allow_host and not arguments.sealed:
        raise UsageError("--allow-host is for a sealed run", hint="add --sealed")
    return tuple(arguments.allow_host)


def gateway_of(arguments: argparse.Namespace) -> GatewayOptions | None:
    """Raises UsageError for options that contradict each other."""
    hosts = hosts_of(arguments)
    if not (arguments.gateway or arguments.sealed):
        return None
    return GatewayOptions(allow_hosts=hosts, passes_login=arguments.gateway == LOGIN)
