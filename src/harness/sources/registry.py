"""Which agents there are: the files of `agents/`, then the plugins. Only the chosen one is imported."""

from __future__ import annotations

import os
from importlib import import_module

from harness.errors import UnknownAgent
from harness.sources import agents
from harness.sources.agent import Agent

PLUGIN_GROUP = "harness.agents"
"""Entry points of other packages: name → an `Agent`."""


def names() -> list[str]:
    """Built-in names, without importing any."""
    return sorted(
        entry[:-3].replace("_", "-")
        for folder in agents.__path__
        for entry in os.listdir(folder)
        if entry.endswith(".py") and not entry.startswith("_")
    )


def load(name: str) -> Agent:
    """The agent of that name or alias. Raises UnknownAgent."""
    wanted = name.strip().lower().replace("_", "-")
    if wanted in names():
        return _built_in(wanted)
    plugins = plugin_names()
    if wanted in plugins:
        return _plugin(wanted)
    for known in names():
        if wanted in _built_in(known).aliases:
            return _built_in(known)
    choices = ", ".join([*names(), *plugins])
    raise UnknownAgent(f"unknown agent: {name}", hint=f"expected one of: {choices}")


def all_names() -> list[str]:
    return sorted({*names(), *plugin_names()})


def plugin_names() -> list[str]:
    from importlib.metadata import entry_points

    return sorted(point.name for point in entry_points(group=PLUGIN_GROUP))


def _built_in(name: str) -> Agent:
    agent: Agent = import_module(f"{agents.__name__}.{name.replace('-', '_')}").AGENT
    return agent


def _plugin(name: str) -> Agent:
    from importlib.metadata import entry_points

    agent: Agent = next(iter(entry_points(group=PLUGIN_GROUP, name=name))).load()
    return agent
