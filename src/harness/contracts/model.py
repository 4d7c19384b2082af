"""What a loop knows of a model: one call in, events out.

Rules
1. `answer` makes one model call and yields its events in order: `TextDelta`, `ReasoningDelta`,
   `ToolInputDelta` as they come; `Warning` (code `retry`) for each new try, after a `TextRetracted` for
   what the one before had said, under ids that do not come again; then one `Message` (role
   assistant: the text, the calls among its `parts`, what must be sent back in `opaque`), one
   `UsageDelta` where the provider states usage, and one `StepEnd`, last.
2. A failure of the far side is an `Error` with the provider's own message and code, followed by
   `StepEnd(stop_reason="error")`; there is then no `Message`. It is never an exception.
3. Closing the iterator closes the connection.
4. A call whose arguments are not a JSON object has the input
   `{"__toolParseError": true, "parseError": …, "rawArguments": …}`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, Protocol, TypeAlias

import msgspec

from harness.events import Event


class Call(msgspec.Struct, frozen=True, tag_field="type", tag="tool_call"):
    """A tool call that the model asks for."""

    id: str
    name: str
    input: Any


class Attachment(msgspec.Struct, frozen=True, tag_field="type", tag="file"):
    """An image or a document."""

    media_type: str
    data: str
    """Base64."""
    name: str = ""


class SystemTurn(msgspec.Struct, frozen=True, tag_field="role", tag="system"):
    """Instructions that precede the conversation."""

    text: str


class UserTurn(msgspec.Struct, frozen=True, tag_field="role", tag="user"):
    """What the user said, with images and documents."""

    text: str
    attachments: tuple[Attachment, ...] = ()


class AssistantTurn(msgspec.Struct, frozen=True, tag_field="role", tag="assistant"):
    """What the model answered: text and tool calls."""

    text: str
    calls: tuple[Call, ...] = ()
    opaque: Any = None
    """Reasoning signatures and the like: sent back as they came, to the provider that made them."""


class ToolTurn(msgspec.Struct, frozen=True, tag_field="role", tag="tool"):
    """The result of one tool call, as the model reads it."""

    call_id: str
    text: str
    is_error: bool = False
    attachments: tuple[Attachment, ...] = ()


Turn: TypeAlias = SystemTurn | UserTurn | AssistantTurn | ToolTurn


class ToolSpec(msgspec.Struct, frozen=True):
    """The description of a tool that a model gets."""

    name: str
    description: str
    schema: dict[str, Any]
    """JSON Schema of its arguments, an object."""


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """One request to a model: the conversation so far, the tools it may call, and how to answer."""

    turns: Sequence[Turn]
    tools: Sequence[ToolSpec] = ()
    max_output_tokens: int | None = None
    temperature: float | None = None
    effort: str = ""
    """How much to reason: low, medium, high; empty is the provider's default."""
    schema: dict[str, Any] | None = None
    """Answer with JSON of this schema."""
    conversation_id: str = ""
    """The same for every request of a conversation, also after a restart; empty where there is none."""


class Model(Protocol):
    """A language model. Write a class with `name` and `answer` to use your own.

    Contract: the rules at the top of this module. A model may be asked by several runs at once.
    """

    name: str
    """`provider/model`."""

    def answer(self, ask: Ask) -> AsyncIterator[Event]:
        """Make one model call and yield its events as they come; `StepEnd` is the last."""
        ...
