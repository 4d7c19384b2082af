"""A model of another API answers: the request becomes an `Ask`, and what its model says is written as a stream of the
program's API, as it comes. Calls are written when their arguments are whole, because some APIs mix those of several.

What only the model understands (signatures, encrypted reasoning) is remembered here by the ids of its calls, and goes
back to it with them; the program never sees it.
"""

from __future__ import annotations

import asyncio
import itertools
import queue
import re
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from contextvars import ContextVar
from typing import Any

from harness.contracts.model import Ask, Call, Model
from harness.events import Error, Event, Message, ReasoningDelta, StepEnd, TextDelta, UsageDelta
from harness.gateway.ask_reading import AskReading, ProgramTool, bare_id, read_ask, token_estimate, with_count
from harness.gateway.call import GatewayCall
from harness.gateway.pass_on import Spending, refuse
from harness.gateway.reply import Reply
from harness.models.failure import ModelFailure, Retries
from harness.models.wires.wire import (
    AnswerCall,
    AnswerReasoning,
    AnswerText,
    ModelRequest,
    StreamFailure,
    Tokens,
    WireAnswer,
    WirePart,
    encode,
)

_MOST_REMEMBERED = 2000
_STATUSES = {
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "RESOURCE_EXHAUSTED": 429,
    "overloaded_error": 529,
    "authentication_error": 401,
    "invalid_api_key": 401,
    "UNAUTHENTICATED": 401,
    "permission_error": 403,
    "PERMISSION_DENIED": 403,
    "not_found_error": 404,
    "model_not_found": 404,
    "NOT_FOUND": 404,
    "invalid_request_error": 400,
    "INVALID_ARGUMENT": 400,
    "context_length_exceeded": 400,
    "insufficient_quota": 402,
    "billing_error": 402,
}
_IN_CODE = re.compile(r"http_(\d{3})")


_WAITS: ContextVar[list[float | None]] = ContextVar("what a provider said of waiting, call by call")


class Untried(Retries, frozen=True):
    """The program asks again by itself: nothing is asked twice here. Notes what the provider said of waiting."""

    def wait_s(self, failure: ModelFailure, tries: int) -> float | None:
        del tries
        _WAITS.get().append(failure.wait_s)
        return None


class Translated:
    """Contract: that of `Answerer`. One `close` at the end."""

    def __init__(
        self,
        open_model: Callable[[Retries], Model],
        *,
        spending: Spending | None = None,
        on_losses: Callable[[tuple[str, ...]], object] | None = None,
    ) -> None:
        """`on_losses`: called with what of the requests could not be translated, each thing once."""
        self._model = open_model(Untried())
        """One for all calls: a script goes on where it was."""
        self._spending = spending
        self._on_losses = on_losses
        self._reported: set[str] = set()
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._memory: OrderedDict[str, tuple[Call, Any]] = OrderedDict()
        self._prefix = secrets.token_hex(3)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="gateway-translation", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(_end_all(), self._loop)
        self._thread.join()
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    def answer(self, call: GatewayCall, reply: Reply) -> None:
        reply.origin = "translated"
        wire = call.wire
        if call.endpoint != "answer":
            self._answer_besides(call, reply)
            return
        if call.trouble:
            reply.whole_json(415, wire.refusal(415, call.trouble, None))
            return
        if self._spending is not None and (refusal := self._spending.refusal(call)):
            refuse(call, reply, refusal)
            return
        reading = read_ask(wire, call.http, self._earlier)
        self._tell(reading.losses)
        events = _Events(self._loop, self._model, reading.ask)
        try:
            arrival = _Arriving(events, reading, self._new_id(), self._model, self._remember)
            self._write(call, reply, arrival, events.waits)
        finally:
            events.close()

    def _write(
        self, call: GatewayCall, reply: Reply, arrival: _Arriving, waits: Sequence[float | None]
    ) -> None:
        wire, request = call.wire, call.wire.read(call.http)
        try:
            arrival.wait()
        except NoModelAnswer as failure:
            wait_s = waits[-1] if waits else None
            headers = {"retry-after": f"{wait_s:.0f}"} if wait_s is not None else {}
            reply.whole_json(failure.status, wire.refusal(failure.status, failure.message, wait_s), headers)
            return
        if request.is_streamed:
            self._stream(call, reply, arrival.answer, request)
            return
        try:
            for part in arrival.answer.parts:
                if not isinstance(part, AnswerCall):
                    for _ in part.pieces():
                        pass
        except NoModelAnswer as failure:
            reply.whole_json(failure.status, wire.refusal(failure.status, failure.message, None))
            return
        reply.whole_json(200, wire.whole(arrival.answer))

    def _stream(self, call: GatewayCall, reply: Reply, answer: WireAnswer, request: ModelRequest) -> None:
        pieces_sent = 0
        reply.head(200, {"content-type": request.content_type})
        try:
            for frame in call.wire.stream(answer, request):
                reply.piece(frame.data)
                pieces_sent += 1
        except NoModelAnswer as failure:
            failing = StreamFailure(
                answer=answer, status=failure.status, message=failure.message, sent=pieces_sent
            )
            answer.parts = ()
            reply.piece(call.wire.failed(failing, request))
        reply.end()

    def _answer_besides(self, call: GatewayCall, reply: Reply) -> None:
        wire = call.wire
        body = wire.others.get(call.endpoint or "count")
        if call.endpoint == "count" and body is not None:
            reply.whole_json(200, with_count(body(call.http), token_estimate(call.plain)))
        elif call.endpoint == "models" and body is not None:
            reply.whole_json(200, body(call.http))
        else:
            reply.whole_json(404, wire.refusal(404, "another model answers, which cannot do this", None))

    def _tell(self, losses: tuple[str, ...]) -> None:
        with self._lock:
            news = tuple(loss for loss in losses if loss not in self._reported)
            self._reported |= set(news)
        if news and self._on_losses is not None:
            self._on_losses(news)

    def _new_id(self) -> str:
        return f"{self._prefix}_{next(self._numbers)}"

    def _remember(self, program_id: str, call: Call, opaque: Any) -> None:
        with self._lock:
            self._memory[program_id] = call, opaque
            while len(self._memory) > _MOST_REMEMBERED:
                self._memory.popitem(last=False)

    def _earlier(self, program_id: str) -> tuple[Call, Any] | None:
        with self._lock:
            return self._memory.get(program_id)


class NoModelAnswer(Exception):
    """The model gave no answer, or broke off in one."""

    def __init__(self, error: Error) -> None:
        super().__init__(error.message)
        self.message = error.message
        in_code = _IN_CODE.fullmatch(error.code or "")
        self.status = int(in_code[1]) if in_code else _STATUSES.get(error.code or "", 502)


async def _end_all() -> None:
    loop = asyncio.get_running_loop()
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    loop.call_soon(loop.stop)


class _Events:
    """What a model says, for a thread that waits for it. Contract: iterated once; one `close`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, model: Model, ask: Ask) -> None:
        self.waits: list[float | None] = []
        """What the provider said of waiting."""
        self._queue: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self._work = asyncio.run_coroutine_threadsafe(self._ask(model, ask), loop)

    async def _ask(self, model: Model, ask: Ask) -> None:
        _WAITS.set(self.waits)
        try:
            async with aclosing(model.answer(ask)) as events:  # type: ignore[type-var] # a generator everywhere
                async for event in events:
                    self._queue.put(event)
        except Exception as error:  # noqa: BLE001 # a model of the user's may raise anything
            self._queue.put(Error(message=f"the model failed: {error!r}", code="http_502"))
        finally:
            self._queue.put(None)

    def __iter__(self) -> Iterator[Event]:
        while (event := self._queue.get()) is not None:
            yield event

    def close(self) -> None:
        self._work.cancel()


class _Arriving:
    """An answer while it arrives: its parts are those of `answer`."""

    def __init__(
        self,
        events: _Events,
        reading: AskReading,
        id: str,
        model: Model,
        remember: Callable[[str, Call, Any], object],
    ) -> None:
        self._events = iter(events)
        self._next: Event | None = None
        self._own_tools: Mapping[str, ProgramTool] = reading.own_tools
        self._id = id
        self._remember = remember
        name = model.name.partition("/")[2]
        self.answer = WireAnswer(
            id=id, model=name, parts=_Parts(self._parts()), tokens=Tokens(input=0, output=0, cache_read=0)
        )

    def wait(self) -> None:
        """Until it begins. Raises NoModelAnswer where it does not."""
        self._peek()

    def _peek(self) -> Event | None:
        """Raises NoModelAnswer."""
        while self._next is None:
            event = next(self._events, None)
            if isinstance(event, Error):
                raise NoModelAnswer(event)
            if event is None:
                return None
            if isinstance(event, TextDelta | ReasoningDelta | Message | UsageDelta | StepEnd):
                self._next = event
        return self._next

    def _parts(self) -> Iterator[WirePart]:
        has_said = False
        while (event := self._peek()) is not None:
            match event:
                case TextDelta():
                    has_said = True
                    yield AnswerText("", coming=self._pieces(TextDelta))
                case ReasoningDelta():
                    yield AnswerReasoning("", coming=self._pieces(ReasoningDelta))
                case Message():
                    self._next = None
                    if event.text and not has_said:
                        yield AnswerText(event.text)
                    yield from self._calls(event)
                case UsageDelta():
                    self._next = None
                    usage = event.usage
                    self.answer.tokens = Tokens(
                        input=usage.input or 0,
                        output=usage.output or 0,
                        cache_read=usage.cache_read or 0,
                        cache_write=usage.cache_write or 0,
                        reasoning=usage.reasoning or 0,
                    )
                case StepEnd():
                    self._next = None
                    stops: dict[str, Any] = {"length": "length", "refusal": "refusal"}
                    self.answer.stop = stops.get(event.stop_reason)
                case _:
                    self._next = None

    def _pieces(self, kind: type[TextDelta | ReasoningDelta]) -> Iterator[str]:
        while isinstance(event := self._peek(), kind):
            self._next = None
            yield event.text

    def _calls(self, message: Message) -> Iterator[AnswerCall]:
        for number, content in enumerate(part for part in message.parts or [] if isinstance(part, dict)):
            call = Call(str(content.get("id")), str(content.get("name")), content.get("input"))
            own = self._own_tools.get(call.name) or ProgramTool(call.name)
            arguments_value: Any = call.input if isinstance(call.input, dict) else {}
            is_malformed = arguments_value.get("__toolParseError") is True
            arguments = (
                str(arguments_value.get("rawArguments", ""))
                if is_malformed
                else encode(arguments_value).decode()
            )
            if own.is_free_text:  # some models write the text as it is, without the object around it
                arguments_value = arguments = (
                    arguments if is_malformed else str(arguments_value.get("input", ""))
                )
                is_malformed = False
            program_id = f"{self._id}_{number}"
            self._remember(bare_id(program_id), call, message.opaque)
            yield AnswerCall(program_id, own.name, arguments_value, arguments, is_malformed, own.namespace)


class _Parts:
    """Parts that arrive once, and can be looked at again."""

    def __init__(self, coming: Iterator[WirePart]) -> None:
        self._coming = coming
        self._known_parts: list[WirePart] = []

    def __iter__(self) -> Iterator[WirePart]:
        yield from self._known_parts
        for part in self._coming:
            self._known_parts.append(part)
            yield part
