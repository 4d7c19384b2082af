"""The answers of a script: an `Answerer` whose model is a `ScriptRun`, with the failures that the script asks for."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from harness.contracts.script import DropFault, StatusFault
from harness.gateway.call import GatewayCall
from harness.gateway.reply import JSON, Reply
from harness.lab.request_log import RequestLog
from harness.lab.script_run import SIDE, ScriptReply, ScriptRun
from harness.models.wires.wire import ModelRequest, StreamFailure, StreamFrame, WireFormat, encode

_REFUSALS = {
    400: "The scripted model refuses this request.",
    401: "Incorrect API key provided: invalid x-api-key. API key not valid.",
    402: "Your credit balance is too low.",
    403: "This key may not do that.",
    404: "The model does not exist.",
    408: "The request timed out.",
    409: "The request conflicts with another one.",
    413: "The request is too large.",
    422: "The request cannot be processed.",
    429: "Rate limit reached. Please try again later.",
    500: "Internal server error.",
    502: "Bad gateway.",
    503: "The service is currently overloaded. Please try again later.",
    504: "Gateway timeout.",
    529: "Overloaded.",
}
"""Messages that clients of the APIs look for."""
_BREAKS_AFTER_S = 0.1
"""An answer that breaks off in the same moment as it comes is lost to one client, and half read by the next."""


class ScriptAnswers:
    """Contract: that of `Answerer`. Each call is in `log` before a byte of its answer is sent."""

    def __init__(self, script_run: ScriptRun | None, log: RequestLog, closing: threading.Event) -> None:
        self.script_run = script_run
        """May be given later, when it needs the server's own address."""
        self._log = log
        self._closing = closing

    def answer(self, call: GatewayCall, reply: Reply) -> None:
        reply.origin = "script"
        wire, endpoint = call.wire, call.endpoint
        if call.trouble:
            self._log.note(call, 400, "unreadable")
            reply.must_close = True
            reply.whole_json(400, wire.refusal(400, call.trouble, None), {"connection": "close"})
        elif endpoint == "answer":
            self._answer(call, wire, reply)
        elif endpoint is not None and endpoint in wire.others:
            self._log.note(call, 200, endpoint)
            reply.whole_json(200, wire.others[endpoint](call.http), _named(call))
        else:
            self._log.note(call, 404, "not found")
            reply.whole_json(404, wire.refusal(404, f"the scripted model cannot {endpoint}", None))

    def _answer(self, call: GatewayCall, wire: WireFormat, reply: Reply) -> None:
        request = wire.read(call.http)
        if self.script_run is None:
            self._log.note(call, 503, "refused")
            reply.whole_json(503, wire.refusal(503, "The scripted model has no script yet.", None))
            return
        if not request.has_conversation:
            what = "has no" if isinstance(call.http.body, dict) else "is not a JSON object with"
            self._log.note(call, 400, "unreadable", model=request.model)
            message = f"The body {what} `{wire.conversation}`: there is nothing to answer."
            reply.whole_json(400, wire.refusal(400, message, None))
            return
        scripted = self.script_run.reply(request, call.number)
        failure = scripted.failure
        about = {"lane": scripted.conversation, "turn": scripted.turn, "model": request.model}
        if isinstance(failure, StatusFault) and (failure.after is None or not request.is_streamed):
            self._log.note(call, int(failure.fault), "refused", **about)
            _refuse(call, wire, failure, reply)
            return
        is_silent = isinstance(failure, DropFault) and failure.after == 0
        self._log.note(call, 0 if is_silent else 200, _outcome(scripted), **about)
        if scripted.slow is not None:
            self._closing.wait(scripted.slow.wait_s)
        if request.is_streamed:
            self._stream(call, _frames(wire, scripted, request), scripted, request, reply)
        elif isinstance(failure, DropFault):
            body = encode(wire.whole(scripted.answer))
            if failure.after != 0:
                reply.begun(200, JSON, body, len(body) // 2)
                self._closing.wait(_BREAKS_AFTER_S)
            reply.cut()
        else:
            reply.whole_json(200, wire.whole(scripted.answer), _named(call))

    def _stream(
        self,
        call: GatewayCall,
        frames: list[StreamFrame],
        scripted: ScriptReply,
        request: ModelRequest,
        reply: Reply,
    ) -> None:
        failure = scripted.failure
        end = _break_in(frames, failure.after) if isinstance(failure, DropFault) else len(frames)
        if isinstance(failure, DropFault) and end == 0:
            reply.cut()
            return
        reply.head(200, {"content-type": request.content_type, "cache-control": "no-cache", **_named(call)})
        for frame in frames[:end]:
            if scripted.slow is not None and self._closing.wait(scripted.slow.pause_s):
                break
            reply.piece(frame.data)
        if isinstance(failure, DropFault) or self._closing.is_set():
            self._closing.wait(_BREAKS_AFTER_S)
            reply.cut()
        else:
            reply.end()


def _named(call: GatewayCall) -> dict[str, str]:
    """The id of a request, as providers name it in their answers."""
    return dict.fromkeys(("request-id", "x-request-id"), f"req_lab_{call.number}")


def _refuse(call: GatewayCall, wire: WireFormat, failure: StatusFault, reply: Reply) -> None:
    status, message = int(failure.fault), _message(failure)
    headers: Mapping[str, Any] = _named(call)
    if failure.retry_after_s is not None:
        headers = {**headers, "retry-after": f"{failure.retry_after_s:g}"}
    reply.whole_json(status, wire.refusal(status, message, failure.retry_after_s), headers)


def _message(failure: StatusFault) -> str:
    return failure.message or _REFUSALS[int(failure.fault)]


def _frames(wire: WireFormat, scripted: ScriptReply, request: ModelRequest) -> list[StreamFrame]:
    """The whole stream; where it is to fail, up to there and how."""
    frames = list(wire.stream(scripted.answer, request))
    failure = scripted.failure
    if not isinstance(failure, StatusFault):
        return frames
    frames = frames[: failure.after]
    status, message = int(failure.fault), _message(failure)
    failing = StreamFailure(answer=scripted.answer, status=status, message=message, sent=len(frames))
    return [*frames, StreamFrame(wire.failed(failing, request))]


def _outcome(scripted: ScriptReply) -> str:
    if isinstance(scripted.failure, StatusFault):
        return "refused"
    if isinstance(scripted.failure, DropFault):
        return "dropped"
    if scripted.conversation == SIDE:
        return "side"
    return "over" if scripted.is_over else "answered"


def _break_in(frames: list[StreamFrame], after: int | None) -> int:
    """How many events are sent before the connection ends: by default half of the first part's."""
    if after is not None:
        return min(after, len(frames))
    of_first = [number for number, frame in enumerate(frames) if frame.part == 0]
    return of_first[len(of_first) // 2] if of_first else len(frames) // 2
