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
from harness.approvals.decide import Decision, decide, denial_of
from harness.approvals.free_commands import free_programs
from harness.approvals.globs import escaped, literal
from harness.approvals.rules import PLACES, Rule, RuleSource, covering
from harness.approvals.work_folder import WorkFolder
from harness.contracts.request import Permissions as Mode
from harness.contracts.tool import ToolPermission
from harness.events import Operation
from harness.events.operation import Command, Fetch, List, Read, Search, Skill, Spawn, Tasks, Write

_Policy: TypeAlias = Literal["allow", "deny", "ask"]

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
    for kinds, category_found in _STRONGEST_FIRST if operations else ():
        if any(isinstance(operation, kinds) for operation in operations):
            commands = [each for each in operations if isinstance(each, Command)]
            files = [each for each in operations if isinstance(each, _FILES)]
            place = commands[0].cwd if len(commands) == 1 else ""
            return ProposedCall(
                tool=tool,
                category=category_found,
                input=dict(arguments),
                command=commands[0].command if len(commands) == 1 else "",
                cwd=place if any(isinstance(arguments.get(name), str) for name in PLACES) else "",
                place=place,
                paths=tuple(each.path for each in files if each.path),
                lists=all(isinstance(each, List) for each in files),
                is_confined=is_confined and category_found in ("read", "edit"),
                id=id,
            )
    stated_category = cast("Category", category) if category in CATEGORIES else "unknown"
    call = ProposedCall(tool=tool, input=dict(arguments), id=id)
    return call if stated_category == "unknown" else stated_call(call, stated_category)


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

    @property
    def rules(self) -> list[Rule]:
        """What it means to `approvals`; none where it names nothing."""
        if not (self.call_id or self.tool):
            return []
        tool, params = ("", None) if self.call_id else (escaped(self.tool), self.params)
        reason = self.reason or "denied"
        return [
            Rule(
                answer="deny", call_id=self.call_id, tool=tool, params=params, reason=reason, source="option"
            )
        ]


class PermissionVerdict(NamedTuple):
    decision: _Policy
    reason: str = ""
    category: str = ""
    """Of the tool, where the rules know one."""
    is_lasting: bool = True
    """Whether "always" would keep it from being asked about again: not where a rule asks."""


_LISTED_ONLY = AccessMode(name="listed", answers=MappingProxyType(dict.fromkeys(CATEGORIES, "deny")))
_ASKING = AccessMode(name="asking", answers=MappingProxyType({"own": "allow"}))


_BY_POLICY: Mapping[_Policy, AccessMode] = {"allow": FULL_ACCESS, "ask": _ASKING, "deny": _LISTED_ONLY}


class Permissions:
    """Changed in the thread of the loop alone."""

    def __init__(
        self,
        mode: AccessMode | _Policy = "ask",
        *,
        allowlist: Iterable[ToolPermission] = (),
        allow_once: Iterable[ToolPermission] = (),
        deny: Iterable[Denial] = (),
        folder: WorkFolder | None = None,
        rules: Iterable[Rule] = (),
    ) -> None:
        self.mode: AccessMode = mode if isinstance(mode, AccessMode) else _BY_POLICY[mode]
        """For calls that nothing else decides."""
        self.allowlist: list[ToolPermission] = list(allowlist)
        self.allow_once: list[ToolPermission] = list(allow_once)
        """Each allows one call."""
        self.deny: list[Denial] = list(deny)
        self.folder: WorkFolder = folder or WorkFolder(root=os.path.realpath("."))
        self.rules = list(rules)
        """Of the user's settings, and what was granted since."""

    def verdict(self, call: ProposedCall) -> PermissionVerdict:
        """Decide one call; a grant for once is used up by it."""
        once = [rule_of(each, "once") for each in self.allow_once]
        rules = [*self._lasting(), *once]
        decision = decide([call], self.mode, rules, self.folder)
        for rule in decision.spent:
            del self.allow_once[once.index(rule)]
            once.remove(rule)
        return verdict_of(decision, call.category)

    def denial(self, call: ProposedCall) -> str | None:
        """Why it is refused whatever else allows it; None when it is not. No grant is used up."""
        return denial_of(call, self._lasting(), self.folder)

    def _lasting(self) -> list[Rule]:
        denials = (rule for denial in self.deny for rule in denial.rules)
        return [*denials, *self.rules, *map(rule_of, self.allowlist)]

    def grant(self, permission: Rule | ToolPermission) -> None:
        """Allow it from now on."""
        if isinstance(permission, Rule):
            if permission.command or permission.path or permission.server or permission.category:
                self.rules += [permission] if permission not in self.rules else []
                return
            permission = ToolPermission(literal(permission.tool), permission.params, permission.closed)
        if permission not in self.allowlist:
            self.allowlist.append(permission)


def verdict_of(decision: Decision, category: str = "") -> PermissionVerdict:
    """The decision on one call, as the loop takes it."""
    reason = "" if decision.answer == "allow" else decision.why
    return PermissionVerdict(decision.answer, reason, category, is_lasting=not decision.is_by_rule)


def rule_of(permission: ToolPermission, source: RuleSource = "grant") -> Rule:
    """A permission as a rule."""
    return Rule(
        answer="allow",
        tool=escaped(permission.tool),
        params=permission.params,
        closed=permission.closed,
        source=source,
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
