"""What is told of tool calls and of sub-agents."""

from __future__ import annotations

from typing import Any, Literal

from harness.views.session.event import HarnessEvent


class ToolStart(HarnessEvent, frozen=True, kw_only=True):
    tool_call_id: str
    tool_name: str
    args: Any


class ToolApprovalRequired(HarnessEvent, frozen=True, kw_only=True):
    tool_call_id: str
    tool_name: str
    args: Any
    options: list[dict[str, Any]] | None = None
    """The answers that there are: `{id, kind, label, grants}` each. Only what a label says is ever granted."""
    category: str | None = None
    preview: list[dict[str, Any]] | None = None
    """What would change in files: `{path, change, added, removed, diff, hiddenLines}` each."""
    agent_type: str | None = None
    """The sub-agent that asks."""
    parent_tool_call_id: str | None = None
    """The call that began it."""


class ToolSuspended(HarnessEvent, frozen=True, kw_only=True):
    tool_call_id: str
    tool_name: str
    args: Any
    suspend_payload: Any
    resume_schema: Any = None
    agent_type: str | None = None
    parent_tool_call_id: str | None = None


class ToolSuspensionCancelled(HarnessEvent, frozen=True, kw_only=True):
    tool_call_id: str
    tool_name: str
    reason: str


class ToolUpdate(HarnessEvent, frozen=True, kw_only=True):
    tool_call_id: str
    partial_result: Any


class ToolEnd(HarnessEvent, frozen=True, kw_only=True):
    tool_call_id: str
    result: Any
    is_error: bool
    provider_metadata: dict[str, Any] | None = None
    modified_paths: list[str] | None = None
    """Files that the call wrote, whatever the tool is called."""
    timestamp: int | None = None
    """When it ended, milliseconds since the epoch."""


class ToolInputStart(HarnessEvent, frozen=True, kw_only=True):
    tool_call_id: str
    tool_name: str


class ToolInputDelta(HarnessEvent, frozen=True, kw_only=True):
    tool_call_id: str
    args_text_delta: str
    tool_name: str | None = None


class ToolInputEnd(HarnessEvent, frozen=True, kw_only=True):
    tool_call_id: str


class ShellOutput(HarnessEvent, frozen=True, kw_only=True):
    tool_call_id: str
    output: str
    stream: Literal["stdout", "stderr"]


class CommandExit(HarnessEvent, frozen=True, kw_only=True):
    tool_call_id: str
    exit_code: int
    success: bool


class SubagentStart(HarnessEvent, frozen=True, kw_only=True):
    tool_call_id: str
    agent_type: str
    task: str
    model_id: str
    forked: bool = False


class SubagentTextDelta(HarnessEvent, frozen=True, kw_only=True):
    tool_call_id: str
    agent_type: str
    text_delta: str


class SubagentToolStart(HarnessEvent, frozen=True, kw_only=True):
    tool_call_id: str
    agent_type: str
    sub_tool_name: str
    sub_tool_args: Any


class SubagentToolEnd(HarnessEvent, frozen=True, kw_only=True):
    tool_call_id: str
    agent_type: str
    sub_tool_name: str
    sub_tool_result: Any
    is_error: bool


class SubagentEnd(HarnessEvent, frozen=True, kw_only=True):
    tool_call_id: str
    agent_type: str
    result: str
    is_error: bool
    duration_ms: int


class SubagentModelChanged(HarnessEvent, frozen=True, kw_only=True):
    model_id: str
    scope: str
    agent_type: str | None = None
