"""Makes agent-like output to measure with: mostly small deltas, some tool calls, a few large results."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

_SOURCES = sorted((Path(__file__).parents[1] / "src").rglob("*.py"))


def claude_lines(count: int) -> Iterator[str]:
    """What agents write most: code and prose about it, here this package's own."""
    chance = random.Random(11)
    library = "\n".join(path.read_text() for path in _SOURCES)

    def text(size: int) -> str:
        start = chance.randrange(len(library) - size)
        return library[start : start + size]

    def identity(prefix: str) -> str:
        return f"{prefix}_{chance.getrandbits(90):024x}"

    session = "7f19c0de-0000-4000-8000-0123456789ab"
    open_calls: list[str] = []
    for _ in range(count):
        kind = chance.random()
        shared = {"session_id": session, "parent_tool_use_id": None, "uuid": identity("u")}
        if kind < 0.90:
            delta = {"type": "text_delta", "text": text(chance.randint(5, 500))}
            event = {"type": "content_block_delta", "index": 1, "delta": delta}
            yield _line({"type": "stream_event", "event": event, **shared})
        elif kind < 0.95:
            open_calls.append(identity("toolu"))
            command = {"command": f"rg -n word{chance.randrange(9999)} src/", "description": text(60)}
            block = {"type": "tool_use", "id": open_calls[-1], "name": "Bash", "input": command}
            usage = {"input_tokens": 9, "cache_read_input_tokens": 15000, "output_tokens": 1}
            message = {
                "id": identity("msg"),
                "role": "assistant",
                "model": "m",
                "content": [block],
                "usage": usage,
            }
            yield _line({"type": "assistant", "message": message, **shared})
        else:
            call = open_calls.pop(0) if open_calls else identity("toolu")
            output = text(50_000 if kind > 0.99 else chance.randint(100, 4000))
            block = {"tool_use_id": call, "type": "tool_result", "content": output, "is_error": False}
            result = (
                {}
                if kind > 0.99
                else {"tool_use_result": {"stdout": output, "stderr": "", "interrupted": False}}
            )
            yield _line({"type": "user", "message": {"role": "user", "content": [block]}, **shared, **result})
    yield _line(
        {"type": "result", "subtype": "success", "is_error": False, "result": "done", "session_id": session}
    )


def _line(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n"


def write_recording(folder: Path, lines: Iterator[str], agent: str = "claude") -> Path:
    """A recording that the replay agent can play."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "stdout.jsonl"
    with path.open("w", encoding="utf-8") as file:
        file.writelines(lines)
    (folder / "meta.json").write_text(json.dumps({"agent": agent, "prompt": "measure", "exit_code": 0}))
    return path
