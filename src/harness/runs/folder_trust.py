"""Settings that a folder brings, when an agent program is started in it: used, left out, or a reason to refuse.

| the folder's settings | full access | every other mode |
|---|---|---|
| none, or trusted (`harness trust`), or `--folder-settings use` | used | used |
| not trusted | used, as without us; a warning says so | left out by the agent's own means, or by a wall; else refused |
| `--folder-settings none` | left out | left out |

Who can ask a person does so before the run begins (`approvals.trust.judge`); here nobody is asked.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from shlex import quote
from typing import NamedTuple

from harness.approvals.trust import FolderTrust, judge
from harness.contracts.agent import Agent
from harness.contracts.request import FolderSettingsUse, Request
from harness.errors import HarnessError, UsageError
from harness.sandbox.wall import Wall

_GIT_OFF = {
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
    "core.pager": "cat",
    "diff.external": "",
    "protocol.allow": "user",
}
_NAMES_A_PROGRAM = re.compile(
    r"(filter\..*\.(clean|smudge|process)|diff\..*\.(command|textconv)|merge\..*\.driver"
    r"|core\.(sshcommand|gitproxy|askpass|editor|alternaterefscommand)|credential\.(.*\.)?helper|sequence\.editor"
    r"|gpg\.(.*\.)?program|interactive\.difffilter|remote\..*\.vcs|alias\..*|hook\..*\.(command|event)"
    r"|trailer\..*\.(command|cmd)|pager\..*)",
    re.DOTALL,
)
"""Settings that name a program, and are off when they are empty."""
_USUAL = {"uploadpack": "git-upload-pack", "receivepack": "git-receive-pack"}


class FolderUse(NamedTuple):
    settings: FolderSettingsUse = "use"
    """As it was decided: `use` also where there are none; empty: the agent does as without us."""
    warnings: tuple[str, ...] = ()
    git: Mapping[str, str] = {}
    """Variables by which git runs nothing that the repository names."""
    wall: Wall | None = None
    """What hides the settings from an agent that cannot be told to leave them out."""


def decide_use(agent: Agent, request: Request, cwd: str, environ: Mapping[str, str]) -> FolderUse:
    """Raises UsageError where the settings cannot be left out."""
    if agent.work is not None:  # it looks itself what counts
        return FolderUse(request.folder_settings)
    if request.recording:
        return FolderUse()
    trust = judge(cwd, agent.name, agent.obeys, request.copy_of)
    wish = request.folder_settings
    if trust.state == "nothing" or wish == "use" or (trust.state == "trusted" and wish != "none"):
        return FolderUse()
    if request.permissions == "full-access" and wish != "none":
        notice = f"the settings of this folder are used, though {_reason(trust)}: {trust.names}"
        return FolderUse("", (f"{notice} (--folder-settings none leaves them out)",))
    needs_wall = bool(_left_to_a_wall(agent, trust)) and not agent.leaves_settings
    hint = "" if wish == "none" else f"; `harness trust {quote(trust.settings.folder)}` shows and trusts them"
    return FolderUse(
        "none",
        (f"the settings of this folder are not used: {_reason(trust)} ({trust.names}{hint})",),
        _git_variables(trust, environ),
        _wall(agent, trust, environ) if needs_wall else None,
    )


def _left_to_a_wall(agent: Agent, trust: FolderTrust) -> list[tuple[str, str]]:
    """What the agent cannot be told to leave: folders and names."""
    return [pair for pair in trust.settings.places if pair[1] not in agent.leaves_names]


def _reason(trust: FolderTrust) -> str:
    return {"new": "it is not trusted", "changed": "they have changed since it was trusted"}.get(
        trust.state, "that was asked for"
    )


def _wall(agent: Agent, trust: FolderTrust, environ: Mapping[str, str]) -> Wall:
    """It hides the settings, and confines nothing else that the user may do. Raises UsageError where there is none."""
    from harness.sandbox.ladder import find_sandbox

    settings, hidden = trust.settings, _left_to_a_wall(agent, trust)
    places = tuple(dict.fromkeys((settings.folder, *(place for place, _name in hidden))))
    try:
        find_sandbox(environ, hides=True)
        for place, name in hidden:
            if os.path.islink(path := os.path.join(place, name)):
                raise UsageError(f"{path} is a symbolic link, over which nothing can be mounted")
    except HarnessError as error:
        raise UsageError(
            f"{settings.folder} brings settings that {agent.title} would obey ({trust.names}); {_reason(trust)}, and "
            f"they cannot be left out here: {error.message}",
            hint=f"look at them and trust them with `harness trust {quote(settings.folder)}`, or use them for this run "
            "with --folder-settings use",
        ) from error
    return Wall(
        confines=False,
        workspaces=places,
        network="host",
        settings="blank",
        protected=tuple(dict.fromkeys(name for _place, name in hidden)),
    )


def _git_variables(trust: FolderTrust, environ: Mapping[str, str]) -> dict[str, str]:
    """Settings of git over those of the repository, added to what the environment says already."""
    pairs = {**_GIT_OFF}
    for setting in trust.settings.git:
        head, _, key = setting.name.rpartition(".")
        if _NAMES_A_PROGRAM.fullmatch(setting.name):
            pairs[setting.name] = ""
        if head.startswith("filter."):
            pairs[f"{head}.required"] = "false"
        elif key in _USUAL:
            pairs[setting.name] = _USUAL[key]
    count = environ.get("GIT_CONFIG_COUNT", "")
    first = int(count) if count.isdecimal() else 0
    env = {"GIT_CONFIG_COUNT": str(first + len(pairs))}
    for number, (name, value) in enumerate(pairs.items(), first):
        env |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    return env
