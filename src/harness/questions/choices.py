"""What a question for permission offers: the choices with all that each of them grants, and a preview of the change.

Both are part of the question in the log, so that a client can say what a button grants before it is pressed, and what
is granted is what was shown, also when the answer comes in another process. Nothing else is ever granted.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import Any

from harness.approvals.grants import choices_for, rule_of
from harness.approvals.rules import Rule
from harness.approvals.work_folder import WorkFolder
from harness.contracts.tool import (
    FileChange,
    Previewing,
    Tool,
    ToolContext,
    ToolFailure,
    ToolPermission,
    category_of,
    derived_permission,
)
from harness.errors import UsageError
from harness.events import Operation, Relay, RelayChoice, RelayReply
from harness.formatting.escapes import revealed
from harness.questions.permissions import proposed_call
from harness.questions.permissions import rule_of as rule_of_permission

_LONGEST_VALUE = 200


def choices_of(
    tool: Tool,
    arguments: dict[str, Any],
    operations: Sequence[Operation],
    folder: WorkFolder,
    *,
    is_lasting: bool = True,
) -> list[RelayChoice]:
    """The choices for one call of a tool: for a command as for any agent, else what the tool itself says of "always".

    `is_lasting`: whether "always" would have an effect.
    """
    call = proposed_call(tool.spec.name, arguments, operations, category_of(tool))
    permission = permission_of(tool, arguments)
    rule = rule_of_permission(permission)
    return choices_for([call], folder, rule, label_of(permission), is_lasting=is_lasting)


def granted(relay: Relay, reply: RelayReply, tool: Tool | None) -> list[Rule]:
    """What an answer allows from now on. A question of an older log has no choices: they are derived now."""
    choice = _chosen(relay, reply)
    if choice is not None:
        return [rule_of(grant) for grant in choice.grants]
    if not reply.always or tool is None or relay.choices:
        return []
    return [rule_of_permission(permission_of(tool, relay.input if isinstance(relay.input, dict) else {}))]


def check_choice(relay: Relay, reply: RelayReply) -> None:
    """Raises UsageError for an answer that the question does not offer."""
    if relay.kind != "permission":
        if reply.always or reply.choice:
            raise UsageError("this is no question for permission", hint="answer what it asks for")
        return
    if not reply.choice:
        if reply.approved and reply.always and relay.choices is not None and _chosen(relay, reply) is None:
            raise UsageError("this cannot be allowed for always", hint="allow it once, or refuse it")
        return
    choice = _chosen(relay, reply)
    if choice is None:
        choice_ids = ", ".join(option.id for option in relay.choices or ())
        raise UsageError(f"unknown choice: {reply.choice!r}", hint=f"one of: {choice_ids or 'none'}")
    if reply.approved is (choice.kind == "reject-once"):
        raise UsageError(f"{choice.id!r} means the opposite of the answer", hint="choose another one")


def permission_of(tool: Tool, arguments: dict[str, Any]) -> ToolPermission:
    """What "always" means for a call, as its tool says. A permission that names another tool is ignored."""
    try:
        permission = tool.permission(arguments)
    except Exception:  # noqa: BLE001 # arguments are as the model wrote them
        permission = derived_permission(tool.spec.name, arguments)
    if permission.tool != tool.spec.name:
        return derived_permission(tool.spec.name, arguments)
    return permission


_SUBJECTS = frozenset({"command", "file_path", "filePath", "path", "notebook_path", "absolute_path"})
"""Arguments that need no name in front of them."""


def label_of(permission: ToolPermission) -> str:
    """What a permission allows, as text."""
    name = revealed(permission.tool)
    if permission.params is None:
        return f"{name} without arguments" if permission.closed else f"{name}, whatever its arguments"
    bound = {argument: glob for argument, glob in permission.params.items() if glob != "*"}
    if len(bound) == 1 and (subject := next(iter(bound))) in _SUBJECTS:
        return f"{name}: {_shown_glob(bound[subject])}"
    arguments_listed = ", ".join(
        f"{_shown(argument)}: {_shown_glob(glob)}" for argument, glob in bound.items()
    )
    return f"{name} with {arguments_listed}" if arguments_listed else f"{name}, whatever its arguments"


def _chosen(relay: Relay, reply: RelayReply) -> RelayChoice | None:
    for choice in relay.choices or ():
        if reply.choice:
            if choice.id == reply.choice:
                return choice
        elif reply.always and choice.kind == "allow-always":
            return choice
    return None


_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_STARS = re.compile(r"(?<!\\)\*+$")


def _shown_glob(glob: str) -> str:
    """A glob as people read it: what may follow is `…`."""
    return _shown(_ESCAPED.sub(r"\1", _STARS.sub("…", glob)))


def _shown(text: str) -> str:
    shown_text = revealed(text, is_line=True)
    if len(shown_text) <= _LONGEST_VALUE:
        return shown_text
    return (
        f"{shown_text[:_LONGEST_VALUE]}… ({len(shown_text) - _LONGEST_VALUE} more characters, as in the call)"
    )


MOST_LINES = 400
"""How many lines of differences are shown for one call; the number of the others is stated."""
MOST_CHARACTERS = 40_000
_LONGEST_LINE = 2_000
_MOST_COMPARED_LINES = 20_000
"""Comparing is quadratic at worst: a longer text counts as replaced as a whole."""


async def preview_of(
    tool: Tool, arguments: dict[str, Any], context: ToolContext
) -> list[dict[str, Any]] | None:
    """None when the call changes no file. Raises what prevents the call."""
    try:
        tool.operations(arguments)
    except ToolFailure:
        raise
    except Exception:  # noqa: BLE001, S110 # what it does is unknown: the user is asked
        pass
    if not isinstance(tool, Previewing):
        return None
    changes, room = await tool.preview(arguments, context), _Room()
    return [_shown_change(change, room) for change in changes] or None


class _Room:
    """What is left to show."""

    def __init__(self) -> None:
        self.lines = MOST_LINES
        self.characters = MOST_CHARACTERS

    def take(self, line: str) -> bool:
        if self.lines <= 0 or self.characters < len(line):
            self.lines = 0
            return False
        self.lines -= 1
        self.characters -= len(line)
        return True


def _shown_change(change: FileChange, room: _Room) -> dict[str, Any]:
    before, after = _lines(change.before), _lines(change.after)
    differences = _differences(before, after)
    shown_lines = [line for line in differences if room.take(line)]
    kind = "create" if change.before is None else "delete" if change.after is None else "update"
    return {
        "path": change.path,
        "change": kind,
        "added": sum(line.startswith("+") for line in differences),
        "removed": sum(line.startswith("-") for line in differences),
        "diff": "\n".join(shown_lines),
        "hidden_lines": len(differences) - len(shown_lines),
    }


def _lines(text: str | None) -> list[str]:
    return [] if not text else text.removesuffix("\n").split("\n")


def _differences(before: list[str], after: list[str]) -> list[str]:
    """As in a unified diff, from its first hunk on."""
    if not before or not after or len(before) + len(after) > _MOST_COMPARED_LINES:
        lines = [*(f"-{line}" for line in before), *(f"+{line}" for line in after)]
    else:
        lines = list(difflib.unified_diff(before, after, lineterm="", n=3))[2:]
    return [line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]}…" for line in lines]
