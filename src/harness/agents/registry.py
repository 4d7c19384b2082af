"""Which agents there are: the modules and packages of `agents/`, then the plugins. Only the chosen one is imported."""

from __future__ import annotations

import os
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from harness import agents
from harness.contracts.agent import Agent
from harness.errors import BrokenPlugin, UnknownAgent

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

PLUGIN_GROUP = "harness.agents"
"""Entry points of other packages: name → an `Agent`."""


def names_in(package: ModuleType) -> tuple[str, ...]:
    """The modules and packages of a package, as names of agents, without importing any."""
    return tuple(
        sorted(
            entry.removesuffix(".py").replace("_", "-")
            for folder in package.__path__
            for entry in os.listdir(folder)
            if not entry.startswith("_")
            and (entry.endswith(".py") or os.path.isfile(f"{folder}/{entry}/__init__.py"))
        )
    )


def module_of(package: ModuleType, name: str) -> Any:
    """The module of an agent in a package: the file's name is the agent's."""
    return import_module(f"{package.__name__}.{name.replace('-', '_')}")


@cache
def names() -> tuple[str, ...]:
    """Built-in names, without importing any."""
    return names_in(agents)


def load(name: str) -> Agent:
    """The agent of that name or alias. Raises UnknownAgent, BrokenPlugin."""
    wanted = _spelled(name)
    if wanted in names():
        return _built_in(wanted)
    plugins = _plugins()
    if wanted in plugins:
        return _plugin(plugins[wanted])
    for known in names():
        if wanted in _built_in(known).aliases:
            return _built_in(known)
    choices = ", ".join([*names(), *plugins])
    raise UnknownAgent(f"unknown agent: {name}", hint=f"expected one of: {choices}")


def load_all() -> tuple[list[Agent], list[BrokenPlugin]]:
    """All agents, and the errors of broken plugins: one of them does not hide the others."""
    found: list[Agent] = []
    broken: list[BrokenPlugin] = []
    for name in all_names():
        try:
            found.append(load(name))
        except BrokenPlugin as error:
            broken.append(error)
    return found, broken


def all_names() -> list[str]:
    return sorted({*names(), *_plugins()})


def _plugins() -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points

    return {_spelled(point.name): point for point in sorted(entry_points(group=PLUGIN_GROUP))}


def _spelled(name: str) -> str:
    return name.strip().lower().replace("_", "-")


def _built_in(name: str) -> Agent:
    agent: Agent = module_of(agents, name).AGENT
    return agent


def _plugin(point: EntryPoint) -> Agent:
    package = point.dist.name if point.dist is not None else point.module
    hint = f"repair the package {package}, or uninstall it"
    try:
        agent = point.load()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever a plugin's module does when it is imported, exiting included
        message = str(error).strip().partition("\n")[0]
        what = f"{type(error).__name__}: {message}" if message else type(error).__name__
        raise BrokenPlugin(
            f"the plugin {point.name} ({package}) cannot be loaded: {what}", hint=hint
        ) from error
    if not isinstance(agent, Agent):
        raise BrokenPlugin(
            f"the plugin {point.name} ({package}) is no Agent: {point.value} is a {type(agent).__name__}",
            hint=hint,
        )
    return agent
