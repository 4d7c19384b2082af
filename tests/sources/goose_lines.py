"""Lines as Goose writes them, and a run that is made of them."""

from __future__ import annotations

from typing import Any

import msgspec

from harness.events import Event
from harness.log.raw import Control, Exit, Output, Start
from harness.sources.agents.goose import AGENT
from harness.sources.pipeline import Pipeline

COMPLETE = {"type": "complete", "total_tokens": 1240, "input_tokens": 1200, "output_tokens": 40}
OWN_ID = "msg_62cf4e55-d583-4a42-a8a2-a38cceae11ec"


def play(
    *lines: Any, exit_code: int = 0, version: str = "1.52.0", stderr: str = "", is_stopped: bool = False
) -> list[Event]:
    pipeline = Pipeline(AGENT.translator())
    events = [*pipeline.feed(Start(at_ms=0, agent="goose", version=version, cwd="/w", prompt="do it"))]
    for line in lines:
        data = line.encode() if isinstance(line, str) else msgspec.json.encode(line)
        events += pipeline.feed(Output(at_ms=1, stream="stdout", data=data + b"\n"))
    if stderr:
        events += pipeline.feed(Output(at_ms=2, stream="stderr", data=stderr.encode()))
    if is_stopped:
        events += pipeline.feed(Control(at_ms=3, action="stop"))
    events += pipeline.feed(Exit(at_ms=4, code=exit_code))
    assert not pipeline.lost
    return events


def message(*blocks: Any, message_id: str | None = "m1", role: str = "assistant") -> dict[str, Any]:
    metadata = {"userVisible": True, "agentVisible": True}
    return {
        "type": "message",
        "message": {"id": message_id, "role": role, "content": list(blocks), "metadata": metadata},
    }


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def call(name: str, call_id: str = "c1", /, **arguments: Any) -> dict[str, Any]:
    value = {"name": name, "arguments": arguments}
    return message({"type": "toolRequest", "id": call_id, "toolCall": {"status": "success", "value": value}})


def answer(output: str = "ok", call_id: str = "c1", **value: Any) -> dict[str, Any]:
    result = {"status": "success", "value": {"content": [text(output)], "isError": False, **value}}
    return message({"type": "toolResponse", "id": call_id, "toolResult": result}, role="user")


def of(kind: type[Event], events: list[Event]) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]
