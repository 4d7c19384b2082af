"""Short ways to write a stream of Codex, and its recordings."""

from __future__ import annotations

from functools import partial
from typing import Any

import agent_runs
import recorded_runs
from harness.events import Event

CASES = [case for case in recorded_runs.CASES if case.agent == "codex"]


run = partial(agent_runs.play, "codex", cwd="", prompt="")


def item(step: str, **fields: Any) -> dict[str, Any]:
    return {"type": f"item.{step}", "item": {"id": "item_0", **fields}}


def completed(**fields: Any) -> dict[str, Any]:
    return item("completed", **fields)


def turn(*records: Any, usage: dict[str, int] | None = None) -> list[Event]:
    """The events of one whole turn, without those of its frame."""
    end = {"type": "turn.completed", **({"usage": usage} if usage else {})}
    return run({"type": "thread.started", "thread_id": "th"}, {"type": "turn.started"}, *records, end)[1:-1]
