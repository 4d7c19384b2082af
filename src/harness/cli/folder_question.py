"""Asking a person in the terminal about settings that a folder brings, before an agent is started on them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, cast

from harness.cli.console import Console, can_answer, is_terminal, open_terminal
from harness.errors import UsageError

if TYPE_CHECKING:
    from harness.contracts.agent import Agent
    from harness.contracts.request import FolderSettingsUse

USES = ("use", "none")
FOLDER_SETTINGS_HELP = (
    "obey settings that the folder brings (hooks, servers, plugins), or leave them out (default: obeyed if the folder is "
    "trusted, see `harness trust`, or with full access)"
)
_QUESTION = "Trust them as they are now (t), run without them (w), or cancel (c)? "


def settle(agent: Agent, folder: str, permissions: str, wish: str, console: Console) -> FolderSettingsUse:
    """What `Request.folder_settings` is to be. Nobody is asked with full access, nor where nobody can answer.

    Raises UsageError when the person cancels.
    """
    from harness.approvals.trust import judge, trust_folder
    from harness.contracts.request import OWN_AGENT

    is_other = agent.work is not None and agent.name != OWN_AGENT
    if wish or permissions == "full-access" or is_other or not can_answer():
        return cast("FolderSettingsUse", wish)
    trust = judge(folder or os.getcwd(), agent.name, agent.obeys)
    if not trust.is_open:
        return ""
    from harness.cli.trust_text import folder_lines

    for line in folder_lines([trust]):
        console.say(line)
    answer = _answer(console)
    if answer == "t":
        trust_folder(trust)
        return ""
    if answer == "w":
        return "none"
    raise UsageError("cancelled: nothing was started", hint="--folder-settings none starts it without them")


def _answer(console: Console) -> str:
    """`t`, `w` or `c`; whoever says nothing cancels."""
    descriptor = 0 if is_terminal(0) else open_terminal()
    try:
        for _ in range(3):
            console.put(_QUESTION)
            answer = _line(descriptor).strip().lower()[:1]
            if answer in ("t", "w", "c"):
                return answer
    finally:
        if descriptor:
            os.close(descriptor)
    return "c"


def _line(descriptor: int) -> str:
    """One byte after the other: what follows is for the run."""
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(descriptor, 1)
        if not byte:
            return "c"
        line += byte
    return line.decode("utf-8", "replace")
