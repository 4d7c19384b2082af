"""What `/` completes in a prompt: templates of prompts, and the slash commands of an agent.

A template is a Markdown file in `prompts/` of the settings folder, or in `.harness/prompts/` of a project. Its name is
that of the file; its first line, if that is a heading, describes it.

The commands of an agent are those that it has listed in its stream, recognised by the key of the list, and those in
the files that `Agent.command_files` names.
"""

from __future__ import annotations

import os
import re
import stat
import tomllib
from collections.abc import Iterable, Iterator
from typing import Any, Literal

import msgspec

from harness.clients.changes.repository import find_repository
from harness.clients.custom_commands import custom_commands
from harness.config import config_directory
from harness.contracts.agent import Agent, CommandFiles
from harness.contracts.request import OWN_AGENT
from harness.log.raw import RawOutput, read_raw

PROJECT_FOLDER = os.path.join(".harness", "prompts")
USER_FOLDER = "prompts"
_MOST_BYTES = 20_000
_MOST_TEMPLATES = 200
_FILE_NAME = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]{0,59})\.md")


class CommandChoice(msgspec.Struct, frozen=True):
    kind: Literal["template", "command"]
    """`template`: `text` is the prompt; `command`: the agent knows it by its name."""
    name: str
    description: str
    text: str


_BUILT_IN = (
    CommandChoice(
        "template",
        "explain",
        "What this project does and how it is built",
        "Explain what this project does, how it is built and where to begin reading. Change nothing.",
    ),
    CommandChoice(
        "template",
        "fix-tests",
        "Run the tests and repair what fails",
        "Run the tests. Find out why each failing one fails, repair the cause and not the test, and run them again.",
    ),
    CommandChoice(
        "template",
        "review",
        "Look at what is not committed",
        "Review what is not committed: mistakes first, then what is missing, then style. Change nothing.",
    ),
)


def templates(folder: str) -> list[CommandChoice]:
    """By name; a project's own replace the user's, and these the built-in ones."""
    templates_by_name = {template.name: template for template in _BUILT_IN}
    repository = find_repository(folder) if folder else None
    project = repository.top if repository is not None else folder
    places = [os.path.join(config_directory(), USER_FOLDER)]
    places += [os.path.join(project, PROJECT_FOLDER)] if project else []
    for place in places:
        templates_by_name |= {template.name: template for template in _in_folder(place)}
    return sorted(templates_by_name.values(), key=lambda template: template.name)


def _in_folder(place: str) -> list[CommandChoice]:
    try:
        names = sorted(os.listdir(place))[:_MOST_TEMPLATES]
    except OSError:
        return []
    in_folder = (
        (match["name"], read_text(os.path.join(place, name)))
        for name in names
        if (match := _FILE_NAME.fullmatch(name))
    )
    return [_template(name, text) for name, text in in_folder if text.strip()]


def _template(name: str, text: str) -> CommandChoice:
    first, _, rest = text.strip().partition("\n")
    if first.startswith("# ") and rest.strip():
        return CommandChoice("template", name, first[2:].strip()[:200], rest.strip())
    return CommandChoice("template", name, first[:200], text.strip())


def read_text(path: str) -> str:
    """The text of a regular file: nothing else is opened, and no link is followed."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return ""
    with os.fdopen(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return ""
        return file.read(_MOST_BYTES).decode("utf-8", "replace")


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
    if agent is not None and agent.name == OWN_AGENT:
        return _own_commands(folder)
    commands = {name: _taken(name, about) for name, about in _listed(raw_path)} if raw_path else {}
    for place in agent.command_files if agent is not None else ():
        for path in _places(place, folder):
            for name, text in _files(path, place.suffix):
                choice = _choice(place, name, text)
                if choice is not None and (name not in commands or not commands[name].description):
                    commands[name] = choice
    return sorted(commands.values(), key=lambda choice: choice.name)[:_MOST_COMMANDS]


def _own_commands(folder: str) -> list[CommandChoice]:
    """Of the built-in agent: as it would take them, so that those of a folder count only if that is trusted."""
    own = {
        command.name: _taken(command.name, command.description)
        for command in custom_commands(folder).values()
    }
    compact = _taken("compact", "Sum up the conversation, which makes room; what follows says what matters")
    return sorted({compact.name: compact, **own}.values(), key=lambda choice: choice.name)[:_MOST_COMMANDS]


def _taken(name: str, description: str) -> CommandChoice:
    return CommandChoice("command", name, _short(description), "")


def _short(text: str) -> str:
    return " ".join(text.split())[:_LONGEST_DESCRIPTION]


def _listed(raw_path: str) -> Iterator[tuple[str, str]]:
    """What the agent listed last in the beginning of its record: names and descriptions."""
    names: dict[str, str] = {}
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
                    about_command = dict(_named(line))
                    names = {
                        **names,
                        **{name: about_command[name] or names.get(name, "") for name in about_command},
                    }
    except OSError:  # an agent in this process has no record
        return
    yield from names.items()


def _named(line: bytes) -> Iterator[tuple[str, str]]:
    try:
        record = msgspec.json.decode(line)
    except msgspec.DecodeError:
        return
    for listing in _lists_in(record, 6):
        for command in listing[:_MOST_COMMANDS]:
            name = command.get("name") if isinstance(command, dict) else command
            about = command.get("description") if isinstance(command, dict) else ""
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
    count = 0
    while waiting:
        place, prefix = waiting.pop()
        try:
            entries = sorted(os.scandir(place), key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries:
            count += 1
            if count > _MOST_FILES:
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
