"""How a run ended: one table for what we did, one decision for what the agent did.

Exit codes and success flags of agents lie in both directions, so neither decides alone: what the
harness did to the run comes first, then the agent's own last word, then how its process ended.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable

import msgspec

from harness.events import Error, Outcome, Result
from harness.log.raw import RawExit


class Limit(msgspec.Struct, frozen=True):
    outcome: Outcome
    code: str = ""
    message: str = ""


LIMITS: dict[str, Limit] = {
    "stop": Limit("interrupted"),
    "timeout": Limit("timed_out", "timeout", "timed out after {}"),
    "first_output": Limit("stalled", "stalled", "the agent wrote nothing for {} after it was started"),
    "inactivity": Limit("stalled", "stalled", "the agent wrote nothing for {}"),
    "turns": Limit("limit_exceeded", "max_turns", "stopped after {} turns"),
    "budget": Limit("limit_exceeded", "max_budget", "stopped: the budget of {} is used up"),
    "spending": Limit("limit_exceeded", "spending_limit", "stopped: {}"),
}

_STOPPING_SIGNALS = {int(signal.SIGINT), int(signal.SIGTERM), int(signal.SIGHUP)}
_STOPPED_BY_SIGNAL_CODES = {128 + number for number in _STOPPING_SIGNALS}
"""The exit codes of programs that catch such a signal themselves."""


def decide(exit: RawExit, native: Result | None, stopped: Outcome | None, *, announces_end: bool) -> Outcome:
    if exit.failure:
        return exit.failure
    if exit.turn:
        return _of_turn(exit, native, stopped)
    if stopped is not None:
        # An agent that had already finished when it was stopped has finished all the same.
        is_done = native is not None and native.success and stopped == "interrupted" and exit.code == 0
        return "completed" if is_done else stopped
    if exit.lost:
        return "interrupted"
    if native is not None and not native.success:
        return "failed" if native.outcome == "completed" else native.outcome
    if exit.outcome is not None:
        return exit.outcome
    if exit.signal is not None:
        return "interrupted" if exit.signal in _STOPPING_SIGNALS else "failed"
    if native is None and exit.code in _STOPPED_BY_SIGNAL_CODES:
        return "interrupted"
    if exit.code:
        return "failed"
    if native is not None or not announces_end:
        return "completed"
    # It was not stopped, as far as is known; an exit without a code was not seen at all.
    return "interrupted" if exit.code is None else "failed"


def _of_turn(exit: RawExit, native: Result | None, stopped: Outcome | None) -> Outcome:
    """The protocol of a two-way conversation said how the turn ended; its process may live on."""
    assert exit.turn
    if stopped is not None:
        return "completed" if exit.turn == "completed" and stopped == "interrupted" else stopped
    if exit.turn == "completed" and native is not None and not native.success:
        return "failed" if native.outcome == "completed" else native.outcome
    return exit.turn


def failure_of(
    exit: RawExit, outcome: Outcome, tail: Iterable[str], *, is_explained: bool, announces_end: bool
) -> Error | None:
    """The error that says what the agent itself did not."""
    if exit.failure:
        return Error(message=exit.message, code=exit.failure)
    if exit.lost:
        return Error(
            message="the harness was killed while the agent ran; the log was completed afterwards",
            code="lost",
        )
    if outcome not in ("failed", "interrupted") or is_explained:
        return None
    if exit.turn:
        message = exit.message or "the agent ended the turn without saying why"
        return Error(message=message, code="agent_error") if outcome == "failed" else None
    quoted = "\n".join(tail)
    if exit.code:
        return Error(
            message=f"agent process failed with exit code {exit.code}{_after_colon(quoted)}",
            code="process_error",
        )
    if exit.signal is not None:
        name = signal.Signals(exit.signal).name if exit.signal in set(signal.Signals) else str(exit.signal)
        return Error(message=f"agent process was ended by {name}{_after_colon(quoted)}", code="process_error")
    if announces_end and outcome == "failed" and exit.code == 0:
        return Error(message="the agent ended without saying how", code="missing_end")
    return None


def _after_colon(text: str) -> str:
    return f": {text}" if text else ""
