"""JSON-RPC in both directions, one object per line: the base of the drivers whose protocols are made of it.

What the other side wrote is sorted by its members: a `method` with an `id` is a request, without one a
notification; an `id` alone is the response to a request of ours. Each protocol fills in two tables, `requests` and
`notifications`. A request that is in no table is refused with an error, because programs wait for answers without
end; a notification that is in no table says nothing to the driver.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, TypeAlias

import msgspec

from harness.contracts.driver import Driver, Moves, Send, line
from harness.contracts.request import Request
from harness.contracts.translator import Record
from harness.formats.fields import record_of, text_of

METHOD_NOT_FOUND = -32601


class RpcRequest(msgspec.Struct, frozen=True):
    """A request of the program, which waits for its response."""

    id: Any
    """A JSON value, returned exactly as it came."""
    method: str
    params: Record

    def has_id(self, request_id: Any) -> bool:
        """Whether this is its id. 0, false, 0.0 and "0" are different ids."""
        return type(request_id) is type(self.id) and bool(request_id == self.id)


class RpcResponse(msgspec.Struct, frozen=True):
    """The response of the program to a request of ours."""

    result: Record
    """Empty also where the result is no object."""
    error: str | None = None
    """The message of the error, which may be empty; None: there is no error."""
    code: int | None = None
    """The number of the error."""
    data: Any = None
    """What else the error says."""


Then: TypeAlias = Callable[[RpcResponse], Moves]
"""What follows from a response."""


class JsonRpcDriver(Driver):
    """Inherit, fill the tables, and write one short method per request and notification.

    The natives of open questions (`Driver.open`) are `RpcRequest`s.
    """

    requests: ClassVar[dict[str, str]] = {}
    """Method of a request of the program → name of the method here that takes it: `(RpcRequest) → Moves`."""
    notifications: ClassVar[dict[str, str]] = {}
    """Method of a notification → name of the method here that takes it: `(params) → Moves`."""
    has_version: ClassVar[bool] = True
    """Whether the protocol writes the member `jsonrpc`, as the standard wants."""

    def __init__(self, request: Request, line_id: str) -> None:
        super().__init__(request, line_id)
        self._last_id = 0
        self._waiting: dict[int | str, Then] = {}
        """Ids of our requests that have no response yet → what follows from it."""

    def receive(self, record: Record) -> Moves:
        method, params = record.get("method"), record_of(record.get("params"))
        if "id" not in record:
            name = self.notifications.get(text_of(method))
            return getattr(self, name)(params) if name else ()
        if isinstance(method, str):
            return self._requested(RpcRequest(record["id"], method, params))
        return self._responded(record)

    def _requested(self, request: RpcRequest) -> Moves:
        name = self.requests.get(request.method)
        # A program that uses an id again can be given one answer only: that to the later question.
        replaced = self._withdraw_request(request.id)
        if name:
            return [*replaced, *getattr(self, name)(request)]
        return [*replaced, self._refuse(request, METHOD_NOT_FOUND, f"Harness does not know {request.method}")]

    def _responded(self, record: Record) -> Moves:
        number = record["id"]
        then = self._waiting.pop(number, None) if type(number) in (int, str) else None
        return then(_response_of(record)) if then else ()

    def _withdraw_request(self, request_id: Any) -> Moves:
        """Close the question that has this id of the program's, if it is open."""
        return self._withdraw(lambda native: native.has_id(request_id))

    # What is written

    def _call(self, method: str, params: Record, then: Then | None = None) -> Send:
        """A request of ours; `then` takes its response."""
        self._last_id += 1
        request_id = self._id_of(method, self._last_id)
        self._waiting[request_id] = then or _nothing_follows
        return self._line({"id": request_id, "method": method, "params": params})

    def _id_of(self, method: str, number: int) -> int | str:
        """The id of a request of ours. A protocol may put the method into it: a translator then knows its responses."""
        del method
        return number

    def _notify(self, method: str, params: Record | None = None) -> Send:
        return self._line({"method": method} if params is None else {"method": method, "params": params})

    def _respond(self, request: RpcRequest, result: Any) -> Send:
        return self._line({"id": request.id, "result": result})

    def _refuse(self, request: RpcRequest, code: int, message: str) -> Send:
        return self._line({"id": request.id, "error": {"code": code, "message": message}})

    def _line(self, record: Record) -> Send:
        return line({"jsonrpc": "2.0", **record} if self.has_version else record)


def _nothing_follows(_response: RpcResponse) -> Moves:
    return ()


def _response_of(record: Record) -> RpcResponse:
    if record.get("error") is None:
        return RpcResponse(record_of(record.get("result")))
    error = record_of(record["error"])
    code = error.get("code")
    number = code if type(code) is int else None
    return RpcResponse({}, text_of(error.get("message")), number, error.get("data"))
