"""The agents that Harness supports: which are installed, what each can do, what may be missing."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from harness.cli.commands import check
from harness.cli.commands import list as listing
from harness.cli.console import Console
from harness.cli.output import write_json, write_text
from harness.cli.parser import add_actions, completes

if TYPE_CHECKING:
    from harness.contracts.agent import Agent

SUMMARY = "the supported agents: list, check, capabilities, diagnose"
DEFAULT_ACTION = "list"
ACTIONS = {
    "list": listing.SUMMARY,
    "check": check.SUMMARY,
    "capabilities": "which options of `run` an agent supports, what can be done while it runs, and what its output contains",
    "diagnose": "where an agent was searched for, and which of its keys are set (never their values)",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(parser, ACTIONS)
    listing.add_arguments(actions["list"])
    check.add_arguments(actions["check"])
    for name in ("capabilities", "diagnose"):
        action = actions[name]
        help_text = "name or alias (default: all)"
        completes(action.add_argument("agent", metavar="AGENT", nargs="?", help=help_text), "agents")
        action.add_argument("--json", action="store_true", help="print JSON")


def execute(arguments: argparse.Namespace, console: Console) -> int:
    if arguments.action == "list":
        return listing.execute(arguments, console)
    if arguments.action == "check":
        return check.execute(arguments, console)
    return _describe(arguments, console)


def _describe(arguments: argparse.Namespace, console: Console) -> int:
    from harness.agents.registry import load
    from harness.clients.installed_agents import (
        capabilities,
        diagnostics,
        everything,
        look_for,
        two_way,
        warn_of_plugins,
    )

    def able(agent: Agent) -> dict[str, Any]:
        return {**capabilities(agent), "two_way": two_way(agent)}

    if not arguments.agent:
        warn_of_plugins(console.warning)
    installations = [look_for(load(arguments.agent))] if arguments.agent else everything()
    is_diagnosis = arguments.action == "diagnose"
    if arguments.json:
        write_json(
            {
                installation.agent.name: diagnostics(installation)
                if is_diagnosis
                else able(installation.agent)
                for installation in installations
            }
        )
        return 0
    for installation in installations:
        write_text(
            f"{installation.agent.title} ({installation.agent.name})\n"
            + (
                check.diagnostics_text(diagnostics(installation))
                if is_diagnosis
                else check.capabilities_text(
                    capabilities(installation.agent), two_way(installation.agent), installation.agent.reveals
                )
            )
        )
    return 0
