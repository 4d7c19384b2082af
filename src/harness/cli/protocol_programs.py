"""Commands that another program starts, and that speak a protocol with it on standard input and output."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

from harness.cli.console import Console
from harness.errors import UsageError

if TYPE_CHECKING:
    from harness.clients.conversations.backend import Setup
    from harness.config import Settings

PERMISSIONS = {
    "ask": "default",
    "accept-edits": "acceptEdits",
    "read-only": "readOnly",
    "full-access": "fullAuto",
}
"""The option `--permissions` of these commands → the mode of a conversation."""


def default_setup(arguments: argparse.Namespace, settings: Settings) -> Setup:
    """What conversations are begun with. Raises UsageError."""
    from harness.cli.run_request import agent_of
    from harness.clients.conversations.backend import Setup
    from harness.contracts.request import OWN_AGENT

    try:
        agent = agent_of(arguments.agent, settings).name
    except UsageError:
        if arguments.agent:
            raise
        agent = OWN_AGENT  # nothing was chosen: the one that is always there
    mode = PERMISSIONS[arguments.permissions]
    return Setup(agent=agent, model=arguments.model, permission_mode=mode, cwd=os.getcwd())


def protocol_output(console: Console) -> int:
    """The descriptor to answer on. Whatever else prints to standard output would break the protocol, and so it goes to
    standard error from now on. What an event loop has to say does, too.
    """
    import asyncio  # only here: the parser of the whole command line loads this module

    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _loop, about: console.warning(str(about.get("message"))))
    target = os.dup(1)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return target
