"""Files by which a program's user has allowed it commands: it runs them unasked, whatever it is told when it starts.

Codex writes one with each "do not ask again", and what it allows runs outside its sandbox, in every mode; Goose does so
with each "always allow". So where somebody is to be asked, or nothing may run, they are hidden from it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from glob import escape, glob

from msgspec.structs import replace

from harness.contracts.agent import Agent, UserGrants
from harness.contracts.request import Request
from harness.errors import HarnessError, UsageError
from harness.runs.environment_paths import places_of
from harness.runs.folder_trust import FolderUse
from harness.sandbox.wall import Wall

_HOLDS_NOTHING = frozenset({"full-access", "agent-default"})


def without_grants(agent: Agent, request: Request, environ: Mapping[str, str], use: FolderUse) -> FolderUse:
    """The same, with a wall that hides them. Raises UsageError where none can."""
    if agent.grants is None or request.permissions in _HOLDS_NOTHING or request.recording:
        return use
    paths = list(dict.fromkeys(_granting(agent.grants, request.cwd, {**environ, **request.env})))
    if not paths:
        return use
    _require_hiding(agent, paths[0], environ)
    wall = use.wall or Wall(confines=False, network="host")
    notice = (
        f"{', '.join(paths)}: not used, since {agent.title} would run what is allowed there without asking"
    )
    return use._replace(warnings=(*use.warnings, notice), wall=replace(wall, blank=(*wall.blank, *paths)))


def _granting(grants: UserGrants, cwd: str, environ: Mapping[str, str]) -> Iterator[str]:
    for name in grants.files:
        for place in places_of(os.path.dirname(name), environ, cwd):
            for path in sorted(glob(os.path.join(escape(place), os.path.basename(name)))):
                if _grants_something(path, grants):
                    yield os.path.realpath(path)


def _grants_something(path: str, grants: UserGrants) -> bool:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read()
    except OSError:
        return True  # who knows
    return len(re.findall(grants.rule, text)) > len(re.findall(grants.harmless, text))


def _require_hiding(agent: Agent, path: str, environ: Mapping[str, str]) -> None:
    from harness.sandbox.ladder import find_sandbox

    try:
        find_sandbox(environ, hides=True)
    except HarnessError as error:
        raise UsageError(
            f"{agent.title} runs what {path} allows without asking, and that cannot be hidden from it here: {error.message}",
            hint="install bubblewrap or allow user namespaces, or take the rules out of that file that allow something",
        ) from error
