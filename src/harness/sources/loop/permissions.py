"""Who may call what: an allowlist, single grants, denials, and what holds for everything else.

One `Permissions` object is shared by a run and all its sub-agents and read at every call, so that
"always" takes effect everywhere at once. What a model or a file says never reaches it.

Rules
1. A glob is compared with the whole argument, except where a tool says that it runs a command: there
   texts are command lines, a glob allows single commands, and a line is allowed when each of its commands
   is, by one glob or another. A line that cannot be parsed with certainty is only allowed by the exact text.
   A tool that does not say what it does may or may not take command lines: for it, a glob of several words
   (`git *`) allows no text that could be several commands.
2. A glob never allows a path that climbs with `..` (`src/../../etc/passwd` is not below `src/`).
3. A denial matches broadly: one part of a line is enough, or the path that is meant, or the path to which
   symbolic links lead from there at this moment.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import product
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

import msgspec

from harness.events import Operation
from harness.events.operation import Command, List, Read, Search, Skill, Spawn, Tasks, Write
from harness.sources.request import Permissions as Mode
from harness.sources.tool import SHELL_ACTIVE, ToolPermission, spelled

Policy: TypeAlias = Literal["allow", "deny", "ask"]

READS = (Read, Search, List, Skill, Tasks)
"""What changes nothing. The web is not among them: a request discloses something to its receiver."""


class Denial(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Calls that are refused whatever else allows them: one by its id, or all that match."""

    call_id: str = ""
    """The model's id of the call."""
    tool: str = ""
    params: dict[str, str] | None = None
    reason: str = ""

    def covers(
        self, call_id: str, tool: str, arguments: Mapping[str, Any], operations: Sequence[Operation] = ()
    ) -> bool:
        if self.call_id:
            return self.call_id == call_id
        if self.tool != tool:
            return False
        asked = _Asked(tool, arguments, operations)
        return all(asked.touches(name, glob) for name, glob in (self.params or {}).items())


class PermissionVerdict(NamedTuple):
    decision: Policy
    reason: str = ""
    category: str = ""
    """Of the tool, where the rules know one."""


_ALLOWED = PermissionVerdict("allow")
_ASK = PermissionVerdict("ask")


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
        """Each allows one call."""
        self.deny = list(deny)
        self.allows_reads = allows_reads
        """Allow what only reads, whatever the policy."""

    def verdict(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        operations: Sequence[Operation] = (),
        call_id: str = "",
    ) -> PermissionVerdict:
        """Decide one call; a grant for once is used up by it."""
        if (reason := self.denial(tool, arguments, operations, call_id)) is not None:
            return PermissionVerdict("deny", reason)
        if (self.allowlist or self.allow_once) and self._is_granted(_Asked(tool, arguments, operations)):
            return _ALLOWED
        # A sub-agent is bound by the same rules: where only reading is allowed, that holds for it as well.
        harmless = (*READS, Spawn) if self.policy == "deny" else READS
        if self.allows_reads and operations and all(isinstance(one, harmless) for one in operations):
            return _ALLOWED
        if self.policy == "ask" and operations and all(isinstance(one, Tasks) for one in operations):
            return _ALLOWED  # an agent's own list: harmless
        if self.policy == "deny":
            return PermissionVerdict("deny", _denied_by_policy(tool, allows_reads=self.allows_reads))
        return _ALLOWED if self.policy == "allow" else _ASK

    def denial(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        operations: Sequence[Operation] = (),
        call_id: str = "",
    ) -> str | None:
        """Why it is refused whatever else allows it; None when it is not. No grant is used up."""
        for denial in self.deny:
            if denial.covers(call_id, tool, arguments, operations):
                return denial.reason or "denied"
        return None

    def grant(self, permission: ToolPermission) -> None:
        """Allow it from now on."""
        if permission not in self.allowlist:
            self.allowlist.append(permission)

    def revoke(self, permission: ToolPermission) -> bool:
        """Allow it no longer; False when nothing like it was allowed."""
        if permission not in self.allowlist:
            return False
        self.allowlist.remove(permission)
        return True

    def _is_granted(self, asked: _Asked) -> bool:
        used = asked.allowed_by([*self.allowlist, *self.allow_once])
        if used is None:
            return False
        for place in sorted(used, reverse=True):
            if place >= len(self.allowlist):
                del self.allow_once[place - len(self.allowlist)]
        return True


def permissions_for(mode: Mode) -> Permissions:
    """What `--permissions` means to a loop. As agents do by themselves, `agent-default` asks before changes."""
    if mode == "full-access":
        return Permissions("allow")
    return Permissions("deny" if mode == "read-only" else "ask", allows_reads=True)


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
    return _Asked(tool, arguments, operations).allowed_by(list(permissions or ())) is not None


_FILES = (Read, Write, Search, List)


class _Asked:
    """One call, as permissions see it."""

    def __init__(self, tool: str, arguments: Mapping[str, Any], operations: Sequence[Operation]) -> None:
        self._tool = tool
        self._texts = {name: spelled(value) for name, value in arguments.items()}
        runs_commands = any(isinstance(one, Command) for one in operations)
        self._is_unknown = not operations
        self._lines = {
            name: text for name, text in arguments.items() if runs_commands and isinstance(text, str)
        }
        """Texts that are, or may become, part of a command line: only the tool knows how it combines them."""
        self._paths = [one.path for one in operations if isinstance(one, _FILES)]

    def allowed_by(self, permissions: Sequence[ToolPermission]) -> set[int] | None:
        """The places of the permissions that it takes; None when it is not allowed."""
        candidates = [place for place, one in enumerate(permissions) if one.tool == self._tool]
        for place in candidates:
            if self._fits(permissions[place], {}):
                return {place}
        listed = {_folded(name) for place in candidates for name in permissions[place].params or ()}
        lines = {name: text for name, text in self._lines.items() if _folded(name) in listed}
        if not lines:
            return None
        from harness.sources.formats.shell.commands import commands_of

        used: set[int] = set()
        for commands in product(*(commands_of(line) or () for line in lines.values())):
            single = dict(zip(lines, commands, strict=True))
            fitting = next((place for place in candidates if self._fits(permissions[place], single)), None)
            if fitting is None:
                return None
            used.add(fitting)
        return used or None

    def touches(self, name: str, glob: str) -> bool:
        """Whether an argument, or something in it, fits a glob."""
        expression = _expression(glob)
        return any(
            expression.fullmatch(variant) is not None
            for spelling in self._spellings(name)
            for variant in self._variants(spelling)
        )

    def _fits(self, permission: ToolPermission, single: Mapping[str, str]) -> bool:
        """`single`: the one command of each line that is looked at; without it lines count as they are."""
        if permission.closed:
            listed = {_folded(name) for name in permission.params or ()}
            if any(_folded(name) not in listed for name in self._texts):
                return False
        return all(
            (spellings := self._spellings(name)) and all(self._covers(glob, one, single) for one in spellings)
            for name, glob in (permission.params or {}).items()
        )

    def _covers(self, glob: str, name: str, single: Mapping[str, str]) -> bool:
        text = self._texts[name]
        is_whole_line = name in self._lines and name not in single
        if is_whole_line or (self._paths and _climbs(text)):
            return _is_exactly(glob, text)
        if self._is_unknown and _could_be_commands(text, glob):
            return _is_exactly(glob, text)
        return _expression(glob).fullmatch(single.get(name, text)) is not None

    def _spellings(self, name: str) -> list[str]:
        """The arguments that a tool may take for this one: tools are lenient about `file_path` and `filePath`."""
        folded = _folded(name)
        return [each for each in self._texts if each == name or _folded(each) == folded]

    def _variants(self, name: str) -> Iterator[str]:
        text = self._texts[name]
        yield text
        if name in self._lines:
            from harness.sources.formats.shell.commands import fragments_of

            yield from fragments_of(text)
        if self._paths and text and "\n" not in text:
            meant = posixpath.normpath(text)
            yield meant
            named = [path for path in self._paths if path.endswith(posixpath.basename(meant))]
            yield from named
            yield from _from_any_folder(meant)
            for real in dict.fromkeys(real for path in named for real in _real_paths(text, meant, path)):
                yield real
                yield from _from_any_folder(real)


def _real_paths(text: str, meant: str, path: str) -> Iterator[str]:
    """Where symbolic links lead; also from the middle of a text, since `link/..` is not where the link is."""
    folder = path.removesuffix(meant) if not meant.startswith("/") else "/"
    for one in (path, os.path.join(folder, os.path.expanduser(text))):
        try:
            real = os.path.realpath(one)
        except (OSError, ValueError):  # no usable path: no tool will touch it
            continue
        if real != path:
            yield real


def _from_any_folder(path: str) -> Iterator[str]:
    """A glob may be meant from any folder."""
    if path.startswith("/"):
        steps = path.split("/")
        yield from ("/".join(steps[start:]) for start in range(1, len(steps)))


def _folded(name: str) -> str:
    return name.replace("_", "").lower()


def _climbs(text: str) -> bool:
    return ".." in text and ".." in text.split("/") and posixpath.normpath(text) != text


def _could_be_commands(text: str, glob: str) -> bool:
    """Whether the text could contain a command that the glob does not cover."""
    has_words = _BLANK.search(text) is not None or _BLANK.search(glob) is not None
    return has_words and SHELL_ACTIVE.search(text) is not None and not _ANYTHING.fullmatch(glob)


def _denied_by_policy(tool: str, *, allows_reads: bool) -> str:
    if allows_reads:
        return f"this run may only read, and {tool} does not say that it only reads"
    return f"{tool} is not allowed in this run"


_ANYTHING = re.compile(r"\*+")
_BLANK = re.compile(r"\s")
_TOKEN = re.compile(
    r"\\(?P<escaped>.)|(?P<stars>\*+)|(?P<any>\?)|\[(?P<no>[!^]?)(?P<set>[^\]]+)\]", re.DOTALL
)


def _is_exactly(glob: str, text: str) -> bool:
    return glob == text or _translated(glob) == re.escape(text)


@lru_cache(maxsize=1024)
def _expression(glob: str) -> re.Pattern[str]:
    """A glob as a regular expression; what is not well formed is taken literally."""
    try:
        return re.compile(_translated(glob), re.DOTALL)
    except re.error:  # a reversed range
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
        # A range is a range; anything else in the set is taken literally.
        inside = re.sub(r"[\\^\[&~|]", r"\\\g<0>", token["set"])
        return f"[{'^' if token['no'] else ''}{inside}]"
    return ".*" if token["stars"] else "."


class _Choices(NamedTuple):
    texts: list[str]
    end: int


def _choices(glob: str, start: int) -> _Choices | None:
    """The alternatives between braces, by commas; None when they do not close, or hold no choice."""
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


class PermissionPolicy(Protocol):
    """Decides what a run may do: `Permissions`, or the rules of a session.

    Contract: called in the thread of the loop alone, before every call and after every "always".

    One object serves a run and its sub-agents, and may decide differently for the next call.
    """

    def verdict(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        operations: Sequence[Operation] = (),
        call_id: str = "",
    ) -> PermissionVerdict:
        """Decide one call; `call_id` is the model's own."""
        ...

    def denial(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        operations: Sequence[Operation] = (),
        call_id: str = "",
    ) -> str | None:
        """Why it must not run whatever else was decided, asked right before it does; None when nothing forbids it."""
        ...

    def grant(self, permission: ToolPermission) -> None:
        """A person answered "always"."""
        ...
