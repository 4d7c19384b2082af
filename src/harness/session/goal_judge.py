"""Decides whether a goal is reached: a model is asked after every answer, or a custom scorer is called.

The verdict of a model is JSON (`{"decision": "done" | "continue" | "waiting", "reason": "…"}`), or the same
in tags where it does not follow the schema.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from harness.events import Error, Message
from harness.sources.model import Ask, Model, SystemTurn, UserTurn
from harness.sources.tool import Tool

Decision: TypeAlias = Literal["done", "continue", "waiting"]

SCORES: dict[Decision, float] = {"done": 1.0, "waiting": 0.5, "continue": 0.0}
JUDGE_ID = "goal-scorer"
JUDGE_NAME = "Goal (LLM)"
_MOST_CHARACTERS = 4000
"""Of the user's last message; the judge needs its meaning, not all of it."""

PROMPT = """\
You judge whether an assistant has reached a goal. What you decide is what happens next.

Compare what the goal asks for with what the assistant has really done and said; substance counts, not wording.

- "done": everything that the goal asks for is there.
- "waiting": the goal itself asks for a person's feedback, check or confirmation, or for something else from outside, \
and the assistant has rightly stopped for it; or the user's latest message is a question and the assistant has just \
answered it, so that it is the user's turn. It stays "waiting" until what is waited for has really come.
- "continue": neither of these. The assistant goes on by itself, also when it asked for something that the goal does \
not require. A goal that waits for a judge waits for you: decide, and do not wait for yourself.

The reason is shown to the assistant: with "continue" say what is to be done next, with "waiting" what is missing."""

VERDICT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "decision": {"type": "string", "enum": ["done", "continue", "waiting"]},
        "reason": {"type": "string"},
    },
    "required": ["decision", "reason"],
    "additionalProperties": False,
}
_FORM = 'Answer with a JSON object and nothing else: "decision" ("done", "continue" or "waiting") and "reason" (a text).'


class JudgeQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """What the judge is asked, and the thread in which its own conversation is stored."""

    model: Model
    prompt: str
    text: str
    tools: tuple[Tool, ...] = ()
    """To look things up before it decides."""
    max_steps: int = 10
    thread_id: str = ""
    title: str = ""
    settings: dict[str, Any] = msgspec.field(default_factory=dict)


Judge: TypeAlias = Callable[[JudgeQuestion], Awaitable[str]]
"""Asks the judge and returns its answer. An exception counts as a judge that failed."""


class GoalVerdict(NamedTuple):
    decision: Decision
    reason: str


class GoalContext(msgspec.Struct, frozen=True, kw_only=True):
    """What a custom scorer is given."""

    objective: str
    answer: str
    iteration: int
    max_runs: int
    thread_id: str


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """1 means that the goal is reached; any other score that it is not."""

    score: float
    reason: str = ""
    scorer_id: str = "custom"
    scorer_name: str = "Custom"


Scorer: TypeAlias = Callable[[GoalContext], Awaitable[Score]]


async def ask_model(question: JudgeQuestion) -> str:
    """One call, without tools and without a stored conversation. Raises RuntimeError without an answer."""
    turns = (SystemTurn(question.prompt), UserTurn(question.text))
    answer, failure = "", "the judge said nothing"
    stream = question.model.answer(Ask(turns=turns, schema=VERDICT_SCHEMA))
    try:
        async for event in stream:
            if isinstance(event, Message):
                answer = event.text
            elif isinstance(event, Error):
                failure, answer = event.message, ""
    finally:
        if (close := getattr(stream, "aclose", None)) is not None:
            await close()
    if not answer:
        raise RuntimeError(failure)
    return answer


def question_text(objective: str, answer: str, last_words: str = "") -> str:
    recent = f"\n\nLatest user message:\n{_shortened(last_words)}" if last_words else ""
    return f"Goal: {objective}{recent}\n\nLatest assistant message:\n{answer}\n\n{_FORM}"


def read_verdict(text: str) -> GoalVerdict:
    """Raises ValueError when nothing in the text is a verdict."""
    for candidate in _candidates(text):
        decision = str(candidate.get("decision", "")).strip().lower()
        if decision in SCORES:
            return GoalVerdict(decision, str(candidate.get("reason", "")).strip())
    raise ValueError(f"the judge's answer cannot be read: {text[:200]}")


def _candidates(text: str) -> Sequence[dict[str, Any]]:
    """Possible verdicts in the text, the most likely first."""
    found: list[dict[str, Any]] = []
    start, end = text.find("{"), text.rfind("}")
    if 0 <= start < end:
        try:
            value = msgspec.json.decode(text[start : end + 1])
        except msgspec.DecodeError:
            value = None
        if isinstance(value, dict):
            found.append(value)
    tags = {name: match for name in ("decision", "reason") if (match := _tag(name, text)) is not None}
    return [*found, tags]


def _tag(name: str, text: str) -> str | None:
    match = re.search(rf"<{name}>(.*?)</{name}>", text, re.DOTALL)
    return match[1] if match else None


def _shortened(text: str) -> str:
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}\n…[shortened]"
