"""What a user interface needs to show a thread, as data. `display` has the rules by which it changes."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from harness.folds.session.messages import Growing, HarnessMessage
from harness.folds.session.usage import NOTHING_USED, TokenUsage
from harness.formatting.question_data import PreviewedFile, QuestionedCall, QuestionOption

Buffering: TypeAlias = Literal["idle", "running", "complete"]


def _wire_name(name: str) -> str:
    """`shell_output_pieces` → shellOutput: storage in pieces is an internal detail."""
    first, *rest = name.removesuffix("_pieces").split("_")
    return first + "".join(word.capitalize() for word in rest)


class _Entry(msgspec.Struct, kw_only=True, rename=_wire_name):
    pass


class ActiveTool(_Entry, kw_only=True):
    """A tool call of the current run, with its output so far."""

    name: str
    args: Any
    status: Literal["streaming_input", "running", "completed", "error"]
    partial_result: str | UnsetType = UNSET
    result: Any = UNSET
    is_error: bool | UnsetType = UNSET
    shell_output_pieces: Growing | UnsetType = UNSET

    @property
    def shell_output(self) -> str:
        """What a command has written so far; empty for other tools."""
        return "" if isinstance(self.shell_output_pieces, UnsetType) else str(self.shell_output_pieces)


class ToolInputBuffer(_Entry, kw_only=True):
    """The arguments of a call while the model still writes them."""

    text_pieces: Growing
    tool_name: str

    @property
    def text(self) -> str:
        """The arguments so far: the beginning of a JSON text."""
        return str(self.text_pieces)


class PendingApproval(_Entry, kw_only=True):
    """A tool call that waits for permission; the fields are those of `ToolApprovalRequired`."""

    tool_call_id: str
    tool_name: str
    args: Any
    options: list[QuestionOption] | UnsetType = UNSET
    category: str | UnsetType = UNSET
    preview: list[PreviewedFile] | UnsetType = UNSET
    calls: list[QuestionedCall] | UnsetType = UNSET
    agent_type: str | UnsetType = UNSET
    parent_tool_call_id: str | UnsetType = UNSET


class PendingSuspension(_Entry, kw_only=True):
    """A tool call that waits for data; the fields are those of `ToolSuspended`."""

    tool_call_id: str
    tool_name: str
    args: Any
    suspend_payload: Any
    resume_schema: Any = UNSET


class SubagentCall(_Entry, kw_only=True):
    """A tool call that a sub-agent has made."""

    name: str
    is_error: bool


class ActiveSubagent(_Entry, kw_only=True):
    """A sub-agent of the current run: its task, its calls, and its text so far."""

    agent_type: str
    display_name: str | UnsetType = UNSET
    task: str
    model_id: str | UnsetType = UNSET
    forked: bool | UnsetType = UNSET
    tool_calls: list[SubagentCall]
    text_delta_pieces: Growing
    status: Literal["running", "completed", "error"]
    duration_ms: int | UnsetType = UNSET
    result: str | UnsetType = UNSET

    @property
    def text_delta(self) -> str:
        """Its text so far."""
        return str(self.text_delta_pieces)


class BufferedObservations(_Entry, kw_only=True):
    """Notes that are prepared but not used yet."""

    status: Buffering = "idle"
    chunks: int = 0
    message_tokens: int = 0
    projected_message_removal: int = 0
    observation_tokens: int = 0


class BufferedReflection(_Entry, kw_only=True):
    """A condensed version of the notes that is prepared but not used yet."""

    status: Buffering = "idle"
    input_observation_tokens: int = 0
    observation_tokens: int = 0


class Buffered(_Entry, kw_only=True):
    """What the memory has prepared in advance."""

    observations: BufferedObservations = msgspec.field(default_factory=BufferedObservations)
    reflection: BufferedReflection = msgspec.field(default_factory=BufferedReflection)


class OmProgress(_Entry, kw_only=True):
    """How full the observational memory is, and what it is doing."""

    status: Literal["idle", "observing", "reflecting"] = "idle"
    pending_tokens: int = 0
    threshold: int | float = 30_000
    threshold_percent: float = 0
    observation_tokens: int = 0
    reflection_threshold: int | float = 40_000
    reflection_threshold_percent: float = 0
    buffered: Buffered = msgspec.field(default_factory=Buffered)
    generation_count: int = 0
    step_number: int = 0
    cycle_id: str | UnsetType = UNSET
    start_time: int | UnsetType = UNSET
    """Milliseconds since the epoch."""
    pre_reflection_tokens: int = 0


class ModifiedFile(_Entry, kw_only=True):
    """A file that the thread has changed, and with which tools."""

    operations: list[str]
    """The names of the tools, in order."""
    first_modified: int
    """Milliseconds since the epoch."""


class TaskItem(_Entry, kw_only=True):
    """One entry of the agent's to-do list."""

    id: str
    content: str
    status: Literal["pending", "in_progress", "completed"]
    active_form: str


class QueuedSteering(_Entry, kw_only=True):
    """A message to the active run that the run has not taken yet."""

    id: str
    text: str


class DisplayState(_Entry, kw_only=True):
    """Every field is always present. Maps are keyed by call id, files by path."""

    is_running: bool = False
    current_message: HarnessMessage | None = None
    queued_follow_ups: int = 0
    queued_steering: list[QueuedSteering] = msgspec.field(default_factory=list)
    token_usage: TokenUsage = NOTHING_USED
    active_tools: dict[str, ActiveTool] = msgspec.field(default_factory=dict)
    tool_input_buffers: dict[str, ToolInputBuffer] = msgspec.field(default_factory=dict)
    pending_approval: PendingApproval | None = None
    pending_suspensions: dict[str, PendingSuspension] = msgspec.field(default_factory=dict)
    active_subagents: dict[str, ActiveSubagent] = msgspec.field(default_factory=dict)
    om_progress: OmProgress = msgspec.field(default_factory=OmProgress)
    buffering_messages: bool = False
    buffering_observations: bool = False
    modified_files: dict[str, ModifiedFile] = msgspec.field(default_factory=dict)
    tasks: list[TaskItem] = msgspec.field(default_factory=list)
    previous_tasks: list[TaskItem] = msgspec.field(default_factory=list)
