"""What a person sees of what is trusted, and the names under which it is recorded."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.approvals.trust import FolderTrust

FLEET_MARK = "fleet:"
"""Before the path of a plan, in the record of what is trusted."""


def folder_lines(folders: list[FolderTrust]) -> list[str]:
    """What agents would start and allow by what a folder brings, each thing once."""
    from harness.approvals.settings_text import sentences

    lines: dict[str, list[str]] = {}
    for trust in folders:
        for line in sentences(trust.settings):
            lines.setdefault(line, []).append(trust.agent)
    shown_lines = [f"  {line}  [{', '.join(agents)}]" for line, agents in lines.items()]
    changes = dict.fromkeys(change for trust in folders for change in trust.changes)
    if changes:
        shown_lines += ["changed since it was trusted:", *(f"  {visible(change)}" for change in changes)]
    return [f"{folders[0].settings.folder} brings settings for agents:", *shown_lines] if folders else []


def visible(text: str) -> str:
    """With everything written out that a terminal would hide or obey: what is shown must be what is trusted."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


def fleet_key(path: str) -> str:
    """Under which a plan of a fleet is trusted (`harness fleet run`)."""
    return f"{FLEET_MARK}{os.path.realpath(path)}"
