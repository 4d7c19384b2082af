"""Connect to servers and offer their tools. A server that fails costs a warning, never the run.

async with connected(servers, …) as offered:
    tools = offered.tools()  # those of now: servers come late, and change what they offer
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any

from harness.contracts.model import ToolSpec
from harness.contracts.tool import Attachment, Tool, ToolContext, ToolOutput, ToolPermission
from harness.errors import how_to_install
from harness.native.mcp.config import McpServer
from harness.native.mcp.connection import Connection
from harness.process.invocation import Invocation
from harness.workspace.commands import HeadAndTail, OutputFolder

LONGEST_NAME = 64
LONGEST_DESCRIPTION = 4096
SHOWN_BYTES = 50_000
_UNUSABLE = re.compile(r"[^A-Za-z0-9_-]")
_ATTACHED = re.compile(r"image/(?:png|jpeg|gif|webp)|application/pdf")


class Servers:
    """Contract: started, asked and closed in one event loop."""

    def __init__(
        self,
        servers: Mapping[str, McpServer],
        *,
        cwd: str,
        env: Mapping[str, str],
        outputs: OutputFolder,
        on_warning: Callable[[str], object],
        confine: Callable[[Invocation], Invocation] | None = None,
    ) -> None:
        self._on_warning = on_warning
        self._outputs = outputs
        self._connections = {
            Connection(
                name, server, cwd=cwd, env=env, on_warning=on_warning, confine=confine
            ): server.startup_timeout_s
            for name, server in servers.items()
        }
        self._seen: list[list[Any]] = []
        self._tools: list[Tool] = []
        self._warned: set[str] = set()
        self._is_closing = False

    async def start(self) -> None:
        """Connect to all of them, without waiting for servers that do not answer soon."""
        if not self._connections:
            return
        if not _is_installed():
            self._connections = {}
            self._on_warning(f"MCP servers are left out, the extra `mcp` is missing: {how_to_install('mcp')}")
            return
        for connection in self._connections:
            connection.open()
        waiting = [self._wait(connection, timeout_s) for connection, timeout_s in self._connections.items()]
        await asyncio.gather(*waiting)

    async def _wait(self, connection: Connection, timeout_s: float) -> None:
        await asyncio.wait([connection.answered], timeout=timeout_s)
        if connection.answered.done():
            self._report_failure(connection)
            return
        self._on_warning(
            f"MCP server {connection.name} has not answered within {timeout_s:g} s: its tools are offered when it does"
        )
        connection.answered.add_done_callback(lambda _: self._report_failure(connection))

    def tools(self) -> list[Tool]:
        """Of all servers that have answered, as `server__tool`; the same objects until something changes."""
        seen = [connection.tools for connection in self._connections]
        if len(seen) == len(self._seen) and all(map(_is, seen, self._seen)):
            return self._tools
        found: dict[str, Tool] = {}
        for connection in self._connections:
            for tool in connection.tools:
                name = usable_name(connection.name, tool.name)
                if name not in found:
                    found[name] = McpTool(name, tool, connection, self._outputs)
                elif name not in self._warned:
                    self._warned.add(name)
                    self._on_warning(f"server {connection.name}: another tool is called {name} already")
        self._seen, self._tools = seen, list(found.values())
        return self._tools

    async def close(self) -> None:
        self._is_closing = True
        await asyncio.gather(*(connection.close() for connection in self._connections))

    def _report_failure(self, connection: Connection) -> None:
        if not self._is_closing and (failure := connection.failure()):
            self._on_warning(f"MCP server {connection.name} is left out: {failure}")


def _is(one: object, other: object) -> bool:
    return one is other


@asynccontextmanager
async def connected(
    servers: Mapping[str, McpServer],
    *,
    cwd: str,
    env: Mapping[str, str],
    outputs: OutputFolder,
    on_warning: Callable[[str], object],
    confine: Callable[[Invocation], Invocation] | None = None,
) -> AsyncIterator[Servers]:
    """The servers, as long as the block lasts. `confine`: for those that are programs."""
    offered = Servers(servers, cwd=cwd, env=env, outputs=outputs, on_warning=on_warning, confine=confine)
    try:
        await offered.start()
        yield offered
    finally:
        await offered.close()


def usable_name(server: str, tool: str) -> str:
    """Model APIs take letters, digits, `_` and `-`, and only so many of them."""
    name = _UNUSABLE.sub("_", f"{server}__{tool}")
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

    category = "mcp"

    def __init__(self, name: str, tool: Any, connection: Connection, outputs: OutputFolder) -> None:
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
        shown = HeadAndTail(SHOWN_BYTES)
        stored = self._outputs.new(context.call_id or self.spec.name, SHOWN_BYTES)
        data = "\n".join(texts).encode("utf-8", "replace")
        shown.feed(data)
        stored.feed(data)
        stored.close()
        parts = [part for part in (shown.text(), stored.notice()) if part]
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
        from msgspec import json

        texts.append(json.encode(answer.structured_content).decode())
    return texts, attachments
