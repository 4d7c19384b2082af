"""`ask_user`: asks the user a question; the answer is the result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType

from harness.contracts.tool import Tool, ToolContext, ToolFailure, ToolOutput, ToolPermission
from harness.session.builtin.arguments import Arguments, answer_to, described, read

_DESCRIPTION = (
    "Ask the user a question and wait for the answer: when something is unclear, when an assumption should be "
    "confirmed, or when the choice is theirs. With options (2 to 4) they choose, without them they write. "
    "selectionMode says whether one option or several may be chosen."
)
_ELSEWHERE = ("multiSelect", "multiple", "header")
"""Arguments that other agents' tools have besides ours."""
ANSWER_SCHEMA: dict[str, Any] = {
    "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]
}


class Option(Arguments, frozen=True, kw_only=True):
    label: Annotated[str, Meta(description="what is chosen, in a few words")]
    description: Annotated[str, Meta(description="what it means")] | UnsetType = UNSET


class AskUserArguments(Arguments, frozen=True, kw_only=True):
    question: Annotated[str, Meta(min_length=1, description="clear, and answerable on its own")]
    options: Annotated[list[Option], Meta(description="to choose from")] | UnsetType = UNSET
    selection_mode: Literal["single_select", "multi_select"] | UnsetType = UNSET


class AskUserTool(Tool):
    def __init__(self) -> None:
        self.spec = described("ask_user", _DESCRIPTION, AskUserArguments)

    def permission(self, arguments: dict[str, Any]) -> ToolPermission:
        del arguments
        return ToolPermission("ask_user")

    def plain(self, arguments: dict[str, Any], *_: object) -> dict[str, Any]:
        """As other agents' models ask: several questions in a list, options as plain words."""
        questions = arguments.get("questions")
        if not isinstance(questions, list) or "question" in arguments:
            return _plain(arguments)
        plain = [_plain(question) for question in questions if isinstance(question, dict)]
        return plain[0] if len(plain) == 1 else {"questions": plain} if plain else arguments

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        questions = arguments.get("questions")
        if not isinstance(questions, list):
            return await self._ask(arguments, context)
        answers = [(question.get("question"), await self._ask(question, context)) for question in questions]
        return ToolOutput(text="\n".join(f"{question}\n{answer.text}" for question, answer in answers))

    async def _ask(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        order = read(AskUserArguments, arguments, "ask_user")
        options = [] if isinstance(order.options, UnsetType) else order.options
        if not isinstance(order.selection_mode, UnsetType) and not options:
            raise ToolFailure("Failed to ask user: selectionMode requires options.")
        payload = question_payload(order.question, options, order.selection_mode)
        answer = await answer_to(
            context,
            payload,
            kind="question",
            question=order.question,
            options=[option.label for option in options] or None,
            schema=ANSWER_SCHEMA,
        )
        if answer is UNSET:
            return ToolOutput(text=_readable(payload))
        return ToolOutput(text=f"User answered: {answer_text(answer)}")


def _plain(arguments: dict[str, Any]) -> dict[str, Any]:
    """One question in our own words."""
    plain = dict(arguments)
    if isinstance(options := plain.get("options"), list):
        plain["options"] = [{"label": option} if isinstance(option, str) else option for option in options]
    if plain.get("options") and (plain.get("multiSelect") or plain.get("multiple")) is True:
        plain.setdefault("selectionMode", "multi_select")
    return {name: value for name, value in plain.items() if name not in _ELSEWHERE}


def question_payload(
    question: str, options: Sequence[Option], selection_mode: str | UnsetType = UNSET
) -> dict[str, Any]:
    """The question as shown to the user: one option may be chosen, unless it says that several may be."""
    if not options:
        return {"question": question}
    choices_shown = [
        {"label": option.label}
        if isinstance(option.description, UnsetType)
        else {"label": option.label, "description": option.description}
        for option in options
    ]
    mode = "single_select" if isinstance(selection_mode, UnsetType) else selection_mode
    return {"question": question, "options": choices_shown, "selectionMode": mode}


def answer_text(answer: Any) -> str:
    if isinstance(answer, list | tuple):
        return ", ".join(map(str, answer))
    return "" if answer is None else str(answer)


def _readable(payload: dict[str, Any]) -> str:
    """The question as text, for when the user cannot be asked."""
    lines = [f"[Question for user]: {payload['question']}"]
    if "options" in payload:
        lines.append("Options: " + ", ".join(option["label"] for option in payload["options"]))
        lines.append(f"Selection mode: {payload['selectionMode']}")
    return "\n".join(lines)
