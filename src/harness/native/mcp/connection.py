"""The connection to one MCP server: a program below the watchdog (`ServerProcess`), or an address.

Each connection belongs to one task, which opens and closes it: the client insists on that. Calls come from
wherever the loop makes them. A call that loses its connection has failed; the next one makes a new connection.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from harness.contracts import elicitation
from harness.contracts.tool import ToolContext, ToolFailure
from harness.errors import HarnessError
from harness.formats.json_lines import LineBlocks
from harness.native.mcp.config import ServerEntry
from harness.process.child import Child
from harness.process.invocation import Invocation

_LIST = "tools/list"


@asynccontextmanager
async def tolerant(
    inner: AbstractAsyncContextManager[tuple[Any, Any]],
    version: Callable[[], str],
    on_bad_tool: Callable[[str, str], object],
) -> AsyncIterator[tuple[Any, Any]]:
    """`version`: of the protocol, as it was agreed on. `on_bad_tool`: (name, what is wrong with it)."""
    anyio = import_module("anyio")
    async with inner as (reader, write):
        incoming, received = anyio.create_memory_object_stream(0)

        async def pass_on() -> None:
            async with incoming:
                async for item in reader:
                    repair(item, version(), on_bad_tool)
                    await incoming.send(item)

        task = asyncio.create_task(pass_on())
        try:
            yield received, write
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            incoming.close()
            received.close()


def repair(item: Any, version: str, on_bad_tool: Callable[[str, str], object]) -> None:
    """Remove invalid tools from a message, if it has any."""
    result = getattr(getattr(item, "message", None), "result", None)
    if not isinstance(result, dict):
        return
    tools = result.get("tools")
    if (
        not isinstance(tools, list)
        or not _trouble(result, version)
        or _trouble({**result, "tools": []}, version)
    ):
        return  # it is valid, or its tools are not the problem
    good = []
    for number, tool in enumerate(tools, 1):
        if trouble := _trouble({**result, "tools": [tool]}, version):
            name = tool.get("name") if isinstance(tool, dict) else None
            on_bad_tool(name if isinstance(name, str) and name else f"number {number}", trouble)
        else:
            good.append(tool)
    result["tools"] = good


def _trouble(result: dict[str, Any], version: str) -> str:
    """Why the library would reject it; empty when it accepts it."""
    types = import_module("mcp_types")
    try:
        import_module("mcp_types.methods").validate_server_result(_LIST, version, result)
        types.ListToolsResult.model_validate(result, by_name=False)
    except (KeyError, AttributeError):
        return ""
    except ValueError as error:  # of pydantic: the first thing that is wrong
        errors: list[Any] = getattr(error, "errors", list)()
        if not errors:
            return str(error).partition("\n")[0]
        place = ".".join(
            str(step) for step in errors[0]["loc"] if step != "tools" and not isinstance(step, int)
        )
        return f"{place}: {errors[0]['msg']}" if place else str(errors[0]["msg"])
    return ""


_EXIT_TIMEOUT_S = 2.0
"""How long a server may take to end once its input has ended."""
_MOST_UNREAD_LINES = 1000
_LAST_WORDS_BYTES = 2048


class ServerProcess:
    """Contract: made and closed in one event loop; `lines` and `write` belong to it as well."""

    def __init__(self, invocation: Invocation) -> None:
        self._invocation = invocation
        self._loop = asyncio.get_running_loop()
        self._lines: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._room = threading.Semaphore(_MOST_UNREAD_LINES)
        self._has_started: asyncio.Future[None] = self._loop.create_future()
        self._has_ended = asyncio.Event()
        self._child: Child | None = None
        self._is_closing = False
        self._errors = b""

    async def start(self) -> None:
        """Raises what `Child` does."""
        threading.Thread(target=self._work, name="mcp-server", daemon=True).start()
        try:
            await asyncio.shield(self._has_started)
        except asyncio.CancelledError:
            await self.close()
            raise

    def write(self, line: bytes) -> None:
        if self._child is not None:
            self._child.write(line + b"\n")

    async def lines(self) -> AsyncIterator[bytes]:
        while (line := await self._lines.get()) is not None:
            self._room.release()
            yield line

    def last_words(self) -> str:
        """The end of what it wrote to its standard error."""
        return self._errors.decode("utf-8", "replace").strip()

    async def close(self) -> None:
        """End it: by the end of its input, else by force."""
        self._is_closing = True
        if self._child is not None:
            self._child.close_stdin()
            end = asyncio.create_task(self._has_ended.wait())
            try:
                # Not `asyncio.timeout`: before Python 3.11.3 it gives up more than the waiting in a task that was cancelled.
                await asyncio.wait([end], timeout=_EXIT_TIMEOUT_S)
            finally:
                end.cancel()
                self._child.kill()
        await self._has_ended.wait()

    def _work(self) -> None:
        error: BaseException | None = None
        try:
            with Child(self._invocation) as child:
                self._child = child
                self._call_in_loop(self._settle_start, None)
                self._read(child)
        except BaseException as raised:  # noqa: BLE001 # it is told to the task that waits
            error = raised
        self._call_in_loop(self._settle_start, error)
        self._call_in_loop(self._lines.put_nowait, None)
        self._call_in_loop(self._has_ended.set)

    def _read(self, child: Child) -> None:
        blocks = LineBlocks()
        while child.exit is None:
            for chunk in child.read():
                if chunk.stream == "stderr":
                    self._errors = (self._errors + chunk.data)[-_LAST_WORDS_BYTES:]
                    continue
                for line in blocks.feed(chunk.data).split(b"\n"):
                    if line.strip() and self._has_room():
                        self._call_in_loop(self._lines.put_nowait, line)

    def _has_room(self) -> bool:
        """Wait until the reader has caught up; give up once the connection is closing."""
        while not self._is_closing:
            if self._room.acquire(timeout=0.1):
                return True
        return False

    def _settle_start(self, error: BaseException | None) -> None:
        if not self._has_started.done():
            if error is None:
                self._has_started.set_result(None)
            else:
                self._has_started.set_exception(error)

    def _call_in_loop(self, what: Any, *arguments: Any) -> None:
        with suppress(RuntimeError):  # the event loop is closed
            self._loop.call_soon_threadsafe(what, *arguments)


@asynccontextmanager
async def transport(process: ServerProcess) -> AsyncIterator[tuple[Any, Any]]:
    """What the official client takes for a connection: a stream of messages each way."""
    anyio, messages = import_module("anyio"), import_module("mcp.shared.message")
    adapter = import_module("mcp_types").jsonrpc_message_adapter
    await process.start()
    incoming, received = anyio.create_memory_object_stream(0)
    sending, outgoing = anyio.create_memory_object_stream(0)

    async def bring() -> None:
        async with incoming:
            async for line in process.lines():
                try:
                    item = messages.SessionMessage(adapter.validate_json(line, by_name=False))
                except ValueError as error:  # the session gets the error, and continues
                    item = error
                await incoming.send(item)

    async def carry() -> None:
        async with outgoing:
            async for item in outgoing:
                process.write(item.message.model_dump_json(by_alias=True, exclude_unset=True).encode())

    tasks = [asyncio.create_task(bring()), asyncio.create_task(carry())]
    try:
        yield received, sending
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for stream in (incoming, received, sending, outgoing):
            stream.close()
        await process.close()


CONNECT_TIMEOUT_S = 30.0
CALL_TIMEOUT_S = 600.0
_END_TIMEOUT_S = 5.0
"""For a connection to be closed: first in good order, then by force."""
_LIST_TIMEOUT_S = 5.0
MOST_TOOLS = 500
_USUAL_VERSION = "2025-11-25"


class Connection:
    def __init__(
        self,
        name: str,
        server: ServerEntry,
        *,
        cwd: str,
        env: Mapping[str, str],
        on_warning: Callable[[str], object],
        confine: Callable[[Invocation], Invocation] | None = None,
        headers: Callable[[], Mapping[str, str]] | None = None,
    ) -> None:
        """`headers`: called for every request, for those that change."""
        self.name = name
        self.tools: list[Any] = []
        """As the server listed them last; another list when they have changed."""
        self._server = server
        self._cwd = cwd
        self._env = env
        self._on_warning = on_warning
        self._confine = confine
        self._headers = headers
        self._warned: set[str] = set()
        """Bad tools that were warned of."""
        self._process: ServerProcess | None = None
        self._refusal = ""
        """What the server last sent instead of a valid answer."""
        self._client: Any = None
        self._task: asyncio.Task[None] | None = None
        self._listing: asyncio.Future[None]
        self._is_over: asyncio.Event
        self._has_changed: asyncio.Event
        self._is_current: asyncio.Event
        """Whether `tools` are those that the server last announced."""
        self._opening = asyncio.Lock()
        self._calling: list[ToolContext] = []
        """The contexts of the calls under way, the latest last."""

    def open(self) -> None:
        self._refusal = ""
        self._listing = asyncio.get_running_loop().create_future()
        self._is_over, self._has_changed = asyncio.Event(), asyncio.Event()
        self._is_current = asyncio.Event()
        self._is_current.set()
        self._task = asyncio.create_task(self._own(), name=f"mcp-{self.name}")

    @property
    def answered(self) -> asyncio.Future[None]:
        """Done when it has listed its tools, or failed to."""
        return self._listing

    def failure(self) -> str:
        """Why there is no connection; empty when there is one, or it is not known yet."""
        if (
            not self._listing.done()
            or self._listing.cancelled()
            or (error := self._listing.exception()) is None
        ):
            return ""
        return self._message_of(error)

    @property
    def is_connected(self) -> bool:
        return self._client is not None

    async def _answered(self) -> None:
        """Raises ToolFailure: why there is no connection."""
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                await asyncio.shield(self._listing)
        except TimeoutError:
            raise ToolFailure(f"no answer within {CONNECT_TIMEOUT_S:g} s") from None
        except Exception as error:  # noqa: BLE001 # the library raises what it likes: one error for the model
            raise ToolFailure(self._message_of(error)) from None

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

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            amount = f"{progress:g}" if total is None else f"{progress:g}/{total:g}"
            context.progress(f"{message or ''} {amount}\n".lstrip())

        self._calling.append(context)
        try:
            answer = await client.call_tool(
                name, arguments, read_timeout_seconds=CALL_TIMEOUT_S, progress_callback=on_progress
            )
        except Exception as error:  # noqa: BLE001 # as in `_answered`
            if self._client is client and _is_lost(error):
                self._client = None
            raise ToolFailure(f"MCP server {self.name}: {self._message_of(error)}") from None
        else:
            await self._be_current()
            return answer
        finally:
            self._calling.remove(context)

    async def _be_current(self) -> None:
        """A call may change the list of tools: its caller sees that with the next step."""
        await asyncio.sleep(0)  # what came before the answer is handled before it
        with suppress(TimeoutError):
            async with asyncio.timeout(_LIST_TIMEOUT_S):
                await self._is_current.wait()

    async def close(self) -> None:
        if self._task is None:
            return
        self._is_over.set()
        # A server that has not started to serve has nothing to shut down in order.
        if self._listing.done():
            await asyncio.wait([self._task], timeout=_END_TIMEOUT_S)
        if not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task], timeout=_END_TIMEOUT_S)
        if self._listing.done() and not self._listing.cancelled():
            self._listing.exception()  # marks it as retrieved

    async def _own(self) -> None:
        listing, client = self._listing, None
        try:
            async with AsyncExitStack() as stack:
                client = self._new_client(stack)
                await stack.enter_async_context(client)
                self.tools = await _all_tools(client)
                self._client = client
                listing.set_result(None)
                await self._follow(client)
        except BaseException as error:
            if not listing.done():
                listing.set_exception(error if isinstance(error, Exception) else ToolFailure("stopped"))
            if not isinstance(error, Exception):
                raise
        finally:
            if self._client is client:
                self._client = None

    async def _follow(self, client: Any) -> None:
        """Until it is over; tools that have changed are asked for again."""
        is_over, has_changed = self._is_over, self._has_changed
        tasks = [asyncio.create_task(is_over.wait()), asyncio.create_task(self._subscribe(client))]
        try:
            while not is_over.is_set():
                changed = asyncio.create_task(has_changed.wait())
                tasks.append(changed)
                await asyncio.wait((tasks[0], changed), return_when=asyncio.FIRST_COMPLETED)
                if has_changed.is_set() and not is_over.is_set():
                    has_changed.clear()
                    await self._list_again(client)
                    if not has_changed.is_set():
                        self._is_current.set()
                tasks.remove(changed)
                changed.cancel()
        finally:
            self._is_current.set()  # no further change will be announced
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _list_again(self, client: Any) -> None:
        try:
            self.tools = await _all_tools(client, cache_mode="refresh")
        except Exception as error:  # noqa: BLE001 # the tools that were known stay
            self._on_warning(
                f"MCP server {self.name}: its changed tools are not known: {self._message_of(error)}"
            )

    async def _subscribe(self, client: Any) -> None:
        """Newer servers announce changes only to clients that subscribe."""
        with suppress(Exception):  # others do not support it, and notify every client
            async with client.listen(tools_list_changed=True) as changes:
                async for _ in changes:
                    self._note_change()

    def _new_client(self, stack: AsyncExitStack) -> Any:
        client: Any = None

        def version() -> str:
            with suppress(Exception):  # it has not been agreed on yet
                return str(client.protocol_version)
            return _USUAL_VERSION

        repaired = tolerant(self._transport(stack), version, self._warn_of_tool)
        client = import_module("mcp").Client(
            repaired,
            list_roots_callback=self._roots,
            elicitation_callback=self._elicit,
            message_handler=self._heard,
        )
        return client

    def _warn_of_tool(self, name: str, trouble: str) -> None:
        if name not in self._warned:
            self._warned.add(name)
            self._on_warning(f"MCP server {self.name}: its tool {name} is left out: {trouble}")

    async def _heard(self, message: Any) -> None:
        if getattr(message, "method", "") == "notifications/tools/list_changed":
            self._note_change()

    def _note_change(self) -> None:
        self._is_current.clear()
        self._has_changed.set()

    async def _roots(self, context: Any) -> Any:
        """Where the work is done."""
        del context
        types = import_module("mcp_types")
        root = types.Root(uri=Path(self._cwd).as_uri(), name=os.path.basename(self._cwd) or None)
        return types.ListRootsResult(roots=[root])

    async def _elicit(self, context: Any, params: Any) -> Any:
        """Passed on as a question of the latest call under way."""
        del context
        types = import_module("mcp_types")
        if not self._calling:
            return types.ElicitResult(action="decline")
        action, content = await elicitation.ask(self.name, params, self._calling[-1])
        return types.ElicitResult(action=action, content=content)

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
        http = self._http(server.headers, CALL_TIMEOUT_S)
        stack.push_async_callback(http.aclose)
        return import_module("mcp.client.streamable_http").streamable_http_client(
            server.url, http_client=http
        )

    def _http(self, headers: Any = None, timeout: Any = None, auth: Any = None) -> Any:
        async def on_response(response: Any) -> None:
            # Many servers refuse the optional stream, which is no message: that says nothing.
            if response.request.method == "POST" or self._server.type == "sse":
                is_refused = response.status_code >= 400
                self._refusal = f"HTTP {response.status_code} {response.reason_phrase}" if is_refused else ""

        async def on_request(request: Any) -> None:
            if self._headers is not None:
                request.headers.update(self._headers())

        hooks = {"request": [on_request], "response": [on_response]}
        return import_module("httpx2").AsyncClient(
            headers=headers, timeout=timeout, auth=auth, event_hooks=hooks
        )

    def _message_of(self, error: BaseException) -> str:
        while isinstance(error, BaseExceptionGroup) and error.exceptions:
            error = error.exceptions[0]
        text = error.message if isinstance(error, HarnessError) else str(error)
        reason = (text or type(error).__name__).partition("\n")[0]
        return (f"{self._refusal}: {reason}" if self._refusal else reason) + self._last_words()

    def _last_words(self) -> str:
        stderr = self._process.last_words() if self._process is not None else ""
        return f" (it said: {stderr[-500:]})" if stderr else ""


def _is_lost(error: Exception) -> bool:
    """Whether the client's message says that the connection is lost: the server has ended, or is a new one."""
    return getattr(error, "message", "") in ("Connection closed", "Session terminated")


async def _all_tools(client: Any, **how: Any) -> list[Any]:
    tools_found: list[Any] = []
    cursor: str | None = None
    while len(tools_found) < MOST_TOOLS:
        page = await client.list_tools(cursor=cursor, **how)
        tools_found += page.tools
        cursor = page.next_cursor
        if not cursor:
            break
    return tools_found[:MOST_TOOLS]
