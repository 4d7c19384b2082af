"""A run stops and asks a person: `Relay` is the question or approval request, `RelayReply` the answer."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from harness.events.envelope import Event


class Grant(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Calls that are allowed from now on: those of a tool whose arguments fit."""

    tool: str = ""
    params: dict[str, str] | None = None
    """Argument → glob; None: whatever the arguments are."""
    closed: bool = False
    """Only calls that have no other arguments than those of `params`."""
    command: str = ""
    """Only this command line; one that ends with ` …`: these words, then `options` and operands."""
    options: list[str] = []
    path: str = ""
    """Only this path; one that ends with a slash: everything below it."""
    server: str = ""
    category: str = ""
    """Every tool of this category, where no tool is named."""


class RelayChoice(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One of the answers to a question for permission, and all that it gives."""

    id: str
    kind: Literal["allow-once", "allow-always", "reject-once"]
    label: str
    """For a button: it says everything that is granted."""
    grants: list[Grant] = []


class RelayCall(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One of the calls that a question for permission stands for."""

    tool: str
    input: Any = None
    category: str = ""
    why: str = ""
    """Why it is asked about."""


class Relay(Event, frozen=True, kw_only=True):
    """The run waits for an answer: may it call this tool (`permission`), what does the person want (`question`), is the
    plan good (`plan`).
    """

    id: str
    kind: Literal["permission", "question", "plan", "tool"] = "permission"
    """`tool`: a tool waits for something that only its `payload` describes."""
    call_id: str = ""
    tool_name: str = ""
    input: Any = None
    question: str = ""
    options: list[str] | None = None
    payload: Any = None
    """What the waiting tool wants shown, as it gave it."""
    resume_schema: Any = None
    """JSON Schema of the answer, where the tool has one."""
    choices: list[RelayChoice] | None = None
    """Of a question for permission: the answers that there are."""
    category: str = ""
    """The tool's category, where the permission rules have one."""
    preview: Any = None
    """What the call would change, if it changes files: a list of `{path, change, added, removed, diff, hidden_lines}`."""
    subagent: str = ""
    """The name of the sub-agent that asks; empty: the agent itself does."""
    spawn_call_id: str = ""
    """The call that started this sub-agent."""
    calls: list[RelayCall] | None = None
    """Of a question for permission: every call that an answer is for. `tool_name` and `input` are those of the first."""
    why: str = ""
    """Of a question for permission: why it is asked about."""


class RelayReply(Event, frozen=True, kw_only=True):
    """The answer; the first one counts."""

    id: str
    """That of the `Relay`."""
    approved: bool
    always: bool = False
    """From now on the same is allowed without asking: what the first choice `allow-always` grants."""
    choice: str = ""
    """The id of the choice that was made, where it is another one."""
    answer: Any = None
    reason: str = ""
    by: Literal["person", "policy", "timeout"] = "person"
