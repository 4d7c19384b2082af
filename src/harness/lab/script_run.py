"""A script that answers the requests of one agent: which turn is for which request, and what goes wrong first.

A request is answered from what it holds itself: the conversation by a marker in its opening, the turn by how many
answers it already has. So a retry gets the same turn, any number of conversations may be open at once, and a session
that is resumed later continues in the script. Only faults are counted.

Requests beside the conversation (a title, a check, a summary) get a short harmless answer.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from harness.contracts.fixture import AgentFixture, LabContext
from harness.contracts.script import (
    MAIN,
    Alternatives,
    ArgumentsFault,
    DropFault,
    Fault,
    HugeFault,
    Script,
    ScriptConversation,
    ScriptError,
    ScriptReasoning,
    ScriptText,
    ScriptToolCall,
    ScriptTurn,
    SlowFault,
    StatusFault,
    fill_placeholders,
)
from harness.events import Usage
from harness.formats.fields import record_of
from harness.lab.tool_calls import as_offered, render
from harness.models.wires.wire import (
    AnswerCall,
    AnswerReasoning,
    AnswerText,
    JsonObject,
    ModelRequest,
    Tokens,
    WireAnswer,
    WirePart,
    encode,
    records,
)

SIDE = "side"
"""In place of a conversation's name: a request beside the conversation."""
OVER = "The script has no further turn."

_NO_USAGE = Usage(input=0, output=0, cache_read=0, cache_write=0, reasoning=0)
_NO_TOKENS = Tokens(input=0, output=0, cache_read=0, cache_write=0, reasoning=0)
_DEEPEST = 8
_ANSWER_ID = re.compile(r"([a-z][a-z0-9-]*)_(\d+)_\d+")
_Key: TypeAlias = tuple[str, int, str, int]


class ScriptReply(msgspec.Struct, frozen=True, kw_only=True):
    """What is done with one request."""

    conversation: str
    turn: int
    answer: WireAnswer
    failure: StatusFault | DropFault | None = None
    """Happens instead of the answer, or in the middle of it."""
    slow: SlowFault | None = None
    is_over: bool = False
    """The script had nothing for it."""


class ScriptRun:
    """Contract: `reply` may be called from any number of threads at once. Raises UsageError when made."""

    def __init__(
        self, script: Script, fixture: AgentFixture | None = None, context: LabContext | None = None
    ) -> None:
        self._script = script
        self._conversations = render(script, fixture, context)
        is_toolless = script.side.toolless
        self._is_toolless_side = fixture is not None if is_toolless is None else is_toolless
        self._side_markers = script.side.markers + (fixture.side_markers if fixture else ())
        self._intents = {
            call.tool
            for conversation in self._conversations.values()
            for turn in conversation.turns
            for part in turn.parts
            if isinstance(part, ScriptToolCall | Alternatives)
            for call in (part.calls if isinstance(part, Alternatives) else (part,))
        }
        self._texts = _texts_of(self._conversations.values(), script.side.text)
        self._lock = threading.Lock()
        self._met: dict[_Key, int] = {}
        """How often each fault was met since its turn was last answered without it."""
        self._arrived: dict[str, int] = {}

    def reply(self, request: ModelRequest, number: int) -> ScriptReply:
        """`number` is another one for each request."""
        request = self._without_foreign(request)
        if self._is_side(request):
            id = f"{SIDE}_0_{number}"
            parts = _harmless(request, self._script.side.text, f"{id}_0")
            answer = WireAnswer(id=id, model=request.model, parts=parts, tokens=_NO_TOKENS)
            return ScriptReply(conversation=SIDE, turn=0, answer=answer)
        with self._lock:
            return self._turn(request, number)

    def _without_foreign(self, request: ModelRequest) -> ModelRequest:
        """Some agents open a conversation with an answer that they made themselves: that is no turn of ours."""
        opening, count = request.opening, 0
        for text, following in request.leading:
            if not self._is_foreign(text):
                break
            opening, count = f"{opening}\n{following}", count + 1
        return replace(request, opening=opening, answers=request.answers - count) if count else request

    def _is_foreign(self, text: str) -> bool:
        """Whether it is neither a text of the script, possibly with something around it, nor the beginning of one."""
        folded = _folded(text)
        return bool(folded) and not any(own in folded or own.startswith(folded) for own in self._texts)

    def _is_side(self, request: ModelRequest) -> bool:
        is_forced = bool(request.forced_tool) and request.forced_tool not in self._intents
        if is_forced or (self._is_toolless_side and not request.tools):
            return True
        return any(marker in request.system or marker in request.opening for marker in self._side_markers)

    def _turn(self, request: ModelRequest, number: int) -> ScriptReply:
        name, index = self._place_of(request)
        conversation = self._conversations.get(name)
        turn = conversation.turn_at(index) if conversation else None
        is_over = turn is None
        if turn is None:
            turn, index = ScriptTurn(parts=(ScriptText(text=OVER),), usage=_NO_USAGE), max(0, index)
        key = (name, index, request.opening)
        failure = self._next(key, _failures(turn))
        faults = [] if failure and isinstance(failure, StatusFault) else self._hold(key, turn)
        if failure is None:
            self._arrived[name] = index + 1
        id = f"{name}_{index}_{number}"
        return ScriptReply(
            conversation=name,
            turn=index,
            answer=WireAnswer(
                id=id,
                model=request.model,
                parts=tuple(_parts(turn, faults, request, id)),
                tokens=_tokens(turn.usage),
                stop="length" if turn.stop == "length" else "refusal" if turn.stop == "refusal" else None,
            ),
            failure=failure,
            slow=next((fault for fault in faults if isinstance(fault, SlowFault)), None) or self._pause(),
            is_over=is_over,
        )

    def _place_of(self, request: ModelRequest) -> tuple[str, int]:
        if match := _ANSWER_ID.fullmatch(request.previous_id):
            return match[1], int(match[2]) + 1
        texts = f"{request.system}\n{request.opening}"
        conversations = self._conversations.items()
        marked = (name for name, talk in conversations if talk.marker and talk.marker in texts)
        name = next(marked, MAIN)
        conversation = self._conversations.get(name)
        if conversation is not None and conversation.order == "arrival":
            return name, self._arrived.get(name, 0)
        return name, request.answers

    def _pause(self) -> SlowFault | None:
        pause_s = self._script.pause_ms / 1000
        return SlowFault(fault="slow", pause_s=pause_s) if pause_s else None

    def _next(
        self, key: tuple[str, int, str], faults: list[StatusFault | DropFault]
    ) -> StatusFault | DropFault | None:
        """Those that fail come one after the other."""
        met = self._met.get((*key, -1), 0)
        due = 0
        for fault in faults:
            due += 0 if fault.times == "always" else fault.times
            if fault.times == "always" or met < due:
                self._met[*key, -1] = met + 1
                return fault
        self._met.pop((*key, -1), None)
        return None

    def _hold(self, key: tuple[str, int, str], turn: ScriptTurn) -> list[Fault]:
        """Those that change an answer hold all together, each as often as it says."""
        faults: list[Fault] = []
        for number, fault in enumerate(turn.faults):
            if isinstance(fault, StatusFault | DropFault):
                continue
            met = self._met.get((*key, number), 0)
            if fault.times == "always" or met < fault.times:
                self._met[*key, number] = met + 1
                faults.append(fault)
            else:
                del self._met[*key, number]
        return faults


def _failures(turn: ScriptTurn) -> list[StatusFault | DropFault]:
    """The faults that fail a request, and an error of the script itself after them."""
    faults = [fault for fault in turn.faults if isinstance(fault, StatusFault | DropFault)]
    errors = [part.error for part in turn.parts if isinstance(part, ScriptError)]
    return [*faults, *(StatusFault(fault="500", message=error, times="always") for error in errors)]


def _tokens(usage: Usage) -> Tokens:
    """What the script does not say is as `Tokens` has it."""
    names = Tokens.__struct_fields__
    counts = {name: count for name in names if (count := getattr(usage, name)) is not None}
    return Tokens(**counts)


def _folded(text: str) -> str:
    return " ".join(text.split())


def _texts_of(conversations: Iterable[ScriptConversation], side: str) -> set[str]:
    """All texts that this model may have written."""
    texts = [
        part.text
        for conversation in conversations
        for turn in conversation.turns
        for part in turn.parts
        if isinstance(part, ScriptText)
    ]
    return {_folded(text) for text in (*texts, OVER, side, _filler(99)) if text.strip()}


def _parts(turn: ScriptTurn, faults: list[Fault], request: ModelRequest, id: str) -> list[WirePart]:
    is_malformed = any(isinstance(fault, ArgumentsFault) for fault in faults)
    parts: list[WirePart] = []
    for item in turn.parts:
        part = as_offered(item, request.tools) if isinstance(item, Alternatives) else item
        match part:
            case ScriptText():
                parts.append(AnswerText(part.text, part.pieces))
            case ScriptReasoning():
                parts.append(AnswerReasoning(part.reasoning, part.pieces))
            case ScriptToolCall():
                arguments = part.input if part.literal else fill_placeholders(part.input, request.results)
                text = arguments if isinstance(arguments, str) else encode(arguments).decode()
                cut = text[: max(1, len(text) * 2 // 3)] if is_malformed else text
                name = f"{id}_{len(parts)}"
                parts.append(AnswerCall(name, part.tool, arguments, cut, is_malformed, part.namespace))
    parts += [AnswerText(_filler(fault.bytes)) for fault in faults if isinstance(fault, HugeFault)]
    return parts


def _filler(size_bytes: int) -> str:
    line = "x" * 99 + "\n"
    return (line * (size_bytes // 100 + 1))[:size_bytes]


def _harmless(request: ModelRequest, text: str, id: str) -> tuple[WirePart, ...]:
    """The tool that must be called, the JSON that must come, or else a short text."""
    if request.forced_tool:
        sample = record_of(_sample(request.tools.get(request.forced_tool, {}), text))
        return (AnswerCall(id, request.forced_tool, sample, encode(sample).decode()),)
    if request.schema:
        return (AnswerText(encode(_sample(request.schema, text)).decode()),)
    return (AnswerText(text),)


def _sample(schema: JsonObject, text: str, depth: int = 0) -> Any:
    """The smallest value that a JSON schema asks for, as far as such schemas go."""
    if "const" in schema:
        return schema["const"]
    if isinstance(choices := schema.get("enum"), list) and choices:
        return choices[0]
    for name in ("anyOf", "oneOf", "allOf"):
        if options := records(schema.get(name)):
            return _sample(options[0], text, depth + 1)
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) and kind else kind
    match kind.lower() if isinstance(kind, str) else "object":
        case "string":
            return text
        case "integer" | "number":
            return schema.get("minimum", 0)
        case "boolean":
            return False
        case "array":
            count = schema.get("minItems", 0) if depth < _DEEPEST else 0
            return [_sample(record_of(schema.get("items")), text, depth + 1)] * count
        case "null":
            return None
        case _:
            properties = record_of(schema.get("properties")) if depth < _DEEPEST else {}
            required = schema.get("required", list(properties))
            return {
                name: _sample(record_of(properties[name]), text, depth + 1)
                for name in properties
                if name in required
            }
