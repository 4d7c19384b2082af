"""What a question for permission offers: the choices with all that each of them grants, and a preview of the change.

Both are part of the question in the log, so that a client can say what a button grants before it is pressed, and what
is granted is what was shown, also when the answer comes in another process. Nothing else is ever granted.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import Any

from harness.errors import UsageError
from harness.events import Grant, Operation, Relay, RelayChoice, RelayReply
from harness.events.operation import Command, Write
from harness.sources.formats.shell.commands import prefix_of
from harness.sources.tool import (
    FileChange,
    Previewing,
    Tool,
    ToolContext,
    ToolFailure,
    ToolPermission,
    derived_permission,
    spelled,
)
from harness.sources.tools.arguments import exactly
from harness.views.formatting.escapes import revealed

ONCE, ALWAYS, PATTERN, REJECT = "once", "always", "pattern", "reject"
_LONGEST_VALUE = 200


def choices_of(tool: Tool, arguments: dict[str, Any], operations: Sequence[Operation]) -> list[RelayChoice]:
    """The choices for one call of a tool."""
    return choices_for(permission_of(tool, arguments), operations)


def choices_for(permission: ToolPermission | None, operations: Sequence[Operation]) -> list[RelayChoice]:
    """The choices: once, always as `permission` says (if any), always a command that begins like it, or deny."""
    found = [RelayChoice(id=ONCE, kind="allow-once", label="Allow once")]
    reject = RelayChoice(id=REJECT, kind="reject-once", label="Deny")
    if permission is None:
        return [*found, reject]
    found.append(
        RelayChoice(id=ALWAYS, kind="allow-always", label=_label(permission), grants=[_grant(permission)])
    )
    if (prefix := _prefix(permission, operations)) is not None:
        name, words = prefix
        free = {argument: glob for argument, glob in (permission.params or {}).items() if glob == "*"}
        alike = [
            ToolPermission(permission.tool, {**free, name: glob}, permission.closed)
            for glob in _beginning_with(words)
        ]
        label = f"Always allow {permission.tool}: {_shown(words)} …"
        found.append(
            RelayChoice(id=PATTERN, kind="allow-always", label=label, grants=[_grant(one) for one in alike])
        )
    return [*found, reject]


def granted(relay: Relay, reply: RelayReply, tool: Tool | None) -> list[ToolPermission]:
    """What an answer allows from now on. A question of an older log has no choices: they are derived now."""
    choice = _chosen(relay, reply)
    if choice is not None:
        return [ToolPermission(one.tool, one.params, one.closed) for one in choice.grants]
    if not reply.always or tool is None:
        return []
    return [permission_of(tool, relay.input if isinstance(relay.input, dict) else {})]


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
        offered = ", ".join(one.id for one in relay.choices or ())
        raise UsageError(f"unknown choice: {reply.choice!r}", hint=f"one of: {offered or 'none'}")
    if reply.approved is (choice.kind == "reject-once"):
        raise UsageError(f"{choice.id!r} means the opposite of the answer", hint="choose another one")


def permission_of(tool: Tool, arguments: dict[str, Any]) -> ToolPermission:
    """What "always" means for a call, as its tool says. A permission that names another tool is ignored."""
    try:
        permission = tool.permission(arguments)
    except Exception:  # arguments are as the model wrote them
        permission = derived_permission(tool.spec.name, arguments)
    derived = derived_permission(tool.spec.name, arguments)
    if permission.tool != tool.spec.name:
        permission = derived
    if permission == derived and permission.params and _runs_commands(tool, arguments):
        # What begins with the same words is another choice, where they are specific enough.
        exact = {name: exactly(spelled(value)) for name, value in arguments.items()}
        return ToolPermission(permission.tool, exact, permission.closed)
    return permission


_SUBJECTS = frozenset({"command", "file_path", "filePath", "path", "notebook_path", "absolute_path"})
"""Arguments that need no name in front of them."""
_DESCRIPTIVE = frozenset({"description", "explanation", "justification", "reason", "title"})
"""Arguments with which a model says why it makes a call: they change nothing."""


def permission_of_program(
    tool: str, arguments: dict[str, Any], operations: Sequence[Operation]
) -> ToolPermission | None:
    """What "always" means for a call of an agent program's own tool: the same arguments, whatever the model says of it.

    Of a call that changes a file: any change of that file by the same tool with the same arguments at most. None: the
    call changes files, and no argument names the one.
    """
    writes = [one for one in operations if isinstance(one, Write)]
    if writes:
        names = [name for name, value in arguments.items() if len(writes) == 1 and _is_path(value, writes[0])]
        if len(names) != 1 or len(operations) != 1:
            return None
        params = dict.fromkeys(arguments, "*") | {names[0]: exactly(arguments[names[0]])}
        return ToolPermission(tool, params, closed=True)
    params = {
        name: "*" if name in _DESCRIPTIVE else exactly(spelled(value)) for name, value in arguments.items()
    }
    return ToolPermission(tool, params or None, closed=True)


def _is_path(value: object, write: Write) -> bool:
    """Whether an argument names the file: a program may name it relative to its directory."""
    return isinstance(value, str) and bool(value) and f"/{write.path}".endswith(f"/{value}")


def _runs_commands(tool: Tool, arguments: dict[str, Any]) -> bool:
    try:
        return any(isinstance(one, Command) for one in tool.operations(arguments))
    except Exception:
        return False


def label_of(permission: ToolPermission) -> str:
    """What a permission allows, as text."""
    name = revealed(permission.tool)
    if permission.params is None:
        return f"{name} without arguments" if permission.closed else f"{name}, whatever its arguments"
    bound = {argument: glob for argument, glob in permission.params.items() if glob != "*"}
    if len(bound) == 1 and (subject := next(iter(bound))) in _SUBJECTS:
        return f"{name}: {_shown_glob(bound[subject])}"
    listed = ", ".join(f"{_shown(argument)}: {_shown_glob(glob)}" for argument, glob in bound.items())
    return f"{name} with {listed}" if listed else f"{name}, whatever its arguments"


def _label(permission: ToolPermission) -> str:
    return f"Always allow {label_of(permission)}"


def _chosen(relay: Relay, reply: RelayReply) -> RelayChoice | None:
    for choice in relay.choices or ():
        if reply.choice:
            if choice.id == reply.choice:
                return choice
        elif reply.always and choice.kind == "allow-always":
            return choice
    return None


def _grant(permission: ToolPermission) -> Grant:
    return Grant(tool=permission.tool, params=permission.params, closed=permission.closed)


def _prefix(permission: ToolPermission, operations: Sequence[Operation]) -> tuple[str, str] | None:
    """The argument that is the command, and the words that it begins with; None when that would say too little."""
    if len(operations) != 1 or not isinstance(operations[0], Command) or permission.params is None:
        return None
    line = operations[0].command
    for name, glob in permission.params.items():
        if len(permission.params) == 1 and glob == exactly(line):
            words = prefix_of(line)
            return (name, words) if words else None
    return None


def _beginning_with(words: str) -> tuple[str, str]:
    return exactly(words), f"{exactly(words)} **"


_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_STARS = re.compile(r"(?<!\\)\*+$")


def _shown_glob(glob: str) -> str:
    """A glob as people read it: what may follow is `…`."""
    return _shown(_ESCAPED.sub(r"\1", _STARS.sub("…", glob)))


def _shown(text: str) -> str:
    shown = revealed(text, is_line=True)
    if len(shown) <= _LONGEST_VALUE:
        return shown
    return f"{shown[:_LONGEST_VALUE]}… ({len(shown) - _LONGEST_VALUE} more characters, as in the call)"


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
    except Exception:  # noqa: S110 # what it does is unknown: the user is asked
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
    shown = [line for line in differences if room.take(line)]
    kind = "create" if change.before is None else "delete" if change.after is None else "update"
    return {
        "path": change.path,
        "change": kind,
        "added": sum(line.startswith("+") for line in differences),
        "removed": sum(line.startswith("-") for line in differences),
        "diff": "\n".join(shown),
        "hidden_lines": len(differences) - len(shown),
    }


def _lines(text: str | None) -> list[str]:
    return [] if not text else text.removesuffix("\n").split("\n")


def _differences(before: list[str], after: list[str]) -> list[str]:
    """As in a unified diff, from its first hunk on."""
    if not before or not after or len(before) + len(after) > _MOST_COMPARED_LINES:
        found = [*(f"-{line}" for line in before), *(f"+{line}" for line in after)]
    else:
        found = list(difflib.unified_diff(before, after, lineterm="", n=3))[2:]
    return [line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]}…" for line in found]
