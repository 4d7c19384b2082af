"""Goals: an objective that the agent works toward until a judge says that it is reached.

Rules
1. The objective is in the thread's log (`GoalChanged`); nothing is stored here.
2. An active objective is judged once after every final answer, if there is a judge or a scorer. Reached: it
   is done. Waiting: it stays active, and the run ends. Neither: the run continues with the judge's feedback.
3. A judge that fails pauses the goal. So does a budget that is used up, unless the last verdict is "reached"
   or "waiting". A goal whose budget was used up before is not judged again.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from harness.contracts.model import Ask, Model, SystemTurn, UserTurn
from harness.contracts.tool import Tool
from harness.errors import UsageError
from harness.events import Error, Event, GoalChanged, GoalEvaluated, Message
from harness.session.public_side import public
from harness.session.state import IsVisible, StateLane, StateReport, cache_key

# Decides whether a goal is reached: a model is asked after every answer, or a custom scorer is called.
#
# The verdict of a model is JSON (`{"decision": "done" | "continue" | "waiting", "reason": "…"}`), or the same
# in tags where it does not follow the schema.


_Decision: TypeAlias = Literal["done", "continue", "waiting"]

SCORES: dict[_Decision, float] = {"done": 1.0, "waiting": 0.5, "continue": 0.0}
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
    decision: _Decision
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
    answer, failure = "", "the judge gave no answer"
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
    candidates: list[dict[str, Any]] = []
    start, end = text.find("{"), text.rfind("}")
    if 0 <= start < end:
        try:
            value = msgspec.json.decode(text[start : end + 1])
        except msgspec.DecodeError:
            value = None
        if isinstance(value, dict):
            candidates.append(value)
    tags = {name: match for name in ("decision", "reason") if (match := _tag(name, text)) is not None}
    return [*candidates, tags]


def _tag(name: str, text: str) -> str | None:
    match = re.search(rf"<{name}>(.*?)</{name}>", text, re.DOTALL)
    return match[1] if match else None


def _shortened(text: str) -> str:
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}\n…[shortened]"


LANE = "goal"
MOST_RUNS = 50
GoalStatus: TypeAlias = Literal["active", "paused", "done"]
JudgeChoice: TypeAlias = str | Model | None


class GoalOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Defaults for objectives that do not set these themselves."""

    judge: JudgeChoice | Callable[[], JudgeChoice] = None
    """A model's id, a model, or a function that returns either. An objective's own judge takes precedence.

    Without any judge or scorer, goals are not judged.
    """
    max_runs: int | None = None
    prompt: str = ""
    scorer: Scorer | None = None
    """Judges instead of a model."""
    tools: tuple[Tool, ...] = ()
    """For the judge, to look things up where it has its own thread."""
    max_steps: int = 10
    timeout_s: float | None = None


class Objective(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The goal of a thread: its text, its status, and how much of its budget is used. Times are milliseconds."""

    objective: str
    status: GoalStatus
    runs_used: int
    started_at: int
    updated_at: int
    id: str = ""
    max_runs: int | None = None
    judge_model_id: str = ""
    prompt: str = ""
    paused_reason: str = ""


class GoalHost(Protocol):
    """What a session provides. Contract: after `append(GoalChanged(…))`, `objective` returns the new one."""

    def thread_id(self) -> str | None: ...

    def objective(self) -> Mapping[str, Any] | None: ...

    def append(self, event: Event) -> None: ...

    def now_ms(self) -> int: ...

    def new_id(self) -> str: ...

    def open_model(self, model_id: str) -> Model:
        """Raises HarnessError."""
        ...

    def goal_options(self) -> GoalOptions | None:
        """The options of the current agent."""
        ...

    def last_user_text(self) -> str: ...


@public("after_answer")
class Goals:
    """`session.goals`: the objective of the thread, and how it is set, changed and judged."""

    def __init__(self, host: GoalHost, judge: Judge = ask_model) -> None:
        self._host = host
        self._judge = judge

    def get(self) -> Objective | None:
        """The current objective; None when there is none."""
        stored_goal = self._host.objective() if self._host.thread_id() else None
        return None if stored_goal is None else msgspec.convert(dict(stored_goal), Objective, strict=False)

    def set(
        self,
        text: str,
        *,
        judge_model_id: str = "",
        max_runs: int | None = None,
        prompt: str = "",
        id: str = "",
    ) -> Objective | None:
        """Set a goal in place of the current one. None without a thread to store it in.

        Args:
            text: What is to be reached.
            judge_model_id: The model that judges; by default that of the agent's `GoalOptions`.
            max_runs: How many times the agent may be judged and sent back to work.
            prompt: The instructions of the judge.
            id: The id of the goal; by default a new one.

        Raises:
            UsageError: For a `max_runs` that is not positive.

        """
        _check_budget(max_runs)
        if not self._host.thread_id():
            return None
        now_ms = self._host.now_ms()
        return self._keep(
            Objective(
                objective=text,
                status="active",
                runs_used=0,
                started_at=now_ms,
                updated_at=now_ms,
                id=id or self._host.new_id(),
                max_runs=max_runs,
                judge_model_id=judge_model_id,
                prompt=prompt,
            )
        )

    def clear(self) -> None:
        """Remove the objective."""
        if self.get() is not None:
            self._host.append(GoalChanged(objective=None))

    def update(
        self,
        *,
        judge_model_id: str | UnsetType = UNSET,
        max_runs: int | UnsetType | None = UNSET,
        prompt: str | UnsetType = UNSET,
        status: GoalStatus | UnsetType = UNSET,
    ) -> Objective | None:
        """Change what is given of `judge_model_id`, `max_runs`, `prompt` and `status`; None without a goal.

        A status other than `paused` clears `paused_reason`. Raises UsageError for a `max_runs` that is not positive.
        """
        _check_budget(None if isinstance(max_runs, UnsetType) else max_runs)
        objective = self.get()
        if objective is None:
            return None
        fields = {"judge_model_id": judge_model_id, "max_runs": max_runs, "prompt": prompt, "status": status}
        changes: dict[str, Any] = {name: value for name, value in fields.items() if value is not UNSET}
        if changes.get("status", "paused") != "paused":
            changes["paused_reason"] = ""
        return self._keep(replace(objective, **changes, updated_at=self._host.now_ms()))

    def max_runs(self, objective: Objective) -> int:
        """The budget of an objective: its own, else that of the agent's options, else 50."""
        options = self._host.goal_options()
        return objective.max_runs or (options and options.max_runs) or MOST_RUNS

    async def after_answer(self, answer: str) -> str | None:
        """Called by the loop when a run would end: None lets it end, a text continues it with that text."""
        objective = self.get()
        if objective is None or objective.status != "active":
            return None
        options = self._host.goal_options() or GoalOptions()
        choice = _choice(objective, options)
        if options.scorer is None and not choice:
            return None
        max_runs = self.max_runs(objective)
        if objective.runs_used >= max_runs:
            self._emit(objective, max_runs, maxRunsReached=True)
            return None
        self._emit(
            objective, max_runs, iteration=objective.runs_used + 1, suppressFeedback=True, pending=True
        )
        started_ms = self._host.now_ms()
        judged = await self._judged(objective, options, choice, answer)
        duration_ms = self._host.now_ms() - started_ms
        return self._settle(objective, max_runs, judged, duration_ms)

    def _keep(self, objective: Objective) -> Objective:
        self._host.append(GoalChanged(objective=msgspec.to_builtins(objective)))
        return objective

    async def _judged(self, objective: Objective, options: GoalOptions, choice: Any, answer: str) -> _Judged:
        """An exception or a timeout becomes a failed result."""
        try:
            return await asyncio.wait_for(self._scored(objective, options, choice, answer), options.timeout_s)
        except TimeoutError:
            failure, is_late = f"no verdict within {options.timeout_s or 0:g} s", True
        except Exception as error:  # noqa: BLE001 # a judge may be a function of the application: its failure is a result
            failure, is_late = str(error) or type(error).__name__, False
        score = Score(
            score=0, reason=f"Goal evaluation failed: {failure}", scorer_id=JUDGE_ID, scorer_name=JUDGE_NAME
        )
        return _Judged(score, is_failed=True, is_late=is_late)

    async def _scored(self, objective: Objective, options: GoalOptions, choice: Any, answer: str) -> _Judged:
        thread_id = self._host.thread_id() or ""
        if options.scorer is not None:
            context = GoalContext(
                objective=objective.objective,
                answer=answer,
                iteration=objective.runs_used + 1,
                max_runs=self.max_runs(objective),
                thread_id=thread_id,
            )
            return _Judged(await options.scorer(context))
        if isinstance(choice, Exception):
            raise choice
        goal_id = objective.id or str(objective.started_at)
        question = JudgeQuestion(
            model=self._host.open_model(choice) if isinstance(choice, str) else choice,
            prompt=objective.prompt or options.prompt or PROMPT,
            text=question_text(objective.objective, answer, self._host.last_user_text()),
            tools=options.tools,
            max_steps=options.max_steps,
            thread_id=judge_thread_id(thread_id, goal_id),
            title=f"Goal judge: {objective.objective[:80]}",
            settings=judge_thread_settings(thread_id, goal_id),
        )
        verdict = read_verdict(await self._judge(question))
        score = Score(
            score=SCORES[verdict.decision],
            reason=verdict.reason,
            scorer_id=JUDGE_ID,
            scorer_name=JUDGE_NAME,
        )
        return _Judged(score, is_waiting=verdict.decision == "waiting")

    def _settle(self, objective: Objective, max_runs: int, judged: _Judged, duration_ms: int) -> str | None:
        """Store and emit the outcome; returns the text to continue the run with, or None to end it."""
        runs_used = objective.runs_used + 1
        is_spent = runs_used >= max_runs
        status, paused_reason = _outcome(judged, max_runs, is_spent=is_spent)
        changed = replace(
            objective,
            runs_used=runs_used,
            status=status,
            paused_reason=paused_reason,
            updated_at=self._host.now_ms(),
        )
        self._keep(changed)
        optional = {
            "reason": paused_reason or judged.score.reason,
            "pausedReason": paused_reason,
            "waitingForUser": judged.is_waiting,
            "judgeFailed": judged.is_failed,
        }
        self._emit(
            changed,
            max_runs,
            passed=status == "done",
            results=[judged.result(duration_ms)],
            duration=duration_ms,
            timedOut=judged.is_late,
            maxRunsReached=is_spent,
            **{name: value for name, value in optional.items() if value},
        )
        if status != "active" or judged.is_waiting:
            return None
        return continuation(objective.objective, runs_used, max_runs, judged.score.reason)

    def _emit(self, objective: Objective, max_runs: int, **more: Any) -> None:
        payload = {
            "objective": objective.objective,
            "iteration": objective.runs_used,
            "maxRuns": max_runs,
            "passed": False,
            "status": objective.status,
            "results": [],
            "duration": 0,
            "timedOut": False,
            "maxRunsReached": False,
            "suppressFeedback": False,
        }
        self._host.append(GoalEvaluated(payload={**payload, **more}))


def continuation(objective: str, runs_used: int, max_runs: int, feedback: str) -> str:
    """The message to the model when the goal is not reached."""
    return (
        f"[Goal attempt {runs_used}/{max_runs}] The goal is not yet complete. "
        f"Judge feedback: {feedback or 'none'}\n\nContinue working toward the goal: {objective}"
    )


def judge_thread_id(thread_id: str, goal_id: str) -> str:
    return f"{thread_id}-{goal_id}"


def judge_thread_settings(thread_id: str, goal_id: str) -> dict[str, Any]:
    """The settings of the hidden thread with the judge's own conversation."""
    return {"forkedSubagent": True, "goalJudge": True, "parentThreadId": thread_id, "goalId": goal_id}


def objective_update(
    lane: StateLane, objective: Objective | None, max_runs: int, is_visible: IsVisible
) -> StateReport | None:
    """What the model is given of the objective: all of it while active, then once that there is none."""
    has_base = lane.has_base(is_visible)
    known_goal = (lane.snapshot.value or {}).get("objective") if lane.snapshot is not None else None
    if objective is None or objective.status != "active":
        if not has_base or known_goal is None:
            return None
        return StateReport(
            id=LANE,
            cache_key=f"{LANE}:none",
            tag_name="current-objective",
            contents="",
            value={"objective": None},
            attributes={"status": "none"},
        )
    key = cache_key(LANE, (objective.objective, objective.status, str(objective.runs_used), str(max_runs)))
    if has_base and lane.snapshot is not None and lane.snapshot.cache_key == key:
        return None
    return StateReport(
        id=LANE,
        cache_key=key,
        tag_name="current-objective",
        contents=f"\n  {objective.objective}\n",
        value={"objective": msgspec.to_builtins(objective)},
        attributes={"status": objective.status, "runsUsed": objective.runs_used, "maxRuns": max_runs},
    )


class _Judged(NamedTuple):
    score: Score
    is_waiting: bool = False
    is_failed: bool = False
    is_late: bool = False

    @property
    def is_reached(self) -> bool:
        return self.score.score == 1

    def result(self, duration_ms: int) -> dict[str, Any]:
        result = {
            "score": self.score.score,
            "passed": self.is_reached,
            "reason": self.score.reason,
            "scorerId": self.score.scorer_id,
            "scorerName": self.score.scorer_name,
            "duration": duration_ms,
        }
        return {**result, "errored": True} if self.is_failed else result


def _choice(objective: Objective, options: GoalOptions) -> Any:
    """The objective's own judge, else the agent's. A returned exception counts as a judge that failed."""
    choice: Any = objective.judge_model_id or options.judge
    if callable(choice) and not hasattr(choice, "answer"):
        try:
            choice = choice()
        except Exception as error:  # noqa: BLE001 # as in `_judged`
            return error
    return choice


def _outcome(judged: _Judged, max_runs: int, *, is_spent: bool) -> tuple[GoalStatus, str]:
    if judged.is_failed:
        return "paused", judged.score.reason
    if judged.is_reached:
        return "done", ""
    if is_spent and not judged.is_waiting:
        reason = f"Ran out of evaluation budget ({max_runs} runs) before reaching the goal: "
        return "paused", f"{reason}raise maxRuns and set it active to resume."
    return "active", ""


def _check_budget(max_runs: int | None) -> None:
    if max_runs is not None and max_runs < 1:
        raise UsageError(f"a goal cannot be judged {max_runs} times", hint="max_runs is 1 or more")
