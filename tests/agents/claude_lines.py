"""Lines as Claude Code writes them, and a run that is made of them."""

from __future__ import annotations

from typing import Any

import msgspec

from harness.agents.claude.agent import AGENT
from harness.events import Event
from harness.log.raw import RawExit, RawOutput, RawStart
from harness.runs.pipeline import Pipeline

INIT = {
    "type": "system",
    "subtype": "init",
    "session_id": "mock-session",
    "cwd": "/shop",
    "model": "claude-test-1",
    "claude_code_version": "2.1.325",
}
OK = {
    "type": "result",
    "subtype": "success",
    "is_error": False,
    "result": "Done.",
    "num_turns": 1,
    "duration_ms": 5,
}


def play(*lines: Any, exit_code: int = 0, prompt: str = "do it") -> list[Event]:
    """The events of a run that writes these lines: records, or text and bytes as they are."""
    events, _ = play_with_pipeline(*lines, exit_code=exit_code, prompt=prompt)
    return events


def play_with_pipeline(
    *lines: Any, exit_code: int = 0, prompt: str = "do it"
) -> tuple[list[Event], Pipeline]:
    pipeline = Pipeline(AGENT.translator())
    events = [*pipeline.feed(RawStart(at_ms=1000, agent="claude", prompt=prompt))]
    for line in lines:
        data = line if isinstance(line, bytes) else line.encode() if isinstance(line, str) else None
        data = msgspec.json.encode(line) if data is None else data
        events.extend(pipeline.feed(RawOutput(at_ms=2000, stream="stdout", data=data + b"\n")))
    events.extend(pipeline.feed(RawExit(at_ms=3000, code=exit_code)))
    return events, pipeline


def assistant(*blocks: Any, message_id: str = "msg_1", **more: Any) -> dict[str, Any]:
    message = {"id": message_id, "role": "assistant", "model": "claude-test-1", "content": list(blocks)}
    return {"type": "assistant", "message": message, "parent_tool_use_id": None, **more}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def call(name: str, call_id: str = "call_1", /, **input: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": input}


def result_of(
    call_id: str = "call_1", content: Any = "ok", detail: Any = None, **more: Any
) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": call_id, "content": content, **more}
    return user(block, tool_use_result=detail)


def user(*blocks: Any, **more: Any) -> dict[str, Any]:
    message = {"role": "user", "content": list(blocks)}
    return {"type": "user", "message": message, "parent_tool_use_id": None, **more}


def stream(event_type: str, **event: Any) -> dict[str, Any]:
    return {"type": "stream_event", "event": {"type": event_type, **event}, "parent_tool_use_id": None}


def message_start(message_id: str = "msg_1", model: str = "claude-test-1") -> dict[str, Any]:
    usage = {
        "input_tokens": 1200,
        "cache_creation_input_tokens": 300,
        "cache_read_input_tokens": 900,
        "output_tokens": 1,
    }
    return stream("message_start", message={"id": message_id, "model": model, "usage": usage})


def text_piece(words: str, index: int = 0) -> dict[str, Any]:
    return stream("content_block_delta", index=index, delta={"type": "text_delta", "text": words})
