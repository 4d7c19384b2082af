"""Commands of a person's own: prompts in files, with places for what is typed after the name.

.harness/commands/review.md       /review src/api.py
"""

from __future__ import annotations

import re

import msgspec

from harness.errors import UsageError
from harness.native.additions.front_matter import front_matter, text_of

_PLACE = re.compile(r"\$(ARGUMENTS|[1-9])")
_SHELL = re.compile(r"!`([^`\n]+)`")
_TYPED = re.compile(r"/([A-Za-z0-9][\w:./-]*)(?:\s+(.*))?", re.DOTALL)


class CustomCommand(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    description: str
    body: str
    argument: str = ""
    """What is typed after it, for lists."""
    agent: str = ""
    """The kind of sub-agent that it is for; empty: none."""
    origin: str = ""
    """The file."""


def read_command(path: str, name: str, text: str) -> CustomCommand | None:
    """`name`: of the file below its folder. None for a file without a prompt."""
    fields, body = front_matter(text)
    if not body.strip():
        return None
    first = next((line.strip("# ").strip() for line in body.split("\n") if line.strip("# ").strip()), "")
    return CustomCommand(
        name=name.replace("/", ":"),
        description=text_of(fields, "description") or first[:100],
        body=body,
        argument=text_of(fields, "argument-hint"),
        agent=text_of(fields, "agent") if text_of(fields, "subtask") != "false" else "",
        origin=path,
    )


def typed_command(text: str) -> tuple[str, str] | None:
    """The name and what follows it; None for a text that is no command."""
    match = _TYPED.fullmatch(text.strip())
    return (match[1].replace("/", ":"), (match[2] or "").strip()) if match is not None else None


def expanded(command: CustomCommand, argument: str) -> str:
    """The prompt that it stands for.

    A command line in it (`` !`git status` ``) is not run here: the model is asked to, so that permissions hold for it as for
    every other. Raises UsageError for a quote that is not closed.
    """
    from shlex import split

    try:
        words = split(argument)
    except ValueError as error:
        if "$1" in command.body:
            hint = "close the quote, or leave it out"
            raise UsageError(f"/{command.name}: {str(error).lower()}", hint=hint) from error
        words = argument.split()

    def place(match: re.Match[str]) -> str:
        if match[1] == "ARGUMENTS":
            return argument
        number = int(match[1])
        return words[number - 1] if number <= len(words) else ""

    lines = _SHELL.findall(command.body)
    # What a person types is put in last: nothing in it is a command line of the file.
    text = _PLACE.sub(place, _SHELL.sub(r"(what `\1` prints)", command.body))
    if not _PLACE.search(command.body) and argument:
        text = f"{text}\n\n{argument}"
    if lines:
        commands = "\n".join(f"- `{line}`" for line in dict.fromkeys(lines))
        text = f"First run these commands, and use what they print:\n{_PLACE.sub(place, commands)}\n\n{text}"
    if command.agent:
        text = f"Give this to a sub-agent of the type {command.agent}:\n\n{text}"
    return text
