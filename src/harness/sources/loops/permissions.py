"""Who may call what: an allowlist, single grants, denials, and what holds for everything else.

One `Permissions` object is shared by a run and all its sub-agents and read at every call, so that
"always" takes effect everywhere at once. What a model or a file says never reaches it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from harness.events import Operation
from harness.events.operation import List, Read, Search, Skill, Spawn, Tasks
from harness.sources.request import Permissions as Mode
from harness.sources.tool import ToolPermission, spelled

Policy: TypeAlias = Literal["allow", "deny", "ask"]

READS = (Read, Search, List, Skill, Tasks, Spawn)
"""What changes nothing. A sub-agent is bound by the same permissions, so starting one changes nothing either;
the web is not among them: what is asked there tells somebody something."""


class Denial(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Calls that are refused whatever else allows them: one by its id, or all that match."""

    call_id: str = ""
    """The model's id of the call."""
    tool: str = ""
    params: dict[str, str] | None = None
    reason: str = ""

    def covers(self, call_id: str, tool: str, arguments: Mapping[str, Any]) -> bool:
        if self.call_id:
            return self.call_id == call_id
        return bool(self.tool) and matches(ToolPermission(self.tool, self.params), tool, arguments)


class Verdict(NamedTuple):
    decision: Policy
    reason: str = ""


_ALLOWED = Verdict("allow")
_ASK = Verdict("ask")


class Permissions:
    """Changed in the thread of the loop alone."""

    def __init__(
        self,
        policy: Policy = "ask",
        *,
        allowlist: Iterable[ToolPermission] = (),
        allow_once: Iterable[ToolPermission] = (),
        deny: Iterable[Denial] = (),
        allows_reads: bool = False,
    ) -> None:
        self.policy: Policy = policy
        """For calls that nothing else decides."""
        self.allowlist = list(allowlist)
        self.allow_once = list(allow_once)
        """Each is used up by the first call that it allows."""
        self.deny = list(deny)
        self.allows_reads = allows_reads
        """Allow what only reads, whatever the policy."""

    def verdict(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        operations: Sequence[Operation] = (),
        call_id: str = "",
    ) -> Verdict:
        """Decide one call; a grant for once is used up by it."""
        for denial in self.deny:
            if denial.covers(call_id, tool, arguments):
                return Verdict("deny", denial.reason or "denied")
        if matches_any(self.allowlist, tool, arguments) or self._spend(tool, arguments):
            return _ALLOWED
        if self.allows_reads and operations and all(isinstance(one, READS) for one in operations):
            return _ALLOWED
        if self.policy == "deny":
            return Verdict("deny", _denied_by_policy(tool, allows_reads=self.allows_reads))
        return _ALLOWED if self.policy == "allow" else _ASK

    def grant(self, permission: ToolPermission) -> None:
        """Allow it from now on."""
        if permission not in self.allowlist:
            self.allowlist.append(permission)

    def _spend(self, tool: str, arguments: Mapping[str, Any]) -> bool:
        for place, permission in enumerate(self.allow_once):
            if matches(permission, tool, arguments):
                del self.allow_once[place]
                return True
        return False


def permissions_for(mode: Mode) -> Permissions:
    """What `--permissions` means to a loop. As agents do by themselves, `agent-default` asks before changes."""
    if mode == "full-access":
        return Permissions("allow")
    return Permissions("deny" if mode == "read-only" else "ask", allows_reads=True)


def matches(permission: ToolPermission, tool: str, arguments: Mapping[str, Any]) -> bool:
    """Whether a permission covers a call: same tool, and every listed argument is there and fits its glob."""
    if permission.tool != tool:
        return False
    return not permission.params or all(
        name in arguments and _expression(glob).fullmatch(spelled(arguments[name])) is not None
        for name, glob in permission.params.items()
    )


def matches_any(
    permissions: Iterable[ToolPermission] | None, tool: str, arguments: Mapping[str, Any]
) -> bool:
    return any(matches(permission, tool, arguments) for permission in permissions or ())


def _denied_by_policy(tool: str, *, allows_reads: bool) -> str:
    if allows_reads:
        return f"this run may only read, and {tool} does not say that it only reads"
    return f"{tool} is not allowed in this run"


_TOKEN = re.compile(
    r"\\(?P<escaped>.)|(?P<stars>\*+)|(?P<any>\?)|\[(?P<no>[!^]?)(?P<set>[^\]]+)\]", re.DOTALL
)


@lru_cache(maxsize=1024)
def _expression(glob: str) -> re.Pattern[str]:
    """A glob as a regular expression; what is not well formed stands for itself."""
    try:
        return re.compile(_translated(glob), re.DOTALL)
    except re.error:  # a range that runs backwards
        return re.compile(re.escape(glob))


def _translated(glob: str) -> str:
    parts: list[str] = []
    position = 0
    while position < len(glob):
        token = _TOKEN.match(glob, position)
        if token is not None:
            parts.append(_token_expression(token))
            position = token.end()
        elif glob[position] == "{" and (choices := _choices(glob, position)) is not None:
            parts.append("(?:" + "|".join(map(_translated, choices.texts)) + ")")
            position = choices.end
        else:
            parts.append(re.escape(glob[position]))
            position += 1
    return "".join(parts)


def _token_expression(token: re.Match[str]) -> str:
    if token["escaped"] is not None:
        return re.escape(token["escaped"])
    if token["set"] is not None:
        # A range keeps its meaning, anything else in the set stands for itself.
        inside = re.sub(r"[\\^\[&~|]", r"\\\g<0>", token["set"])
        return f"[{'^' if token['no'] else ''}{inside}]"
    return ".*" if token["stars"] else "."


class _Choices(NamedTuple):
    texts: list[str]
    end: int


def _choices(glob: str, start: int) -> _Choices | None:
    """What stands between braces, by commas; None when they do not close, or hold no choice."""
    depth, position, begin = 0, start, start + 1
    texts: list[str] = []
    while position < len(glob):
        character = glob[position]
        if character == "\\":
            position += 1
        elif character == "{":
            depth += 1
        elif character == "," and depth == 1:
            texts.append(glob[begin:position])
            begin = position + 1
        elif character == "}":
            depth -= 1
            if not depth:
                texts.append(glob[begin:position])
                return _Choices(texts, position + 1) if len(texts) > 1 else None
        position += 1
    return None
