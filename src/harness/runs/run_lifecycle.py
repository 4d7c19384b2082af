"""The lifecycle of one run: what has begun and not yet ended, and what is missing around it.

created ── begin(Start) ─▶ waiting ── first event but a notice ─▶ running ── end(Exit) ─▶ ended
                           │     ▲                                │     ▲
                           └─────┘ Warning, Info, Unknown         └─────┘ every other event

while running               what is emitted
  SessionStart of the run     nothing: it has begun; a new session id becomes an Info
  SessionStart of a child     itself, once; the child is open
  ToolStart                   itself; the call is open. A second start of an open call becomes Unknown
  ToolEnd                     itself, after a ToolStart if there was none; the call is closed
  Result of a child           the ends of its open calls, then itself
  Result of the run           nothing yet: the last one counts, when the run ends
  Control                     the Error of the limit; `stopped` says how the run will end
  others                      themselves
on end                      SessionStart and prompt if the run never began, the Error that explains a failure,
                            open children (the last one first) and calls, usage not yet counted, one Result

Children close before their parents, and calls before the run that made them.
"""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from harness.contracts.limits import LIMITS
from harness.events import (
    Error,
    Event,
    Info,
    Message,
    Outcome,
    Relay,
    RelayReply,
    Result,
    SessionStart,
    ToolEnd,
    ToolStart,
    Unknown,
    Usage,
    UsageDelta,
    Warning,
)
from harness.log.raw import RawControl, RawExit, RawStart

# How a run ended: one table for what we did, one decision for what the agent did.
#
# Exit codes and success flags of agents lie in both directions, so neither decides alone: what the
# harness did to the run comes first, then the agent's own last word, then how its process ended.


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


_TAIL_LINES = 20
"""How much of the agent's last output a failure quotes."""


class RunLifecycle:
    """Feed it what the translator yields; it appends to `out` what goes into the log."""

    def __init__(self) -> None:
        self.start: RawStart | None = None
        self.now_ms = 0
        self.ended = False
        self.stopped: Outcome | None = None
        """Set when the harness ended the run: by request, or by a limit."""
        self.turns = 0
        """Model calls as far as the order of events shows them: never fewer than there were."""
        self.reported_turns: int | None = None
        """The same, where the agent itself counts them."""
        self.used = Usage()
        self._stated_usage = Usage()
        """What the agent itself says it used, where a gateway sees it."""
        self._calls: list[Event] = []
        """What a gateway saw before the run had begun."""
        self.known_session_id = ""
        """The agent's own id of its session, where it is known before the agent reports it."""
        self._has_begun = False
        self._session_id = ""
        self._has_new_session = False
        self._native: Result | None = None
        self._open_calls: dict[tuple[str, str], ToolStart] = {}
        self._used_twice: set[str] = set()
        """Ids of calls that were used again while the first call was open."""
        self._open_children: dict[str, SessionStart] = {}
        self._open_relays: dict[str, Relay] = {}
        self._last_text: dict[str, str] = {}
        self._model_rests = True
        self._has_failed = False
        self._tails: dict[str, deque[str]] = {
            "stderr": deque(maxlen=_TAIL_LINES),
            "stdout": deque(maxlen=_TAIL_LINES),
        }
        self._handlers: dict[type[Event], Callable[[Any, list[Event]], None]] = {
            SessionStart: self._on_start,
            Result: self._on_result,
            Message: self._on_message,
            ToolStart: self._on_tool_start,
            ToolEnd: self._on_tool_end,
            Relay: self._on_relay,
            RelayReply: self._on_reply,
            UsageDelta: self._on_usage,
            Error: self._on_error,
            Warning: self._on_notice,
            Info: self._on_notice,
            Unknown: self._on_notice,
        }

    def begin(self, start: RawStart) -> None:
        self.start = start

    @property
    def _has_gateway(self) -> bool:
        return self.start is not None and self.start.gateway is not None

    @property
    def waits(self) -> bool:
        """Whether the run waits for an answer."""
        return bool(self._open_relays)

    def open_call(self, call_id: str) -> ToolStart | None:
        """The call of that id, in whichever run, if it has not ended."""
        starts = (start for (_, name), start in self._open_calls.items() if name == call_id)
        return next(starts, None)

    def is_ambiguous(self, call_id: str) -> bool:
        """Whether the id stands, or stood, for two calls at once. Model servers make ids, and some repeat them."""
        return call_id in self._used_twice or sum(name == call_id for _, name in self._open_calls) > 1

    @property
    def session_id(self) -> str:
        """The agent's own id of its session, as far as it was reported."""
        return self._session_id

    def accept(self, events: Iterable[Event], out: list[Event]) -> None:
        """Take the events of a line; append what goes into the log to `out`."""
        handlers = self._handlers
        for event in events:
            handler = handlers.get(type(event))
            if handler is not None:
                handler(event, out)
            else:
                if not self._has_begun:
                    self._begin_unannounced(out)
                out.append(event)

    @property
    def has_said_end(self) -> bool:
        """Whether the agent has said how the run ended; its process may take a while."""
        return self._native is not None

    def note_calls(self, events: Sequence[Event], out: list[Event]) -> None:
        """What a gateway saw. It may see a call before the agent has said that it began."""
        self._calls += events
        if not self._has_begun:
            return
        calls, self._calls = self._calls, []
        for event in calls:
            if isinstance(event, UsageDelta):
                self.used = self.used.plus(event.usage)
            out.append(event)

    def note_text(self, stream: str, line: str) -> None:
        """Remember a line of plain text: a failure quotes the last ones."""
        self._tails[stream].append(line)

    def note_control(self, control: RawControl) -> Sequence[Event]:
        limit = LIMITS[control.action]
        if self.stopped is not None:
            return ()
        self.stopped = limit.outcome
        if not limit.message:
            return ()
        out: list[Event] = []
        self.accept([Error(message=limit.message.format(control.detail), code=limit.code)], out)
        return out

    def end(self, exit: RawExit, out: list[Event], *, announces_end: bool) -> None:
        """Close everything and say how it ended."""
        if not self._has_begun:
            self._begin_unannounced(out)
        self._learn_session(exit.session_id, out)
        outcome = decide(exit, self._native, self.stopped, announces_end=announces_end)
        tail = self._tails["stderr"] or self._tails["stdout"]
        is_explained = (
            self.stopped is not None
            or self._has_failed
            or (self._native is not None and not self._native.success)
        )
        error = failure_of(exit, outcome, tail, is_explained=is_explained, announces_end=announces_end)
        if error is not None:
            out.append(error)
        if exit.survivors:
            out.append(_survivors(exit.survivors))
        out += [Warning(message=text, code="sandbox") for text in exit.refused]
        self._close_relays(out)
        self._close_children(out, "interrupted" if outcome == "completed" else outcome)
        self._close_calls(out, "")
        self._add_missing_usage(out)
        out.append(self._final_result(exit, outcome))
        self.ended = True

    def _on_start(self, event: SessionStart, out: list[Event]) -> None:
        if event.run_id:
            if not self._has_begun:
                self._begin_unannounced(out)
            if event.run_id not in self._open_children:
                self._open_children[event.run_id] = event
                out.append(event)
            return
        if not self._has_begun:
            self._begin(event, out)
        else:
            self._learn_session(event.session_id, out)

    def _learn_session(self, session_id: str, out: list[Event]) -> None:
        if session_id and session_id != self._session_id:
            out.append(_session_change(self._session_id, session_id))
            self._session_id = session_id
            self._has_new_session = True

    def _begin_unannounced(self, out: list[Event]) -> None:
        self._begin(SessionStart(), out)

    def _begin(self, event: SessionStart, out: list[Event]) -> None:
        self._has_begun = True
        event = event if event.session_id else replace(event, session_id=self.known_session_id)
        self._session_id = event.session_id
        start = self.start
        if start is None:
            out.append(event)
            return
        out.append(
            replace(
                event,
                agent=event.agent or start.native or start.agent,
                model=event.model or start.model,
                cwd=event.cwd or start.cwd,
                version=event.version or start.version,
                sandbox=start.sandbox,
            )
        )
        if start.prompt:
            parts = start.files or None
            out.append(Message(role="user", text=start.prompt, id=start.prompt_id, parts=parts))
        self.note_calls((), out)

    def _on_result(self, event: Result, out: list[Event]) -> None:
        if not event.run_id:
            self._native = event
            return
        if self._open_children.pop(event.run_id, None) is None:
            out.append(SessionStart(run_id=event.run_id))
        self._close_calls(out, event.run_id)
        out.append(event if event.text else replace(event, text=self._last_text.pop(event.run_id, "")))

    def _on_message(self, event: Message, out: list[Event]) -> None:
        if not self._has_begun:
            self._begin_unannounced(out)
        if event.role == "assistant":
            if event.text:
                self._last_text[event.run_id] = event.text
            if not event.run_id:
                self._note_turn()
        out.append(event)

    def _on_tool_start(self, event: ToolStart, out: list[Event]) -> None:
        if not self._has_begun:
            self._begin_unannounced(out)
        key = (event.run_id, event.call_id)
        if key in self._open_calls:
            self._used_twice.add(event.call_id)
            out.append(
                Unknown(
                    raw=event.input, reason=f"call {event.call_id} started a second time", run_id=event.run_id
                )
            )
            return
        self._open_calls[key] = event
        if not event.run_id:
            self._note_turn()
        out.append(event)

    def _on_tool_end(self, event: ToolEnd, out: list[Event]) -> None:
        if not self._has_begun:
            self._begin_unannounced(out)
        start = self._open_calls.pop((event.run_id, event.call_id), None)
        if start is None:
            name = event.tool_name or "unknown"
            out.append(ToolStart(call_id=event.call_id, tool_name=name, run_id=event.run_id))
            event = replace(event, tool_name=name)
        elif not event.tool_name:
            event = replace(event, tool_name=start.tool_name)
        if not event.run_id:
            # While calls of the same answer are still running, the model has not been asked again.
            self._model_rests = all(run_id for run_id, _ in self._open_calls)
        out.append(event)

    def _on_relay(self, event: Relay, out: list[Event]) -> None:
        if not self._has_begun:
            self._begin_unannounced(out)
        self._open_relays[event.id] = event
        out.append(event)

    def _on_reply(self, event: RelayReply, out: list[Event]) -> None:
        is_open = self._open_relays.pop(event.id, None) is not None
        if is_open or event.by == "policy":  # the rules may answer what was never asked in the log
            out.append(event)

    def _on_usage(self, event: UsageDelta, out: list[Event]) -> None:
        if not self._has_begun:
            self._begin_unannounced(out)
        if self._has_gateway:  # which counts itself: nothing is counted twice
            self._stated_usage = self._stated_usage.plus(event.usage)
            return
        self.used = self.used.plus(event.usage)
        out.append(event)

    def _on_error(self, event: Error, out: list[Event]) -> None:
        if not self._has_begun:
            self._begin_unannounced(out)
        if not event.run_id:
            self._has_failed = True
        out.append(event)

    def _on_notice(self, event: Event, out: list[Event]) -> None:
        out.append(event)

    def _note_turn(self) -> None:
        if self._model_rests:
            self._model_rests = False
            self.turns += 1

    def _close_calls(self, out: list[Event], run_id: str) -> None:
        for key in [key for key in self._open_calls if key[0] == run_id]:
            start = self._open_calls.pop(key)
            out.append(ToolEnd(call_id=start.call_id, tool_name=start.tool_name, run_id=run_id))

    def _close_relays(self, out: list[Event]) -> None:
        """A question of a run that has ended can never be answered."""
        for relay_id in list(self._open_relays):
            reason = "the run ended before there was an answer"
            self._on_reply(RelayReply(id=relay_id, approved=False, by="policy", reason=reason), out)

    def _close_children(self, out: list[Event], outcome: Outcome) -> None:
        for run_id in reversed(list(self._open_children)):
            self._on_result(Result(run_id=run_id, success=False, outcome=outcome), out)
        for run_id in dict.fromkeys(run_id for run_id, _ in self._open_calls if run_id):
            self._close_calls(out, run_id)

    def _add_missing_usage(self, out: list[Event]) -> None:
        """The deltas of a run add up to its total, also when the agent reports only the total."""
        if self._native is None or self._native.usage is None or self._has_gateway:
            return
        rest = self._native.usage.minus(self.used).without_zeros()
        if rest:
            self._on_usage(UsageDelta(usage=rest), out)

    def _final_result(self, exit: RawExit, outcome: Outcome) -> Result:
        native = self._native or Result(success=False)
        usage = native.usage or self.used or None
        cost = native.total_cost_usd
        stated_usage: Usage | None = None
        if self._has_gateway:
            stated_usage = native.usage or self._stated_usage or None
            if stated_usage is not None and stated_usage.cost_usd is None and cost is not None:
                stated_usage = replace(stated_usage, cost_usd=cost, cost_source="stated")
            usage, cost = self.used or None, None
        duration = native.duration_ms
        if duration is None and self.start is not None:
            duration = max(0, exit.at_ms - self.start.at_ms)
        return replace(
            native,
            session_id=native.session_id or (self._session_id if self._has_new_session else ""),
            success=outcome == "completed",
            outcome=outcome,
            text=native.text or self._last_text.get("", ""),
            duration_ms=duration,
            total_cost_usd=cost if cost is not None or usage is None else usage.cost_usd,
            usage=usage,
            stated=stated_usage,
            exit_code=exit.code,
            signal=exit.signal,
            turns=native.turns if native.turns is not None else self.reported_turns,
        )


def _session_change(before: str, after: str) -> Info:
    """Some agents report their session's id only at the end."""
    if not before:
        return Info(message="the agent told the id of its session", code="session_id", session_id=after)
    return Info(message="the agent went on in another session", code="new_session", session_id=after)


def _survivors(count: int) -> Warning:
    noun = (
        "process that the agent left behind was"
        if count == 1
        else "processes that the agent left behind were"
    )
    return Warning(message=f"{count} {noun} ended", code="survivors")
