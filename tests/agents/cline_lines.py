"""Lines as Cline writes them, its recordings, and a run that is made of lines."""

from __future__ import annotations

from functools import partial
from typing import Any

import agent_runs
import recorded_runs

play = partial(agent_runs.play, "cline", cwd="/here")
CASES = {
    case.name: case for case in recorded_runs.CASES if case.agent == "cline" and case.version == "3.0.65"
}
DONE = {"type": "run_result", "finishReason": "completed", "text": "Done."}


def event(type: str, **fields: Any) -> dict[str, Any]:
    return {"type": "agent_event", "event": {"type": type, **fields}}


def hook(name: str, agent_id: str = "main", parent_id: str | None = None) -> dict[str, Any]:
    return {"type": "hook_event", "hookEventName": name, "agentId": agent_id, "parentAgentId": parent_id}


def piece(text: str, whole: str) -> dict[str, Any]:
    return event("content_start", contentType="text", text=text, accumulated=whole)


def text_end(text: str) -> dict[str, Any]:
    return event("content_end", contentType="text", text=text)


def begin(name: str, call_id: str = "c1", /, **input: Any) -> dict[str, Any]:
    return event("content_start", contentType="tool", toolName=name, toolCallId=call_id, input=input)


def end(output: Any, call_id: str = "c1", **more: Any) -> dict[str, Any]:
    return event("content_end", contentType="tool", toolCallId=call_id, output=output, **more)


def used(total_input: int, total_output: int) -> dict[str, Any]:
    return event(
        "usage",
        inputTokens=100,
        outputTokens=20,
        totalInputTokens=total_input,
        totalOutputTokens=total_output,
    )
