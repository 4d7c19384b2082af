"""Show whether an agent is installed, and what it can do. Exit code: 0 available, 1 not, 2 unknown agent."""

from __future__ import annotations

import argparse
import os
from typing import Any

from harness.cli.console import Console, screen_width
from harness.cli.output import write_json, write_text
from harness.cli.parser import completes

SUMMARY = "show whether an agent is installed, and what it can do"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    completes(parser.add_argument("agent", metavar="AGENT", help="name or alias"), "agents")
    parser.add_argument("--capabilities", action="store_true", help="which options of `run` it supports")
    parser.add_argument(
        "--diagnose", action="store_true", help="where it was searched for, and which keys are set"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def execute(arguments: argparse.Namespace, console: Console) -> int:
    from harness.agents.registry import load
    from harness.clients.installed_agents import capabilities, diagnostics, look_for, two_way

    installation = look_for(load(arguments.agent))
    agent = installation.agent
    if arguments.json:
        data = {
            "agent": installation.program,
            "display_name": agent.title,
            "available": installation.is_available,
            "version": installation.version or None,
        }
        if arguments.capabilities:
            data["capabilities"] = capabilities(agent)
            data["two_way"] = two_way(agent)
        if arguments.diagnose:
            data["diagnostics"] = diagnostics(installation)
        write_json(data)
    else:
        if installation.is_available:
            write_text(f"{agent.title} is available ({installation.version or 'unknown version'})\n")
        else:
            programs = " or ".join(agent.binaries)
            missing = f"binary `{programs}` not found in PATH" if programs else "it is not a program"
            console.say(f"{agent.title} is not available ({missing})")
            if agent.install:
                console.say(f"  {agent.install}")
        if arguments.capabilities:
            write_text(capabilities_text(capabilities(agent), two_way(agent), agent.reveals))
        if arguments.diagnose:
            write_text(diagnostics_text(diagnostics(installation)))
    return 0 if installation.is_available else 1


def capabilities_text(able: dict[str, bool], while_running: list[str], reveals: dict[str, str]) -> str:
    """`while_running`: what a two-way conversation with it can do."""
    lines = ["Capabilities:", *(f"  {name + ':':<21} {str(yes).lower()}" for name, yes in able.items())]
    lines.append(f"  {'two_way:':<21} {', '.join(while_running) or 'false'}")
    if reveals:
        lines += [
            "Its output contains:",
            *(_wrapped(f"  {name + ':':<21} ", text) for name, text in reveals.items()),
        ]
    return "\n".join(lines) + "\n"


def _wrapped(head: str, text: str) -> str:
    """Wrap a long text below its beginning."""
    from textwrap import fill

    width = max(60, min(120, screen_width(os.environ)))
    return fill(text, width, initial_indent=head, subsequent_indent=" " * len(head), break_on_hyphens=False)


def diagnostics_text(data: dict[str, Any]) -> str:
    keys, candidates = data["env"], data["candidates"]
    lines = [
        "Diagnostics:",
        f"  binary_path: {data['binary_path'] or 'not found'}",
        f"  candidates:  {', '.join(candidates) or 'none'}",
        *(f"  {name}: {state}" for name, state in keys.items()),
        *([f"  --sandbox:   {data['sandbox']}"] if "sandbox" in data else []),
    ]
    return "\n".join(lines) + "\n"
