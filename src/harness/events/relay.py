"""A run stops and asks somebody; one event asks, one answers, whoever asked and however it is answered."""

from __future__ import annotations

from typing import Any, Literal

from harness.events.envelope import Event


class Relay(Event, frozen=True, kw_only=True):
    """The run waits for an answer: may it call a tool, what does the person want, is the plan good."""

    id: str
    kind: Literal["permission", "question", "plan", "tool"] = "permission"
    """`tool`: a tool of somebody else's waits for something that only its `payload` tells."""
    call_id: str = ""
    tool_name: str = ""
    input: Any = None
    question: str = ""
    options: list[str] | None = None
    payload: Any = None
    """What a tool that waits wants shown, as it gave it."""
    resume_schema: Any = None
    """JSON Schema of the answer, where the tool says."""


class RelayReply(Event, frozen=True, kw_only=True):
    """The answer; the first one counts."""

    id: str
    """That of the `Relay`."""
    approved: bool
    always: bool = False
    """From now on the same is allowed without asking."""
    answer: Any = None
    reason: str = ""
    by: Literal["person", "policy", "timeout"] = "person"
