"""A model behind HTTP: one call is one streamed request, retried after temporary failures.

Rules
1. What differs between APIs is a `ModelApi`; all error handling of the transport is here.
2. A retry is reported as a `Warning`. Before that, the part of a broken answer already shown is withdrawn.
3. Closing the iterator closes the socket. A connection is reused for the next call only when the answer was
   read to its end. Each event loop has its own connections, which are closed with it.
4. The key is in the request's headers and nowhere else.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from datetime import UTC, datetime
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias
from urllib.parse import urlsplit

import msgspec

from harness.contracts.model import Ask
from harness.errors import MissingExtra
from harness.events import Event, LimitWindow, Warning
from harness.formats.limit_windows import StatedWindows, header_windows
from harness.log.redact.redactor import SHORTEST_CREDENTIAL
from harness.models.answer import ModelAnswer
from harness.models.failure import ModelFailure, Retries, refused

if TYPE_CHECKING:
    import httpx


class SseDecoder:
    """Decoder for server-sent events: takes bytes of a response, returns the data of each complete event.

    Names, ids and comments are ignored: every model API states the kind of event in the data. Lines end with
    a line feed; a carriage return before it is white space to the JSON decoder. The length of a line is not
    limited.
    """

    __slots__ = ("_data", "_rest")

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        lines = chunk.split(b"\n")
        if len(lines) == 1:
            self._rest.append(chunk)
            return []
        if self._rest:
            lines[0] = b"".join([*self._rest, lines[0]])
            self._rest.clear()
        if last := lines.pop():
            self._rest.append(last)
        events: list[bytes] = []
        data = self._data
        for line in lines:
            if line.startswith(b"data:"):
                data.append(line[5:])
            elif data and line in _BLANK:
                events.append(data[0] if len(data) == 1 else b"\n".join(data))
                data.clear()
        return events

    def finish(self) -> list[bytes]:
        """The last event, if the server did not send an empty line after it."""
        return self.feed(b"\n\n")


_BLANK = (b"", b"\r")


HIDDEN = "***"
_LONGEST_REFUSAL_BYTES = 256 * 1024
_DRAIN_S = 0.25
"""How long a server may take to end a stream after its last event, before the connection is closed."""

_KEPT_S = 90.0
"""How long an idle connection stays open: tools take longer than the default of five seconds."""


class HttpTimeouts(msgspec.Struct, frozen=True, kw_only=True):
    """How long to wait for a model API: until it is connected, and between two pieces of an answer."""

    connect_s: float = 15.0
    silence_s: float = 300.0
    """Read timeout: some models reason for minutes before they send anything."""


class ModelEndpoint:
    """The address of a model, and its key. Not a struct, so that its `repr` does not contain the key."""

    __slots__ = ("key", "model", "provider", "url")

    def __init__(self, *, provider: str, model: str, url: str, key: str = "") -> None:
        self.provider = provider
        self.model = model
        self.url = url.rstrip("/")
        self.key = key

    @property
    def name(self) -> str:
        return f"{self.provider}/{self.model}"

    @property
    def bearer_headers(self) -> dict[str, str]:
        """The headers of a JSON request with a bearer key; a self-hosted server may need no key."""
        secret = {"authorization": f"Bearer {self.key}"} if self.key else {}
        return {"content-type": "application/json", **secret}

    @property
    def place(self) -> str:
        """The URL without credentials, for messages."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.hostname or ''}" + (f":{parts.port}" if parts.port else "")

    @property
    def is_here(self) -> bool:
        return urlsplit(self.url).hostname in ("127.0.0.1", "localhost", "::1")


class Prepared(NamedTuple):
    """One request's body, and a function that returns the ids of the calls in it."""

    body: bytes
    call_ids: Callable[[], set[str]]


class StreamReader(Protocol):
    """Contract: `read` takes the data of each event, of any content, and never raises."""

    answer: ModelAnswer
    failure: ModelFailure | None
    """The failure that the provider reported."""
    is_complete: bool
    """The provider reported the end of the answer; usage may still follow."""
    is_over: bool
    """Nothing more will follow."""

    def read(self, data: bytes) -> None: ...

    def end(self) -> None:
        """Add the last events of a complete answer."""
        ...


class ModelApi(Protocol):
    """Contract: one instance per model; several calls may be open at once."""

    def url(self) -> str: ...

    def headers(self) -> dict[str, str]: ...

    def prepare(self, ask: Ask) -> Prepared: ...

    def reader(self, answer: ModelAnswer) -> StreamReader: ...

    @property
    def takes_schema_beside_tools(self) -> bool:
        """Whether a request may have tools and a schema for the answer."""
        ...


class HttpModel:
    """Implements `Model`. Creating one raises MissingExtra if httpx is not installed."""

    def __init__(
        self,
        endpoint: ModelEndpoint,
        wire: ModelApi,
        *,
        retries: Retries | None = None,
        timeouts: HttpTimeouts | None = None,
    ) -> None:
        require_httpx()
        self.name = endpoint.name
        self._endpoint = endpoint
        self._wire = wire
        self._retries = retries or Retries()
        self._timeouts = timeouts or HttpTimeouts()
        self._limit_windows = StatedWindows()

    @property
    def takes_schema_beside_tools(self) -> bool:
        """Whether it may be asked with tools and a schema for the answer at once."""
        return self._wire.takes_schema_beside_tools

    async def answer(self, ask: Ask) -> AsyncGenerator[Event]:
        prepared = self._wire.prepare(ask)
        for attempt in count(1):
            reader = self._wire.reader(ModelAnswer(self.name, prepared.call_ids))
            answer = reader.answer
            exchange = _Exchange(reader, self._endpoint, self._timeouts.silence_s)
            async with aclosing(exchange.run(await self._client(), self._wire, prepared.body)) as batches:
                async for batch in batches:
                    for event in batch:
                        yield event
            for limits in self._limit_windows.take(exchange.limit_windows):
                yield limits
            failure = exchange.failure
            if failure is None:
                reader.end()
            elif (wait_s := self._retries.wait_s(failure, attempt)) is None:
                answer.fail(self._masked(_final(failure, self._retries)), failure.code)
            else:
                for event in answer.retraction():
                    yield event
                yield self._retry(failure, wait_s, attempt)
                await asyncio.sleep(wait_s)
                continue
            for event in answer.events:
                yield event
            return

    def _retry(self, failure: ModelFailure, wait_s: float, attempt: int) -> Warning:
        message = (
            f"{failure.message} ({failure.code}): asking again in {wait_s:.1f} s"
            f" ({attempt} of {self._retries.limit})"
        )
        return Warning(message=self._masked(message), code="retry")

    def _masked(self, text: str) -> str:
        """Mask the key: some providers quote the key that they refuse."""
        key = self._endpoint.key
        return text.replace(key, HIDDEN) if len(key) >= SHORTEST_CREDENTIAL else text

    async def _client(self) -> httpx.AsyncClient:
        loop = asyncio.get_running_loop()
        key = (self._endpoint.url.startswith("https:"), self._endpoint.is_here, self._timeouts)
        clients = _clients.setdefault(loop, {})
        if key not in clients:
            keeper = _kept_client(*key)
            clients[key] = (await anext(keeper), keeper)
        return clients[key][0]


class _Exchange:
    """One attempt: a request and its response."""

    def __init__(self, reader: StreamReader, endpoint: ModelEndpoint, silence_s: float) -> None:
        self.failure: ModelFailure | None = None
        self.limit_windows: list[LimitWindow] = []
        """As the headers of the answer state them."""
        self._silence_s = silence_s
        self._reader = reader
        self._endpoint = endpoint

    async def run(
        self, client: httpx.AsyncClient, wire: ModelApi, body: bytes
    ) -> AsyncGenerator[list[Event]]:
        """The events of the answer, in batches as they arrive."""
        import httpx

        try:
            async with client.stream("POST", wire.url(), headers=wire.headers(), content=body) as response:
                self.limit_windows = header_windows(response.headers, datetime.now(UTC))
                if response.is_success:
                    async with aclosing(self._receive(response)) as batches:
                        async for batch in batches:
                            yield batch
                else:
                    self.failure = refused(response.status_code, response.headers, await _start_of(response))
        except httpx.TransportError as error:
            if not self._reader.is_complete:
                self.failure = self._lost(error)
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
            self.failure = ModelFailure(message=f"{self._endpoint.place}: {error}", code="http")

    async def _receive(self, response: httpx.Response) -> AsyncGenerator[list[Event]]:
        reader = self._reader
        answer = reader.answer
        stream = SseDecoder()
        chunks = self._chunks(response)
        if "json" in response.headers.get("content-type", ""):
            reader.read(await _start_of(response, limit_bytes=None))  # a server that does not stream
        else:
            async for chunk in chunks:
                for data in stream.feed(chunk):
                    reader.read(data)
                if answer.events:
                    batch, answer.events = answer.events, []
                    yield batch
                if reader.is_over or reader.failure is not None:
                    break
            for data in stream.finish():
                reader.read(data)
            if reader.is_over:
                await _drain(chunks)
        if answer.events:
            batch, answer.events = answer.events, []
            yield batch
        self.failure = reader.failure
        if self.failure is None and not reader.is_complete:
            self.failure = _incomplete(answer)

    async def _chunks(self, response: httpx.Response) -> AsyncIterator[bytes]:
        """The body as it arrives: from the socket where that is safe, the rest through the client."""
        from harness.models.sockets import SocketStream

        headers = response.headers
        is_plain = "content-encoding" not in headers
        stream = response.extensions.get("network_stream")
        if (
            isinstance(stream, SocketStream)
            and is_plain
            and headers.get("transfer-encoding", "").lower() == "chunked"
        ):
            async for chunk in stream.body(self._silence_s):
                yield chunk
        async for chunk in response.aiter_raw() if is_plain else response.aiter_bytes():
            yield chunk

    def _lost(self, error: httpx.TransportError) -> ModelFailure:
        import httpx

        place = self._endpoint.place
        reason = str(error) or type(error).__name__
        if isinstance(error, httpx.TimeoutException):
            is_connecting = isinstance(error, httpx.ConnectTimeout)
            what = f"cannot connect to {place} in time" if is_connecting else f"{place} has stopped sending"
            return ModelFailure(message=what, code="timeout", is_passing=True)
        if isinstance(error, httpx.ConnectError | httpx.ProxyError):
            return ModelFailure(
                message=f"cannot connect to {place}: {reason}", code="connection", is_passing=True
            )
        is_passing = isinstance(error, httpx.NetworkError | httpx.RemoteProtocolError)
        return ModelFailure(
            message=f"the connection to {place} was lost: {reason}",
            code="connection_lost",
            is_passing=is_passing,
        )


def _incomplete(answer: ModelAnswer) -> ModelFailure:
    if answer.has_content:
        return ModelFailure(
            message="the answer broke off before its end", code="connection_lost", is_passing=True
        )
    what = f"nothing but {answer.unreadable} unreadable pieces" if answer.unreadable else "nothing"
    return ModelFailure(message=f"the provider sent {what}", code="empty_answer", is_passing=True)


def _final(failure: ModelFailure, retries: Retries) -> str:
    if failure.is_passing and failure.wait_s is not None and failure.wait_s > retries.longest_wait_s:
        return f"{failure.message} (to be asked again in {failure.wait_s:.0f} s)"
    return failure.message


async def _start_of(response: httpx.Response, limit_bytes: int | None = _LONGEST_REFUSAL_BYTES) -> bytes:
    """The body, up to a limit."""
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk
        if limit_bytes is not None and len(body) >= limit_bytes:
            break
    return bytes(body)


async def _drain(chunks: AsyncIterator[bytes]) -> None:
    """Read to the end so that the connection can be reused; it is closed if that takes too long."""
    try:
        async with asyncio.timeout(_DRAIN_S):
            async for _ in chunks:
                pass
    except TimeoutError:
        return


_Key: TypeAlias = tuple[bool, bool, HttpTimeouts]
_clients: weakref.WeakKeyDictionary[
    asyncio.AbstractEventLoop, dict[_Key, tuple[httpx.AsyncClient, AsyncIterator[httpx.AsyncClient]]]
] = weakref.WeakKeyDictionary()
"""The clients of each event loop, shared by all models."""


async def _kept_client(
    is_secure: bool, is_here: bool, timeouts: HttpTimeouts
) -> AsyncIterator[httpx.AsyncClient]:
    """A generator, because an event loop closes its generators when it ends, which closes the connections."""
    import httpx

    try:
        async with httpx.AsyncClient(
            timeout=httpx.Timeout(timeouts.silence_s, connect=timeouts.connect_s, pool=None),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=20, keepalive_expiry=_KEPT_S),
            verify=is_secure,  # loading certificates is slow, and plain HTTP does not need them
            trust_env=not is_here,
            headers={"user-agent": "harness", "accept-encoding": "identity"},
        ) as client:
            _quicken(client)
            yield client
    finally:
        _clients.pop(asyncio.get_running_loop(), None)


def _quicken(client: httpx.AsyncClient) -> None:
    """Use our own sockets. httpx has no option for that; if its internals differ, it uses its own."""
    from harness.models.sockets import SocketBackend

    pool: Any = getattr(getattr(client, "_transport", None), "_pool", None)
    if hasattr(pool, "_network_backend"):
        pool._network_backend = SocketBackend()  # noqa: SLF001


def require_httpx() -> None:
    from importlib.util import find_spec

    if find_spec("httpx") is None:
        raise MissingExtra("model APIs need httpx, which is not installed", "models")
