"""Settings: their values, where they come from, and where to write them.

Precedence: option, environment, the nearest harness.toml upwards from here, the user's config.toml,
default. A harness.toml that is not trusted (`harness trust`) can only narrow what the user's own allows.
"""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any

from harness import config
from harness.cli.console import Console
from harness.cli.output import write_json, write_text
from harness.cli.parser import add_actions, completes
from harness.config.setting_kinds import KINDS
from harness.config.settings import TABLE, find, key_to_toml, template, to_toml
from harness.errors import UsageError
from harness.log.private_files import make_private_directory

if TYPE_CHECKING:
    from harness.config.settings import Setting

SUMMARY = "settings: show, get, set, unset, init, path"
DEFAULT_ACTION = "show"
ACTIONS = {
    "show": "show all settings that have a value",
    "get": "print the value of one setting; exit code 1 if it has none",
    "set": "set one in your own config.toml; the rest of the file stays as it is",
    "unset": "remove one from your own config.toml",
    "init": "write a harness.toml with every setting explained",
    "path": "print which file is used here",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(parser, ACTIONS)
    actions["show"].add_argument("--origin", action="store_true", help="also show where each value is set")
    actions["show"].add_argument("--json", action="store_true", help="print JSON")
    help_text = "for example default_agent or agents.NAME.model"
    for name in ("get", "set", "unset"):
        completes(actions[name].add_argument("key", metavar="KEY", help=help_text), "settings")
    help_text = "as the environment would have it: opus, 300, true; words of a list are separated by blanks"
    actions["set"].add_argument("value", metavar="VALUE", help=help_text)
    actions["init"].add_argument(
        "--user", action="store_true", help="write the user's own config.toml instead"
    )


def execute(arguments: argparse.Namespace, console: Console) -> int:
    actions = {"show": _show, "get": _get, "set": _set, "unset": _set, "init": _init, "path": _path}
    action = actions[arguments.action]
    return action(arguments, console)


def _show(arguments: argparse.Namespace, console: Console) -> int:
    from harness.cli import preferences

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
    from harness.cli import preferences

    settings = preferences.load(console, has_verbose=True)
    values = settings.effective()
    if arguments.key not in values:
        _known(arguments.key)
    value = values.get(arguments.key, settings.value(arguments.key))
    if value is None:
        console.say(f"harness: {arguments.key} is not set")
        return 1
    write_text((value if isinstance(value, str) else to_toml(value)) + "\n")
    return 0


def _known(key: str) -> tuple[tuple[str, ...], Setting]:
    """The tables and name of a key, and what may be set there. Raises UsageError.

    The middle of `prices.claude-opus-4.5.input` is one name, whatever dots it has.
    """
    parts = key.split(".")
    for path in (tuple(parts), (parts[0], ".".join(parts[1:-1]), parts[-1])):
        if all(path) and (setting := find(path)) is not None:
            return path, setting
    keys = ", ".join(setting.key for setting in TABLE)
    raise UsageError(f"unknown setting: {key}", hint=f"expected one of: {keys}")


def _set(arguments: argparse.Namespace, console: Console) -> int:
    from harness.cli import preferences
    from harness.config.own_file import OwnChange, change_own_file

    path, setting = _known(arguments.key)
    value = None
    if arguments.action == "set":
        value = KINDS[setting.kind].parse(arguments.value)
        if not setting.accepts(value):
            raise UsageError(f"{arguments.key} is {setting.expected}, not {arguments.value!r}")
    file = change_own_file([OwnChange(path, value)])
    console.say(f"{'set' if value is not None else 'removed'} {arguments.key} in {file}")
    settings = preferences.load(console, has_verbose=True)
    if value is not None and settings.value(arguments.key) != value:
        console.warning(f"here {settings.origin(arguments.key)} goes before it")
    return 0


def _init(arguments: argparse.Namespace, console: Console) -> int:
    from harness.clients.installed_agents import installable, installed

    path = config.user_file() if arguments.user else os.path.join(os.getcwd(), config.PROJECT_FILE)
    example = next((agent.agent.name for agent in (*installed(), *installable())), "NAME")
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
    from harness.cli import preferences

    settings = preferences.load(console, has_verbose=True)
    write_text((settings.project_path or config.user_file()) + "\n")
    return 0
