"""Which agents there are, and the parts of each: the files and folders of `agents/`, then the plugins.

A name is found without importing anything, and only the part that is wanted is imported. A plugin's part is found in
the same way: `store.py`, `writer.py`, `lab.py` and `gateway.py` lie beside the module that its entry point names.
"""

from __future__ import annotations

import os
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from harness import agents
from harness.contracts.agent import Agent
from harness.errors import BrokenPlugin, UnknownAgent

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

PLUGIN_GROUP = "harness.agents"
"""Entry points of other packages: name → an `Agent`."""
_Part: TypeAlias = Literal["store", "writer", "lab", "gateway"]
_OBJECTS: dict[_Part, str] = {
    "store": "HISTORY",
    "writer": "WRITER",
    "lab": "FIXTURE",
    "gateway": "POINTING",
}
"""What each part defines."""
_COMMAND = "acp:"
"""Begins the name of an agent that is known by its command alone."""
_NO_AGENTS = ("__init__", "registry")


@cache
def names() -> tuple[str, ...]:
    """Built-in names, without importing any."""
    return tuple(
        sorted(
            entry.removesuffix(".py").replace("_", "-")
            for folder in agents.__path__
            for entry in os.listdir(folder)
            if entry.removesuffix(".py") not in _NO_AGENTS
            and (entry.endswith(".py") or os.path.isfile(f"{folder}/{entry}/__init__.py"))
        )
    )


def load(name: str) -> Agent:
    """The agent of that name or alias, or that a command starts (`acp:my-agent --acp`).

    Raises UnknownAgent, BrokenPlugin, and UsageError for what is no command.
    """
    if name.startswith(_COMMAND):
        return _of_command(name)
    spelling = _spelled(name)
    if spelling in names():
        return _built_in(spelling)
    plugins = _plugins()
    if spelling in plugins:
        return _plugin(plugins[spelling])
    for name_of_agent in names():
        if spelling in _built_in(name_of_agent).aliases:
            return _built_in(name_of_agent)
    if words := _command_of(spelling):
        return _of_command(f"{_COMMAND}{words}")
    choices = ", ".join([*names(), *plugins])
    hint = f"expected one of: {choices}, or {_COMMAND}COMMAND for any agent of ACP"
    raise UnknownAgent(f"unknown agent: {name}", hint=hint)


@cache
def _of_command(name: str) -> Agent:
    from harness.protocols.acp.any_agent import agent_of

    return agent_of(name)


def _command_of(name: str) -> str:
    """What the user's settings say that starts the agent of that name; empty if they do not."""
    from harness import config

    return str(config.load(os.getcwd(), os.environ).value(f"agents.{name}.acp") or "")


def load_all() -> tuple[list[Agent], list[BrokenPlugin]]:
    """All agents, and the errors of broken plugins: one of them does not hide the others."""
    agents: list[Agent] = []
    broken: list[BrokenPlugin] = []
    for name in all_names():
        try:
            agents.append(load(name))
        except BrokenPlugin as error:
            broken.append(error)
    return agents, broken


def all_names() -> list[str]:
    return sorted({*names(), *_plugins()})


@cache
def names_with(part: _Part) -> tuple[str, ...]:
    """The agents that have this part, without importing any."""
    built_in = [name for name in names() if _has_file(agents.__path__, f"{_module(name)}/{part}.py")]
    plugins = [name for name, point in _plugins().items() if name not in names() and _place(point, part)]
    return tuple(sorted([*built_in, *plugins]))


def load_part(name: str, part: _Part) -> Any:
    """What the part of an agent defines; None where the agent has no such part. Raises BrokenPlugin."""
    if name not in names_with(part):
        return None
    if name in names():
        return getattr(import_module(f"{agents.__name__}.{_module(name)}.{part}"), _OBJECTS[part])
    point = _plugins()[name]
    place = _place(point, part)
    return _of_plugin(point, place, lambda: getattr(import_module(place), _OBJECTS[part]))


def _plugins() -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points

    return {_spelled(point.name): point for point in sorted(entry_points(group=PLUGIN_GROUP))}


def _spelled(name: str) -> str:
    return name.strip().lower().replace("_", "-")


def _module(name: str) -> str:
    return name.replace("-", "_")


def _built_in(name: str) -> Agent:
    is_folder = _has_file(agents.__path__, f"{_module(name)}/agent.py")
    agent: Agent = import_module(f"{agents.__name__}.{_module(name)}{'.agent' * is_folder}").AGENT
    return agent


def _has_file(folders: Any, path: str) -> bool:
    return any(os.path.isfile(os.path.join(folder, path)) for folder in folders)


def _place(point: EntryPoint, part: _Part) -> str:
    """The module of a plugin's part; empty where there is none. Nothing of the plugin is imported to find it."""
    top, *inner = point.module.split(".")
    spec = find_spec(top)
    folders = spec.submodule_search_locations if spec is not None else None
    if folders is None:
        return ""
    beside = [inner, inner[:-1]] if inner else [inner]
    for path in beside:
        if _has_file(folders, os.path.join(*path, f"{part}.py")):
            return ".".join([top, *path, part])
    return ""


def _plugin(point: EntryPoint) -> Agent:
    agent = _of_plugin(point, point.value, point.load)
    if not isinstance(agent, Agent):
        package = _package(point)
        raise BrokenPlugin(
            f"the plugin {point.name} ({package}) is no Agent: {point.value} is a {type(agent).__name__}",
            hint=_repair(package),
        )
    return agent


def _of_plugin(point: EntryPoint, place: str, load: Any) -> Any:
    try:
        return load()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever a plugin's module does when it is imported, exiting included
        package = _package(point)
        message = str(error).strip().partition("\n")[0]
        what = f"{type(error).__name__}: {message}" if message else type(error).__name__
        where = "" if place == point.value else f" ({place})"
        raise BrokenPlugin(
            f"the plugin {point.name} ({package}) cannot be loaded{where}: {what}", hint=_repair(package)
        ) from error


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else point.module


def _repair(package: str) -> str:
    return f"repair the package {package}, or uninstall it"
