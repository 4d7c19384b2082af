"""OpenAI Responses: `POST …/responses`, without anything kept on the other side.

The surprising things: an answer is a list of items, and the reasoning behind a call must come back,
encrypted, right before the call; fields for models that reason are errors for those that do not.
"""

from __future__ import annotations

import os
import re
from typing import Any

from harness.sources.model import (
    Ask,
    AssistantTurn,
    Attachment,
    SystemTurn,
    ToolSpec,
    ToolTurn,
    Turn,
    UserTurn,
)
from harness.sources.models.answer import MadeCall, ModelAnswer, SaidText, in_order
from harness.sources.models.http import ModelEndpoint, Prepared
from harness.sources.models.responses_stream import ResponsesReader
from harness.sources.models.turn_cache import (
    EncodedOnce,
    arguments_of,
    cannot_show,
    data_url,
    encode,
    fitting_id,
    fitting_name,
    ids_in,
    schema_format,
    split_system,
    text_of,
    titled_text,
)

_REASONS = re.compile(r"(o\d|gpt-[5-9]|gpt-\d\d|codex)")
"""Models that reason, by the beginning of their names."""

_CALL_ID = r"[!-~]{1,64}"


class Responses:
    def __init__(self, endpoint: ModelEndpoint) -> None:
        self._endpoint = endpoint
        self._does_reason = _REASONS.match(endpoint.model.rpartition("/")[2]) is not None
        self._cache_key = f"harness-{os.urandom(8).hex()}"
        self._turns = EncodedOnce[Turn, bytes](self._turn)
        self._tools = EncodedOnce[ToolSpec, bytes](_tool)

    def url(self) -> str:
        return f"{self._endpoint.url}/responses"

    def headers(self) -> dict[str, str]:
        return self._endpoint.bearer_headers

    def prepare(self, ask: Ask) -> Prepared:
        system, turns = split_system(ask.turns)
        fields = self._options(ask)
        if system:
            fields["instructions"] = system
        items = b",".join(filter(None, self._turns.all(turns)))
        body = [encode(fields)[:-1], b',"input":[', items, b"]"]
        if ask.tools:
            body.append(b',"tools":[%b]' % b",".join(self._tools.all(ask.tools)))
        body.append(b"}")
        return Prepared(b"".join(body), lambda: ids_in(turns))

    def reader(self, answer: ModelAnswer) -> ResponsesReader:
        return ResponsesReader(answer)

    def _options(self, ask: Ask) -> dict[str, Any]:
        fields: dict[str, Any] = {
            "model": self._endpoint.model,
            "stream": True,
            "store": False,
            "prompt_cache_key": self._cache_key,
        }
        if self._does_reason:
            fields["include"] = ["reasoning.encrypted_content"]
        if ask.effort:
            fields["reasoning"] = {"effort": ask.effort, "summary": "auto"}
        if ask.max_output_tokens is not None:
            fields["max_output_tokens"] = ask.max_output_tokens
        if ask.temperature is not None:
            fields["temperature"] = ask.temperature
        if ask.schema is not None:
            fields["text"] = {"format": {"type": "json_schema", **schema_format(ask.schema)}}
        return fields

    def _turn(self, turn: Turn) -> bytes:
        match turn:
            case SystemTurn():
                return encode({"role": "developer", "content": turn.text})
            case UserTurn():
                parts = [*map(_attachment, turn.attachments), *([_text(turn.text)] if turn.text else [])]
                return encode({"role": "user", "content": parts if turn.attachments else turn.text})
            case ToolTurn():
                return encode(_result(turn))
            case AssistantTurn():
                items = [encode(_answered(part)) for part in in_order(turn, self._endpoint.name)]
                return b",".join(items)


def _answered(part: Any) -> Any:
    match part:
        case SaidText(text=text, extras=extras):
            content = [{"type": "output_text", "text": text, "annotations": []}]
            return {"type": "message", "role": "assistant", "content": content, **extras}
        case MadeCall(call=call, extras=extras):
            arguments = encode(arguments_of(call)).decode()
            item = {"type": "function_call", "call_id": fitting_id(call.id, _CALL_ID)}
            item["name"] = fitting_name(call)
            return {**item, "arguments": arguments, **extras}
        case _:
            return part.value


def _result(turn: ToolTurn) -> dict[str, Any]:
    output: Any = turn.text
    if turn.attachments:
        output = [*([_text(turn.text)] if turn.text else []), *map(_attachment, turn.attachments)]
    call_id = fitting_id(turn.call_id, _CALL_ID)
    return {"type": "function_call_output", "call_id": call_id, "output": output}


def _tool(tool: ToolSpec) -> bytes:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.schema}
    # Unless told, this API holds every schema to its strict rules, which few tools obey.
    return encode({"type": "function", **function, "strict": False})


def _text(text: str) -> dict[str, Any]:
    return {"type": "input_text", "text": text}


def _attachment(attachment: Attachment) -> dict[str, Any]:
    kind = attachment.media_type
    if kind.startswith("image/"):
        return {"type": "input_image", "image_url": data_url(attachment)}
    if kind == "application/pdf":
        name = attachment.name or "document.pdf"
        return {"type": "input_file", "filename": name, "file_data": data_url(attachment)}
    text = text_of(attachment)
    return _text(cannot_show(attachment) if text is None else titled_text(attachment, text))
