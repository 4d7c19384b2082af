"""A conversation in the records of a Claude Code session, which Goose can import too.

Calls of one answer have one message id: with several, Claude Code replaces results and says nothing.
"""

from __future__ import annotations

from typing import Any

from harness.contracts.conversation import HandedAnswer, HandedConversation, HandedPrompt
from harness.contracts.own_tools import ToolTable
from harness.contracts.writer import HandoverPlace, SessionText, iso

_MODEL = "claude-opus-4-5"
"""Named in answers that no model of Anthropic gave; a resumed session uses its own."""
_NOTHING_USED = {"input_tokens": 0, "output_tokens": 0}


def claude_records(
    conversation: HandedConversation, place: HandoverPlace, agent: str, tools: ToolTable
) -> list[dict[str, Any]]:
    """The lines of a session file. Goose imports them too, and then has its own tools in them."""
    text = SessionText(conversation, place, agent, tools)
    lines: list[dict[str, Any]] = []

    def add(kind: str, at_ms: int, message: dict[str, Any]) -> None:
        lines.append(
            {
                "parentUuid": lines[-1]["uuid"] if lines else None,
                "isSidechain": False,
                "userType": "external",
                "cwd": place.cwd,
                "sessionId": place.session_id,
                "version": place.version,
                "type": kind,
                "message": message,
                "uuid": text.ids.uuid(),
                "timestamp": iso(at_ms),
            }
        )

    for turn in conversation.turns:
        if isinstance(turn, HandedPrompt):
            add("user", turn.at_ms, {"role": "user", "content": turn.text})
        else:
            _add_answer(turn, text, add)
    return lines


def _add_answer(turn: HandedAnswer, text: SessionText, add: Any) -> None:
    message = {"id": text.ids.named("msg_"), "type": "message", "role": "assistant", "model": _MODEL}
    calls = text.calls(turn, lambda: text.ids.named("toolu_"))
    blocks: list[tuple[int, dict[str, Any]]] = []
    if turn.text:
        blocks.append((turn.at_ms, {"type": "text", "text": turn.text}))
    blocks += [
        (call.handed.at_ms, {"type": "tool_use", "id": call.id, "name": call.name, "input": call.input})
        for call in calls
    ]
    reason = "tool_use" if calls else "end_turn"
    for at_ms, block in blocks:
        add(
            "assistant", at_ms, {**message, "content": [block], "stop_reason": reason, "usage": _NOTHING_USED}
        )
    for call in calls:
        result: dict[str, Any] = {
            "type": "tool_result",
            "tool_use_id": call.id,
            "content": call.handed.output,
        }
        result["is_error"] = call.handed.has_failed
        add("user", call.handed.ended_ms, {"role": "user", "content": [result]})
