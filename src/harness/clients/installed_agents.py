"""Which agents are on this machine, in which version, and what each can do."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NamedTuple

from harness.agents.registry import load, load_all, names
from harness.contracts.agent import Agent
from harness.contracts.request import OWN_AGENT
from harness.errors import UsageError
from harness.process.version_probe import parse_version, probe_version
from harness.runs.launch import (
    find_binary,
    installed_two_way,
    installed_version,
    refusal_to_ask_here,
    refusal_to_read_only,
    require_confinable,
)
from harness.version import __version__

CAPABILITIES = {
    "system_prompt": "system_prompt",
    "append_system_prompt": "append_system_prompt",
    "budget": "max_budget_usd",
    "model": "model",
    "max_turns": "max_turns",
    "resume": "resume",
    "continue": "continue_last",
    "read_only": "read-only",
    "agent_default": "agent-default",
}
"""What is shown → the name in `Agent.supports`."""
_OWN_TWO_WAY = ("steer", "approve", "ask", "plan", "files", "model", "mode")


class AgentInstallation(NamedTuple):
    """One agent, looked for."""

    agent: Agent
    path: str
    """Empty when it is not installed, or needs no program."""

    @property
    def is_built_in(self) -> bool:
        """Whether it runs in this process."""
        return self.agent.work is not None

    @property
    def is_available(self) -> bool:
        return bool(self.path) or self.is_built_in

    @property
    def program(self) -> str:
        """What is started; the agent's own name where nothing is."""
        return next(iter(self.agent.binaries), self.agent.name)

    @property
    def version(self) -> str:
        if self.is_built_in:
            return __version__
        return probe_version(self.path, self.agent.version_args) if self.path else ""


def look_for(agent: Agent) -> AgentInstallation:
    return AgentInstallation(agent, find_binary(agent, "", os.environ))


def installed() -> list[AgentInstallation]:
    """The agents whose programs are there; what is part of Harness does not count."""
    return [installation for installation in everything() if installation.path]


def everything() -> list[AgentInstallation]:
    """Plugins that are broken are left out; `warn_of_plugins` names them."""
    return [look_for(agent) for agent in load_all()[0] if not is_part_of_harness(agent)]


def warn_of_plugins(warn: Callable[[str], object]) -> None:
    for broken in load_all()[1]:
        warn(broken.words)


def is_part_of_harness(agent: Agent) -> bool:
    """Whether its program came with Harness and needs no installation."""
    is_command = agent.only_two_way  # which the user has named, with its path
    return bool(agent.binaries) and all(map(os.path.isabs, agent.binaries)) and not is_command


def installable() -> list[AgentInstallation]:
    """The agents that can be installed."""
    return [installation for installation in everything() if installation.agent.binaries]


def player() -> Agent | None:
    """The agent that plays recordings."""
    return next((agent for agent in map(load, names()) if is_part_of_harness(agent)), None)


def names_of(agent: Agent) -> tuple[str, ...]:
    """Every spelling of an agent's name in settings."""
    spellings = (agent.name, *agent.aliases)
    return tuple(dict.fromkeys([*spellings, *(name.replace("-", "_") for name in spellings)]))


def capabilities(agent: Agent) -> dict[str, bool]:
    """What the installed version takes; one that is not installed counts as new."""
    version = parse_version(installed_version(agent))
    return {
        title: name in agent.supports
        and (not version or name not in agent.since or version >= agent.since[name])
        for title, name in CAPABILITIES.items()
    }


def two_way(agent: Agent) -> list[str]:
    """What can be done with the installed version while it runs; empty: it can only be watched and stopped."""
    if agent.name == OWN_AGENT:
        return sorted(_OWN_TWO_WAY)
    two_way_part = installed_two_way(agent)
    # Modes are those of a session: no run asks a program for its own.
    return sorted(two_way_part.capabilities - {"mode"}) if two_way_part is not None else []


def permission_modes(agent: Agent) -> dict[str, str]:
    """The modes of `permissionMode` → why the installed version cannot be held to it; empty: it can."""
    version = installed_version(agent) if agent.two_way is not None or agent.needs_version else ""
    asks, edits = refusal_to_ask_here(agent), refusal_to_ask_here(agent, "accept-edits")
    reads = refusal_to_read_only(agent, version)
    if agent.name == OWN_AGENT:
        asks = reads = edits = None
    refusals = {"default": asks, "acceptEdits": edits, "readOnly": reads, "fullAuto": None}
    return {mode: "" if refusal is None else refusal.message for mode, refusal in refusals.items()}


def diagnostics(installation: AgentInstallation) -> dict[str, Any]:
    """Never the value of a key, only whether there is one."""
    by, why = sandbox_of(installation.agent)
    can_confine = installation.agent.work is None or "sandbox" in installation.agent.supports
    return {
        "binary_path": installation.path or None,
        "candidates": list(installation.agent.binaries),
        "env": {
            name: "set" if os.environ.get(name) else "not set" for name in installation.agent.key_variables
        },
        **({"sandbox": by or why} if can_confine else {}),
    }


def sandbox_of(agent: Agent) -> tuple[str, str]:
    """What `--sandbox` would use for it here; or nothing, and why there is nothing."""
    from harness.sandbox.ladder import find_sandbox

    try:
        require_confinable(agent)
        return find_sandbox().name, ""
    except UsageError as error:
        return "", error.message
