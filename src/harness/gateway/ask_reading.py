"""A request of any API as an `Ask`, which a model of any other API understands. Pure, and total over any JSON.

What has no counterpart is left out and named in `losses`. Tools that another API does not know become functions: those of
free text get one field, those of a namespace its name before theirs. `own_tools` says how a call of theirs goes back.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from harness.contracts.model import (
    Ask,
    AssistantTurn,
    Attachment,
    Call,
    SystemTurn,
    ToolSpec,
    ToolTurn,
    Turn,
    UserTurn,
)
from harness.formats.fields import record_of, text_of
from harness.models.wires.wire import (
    HttpRequest,
    JsonObject,
    SaidItem,
    WireFormat,
    as_text,
    parts_of,
    records,
)

_DATA_URL = re.compile(r"data:([^;,]+);base64,(.*)", re.DOTALL)
_PREFIX = re.compile(r"^(?:toolu_|call_|fc_)")
_UNUSABLE = re.compile(r"[^a-zA-Z0-9_-]")
_LONGEST_NAME = 64
_LONGEST_GRAMMAR = 4000
_LARGEST_LIMIT = 16_000
"""A higher limit of an answer is what a program thinks its own model could write: another one may refuse it."""
_FREE_TEXT = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
_NOT_LOST = frozenset(
    ("max_tokens", "max_completion_tokens", "max_output_tokens", "stream", "output_config", "output_format")
) | {"response_format", "reasoning_effort", "reasoning", "text", "parallel_tool_calls", "generationConfig"}
_USUAL: tuple[Any, ...] = (None, "auto", {}, [], {"type": "auto"}, True)


class ProgramTool(NamedTuple):
    """A tool as the program knows it."""

    name: str
    namespace: str = ""
    is_free_text: bool = False


class AskReading(NamedTuple):
    ask: Ask
    losses: tuple[str, ...]
    """What could not be conversation, in words."""
    own_tools: Mapping[str, ProgramTool]
    """By the name that the model gets."""


def bare_id(call_id: str) -> str:
    """The id of a call without what an API puts before it."""
    return _PREFIX.sub("", call_id)


def read_ask(
    wire: WireFormat, http: HttpRequest, earlier: Callable[[str], tuple[Call, Any] | None]
) -> AskReading:
    """`earlier`: from the id of a call, as the program knows it, to the call and what its model wants back with it."""
    body = http.record
    conversation, request = wire.said(body), wire.read(http)
    reading = _Reading(earlier)
    reading.add_tools(conversation.tools)
    instructions = "\n\n".join(text for text in conversation.system if text)
    turns: list[Turn] = [SystemTurn(instructions)] if instructions else []
    for item in conversation.items:
        reading.take(item)
    losses = {
        name for name, value in conversation.options.items() if name not in _NOT_LOST and value not in _USUAL
    }
    limit = _limit_of(body)
    ask = Ask(
        turns=[*turns, *reading.finish()],
        tools=reading.tools,
        max_output_tokens=limit if limit is not None and limit <= _LARGEST_LIMIT else None,
        effort=_effort_of(body),
        schema=request.schema or None,
    )
    return AskReading(ask, tuple(sorted(reading.losses | losses)), reading.own_tools)


class _Reading:
    def __init__(self, earlier: Callable[[str], tuple[Call, Any] | None]) -> None:
        self.losses: set[str] = set()
        self.tools: list[ToolSpec] = []
        self.own_tools: dict[str, ProgramTool] = {}
        self._earlier = earlier
        self._turns: list[Turn] = []
        self._unnamed: list[str] = []
        """Ids of calls that came without one: their results come in the same order."""
        self._own_ids: dict[str, str] = {}

    def add_tools(self, tools: Mapping[str, Any]) -> None:
        for name, definition in tools.items():
            for tool, namespace in _each(name, record_of(definition)):
                self._add_tool(tool, namespace)

    def _add_tool(self, tool: JsonObject, namespace: str) -> None:
        kind, name = text_of(tool.get("type")), text_of(tool.get("name"))
        function = record_of(tool.get("custom")) or tool
        name = name or text_of(function.get("name"))
        if not name or kind not in ("", "function", "custom"):
            self.losses.add(f"the tool {kind or name or 'without a name'}, which its provider runs")
            return
        public_name = _UNUSABLE.sub("_", f"{namespace}__{name}" if namespace else name)[:_LONGEST_NAME]
        description = text_of(function.get("description"))
        is_free_text = kind == "custom" and "input_schema" not in tool
        schema = record_of(
            tool.get("input_schema") or tool.get("parameters") or tool.get("parametersJsonSchema")
        )
        if is_free_text:
            grammar = text_of(record_of(function.get("format")).get("definition"))[:_LONGEST_GRAMMAR]
            description, schema = f"{description}\n{grammar}".strip(), _FREE_TEXT
        self.own_tools[public_name] = ProgramTool(name, namespace, is_free_text)
        empty = {"type": "object", "properties": {}}
        self.tools.append(ToolSpec(public_name, description, _in_small_letters(schema) or empty))

    def take(self, item: SaidItem) -> None:
        match item.kind:
            case "text" if item.role in ("assistant", "model"):
                self._add_answer(text=as_text(item.value))
            case "text":
                self._add_question(as_text(item.value))
            case "call":
                self._add_answer(call=item)
            case "result":
                self._turns.append(self._result(item))
            case "image":
                file = attachment_of(item.value)
                if file is None:
                    self.losses.add("files that are named by their address")
                else:
                    self._add_question("", (file,))
            case "reasoning":
                pass  # what its model wants back is remembered with its calls
            case _:
                self.losses.add("parts of a kind that no other API has")

    def finish(self) -> list[Turn]:
        return self._turns

    def _add_question(self, text: str, attachments: tuple[Attachment, ...] = ()) -> None:
        last = self._turns[-1] if self._turns else None
        if isinstance(last, UserTurn):
            both = "\n".join(filter(None, (last.text, text)))
            self._turns[-1] = UserTurn(both, (*last.attachments, *attachments))
        else:
            self._turns.append(UserTurn(text, attachments))

    def _add_answer(self, text: str = "", call: SaidItem | None = None) -> None:
        last = self._turns[-1] if self._turns else None
        if not isinstance(last, AssistantTurn):
            last = AssistantTurn("")
            self._turns.append(last)
        opaque, calls = last.opaque, last.calls
        if call is not None:
            own_call, of_model = self._call(call)
            opaque, calls = opaque if opaque is not None else of_model, (*calls, own_call)
        self._turns[-1] = AssistantTurn(last.text + text, calls, opaque)

    def _call(self, item: SaidItem) -> tuple[Call, Any]:
        program_id = item.call_id or f"unnamed-{len(self._own_ids)}"
        if not item.call_id:
            self._unnamed.append(program_id)
        memory = self._earlier(bare_id(program_id))
        public_name = next(
            (public_name for public_name, tool in self.own_tools.items() if tool.name == item.name), item.name
        )
        arguments = item.value if isinstance(item.value, dict) else {"input": as_text(item.value or "")}
        call = Call(memory[0].id if memory else program_id, public_name, arguments)
        self._own_ids[program_id] = call.id
        return call, memory[1] if memory else None

    def _result(self, item: SaidItem) -> ToolTurn:
        program_id = item.call_id
        if program_id not in self._own_ids and self._unnamed:
            program_id = self._unnamed.pop(0)
        texts: list[str] = []
        attachments: list[Attachment] = []
        for part in parts_of(item.value):
            file = _file_in(part)
            if file is not None:
                attachments.append(file)
            else:
                texts.append(_text_in(part))
        own_id = self._own_ids.get(program_id, program_id)
        return ToolTurn(own_id, "\n".join(texts), item.is_error, tuple(attachments))


def _each(name: str, definition: JsonObject) -> Iterator[tuple[JsonObject, str]]:
    """The tools of a definition, each with its namespace."""
    kind = definition.get("type")
    if kind == "namespace":
        yield from ((tool, name) for tool in records(definition.get("tools")))
    elif declarations := records(definition.get("functionDeclarations")):
        yield from ((tool, "") for tool in declarations)
    else:
        yield {"name": name, **definition}, ""


def attachment_of(value: Any) -> Attachment | None:
    """A picture or document, in any of the forms that the APIs have; None for one that is not in the request."""
    if isinstance(value, str):
        match = _DATA_URL.fullmatch(value)
        return Attachment(match[1], match[2]) if match else None
    record = record_of(value)
    if inner := record.get("image_url") or record.get("url") or record.get("file_data"):
        return attachment_of(inner)
    media_type = text_of(record.get("media_type") or record.get("mimeType"))
    data = text_of(record.get("data"))
    return Attachment(media_type, data) if media_type and data else None


def _file_in(part: Any) -> Attachment | None:
    record = record_of(part)
    if text_of(record.get("type")) in ("image", "document"):
        return attachment_of(record.get("source"))
    if "inlineData" in record:
        return attachment_of(record["inlineData"])
    return attachment_of(record) if "image" in text_of(record.get("type")) else None


def _text_in(part: Any) -> str:
    if isinstance(part, dict):
        for name in ("text", "output", "error"):
            if isinstance(part.get(name), str):
                return str(part[name])
    return as_text(part)


def _in_small_letters(schema: Any) -> Any:
    """Gemini writes the types of a schema in capitals."""
    if isinstance(schema, dict):
        return {
            name: value.lower() if name == "type" and isinstance(value, str) else _in_small_letters(value)
            for name, value in schema.items()
        }
    return [_in_small_letters(part) for part in schema] if isinstance(schema, list) else schema


def _limit_of(body: JsonObject) -> int | None:
    names = ("max_completion_tokens", "max_output_tokens", "max_tokens")
    limits = [body.get(name) for name in names] + [
        record_of(body.get("generationConfig")).get("maxOutputTokens")
    ]
    return next(
        (limit for limit in limits if isinstance(limit, int) and not isinstance(limit, bool) and limit > 0),
        None,
    )


def _effort_of(body: JsonObject) -> str:
    efforts = (
        body.get("reasoning_effort"),
        record_of(body.get("reasoning")).get("effort"),
        record_of(body.get("output_config")).get("effort"),
    )
    return next((effort for effort in efforts if effort in ("low", "medium", "high")), "")


def token_estimate(body: bytes) -> int:
    return max(1, len(body) // 4)


def with_count(whole: Any, tokens: int) -> Any:
    """The body of an answer to a count of tokens, with this number in it."""
    return dict.fromkeys(whole, tokens) if isinstance(whole, dict) else msgspec.UNSET
