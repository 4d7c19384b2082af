"""Where additions are: the user's own folders, and those of the project if it is trusted.

What a project brings counts only as long as it is exactly what the user trusted (`harness trust`): the very bytes that were
compared are the ones that are used.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

from harness.approvals.protected import OBEYED
from harness.approvals.trust import FolderTrust, judge
from harness.config import config_directory
from harness.contracts.request import OWN_AGENT, FolderSettingsUse
from harness.contracts.subagent import SubagentKind
from harness.native.additions.agents import EXPLORE, read_agent
from harness.native.additions.commands import CustomCommand, read_command
from harness.native.additions.hooks import HOOKS_FILE, CallHook, read_hooks

_MOST_FILES = 200
_MOST_BYTES = 256 * 1024
_FOLDERS = {"agents": "agents", "agent": "agents", "commands": "commands", "command": "commands"}
"""Folder → what is in it; the names without `s` are OpenCode's."""
_HOOKS = f".harness/{HOOKS_FILE}"


class _File(NamedTuple):
    kind: str
    path: str
    name: str
    """Below its folder."""
    data: bytes


class Additions(msgspec.Struct, frozen=True):
    kinds: Mapping[str, SubagentKind]
    commands: Mapping[str, CustomCommand]
    hooks: tuple[CallHook, ...]
    notes: tuple[str, ...]
    """What a person should know: what does not count, and why."""


def find_additions(cwd: str, use: FolderSettingsUse = "", origin: str = "") -> Additions:
    """`origin`: the folder that this one is a copy of. The user's own go before the project's; of the same kind, ours before those of other agents."""
    notes: list[str] = []
    files = [*_own_files(), *_project_files(cwd or os.getcwd(), use, origin, notes)]
    kinds: dict[str, SubagentKind] = {}
    commands: dict[str, CustomCommand] = {}
    hooks: list[CallHook] = []
    for file in files:
        text = file.data.decode("utf-8-sig", "replace")
        if file.kind == "agents":
            agent_file = read_agent(file.path, text)
            notes += agent_file.notes
            if agent_file.kind is not None:
                kinds.setdefault(agent_file.kind.name, agent_file.kind)
        elif file.kind == "commands":
            command = read_command(file.path, os.path.splitext(file.name)[0], text)
            if command is not None:
                commands.setdefault(command.name, command)
        else:
            more_hooks, problems = read_hooks(file.path, text)
            hooks += more_hooks
            notes += problems
    return Additions(
        {**kinds, EXPLORE.name: kinds.get(EXPLORE.name, EXPLORE)}, commands, tuple(hooks), tuple(notes)
    )


def _own_files() -> Iterator[_File]:
    config = config_directory()
    other = os.path.join(os.path.dirname(config), "opencode")
    roots = (config, os.path.expanduser("~/.claude"), other)
    for root in roots:
        for folder, kind in _FOLDERS.items():
            if root == other or folder.endswith("s"):
                place = os.path.join(root, folder)
                contents = ((path, _content(path)) for path in _markdown(place))
                yield from (
                    _File(kind, path, os.path.relpath(path, place), data) for path, data in contents if data
                )
    path = os.path.join(config, HOOKS_FILE)
    if (data := _content(path)) is not None:
        yield _File("hooks", path, HOOKS_FILE, data)


def _project_files(cwd: str, use: FolderSettingsUse, origin: str, notes: list[str]) -> Iterator[_File]:
    if use == "none" or not _has_any(cwd):
        return
    trust = judge(cwd, OWN_AGENT, origin=origin)
    if trust.state != "trusted" and use != "use":
        if trust.settings.contents:
            notes.append(_untrusted(trust))
        return
    for place in OBEYED[OWN_AGENT]:
        for name, data in sorted(trust.settings.contents.items()):
            before, _, below = name.partition(place)
            path = os.path.join(trust.settings.folder, name)
            if set(before.strip("/").split("/")) - {"", ".."}:
                continue  # in a folder below, it is another project's
            if place == _HOOKS and not below:
                yield _File("hooks", path, HOOKS_FILE, data)
            elif place != _HOOKS and below.startswith("/") and below.endswith(".md"):
                yield _File(_FOLDERS[os.path.basename(place)], path, below[1:], data[:_MOST_BYTES])


def _has_any(cwd: str) -> bool:
    """Whether there is something to judge: most projects have nothing."""
    place = os.path.realpath(cwd)
    home = os.path.realpath(os.path.expanduser("~"))
    while place not in (home, os.path.dirname(place)):
        if any(os.path.lexists(os.path.join(place, name)) for name in OBEYED[OWN_AGENT]):
            return True
        place = os.path.dirname(place)
    return False


def _untrusted(trust: FolderTrust) -> str:
    why = "have changed since they were trusted" if trust.state == "changed" else "are not trusted"
    return f"agents, commands and hooks of this folder {why}, and do not count ({trust.names}): `harness trust` shows them"


def _markdown(folder: str) -> Iterator[str]:
    count = 0
    for place, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            if name.endswith(".md") and count < _MOST_FILES:
                count += 1
                yield os.path.join(place, name)


def _content(path: str) -> bytes | None:
    try:
        if not os.path.isfile(path):
            return None
        with open(path, "rb") as file:
            return file.read(_MOST_BYTES)
    except OSError:
        return None
