"""The `result` line of Claude's stream-json: how a turn ended.

Neither of its flags can be trusted alone: an API error is `success` with `is_error`, and older
versions call a run that hit a limit no error. A turn succeeded only if both say so.
"""

from __future__ import annotations

from typing import Any

from harness.events import Error, Outcome
from harness.sources.formats.fields import items_of, record_of, text_of

_LIMITS = {
    "error_max_turns": ("max_turns", "the agent reached its maximum number of turns"),
    "max_turns": ("max_turns", "the agent reached its maximum number of turns"),
    "error_max_budget_usd": ("max_budget", "the agent reached its maximum budget"),
    "budget_exhausted": ("max_budget", "the agent reached its maximum budget"),
}


_CUT_ANSWERS = {
    "max_tokens": "the answer was cut off: the model reached its output limit",
    "model_context_window_exceeded": "the answer was cut off: the model's context was full",
    "refusal": "the model refused to answer",
}
"""Why a model stopped that did not come to its end."""


def outcome_of(record: dict[str, Any], *, is_interrupted: bool) -> Outcome:
    """`is_interrupted`: the turn was seen to be stopped, which older versions do not repeat here."""
    subtype, reason = text_of(record.get("subtype")), text_of(record.get("terminal_reason"))
    if record.get("is_error") is not True and subtype in ("success", ""):
        return "failed" if text_of(record.get("stop_reason")) in _CUT_ANSWERS else "completed"
    if subtype in _LIMITS or reason in _LIMITS:
        return "limit_exceeded"
    if reason.startswith("aborted") or (is_interrupted and not reason):
        return "interrupted"
    return "failed"


def error_of(record: dict[str, Any], outcome: Outcome) -> Error | None:
    """The error that a failed turn ends with; an interruption is none."""
    if outcome not in ("failed", "limit_exceeded"):
        return None
    subtype, reason = text_of(record.get("subtype")), text_of(record.get("terminal_reason"))
    code, default = _LIMITS.get(subtype) or _LIMITS.get(reason) or ("", "")
    if not code and (stop := text_of(record.get("stop_reason"))) in _CUT_ANSWERS:
        return Error(message=_CUT_ANSWERS[stop], code=stop)
    if not code:
        code = reason or (subtype if subtype != "success" else "") or "error"
        default = f"the agent ended with {code}"
    message = "\n".join(text for text in items_of(record.get("errors")) if isinstance(text, str) and text)
    message = (
        message or text_of(record_of(record.get("error")).get("message")) or text_of(record.get("error"))
    )
    return Error(message=message or text_of(record.get("result")) or default, code=code)


def stop_reason_of(record: dict[str, Any]) -> str:
    reason = text_of(record.get("terminal_reason"))
    if reason not in ("", "completed"):
        return reason
    stop, subtype = text_of(record.get("stop_reason")), text_of(record.get("subtype"))
    return stop or (subtype if subtype != "success" else "")
