"""A graph as the messages to send to a model to continue from there. Branches are left out."""

from __future__ import annotations

from typing import Any

import msgspec

from harness.views.conversation.graph import Graph
from harness.views.conversation.thread import (
    CallContent,
    ReplContent,
    TextContent,
    UserContent,
    project_thread,
)
from harness.views.formatting.json_text import compact
from harness.views.run_events.events import context_of


def project_messages(graph: Graph) -> list[dict[str, Any]]:
    """Each with a `role`: user, assistant (with `tool_calls` where there are any), or tool."""
    messages: list[dict[str, Any]] = []
    turn = _Turn()
    for view in project_thread(graph):
        content = view.content
        if isinstance(content, UserContent):
            messages += turn.take()
            messages.append({"role": "user", "content": content.content})
        elif isinstance(content, TextContent):
            if turn.calls:
                messages += turn.take()
            turn.texts.append(content.text)
        elif isinstance(content, CallContent):
            turn.add_call(view.id, content)
        elif isinstance(content, ReplContent):
            messages += turn.take()  # what the model says next follows these results
    return [*messages, *turn.take()]


class _Turn:
    """One answer of a model, and the results of its calls."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.calls: list[dict[str, Any]] = []
        self.outputs: list[dict[str, Any]] = []

    def add_call(self, call_id: str, call: CallContent) -> None:
        self.calls.append({"id": call_id, "name": call.name, "arguments": call.input})
        if call.output is not msgspec.UNSET:
            self.outputs.append({"role": "tool", "tool_call_id": call_id, "content": _for_model(call.output)})

    def take(self) -> list[dict[str, Any]]:
        message: dict[str, Any] = {"role": "assistant", "content": "".join(self.texts) or None}
        if self.calls:
            message["tool_calls"] = self.calls
        taken = [message, *self.outputs] if self.texts or self.calls else []
        self.texts, self.calls, self.outputs = [], [], []
        return taken


def _for_model(output: Any) -> str:
    output = context_of(output)
    return output if isinstance(output, str) else compact(output)
