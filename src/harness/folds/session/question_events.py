"""What a session asks a person, as an event that answers itself: a call that needs permission, a tool that needs data.

The same object is given to listeners, listed by `session.questions()`, and found again after a restart:

    for question in session.questions():
        if question.type == "tool_approval_required":
            question.approve()
        else:
            question.answer("blue")

One that was read from the wire, or that another process asks, knows no session: it is answered there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal, Protocol, TypeAlias

from msgspec.structs import force_setattr, replace

from harness.errors import UsageError
from harness.folds.session.event import HarnessEvent
from harness.formatting.question_data import PreviewedFile, QuestionedCall, QuestionOption


class QuestionAnswers(Protocol):
    """The session that asks. Each returns whether the answer counted, and raises UsageError for what is none."""

    def decide(self, call_id: str, decision: str, reason: str, option: str) -> bool:
        """Allow or decline a call."""
        ...

    def give(self, call_id: str, data: Any) -> bool:
        """Give a tool the data that it waits for; its run continues by itself."""
        ...


class _Question(HarnessEvent, frozen=True, kw_only=True, dict=True, gc=True):
    """Its session is no field: it is neither on the wire, nor compared, nor shown."""

    tool_call_id: str
    tool_name: str
    args: Any

    @property
    def _session(self) -> QuestionAnswers:
        session: QuestionAnswers | None = self.__dict__.get("_answers")
        if session is None:
            raise UsageError(
                f"this question does not belong to a session of this process: {self.tool_name}",
                hint="answer the object that a listener got, or one of session.questions()",
            )
        return session


class ToolApprovalRequiredEvent(_Question, frozen=True, kw_only=True):
    """A tool call waits for permission: `approve()` or `decline(…)` it."""

    type: ClassVar[Literal["tool_approval_required"]] = "tool_approval_required"
    options: list[QuestionOption] | None = None
    """The possible answers, each `{id, kind, label, grants}`. Only what a label says is ever granted."""
    category: str | None = None
    preview: list[PreviewedFile] | None = None
    """The changes to files, each `{path, change, added, removed, diff, hiddenLines}`."""
    calls: list[QuestionedCall] | None = None
    """Where one answer is for several calls: all of them, each `{toolName, input, category, why}`."""
    agent_type: str | None = None
    """The sub-agent that asks."""
    parent_tool_call_id: str | None = None
    """The call that started the sub-agent."""

    def approve(self, *, always: bool = False, option: str = "", reason: str = "") -> bool:
        """Allow the call.

        Args:
            always: Also grant what the first `allow-always` option says.
            option: The id of another option that is offered.
            reason: Shown to the model.

        Returns:
            False when the call does not wait any more: the first answer counts.

        Raises:
            UsageError: For an option that is not offered, and for a question of another process.

        """
        decision = "always_allow" if always and not option else "approve"
        return self._session.decide(self.tool_call_id, decision, reason, option)

    def decline(self, reason: str = "") -> bool:
        """Refuse the call; the model is told the reason. Returns and raises as `approve` does."""
        return self._session.decide(self.tool_call_id, "decline", reason, "")


class ToolSuspendedEvent(_Question, frozen=True, kw_only=True):
    """A tool waits for data: the answer to a question, the review of a plan, or what a tool of yours needs."""

    type: ClassVar[Literal["tool_suspended"]] = "tool_suspended"
    suspend_payload: Any
    resume_schema: Any = None
    agent_type: str | None = None
    parent_tool_call_id: str | None = None

    @property
    def question(self) -> str:
        """The words of the question, or the title of the plan; empty if the payload has neither."""
        return self._text("question") or self._text("title")

    @property
    def plan(self) -> str:
        """The text of the plan that waits for a review; empty for everything else."""
        return self._text("plan")

    @property
    def choices(self) -> list[str]:
        """What may be chosen, in order; empty where the answer is free."""
        options = self.suspend_payload.get("options") if isinstance(self.suspend_payload, Mapping) else None
        labels = [
            option.get("label") if isinstance(option, Mapping) else option
            for option in (options if isinstance(options, list) else ())
        ]
        return [str(label) for label in labels if label is not None]

    def answer(self, data: Any) -> bool:
        """Give the answer; the run continues by itself, and `wait_until_idle` waits for its end.

        `data` is what `resume_schema` describes: for a question a text or, where several may be chosen, a list of
        texts; for a plan `{"action": "approved"}` or `{"action": "rejected", "feedback": "…"}`.

        Returns False when the tool does not wait any more: the first answer counts. Raises UsageError for data that
        does not answer it, which then still waits, and for a question of another process.
        """
        return self._session.give(self.tool_call_id, data)

    def approve(self) -> bool:
        """Approve the plan, as `answer` does; the session enters the mode that follows."""
        return self.answer({"action": "approved"})

    def reject(self, feedback: str = "") -> bool:
        """Send the plan back, with what should change, as `answer` does."""
        return self.answer({"action": "rejected", **({"feedback": feedback} if feedback else {})})

    def _text(self, key: str) -> str:
        payload = self.suspend_payload
        value = payload.get(key) if isinstance(payload, Mapping) else None
        return value if isinstance(value, str) else ""


Question: TypeAlias = ToolApprovalRequiredEvent | ToolSuspendedEvent
"""Whatever waits for a person."""

QUESTIONS = (ToolApprovalRequiredEvent, ToolSuspendedEvent)


def bind(question: Question, session: QuestionAnswers) -> Question:
    """Let the question be answered through that session."""
    force_setattr(question, "_answers", session)
    return question


def bound_again(question: Question, around: Callable[[QuestionAnswers], QuestionAnswers]) -> Question:
    """The same question, answered through what `around` makes of its session; the one that listeners have stays."""
    session: QuestionAnswers | None = question.__dict__.get("_answers")
    return question if session is None else bind(replace(question), around(session))
