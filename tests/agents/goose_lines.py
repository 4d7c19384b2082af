"""Lines as Goose writes them, and a run that is made of them."""

from __future__ import annotations

from functools import partial
from typing import Any

import agent_runs

play = partial(agent_runs.play, "goose", cwd="/w", version="1.52.0")
COMPLETE = {"type": "complete", "total_tokens": 1240, "input_tokens": 1200, "output_tokens": 40}
OWN_ID = "msg_62cf4e55-d583-4a42-a8a2-a38cceae11ec"


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
