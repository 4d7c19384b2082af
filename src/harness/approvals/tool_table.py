"""What the tools of an agent do, by their exact names: which category each is, and which arguments it acts by.

    OTTER = ToolTable(
        uses={"sh": runs("command"), "view": reads("path"), "grep": searches("path"), "plan": OWN},
        server_of=by_prefix("mcp__"),
    )
    OTTER.call("view", {"path": "a.py"}, "/w")  # ProposedCall(tool="view", category="read", paths=("a.py",), cwd="/w")

Rules
1. A name that is not in the table is `unknown`, or `mcp` where the agent marks tools of servers by their names.
2. All paths that any of the listed arguments has count, and those of others whose names say that they are places
   (`move_to`): which one a tool prefers is its own affair.
3. Arguments that do not fit (a path that is no text, a command twice) are a `doubt`: then it is asked about.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from harness.approvals.call import Category, ProposedCall

CallInput: TypeAlias = Mapping[str, Any]
PathsOf: TypeAlias = Callable[[CallInput], "Sequence[str] | None"]
"""The paths in the arguments; None when they cannot be read with certainty."""
_PLACES = re.compile(r"path$|^dest|target|_to$|^to$|rename|new_name", re.IGNORECASE)
"""Names of arguments that are places, whatever else the tool is known to act by."""
_WORK_PLACES = re.compile(
    r"(?:cwd|dir|directory|dir_?path|folder|work_?dir|working_?dir(?:ectory)?)$", re.IGNORECASE
)
"""Names of arguments that say where a command runs, by whichever of them the tool goes."""
_ODD_ARGUMENTS = "its arguments are not those of this tool"


class ToolUse(msgspec.Struct, frozen=True, kw_only=True):
    """What one tool does, and by which arguments."""

    category: Category
    paths: tuple[str, ...] = ()
    """Arguments that are paths, alone or in a list."""
    paths_of: PathsOf | None = None
    """Instead, for paths that are part of a text, such as a patch."""
    is_optional: bool = False
    """Without a path it acts on the folder in which it runs."""
    lists: bool = False
    """It gives back names of files alone."""
    commands: tuple[str, ...] = ()
    """Arguments that are the command line."""
    directories: tuple[str, ...] = ()
    """Arguments that say where it runs."""


def reads(*paths: str) -> ToolUse:
    return ToolUse(category="read", paths=paths)


def searches(*paths: str) -> ToolUse:
    """Reads below a folder; without one, below that in which the agent works."""
    return ToolUse(category="read", paths=paths, is_optional=True)


def lists(*paths: str) -> ToolUse:
    """Names what is in a folder; without one, in that in which the agent works."""
    return ToolUse(category="read", paths=paths, is_optional=True, lists=True)


def edits(*paths: str) -> ToolUse:
    return ToolUse(category="edit", paths=paths)


def edits_by(paths_of: PathsOf) -> ToolUse:
    """For patches and the like, whose text names the files."""
    return ToolUse(category="edit", paths_of=paths_of)


def runs(*commands: str, directories: tuple[str, ...] = ("cwd",)) -> ToolUse:
    return ToolUse(category="execute", commands=commands, directories=directories)


OWN = ToolUse(category="own")
EXECUTES = ToolUse(category="execute")
"""Starts a program or an agent without a command line of its own: skills, sub-agents, code cells."""
NETWORK = ToolUse(category="network")


def by_prefix(prefix: str, separator: str = "__") -> Callable[[str], str]:
    """The server in a name such as `mcp__docs__search`; empty: it is no tool of a server."""

    def server_of(tool: str) -> str:
        return tool.removeprefix(prefix).partition(separator)[0] if tool.startswith(prefix) else ""

    return server_of


def _no_server(tool: str) -> str:
    del tool
    return ""


class ToolTable(msgspec.Struct, frozen=True, kw_only=True):
    """The tools of one agent."""

    uses: Mapping[str, ToolUse]
    server_of: Callable[[str], str] = _no_server
    """The MCP server that a tool's name states."""

    def call(
        self, tool: str, arguments: Any, cwd: str = "", *, server: str = "", doubt: str = ""
    ) -> ProposedCall:
        """A call as the question states it. `server`: where the question names one besides the tool."""
        server = server or self.server_of(tool)
        use = None if server else self.uses.get(tool)
        if use is None:
            category: Category = "mcp" if server else "unknown"
            return ProposedCall(
                tool=tool, category=category, input=arguments, cwd=cwd, server=server, doubt=doubt
            )
        return call_of(tool, use, arguments, cwd, doubt)


def call_of(tool: str, use: ToolUse, arguments: Any, cwd: str = "", doubt: str = "") -> ProposedCall:
    """A call of a tool whose use is known."""
    if not isinstance(arguments, dict):
        odd = _ODD_ARGUMENTS if use.category != "own" else ""
        return ProposedCall(tool=tool, category=use.category, input=arguments, cwd=cwd, doubt=doubt or odd)
    paths = use.paths_of(arguments) if use.paths_of is not None else _texts(arguments, use.paths)
    if paths is not None and use.category in ("read", "edit"):
        path_arguments = {*use.paths, *use.directories}
        places_besides = tuple(
            name for name in arguments if name not in path_arguments and _PLACES.search(name)
        )
        more = _texts(arguments, places_besides)
        paths = None if more is None else [*paths, *more]
    commands = _texts(arguments, use.commands)
    directories = use.directories
    if use.commands:
        directories = (
            *directories,
            *(n for n in arguments if n not in directories and _WORK_PLACES.match(n)),
        )
    places = _texts(arguments, directories)
    is_odd = paths is None or commands is None or places is None
    is_odd = is_odd or len({*(commands or ())}) > 1 or len({*(places or ())}) > 1
    if use.is_optional and not paths and paths is not None:
        paths = ["."]
    return ProposedCall(
        tool=tool,
        category=use.category,
        input=arguments,
        command=commands[0] if commands else "",
        paths=tuple(paths or ()),
        cwd=_joined(cwd, places[0]) if places else cwd,
        lists=use.lists,
        doubt=doubt or (_ODD_ARGUMENTS if is_odd else ""),
    )


def _texts(arguments: CallInput, names: tuple[str, ...]) -> list[str] | None:
    """All texts under these names; None where something else stands there."""
    texts: list[str] = []
    for name in names:
        value = arguments.get(name)
        values = value if isinstance(value, list) else [value]
        if any(not isinstance(value, str | None) for value in values):
            return None
        texts += [value for value in values if value]
    return texts


def _joined(cwd: str, place: str) -> str:
    return place if place.startswith(("/", "~")) or not cwd else f"{cwd.rstrip('/')}/{place}"
