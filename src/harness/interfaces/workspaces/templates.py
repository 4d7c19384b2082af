"""Templates of prompts: the user's own, those of a project, and a few that come with Harness.

A template is a Markdown file in `prompts/` of the settings folder, or in `.harness/prompts/` of a project. Its name is
that of the file; its first line, if that is a heading, describes it.
"""

from __future__ import annotations

import os
import re
import stat
from typing import NamedTuple

from harness.config import config_directory
from harness.interfaces.changes.repository import find_repository

PROJECT_FOLDER = os.path.join(".harness", "prompts")
USER_FOLDER = "prompts"
_MOST_BYTES = 20_000
_MOST_TEMPLATES = 200
_NAME = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]{0,59})\.md")


class PromptTemplate(NamedTuple):
    name: str
    description: str
    text: str


_BUILT_IN = (
    PromptTemplate(
        "explain",
        "What this project does and how it is built",
        "Explain what this project does, how it is built and where to begin reading. Change nothing.",
    ),
    PromptTemplate(
        "fix-tests",
        "Run the tests and repair what fails",
        "Run the tests. Find out why each failing one fails, repair the cause and not the test, and run them again.",
    ),
    PromptTemplate(
        "review",
        "Look at what is not committed",
        "Review what is not committed: mistakes first, then what is missing, then style. Change nothing.",
    ),
)


def templates(folder: str) -> list[PromptTemplate]:
    """By name; a project's own replace the user's, and these the built-in ones."""
    found = {template.name: template for template in _BUILT_IN}
    repository = find_repository(folder) if folder else None
    project = repository.top if repository is not None else folder
    places = [os.path.join(config_directory(), USER_FOLDER)]
    places += [os.path.join(project, PROJECT_FOLDER)] if project else []
    for place in places:
        found |= {template.name: template for template in _in_folder(place)}
    return sorted(found.values())


def _in_folder(place: str) -> list[PromptTemplate]:
    try:
        names = sorted(os.listdir(place))[:_MOST_TEMPLATES]
    except OSError:
        return []
    found = (
        (match["name"], read_text(os.path.join(place, name)))
        for name in names
        if (match := _NAME.fullmatch(name))
    )
    return [_template(name, text) for name, text in found if text.strip()]


def _template(name: str, text: str) -> PromptTemplate:
    first, _, rest = text.strip().partition("\n")
    if first.startswith("# ") and rest.strip():
        return PromptTemplate(name, first[2:].strip()[:200], rest.strip())
    return PromptTemplate(name, first[:200], text.strip())


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
