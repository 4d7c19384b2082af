"""The texts a model gets for failed calls, and for outputs that are too long for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from harness.contracts.model import Attachment, Call
from harness.contracts.tool import StaleFile, ToolFailure, ToolOutput
from harness.events import Operation
from harness.models.turn_cache import text_of, titled_text, true_media_type

MOST_ATTACHED_CHARACTERS = 20_000_000
"""Of base64, for all attachments of a call: they are in the log, and in every later request to the model."""
MOST_RESULT_BYTES = 1_000_000
_PARSE_ERROR = "__toolParseError"


def bounded(output: ToolOutput, most_characters: int) -> tuple[str, tuple[Attachment, ...]]:
    """What the model and the log get of an output: its text, and the attachments that are not text.

    A text file is added to the text, as every model gets it in the end: so it is shortened and masked with
    it. A file that is not of its stated type is left out: every model API would refuse the whole conversation
    for it.
    """
    if not output.attachments:
        return shortened(output.text, most_characters), ()
    texts, attachments, room_left = [output.text], [], MOST_ATTACHED_CHARACTERS
    for attachment in output.attachments:
        text, media_type = text_of(attachment), true_media_type(attachment)
        name = attachment.name or attachment.media_type
        if text is not None:
            texts.append(titled_text(attachment, text))
        elif not media_type:
            texts.append(f"[{name}: what is in it is not {attachment.media_type}]")
        elif len(attachment.data) > room_left:
            texts.append(f"[{name}: {len(attachment.data) * 3 / 4e6:.1f} MB, too large to be shown]")
        else:
            room_left -= len(attachment.data)
            attachments.append(replace(attachment, media_type=media_type))
    return shortened("\n".join(filter(None, texts)), most_characters), tuple(attachments)


def data_of(result: Any) -> Any:
    """A result as the plain data that a log can hold; None for what is none, or too much."""
    if result is None:
        return None
    try:
        data = msgspec.json.encode(result)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return None
    return msgspec.json.decode(data) if len(data) <= MOST_RESULT_BYTES else None


def shortened(text: str, most_characters: int) -> str:
    """A text that a model can still read: beginning and end, and how much is missing between them."""
    if len(text) <= most_characters:
        return text
    half = most_characters // 2
    return f"{text[:half]}\n… [{len(text) - 2 * half} characters left out] …\n{text[-half:]}"


def problem_of(call: Call) -> str:
    arguments = call.input
    if not isinstance(arguments, dict):
        return (
            f"Tool call had malformed arguments. Parse error: not a JSON object. Raw arguments: {arguments}"
        )
    if arguments.get(_PARSE_ERROR):
        error, raw = arguments.get("parseError", ""), arguments.get("rawArguments", "")
        return f"Tool call had malformed arguments. Parse error: {error}. Raw arguments: {raw}"
    return ""


SAID_NO = "the user said no"
"""Why, where they have given no reason."""


def denied(reason: str) -> ToolOutput:
    """What a refused call gives, unless the options give another text."""
    text = msgspec.json.encode({"status": "denied", "reason": reason}).decode()
    return ToolOutput(text=text, success=False)


def without_effect(refusal: ToolOutput, operations: Sequence[Operation]) -> ToolOutput:
    """Also where a refusal is no failure, nothing of what was to be done has been done."""
    if not (refusal.success and operations):
        return refusal
    return replace(refusal, operations=[replace(operation, success=False) for operation in operations])


def happening(output: ToolOutput) -> list[Operation]:
    """What a call has done, as far as it says so itself."""
    return [operation for operation in output.operations or () if operation.success is not False]


def failure_words(error: BaseException) -> str:
    text = str(error)
    if isinstance(error, ToolFailure | StaleFile) and text:
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
