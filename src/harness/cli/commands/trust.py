"""Trust the settings that a folder brings, after reviewing what they start and grant.

An agent program obeys settings of the folder it works in: hooks, servers, plugins, permissions. Where they are not
trusted, they are left out (except with full access), and a harness.toml can only narrow what an agent may do. You
trust exactly what is shown, with this content; when it changes, it has to be trusted again.

  harness trust [add] DIR     show it and ask
  harness trust list          what is trusted
  harness trust revoke DIR    no longer trust it
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING, Any

from harness import config
from harness.cli.console import Console, is_terminal
from harness.cli.trust_text import FLEET_MARK, fleet_key, folder_lines, visible
from harness.config.settings import find, to_toml
from harness.config.trust import digest_with_programs, read_record
from harness.errors import UsageError

if TYPE_CHECKING:
    from harness.approvals.trust import FolderTrust
    from harness.config import Layer

SUMMARY = "trust the settings that a folder brings"
_YES = ("y", "yes")
_ACTIONS = ("list", "add", "revoke")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("words", nargs="*", metavar="[list | add | revoke] DIR", help="the folder (default: here)")
    help_text = "only for this agent (may be repeated; default: every agent that would obey something)"
    add("-a", "--agent", action="append", default=[], metavar="NAME", help=help_text)
    add("--yes", action="store_true", help="do not ask")
    only = parser.add_mutually_exclusive_group().add_argument
    only("--list", action="store_true", help="the same as `trust list`")
    only("--revoke", action="store_true", help="the same as `trust revoke`")
    add("--json", action="store_true", help="with list: print JSON")


def execute(arguments: argparse.Namespace, console: Console) -> int:
    action, words = "add", [*arguments.words]
    if words and words[0] in _ACTIONS:
        action = words.pop(0)
    if len(words) > 1:
        raise UsageError(f"unexpected: {' '.join(words[1:])}", hint="name one folder")
    directory = os.path.abspath(words[0] if words else ".")
    if arguments.list or action == "list":
        return _list(console, as_json=arguments.json)
    if arguments.revoke or action == "revoke":
        return _revoke(directory, console)
    return _trust(directory, arguments.agent, console, is_answered=arguments.yes)


def _trust(directory: str, agents: list[str], console: Console, *, is_answered: bool) -> int:
    from harness.approvals.trust import trust_folder, write_record

    if not os.path.isdir(directory):
        raise UsageError(f"{directory} is not a directory", hint="name the folder of the project")
    files = [] if agents else config.project_files(directory)
    folders = _brought(directory, agents)
    if not files and not folders:
        raise UsageError(
            f"there is nothing to trust in {directory}: no {config.PROJECT_FILE} there or above it, and no settings of agents"
        )
    granted = _project_grants(files, console)
    if granted is None:
        return 1
    open_folders = [trust for trust in folders if trust.is_open]
    if folders and not open_folders:
        console.say(f"What {directory} brings for agents is trusted already.")
    for line in folder_lines(open_folders):
        console.say(line)
    if not granted and not open_folders:
        return 0
    if not is_answered and not _agrees(console):
        console.say("Not trusted.")
        return 1
    if granted:
        record = _record(console)
        write_record({**record, "trusted": {**record["trusted"], **granted}})
    for trust in open_folders:
        trust_folder(trust)
    console.say("Trusted, until it changes. `harness trust --revoke` revokes it.")
    return 0


def _project_grants(files: list[str], console: Console) -> dict[str, str] | None:
    """Of each project file that asks for something: its digest, after it was shown. None: one cannot be read."""
    trusted = _record(console)["trusted"]
    granted = {}
    for path in files:
        layer = config.read_file(path, is_personal=False)
        keys = config.needing_trust(layer, config.own_settings())
        for problem in layer.problems:
            console.warning(str(problem))
        if any(not problem.key for problem in layer.problems):
            return None  # it cannot be read, and what was not seen cannot be trusted
        if trusted.get(config.trust_key(path)) == layer.digest:
            console.say(f"{path} is trusted already.")
        elif not keys:
            console.say(f"{path} sets nothing that needs trust.")
        else:
            console.say(_shown(layer, keys))
            granted[config.trust_key(path)] = layer.digest
    return granted


def _brought(directory: str, agents: list[str]) -> list[FolderTrust]:
    """What the folder brings, for each agent that would obey something of it."""
    from harness.agents.registry import load
    from harness.approvals.protected import OBEYED
    from harness.approvals.trust import judge

    brought_agents = [load(name) for name in agents]
    names_by_agent = (
        {agent.name: agent.obeys for agent in brought_agents} if brought_agents else dict.fromkeys(OBEYED, ())
    )
    judged = [judge(directory, name, obeys) for name, obeys in names_by_agent.items()]
    return [trust for trust in judged if trust.state != "nothing"]


def _shown(layer: Layer, settings: dict[str, Any]) -> str:
    lines = [f"{layer.path} asks for:"]
    for key, value in settings.items():
        setting = find(tuple(key.split(".")))
        lines.append(f"  {visible(key)} = {visible(to_toml(value))}")
        if setting is not None:
            lines.append(f"      {setting.summary}")
    return "\n".join(lines)


def _agrees(console: Console) -> bool:
    if not is_terminal(0):
        raise UsageError(
            "there is no terminal to ask on", hint="use --yes after you have read what it asks for"
        )
    console.put("Trust this, as it is now? [y/N] ")
    return sys.stdin.readline().strip().lower() in _YES


def _revoke(directory: str, console: Console) -> int:
    from harness.approvals.trust import revoke_folder, write_record

    record = _record(console)
    trusted = record["trusted"]
    # Also a folder, or a file in it, that was deleted.
    keys = {config.trust_key(path) for path in config.project_files(directory)}
    keys |= {config.trust_key(os.path.join(directory, name)) for name in config.PROJECT_FILES}
    below = os.path.join(fleet_key(directory), "")
    keys |= {key for key in trusted if key.startswith(below) or key == fleet_key(directory)}
    revoked_keys = sorted(keys & trusted.keys())
    if revoked_keys:
        remaining = {path: digest for path, digest in trusted.items() if path not in revoked_keys}
        write_record({**record, "trusted": remaining})
    agents = revoke_folder(directory)
    for path in revoked_keys:
        console.say(f"{path} is no longer trusted.")
    if agents:
        console.say(f"What {directory} brings for {', '.join(agents)} is no longer trusted.")
    if not revoked_keys and not agents:
        console.say(f"harness: nothing in {directory}, or above it, is trusted")
        return 1
    return 0


def _list(console: Console, *, as_json: bool) -> int:
    from harness.approvals.trust import trusted_folders
    from harness.cli.output import write_json, write_text

    rows = [(path, "", _state(path, digest)) for path, digest in sorted(_record(console)["trusted"].items())]
    rows += trusted_folders()
    if as_json:
        write_json(
            [
                {"path": path, "state": state} | ({"agent": agent} if agent else {})
                for path, agent, state in rows
            ]
        )
    else:
        lines = (
            f"{visible(path)}{f'  {agent}' if agent else ''}  [{state}]\n" for path, agent, state in rows
        )
        write_text("".join(lines))
    return 0


def _state(path: str, digest: str) -> str:
    if path.startswith(FLEET_MARK):
        is_there = os.path.exists(path.removeprefix(FLEET_MARK))
        return "plan of a fleet, trusted as it was" if is_there else "deleted"
    try:
        with open(path, "rb") as file:
            now = digest_with_programs(file.read(), os.path.dirname(path))
            return "trusted" if now == digest else "changed since, not trusted"
    except OSError:
        return "deleted"


def _record(console: Console) -> dict[str, Any]:
    record, problem = read_record(config.trust_file())
    if problem:
        console.warning(f"{config.trust_file()} {problem}")
    return record
