"""One model call, whichever API it came through: what was asked, what is answered, and what a wire must do."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from harness.contracts.script import ScriptStop
from harness.events import Usage
from harness.formats.fields import text_of

JsonObject: TypeAlias = dict[str, Any]
WireEndpoint: TypeAlias = Literal["answer", "count", "models", "compact"]
"""What a route is for: a model's answer, a count of tokens, a list of models, a conversation made shorter."""

MODELS = (
    "lab-model",
    "claude-opus-5-5",
    "claude-sonnet-4-5",
    "gpt-4.1",
    "gpt-4o",
    "gpt-5.5",
    "gemini-2.5-flash",
    "gemini-2.5-pro",
    "qwen3-coder-plus",
)
"""The models that are listed: some agents refuse one that is not. Any is answered."""

COUNTED_TOKENS = 1234
"""The answer to every count of tokens."""

CREATED_S = 1_760_000_000
"""When every answer was made: always the same, so that a script gives the same bytes."""


class HttpRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request as HTTP brought it."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    """Names in small letters."""
    body: Any
    """The decoded JSON; text where it is none."""

    @property
    def record(self) -> JsonObject:
        return self.body if isinstance(self.body, dict) else {}


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A model call, understood."""

    model: str
    system: str
    opening: str
    """What the user's side wrote before the first answer: the marker of a conversation is looked for here."""
    leading: tuple[tuple[str, str], ...] = ()
    """The texts of the first answers that hold no call of ours, each with what the user's side wrote next.
    An agent may have written them itself, to open the conversation: only the script shows that."""
    answers: int
    """How many answers the conversation already holds."""
    has_conversation: bool = True
    """Whether there is anything to answer."""
    results: tuple[str, ...] = ()
    """The tool results since the last answer."""
    tools: Mapping[str, JsonObject] = {}
    """The tools that are offered, with the schema of their input."""
    forced_tool: str = ""
    """The one that must be called."""
    schema: JsonObject = {}
    """What the answer must be, when it must be JSON."""
    previous_id: str = ""
    """The answer that this continues, where the server stores the conversation."""
    is_streamed: bool = False
    wants_usage: bool = True
    """Whether a stream is to say what was used, where that must be asked for."""
    content_type: str = "text/event-stream"


class SaidItem(NamedTuple):
    """One thing in a conversation, whichever API sends it."""

    role: str
    """user, assistant or tool; whatever else an API may have."""
    kind: Literal["text", "call", "result", "image", "reasoning", "other"]
    value: Any
    """Of a call its arguments, as a value; of a result what the tool gave."""
    call_id: str = ""
    """Of a call and of its result."""
    name: str = ""
    """Of a call: the tool."""
    is_error: bool = False
    """Of a result: the tool failed."""


class SaidConversation(NamedTuple):
    """What a request says, apart from how its API spells it."""

    system: list[str]
    items: list[SaidItem]
    tools: Mapping[str, Any]
    """Name → the whole definition."""
    options: Mapping[str, Any]
    """How to answer: everything else that changes what a model does."""


class AnswerEnd(NamedTuple):
    """What an answer says of itself, as far as it has come."""

    usage: Usage | None = None
    """None: nothing is stated, which is not nothing."""
    model: str = ""
    stop_reason: str = ""
    """The API's own word."""
    calls: int = 0
    speed: str = ""
    """As `UsageDelta.speed`."""


class Tokens(msgspec.Struct, frozen=True, kw_only=True):
    """What a model call uses. `input` is without what is cached, `output` without reasoning."""

    input: int = 1000
    output: int = 50
    cache_read: int = 200
    cache_write: int = 0
    reasoning: int = 0


class _Spoken(msgspec.Struct):
    text: str
    piece_count: int | None = None
    coming: Iterator[str] | None = None
    """Pieces that have not arrived yet. The text is whole when they have."""

    def pieces(self) -> Iterator[str]:
        """As it is streamed: what has still to come, as it comes."""
        if self.coming is None:
            yield from pieces(self.text, self.piece_count)
            return
        arrived: list[str] = []
        for piece in self.coming:
            arrived.append(piece)
            yield piece
        self.text, self.coming = "".join(arrived), None


class AnswerText(_Spoken):
    """What is said."""


class AnswerReasoning(_Spoken):
    """What is thought before."""


class AnswerCall(msgspec.Struct, frozen=True):
    id: str
    """Without the prefix that an API gives it."""
    name: str
    input: JsonObject | str
    arguments: str
    """The input as text, cut off when it is to be malformed."""
    is_malformed: bool = False
    namespace: str = ""


WirePart: TypeAlias = AnswerText | AnswerReasoning | AnswerCall


class WireAnswer(msgspec.Struct, kw_only=True):
    id: str
    """Without the prefix that an API gives it."""
    model: str
    parts: Iterable[WirePart]
    """They may still be arriving. Tokens and stop are then known after the last."""
    tokens: Tokens
    stop: ScriptStop | None = None

    @property
    def has_calls(self) -> bool:
        return any(isinstance(part, AnswerCall) for part in self.parts)


class StreamFrame(NamedTuple):
    """One event of a stream, in bytes."""

    data: bytes
    part: int = -1
    """The part of the answer of which it brings a piece; -1 for what only frames it."""


class StreamFailure(msgspec.Struct, frozen=True, kw_only=True):
    """An answer that is to fail in the middle of its stream."""

    answer: WireAnswer
    status: int
    message: str
    sent: int
    """How many events came before."""


class WireFormat(msgspec.Struct, frozen=True, kw_only=True):
    """One model API. Contract: nothing here does I/O; a body of any shape is read without an exception."""

    title: str
    variable: str
    """The environment variable by which most clients learn the base URL."""
    base_path: str
    """What they expect the base URL to end with."""
    conversation: str
    """The field of a request that holds the messages."""
    endpoint: Callable[[HttpRequest], WireEndpoint | None]
    """What a request is for; None when it is not this API's."""
    read: Callable[[HttpRequest], ModelRequest]
    whole: Callable[[WireAnswer], Any]
    stream: Callable[[WireAnswer, ModelRequest], Iterator[StreamFrame]]
    refusal: Callable[[int, str, float | None], Any]
    """The body of an error: status, message, seconds to wait."""
    failed: Callable[[StreamFailure, ModelRequest], bytes]
    """What a stream sends when it fails in the middle."""
    others: Mapping[WireEndpoint, Callable[[HttpRequest], Any]]
    """The bodies for the other endpoints."""
    said: Callable[[JsonObject], SaidConversation]
    """What the body of a request says."""
    end: Callable[[Iterable[JsonObject]], AnswerEnd]
    """What an answer says of itself, from its events; of an answer that was not streamed, from its one value."""


_WIRES = ("anthropic", "chat", "gemini", "responses")


@cache
def all_wires() -> Mapping[str, WireFormat]:
    """Name → format: each in the file of that name."""
    return {name: import_module(f"{__package__}.{name}").WIRE for name in _WIRES}


def asks_for_models(arrived: HttpRequest) -> bool:
    """For the list of all, or for one by its name."""
    return arrived.method == "GET" and (arrived.path.endswith("/models") or bool(named_model(arrived)))


def named_model(arrived: HttpRequest) -> str:
    return arrived.path.rpartition("/models/")[2] if "/models/" in arrived.path else ""


def is_from_google(arrived: HttpRequest) -> bool:
    """Some of its clients ask for models at the path that other APIs have."""
    return "v1beta" in arrived.path or "x-goog-api-key" in arrived.headers


def encode(value: Any) -> bytes:
    return msgspec.json.encode(value)


def sse(value: Any, event: str = "") -> bytes:
    head = f"event: {event}\n".encode() if event else b""
    return head + b"data: " + encode(value) + b"\n\n"


def records(value: Any) -> list[JsonObject]:
    """The objects of a list; a single object counts as one."""
    if isinstance(value, dict):
        return [value]
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def plain_text(content: Any) -> str:
    """The text of a message: a string, or the text blocks of a list."""
    if isinstance(content, str):
        return content
    return "\n".join(text for block in records(content) if (text := text_of(block.get("text"))))


def texts_of_roles(roles: tuple[str | None, ...], messages: list[JsonObject]) -> str:
    """The texts of the messages that have one of these roles."""
    contents = (message.get("content") for message in messages if message.get("role") in roles)
    return "\n".join(map(plain_text, contents))


def openai_error(kinds: Mapping[int, tuple[str, str]], status: int, message: str) -> JsonObject:
    """The body of an error as the APIs of OpenAI have it. `kinds`: status → type and code."""
    default = ("invalid_request_error" if status < 500 else "server_error", None)
    kind, code = kinds.get(status, default)
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def as_text(value: Any) -> str:
    """A text as it is, everything else as JSON whose keys are in order."""
    return value if isinstance(value, str) else msgspec.json.encode(value, order="deterministic").decode()


def parsed_arguments(value: Any) -> Any:
    """Arguments as a value: some clients send text, others an object."""
    if not isinstance(value, str):
        return value
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError):
        return value


def parts_of(value: Any) -> list[Any]:
    """The parts of a content: those of a list, or the one that it is."""
    return value if isinstance(value, list) else [] if value is None else [value]


def kept_options(body: JsonObject, *fields: str) -> JsonObject:
    return {name: body[name] for name in fields if name in body}


def events_of(content: bytes) -> Iterator[JsonObject]:
    """The objects of an answer: the events of a stream, the elements of an array, or the one value that it is."""
    start = content[:64].lstrip()
    if start.startswith((b"{", b"[")):
        try:
            yield from records(msgspec.json.decode(content))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return
        return
    for line in content.split(b"\n"):
        if not line.startswith(b"data:"):
            continue
        try:
            value = msgspec.json.decode(line[5:])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
        if isinstance(value, dict):
            yield value


_PIECES = 4
_LONGEST_PIECE = 16 * 1024


def pieces(text: str, count: int | None = None) -> list[str]:
    """A text as a model would stream it, in as many pieces as it has letters at most."""
    size = len(text)
    count = min(size, count or max(_PIECES, -(-size // _LONGEST_PIECE)))
    return [text[size * number // count : size * (number + 1) // count] for number in range(count)]


class DividedMessages(NamedTuple):
    """The messages of a request, as its answers divide them."""

    opening: list[JsonObject]
    """Before the first answer."""
    answers: int
    latest: list[JsonObject]
    """After the last answer."""
    leading: list[tuple[str, list[JsonObject]]]
    """The first answers as far as they hold no call of ours: their text, and what came next."""


_CALL_ID = re.compile(r"(?:call|toolu)_([a-z][a-z0-9-]*_\d+_\d+)_\d+")


def divide(
    messages: list[JsonObject],
    is_answer: Callable[[JsonObject], bool],
    call_ids: Callable[[JsonObject], list[Any]],
    content: str = "content",
) -> DividedMessages:
    """One answer may be several messages in a row; and some agents send each of its calls apart, with the
    call's result between. The ids of calls, which are ours, show that. `content`: the field of the text.
    """
    marks = [is_answer(message) for message in messages]
    first = marks.index(True) if True in marks else len(marks)
    last = len(marks) - marks[::-1].index(True) if True in marks else 0
    count = 0
    ids_so_far: set[str] = set()
    leading: list[tuple[str, list[JsonObject]]] = []
    for is_group, pairs in itertools.groupby(zip(marks, messages, strict=True), lambda pair: pair[0]):
        group = [message for _, message in pairs]
        if is_group:
            ids = [id for message in group for id in call_ids(message) if isinstance(id, str)]
            ids_of_calls = {match[1] for id in ids if (match := _CALL_ID.match(id))}
            count += not ids_of_calls or not ids_of_calls <= ids_so_far
            ids_so_far |= ids_of_calls
            if not ids_so_far:
                leading.append((plain_text([*_texts(group, content)]), []))
        elif leading and not ids_so_far:
            leading[-1][1].extend(group)
    return DividedMessages(messages[:first], count, messages[last:], leading)


def _texts(messages: list[JsonObject], content: str) -> Iterator[JsonObject]:
    return ({"text": plain_text(message.get(content))} for message in messages)
