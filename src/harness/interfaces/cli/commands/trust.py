"""Trust the settings of a project, after reviewing what they grant.

A harness.toml that came with a project can only narrow what an agent may do. Everything else it sets (programs,
arguments, models, wider permissions) applies once you trust it: this file, with exactly this content.
When it changes, it has to be trusted again.
"""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any

from harness.interfaces.cli.console import Console

if TYPE_CHECKING:
    from harness.config import Layer

SUMMARY = "trust the settings of a project"
_YES = ("y", "yes")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("directory", nargs="?", default=".", metavar="DIR", help="the project (default: here)")
    add("--yes", action="store_true", help="do not ask")
    only = parser.add_mutually_exclusive_group().add_argument
    only("--list", action="store_true", help="show what is trusted")
    only("--revoke", action="store_true", help="no longer trust it")
    add("--json", action="store_true", help="with --list: print JSON")


def execute(arguments: argparse.Namespace, console: Console) -> int:
    if arguments.list:
        return _list(console, as_json=arguments.json)
    directory = os.path.abspath(arguments.directory)
    if arguments.revoke:
        return _revoke(directory, console)
    return _trust(directory, console, is_answered=arguments.yes)


def _trust(directory: str, console: Console, *, is_answered: bool) -> int:
    from harness import config
    from harness.errors import UsageError

    if not os.path.isdir(directory):
        raise UsageError(f"{directory} is not a directory", hint="name the folder of the project")
    files = config.project_files(directory)
    if not files:
        raise UsageError(f"there is no {config.PROJECT_FILE} in {directory} or above it")
    trusted = _trusted(console)
    granted = {}
    for path in files:
        layer = config.read_file(path, is_personal=False)
        wanted = config.needing_trust(layer, config.own_settings())
        for problem in layer.problems:
            console.warning(str(problem))
        if any(not problem.key for problem in layer.problems):
            return 1  # it cannot be read, and what was not seen cannot be trusted
        if trusted.get(config.trust_key(path)) == layer.digest:
            console.say(f"{path} is trusted already.")
        elif not wanted:
            console.say(f"{path} sets nothing that needs trust.")
        else:
            console.say(_shown(layer, wanted))
            granted[config.trust_key(path)] = layer.digest
    if not granted:
        return 0
    if not is_answered and not _agrees(console):
        console.say("Not trusted.")
        return 1
    _write({**trusted, **granted})
    console.say("Trusted, until it changes. `harness trust --revoke` revokes it.")
    return 0


def _shown(layer: Layer, wanted: dict[str, Any]) -> str:
    from harness.config.settings import find, to_toml

    lines = [f"{layer.path} asks for:"]
    for key, value in wanted.items():
        setting = find(tuple(key.split(".")))
        lines.append(f"  {visible(key)} = {visible(to_toml(value))}")
        if setting is not None:
            lines.append(f"      {setting.summary}")
    return "\n".join(lines)


def visible(text: str) -> str:
    """With everything written out that a terminal would hide or obey: what is shown must be what is trusted."""
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)


def _agrees(console: Console) -> bool:
    import sys

    from harness.errors import UsageError
    from harness.interfaces.cli.console import is_terminal

    if not is_terminal(0):
        raise UsageError(
            "there is no terminal to ask on", hint="use --yes after you have read what it asks for"
        )
    console.put("Trust this, as it is now? [y/N] ")
    return sys.stdin.readline().strip().lower() in _YES


def _revoke(directory: str, console: Console) -> int:
    from harness import config

    trusted = _trusted(console)
    # Also a folder, or a file in it, that was deleted.
    wanted = {config.trust_key(path) for path in config.project_files(directory)}
    wanted |= {config.trust_key(os.path.join(directory, name)) for name in config.PROJECT_FILES}
    found = sorted(wanted & trusted.keys())
    if not found:
        console.say(f"harness: nothing in {directory}, or above it, is trusted")
        return 1
    _write({path: digest for path, digest in trusted.items() if path not in found})
    for path in found:
        console.say(f"{path} is no longer trusted.")
    return 0


def _list(console: Console, *, as_json: bool) -> int:
    from harness.interfaces.cli.output import write_json, write_text

    rows = [(path, _state(path, digest)) for path, digest in sorted(_trusted(console).items())]
    if as_json:
        write_json([{"path": path, "state": state} for path, state in rows])
    else:
        write_text("".join(f"{visible(path)}  [{state}]\n" for path, state in rows))
    return 0


def _state(path: str, digest: str) -> str:
    from harness.config.trust import digest_of

    try:
        with open(path, "rb") as file:
            return "trusted" if digest_of(file.read()) == digest else "changed since, not trusted"
    except OSError:
        return "deleted"


def _trusted(console: Console) -> dict[str, str]:
    from harness import config
    from harness.config.trust import read_trusted

    trusted, problem = read_trusted(config.trust_file())
    if problem:
        console.warning(f"{config.trust_file()} {problem}")
    return trusted


def _write(trusted: dict[str, str]) -> None:
    import json

    from harness import config
    from harness.errors import HarnessError
    from harness.log.private_files import make_private_directory, replace_private

    path = config.trust_file()
    try:
        make_private_directory(os.path.dirname(path))
        replace_private(path, json.dumps({"trusted": trusted}, indent=2).encode() + b"\n")
    except OSError as error:
        raise HarnessError(f"cannot write {path}: {error.strerror}") from error
