"""The result of a run, as one JSON object after the end; also of a run that failed, or has not ended.

For a thread with several runs, the result of the run that was started or resumed last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from harness.events import Error, Event, Message, Outcome, Result, SessionStart
from harness.formatting.amounts import UsageData, computed, usage_data
from harness.formatting.json_text import pretty
from harness.log.run_tree import RunTree
from harness.stage import View, ViewOptions


class Failure(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    message: str
    code: str = ""


class ResultReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    type: Literal["result"]
    success: bool
    result: str
    """The answer: the last text of the agent."""
    session_id: str
    """The agent's own session id; the run's id if the agent has reported none."""
    outcome: Outcome
    log_id: str = ""
    """The id in `harness sessions`."""
    agent_session_id: str = ""
    """The same as `session_id`, but only if the agent has reported it."""
    error: Failure | None = None
    """The last error of a run that did not succeed."""
    stop_reason: str = ""
    duration_ms: int | None = None
    total_cost_usd: float | None = None
    cost_source: Literal["", "computed"] = ""
    """Set if the cost was computed from prices; otherwise the agent has stated it."""
    usage: UsageData | None = None
    turns: int | None = None
    exit_code: int | None = None
    signal: int | None = None
    structured: Any = None


class ResultView:
    def __init__(self) -> None:
        self._tree = RunTree()
        self._begin()

    def feed(self, event: Event, /) -> Sequence[bytes]:
        run = self._tree.feed(event)
        if not run.depth:
            if self._tree.latest != self._run_id or self._tree.began:
                self._begin()
            if run.id == self._run_id or isinstance(event, Error):
                self._note(event)
        return ()

    def finish(self) -> Sequence[bytes]:
        return (pretty(self._report()).encode() + b"\n",)

    def _begin(self) -> None:
        top = self._tree.top
        self._run_id = self._tree.latest
        self._session_id = top.start.session_id if top is not None and top.start is not None else ""
        self._last_text = ""
        self._error: Failure | None = None
        self._result = Result(success=False, outcome="interrupted")
        """The result as long as the log has no `Result`."""

    def _note(self, event: Event) -> None:
        if isinstance(event, SessionStart):
            self._session_id = event.session_id
        elif isinstance(event, Message):
            if event.role == "assistant" and event.text:
                self._last_text = event.text
        elif isinstance(event, Error):
            self._error = Failure(message=event.message, code=event.code)
        elif isinstance(event, Result) and self._tree.ended:
            self._result = event

    def _report(self) -> ResultReport:
        result = self._result
        session_id = result.session_id or self._session_id
        return ResultReport(
            type="result",
            success=result.success,
            result=result.text or self._last_text,
            session_id=session_id,
            outcome=result.outcome,
            log_id=result.log_id or self._tree.log_id,
            agent_session_id="" if session_id == self._run_id else session_id,
            error=None if result.success else self._error,
            stop_reason=result.stop_reason,
            duration_ms=result.duration_ms,
            total_cost_usd=result.total_cost_usd,
            cost_source=computed(result.usage),
            usage=usage_data(result.usage) if result.usage else None,
            turns=result.turns,
            exit_code=result.exit_code,
            signal=result.signal,
            structured=result.structured,
        )


def open(options: ViewOptions) -> View:
    del options
    return ResultView()
