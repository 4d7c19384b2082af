"""Logs of agents of our own, as their loops write them."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from harness.events import (
    Event,
    Message,
    Relay,
    RelayReply,
    Result,
    SessionStart,
    StepEnd,
    StepStart,
    TextDelta,
    ToolEnd,
    ToolInputDelta,
    ToolStart,
    Usage,
    UsageDelta,
)

RUN = "run"


def of(run_id: str, *events: Event) -> list[Event]:
    return [replace(event, run_id=run_id) for event in events]


def begin(prompt: str, *, parent_id: str = "") -> list[Event]:
    start = SessionStart(agent="native", model="scripted/one", cwd="/w", parent_id=parent_id)
    return [start, Message(role="user", text=prompt)]


def step(
    number: int, *texts: str, calls: dict[str, Any] | None = None, usage: Usage | None = None
) -> list[Event]:
    """One call of a model: `calls` are its requests, raw id → arguments, all of `bash`."""
    calls = calls or {}
    parts = [{"type": "tool_call", "id": raw, "name": "bash", "input": given} for raw, given in calls.items()]
    stream = f"t{number}"
    return [
        StepStart(id=f"step-{number}", model="one"),
        *(TextDelta(id=stream, text=text) for text in texts),
        *(ToolInputDelta(call_id=raw, text="{}", tool_name="bash") for raw in calls),
        Message(role="assistant", id=stream, text="".join(texts), parts=parts or None),
        UsageDelta(usage=usage or Usage(input=10 * number, output=number)),
        StepEnd(id=f"step-{number}", stop_reason="tool_calls" if calls else "end"),
    ]


def asked(raw: str, arguments: Any) -> Relay:
    return Relay(id=f"ask-{raw}", call_id=f"{RUN}/{raw}", tool_name="bash", input=arguments)


def allowed(raw: str) -> RelayReply:
    return RelayReply(id=f"ask-{raw}", approved=True)


def started(raw: str, arguments: Any) -> ToolStart:
    return ToolStart(call_id=f"{RUN}/{raw}", tool_name="bash", input=arguments)


def ended(raw: str, output: str, **fields: Any) -> ToolEnd:
    return ToolEnd(
        **{"call_id": f"{RUN}/{raw}", "tool_name": "bash", "success": True, "output": output, **fields}
    )


def result(text: str = "", **fields: Any) -> Result:
    return Result(**{"success": True, "text": text, "turns": 2, "usage": Usage(input=30, output=3), **fields})


LS = {"command": "ls"}
SINGLE_CALL = of(
    RUN,
    *begin("What is here?"),
    *step(1, "Let me ", "look.", calls={"tc-1": LS}),
    asked("tc-1", LS),
    allowed("tc-1"),
    started("tc-1", LS),
    ended("tc-1", "a.py\n", exit_code=0),
    *step(2, "One file."),
    result("One file."),
)
CONCURRENT_CALLS = of(
    RUN,
    *begin("What is here?"),
    *step(1, "Two looks.", calls={"tc-1": LS, "tc-2": {"command": "pwd"}}),
    asked("tc-1", LS),
    allowed("tc-1"),
    asked("tc-2", {"command": "pwd"}),
    allowed("tc-2"),
    started("tc-1", LS),
    started("tc-2", {"command": "pwd"}),
    ended("tc-2", "/w\n"),
    ended("tc-1", "a.py\n"),
    *step(2, "Done."),
    result("Done."),
)
