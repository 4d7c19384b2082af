"""`skill`: instructions for particular tasks, stored as folders with a SKILL.md.

They are searched in `skills` next to the user's config.toml, in `~/.claude/skills`, and in `.claude/skills`
and `.harness/skills` of the project. A folder whose SKILL.md does not begin with a name and a description
between two `---` lines is skipped. Of two skills with the same name the first counts, so that a project
cannot replace the user's instructions.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from harness.approvals.globs import escaped
from harness.config import config_directory
from harness.contracts.tool import Tool, ToolContext, ToolFailure, ToolOutput, ToolPermission
from harness.contracts.tool_arguments import Arguments, spec, take
from harness.events import Operation
from harness.events.operation import Skill
from harness.native.additions.front_matter import front_matter, text_of
from harness.workspace.files import as_tool_failure, decode, lines_of, read_all
from harness.workspace.roots import ToolWorkspace

MOST_SKILLS = 100
MOST_BYTES = 256 * 1024
LONGEST_DESCRIPTION = 1024
FILE_NAME = "SKILL.md"
_PROJECT_FOLDERS = (".claude/skills", ".harness/skills")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_DESCRIPTION = (
    "Load the instructions of a skill when the task is one of those it is described for. Paths in them are "
    "relative to its folder."
)


class FoundSkill(msgspec.Struct, frozen=True):
    name: str
    description: str
    path: str
    """The real path of its SKILL.md."""


def find_skills(workspace: ToolWorkspace) -> list[FoundSkill]:
    """All usable skills; malformed ones are skipped."""
    skills: dict[str, FoundSkill] = {}
    for folder, is_of_project in _folders(workspace):
        for path in _skill_files(folder):
            # A link in the project must not make the user's files readable.
            if is_of_project and not path.startswith(f"{workspace.root}/"):
                continue
            skill = _read(path)
            if skill is not None and len(skills) < MOST_SKILLS:
                skills.setdefault(skill.name, skill)
    return list(skills.values())


def _folders(workspace: ToolWorkspace) -> Iterator[tuple[str, bool]]:
    yield os.path.join(config_directory(), "skills"), False
    yield os.path.expanduser("~/.claude/skills"), False
    for name in _PROJECT_FOLDERS:
        yield os.path.join(workspace.root, name), True


def _skill_files(folder: str) -> list[str]:
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    skills = [os.path.realpath(os.path.join(folder, name)) for name in names]
    files = [os.path.join(skill, FILE_NAME) for skill in skills]
    # A link here would make the folder that it points to readable.
    return [file for file in files if not os.path.islink(file)]


def _read(path: str) -> FoundSkill | None:
    try:
        text = decode(read_all(path, MOST_BYTES), path).text
    except (OSError, ValueError, ToolFailure):
        return None
    fields, _ = front_matter(text)
    name, description = text_of(fields, "name"), text_of(fields, "description")
    if not _NAME.fullmatch(name) or not description or len(description) > LONGEST_DESCRIPTION:
        return None
    return FoundSkill(name, description.encode("utf-8", "replace").decode(), path)


class SkillArguments(Arguments, frozen=True, kw_only=True):
    aliases: ClassVar[Mapping[str, str]] = dict.fromkeys(("skill", "skill_name", "command"), "name")
    name: Annotated[str, Meta(description="one of the available skills")]


class SkillTool(Tool):
    category = "read"

    def __init__(self, skills: Sequence[FoundSkill], workspace: ToolWorkspace) -> None:
        """Allows `workspace` to read the files of the skills."""
        self.spec = spec("skill", f"{_DESCRIPTION}\n{_listed(skills)}", SkillArguments)
        self._skills = {skill.name: skill for skill in skills}
        for skill in skills:
            workspace.allow_reading(os.path.dirname(skill.path))

    def operations(self, arguments: dict[str, Any]) -> Sequence[Operation]:
        name = take(SkillArguments, arguments, "skill").name
        skill = self._skills.get(name)
        return [Skill(path=skill.path if skill else "", name=name)]

    def permission(self, arguments: dict[str, Any]) -> ToolPermission:
        return ToolPermission("skill", {"name": escaped(take(SkillArguments, arguments, "skill").name)})

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        del context
        name = take(SkillArguments, arguments, "skill").name
        skill = self._skills.get(name)
        if skill is None:
            raise ToolFailure(f"there is no skill {name!r} (there are: {', '.join(self._skills) or 'none'})")
        with as_tool_failure(skill.path):
            text = decode(read_all(skill.path, MOST_BYTES), skill.path).text
        folder, count = os.path.dirname(skill.path), len(lines_of(text))
        lines_read = Skill(path=skill.path, name=name, start_line=1, end_line=count)
        return ToolOutput(
            text=f'<skill name="{name}" folder="{folder}">\n{text.rstrip()}\n</skill>',
            operations=[lines_read],
        )


def _listed(skills: Sequence[FoundSkill]) -> str:
    entries = "".join(
        f"<skill><name>{skill.name}</name><description>{escape(skill.description)}</description>"
        f"<location>{escape(skill.path)}</location></skill>\n"
        for skill in skills
    )
    return f"<available_skills>\n{entries}</available_skills>"
