"""`harness run` at a full window of a subscription: it says when that opens, and waits for it where that was asked for."""

from __future__ import annotations

import time
from collections.abc import Callable

from msgspec.structs import replace

from harness.cli.console import Console
from harness.contracts.request import Request
from harness.events import Parked
from harness.folds import limits
from harness.folds.limits import LimitFacts
from harness.formatting.amounts import age
from harness.log.ids import new_run_id
from harness.log.run_tree import RunTree
from harness.log.store import read_all
from harness.runs.run import Run
from harness.session.parking import CONTINUATION, ParkingRules, next_parking

_POLL_S = 30.0


class LimitWait:
    """Contract: `note` after each run; then `follow_up` waits, and gives what to start next, or None."""

    def __init__(
        self,
        rules: ParkingRules,
        console: Console,
        *,
        sleep: Callable[[float], object] = time.sleep,
        clock_ms: Callable[[], int] = lambda: int(time.time() * 1000),
    ) -> None:
        self._rules = rules
        self._console = console
        self._sleep = sleep
        self._clock_ms = clock_ms
        self._last: Parked | None = None
        self._facts = LimitFacts()
        self._run: Run | None = None

    def note(self, run: Run) -> None:
        self._run = run
        self._facts, tree = LimitFacts(last_parked=self._last, is_resumed=True), RunTree()
        for event in read_all(run.store, run.id):
            node = tree.feed(event)
            if type(event) in limits.TAKEN:
                limits.take(self._facts, event, node)

    @property
    def run_at_full_window(self) -> Run | None:
        """The last run, if a window that opens again has ended it."""
        window = self._facts.limit
        return self._run if window is not None and window.status == "reached" else None

    def follow_up(self, request: Request) -> Request | None:
        """Raises KeyboardInterrupt when a person does not want to wait."""
        run, window = self._run, self._facts.limit
        if run is None or window is None:
            return None
        name = (
            f"the window {window.name.replace('_', ' ')} is full"
            if window.name
            else "a limit of its provider is reached"
        )
        agent = run.launch.agent
        session = run.agent_session_id or (run.id if agent.work is not None else "")
        can_resume = bool(session) and "resume" in agent.supports
        parked = None
        if self._rules.is_on and can_resume:
            parked = next_parking(self._facts, self._rules, self._clock_ms(), new_run_id(self._clock_ms()))
        if parked is None:
            self._console.say(
                f"{name}{_opens(window.resets_at_ms, self._clock_ms())}{_hint(run) if can_resume else ''}"
            )
            return None
        self._last = parked
        at = time.strftime("%H:%M", time.localtime(parked.resumes_at_ms / 1000))
        self._console.say(
            f"{name}: continues at {at} ({parked.number} of {parked.most}); Ctrl-C ends the wait"
        )
        while (left_ms := parked.resumes_at_ms - self._clock_ms()) > 0:
            self._sleep(min(_POLL_S, left_ms / 1000))
        return replace(request, prompt=CONTINUATION, resume=session, continue_last=False, fork=False)


def _opens(resets_at_ms: int | None, now_ms: int) -> str:
    if resets_at_ms is None or resets_at_ms <= now_ms:
        return ""
    at = time.strftime("%a %H:%M", time.localtime(resets_at_ms / 1000))
    return f"; it opens {at}, in {age(resets_at_ms - now_ms)}"


def _hint(run: Run) -> str:
    return (
        f". Then: harness resume {run.id} 'Continue where you stopped.' (or let it wait: --at-limit resume)"
    )
