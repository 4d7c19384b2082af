"""Settings: their values, where they come from, and where to write them.

Precedence: option, environment, the nearest harness.toml upwards from here, the user's config.toml,
default. A harness.toml that is not trusted (`harness trust`) can only narrow what the user's own allows.
"""

from __future__ import annotations

import argparse
import os
from typing import Any

from harness.interfaces.cli.console import Console
from harness.interfaces.cli.parser import add_actions, completes

SUMMARY = "settings: show, get, init, path"
DEFAULT_ACTION = "show"
ACTIONS = {
    "show": "show all settings that have a value",
    "get": "print the value of one setting; exit code 1 if it has none",
    "init": "write a harness.toml with every setting explained",
    "path": "print which file is used here",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(parser, ACTIONS)
    actions["show"].add_argument("--origin", action="store_true", help="also show where each value is set")
    actions["show"].add_argument("--json", action="store_true", help="print JSON")
    help_text = "for example default_agent or agents.NAME.model"
    completes(actions["get"].add_argument("key", metavar="KEY", help=help_text), "settings")
    actions["init"].add_argument(
        "--user", action="store_true", help="write the user's own config.toml instead"
    )


def execute(arguments: argparse.Namespace, console: Console) -> int:
    action = {"show": _show, "get": _get, "init": _init, "path": _path}[arguments.action]
    return action(arguments, console)


def _show(arguments: argparse.Namespace, console: Console) -> int:
    from harness.config.settings import to_toml
    from harness.interfaces.cli import preferences
    from harness.interfaces.cli.output import write_json, write_text

    settings = preferences.load(console, has_verbose=True)
    values = settings.effective()
    origins = {key: settings.origin(key) for key in values}
    if arguments.json:
        both = {key: {"value": value, "origin": origins[key]} for key, value in values.items()}
        for key, value, place in settings.ignored:
            both.setdefault(key, {"value": None, "origin": "default"})["ignored"] = {
                "value": value,
                "origin": place,
            }
        write_json(both if arguments.origin else values)
    else:
        ignored = [
            f"# ignored, not trusted: {key} = {to_toml(value)}  # {place}\n"
            for key, value, place in settings.ignored
        ]
        write_text(_as_toml(values, origins if arguments.origin else {}) + "".join(ignored))
    settings.require_valid()
    return 0


def _as_toml(values: dict[str, Any], origins: dict[str, str]) -> str:
    from harness.config.settings import key_to_toml, to_toml

    lines: list[str] = []
    table = ""
    for key, value in values.items():
        above, _, name = key.rpartition(".")
        if above != table:
            table = above
            first, _, rest = above.partition(".")
            lines += ["", f"[{'.'.join(map(key_to_toml, filter(None, (first, rest))))}]"]
        note = f"  # {origins[key]}" if key in origins else ""
        lines.append(f"{key_to_toml(name)} = {to_toml(value)}{note}")
    return "\n".join(lines) + "\n"


def _get(arguments: argparse.Namespace, console: Console) -> int:
    from harness.config.settings import TABLE, find, to_toml
    from harness.errors import UsageError
    from harness.interfaces.cli import preferences
    from harness.interfaces.cli.output import write_text

    settings = preferences.load(console, has_verbose=True)
    known = settings.effective()
    if arguments.key not in known and find(tuple(arguments.key.split("."))) is None:
        keys = ", ".join(setting.key for setting in TABLE)
        raise UsageError(f"unknown setting: {arguments.key}", hint=f"expected one of: {keys}")
    value = known.get(arguments.key, settings.value(arguments.key))
    if value is None:
        console.say(f"harness: {arguments.key} is not set")
        return 1
    write_text((value if isinstance(value, str) else to_toml(value)) + "\n")
    return 0


def _init(arguments: argparse.Namespace, console: Console) -> int:
    from harness import config
    from harness.config.settings import template
    from harness.interfaces.cli.output import write_text
    from harness.interfaces.installed_agents import installable, installed
    from harness.log.private_files import make_private_directory

    path = config.user_file() if arguments.user else os.path.join(os.getcwd(), config.PROJECT_FILE)
    example = next((found.agent.name for found in (*installed(), *installable())), "NAME")
    try:
        if arguments.user:
            make_private_directory(os.path.dirname(path))
        with open(path, "x", encoding="utf-8") as file:
            file.write(template(example, personal=arguments.user))
    except FileExistsError:
        console.say(f"harness: config file already exists at: {path}\n  edit it, or remove it first")
        return 1
    except OSError as error:
        console.say(f"harness: cannot write {path}: {error.strerror}")
        return 1
    write_text(f"Created config at: {path}\n")
    return 0


def _path(arguments: argparse.Namespace, console: Console) -> int:
    del arguments
    from harness import config
    from harness.interfaces.cli import preferences
    from harness.interfaces.cli.output import write_text

    settings = preferences.load(console, has_verbose=True)
    write_text((settings.project_path or config.user_file()) + "\n")
    return 0
