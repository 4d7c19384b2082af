"""Whether the user trusts the settings that a folder brings for an agent: exactly these, and until they change.

Trust is bound to the real path of the folder, to the agent, and to what its files say. A linked worktree, and a copy
that a fleet makes, are trusted if the folder they come from is and has the same content.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from harness import config
from harness.approvals.folder_settings import FolderSettings, look
from harness.approvals.protected import HEEDS_FILES_ALONE, OBEYED
from harness.config.repositories import repository_of
from harness.config.trust import read_record
from harness.errors import HarnessError
from harness.system import exact_json

TrustState: TypeAlias = Literal["nothing", "trusted", "new", "changed"]
"""`nothing`: the folder brings nothing that the agent obeys; `changed`: it was trusted as it was then."""
_MOST_NAMED = 4


class FolderTrust(msgspec.Struct, frozen=True, kw_only=True):
    agent: str
    state: TrustState
    settings: FolderSettings
    changes: tuple[str, ...] = ()
    """What has changed since it was trusted: `+ name`, `- name`, `~ name`."""

    @property
    def is_open(self) -> bool:
        """Whether someone has to say whether it is trusted."""
        return self.state in ("new", "changed")

    @property
    def names(self) -> str:
        """The files, in a few words."""
        names = [*self.settings.contents, *(f".git/config ({setting.name})" for setting in self.settings.git)]
        tops = list(dict.fromkeys(names))
        more = f" and {len(tops) - _MOST_NAMED} more" if len(tops) > _MOST_NAMED else ""
        return ", ".join(tops[:_MOST_NAMED]) + more


class TrustedFolder(NamedTuple):
    folder: str
    agent: str
    state: str
    """`trusted`, `changed since, not trusted` or `deleted`."""


def judge(folder: str, agent: str, names: Sequence[str] = (), origin: str = "") -> FolderTrust:
    """`names`: of an agent that is not in the table; `origin`: the folder that this one is a copy of."""
    settings = look(folder, names or OBEYED.get(agent, ()))
    if settings.is_empty or (agent in HEEDS_FILES_ALONE and not settings.contents):
        return FolderTrust(agent=agent, state="nothing", settings=settings)
    records = _records()
    digest = settings.digest
    for place in filter(None, (settings.folder, _repository_of(settings.folder), origin)):
        record = records.get((os.path.realpath(place), agent))
        if record is not None and record["digest"] == digest and settings.is_whole:
            return FolderTrust(agent=agent, state="trusted", settings=settings)
    before = records.get((settings.folder, agent))
    if before is None:
        return FolderTrust(agent=agent, state="new", settings=settings)
    changes = _differences(before["files"], settings.files)
    return FolderTrust(agent=agent, state="changed", settings=settings, changes=changes)


def trust_folder(trust: FolderTrust) -> None:
    """Trust what was looked at, and nothing that came since. Raises HarnessError."""
    settings = trust.settings
    if not settings.is_whole:
        raise HarnessError(
            f"{settings.folder} brings more settings than can be shown, so that they cannot be trusted",
            hint="say --folder-settings use for one run, or leave files out",
        )
    record = {
        "folder": settings.folder,
        "agent": trust.agent,
        "digest": settings.digest,
        "files": settings.files,
    }
    content, _problem = read_record(config.trust_file())
    others = [folder for folder in content["folders"] if (folder["folder"], folder["agent"]) != _key(record)]
    write_record({**content, "folders": [*others, record]})


def revoke_folder(folder: str) -> list[str]:
    """For all agents. The names of those for which it was trusted."""
    real = os.path.realpath(folder)
    content, _problem = read_record(config.trust_file())
    agents = [entry["agent"] for entry in content["folders"] if entry["folder"] == real]
    if agents:
        write_record(
            {**content, "folders": [entry for entry in content["folders"] if entry["folder"] != real]}
        )
    return agents


def trusted_folders() -> list[TrustedFolder]:
    """All that were ever trusted and not revoked, and whether they still are."""
    rows = []
    for folder, agent in sorted(_records()):
        state = judge(folder, agent).state if os.path.isdir(folder) else "deleted"
        trust = "trusted" if state == "trusted" else "changed since, not trusted"
        rows.append(TrustedFolder(folder, agent, state if state == "deleted" else trust))
    return rows


def write_record(content: dict[str, Any]) -> None:
    """Raises HarnessError."""
    from harness.log.private_files import make_private_directory, replace_private

    path = config.trust_file()
    try:
        make_private_directory(os.path.dirname(path))
        replace_private(path, exact_json.encode(content, indent=2) + b"\n")
    except OSError as error:
        raise HarnessError(f"cannot write {path}: {error.strerror}") from error


def _records() -> dict[tuple[str, str], dict[str, Any]]:
    content, _problem = read_record(config.trust_file())
    return {_key(folder): folder for folder in content["folders"]}


def _key(record: dict[str, Any]) -> tuple[str, str]:
    return record["folder"], record["agent"]


def _repository_of(folder: str) -> str:
    """Of a linked worktree, the folder in its repository that corresponds to this one; empty of others."""
    place = repository_of(folder)
    if not place.worktree:
        return ""
    top = folder
    while not os.path.isfile(os.path.join(top, ".git")):
        top = os.path.dirname(top)
    return os.path.normpath(os.path.join(place.root, os.path.relpath(folder, top)))


def _differences(before: dict[str, str], now: dict[str, str]) -> tuple[str, ...]:
    marks = {name: "+" if name not in before else "~" for name in now if before.get(name) != now[name]}
    marks |= {name: "-" for name in before if name not in now}
    return tuple(f"{mark} {name}" for name, mark in sorted(marks.items()))
