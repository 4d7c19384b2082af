"""Connect to servers and offer their tools. A server that fails costs a warning, never the run.

    async with connected(servers, …) as tools: ...

Each connection belongs to one task, which opens and closes it: the client insists on that. Calls come from
wherever the loop makes them. A call that loses its connection has failed; the next one makes a new connection.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from importlib import import_module
from typing import Any

from harness.errors import HarnessError, how_to_install
from harness.sources.invocation import Invocation
from harness.sources.mcp.config import Server
from harness.sources.mcp.stdio import ServerProcess, transport
from harness.sources.model import ToolSpec
from harness.sources.tool import Attachment, Tool, ToolContext, ToolFailure, ToolOutput, ToolPermission
from harness.sources.workspace.output import HeadAndTail, OutputFolder

START_PATIENCE_S = 30.0
CALL_PATIENCE_S = 600.0
_END_PATIENCE_S = 5.0
"""For a connection to be closed: first in good order, then by force."""
MOST_TOOLS = 500
LONGEST_NAME = 64
LONGEST_DESCRIPTION = 4096
SHOWN_BYTES = 50_000
_UNUSABLE = re.compile(r"[^A-Za-z0-9_-]")
_ATTACHED = re.compile(r"image/(?:png|jpeg|gif|webp)|application/pdf")


@asynccontextmanager
async def connected(
    servers: Mapping[str, Server],
    *,
    cwd: str,
    env: Mapping[str, str],
    outputs: OutputFolder,
    on_warning: Callable[[str], object],
    confine: Callable[[Invocation], Invocation] | None = None,
) -> AsyncIterator[list[Tool]]:
    """The tools of all servers that answer, as `server__tool`, as long as the block lasts.

    `confine`: for those that are programs.
    """
    if not servers:
        yield []
        return
    if not _is_installed():
        on_warning(f"mcp.json is left out, the extra `mcp` is missing: {how_to_install('mcp')}")
        yield []
        return
    connections = [_Connection(name, server, cwd, env, confine) for name, server in servers.items()]
    try:
        for connection in connections:
            connection.open()
        tools: dict[str, Tool] = {}
        for connection in connections:
            for tool in await connection.tools(on_warning):
                name = usable_name(connection.name, tool.name)
                if name in tools:
                    on_warning(f"server {connection.name}: another tool is called {name} already")
                    continue
                tools[name] = McpTool(name, tool, connection, outputs)
        yield list(tools.values())
    finally:
        await asyncio.gather(*(connection.close() for connection in connections))


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

    # What it logs would otherwise land on the terminal, in the middle of ours.
    logging.getLogger("mcp").addHandler(logging.NullHandler())
    return True


class _Connection:
    def __init__(
        self,
        name: str,
        server: Server,
        cwd: str,
        env: Mapping[str, str],
        confine: Callable[[Invocation], Invocation] | None,
    ) -> None:
        self.name = name
        self._confine = confine
        self._server = server
        self._cwd = cwd
        self._env = env
        self._process: ServerProcess | None = None
        self._refusal = ""
        """What the server last answered instead of an answer."""
        self._client: Any = None
        self._task: asyncio.Task[None] | None = None
        self._listed: asyncio.Future[list[Any]]
        self._is_over: asyncio.Event
        self._opening = asyncio.Lock()

    def open(self) -> None:
        self._refusal = ""
        self._listed, self._is_over = asyncio.get_running_loop().create_future(), asyncio.Event()
        self._task = asyncio.create_task(self._own(), name=f"mcp-{self.name}")

    async def tools(self, on_warning: Callable[[str], object]) -> list[Any]:
        try:
            return await self._answered()
        except ToolFailure as failure:
            on_warning(f"MCP server {self.name} is left out: {failure}")
            return []

    async def _answered(self) -> list[Any]:
        """Its tools. Raises ToolFailure: why there is no connection."""
        try:
            async with asyncio.timeout(START_PATIENCE_S):
                return await asyncio.shield(self._listed)
        except TimeoutError:
            raise ToolFailure(f"no answer within {START_PATIENCE_S:g} s") from None
        except Exception as error:
            raise ToolFailure(self._told(error)) from None

    async def _connected(self) -> Any:
        async with self._opening:
            if self._client is None:
                await self.close()
                self.open()
                try:
                    await self._answered()
                except ToolFailure as failure:
                    raise ToolFailure(f"MCP server {self.name} has ended: {failure}") from None
        return self._client

    async def call(self, name: str, arguments: dict[str, Any], context: ToolContext) -> Any:
        client = self._client or await self._connected()

        async def heard(progress: float, total: float | None, message: str | None) -> None:
            amount = f"{progress:g}" if total is None else f"{progress:g}/{total:g}"
            context.progress(f"{message or ''} {amount}\n".lstrip())

        try:
            return await client.call_tool(
                name, arguments, read_timeout_seconds=CALL_PATIENCE_S, progress_callback=heard
            )
        except Exception as error:
            if self._client is client and _is_lost(error):
                self._client = None
            raise ToolFailure(f"MCP server {self.name}: {self._told(error)}") from None

    async def close(self) -> None:
        self._is_over.set()
        if self._task is not None:
            # Who has not even begun to serve has nothing that could be ended in good order.
            if self._listed.done():
                await asyncio.wait([self._task], timeout=_END_PATIENCE_S)
            if not self._task.done():
                self._task.cancel()
                await asyncio.wait([self._task], timeout=_END_PATIENCE_S)
        if self._listed.done() and not self._listed.cancelled():
            self._listed.exception()  # somebody has looked at it

    async def _own(self) -> None:
        listed, is_over, client = self._listed, self._is_over, None
        try:
            async with AsyncExitStack() as stack:
                client = await stack.enter_async_context(import_module("mcp").Client(self._transport(stack)))
                tools = await _all_tools(client)
                self._client = client
                listed.set_result(tools)
                await is_over.wait()
        except BaseException as error:
            if not listed.done():
                listed.set_exception(error if isinstance(error, Exception) else ToolFailure("stopped"))
            if not isinstance(error, Exception):
                raise
        finally:
            if self._client is client:
                self._client = None

    def _transport(self, stack: AsyncExitStack) -> Any:
        server = self._server
        if server.type == "stdio":
            invocation = Invocation(
                argv=(server.command, *server.args),
                env={**self._env, **server.env},
                cwd=server.cwd or self._cwd,
                stdin_stays_open=True,
            )
            self._process = ServerProcess(self._confine(invocation) if self._confine else invocation)
            return transport(self._process)
        if server.type == "sse":
            return import_module("mcp.client.sse").sse_client(
                server.url, headers=server.headers, httpx_client_factory=self._http
            )
        http = self._http(server.headers, CALL_PATIENCE_S)
        stack.push_async_callback(http.aclose)
        return import_module("mcp.client.streamable_http").streamable_http_client(
            server.url, http_client=http
        )

    def _http(self, headers: Any = None, timeout: Any = None, auth: Any = None) -> Any:
        async def heard(response: Any) -> None:
            # Many servers refuse what is no message, the stream that they need not have: that says nothing.
            if response.request.method == "POST" or self._server.type == "sse":
                is_refused = response.status_code >= 400
                self._refusal = f"HTTP {response.status_code} {response.reason_phrase}" if is_refused else ""

        hooks = {"response": [heard]}
        return import_module("httpx2").AsyncClient(
            headers=headers, timeout=timeout, auth=auth, event_hooks=hooks
        )

    def _told(self, error: BaseException) -> str:
        while isinstance(error, BaseExceptionGroup) and error.exceptions:
            error = error.exceptions[0]
        text = error.message if isinstance(error, HarnessError) else str(error)
        told = (text or type(error).__name__).partition("\n")[0]
        return (f"{self._refusal}: {told}" if self._refusal else told) + self._last_words()

    def _last_words(self) -> str:
        words = self._process.last_words() if self._process is not None else ""
        return f" (it said: {words[-500:]})" if words else ""


def _is_lost(error: Exception) -> bool:
    """Whether the client says, in its own words, that it will hear no more: the server is gone, or is a new one."""
    return getattr(error, "message", "") in ("Connection closed", "Session terminated")


async def _all_tools(client: Any) -> list[Any]:
    found: list[Any] = []
    cursor: str | None = None
    while len(found) < MOST_TOOLS:
        page = await client.list_tools(cursor=cursor)
        found += page.tools
        cursor = page.next_cursor
        if not cursor:
            break
    return found[:MOST_TOOLS]


class McpTool(Tool):
    """One tool of a server. What it does nobody here knows, so it says no operations."""

    category = "mcp"

    def __init__(self, name: str, tool: Any, connection: _Connection, outputs: OutputFolder) -> None:
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
        kept = self._outputs.new(context.call_id or self.spec.name, SHOWN_BYTES)
        data = "\n".join(texts).encode("utf-8", "replace")
        shown.feed(data)
        kept.feed(data)
        kept.close()
        parts = [part for part in (shown.text(), kept.notice()) if part]
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
