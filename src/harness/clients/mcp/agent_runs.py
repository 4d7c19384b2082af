"""The runs that clients of MCP have asked for: watched in their logs, with what they ask and how they end."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from harness.clients.acp.host import AcpHost
from harness.clients.commands import AnswerCommand, Approve, Cancel, Command, Deny
from harness.clients.conversations.log_tail import LogTail
from harness.clients.mcp.limits import CallLimits, RunCosts
from harness.errors import HarnessError, UsageError
from harness.events import Error, Event, Relay, Result, SessionStart, ToolEnd, ToolStart, UsageDelta
from harness.events.operation import Write
from harness.folds.standards.vocabulary import call_title
from harness.formatting.approval import whole_text
from harness.log.run_tree import RunTree
from harness.usage.run_cost import prices_of

_NOT_BEGUN = "run_failed"
"""The code of the error where a prompt could not be sent, and waits."""
_LOST = "The program that ran it has ended. Continue the session with a new prompt."
_UNPRICED = (
    "What this has cost is not known, because its model has no price here: the budget does not count it."
)
_MOST_FILES = 200
_LONGEST = 100_000
_YES = frozenset(("allow", "yes", "approve", "approved", "true"))


class DelegatedRun:
    """One session that is worked on. Contract: lives in one event loop."""

    def __init__(self, host: AcpHost, log_id: str, budget_usd: float | None, limits: CallLimits) -> None:
        self.id = log_id
        self._host, self.budget_usd, self._limits = host, budget_usd, limits
        self._loop = asyncio.get_running_loop()
        self._tree = RunTree()
        self._woken = asyncio.Event()
        self.changed = asyncio.Condition()
        self.steps = 0
        self.last_call = ""
        self.files: dict[str, None] = {}
        self.cost_usd: float | None = None
        self.result: Result | None = None
        self.error = ""
        """The last that was said of this turn."""
        self.is_stopped_by_budget = False
        self._costs = RunCosts(prices_of(host.default.cwd))
        self.created_ms = self.changed_ms = 0
        self._tail = LogTail(host.store, log_id, host.backend.hub, self._wake)
        while events := self._tail.poll():
            for event in events:
                self._take_past(event)
        self._stop_listening = host.listen(self._on_change)
        self._task = self._loop.create_task(self._follow())

    @property
    def questions(self) -> dict[str, Relay]:
        return dict(self._tree.open_relays)

    @property
    def is_over(self) -> bool:
        return self.result is not None and not self.questions

    def begin_turn(self, budget_usd: float | None) -> None:
        self._limits.begin(self.id, budget_usd)
        self.result, self.steps, self.cost_usd, self.budget_usd = None, 0, None, budget_usd
        self.is_stopped_by_budget, self.error = False, ""
        self._costs = RunCosts(prices_of(self._host.default.cwd))

    def check_alive(self) -> None:
        """A turn that another server has begun, and in which that has died, is over."""
        status = self._host.backend.status(self.id)
        if self.result is None and not (status.is_running or status.is_waiting or self.questions):
            self.result = Result(success=False, outcome="interrupted", text=_LOST)

    def close(self) -> None:
        self._task.cancel()
        self._stop_listening()
        self._tail.close()

    async def wait(self, seconds: float | None) -> None:
        """Until it has ended or asks, or the time is over."""
        async with self.changed:
            waiting = self.changed.wait_for(lambda: self.is_over or bool(self.questions))
            with suppress(TimeoutError):
                await asyncio.wait_for(waiting, seconds)

    async def wait_for_answer(self, relay_id: str, seconds: float | None = 10.0) -> None:
        """Until the question is gone: the log has its answer."""
        async with self.changed:
            waiting = self.changed.wait_for(lambda: relay_id not in self.questions)
            with suppress(TimeoutError):
                await asyncio.wait_for(waiting, seconds)

    def answer(self, relay: Relay, answer: Any) -> Command:
        """The command for an answer; what is not clearly allowed is denied."""
        if relay.kind in {"permission", "plan"}:
            choice = next((option for option in relay.choices or () if option.id == answer), None)
            if choice is not None and choice.kind != "reject-once":
                return Approve(relay_id=relay.id, option_id=choice.id, always=choice.kind == "allow-always")
            is_allowed = choice is None and str(answer).strip().lower() in _YES
            return (
                Approve(relay_id=relay.id) if is_allowed else Deny(relay_id=relay.id, reason=_words(answer))
            )
        if answer is None:  # the form was closed, or has no answer in it: the run does not wait for ever
            return Deny(relay_id=relay.id, reason="The user does not want to answer.")
        return AnswerCommand(relay_id=relay.id, answer=answer)

    def as_result(self) -> dict[str, Any]:
        """What a tool returns of it."""
        questions = self.questions
        data: dict[str, Any] = {"session": self.id, "success": False}
        if questions:
            relay = next(iter(questions.values()))
            data |= {"outcome": "waiting", "text": question_text(relay), "question": about_question(relay)}
        elif self.result is None:
            so_far = f", now {self.last_call}" if self.last_call else ""
            data |= {"outcome": "running", "text": f"It is working: {self.steps} calls so far{so_far}."}
        else:
            ending = f"It ended as {self.result.outcome}."
            text = self.result.text or (f"{ending} {self.error}" if self.error else ending)
            if self.is_stopped_by_budget:
                text = (
                    f"It was stopped, because its budget of ${self.budget_usd or 0:.2f} was used up. {text}"
                )
            if self._costs.has_unknown and self.cost_usd is None and self.budget_usd is not None:
                text = f"({_UNPRICED})\n\n{text}"
            data |= {"outcome": self.result.outcome, "success": self.result.success, "text": text[:_LONGEST]}
        if self.cost_usd is not None:
            data["cost_usd"] = round(self.cost_usd, 6)
        if self.files:
            data["files_changed"] = list(self.files)
        is_error = self.is_over and not data["success"]
        return {
            "content": [{"type": "text", "text": data["text"]}],
            "structuredContent": data,
            "isError": is_error,
        }

    def _on_change(self, log_id: str) -> None:
        if log_id == self.id:
            with suppress(HarnessError):
                self._tail.refresh()
            self._woken.set()

    def _wake(self) -> None:
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._woken.set)

    async def _follow(self) -> None:
        while True:
            await self._woken.wait()
            self._woken.clear()
            with suppress(HarnessError):
                while events := self._tail.poll():
                    for event in events:
                        self._take(event)
                    async with self.changed:
                        self.changed.notify_all()

    def _take_past(self, event: Event) -> None:
        """What it has used was of another turn."""
        run = self._tree.feed(event)
        self.changed_ms = event.timestamp_ms
        self.created_ms = self.created_ms or event.timestamp_ms
        if not run.depth and isinstance(event, Result | SessionStart):
            self.result = event if isinstance(event, Result) else None

    def _take(self, event: Event) -> None:
        run = self._tree.feed(event)
        self.changed_ms = event.timestamp_ms
        self.created_ms = self.created_ms or event.timestamp_ms
        if isinstance(event, ToolStart | ToolEnd):
            for operation in event.operations or ():
                if isinstance(operation, Write) and len(self.files) < _MOST_FILES:
                    self.files[operation.path] = None
        if isinstance(event, ToolStart):
            self.steps += 1
            self.last_call = call_title(event.tool_name, event.operations)[:200]
        elif isinstance(event, UsageDelta):
            if event.usage.cost_usd is not None:
                self.cost_usd = (self.cost_usd or 0.0) + event.usage.cost_usd
            self._limits.spend(self.id, self._costs.more_usd(event))
        elif isinstance(event, Result) and not run.depth:
            self.result = event
        elif isinstance(event, Error) and not run.depth:
            self.error = event.message
            if event.code == _NOT_BEGUN and self.result is None:  # no run will end
                self.result = Result(success=False, outcome="failed")
        if isinstance(event, UsageDelta | ToolEnd):  # what a call has started may have cost something
            self._check_budget()

    def _check_budget(self) -> None:
        if self.is_stopped_by_budget or self.result is not None or self._limits.has_left(self.id):
            return
        self.is_stopped_by_budget = True
        self._loop.create_task(self.stop())

    async def stop(self) -> None:
        with suppress(UsageError, HarnessError):
            await self._host.carry_out(self.id, Cancel(queue="clear"))


def question_text(relay: Relay) -> str:
    """All of it: what is allowed by the answer has been shown."""
    if relay.kind not in {"permission", "plan"}:
        return relay.question or "The agent waits for an answer."
    why = f" ({relay.why})" if relay.why else ""
    return f"{relay.question or 'May it do this?'}{why}\n\n{whole_text(relay)}"


def about_question(relay: Relay) -> dict[str, Any]:
    options = [{"id": choice.id, "label": choice.label} for choice in relay.choices or ()]
    options = options or [{"id": choice, "label": choice} for choice in relay.options or ()]
    return {"id": relay.id, "kind": relay.kind, "options": options}


def form_of(relay: Relay) -> dict[str, Any]:
    """The question as a form of MCP."""
    field: dict[str, Any] = {"type": "string"}
    options = [option["id"] for option in about_question(relay)["options"]]
    if options:
        field["enum"] = options
    schema = {"type": "object", "properties": {"answer": field}, "required": ["answer"]}
    parameters = {"mode": "form", "message": question_text(relay), "requestedSchema": schema}
    return {"method": "elicitation/create", "params": parameters}


def _words(answer: Any) -> str:
    text = str(answer or "").strip()
    return text if text.lower() not in {"reject", "deny", "no", "none", ""} else ""
