"""Lines as Cline writes them, its recordings, and a run that is made of lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from harness.events import Event
from harness.log.raw import Exit, Output, Start
from harness.sources.agents.cline import AGENT
from harness.sources.pipeline import Pipeline
from harness.testing.golden import find_cases

CASES = {
    case.name: case
    for case in find_cases(Path(__file__).parents[1] / "agents")
    if case.agent == "cline" and case.version == "3.0.65"
}
DONE = {"type": "run_result", "finishReason": "completed", "text": "Done."}


def play(*records: Any, stderr: str = "", exit_code: int = 0) -> list[Event]:
    pipeline = Pipeline(AGENT.translator())
    events = [*pipeline.feed(Start(at_ms=0, agent="cline", cwd="/here", prompt="do it"))]
    for record in records:
        data = msgspec.json.encode(record) + b"\n"
        events.extend(pipeline.feed(Output(at_ms=1, stream="stdout", data=data)))
    events.extend(pipeline.feed(Output(at_ms=2, stream="stderr", data=stderr.encode())))
    events.extend(pipeline.feed(Exit(at_ms=3, code=exit_code)))
    assert not pipeline.lost
    return events


def of(kind: type[Event], events: list[Event]) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


def event(type: str, **fields: Any) -> dict[str, Any]:
    return {"type": "agent_event", "event": {"type": type, **fields}}


def hook(name: str, agent_id: str = "main", parent_id: str | None = None) -> dict[str, Any]:
    return {"type": "hook_event", "hookEventName": name, "agentId": agent_id, "parentAgentId": parent_id}


def piece(text: str, whole: str) -> dict[str, Any]:
    return event("content_start", contentType="text", text=text, accumulated=whole)


def said(text: str) -> dict[str, Any]:
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
