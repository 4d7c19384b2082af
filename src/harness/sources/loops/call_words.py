"""What a model is told of calls that went wrong, and of outputs that are too long for it."""

from __future__ import annotations

import msgspec

from harness.sources.model import Call
from harness.sources.tool import StaleFile, ToolFailure, ToolOutput

_PARSE_ERROR = "__toolParseError"


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


def denied(reason: str) -> ToolOutput:
    """What a refused call gives, unless the options say it in other words."""
    text = msgspec.json.encode({"status": "denied", "reason": reason}).decode()
    return ToolOutput(text=text, success=False)


def failure_words(error: BaseException) -> str:
    text = str(error)
    if isinstance(error, ToolFailure | StaleFile) and text:
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
