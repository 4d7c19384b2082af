"""List the agents that are installed here (the same as `harness agents list`)."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from harness.cli.console import Console

if TYPE_CHECKING:
    from harness.clients.installed_agents import AgentInstallation

SUMMARY = "list the agents that are installed here"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--all", action="store_true", help="also those that are not installed")


def execute(arguments: argparse.Namespace, console: Console) -> int:
    from harness.cli.output import write_json, write_text
    from harness.clients.installed_agents import (
        everything,
        installable,
        installed,
        warn_of_plugins,
    )

    warn_of_plugins(console.warning)
    installations = everything() if arguments.all else installed()
    if arguments.json:
        write_json([_as_data(installation, is_marked=arguments.all) for installation in installations])
    elif installations:
        title = "Agents:" if arguments.all else "Available agents:"
        write_text("\n".join([title, *map(_line, installations)]) + "\n")
    else:
        programs = ", ".join(installation.program for installation in installable())
        write_text(f"No agents found. Install one of: {programs}\n{_ours()}\n")
    return 0


def _line(installation: AgentInstallation) -> str:
    from harness.clients.installed_agents import two_way

    agent = installation.agent
    if not agent.binaries:
        return f"  - {agent.title} ({installation.program}) [{agent.install}]"
    missing = f"not installed: {agent.install}" if agent.install else "not installed"
    state = (installation.version or "unknown") if installation.path else missing
    able = ", ".join(two_way(agent))
    return f"  - {agent.title} ({installation.program}) [{state}]{f' two-way: {able}' if able else ''}"


def _ours() -> str:
    """What needs no installing."""
    from harness.models.registry import usual_model

    if model := usual_model():
        return f"Without any, `harness run` uses its own agent here, with {model}."
    return "Or use `--agent native`, which is part of Harness, with any model API: `harness models list` shows what is missing."


def _as_data(installation: AgentInstallation, *, is_marked: bool) -> dict[str, Any]:
    from harness.clients.installed_agents import two_way

    data = {
        "agent": installation.program,
        "display_name": installation.agent.title,
        "version": installation.version or None,
        "two_way": two_way(installation.agent),
    }
    return {**data, "available": installation.is_available} if is_marked else data
