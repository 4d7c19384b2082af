"""Shows the state of a conversation and sends commands, over a connection that comes back by itself.

async with HarnessClient("http://127.0.0.1:4780", token=token, session=session_id) as client:
    await client.send(Submit(prompt="fix the tests"))
    async for state in client.states():
        print(state["status"])

Rules
1. The client computes nothing: `state` is the server's.
2. A command that is given while there is no connection is sent when there is one again; a command that was being sent
   when the connection broke may or may not have arrived, and is not sent again.
3. Errors of the server are in `errors`, and passed to `on_error`.
4. Without a session, the first prompt creates one, and the client reconnects to it as to any other.
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from operator import is_not
from typing import Any, Self, TypeVar
from urllib.parse import quote, urlsplit

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from harness.clients.commands import Command
from harness.errors import UnknownSession, UsageError
from harness.folds.page_state.object_stream import BadOperation, apply

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 5.0
_MOST_ERRORS = 100
_UNKNOWN_SESSION = 4404

State = dict[str, Any]


class HarnessClient:
    """Contract: lives in one event loop; `async with`, or `open` and `close`."""

    def __init__(
        self,
        url: str,
        *,
        token: str,
        session: str = "",
        on_error: Callable[[str], object] | None = None,
    ) -> None:
        self._server = url
        self._url = _socket_url(url, session)
        self._token = token
        self._on_error = on_error
        self.state: State = {"status": "idle", "messages": []}
        self.seq: int = 0
        self.errors: deque[str] = deque(maxlen=_MOST_ERRORS)
        self.is_connected: bool = False
        self.connections: int = 0
        """How often it was connected."""
        self._outbox: deque[str] = deque()
        self._has_outgoing = asyncio.Event()
        self._changed = asyncio.Event()
        self._failure: Exception | None = None
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def open(self) -> None:
        """Connect, and wait for the state. Raises UsageError and UnknownSession for what will never work."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._live())
        while not self.connections:
            await self._wait()

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def send(self, command: Command | Mapping[str, Any]) -> None:
        """Queue a command; returns at once. Raises the error that made the connection impossible."""
        if self._failure is not None:
            raise self._failure
        self._outbox.append(msgspec.json.encode({"type": "commands", "commands": [command]}).decode())
        self._has_outgoing.set()

    async def states(self) -> AsyncIterator[State]:
        """The state now, and after every change. Ends never; raises what makes the connection impossible."""
        last: State | None = None
        while True:
            if self.state is not last:
                last = self.state
                yield last
            else:
                await self._wait()

    async def until(self, is_so: Callable[[State], Any]) -> State:
        """Wait for the first state for which `is_so` returns true."""
        while not is_so(self.state):
            await self._wait()
        return self.state

    async def _wait(self) -> None:
        changed = self._changed
        if self._failure is None:
            await changed.wait()
        if self._failure is not None:
            raise self._failure

    def _notify(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def _live(self) -> None:
        pause_s = _FIRST_PAUSE_S
        while True:
            before = self.connections
            try:
                await self._connected()
            except (OSError, TimeoutError, ConnectionClosed, InvalidHandshake, BadOperation) as error:
                self._failure = _final_error(error)
            finally:
                self.is_connected = False
                self._notify()
            if self._failure is not None:
                return
            pause_s = _FIRST_PAUSE_S if self.connections > before else min(pause_s * 2, _LONGEST_PAUSE_S)
            await asyncio.sleep(pause_s * random.uniform(0.5, 1.0))  # noqa: S311 # only spreads when it tries again

    async def _connected(self) -> None:
        headers = {"Authorization": f"Bearer {self._token}"}
        async with connect(self._url, additional_headers=headers, compression=None, max_size=None) as socket:
            sending = asyncio.get_running_loop().create_task(self._send_all(socket))
            try:
                async for text in socket:
                    self._take(msgspec.json.decode(text))
                # The loop just ends when the server closes: the code shows whether to reconnect.
                if socket.close_code == _UNKNOWN_SESSION:
                    raise ConnectionClosed(socket.protocol.close_rcvd, None)
            finally:
                sending.cancel()
                with suppress(asyncio.CancelledError, ConnectionClosed):
                    await sending

    async def _send_all(self, socket: ClientConnection) -> None:
        while True:
            while self._outbox:
                await socket.send(self._outbox.popleft())
            self._has_outgoing.clear()
            await self._has_outgoing.wait()

    def _take(self, message: dict[str, Any]) -> None:
        kind = message.get("type")
        if kind == "state":
            self.state, self.seq = message["state"], message.get("seq", 0)
            self.connections += not self.is_connected
            self.is_connected = True
            self._note_session()
        elif kind == "delta":
            self.state, self.seq = apply(self.state, message["operations"]), message.get("seq", 0)
        elif kind == "error":
            self.errors.append(str(message.get("message")))
            if self._on_error is not None:
                self._on_error(self.errors[-1])
        self._notify()

    def _note_session(self) -> None:
        """Connect to the same conversation next time."""
        session = self.state.get("sessionId")
        if session:
            self._url = _socket_url(self._server, session)


def _socket_url(url: str, session: str) -> str:
    parts = urlsplit(url)
    schemes = {"http": "ws", "https": "wss", "ws": "ws", "wss": "wss"}
    if parts.scheme not in schemes or not parts.netloc:
        raise UsageError(f"not the address of a server: {url!r}", hint="write http://127.0.0.1:4780")
    query = f"?session={quote(session, safe='')}" if session else ""
    return f"{schemes[parts.scheme]}://{parts.netloc}/ws{query}"


def _final_error(error: Exception) -> Exception | None:
    """The error that another attempt would not change."""
    if isinstance(error, InvalidStatus) and error.response.status_code in (401, 403, 421):
        return UsageError(
            f"the server refused the request ({error.response.status_code})",
            hint="check the token and the address",
        )
    if isinstance(error, ConnectionClosed) and error.rcvd is not None and error.rcvd.code == _UNKNOWN_SESSION:
        return UnknownSession(error.rcvd.reason or "unknown session")
    return None


Given = TypeVar("Given")


class PlainClient:
    """The same client for programs without an event loop: it has one of its own, in a thread.

    with PlainClient("http://127.0.0.1:4780", token=token, session=session_id) as client:
        client.send(Submit(prompt="fix the tests"))
        state = client.until(lambda state: state["status"] != "running")

    Contract: may be used from any thread; `with`, or `open` and `close`.
    """

    def __init__(self, url: str, *, token: str, session: str = "") -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="harness-client", daemon=True)
        self._client = HarnessClient(url, token=token, session=session)

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def state(self) -> State:
        return self._client.state

    @property
    def errors(self) -> list[str]:
        """What the server refused, the latest last."""
        return list(self._client.errors)

    def open(self, timeout_s: float | None = 30.0) -> None:
        """Raises UsageError, UnknownSession, TimeoutError."""
        self._thread.start()
        try:
            self._do(self._client.open(), timeout_s)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if self._thread.is_alive():
            self._do(self._client.close(), None)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def send(self, command: Command | Mapping[str, Any]) -> None:
        self._do(self._client.send(command), None)

    def until(self, is_so: Callable[[State], Any], timeout_s: float | None = None) -> State:
        """The first state that is as wanted. Raises TimeoutError."""
        return self._do(self._client.until(is_so), timeout_s)

    def states(self) -> Iterator[State]:
        """The state now, and after every change; what is too quick for the reader is passed over."""
        last: State | None = None
        while True:
            last = self.until(partial(is_not, last))
            yield last

    def _do(self, work: Coroutine[Any, Any, Given], timeout_s: float | None) -> Given:
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(timeout_s)
        except TimeoutError:
            future.cancel()
            raise


# A state as assistant-ui wants it: `ThreadMessage[]`, and whether something runs.
#
# A state of the plain protocol alone (content, then tool calls) gives text, then calls; one with `parts` gives them in
# their order.


Data = dict[str, Any]

_STATUS: dict[str, Data] = {
    "pending": {"type": "running"},
    "streaming": {"type": "running"},
    "complete": {"type": "complete", "reason": "stop"},
}
_OPTIONS = (
    ("allow-once", "Allow"),
    ("reject-once", "Deny"),
)


def to_thread(state: Data) -> Data:
    """`{messages, isRunning}`."""
    relays = {relay["id"]: relay for relay in state.get("relays", ())}
    error = state.get("error")
    messages = [_message(message, relays, error) for message in state.get("messages", ())]
    return {"messages": messages, "isRunning": state.get("status") == "running"}


def _message(message: Data, relays: dict[str, Data], error: Any) -> Data:
    common = {
        "id": message["id"],
        "createdAt": _time(message.get("createdMs", 0)),
        "role": message["role"],
        "metadata": {
            "unstable_state": None,
            "unstable_annotations": [],
            "unstable_data": [],
            "steps": [],
            "custom": {name: message[name] for name in ("runId",) if name in message},
        },
    }
    content = _content(message, relays)
    if message["role"] == "user":
        return common | {"content": content or [_text(message["content"])], "attachments": []}
    return common | {"content": content, "status": _status(message, content, error)}


def _content(message: Data, relays: dict[str, Data]) -> list[Data]:
    calls = {call["id"]: call for call in message.get("toolCalls") or ()}
    if "parts" not in message:
        texts = [_text(message["content"])] if message["content"].strip() else []
        return texts + [_call(call, relays) for call in calls.values()]
    parts: list[Data] = []
    for part in message["parts"]:
        match part["type"]:
            case "text" | "reasoning" if part["text"].strip():
                parts.append({"type": part["type"], "text": part["text"]})
            case "tool" if part["callId"] in calls:
                parts.append(_call(calls[part["callId"]], relays))
            case "file":
                parts.append(_file(part))
            case "notice":
                parts.append({"type": "data", "name": "notice", "data": part})
            case _:
                continue
    return parts


def _call(call: Data, relays: dict[str, Data]) -> Data:
    arguments = call.get("input")
    part: Data = {
        "type": "tool-call",
        "toolCallId": call["id"],
        "toolName": call["name"],
        "args": arguments if isinstance(arguments, dict) else {},
        "argsText": call.get("inputText") or _json(arguments),
    }
    if call["status"] != "running":
        part["result"] = call.get("output", "")
        part["isError"] = call["status"] == "error"
    relay = relays.get(call.get("relayId") or "")
    if relay is not None and relay["kind"] == "permission":
        part["approval"] = _approval(relay)
    elif relay is not None and relay["status"] == "pending":
        part["interrupt"] = {"type": "human", "payload": relay["payload"] or {"question": relay["question"]}}
    if "messages" in call:
        part["messages"] = [_message(message, relays, None) for message in call["messages"]]
    return part


def _approval(relay: Data) -> Data:
    if relay["status"] == "pending":
        usual = [{"id": kind, "kind": kind, "label": label} for kind, label in _OPTIONS]
        return {"id": relay["id"], "options": relay["options"] or usual}
    approval = {"id": relay["id"], "approved": relay["status"] == "approved"}
    return approval | ({"reason": relay["reason"]} if relay["reason"] else {})


def _status(message: Data, content: list[Data], error: Any) -> Data:
    if message["status"] == "error":
        return {"type": "incomplete", "reason": "error", "error": error}
    if message["status"] in ("pending", "streaming"):
        if any("approval" in part and "approved" not in part["approval"] for part in content):
            return {"type": "requires-action", "reason": "tool-calls"}
        if any("interrupt" in part for part in content):
            return {"type": "requires-action", "reason": "interrupt"}
    return dict(_STATUS[message["status"]])


def _file(part: Data) -> Data:
    data = part.get("url") or f"data:{part['mediaType']};base64,{part.get('data', '')}"
    if part["mediaType"].startswith("image/"):
        return {"type": "image", "image": data}
    return {"type": "file", "data": data, "mimeType": part["mediaType"], "filename": part["name"]}


def _text(text: str) -> Data:
    return {"type": "text", "text": text}


def _json(value: Any) -> str:
    return "" if value is None else msgspec.json.encode(value).decode()


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
