"""The model registry: short names for models, and what each agent calls them. Nothing is ever fetched."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from harness.interfaces.cli.console import Console
from harness.interfaces.cli.parser import add_actions, completes

if TYPE_CHECKING:
    from harness.model_names import Models

SUMMARY = "the model registry: list, resolve, path, update"
DEFAULT_ACTION = "list"
ACTIONS = {
    "list": "list the short names",
    "resolve": "print what an agent is given for a name",
    "path": "print where `update` keeps its file",
    "update": "take over a registry file from disk",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(parser, ACTIONS)
    add = actions["list"].add_argument
    completes(add("--agent", default="", metavar="NAME", help="only what this agent knows"), "agents")
    add("--json", action="store_true", help="for programs")
    add = actions["resolve"].add_argument
    add("name", metavar="MODEL")
    completes(add("--agent", required=True, metavar="NAME"), "agents")
    actions["update"].add_argument("file", metavar="FILE", help="TOML with [models.NAME] tables")


def execute(arguments: argparse.Namespace, console: Console) -> int:
    action = {"list": _list, "resolve": _resolve, "path": _path, "update": _update}[arguments.action]
    return action(arguments, console)


def _list(arguments: argparse.Namespace, console: Console) -> int:
    from harness.interfaces.cli.inventory import names_of
    from harness.interfaces.cli.output import write_json, write_text
    from harness.sources.registry import load

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
        write_text("No models in the registry.\n")
    else:
        lines = [f"Model registry ({len(models)} models):", ""]
        for model in models:
            ids = ", ".join(f"{agent}={model_id}" for agent, model_id in model.ids.items())
            lines += [f"  {model.name} — {model.description}", f"    [{model.provider}] {ids}"]
        write_text("\n".join(lines) + "\n")
    return 0


def _resolve(arguments: argparse.Namespace, console: Console) -> int:
    from harness.interfaces.cli.inventory import names_of
    from harness.interfaces.cli.output import write_text
    from harness.sources.registry import load

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
    from harness.interfaces.cli.output import write_text
    from harness.model_names import cache_path

    write_text(cache_path() + "\n")
    return 0


def _update(arguments: argparse.Namespace, console: Console) -> int:
    from harness.errors import StoreError, UsageError
    from harness.log.files import make_private_directory, replace_private
    from harness.model_names import cache_path, read

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
    console.say(f"{len(models)} models are now in {path}")
    return 0


def _load(console: Console) -> Models:
    from harness import model_names
    from harness.interfaces.cli import preferences

    models = model_names.load(preferences.load(console, has_verbose=True))
    for warning in models.warnings:
        console.warning(warning)
    return models
