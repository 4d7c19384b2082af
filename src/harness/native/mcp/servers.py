"""Connect to servers and offer their tools. A server that fails costs a warning, never the run.

async with connected(servers, …) as offered:
    tools = offered.tools()  # those of now: servers come late, and change what they offer
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from fnmatch import fnmatchcase
from importlib import import_module
from typing import Any

import msgspec
from msgspec import json

from harness.contracts.model import ToolSpec
from harness.contracts.tool import Attachment, Tool, ToolContext, ToolOutput, ToolPermission
from harness.errors import how_to_install
from harness.native.mcp.config import ServerEntry
from harness.native.mcp.connection import Connection
from harness.process.invocation import Invocation
from harness.workspace.commands import HeadAndTail, OutputFolder

LONGEST_NAME = 64
LONGEST_DESCRIPTION = 4096
SHOWN_BYTES = 50_000
_UNUSABLE = re.compile(r"[^A-Za-z0-9_-]")
_ATTACHED = re.compile(r"image/(?:png|jpeg|gif|webp)|application/pdf")


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """Which tools of a server are offered, and as what."""

    allow: tuple[str, ...] = ("*",)
    """Globs of the names that the server gives them."""
    deny: tuple[str, ...] = ()
    prefix: str | None = None
    """Before `__` and the tool's name; empty: the name alone. None: the name of the server."""
    category: str = "mcp"
    headers: Callable[[], Mapping[str, str]] | None = None
    """Called for every request to an address: headers that change, such as a token."""

    def takes(self, tool: str) -> bool:
        return any(fnmatchcase(tool, glob) for glob in self.allow) and not any(
            fnmatchcase(tool, glob) for glob in self.deny
        )

    def name_of(self, server: str, tool: str) -> str:
        return usable_name(server if self.prefix is None else self.prefix, tool)


_WHOLE = Offer()


class Servers:
    """Contract: started, asked and closed in one event loop."""

    def __init__(
        self,
        servers: Mapping[str, ServerEntry],
        *,
        cwd: str,
        env: Mapping[str, str],
        outputs: OutputFolder,
        on_warning: Callable[[str], object],
        confine: Callable[[Invocation], Invocation] | None = None,
        offers: Mapping[str, Offer] | None = None,
    ) -> None:
        self._on_warning = on_warning
        self._outputs = outputs
        self._cwd, self._env, self._confine = cwd, env, confine
        self._servers = dict(servers)
        self._offers = dict(offers or {})
        self._connections: dict[str, Connection] = {}
        self._offered_tools: dict[tuple[str, ...] | None, tuple[list[list[Any]], list[Tool]]] = {}
        """Names of servers → what these had listed, and the tools that were made of it."""
        self._warned: set[str] = set()
        self._is_closing = False

    async def start(self) -> None:
        """Connect to all of them, without waiting for servers that do not answer soon."""
        if not self._servers:
            return
        if not _is_installed():
            self._on_warning(f"MCP servers are left out, the extra `mcp` is missing: {how_to_install('mcp')}")
            return
        await asyncio.gather(*(self._connect(name) for name in list(self._servers)))

    async def add(self, name: str, server: ServerEntry, offer: Offer = _WHOLE) -> None:
        """Connect to one more, in place of one of that name."""
        await self.remove(name)
        self._servers[name], self._offers[name] = server, offer
        if not _is_installed():
            self._on_warning(
                f"MCP server {name} is left out, the extra `mcp` is missing: {how_to_install('mcp')}"
            )
            return
        await self._connect(name)

    async def remove(self, name: str) -> bool:
        """End one; false when there is none of that name."""
        connection = self._connections.pop(name, None)
        self._offered_tools.clear()
        if connection is not None:
            await connection.close()
        return self._servers.pop(name, None) is not None

    async def _connect(self, name: str) -> None:
        server, offer = self._servers[name], self._offers.get(name, _WHOLE)
        connection = self._connections[name] = Connection(
            name,
            server,
            cwd=self._cwd,
            env=self._env,
            on_warning=self._on_warning,
            confine=self._confine,
            headers=offer.headers,
        )
        connection.open()
        await self._wait(connection, server.startup_timeout_s)

    async def _wait(self, connection: Connection, timeout_s: float) -> None:
        await asyncio.wait([connection.answered], timeout=timeout_s)
        if connection.answered.done():
            self._report_failure(connection)
            return
        self._on_warning(
            f"MCP server {connection.name} has not answered within {timeout_s:g} s: its tools are offered when it does"
        )
        connection.answered.add_done_callback(lambda _: self._report_failure(connection))

    def names(self) -> list[str]:
        return list(self._servers)

    def connection(self, name: str) -> Connection | None:
        """None where nothing was tried: the extra is missing."""
        return self._connections.get(name)

    def tools(self, names: Sequence[str] | None = None) -> list[Tool]:
        """Of all servers that have answered, or of those named; the same objects until something changes."""
        key = None if names is None else tuple(names)
        connections = [
            connection for name, connection in self._connections.items() if key is None or name in key
        ]
        tool_lists = [connection.tools for connection in connections]
        known_offer = self._offered_tools.get(key)
        if (
            known_offer is not None
            and len(tool_lists) == len(known_offer[0])
            and all(map(_is, tool_lists, known_offer[0]))
        ):
            return known_offer[1]
        tools = self._tools_of(connections)
        self._offered_tools[key] = (tool_lists, tools)
        return tools

    def _tools_of(self, connections: Sequence[Connection]) -> list[Tool]:
        tools_by_name: dict[str, Tool] = {}
        for connection in connections:
            offer = self._offers.get(connection.name, _WHOLE)
            for tool in [tool for tool in connection.tools if offer.takes(tool.name)]:
                name = offer.name_of(connection.name, tool.name)
                if name not in tools_by_name:
                    tools_by_name[name] = McpTool(name, tool, connection, self._outputs, offer.category)
                elif name not in self._warned:
                    self._warned.add(name)
                    self._on_warning(f"server {connection.name}: another tool is called {name} already")
        return list(tools_by_name.values())

    async def close(self) -> None:
        self._is_closing = True
        await asyncio.gather(*(connection.close() for connection in self._connections.values()))

    def _report_failure(self, connection: Connection) -> None:
        is_known = self._connections.get(connection.name) is connection
        if is_known and not self._is_closing and (failure := connection.failure()):
            self._on_warning(f"MCP server {connection.name} is left out: {failure}")


def _is(first: object, other: object) -> bool:
    return first is other


@asynccontextmanager
async def connected(
    servers: Mapping[str, ServerEntry],
    *,
    cwd: str,
    env: Mapping[str, str],
    outputs: OutputFolder,
    on_warning: Callable[[str], object],
    confine: Callable[[Invocation], Invocation] | None = None,
) -> AsyncIterator[Servers]:
    """The servers, as long as the block lasts. `confine`: for those that are programs."""
    servers_offered = Servers(
        servers, cwd=cwd, env=env, outputs=outputs, on_warning=on_warning, confine=confine
    )
    try:
        await servers_offered.start()
        yield servers_offered
    finally:
        await servers_offered.close()


def usable_name(server: str, tool: str) -> str:
    """Model APIs take letters, digits, `_` and `-`, and only so many of them."""
    name = _UNUSABLE.sub("_", f"{server}__{tool}" if server else tool)
    if len(name) <= LONGEST_NAME:
        return name
    from hashlib import sha256

    return f"{name[: LONGEST_NAME - 9]}_{sha256(name.encode()).hexdigest()[:8]}"


def _is_installed() -> bool:
    try:
        import_module("mcp")
    except ImportError:
        return False
    import logging

    # What it logs must not be mixed into our output on the terminal.
    logging.getLogger("mcp").addHandler(logging.NullHandler())
    return True


class McpTool(Tool):
    """One tool of a server. What it does is unknown, so it has no operations."""

    def __init__(
        self, name: str, tool: Any, connection: Connection, outputs: OutputFolder, category: str = "mcp"
    ) -> None:
        self.category = category
        schema = dict(tool.input_schema or {})
        if schema.get("type") != "object":
            schema = {"type": "object", "properties": {}}
        description = (tool.description or tool.title or tool.name)[:LONGEST_DESCRIPTION]
        self.spec = ToolSpec(name=name, description=description, schema=schema)
        self._name = tool.name
        self._connection = connection
        self._outputs = outputs

    def permission(self, arguments: dict[str, Any]) -> ToolPermission:
        del arguments
        return ToolPermission(self.spec.name)

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        answer = await self._connection.call(self._name, arguments, context)
        texts, attachments = _content(answer)
        output = HeadAndTail(SHOWN_BYTES)
        kept_output = self._outputs.new(context.call_id or self.spec.name, SHOWN_BYTES)
        data = "\n".join(texts).encode("utf-8", "replace")
        output.feed(data)
        kept_output.feed(data)
        kept_output.close()
        parts = [part for part in (output.text(), kept_output.notice()) if part]
        return ToolOutput(
            text="\n".join(parts) or "done",
            result=answer.structured_content,
            success=not answer.is_error,
            attachments=tuple(attachments),
        )


def _content(answer: Any) -> tuple[list[str], list[Attachment]]:
    texts: list[str] = []
    attachments: list[Attachment] = []
    for block in answer.content:
        inner = getattr(block, "resource", block)
        data = getattr(inner, "data", None) or getattr(inner, "blob", None)
        media_type = getattr(inner, "mime_type", None) or ""
        if (text := getattr(inner, "text", None)) is not None:
            texts.append(text)
        elif data and _ATTACHED.fullmatch(media_type):
            attachments.append(Attachment(media_type, data))
        else:
            texts.append(f"[{block.type} {media_type} {getattr(inner, 'uri', '')}]")
    if not texts and not attachments and answer.structured_content is not None:
        texts.append(json.encode(answer.structured_content).decode())
    return texts, attachments
