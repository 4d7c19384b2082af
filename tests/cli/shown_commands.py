"""Command lines as documents show them: which are of Harness, and whether it takes them."""

from __future__ import annotations

import re
import shlex

from harness.cli import parser
from harness.errors import UsageError

_LINE = re.compile(r"^(?:\$ |# )?(?:\.venv/bin/)?harness (.+)$", re.MULTILINE)
_END = re.compile(r"\s(?:[|>&#]|   ).*|;.*")
"""What does not belong to the command any more: pipes, comments, a second column."""


def commands_in(text: str) -> list[str]:
    """What stands behind `harness`, for each line that begins with it."""
    return [bare_command(line) for line in _LINE.findall(text)]


def bare_command(line: str) -> str:
    return _END.sub("", line).strip(" []").replace(" [", " ")


def is_accepted(command: str) -> bool:
    """Also the name of a command alone, whatever else it needs."""
    name, *rest = shlex.split(command, comments=True)
    if name.startswith("-") or name == "COMMAND":
        return name in ("--help", "--version", "COMMAND")
    if "--help" in rest or not rest:
        return name in parser.names()
    actions = getattr(parser.load(name), "ACTIONS", {})
    if rest[0] in actions and len(rest) == 1:
        return True
    try:
        parser.parse(name, rest, verbose=False, color="auto")
    except UsageError as error:
        return "required" in error.message
    return True
