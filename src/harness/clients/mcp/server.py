"""A client of MCP and its requests: protocol 2026-07-28, in which each request stands alone, and those before it.

Rules
1. Which of both it is, each request says: one that names its version in `_meta` is a modern one.
2. What a run asks goes to the person if the client can ask: as `input_required`, as a task that needs input, or, in older
   protocols, as our own request. Otherwise the call returns with the outcome `waiting`, and `answer` continues.
3. Every request is answered, and none of them ends the server.
"""

from __future__ import annotations

import asyncio
import datetime as dt
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from harness.clients.acp.rpc_connection import Fields, MessageOutput, RpcConnection
from harness.clients.acp.wire import (
    INVALID_PARAMETERS,
    UNKNOWN_METHOD,
    RpcError,
)
from harness.clients.mcp.agent_runs import DelegatedRun, form_of
from harness.clients.mcp.agent_tools import AgentTools, text_of
from harness.clients.mcp.tools import INSTRUCTIONS, TOOLS
from harness.errors import HarnessError, UsageError
from harness.events import Relay
from harness.version import __version__

MODERN = ("2026-07-28",)
OLDER = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
_META = "io.modelcontextprotocol/"
TASKS = "io.modelcontextprotocol/tasks"
_UNSUPPORTED_VERSION, _MISSING_CAPABILITY = -32022, -32021
_TASK_AFTER_S = 1.0
_TASK_TTL_MS, _POLL_MS = 24 * 3600 * 1000, 500
_OF_TOOLS = frozenset(("tools/list", "tools/call"))
_METHODS_NOW = _OF_TOOLS | {"server/discover", "tasks/get", "tasks/update", "tasks/cancel"}
_BEFORE_ALL = frozenset(("initialize", "ping"))
_METHODS_BEFORE = _OF_TOOLS | _BEFORE_ALL
_UNCLEAR = f"`_meta` must name the version of the protocol (`{_META}protocolVersion`); before 2026-07-28, `initialize` does"
_MOST_ROUNDS = 8
"""Clients give up after ten rounds of questions: before that, the call returns with what is asked."""
_MOST_TRIES = 3
"""So often a question is asked again whose answer was none."""
_SERVER = {"name": "harness", "title": "Harness", "version": __version__}


class CallingClient:
    """What the client of a request can do."""

    def __init__(self, capabilities: Mapping[str, Any], *, is_modern: bool) -> None:
        self.is_modern = is_modern
        extensions = capabilities.get("extensions")
        self.has_tasks = is_modern and isinstance(extensions, dict) and TASKS in extensions
        forms = capabilities.get("elicitation")
        self.has_forms = isinstance(forms, dict) and (not forms or "form" in forms)


class McpConnection(RpcConnection):
    """Contract: that of `RpcConnection`."""

    PROTOCOL = "MCP"
    MOST_REQUESTS = 64

    def __init__(self, tools: AgentTools, output: MessageOutput) -> None:
        super().__init__(output)
        self._tools = tools
        self._capabilities: Fields = {}
        self._version = ""
        self._calls: dict[Any, DelegatedRun] = {}
        self._open_requests: dict[str, asyncio.Future[Fields]] = {}
        self._rounds: dict[str, int] = {}
        self._count = 0

    async def _result(
        self, request_id: Any, method: str, parameters: Fields, after: list[Callable[[], None]]
    ) -> Fields:
        del after
        meta = parameters.get("_meta")
        meta = meta if isinstance(meta, dict) else {}
        try:
            result = await self._result_of(request_id, method, parameters, meta)
        finally:
            self._calls.pop(request_id, None)
        if f"{_META}protocolVersion" in meta:
            result.setdefault("resultType", "complete")
        return result

    async def _result_of(self, request_id: Any, method: str, parameters: Fields, meta: Fields) -> Fields:
        is_modern = f"{_META}protocolVersion" in meta
        if is_modern:
            _check_version(meta)
        is_unclear = not is_modern and not self._version and method not in _BEFORE_ALL
        if method not in (
            _METHODS_NOW | _METHODS_BEFORE if is_unclear else _METHODS_NOW if is_modern else _METHODS_BEFORE
        ):
            raise RpcError(UNKNOWN_METHOD, f"there is no method {method[:80]!r}")
        if is_unclear:
            raise RpcError(INVALID_PARAMETERS, _UNCLEAR)
        client = CallingClient(
            meta[f"{_META}clientCapabilities"] if is_modern else self._capabilities, is_modern=is_modern
        )
        if method == "server/discover":
            return _discovered()
        if method == "initialize":
            return self._initialize(parameters)
        if method == "ping":
            return {}
        if method == "tools/list":
            return {"tools": TOOLS, **({"ttlMs": 3_600_000, "cacheScope": "public"} if is_modern else {})}
        if method == "tools/call":
            return await self._call(request_id, parameters, meta, client)
        return await self._task(method, parameters, client)

    def _initialize(self, parameters: Fields) -> Fields:
        version = parameters.get("protocolVersion")
        capabilities = parameters.get("capabilities")
        self._capabilities = capabilities if isinstance(capabilities, dict) else {}
        self._version = version if version in OLDER else OLDER[0]
        return {
            "protocolVersion": self._version,
            "capabilities": {"tools": {}},
            "serverInfo": _SERVER,
            "instructions": INSTRUCTIONS,
        }

    # Calls of tools

    async def _call(self, request_id: Any, parameters: Fields, meta: Fields, client: CallingClient) -> Fields:
        name, tool_arguments = parameters.get("name"), parameters.get("arguments")
        arguments: Fields = tool_arguments if isinstance(tool_arguments, dict) else {}
        if name not in [tool["name"] for tool in TOOLS]:
            raise RpcError(INVALID_PARAMETERS, f"there is no tool {str(name)[:80]!r}")
        try:
            if name in ("run_agent", "hand_over"):
                return await self._run(request_id, name, parameters, meta, client)
            return await self._tools.call(str(name), arguments)
        except HarnessError as error:  # the model reads it, and can do something else
            return {"content": [{"type": "text", "text": error.words}], "isError": True}

    async def _run(
        self, request_id: Any, name: str, parameters: Fields, meta: Fields, client: CallingClient
    ) -> Fields:
        """`run_agent` until it ends, asks, or becomes a task; a repeated call continues its run."""
        state = parameters.get("requestState") if client.is_modern else None
        if state is not None:
            run = await self._tools.known(text_of({"requestState": state}, "requestState"))
            await self._answer_all(run, parameters.get("inputResponses"))
        else:
            tool_arguments = parameters.get("arguments")
            run = await self._tools.begin(name, tool_arguments if isinstance(tool_arguments, dict) else {})
            self._rounds.pop(run.id, None)
        self._calls[request_id] = run
        tries: Counter[str] = Counter()
        progress = asyncio.get_running_loop().create_task(self._report(run, meta.get("progressToken")))
        try:
            while True:
                await run.wait(_TASK_AFTER_S if client.has_tasks else None)
                if client.has_tasks and not run.is_over:
                    return {"resultType": "task", **_task_of(run)}
                if run.is_over or not client.has_forms:
                    return run.as_result()
                if client.is_modern and self._is_tired(run):
                    return run.as_result()
                if client.is_modern:
                    forms = {relay_id: form_of(relay) for relay_id, relay in run.questions.items()}
                    return {"resultType": "input_required", "inputRequests": forms, "requestState": run.id}
                tries.update(run.questions.keys())
                if max(tries.values()) > _MOST_TRIES:
                    return run.as_result()
                for relay_id, relay in run.questions.items():
                    if (response := await self._ask(run, relay)) is not None:
                        await self._answer_all(run, {relay_id: response})
        finally:
            progress.cancel()

    def _is_tired(self, run: DelegatedRun) -> bool:
        self._rounds[run.id] = self._rounds.get(run.id, 0) + 1
        return self._rounds[run.id] > _MOST_ROUNDS

    async def _answer_all(self, run: DelegatedRun, responses: Any) -> None:
        for relay_id, response in responses.items() if isinstance(responses, dict) else ():
            relay = run.questions.get(relay_id)
            if relay is None:
                continue  # it was answered elsewhere
            content = response.get("content") if isinstance(response, dict) else None
            is_given = (
                isinstance(response, dict)
                and response.get("action") == "accept"
                and isinstance(content, dict)
            )
            answer = content.get("answer") if is_given and content else None
            with suppress(UsageError):  # it is asked again
                await self._tools.answer(run, relay, answer)

    async def _report(self, run: DelegatedRun, token: Any) -> None:
        """Tell the client of each call that the agent makes."""
        report_seq = 0
        while isinstance(token, str | int):
            async with run.changed:
                await run.changed.wait()
            if run.steps > report_seq:
                report_seq = run.steps
                about = {"progressToken": token, "progress": report_seq, "message": run.last_call}
                self._send({"method": "notifications/progress", "params": about})

    async def _ask(self, run: DelegatedRun, relay: Relay) -> Fields | None:
        """A question to the client, in protocols before 2026-07-28. None: it was answered elsewhere, and is withdrawn."""
        self._count += 1
        key, form = f"h{self._count}", form_of(relay)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Fields] = loop.create_future()
        self._open_requests[key] = future
        elsewhere = loop.create_task(run.wait_for_answer(relay.id, None))
        parameters = dict(form["params"])
        if self._version < "2025-11-25":
            parameters.pop("mode", None)
        self._send({"id": key, "method": form["method"], "params": parameters})
        try:
            await asyncio.wait((future, elsewhere), return_when=asyncio.FIRST_COMPLETED)
            if future.done():
                return future.result()
            about = {"requestId": key, "reason": "it was answered elsewhere"}
            self._send({"method": "notifications/cancelled", "params": about})
            return None
        finally:
            self._open_requests.pop(key, None)
            elsewhere.cancel()

    # Tasks

    async def _task(self, method: str, parameters: Fields, client: CallingClient) -> Fields:
        if not client.has_tasks:
            about: Fields = {"requiredCapabilities": {"extensions": {TASKS: {}}}}
            raise RpcError(_MISSING_CAPABILITY, "this needs the extension for tasks", about)
        run = await self._tools.known(text_of(parameters, "taskId"))
        if method == "tasks/cancel":
            await run.stop()
            return {}
        if method == "tasks/update":
            await self._answer_all(run, parameters.get("inputResponses"))
            return {}
        return _task_of(run, is_whole=True)

    # Messages

    def _notified(self, method: str, parameters: Fields) -> None:
        if method != "notifications/cancelled":
            return
        request_id = parameters.get("requestId")
        task = self._work_on(request_id)
        run = self._calls.get(request_id) if task is not None else None
        if run is not None:
            asyncio.get_running_loop().create_task(run.stop())
        if task is not None:
            task.cancel()

    def _answered(self, message: Fields) -> None:
        future = self._open_requests.get(str(message.get("id")))
        if future is not None and not future.done():
            result = message.get("result")
            future.set_result(result if isinstance(result, dict) else {"action": "cancel"})

    def _cancelled(self, request_id: Any) -> None:
        """Such requests are not answered."""

    def _as_rpc_error(self, error: HarnessError, parameters: Fields) -> RpcError:
        del parameters
        return RpcError(INVALID_PARAMETERS, error.words)


def _check_version(meta: Fields) -> None:
    """Raises RpcError for a version that is not spoken here, and without what every request must say."""
    version = meta[f"{_META}protocolVersion"]
    if version not in MODERN:
        about = {"supported": list(MODERN), "requested": version}
        raise RpcError(_UNSUPPORTED_VERSION, "this version of the protocol is not spoken here", about)
    if not isinstance(meta.get(f"{_META}clientCapabilities"), dict):
        raise RpcError(INVALID_PARAMETERS, f"`_meta` must have `{_META}clientCapabilities`")


def _discovered() -> Fields:
    return {
        "supportedVersions": list(MODERN),
        "capabilities": {"tools": {}, "extensions": {TASKS: {}}},
        "instructions": INSTRUCTIONS,
        "ttlMs": 3_600_000,
        "cacheScope": "public",
        "_meta": {f"{_META}serverInfo": _SERVER},
    }


def _task_of(run: DelegatedRun, *, is_whole: bool = False) -> Fields:
    """The state of a task: its id is that of the session."""
    questions = run.questions
    status = "input_required" if questions else "completed" if run.is_over else "working"
    if run.result is not None and run.result.outcome == "interrupted" and not questions:
        status = "cancelled"
    task: Fields = {
        "taskId": run.id,
        "status": status,
        "createdAt": _iso(run.created_ms),
        "lastUpdatedAt": _iso(run.changed_ms),
        "ttlMs": _TASK_TTL_MS,
        "pollIntervalMs": _POLL_MS,
    }
    if is_whole and status == "completed":
        task["result"] = {"resultType": "complete", **run.as_result()}
    if is_whole and questions:
        task["inputRequests"] = {relay_id: form_of(relay) for relay_id, relay in questions.items()}
    return task


def _iso(at_ms: int) -> str:
    moment = dt.datetime.fromtimestamp(max(0, at_ms) / 1000, dt.UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
