"""The model registry: short names for models, what each agent calls them, and which providers can be used.

Nothing is ever fetched but by `fetch`.
"""

from __future__ import annotations

import argparse
import os
import textwrap
from collections import Counter
from typing import TYPE_CHECKING

from harness.cli.console import Console, number_of
from harness.cli.output import write_json, write_text
from harness.cli.parser import add_actions, completes
from harness.errors import StoreError, UsageError
from harness.log.private_files import make_private_directory, replace_private

if TYPE_CHECKING:
    from harness.config.model_names import ModelAliases

SUMMARY = "model registry: list, resolve, path, update, fetch"
DEFAULT_ACTION = "list"
_ALIKE = 2
"""When more providers lack the same, a package of all of them, it is said once."""
ACTIONS = {
    "list": "list the short names, and the providers that can be used here",
    "resolve": "print the model id that an agent gets for a name",
    "path": "print the file that `update` writes",
    "update": "import a registry file from disk",
    "fetch": "download the local model",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(parser, ACTIONS)
    add = actions["list"].add_argument
    completes(add("--agent", default="", metavar="NAME", help="only what this agent knows"), "agents")
    add("--providers", action="store_true", help="only the providers of the built-in agents")
    add("--json", action="store_true", help="print JSON")
    add = actions["resolve"].add_argument
    add("name", metavar="MODEL", help="a short name, or any other name of a model")
    completes(add("--agent", required=True, metavar="NAME", help="the agent that gets it"), "agents")
    actions["update"].add_argument("file", metavar="FILE", help="TOML with [models.NAME] tables")
    help_text = "local: a small model that runs in this process"
    actions["fetch"].add_argument("model", metavar="MODEL", choices=["local"], help=help_text)


def execute(arguments: argparse.Namespace, console: Console) -> int:
    actions = {"list": _list, "resolve": _resolve, "path": _path, "update": _update, "fetch": _fetch}
    return actions[arguments.action](arguments, console)


def _list(arguments: argparse.Namespace, console: Console) -> int:
    from harness.agents.registry import load
    from harness.clients.installed_agents import names_of

    if arguments.providers:
        return _list_providers(arguments)
    agent_names = names_of(load(arguments.agent)) if arguments.agent else ()
    models = [model for model in _load(console).all if not arguments.agent or model.id_for(agent_names)]
    if arguments.json:
        write_json(
            [
                {
                    "name": model.name,
                    "description": model.description,
                    "provider": model.provider,
                    **model.ids,
                }
                for model in models
            ]
        )
    elif not models:
        whose = f" for {load(arguments.agent).title}: it is given every name as it is" if agent_names else ""
        write_text(f"No models in the registry{whose}.\n")
    else:
        lines = [f"Model registry ({number_of(len(models), 'model')}):", ""]
        for model in models:
            ids = ", ".join(f"{agent}={model_id}" for agent, model_id in model.ids.items())
            lines += [f"  {model.name} — {model.description}", f"    [{model.provider}] {ids}"]
        if not arguments.agent:
            lines += ["", *_provider_lines()]
        write_text("\n".join(lines) + "\n")
    return 0


def _list_providers(arguments: argparse.Namespace) -> int:
    from harness.models.registry import usable

    if arguments.json:
        write_json([row._asdict() for row in usable()])
    else:
        write_text("\n".join(_provider_lines()) + "\n")
    return 0


def _provider_lines() -> list[str]:
    from harness.models.registry import usable

    rows = usable()
    width = max(len(row.provider) for row in rows)
    ready = [f"  {row.provider:{width}}  {row.title} ({row.reason})" for row in rows if row.is_usable]
    lacking = [row for row in rows if not row.is_usable]
    shared = Counter(row.reason for row in lacking)
    missing = [
        f"  {row.provider:{width}}  {row.title}: {row.reason}"
        for row in lacking
        if shared[row.reason] <= _ALIKE
    ]
    for reason in [reason for reason, number in shared.items() if number > _ALIKE]:
        names = ", ".join(row.provider for row in lacking if row.reason == reason)
        missing += [*textwrap.wrap(names, 90, initial_indent="  ", subsequent_indent="  "), f"    {reason}"]
    return ["Providers that can be used here, as provider/model:", *ready, "", "Not usable yet:", *missing]


def _fetch(arguments: argparse.Namespace, console: Console) -> int:
    del arguments
    from harness.cli.interruption import raise_on_interrupt
    from harness.models.local import fetch

    raise_on_interrupt()
    write_text(fetch(console.say) + "\n")
    return 0


def _resolve(arguments: argparse.Namespace, console: Console) -> int:
    from harness.agents.registry import load
    from harness.clients.installed_agents import names_of

    agent = load(arguments.agent)
    name = arguments.name
    resolution = _load(console).resolve(name, names_of(agent))
    write_text(resolution.id + "\n")
    console.say(
        {
            "resolved": f"{name} is {resolution.id} for {agent.title} ({resolution.origin})",
            "no_mapping": f"{name} is known, but has no mapping for {agent.title}: passing through as it is",
            "passed_through": f"{name} was not found in the registry: passing through as it is",
        }[resolution.kind]
    )
    return 0


def _path(arguments: argparse.Namespace, console: Console) -> int:
    del arguments, console
    from harness.config.model_names import cache_path

    write_text(cache_path() + "\n")
    return 0


def _update(arguments: argparse.Namespace, console: Console) -> int:
    from harness.config.model_names import cache_path, read

    if "://" in arguments.file:
        raise UsageError("nothing is fetched from the network", hint="download the file, then name it here")
    models = read(arguments.file)
    if not models:
        raise UsageError(f"{arguments.file} has no models in it", hint="write [models.NAME] tables")
    path = cache_path()
    try:
        with open(arguments.file, "rb") as file:
            data = file.read()
        make_private_directory(os.path.dirname(path))
        replace_private(path, data)
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror}") from error
    console.say(f"{path} has {number_of(len(models), 'model')} now")
    return 0


def _load(console: Console) -> ModelAliases:
    from harness.cli import preferences
    from harness.config import model_names

    models = model_names.load(preferences.load(console, has_verbose=True))
    for warning in models.warnings:
        console.warning(warning)
    return models
