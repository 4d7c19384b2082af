"""`/ws`: the state of a conversation, then its changes; commands the other way."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

from msgspec.structs import replace
from starlette.requests import HTTPConnection
from starlette.types import Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from harness.clients.commands import BadCommands, Cancel, Command, Configure, Resume, Submit, read
from harness.clients.conversations.backend import Backend, ConversationStatus, Setup
from harness.errors import HarnessError, StoreError, UnknownSession, UsageError
from harness.folds.page_state.fold import StateFold
from harness.folds.page_state.shapes import state_message
from harness.formatting.escapes import single_line
from harness.formatting.json_text import compact
from harness.server.access.browser_keys import browser_name
from harness.server.access.guard import SUBPROTOCOL, Bucket
from harness.server.live.channel import PacketListener, SessionChannel
from harness.server.live.channels import Channels
from harness.server.live.frames import Packet

COMMANDS_PER_S = 50.0
COMMANDS_AT_ONCE = 200.0
_NEEDED = ("transport", "writable", "conn", "close_sent", "disconnected", "handshake_complete")
"""What a protocol object must have so that frames can be written to it."""
_POLICY, _TOO_LARGE, _UNKNOWN = 1008, 1009, 4404
_LONGEST_NAME = 60
BAD_MESSAGE = "bad_message"
"""The code of an error frame for what is no message of a socket; other codes are `HarnessError.kind`."""


def _new_conversation() -> bytes:
    """The state of a conversation that is created by its first prompt."""
    fold = StateFold()
    fold.note("capabilities", ConversationStatus(can_submit=True).capabilities)
    return state_message(fold.encoded(), 0)


NEW_CONVERSATION = Packet(_new_conversation())


class WebSocketWriter:
    """Sends packets to one client, as frames that were built once for all clients where the server below allows it.

    A WebSocket frame looks the same for every client, so it need not be built, copied and scheduled for each. That
    needs the protocol object of uvicorn; where there is none, messages go through ASGI.

    Contract: `send` waits until the client can take more; `write_now` never waits.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        protocol: Any = getattr(send, "__self__", None)
        is_known = all(hasattr(protocol, name) for name in _NEEDED)
        # An extension (compression) gives every client frames of its own.
        self._protocol = protocol if is_known and not protocol.conn.extensions else None

    async def send(self, packet: Packet) -> None:
        """Raises OSError or RuntimeError when the client has disconnected."""
        if self._protocol is not None:
            await self._protocol.writable.wait()
            if self.write_now(packet):
                return
        await self._send({"type": "websocket.send", "text": packet.text})

    @property
    def is_direct(self) -> bool:
        return self._protocol is not None

    def write_now(self, packet: Packet) -> bool:
        """False when the client cannot take it at once, or has disconnected."""
        protocol = self._protocol
        if (
            protocol is None
            or not protocol.writable.is_set()
            or protocol.close_sent
            or protocol.disconnected
            or not protocol.handshake_complete
        ):
            return False
        protocol.transport.write(packet.frame)
        return True


class StateSender:
    """Keeps one client up to date: it listens to the channel while it can take everything at once, else it catches up
    by itself.
    """

    def __init__(self, channel: SessionChannel, writer: WebSocketWriter) -> None:
        self._channel = channel
        self._writer = writer
        self._position: int | None = None
        self._is_behind = asyncio.Event()
        self.take: PacketListener = self._take  # one object, so that it can be found again

    async def run(self) -> None:
        """Raises OSError or RuntimeError when the client has disconnected."""
        while True:
            self._position, packet = await self._channel.next(self._position)
            await self._writer.send(packet)
            if self._writer.is_direct and self._channel.subscribe(self.take, self._position):
                self._is_behind.clear()
                await self._is_behind.wait()

    def _take(self, packet: Packet) -> bool:
        if self._position is not None and self._writer.write_now(packet):
            self._position += 1
            return True
        self._is_behind.set()
        return False


class NewConversation:
    """A conversation that is created by its first prompt; until then it can be configured."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._setup = Setup()

    async def take(self, command: Command) -> tuple[str, Command]:
        """The id of the conversation, once it is created, and the command to carry out in it. Raises HarnessError."""
        log_id = ""
        if isinstance(command, Configure):
            known_config = command.config
            names = (name for name in known_config.__struct_fields__ if name in Setup.__struct_fields__)
            changes = {name: value for name in names if (value := getattr(known_config, name)) is not None}
            setup = replace(self._setup, **changes)
            self._backend.check(setup)
            self._setup = setup
        elif isinstance(command, Submit):
            self._backend.check(self._setup, command)
            log_id = await self._backend.create(self._setup)
        elif isinstance(command, Resume):
            continuing = replace(self._setup, continues=command.session_id)
            command = Submit(id=command.id, prompt=command.prompt)
            self._backend.check(continuing, command)
            log_id = await self._backend.create(continuing)
        elif not isinstance(command, Cancel):  # there is nothing to stop, as in any conversation that is idle
            raise UsageError("the conversation has not started", hint="submit a prompt first")
        return log_id, command


def client_name(connection: HTTPConnection) -> str:
    """The name that a client gives itself (`?client=`), or that of its browser; shown to clients that answer too late."""
    client_text = single_line(connection.query_params.get("client", "")).strip()
    if client_text:
        return client_text[:_LONGEST_NAME]
    browser = browser_name(connection.headers.get("user-agent", ""), has_system=False)
    return f"{browser} in another window" if browser else "another program"


class Socket:
    """One client. Errors are sent to it alone."""

    def __init__(self, websocket: WebSocket, channels: Channels) -> None:
        self._websocket = websocket
        self._channels = channels
        self._send: Send = websocket.scope.get("harness.send", websocket.send)
        self._writer = WebSocketWriter(self._send)
        self._bucket = Bucket(COMMANDS_PER_S, COMMANDS_AT_ONCE)
        self._stack = AsyncExitStack()
        self._sending: asyncio.Task[None] | None = None
        self._log_id = websocket.query_params.get("session", "")
        self._new = NewConversation(channels.backend)
        self._client = client_name(websocket)

    async def serve(self) -> None:
        # A browser closes the connection when none of the offered subprotocols is accepted.
        subprotocols = self._websocket.scope.get("subprotocols", ())
        await self._websocket.accept(SUBPROTOCOL if SUBPROTOCOL in subprotocols else None)
        try:
            async with self._stack:
                if self._log_id:
                    await self._watch(self._log_id)
                else:
                    await self._text(NEW_CONVERSATION.text)
                await self._receive()
        except (UnknownSession, StoreError) as error:
            await self._close(_UNKNOWN, error.message)
        except WebSocketDisconnect:
            return
        finally:
            if self._sending is not None:
                self._sending.cancel()

    async def _watch(self, log_id: str) -> None:
        channel = await self._stack.enter_async_context(self._channels.watching(log_id))
        self._log_id = log_id
        loop = asyncio.get_running_loop()
        self._sending = loop.create_task(self._send_all(channel))
        self._stack.callback(loop.create_task(self._leave_with(channel)).cancel)

    async def _leave_with(self, channel: SessionChannel) -> None:
        await channel.is_deleted.wait()
        await self._close(_UNKNOWN, "the session was deleted")

    async def _send_all(self, channel: SessionChannel) -> None:
        sender = StateSender(channel, self._writer)
        try:
            await sender.run()
        except (OSError, RuntimeError, UnknownSession):
            return  # disconnected, or deleted; the receiving side notices that as well
        finally:
            channel.unsubscribe(sender.take)

    async def _receive(self) -> None:
        while True:
            message = await self._websocket.receive()
            if message["type"] == "websocket.disconnect":
                return None
            text = message.get("text")
            if not self._bucket.take():
                return await self._close(_POLICY, "too many commands")
            try:
                frame = read(message.get("bytes") or b"" if text is None else text)
            except BadCommands as error:
                if error.is_hostile:
                    return await self._close(_POLICY, str(error))
                await self._error(str(error), BAD_MESSAGE)
                continue
            if len(frame) > 1 and not self._bucket.take(len(frame) - 1):
                return await self._close(_POLICY, "too many commands")
            for command in frame:
                await self._carry_out(command)

    async def _carry_out(self, command: Command) -> None:
        try:
            if not self._log_id:
                log_id, command = await self._new.take(command)
                if log_id:
                    await self._watch(log_id)
            if self._log_id:
                await self._channels.carry_out(self._log_id, command, self._client)
        except HarnessError as error:
            await self._error(error.words, error.kind, command.id)

    async def _error(self, message: str, code: str, command_id: str = "") -> None:
        error = {"type": "error", "message": message, "code": code}
        await self._text(compact(error | {"commandId": command_id} if command_id else error))

    async def _text(self, text: str) -> None:
        await self._send({"type": "websocket.send", "text": text})

    async def _close(self, code: int, reason: str) -> None:
        if self._sending is not None:
            self._sending.cancel()
        try:
            await self._websocket.close(code, reason[:100])
        except (OSError, RuntimeError):
            return  # it is closed already
