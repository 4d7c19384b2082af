"""Which versions of an agent program can be held to `ask`: those that were seen to ask about everything."""

from __future__ import annotations

from harness.contracts.agent import Agent
from harness.contracts.request import Permissions
from harness.errors import UsageError
from harness.process.version_probe import parse_version


def refusal_to_ask(agent: Agent, version: str | None, mode: Permissions = "ask") -> UsageError | None:
    """Why `ask` (or `accept-edits`) would not hold with this version; None: it holds.

    A program that is not here (None) counts as new. One that does not say its version is none that was seen to ask.
    """
    two_way = agent.two_way
    if agent.work is not None:
        return None
    if two_way is None:
        return UsageError(
            f"{agent.title} cannot be asked while it runs: --permissions {mode} does not work with it",
            hint="use --permissions read-only or agent-default, or another agent (`harness agents`)",
        )
    if two_way.unasked:
        return UsageError(
            f"{agent.title} does not ask about everything: {two_way.unasked}",
            hint="--permissions agent-default asks you what it asks, read-only changes nothing",
        )
    first = max(two_way.since, two_way.asks_since)
    if version is None or parse_version(version) >= first:
        return None
    if not version:
        return UsageError(
            f"{agent.title} does not say its version: --permissions {mode} needs one that was seen to ask",
            hint=f"try again; its answer to {' '.join(agent.version_args)} has to name it",
        )
    since = ".".join(map(str, first))
    return UsageError(
        f"{agent.title} {version} cannot be asked while it runs: --permissions {mode} needs {since}",
        hint=agent.install or "install a newer version",
    )
