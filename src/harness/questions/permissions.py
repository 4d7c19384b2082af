"""Who may call what in the agent loop: calls as `approvals` sees them, and the rules of a run without a session.

One `Permissions` object is shared by a run and all its sub-agents and read at every call, so that "always" takes effect
everywhere at once. What a model or a file says never reaches it. The decision itself is `approvals.decide`; which calls
a glob covers is in `approvals.arguments`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, cast

import msgspec
from msgspec.structs import replace

from harness.approvals.arguments import CallArguments
from harness.approvals.call import (
    ACCEPT_EDITS,
    ASK,
    CATEGORIES,
    FULL_ACCESS,
    PLAN,
    READ_ONLY,
    AccessMode,
    Category,
    ProposedCall,
)
from harness.approvals.decide import verdict_on
from harness.approvals.free_commands import free_programs
from harness.approvals.globs import escaped, literal
from harness.approvals.rules import Rule, covering
from harness.approvals.work_folder import WorkFolder
from harness.contracts.request import Permissions as Mode
from harness.contracts.tool import ToolPermission
from harness.events import Operation
from harness.events.operation import Command, Fetch, List, Read, Search, Skill, Spawn, Tasks, Write

Policy: TypeAlias = Literal["allow", "deny", "ask"]

_STRONGEST_FIRST: tuple[tuple[tuple[type, ...], Category], ...] = (
    ((Command,), "execute"),
    ((Write,), "edit"),
    ((Fetch,), "network"),
    ((Read, Search, List), "read"),
    # A sub-agent of ours is under the same rules, and a skill is a text: what follows from it is decided call by call.
    ((Skill, Spawn, Tasks), "own"),
)
_FILES = (Read, Write, Search, List)


def proposed_call(
    tool: str,
    arguments: Mapping[str, Any],
    operations: Sequence[Operation] = (),
    category: str = "",
    *,
    is_confined: bool = True,
    id: str = "",
) -> ProposedCall:
    """A call of a tool of this process. Its own code says what it will do (`Tool.operations`).

    `category`: what its author states, for a tool that does not say what a call does. `is_confined`: it keeps to the
    workspace by itself, as the built-in tools do. `id`: the model's own of the call.
    """
    for kinds, found in _STRONGEST_FIRST if operations else ():
        if any(isinstance(operation, kinds) for operation in operations):
            commands = [each for each in operations if isinstance(each, Command)]
            files = [each for each in operations if isinstance(each, _FILES)]
            return ProposedCall(
                tool=tool,
                category=found,
                input=dict(arguments),
                command=commands[0].command if len(commands) == 1 else "",
                place=commands[0].cwd if len(commands) == 1 else "",
                paths=tuple(each.path for each in files if each.path),
                lists=all(isinstance(each, List) for each in files),
                is_confined=is_confined and found in ("read", "edit"),
                id=id,
            )
    stated = cast("Category", category) if category in CATEGORIES else "unknown"
    call = ProposedCall(tool=tool, input=dict(arguments), id=id)
    return call if stated == "unknown" else stated_call(call, stated)


def stated_call(call: ProposedCall, category: Category) -> ProposedCall:
    """A call that is of this category because the author of its tool says so."""
    server = call.tool.partition("__")[0] if category == "mcp" else ""
    return replace(call, category=category, server=server, is_confined=True)


class Denial(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Calls that are refused whatever else allows them: one by its id, or all that match."""

    call_id: str = ""
    """The model's id of the call."""
    tool: str = ""
    params: dict[str, str] | None = None
    reason: str = ""

    def covers(self, call: ProposedCall) -> bool:
        if self.call_id:
            return self.call_id == call.id
        if self.tool != call.tool:
            return False
        return not self.params or CallArguments(call).touches(self.params)


class PermissionVerdict(NamedTuple):
    decision: Policy
    reason: str = ""
    category: str = ""
    """Of the tool, where the rules know one."""


_LISTED_ONLY = AccessMode(name="listed", answers=MappingProxyType(dict.fromkeys(CATEGORIES, "deny")))
_ASKING = AccessMode(name="asking", answers=MappingProxyType({"own": "allow"}))


_BY_POLICY: Mapping[Policy, AccessMode] = {"allow": FULL_ACCESS, "ask": _ASKING, "deny": _LISTED_ONLY}


class Permissions:
    """Changed in the thread of the loop alone."""

    def __init__(
        self,
        mode: AccessMode | Policy = "ask",
        *,
        allowlist: Iterable[ToolPermission] = (),
        allow_once: Iterable[ToolPermission] = (),
        deny: Iterable[Denial] = (),
        folder: WorkFolder | None = None,
        rules: Iterable[Rule] = (),
    ) -> None:
        self.mode = mode if isinstance(mode, AccessMode) else _BY_POLICY[mode]
        """For calls that nothing else decides."""
        self.allowlist = list(allowlist)
        self.allow_once = list(allow_once)
        """Each allows one call."""
        self.deny = list(deny)
        self.folder = folder or WorkFolder(root=os.path.realpath("."))
        self.rules = list(rules)
        """Of the user's settings, and what was granted since."""

    def verdict(self, call: ProposedCall) -> PermissionVerdict:
        """Decide one call; a grant for once is used up by it."""
        if (reason := self.denial(call)) is not None:
            return PermissionVerdict("deny", reason)
        if not self.mode.is_fixed and self._is_granted_once(call):
            return PermissionVerdict("allow")
        answer, why = verdict_on(call, self.mode, [*self.rules, *map(rule_of, self.allowlist)], self.folder)
        return PermissionVerdict(answer, "" if answer == "allow" else why, call.category)

    def denial(self, call: ProposedCall) -> str | None:
        """Why it is refused whatever else allows it; None when it is not. No grant is used up."""
        for denial in self.deny:
            if denial.covers(call):
                return denial.reason or "denied"
        if denials := [rule for rule in self.rules if rule.answer == "deny"]:
            answer, why = verdict_on(call, FULL_ACCESS, denials, self.folder)
            return why if answer == "deny" else None
        return None

    def grant(self, permission: Rule | ToolPermission) -> None:
        """Allow it from now on."""
        if isinstance(permission, Rule):
            if permission.command or permission.path or permission.server or permission.category:
                self.rules += [permission] if permission not in self.rules else []
                return
            permission = ToolPermission(literal(permission.tool), permission.params, permission.closed)
        if permission not in self.allowlist:
            self.allowlist.append(permission)

    def _is_granted_once(self, call: ProposedCall) -> bool:
        """Whether single grants allow it, with those that last; they are used up."""
        if not self.allow_once:
            return False
        lasting = [*self.rules, *map(rule_of, self.allowlist)]
        if covering(lasting, call, self.folder) is not None:
            return False
        once = [rule_of(each) for each in self.allow_once]
        used = covering([*lasting, *once], call, self.folder)
        for rule in used or ():
            if rule in once:
                place = once.index(rule)
                del once[place], self.allow_once[place]
        return used is not None


def rule_of(permission: ToolPermission) -> Rule:
    """A permission as a rule."""
    return Rule(
        answer="allow",
        tool=escaped(permission.tool),
        params=permission.params,
        closed=permission.closed,
        source="grant",
    )


_MODES: Mapping[str, AccessMode] = {
    "full-access": FULL_ACCESS,
    "read-only": READ_ONLY,
    "plan": PLAN,
    "accept-edits": ACCEPT_EDITS,
}


def permissions_for(
    mode: Mode, cwd: str = "", environ: Mapping[str, str] | None = None, rules: Iterable[Rule] = ()
) -> Permissions:
    """What `--permissions` means to a loop. As agents do by themselves, `agent-default` asks before changes."""
    folder = WorkFolder(
        root=os.path.realpath(cwd) if cwd else "",
        programs=free_programs(environ) if environ is not None else frozenset(),
    )
    return Permissions(_MODES.get(mode, ASK), folder=folder, rules=rules)


def matches(
    permission: ToolPermission, tool: str, arguments: Mapping[str, Any], operations: Sequence[Operation] = ()
) -> bool:
    """Whether a permission covers a call: same tool, and every listed argument is there and fits its glob."""
    return matches_any((permission,), tool, arguments, operations)


def matches_any(
    permissions: Iterable[ToolPermission] | None,
    tool: str,
    arguments: Mapping[str, Any],
    operations: Sequence[Operation] = (),
) -> bool:
    """Whether permissions cover a call: one of them, or several of them the commands of a line."""
    call = proposed_call(tool, arguments, operations)
    return covering([rule_of(each) for each in permissions or ()], call, WorkFolder(root="")) is not None


class PermissionPolicy(Protocol):
    """Decides what a run may do: `Permissions`, or the rules of a session.

    Contract: called in the thread of the loop alone, before every call and after every "always".

    One object serves a run and its sub-agents, and may decide differently for the next call.
    """

    @property
    def folder(self) -> WorkFolder:
        """Where the run works, for what "always" may offer."""
        ...

    def verdict(self, call: ProposedCall) -> PermissionVerdict:
        """Decide one call."""
        ...

    def denial(self, call: ProposedCall) -> str | None:
        """Why it must not run whatever else was decided, asked right before it does; None when nothing forbids it."""
        ...

    def grant(self, permission: Rule | ToolPermission) -> None:
        """A person answered "always"."""
        ...
