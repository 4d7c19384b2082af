"""Let other agents use yours: a server of the Model Context Protocol (MCP), on standard input and output.

Add this command to the MCP servers of an agent. It can then give tasks to any agent of this machine, wait for them, answer what they
ask, let another agent continue a session, and find what was said and done in past sessions. Agents that call agents
end: at most three deep, and within the budget that the first was given.
"""

from __future__ import annotations

import argparse
import os
from functools import partial
from typing import TYPE_CHECKING

from harness.cli.console import Console
from harness.cli.output import write_text
from harness.cli.parser import completes, positive
from harness.cli.protocol_programs import PERMISSIONS, default_setup, protocol_output

if TYPE_CHECKING:
    from harness.clients.conversations.backend import Setup
    from harness.clients.mcp.limits import Reach
    from harness.config import Settings
    from harness.log.stores.files import FileStore

SUMMARY = "be a server of MCP, so that other agents can use yours"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    completes(
        add("-a", "--agent", default="", metavar="NAME", help="agent of tasks that name none"), "agents"
    )
    add("-m", "--model", default="", metavar="NAME", help="its model")
    help_text = "what agents may do without asking: ask (default), accept-edits, read-only, full-access"
    add("--permissions", choices=tuple(PERMISSIONS), default="ask", metavar="MODE", help=help_text)
    add(
        "--folder",
        action="append",
        default=[],
        metavar="DIR",
        help="another folder in which tasks may work, besides the one where this is started; repeatable",
    )
    help_text = "let the calling agent allow what a task asks permission for; else only a person can"
    add("--let-agents-allow", action="store_true", help=help_text)
    add(
        "--max-budget-usd",
        type=positive,
        metavar="USD",
        help="what all tasks of this server may cost together",
    )
    help_text = "print a SKILL.md that teaches an agent to use Harness, and serve nothing"
    add("--skill", action="store_true", help=help_text)
    add(
        "--no-histories",
        action="store_true",
        help="leave out the sessions that agents have stored themselves",
    )


def execute(arguments: argparse.Namespace, console: Console) -> int:
    import asyncio
    from importlib.resources import files

    from harness.cli import preferences
    from harness.cli.log_notes import LogNotes
    from harness.cli.tracing import traced
    from harness.clients.conversations.presets import checked_directory
    from harness.clients.mcp.limits import Reach

    if arguments.skill:
        write_text(files("harness.clients.mcp").joinpath("SKILL.md").read_text(encoding="utf-8"))
        return 0
    settings = preferences.load(console, has_verbose=arguments.verbose)
    settings.require_valid()
    store = preferences.open_store(settings)
    default = default_setup(arguments, settings)
    reach = Reach(
        permission_mode=default.permission_mode,
        folders=(default.cwd, *map(checked_directory, arguments.folder)),
        lets_agents_allow=arguments.let_agents_allow,
    )
    with LogNotes(console), traced(settings, console.warning):
        asyncio.run(_serve(arguments, store, default, settings, console, reach))
    return 0


async def _serve(
    arguments: argparse.Namespace,
    store: FileStore,
    default: Setup,
    settings: Settings,
    console: Console,
    reach: Reach,
) -> None:
    from harness.clients.acp.host import AcpHost
    from harness.clients.acp.stdio import serve
    from harness.clients.conversations.shared_backend import open_backend
    from harness.clients.mcp.agent_tools import AgentTools
    from harness.clients.mcp.limits import CallLimits
    from harness.clients.mcp.server import McpConnection

    target = protocol_output(console)
    backend = open_backend(store, default)
    host = AcpHost(store, backend, default, settings, histories=not arguments.no_histories, is_reachable=True)
    tools = AgentTools(host, CallLimits(os.environ, arguments.max_budget_usd), reach)
    try:
        await serve(partial(McpConnection, tools), 0, target)
    finally:
        await tools.close()
        await host.close()
