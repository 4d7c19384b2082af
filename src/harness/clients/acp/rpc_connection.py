"""A client that speaks JSON-RPC, whatever the protocol in it: every request is answered, and none ends the connection."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Protocol, TypeGuard

import msgspec

from harness.clients.acp.wire import (
    INTERNAL_ERROR,
    INVALID_PARAMETERS,
    INVALID_REQUEST,
    PARSE_ERROR,
    RpcError,
    as_rpc_error,
)
from harness.errors import HarnessError

Fields = dict[str, Any]


class MessageOutput(Protocol):
    """What brings messages to a client."""

    def send(self, message: Fields, /) -> None:
        """Contract: at once, in order; never raises."""
        ...

    async def room(self, session: str, /) -> None:
        """Wait until the client has read most of what it was sent of this session: a long history is not kept for it."""
        ...


class RpcConnection(ABC):
    """Contract: lives in one event loop. `receive` never raises."""

    PROTOCOL: ClassVar[str]
    """As an error of ours names it."""
    MOST_REQUESTS: ClassVar[int]
    """So many are answered at once."""

    def __init__(self, output: MessageOutput) -> None:
        self._output = output
        self._running: dict[Any, asyncio.Task[None]] = {}
        """Requests of the client, by their ids."""

    def close(self) -> None:
        """The client is gone: what it has asked for is not answered any more."""
        for task in list(self._running.values()):
            task.cancel()

    def receive(self, data: bytes | str) -> None:
        """One message of the client."""
        try:
            message = msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self._error(None, RpcError(PARSE_ERROR, "this is not JSON"))
            return
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            self._error(None, RpcError(INVALID_REQUEST, "a message is one JSON-RPC 2.0 object"))
            return
        self.take(message)

    def take(self, message: Fields) -> None:
        """The same, as an object."""
        method, request_id = message.get("method"), message.get("id")
        parameters = message.get("params") or {}
        if method is None:
            self._answered(message)
        elif "id" not in message:
            if isinstance(parameters, dict):
                self._notified(str(method), parameters)
        elif not isinstance(method, str) or not is_request_id(request_id):
            words = "a request has a method, and an id that is a text or a whole number"
            self._error(None, RpcError(INVALID_REQUEST, words))
        elif not isinstance(parameters, dict):
            self._error(request_id, RpcError(INVALID_PARAMETERS, "params must be an object"))
        elif request_id in self._running:
            self._error(request_id, RpcError(INVALID_REQUEST, "a request with this id is being answered"))
        elif len(self._running) >= self.MOST_REQUESTS:
            self._error(request_id, RpcError(INVALID_REQUEST, "too many requests at once"))
        else:
            work = self._answer(request_id, method, parameters)
            self._running[request_id] = asyncio.get_running_loop().create_task(work)

    async def _answer(self, request_id: Any, method: str, parameters: Fields) -> None:
        after: list[Callable[[], None]] = []
        try:
            result = await self._result(request_id, method, parameters, after)
        except RpcError as error:
            self._error(request_id, error)
        except HarnessError as error:
            self._error(request_id, self._as_rpc_error(error, parameters))
        except asyncio.CancelledError:
            self._cancelled(request_id)
        except Exception as error:  # noqa: BLE001 # a mistake of ours must not leave the editor waiting
            asyncio.get_running_loop().call_exception_handler(
                {"message": f"{self.PROTOCOL} {method}", "exception": error}
            )
            self._error(request_id, RpcError(INTERNAL_ERROR, "an internal error of Harness"))
        else:
            self._send({"id": request_id, "result": result})
            for act in after:
                act()
        finally:
            self._running.pop(request_id, None)

    @abstractmethod
    async def _result(
        self, request_id: Any, method: str, parameters: Fields, after: list[Callable[[], None]]
    ) -> Fields:
        """`after`: takes what is to be done when the result has been sent. Raises RpcError, HarnessError."""

    @abstractmethod
    def _notified(self, method: str, parameters: Fields) -> None:
        """The client says something that takes no answer."""

    @abstractmethod
    def _answered(self, message: Fields) -> None:
        """The client answers a request of ours."""

    @abstractmethod
    def _cancelled(self, request_id: Any) -> None:
        """The client does not want an answer any more."""

    def _as_rpc_error(self, error: HarnessError, parameters: Fields) -> RpcError:
        return as_rpc_error(error, str(parameters.get("sessionId", ""))[:200])

    def _error(self, request_id: Any, error: RpcError) -> None:
        self._send({"id": request_id, "error": error.as_json})

    def _send(self, message: Fields) -> None:
        self._output.send({"jsonrpc": "2.0", **message})

    def _work_on(self, request_id: Any) -> asyncio.Task[None] | None:
        """The work on a request of the client, whatever it has sent as its id."""
        return self._running.get(request_id) if is_request_id(request_id) else None


def is_request_id(value: Any) -> TypeGuard[str | int]:
    return isinstance(value, str | int) and not isinstance(value, bool)
