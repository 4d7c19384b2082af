"""The deterministic model: it says what a script says, response after response, and needs no network.

    Scripted(["Hello.", {"events": [{"type": "tool_call", "name": "read", "input": {"path": "a.txt"}}]}])

A script file is JSON or TOML:

    pause_ms = 20                        # between events, for somebody who watches
    [[responses]]
    events = [{ type = "text", content = "Let me look." }, { type = "tool_call", name = "list", input = {} }]
    [[responses]]
    events = [{ type = "text", content = "Done.", pieces = 2 }, { type = "usage", inputTokens = 9 }]

    goes_by = "conversation"             # a function of what was said: the next response is the one after as many
                                         # answers, from the beginning again after the last one

    [[lanes]]                            # answers the conversations whose first message has the marker
    marker = "COUNT"
    responses = [{ events = [{ type = "text", content = "Two." }] }]

The input of a call may be a text: it is then what the model wrote instead of an object.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

from harness.errors import UsageError
from harness.events import Event, Usage
from harness.sources.formats.fields import besides
from harness.sources.model import Ask, AssistantTurn, UserTurn
from harness.sources.models.answer import ModelAnswer
from harness.sources.models.turn_cache import encode


class _Said(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type"):
    pass


class Text(_Said, frozen=True, kw_only=True, tag="text"):
    content: str
    pieces: Annotated[int, Meta(ge=1)] = 1


class Reasoning(_Said, frozen=True, kw_only=True, tag="reasoning"):
    content: str
    pieces: Annotated[int, Meta(ge=1)] = 1


class ToolCall(_Said, frozen=True, kw_only=True, tag="tool_call"):
    name: str
    input: dict[str, Any] | str = {}
    id: str = ""


class Used(_Said, frozen=True, kw_only=True, tag="usage", rename="camel"):
    """As the format `events` tells it: the whole prompt, cached or not, and all that came back."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_creation_tokens: int | None = None
    reasoning_tokens: int | None = None

    @property
    def usage(self) -> Usage:
        return Usage(
            input=besides(self.input_tokens, self.cache_read_tokens, self.cache_creation_tokens),
            output=besides(self.output_tokens, self.reasoning_tokens),
            cache_read=self.cache_read_tokens,
            cache_write=self.cache_creation_tokens,
            reasoning=self.reasoning_tokens,
        )


class Failed(_Said, frozen=True, kw_only=True, tag="error"):
    message: str
    code: str = "scripted"


Saying: TypeAlias = Text | Reasoning | ToolCall | Used | Failed


class Response(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    events: list[Saying]
    stop_reason: str = "end"


Scripting: TypeAlias = str | Response | Mapping[str, Any]
"""A text alone, or a response, or one as a file has it."""


class Lane(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    marker: str
    responses: list[Response]


class Script(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    responses: list[Response] = []
    lanes: list[Lane] = []
    pause_ms: Annotated[int, Meta(ge=0)] = 0
    goes_by: Literal["call", "conversation"] = "call"


class Scripted:
    """Contract: that of `Model`. Each call takes the next response, whoever makes it, unless it goes by conversation."""

    def __init__(
        self,
        responses: Sequence[Scripting | Callable[[Ask], Scripting]],
        *,
        name: str = "scripted/script",
        lanes: Mapping[str, Sequence[Scripting]] | None = None,
        pause_ms: int = 0,
        goes_by: Literal["call", "conversation"] = "call",
    ) -> None:
        """A response may be a function of what is asked. Raises UsageError for one that cannot be read."""
        self.name = name
        self._pause_s = pause_ms / 1000
        open_lane = _Lane if goes_by == "call" else _Round
        self._main = open_lane(responses)
        self._lanes = {marker: open_lane(others) for marker, others in (lanes or {}).items()}

    async def answer(self, ask: Ask) -> AsyncGenerator[Event]:
        answer = ModelAnswer(self.name)
        steps = _perform(self._lane(ask).next(ask), answer)
        for _ in steps:
            if self._pause_s:
                for event in answer.events:
                    yield event
                answer.events.clear()
                await asyncio.sleep(self._pause_s)
        for event in answer.events:
            yield event

    def _lane(self, ask: Ask) -> _Lane:
        if self._lanes:
            opening = next((turn.text for turn in ask.turns if isinstance(turn, UserTurn)), "")
            for marker, lane in self._lanes.items():
                if marker in opening:
                    return lane
        return self._main


class _Lane:
    def __init__(self, responses: Sequence[Scripting | Callable[[Ask], Scripting]]) -> None:
        self._responses = [one if callable(one) else _response(one) for one in responses]
        self._numbers = itertools.count()

    def next(self, ask: Ask) -> Response:
        number = next(self._numbers)
        if number >= len(self._responses):
            over = Failed(message=f"no scripted response at index {number}", code="script_over")
            return Response(events=[over])
        found = self._responses[number]
        return found if isinstance(found, Response) else _response(found(ask))


class _Round(_Lane):
    """Remembers nothing: how many answers there are says which is next."""

    def next(self, ask: Ask) -> Response:
        count = sum(isinstance(turn, AssistantTurn) for turn in ask.turns)
        if not self._responses:
            return super().next(ask)
        found = self._responses[count % len(self._responses)]
        return found if isinstance(found, Response) else _response(found(ask))


def _perform(response: Response, answer: ModelAnswer) -> Iterator[None]:
    """Say it, step by step."""
    for saying in response.events:
        match saying:
            case Text():
                for piece in _cut(saying.content, saying.pieces):
                    answer.say(piece)
                    yield
            case Reasoning():
                for piece in _cut(saying.content, saying.pieces):
                    answer.think(piece)
                    yield
            case ToolCall(input=given):
                call = answer.call(saying.id, saying.name)
                answer.argue(call, given if isinstance(given, str) else encode(given).decode())
                yield
            case Used():
                answer.usage = answer.usage.plus(saying.usage)
            case Failed():
                answer.fail(saying.message, saying.code)
                return
    answer.end(response.stop_reason)


def _cut(text: str, count: int) -> list[str]:
    size = max(1, -(-len(text) // count))
    return [text[start : start + size] for start in range(0, len(text), size)]


def _response(given: Scripting) -> Response:
    if isinstance(given, Response):
        return given
    if isinstance(given, str):
        return Response(events=[Text(content=given)])
    try:
        return msgspec.convert(given, Response)
    except msgspec.ValidationError as error:
        raise UsageError(f"a scripted response cannot be read: {error}") from None


def open_script(path: str) -> Scripted:
    """The model of a script file; `demo` is one of ours. Raises UsageError: which file, and what is wrong with it."""
    if path == "demo":
        return _read(str(files("harness.sources.models").joinpath("demo.toml")), "scripted/demo")
    return _read(path, f"scripted/{path}")


def _read(path: str, name: str) -> Scripted:
    try:
        with open(path, "rb") as file:
            data = file.read()
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else "") or str(error)
        raise UsageError(f"cannot read the script {path!r}: {reason}") from error
    try:
        script = (msgspec.toml if path.endswith(".toml") else msgspec.json).decode(data, type=Script)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise UsageError(
            f"the script {path} cannot be read: {error}",
            hint='a script is a list `responses` of { events = [{ type = "text", content = "…" }] }',
        ) from None
    lanes = {lane.marker: lane.responses for lane in script.lanes}
    return Scripted(
        script.responses, name=name, lanes=lanes, pause_ms=script.pause_ms, goes_by=script.goes_by
    )
