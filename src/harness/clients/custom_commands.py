"""Commands of the user's own (`.harness/commands/review.md` is `/review`), for every way in to the built-in agent."""

from __future__ import annotations

from collections.abc import Mapping

from harness.contracts.request import FolderSettingsUse
from harness.native.additions.commands import CustomCommand, expanded, typed_command
from harness.native.additions.places import find_additions


def custom_commands(cwd: str, use: FolderSettingsUse = "") -> Mapping[str, CustomCommand]:
    """By name, without the slash. A command of a folder counts as long as it is what the user trusts."""
    return find_additions(cwd, use).commands


def expanded_prompt(prompt: str, cwd: str, use: FolderSettingsUse = "") -> str:
    """The prompt that a typed command stands for; every other text as it is. Raises UsageError."""
    typed = typed_command(prompt)
    if typed is None:
        return prompt
    command = custom_commands(cwd, use).get(typed[0])
    return prompt if command is None else expanded(command, typed[1])
