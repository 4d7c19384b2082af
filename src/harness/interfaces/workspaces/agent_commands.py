"""Slash commands of an agent: those that it has listed in its stream, and those that lie in files.

No agent is known here: a list in a stream is recognised by its key, and an `Agent` says where its files are.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from harness.interfaces.changes.repository import find_repository
from harness.interfaces.server.api.schemas import CommandChoice
from harness.interfaces.workspaces.templates import read_text
from harness.log.raw import RawOutput, read_raw
from harness.sources.agent import Agent, CommandFiles

_LISTS = (b'"slash_commands"', b'"availableCommands"', b'"available_commands"', b'"argumentHint"')
_KEYS = ("slash_commands", "availableCommands", "available_commands", "commands")
_NAME = re.compile(r"[A-Za-z0-9][\w.:-]{0,79}")
_FRONT = re.compile(r"---[ \t]*\n(?P<front>.*?)\n---[ \t]*\n(?P<text>.*)", re.DOTALL)
_DESCRIPTION = re.compile(r"^description:[ \t]*(?P<text>.*)$", re.MULTILINE)
_MOST_READ_BYTES = 4 * 1024 * 1024
"""Of a raw record: agents list their commands when they begin."""
_MOST_COMMANDS = 500
_MOST_FILES = 200
_DEEPEST = 3
_LONGEST_DESCRIPTION = 200


def agent_commands(agent: Agent | None, folder: str, raw_path: str = "") -> list[CommandChoice]:
    """By name. `folder`: where the agent works; `raw_path`: the raw record of its session."""
    found = {name: _taken(name, about) for name, about in _listed(raw_path)} if raw_path else {}
    for place in agent.command_files if agent is not None else ():
        for path in _places(place, folder):
            for name, text in _files(path, place.suffix):
                choice = _choice(place, name, text)
                if choice is not None and (name not in found or not found[name].description):
                    found[name] = choice
    return sorted(found.values(), key=lambda choice: choice.name)[:_MOST_COMMANDS]


def _taken(name: str, description: str) -> CommandChoice:
    return CommandChoice("command", name, _short(description), "")


def _short(text: str) -> str:
    return " ".join(text.split())[:_LONGEST_DESCRIPTION]


def _listed(raw_path: str) -> Iterator[tuple[str, str]]:
    """What the agent listed last in the beginning of its record: names and descriptions."""
    found: dict[str, str] = {}
    read_bytes = 0
    try:
        for entry in read_raw(raw_path):
            if not isinstance(entry, RawOutput):
                continue
            read_bytes += len(entry.data)
            if read_bytes > _MOST_READ_BYTES:
                break
            for line in entry.data.split(b"\n") if any(key in entry.data for key in _LISTS) else ():
                if any(key in line for key in _LISTS):
                    named = dict(_named(line))
                    found = {**found, **{name: named[name] or found.get(name, "") for name in named}}
    except OSError:  # an agent in this process has no record
        return
    yield from found.items()


def _named(line: bytes) -> Iterator[tuple[str, str]]:
    try:
        record = msgspec.json.decode(line)
    except msgspec.DecodeError:
        return
    for listed in _lists_in(record, 6):
        for one in listed[:_MOST_COMMANDS]:
            name = one.get("name") if isinstance(one, dict) else one
            about = one.get("description") if isinstance(one, dict) else ""
            name = name.removeprefix("/") if isinstance(name, str) else ""
            if _NAME.fullmatch(name) and not name.startswith("__"):
                yield name, about if isinstance(about, str) else ""


def _lists_in(value: Any, depth: int) -> Iterator[list[Any]]:
    if not isinstance(value, dict) or not depth:
        return
    for key, inner in value.items():
        if key in _KEYS and isinstance(inner, list):
            yield inner
        else:
            yield from _lists_in(inner, depth - 1)


def _places(place: CommandFiles, folder: str) -> Iterable[str]:
    """Folders of the user, then those of the project, whose files replace them."""
    repository = find_repository(folder) if folder else None
    projects = dict.fromkeys(filter(None, (repository.top if repository is not None else "", folder)))
    for name in place.folders:
        path = os.path.expanduser(os.path.expandvars(name))
        if os.path.isabs(path):
            yield path
        elif "$" not in path:
            yield from (os.path.join(project, path) for project in projects)


def _files(folder: str, suffix: str) -> Iterator[tuple[str, str]]:
    """Names (`folder:file`) and texts. No link is followed."""
    waiting = [(folder, "")]
    seen = 0
    while waiting:
        place, prefix = waiting.pop()
        try:
            entries = sorted(os.scandir(place), key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries:
            seen += 1
            if seen > _MOST_FILES:
                return
            if entry.is_dir(follow_symlinks=False):
                if prefix.count(":") < _DEEPEST:
                    waiting.append((entry.path, f"{prefix}{entry.name}:"))
            elif entry.name.endswith(suffix):
                name = prefix + entry.name.removesuffix(suffix)
                text = read_text(entry.path) if _NAME.fullmatch(name) else ""
                if text.strip():
                    yield name, text


def _choice(place: CommandFiles, name: str, text: str) -> CommandChoice | None:
    if place.suffix == ".toml":
        try:
            data = tomllib.loads(text)
        except tomllib.TOMLDecodeError:
            return None
        about, prompt = data.get("description", ""), data.get("prompt", "")
        if not isinstance(about, str) or not isinstance(prompt, str):
            return None
    else:
        match = _FRONT.match(text)
        front, prompt = (match["front"], match["text"]) if match else ("", text)
        described = _DESCRIPTION.search(front)
        about = described["text"].strip().strip("\"'") if described else prompt.strip().partition("\n")[0]
    if place.is_taken:
        return _taken(name, about)
    return CommandChoice("template", name, _short(about), prompt.strip())
