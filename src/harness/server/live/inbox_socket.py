"""`/ws/inbox`: one socket of a browser for everything: all rows, any number of conversations, commands and answers."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import AsyncExitStack, aclosing, suppress
from typing import Any, Literal, TypeAlias

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from harness.clients.commands import MOST_AT_ONCE, Approve, Command, Deny
from harness.clients.inbox.rows import RowCounts
from harness.clients.inbox.today import Today
from harness.errors import HarnessError, UnknownSession, UsageError
from harness.folds.inbox.row import InboxRow
from harness.formatting.json_text import encode
from harness.server.access.guard import SUBPROTOCOL, Bucket
from harness.server.access.responses import (
    Handler,
    NotFound,
    json_response,
    number,
    read_body,
    with_errors,
)
from harness.server.live.channel import SessionChannel
from harness.server.live.channels import Channels
from harness.server.live.fleet_feed import FleetFeed
from harness.server.live.frames import Packet
from harness.server.live.inbox_feed import LISTED, InboxFeed
from harness.server.live.session_socket import (
    BAD_MESSAGE,
    COMMANDS_AT_ONCE,
    COMMANDS_PER_S,
    NEW_CONVERSATION,
    NewConversation,
    StateSender,
    WebSocketWriter,
    client_name,
)
from harness.server.machine.notifier import Notifier, NotifyChoices

_POLICY = 1008
_MOST_SUBSCRIBED = 64
_MOST_FLEETS = 8
_MOST_QUEUED = 64
"""Messages that a client is behind before it gets all rows instead."""
MOST_ANSWERS = 200
_TOO_MANY = "too_many"


class Subscribe(msgspec.Struct, frozen=True, tag_field="type", tag="subscribe"):
    """Send the state of a session and its changes. Without a session: a new one, under a key of the client's."""

    session: str = ""
    key: str = ""


class Unsubscribe(msgspec.Struct, frozen=True, tag_field="type", tag="unsubscribe"):
    session: str = ""
    key: str = ""


class SessionCommands(msgspec.Struct, frozen=True, tag_field="type", tag="commands"):
    commands: list[Command]
    session: str = ""
    key: str = ""


class OneAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    session: str
    relay_id: str
    arguments_hash: str
    action: Literal["approve", "deny"]
    option_id: str = ""
    reason: str = ""


class AnswerMany(msgspec.Struct, frozen=True, tag_field="type", tag="answerMany"):
    answers: list[OneAnswer]


class ReviewedSession(msgspec.Struct, frozen=True, tag_field="type", tag="reviewed"):
    """What it changed needs no more review."""

    session: str


class SeenSession(msgspec.Struct, frozen=True, tag_field="type", tag="seen"):
    session: str


class SubscribeFleet(msgspec.Struct, frozen=True, tag_field="type", tag="subscribeFleet"):
    """Send a fleet and its changes. Without a name: the list of all fleets."""

    fleet: str = ""


class UnsubscribeFleet(msgspec.Struct, frozen=True, tag_field="type", tag="unsubscribeFleet"):
    fleet: str = ""


FromClient: TypeAlias = (
    Subscribe
    | Unsubscribe
    | SessionCommands
    | AnswerMany
    | SeenSession
    | ReviewedSession
    | SubscribeFleet
    | UnsubscribeFleet
)
_decoder = msgspec.json.Decoder(FromClient)


class AnswerResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    session: str
    relay_id: str
    error: str = ""
    code: str = ""
    """`HarnessError.kind` of the error."""


async def answer_many(channels: Channels, answers: list[OneAnswer], client: str) -> list[AnswerResult]:
    """Carry out each answer, in order; one that fails does not affect the others."""

    async def one(answer: OneAnswer) -> AnswerResult:
        command: Command = Deny(
            relay_id=answer.relay_id, arguments_hash=answer.arguments_hash, reason=answer.reason
        )
        if answer.action == "approve":
            command = Approve(
                relay_id=answer.relay_id, arguments_hash=answer.arguments_hash, option_id=answer.option_id
            )
        error = code = ""
        try:
            await channels.carry_out(answer.session, command, client)
        except HarnessError as failure:
            error, code = failure.words, failure.kind
        return AnswerResult(session=answer.session, relay_id=answer.relay_id, error=error, code=code)

    return [await one(answer) for answer in answers]


class _AddressedWriter(WebSocketWriter):
    """Sends the packets of one session over a socket that carries several."""

    def __init__(self, writer: WebSocketWriter, address: bytes) -> None:
        self._writer = writer
        self._address = address

    async def send(self, packet: Packet) -> None:
        await self._writer.send(packet.addressed(self._address))

    @property
    def is_direct(self) -> bool:
        return self._writer.is_direct

    def write_now(self, packet: Packet) -> bool:
        return self._writer.write_now(packet.addressed(self._address))


class _Subscription:
    """One session on the socket."""

    def __init__(self, session: str, key: str, new: NewConversation | None = None) -> None:
        self.session = session
        self.key = key
        self.new = new
        self.sending: asyncio.Task[None] | None = None
        self.stack = AsyncExitStack()

    @property
    def address(self) -> bytes:
        key = b',"key":%b' % encode(self.key) if self.key else b""
        return b'"session":%b%b' % (encode(self.session), key)

    async def close(self) -> None:
        if self.sending is not None:
            self.sending.cancel()
        await self.stack.aclose()


class InboxSocket:
    """One client. Errors are sent to it alone."""

    def __init__(self, websocket: WebSocket, channels: Channels, feed: InboxFeed, fleets: FleetFeed) -> None:
        self._websocket = websocket
        self._channels = channels
        self._feed = feed
        self._fleets = fleets
        self._send: Send = websocket.scope.get("harness.send", websocket.send)
        self._writer = WebSocketWriter(self._send)
        self._bucket = Bucket(COMMANDS_PER_S, COMMANDS_AT_ONCE)
        self._client = client_name(websocket)
        self._subscribed: dict[str, _Subscription] = {}
        self._new: dict[str, _Subscription] = {}
        """Conversations that are not created yet, by the key of the client's."""
        self._followed: dict[str, asyncio.Task[None]] = {}
        """By the name of a fleet."""
        self._queue: deque[Packet] = deque()
        self._is_behind = True
        self._is_sending = False
        self._has_news = asyncio.Event()

    async def serve(self) -> None:
        subprotocols = self._websocket.scope.get("subprotocols", ())
        await self._websocket.accept(SUBPROTOCOL if SUBPROTOCOL in subprotocols else None)
        await self._feed.is_loaded.wait()
        self._feed.takers.add(self._take)
        self._feed.want_today()
        sending = asyncio.get_running_loop().create_task(self._send_rows())
        try:
            await self._receive()
        except WebSocketDisconnect:
            return
        finally:
            self._feed.takers.discard(self._take)
            sending.cancel()
            for following in self._followed.values():
                following.cancel()
            for subscription in [*self._subscribed.values(), *self._new.values()]:
                await subscription.close()

    # Rows.

    def _take(self, packet: Packet) -> None:
        if not (self._is_behind or self._is_sending or self._queue) and self._writer.write_now(packet):
            return
        if len(self._queue) >= _MOST_QUEUED:
            self._is_behind = True
            self._queue.clear()
        elif not self._is_behind:
            self._queue.append(packet)
        self._has_news.set()

    async def _send_rows(self) -> None:
        try:
            while True:
                self._is_sending = True
                while self._is_behind or self._queue:
                    await self._writer.send(self._next())
                self._is_sending = False
                self._has_news.clear()
                await self._has_news.wait()
        except (OSError, RuntimeError):
            return  # disconnected; the receiving side notices that as well

    def _next(self) -> Packet:
        if self._is_behind:
            self._is_behind = False
            self._queue.clear()
            return Packet(encode({"type": "inbox", **self._feed.snapshot()}))
        return self._queue.popleft()

    # What the client asks.

    async def _receive(self) -> None:
        while True:
            message = await self._websocket.receive()
            if message["type"] == "websocket.disconnect":
                return None
            if not self._bucket.take():
                return await self._close(_POLICY, "too many commands")
            text = message.get("text")
            try:
                frame = _decoder.decode(message.get("bytes") or b"" if text is None else text)
            except RecursionError:
                return await self._close(_POLICY, "the message is nested too deeply")
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                await self._error(f"not a message of this socket: {error}", BAD_MESSAGE)
                continue
            count = _count(frame)
            if count > MOST_ANSWERS or (count > 1 and not self._bucket.take(count - 1)):
                return await self._close(_POLICY, "too many commands")
            await self._carry_out(frame)

    async def _carry_out(self, frame: FromClient) -> None:
        match frame:
            case Subscribe():
                await self._subscribe(frame.session, frame.key)
            case Unsubscribe():
                subscription = self._subscribed.pop(frame.session, None) or self._new.pop(frame.key, None)
                if subscription is not None:
                    await subscription.close()
            case SessionCommands():
                if len(frame.commands) > MOST_AT_ONCE:
                    message = f"at most {MOST_AT_ONCE} commands in one message"
                    await self._error(message, _TOO_MANY, session=frame.session, key=frame.key)
                    return
                for command in frame.commands:
                    await self._command(frame.session, frame.key, command)
            case AnswerMany():
                results = await answer_many(self._channels, frame.answers, self._client)
                await self._data({"type": "answers", "answers": results})
            case ReviewedSession():
                self._feed.mark_reviewed(frame.session)
            case SeenSession():
                self._feed.mark_seen(frame.session)
            case SubscribeFleet():
                await self._follow_fleet(frame.fleet)
            case UnsubscribeFleet():
                following = self._followed.pop(frame.fleet, None)
                if following is not None:
                    following.cancel()

    async def _subscribe(self, session: str, key: str) -> None:
        if session in self._subscribed or (not session and key in self._new):
            return None
        if len(self._subscribed) + len(self._new) >= _MOST_SUBSCRIBED:
            return await self._error(
                "too many sessions are subscribed to", _TOO_MANY, session=session, key=key
            )
        if not session:
            new = _Subscription("", key, NewConversation(self._channels.backend))
            self._new[key] = new
            await self._writer.send(Packet(NEW_CONVERSATION.data).addressed(new.address))
            return None
        return await self._watch(_Subscription(session, key))

    async def _follow_fleet(self, name: str) -> None:
        if name in self._followed:
            return
        if len(self._followed) >= _MOST_FLEETS:
            await self._error("too many fleets are subscribed to", _TOO_MANY)
            return
        self._followed[name] = asyncio.get_running_loop().create_task(self._send_fleet(name))

    async def _send_fleet(self, name: str) -> None:
        async with aclosing(self._fleets.follow(name)) as packets:
            try:
                async for packet in packets:
                    await self._writer.send(packet)
            except (OSError, RuntimeError):
                return  # disconnected; the receiving side notices that as well

    async def _watch(self, subscription: _Subscription) -> None:
        try:
            channel = await subscription.stack.enter_async_context(
                self._channels.watching(subscription.session)
            )
        except HarnessError as error:
            await self._error(error.words, error.kind, session=subscription.session, key=subscription.key)
            return
        self._subscribed[subscription.session] = subscription
        subscription.sending = asyncio.get_running_loop().create_task(self._send_state(channel, subscription))

    async def _send_state(self, channel: SessionChannel, subscription: _Subscription) -> None:
        sender = StateSender(channel, _AddressedWriter(self._writer, subscription.address))
        try:
            await sender.run()
        except UnknownSession as error:
            self._subscribed.pop(subscription.session, None)
            await self._error(error.words, error.kind, session=subscription.session, key=subscription.key)
        except (OSError, RuntimeError):
            return
        finally:
            channel.unsubscribe(sender.take)

    async def _command(self, session: str, key: str, command: Command) -> None:
        try:
            subscription = None if session else self._new.get(key)
            if subscription is not None and subscription.new is not None:
                session, command = await subscription.new.take(command)
                if not session:
                    return
                del self._new[key]
                subscription.session = session
                await self._watch(subscription)
            elif not session:
                session = next((topic.session for topic in self._subscribed.values() if topic.key == key), "")
            if not session:
                raise UnknownSession("no session is named", hint="subscribe to it, or give its id")
            await self._channels.carry_out(session, command, self._client)
            self._feed.mark_seen(session)
        except HarnessError as error:
            await self._error(error.words, error.kind, command.id, session=session, key=key)

    async def _error(
        self, message: str, code: str, command_id: str = "", *, session: str = "", key: str = ""
    ) -> None:
        error = {"type": "error", "session": session, "message": message, "code": code}
        error |= {"key": key} if key else {}
        await self._data(error | ({"commandId": command_id} if command_id else {}))

    async def _data(self, value: Any) -> None:
        with suppress(OSError, RuntimeError):  # disconnected; the receiving side notices that as well
            await self._send({"type": "websocket.send", "text": encode(value).decode()})

    async def _close(self, code: int, reason: str) -> None:
        try:
            await self._websocket.close(code, reason[:100])
        except (OSError, RuntimeError):
            return  # it is closed already


def _count(frame: FromClient) -> int:
    if isinstance(frame, SessionCommands):
        return len(frame.commands)
    return len(frame.answers) if isinstance(frame, AnswerMany) else 1


# `/api/inbox`: the rows of all sessions, answers to what they ask, and notifications.


_MOST_LISTED = 5_000


class InboxData(msgspec.Struct, frozen=True, kw_only=True):
    rows: list[InboxRow]
    total: int
    counts: RowCounts
    today: Today


class ManyAnswers(msgspec.Struct, frozen=True):
    answers: list[OneAnswer]


class AnswerResults(msgspec.Struct, frozen=True):
    answers: list[AnswerResult]


class NotifyTest(msgspec.Struct, frozen=True):
    problems: list[str]
    """One for each target; empty where the message arrived."""


class InboxApi:
    def __init__(self, channels: Channels, feed: InboxFeed, notifier: Notifier, fleets: FleetFeed) -> None:
        self._channels = channels
        self._feed = feed
        self._fleets = fleets
        self._notifier = notifier
        feed.listeners.append(notifier.note)

    def routes(self) -> list[BaseRoute]:
        table: list[tuple[str, str, Handler]] = [
            ("GET", "/api/inbox", self._list),
            ("GET", "/api/sessions/{id}/asks/{ask:path}", self._ask),
            ("POST", "/api/inbox/answers", self._answer),
            ("POST", "/api/inbox/notify/test", self._test_notify),
            ("GET", "/api/settings/notify", self._notify),
            ("PUT", "/api/settings/notify", self._change_notify),
        ]
        return [
            WebSocketRoute("/ws/inbox", self._socket),
            *(Route(path, with_errors(handler), methods=[method]) for method, path, handler in table),
        ]

    async def _socket(self, websocket: WebSocket) -> None:
        await InboxSocket(websocket, self._channels, self._feed, self._fleets).serve()

    def mark_reviewed(self, session: str) -> None:
        """What it changed needs no more review."""
        self._feed.mark_reviewed(session)

    async def _list(self, request: Request) -> Response:
        limit = number(request, "limit", LISTED, most=_MOST_LISTED)
        await self._feed.is_loaded.wait()
        await self._feed.refresh_today()
        return json_response(self._feed.snapshot(limit))

    async def _ask(self, request: Request) -> Response:
        session, ask = request.path_params["id"], request.path_params["ask"]
        await self._feed.is_loaded.wait()
        ask_text = await asyncio.to_thread(self._feed.rows.whole_ask, session, ask)
        if ask_text is None:
            raise NotFound("this is not asked any more")
        return json_response(ask_text)

    async def _answer(self, request: Request) -> Response:
        body = await read_body(request, ManyAnswers)
        if len(body.answers) > MOST_ANSWERS:
            raise UsageError(f"at most {MOST_ANSWERS} answers at once")
        results = await answer_many(self._channels, body.answers, client_name(request))
        return json_response(AnswerResults(results))

    async def _notify(self, request: Request) -> Response:
        del request
        return json_response(self._notifier.settings)

    async def _change_notify(self, request: Request) -> Response:
        choices = await read_body(request, NotifyChoices)
        try:
            await asyncio.to_thread(self._notifier.choose, choices)
        except OSError as error:
            raise HarnessError(f"the choices cannot be stored: {error.strerror}") from error
        return json_response(self._notifier.settings)

    async def _test_notify(self, request: Request) -> Response:
        del request
        if not self._notifier.settings.targets:
            raise UsageError(
                "there is nothing to notify", hint="start the server with --notify URL, or set notify.urls"
            )
        return json_response(NotifyTest(await asyncio.to_thread(self._notifier.test)))
