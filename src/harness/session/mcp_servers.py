"""MCP servers of a harness: connected from `init` to `destroy`, and added and removed meanwhile.

    Harness(…, mcp_servers={
        "files": McpServer.stdio("npx", "some-server", allow=["read_*"], category="read"),
        "search": McpServer.http("https://…/mcp", headers=lambda: {"Authorization": token()}),
        "app": McpServer.here(tools=[count_lines]),
    })

The built-in loop has their tools as `server__tool`; a program has them with `CommandAgent(…, tools=True)`.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast, get_args

import msgspec

from harness.contracts.tool import Renamed, Tool
from harness.errors import UsageError
from harness.native.loop.loop_context import environment_for_tools
from harness.session.config import RequestContext, ToolCategory, ToolList, tools_of
from harness.session.public_side import public

if TYPE_CHECKING:
    from harness.native.mcp import config
    from harness.native.mcp.servers import Offer, Servers

_logger = logging.getLogger("harness.session")
_NAME = re.compile(r"[A-Za-z0-9_-]{1,40}")
Headers: TypeAlias = Mapping[str, str] | Callable[[], Mapping[str, str]]


class McpServer(msgspec.Struct, frozen=True, kw_only=True):
    """A server of the Model Context Protocol; made by `McpServer.stdio`, `McpServer.http` or `McpServer.here`."""

    command: tuple[str, ...] = ()
    env: Mapping[str, str] = msgspec.field(default_factory=dict)
    cwd: str = ""
    url: str = ""
    headers: Headers = msgspec.field(default_factory=dict)
    tools: ToolList = ()
    allow: Sequence[str] = ("*",)
    deny: Sequence[str] = ()
    prefix: str | None = None
    category: ToolCategory | None = None
    startup_timeout_s: float = 10.0

    @staticmethod
    def stdio(
        command: str,
        *arguments: str,
        env: Mapping[str, str] | None = None,
        cwd: str = "",
        allow: Sequence[str] = ("*",),
        deny: Sequence[str] = (),
        prefix: str | None = None,
        category: ToolCategory = "mcp",
        startup_timeout_s: float = 10.0,
    ) -> McpServer:
        """A program, started with these arguments, that is spoken to over its standard input and output.

        Args:
            command: The program.
            *arguments: What it is started with.
            env: Set in its environment, over that of the tools.
            cwd: Where it is started; empty: where the harness works.
            allow: Globs of the names of tools that are offered.
            deny: Globs of those that are not, whatever `allow` says.
            prefix: Before the name of each tool, instead of the server's; empty: nothing.
            category: What its tools are, for permissions.
            startup_timeout_s: How long `init` waits for it; its tools are offered when it answers.

        """
        server = McpServer(
            command=(command, *arguments),
            env=env or {},
            cwd=cwd,
            allow=allow,
            deny=deny,
            prefix=prefix,
            category=category,
            startup_timeout_s=startup_timeout_s,
        )
        return _checked_server(server, "stdio")

    @staticmethod
    def http(
        url: str,
        *,
        headers: Headers | None = None,
        allow: Sequence[str] = ("*",),
        deny: Sequence[str] = (),
        prefix: str | None = None,
        category: ToolCategory = "mcp",
        startup_timeout_s: float = 10.0,
    ) -> McpServer:
        """A server at an address.

        Args:
            url: Its address.
            headers: Sent with every request; a function is called for each, for those that change.
            allow: Globs of the names of tools that are offered.
            deny: Globs of those that are not, whatever `allow` says.
            prefix: Before the name of each tool, instead of the server's; empty: nothing.
            category: What its tools are, for permissions.
            startup_timeout_s: How long `init` waits for it; its tools are offered when it answers.

        """
        server = McpServer(
            url=url,
            headers=headers or {},
            allow=allow,
            deny=deny,
            prefix=prefix,
            category=category,
            startup_timeout_s=startup_timeout_s,
        )
        return _checked_server(server, "http")

    @staticmethod
    def here(
        tools: ToolList,
        *,
        allow: Sequence[str] = ("*",),
        deny: Sequence[str] = (),
        prefix: str | None = None,
        category: ToolCategory | None = None,
    ) -> McpServer:
        """Tools and typed functions of this process.

        Args:
            tools: A list, or a mapping from their names.
            allow: Globs of the names of tools that are offered.
            deny: Globs of those that are not, whatever `allow` says.
            prefix: Before the name of each tool, instead of the server's; empty: nothing.
            category: What its tools are, for permissions; None: what each says itself.

        """
        from harness.session.checks import check_tools

        check_tools("McpServer.here: tools", tools)
        server = McpServer(tools=tools, allow=allow, deny=deny, prefix=prefix, category=category)
        return _checked_server(server, "here")


class McpStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How an MCP server is. `lost`: it has ended, and is started again by the next call."""

    state: Literal["waiting", "connected", "failed", "lost"]
    tools: tuple[str, ...] = ()
    """The names under which its tools are offered."""
    problem: str = ""
    """Why it failed."""


McpEntry: TypeAlias = McpServer | Mapping[str, Any]
McpInput: TypeAlias = Mapping[str, McpEntry] | str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
"""Servers by name, each an `McpServer` or an entry of an `mcp.json`; or the paths of such files."""


@public()
class HarnessMcp:
    """`harness.mcp`: the MCP servers of a harness, while it runs. `status` is a plain function, the others are awaited."""

    def __init__(self, servers: McpServers) -> None:
        self._servers = servers

    async def add(self, name: str, server: McpServer | Mapping[str, Any]) -> McpStatus:
        """Connect to one more server, in place of one of that name; offered from the next step of the model on.

        Raises UsageError for a name or an entry that cannot be one. A server that cannot be reached is `failed`.
        """
        await self._servers.add(name, server)
        return self._servers.status()[name]

    async def remove(self, name: str) -> bool:
        """End a server, and take back its tools; False when there is none of that name."""
        return await self._servers.remove(name)

    def status(self) -> dict[str, McpStatus]:
        """How each server is, by name."""
        return self._servers.status()


class McpServers:
    """The servers behind `harness.mcp`. Not public."""

    def __init__(self, servers_given: McpInput, cwd: str, environ: Mapping[str, str]) -> None:
        """Raises UsageError for an invalid entry. Nothing is started before `start`."""
        self.is_confined = False
        """Whether servers that are programs are confined like commands. Set before `start`."""
        self._stack = AsyncExitStack()
        self.warnings: list[str] = []
        """What went wrong so far; each session emits new ones with its next run."""
        self._cwd = cwd
        self._environ = environ
        self._entries: dict[str, config.ServerEntry] = {}
        self._offers: dict[str, Offer] = {}
        self._here: dict[str, list[Tool]] = {}
        """Server in this process → its tools, as they are offered."""
        self._files: list[str] = []
        self._servers: Servers | None = None
        self._renamed_tools: dict[tuple[str, ...] | None, tuple[Sequence[Tool], list[Tool]]] = {}
        if isinstance(servers_given, Mapping):
            for name, entry in servers_given.items():
                self._take(name, entry)
        else:
            self._files = [
                os.fspath(path)
                for path in (
                    [servers_given] if isinstance(servers_given, str | os.PathLike) else servers_given
                )
            ]

    async def start(self) -> None:
        """Connect. A server that fails adds a warning; the tools of a slow one follow when it answers."""
        if self._servers is not None or not (self._entries or self._files):
            return
        from harness.native.mcp.config import load_servers

        if self._files:
            self._entries = load_servers(self._files, self._environ, self._warn, with_users_own=False)
        await (await self._opened(self._entries)).start()

    async def add(self, name: str, entry: McpEntry) -> None:
        await self.remove(name)
        self._take(name, entry)
        if name in self._entries:
            servers = self._servers or await self._opened({})
            await servers.add(name, self._entries[name], self._offers[name])

    async def remove(self, name: str) -> bool:
        self._renamed_tools.clear()
        is_here = self._here.pop(name, None) is not None
        is_known = self._entries.pop(name, None) is not None
        if self._servers is not None:
            is_known = await self._servers.remove(name) or is_known
        return is_here or is_known

    def status(self) -> dict[str, McpStatus]:
        here = {
            name: McpStatus(state="connected", tools=tuple(tool.spec.name for tool in tools))
            for name, tools in self._here.items()
        }
        names = self._entries if self._servers is None else self._servers.names()
        return {**here, **{name: self._status_of(name) for name in names}}

    def _status_of(self, name: str) -> McpStatus:
        servers = self._servers
        connection = servers.connection(name) if servers is not None else None
        if servers is None:
            return McpStatus(state="waiting")
        if connection is None:
            return McpStatus(state="failed", problem="the extra `mcp` is missing")
        tools = tuple(tool.spec.name for tool in servers.tools((name,)))
        if problem := connection.failure():
            return McpStatus(state="failed", problem=problem)
        if not connection.answered.done():
            return McpStatus(state="waiting")
        return McpStatus(state="connected" if connection.is_connected else "lost", tools=tools)

    def tools(self, names: Sequence[str] | None = None) -> Sequence[Tool]:
        """The current tools, of all servers or of those named; the same object until they change."""
        key = None if names is None else tuple(names)
        far = self._servers.tools(key) if self._servers is not None else ()
        if not self._here:
            return far
        known_offer = self._renamed_tools.get(key)
        if known_offer is None or known_offer[0] is not far:
            near = [
                tool for name, tools in self._here.items() if key is None or name in key for tool in tools
            ]
            known_offer = self._renamed_tools[key] = (far, [*near, *far])
        return known_offer[1]

    async def close(self) -> None:
        servers, self._servers = self._servers, None
        self._renamed_tools.clear()
        if servers is not None:
            await servers.close()
        await self._stack.aclose()

    async def _opened(self, entries: Mapping[str, config.ServerEntry]) -> Servers:
        from harness.native.mcp.servers import Servers
        from harness.native.tools.registry import output_folder

        confine = None
        if self.is_confined:
            from harness.sandbox.ladder import find_sandbox
            from harness.sandbox.walled_programs import confining

            around = confining(find_sandbox(self._environ), [self._cwd], self._warn)
            confine = await self._stack.enter_async_context(around)
        self._servers = Servers(
            entries,
            cwd=self._cwd,
            env=environment_for_tools(self._environ, {}),
            outputs=output_folder(self._environ, redact=True),
            on_warning=self._warn,
            confine=confine,
            offers=self._offers,
        )
        return self._servers

    def _take(self, name: str, entry: Any) -> None:
        """Raises UsageError for a name or an entry that cannot be one."""
        if not isinstance(entry, McpServer):
            server = _server_of(name, entry, self._environ)
            if not server.disabled:
                self._entries[name], self._offers[name] = server, _offer_of(McpServer(), {})
            return
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise UsageError(
                f"mcp_servers: a server cannot be called {name!r}"[:120], hint="letters, digits, _ and -"
            )
        if entry.command or entry.url:
            self._entries[name], self._offers[name] = _as_entry(entry)
        else:
            self._here[name] = _tools_here(name, entry)

    def _warn(self, text: str) -> None:
        _logger.info("%s", text)  # sessions tell it as a `Warning`
        self.warnings.append(text)


def _as_entry(server: McpServer) -> tuple[config.ServerEntry, Offer]:
    from harness.native.mcp.config import ServerEntry

    fixed = {} if callable(server.headers) else dict(server.headers)
    entry = ServerEntry(
        type="stdio" if server.command else "http",
        command=server.command[0] if server.command else "",
        args=list(server.command[1:]),
        env=dict(server.env),
        cwd=server.cwd,
        url=server.url,
        headers=fixed,
        startup_timeout_s=server.startup_timeout_s,
    )
    return entry, _offer_of(server, fixed)


def _offer_of(server: McpServer, fixed: Mapping[str, str]) -> Offer:
    from harness.native.mcp.servers import Offer

    changing = server.headers if callable(server.headers) else None
    return Offer(
        allow=tuple(server.allow),
        deny=tuple(server.deny),
        prefix=server.prefix,
        category=server.category or "mcp",
        headers=changing if not fixed else None,
    )


def _tools_here(name: str, server: McpServer) -> list[Tool]:
    offer, tools = _offer_of(server, {}), list[Tool]()
    for tool in tools_of(server.tools, RequestContext()):
        if offer.takes(tool.spec.name):
            tool_offered = Renamed(tool, offer.name_of(name, tool.spec.name))
            tool_offered.category = server.category or tool_offered.category
            tools.append(tool_offered)
    return tools


def _server_of(name: str, entry: Any, environ: Mapping[str, str]) -> config.ServerEntry:
    from harness.native.mcp.config import server_of

    try:
        return server_of(entry, environ)
    except ValueError as error:
        raise UsageError(
            f"mcp_servers: {name}: {error}",
            hint="give an McpServer, or an entry as under mcpServers in an mcp.json",
        ) from None


def _checked_server(server: McpServer, kind: str) -> McpServer:
    """Raises UsageError for the first field that cannot be right."""
    texts = (*server.command, server.cwd, server.url, *(server.env or {}), *dict(server.env or {}).values())
    is_list = {name: not isinstance(getattr(server, name), str) for name in ("allow", "deny")}
    problems = {
        "command": kind == "stdio" and not server.command[0],
        "url": kind == "http" and not str(server.url).startswith(("http://", "https://")),
        "arguments, env and url": not all(isinstance(text, str) for text in texts),
        "headers": not (callable(server.headers) or isinstance(server.headers, Mapping)),
        "prefix": server.prefix is not None and not re.fullmatch(r"[A-Za-z0-9_-]{0,40}", str(server.prefix)),
        "category": server.category is not None and server.category not in get_args(ToolCategory),
        "startup_timeout_s": not server.startup_timeout_s > 0,
        **{
            name: not fits or not all(isinstance(item, str) for item in getattr(server, name))
            for name, fits in is_list.items()
        },
    }
    wrong = next((name for name, is_wrong in problems.items() if is_wrong), "")
    if wrong:
        value = getattr(server, wrong, None)
        raise UsageError(
            f"McpServer.{kind}: {wrong} cannot be {value!r:.80}", hint=_HINTS.get(wrong, "give texts")
        )
    return server


_HINTS = {
    "command": "give a program",
    "url": "give an address that begins with http:// or https://",
    "headers": "give a mapping, or a function that returns one",
    "prefix": "letters, digits, _ and -; empty for none",
    "category": f"one of {', '.join(cast('tuple[str, ...]', get_args(ToolCategory)))}",
    "startup_timeout_s": "give a number above 0",
    "allow": "give a list of globs",
    "deny": "give a list of globs",
}
