"""Short logs that a well-behaved source does not write: each was once read differently by two readers."""

from __future__ import annotations

from changed_logs import FromTheFuture, Log, numbered
from harness.events import (
    Compacted,
    Event,
    Forked,
    Message,
    Relay,
    RelayReply,
    ReplInput,
    ReplOutput,
    Result,
    Resumed,
    SessionStart,
    Suspended,
    TextDelta,
    ThreadCreated,
    ToolEnd,
    ToolStart,
    Usage,
    UsageDelta,
    Warning,
)


def start(run: str, call: str = "", agent: str = "claude") -> Event:
    return SessionStart(run_id=run, parent_id=call, agent=agent)


def says(run: str, text: str = "", id: str = "") -> Event:
    return Message(run_id=run, role="assistant", text=text or f"words of {run}", id=id)


def piece(run: str, text: str) -> Event:
    return TextDelta(run_id=run, id="m", text=text)


def call(run: str, id: str) -> Event:
    return ToolStart(run_id=run, call_id=id, tool_name="agent", input={})


def called(run: str, id: str) -> Event:
    return ToolEnd(run_id=run, call_id=id, tool_name="agent", success=True, output="done")


def asks(run: str, id: str) -> Event:
    return Relay(run_id=run, id=id, kind="question", question="Which?")


def answered(run: str, id: str) -> Event:
    return RelayReply(run_id=run, id=id, approved=True)


def states(run: str, count: int) -> Event:
    """Its end, with what it used in all."""
    return Result(run_id=run, success=True, usage=Usage(input=count, output=count))


def used(run: str, count: int) -> Event:
    return UsageDelta(run_id=run, usage=Usage(input=count, output=count))


def suspended(run: str) -> Event:
    return Suspended(run_id=run)


def resumed(run: str) -> Event:
    return Resumed(run_id=run)


def ends(run: str, text: str = "") -> Event:
    return Result(run_id=run, success=True, text=text)


def fails(run: str, text: str = "") -> Event:
    return Result(run_id=run, success=False, outcome="failed", text=text)


def stopped(run: str) -> Event:
    return Result(run_id=run, success=False, outcome="interrupted")


# `t`, `u`, `v`: top runs; `k`: a child; `g`: a grandchild.
_WAITING = [start("t"), asks("t", "q"), suspended("t")]
_NEXT = [start("u"), says("u"), ends("u")]
_ANSWERED = [answered("t", "q"), resumed("t")]
_BELOW = [start("t"), call("t", "c"), start("k", "c")]
_UNANNOUNCED = start("k", agent="")

_LOGS: dict[str, Log] = {
    "a child that was not announced ends": [
        *(start("t"), says("t", "one"), _UNANNOUNCED, ends("k", "below")),
        *(says("t", "two"), ends("t", "two")),
    ],
    "a child that was not announced speaks": [start("t"), says("t"), says("k"), ends("t")],
    "a child that was not announced asks": [start("t"), asks("k", "q")],
    "a child that was not announced asks, and the run ends": [start("t"), asks("k", "q"), ends("t")],
    "the answer is only in the result": [start("t"), ends("t", "One object.")],
    "the answers of both are only in the result": [
        *_BELOW,
        ends("k", "kid"),
        called("t", "c"),
        ends("t", "x"),
    ],
    "the text of a failure is only in the result": [start("t"), fails("t", "oops")],
    "no end": [start("t"), says("t"), *_NEXT],
    "no end, with pieces and a call": [start("t"), piece("t", "abc"), call("t", "c"), *_NEXT],
    "no start": [says("t"), ends("t")],
    "no second start": [start("t"), says("t"), ends("t"), says("u"), used("u", 1)],
    "no second start, and it fails": [start("t"), says("t"), ends("t"), says("u"), fails("u")],
    "a question, and a child ends": [start("t"), asks("t", "q"), ends("k")],
    "a question without a start": [asks("t", "q")],
    "a question after the end": [start("t"), ends("t"), asks("t", "q")],
    "an answer after the end": [start("t"), asks("t", "q"), ends("t"), answered("t", "q")],
    "questions of two runs": [*_BELOW, asks("t", "q"), asks("k", "r"), ends("k"), answered("t", "q")],
    "suspended": [start("t"), says("t"), asks("t", "q"), suspended("t")],
    "suspended, another follows": [*_WAITING, *_NEXT],
    "suspended, another follows, resumed": [*_WAITING, *_NEXT, *_ANSWERED],
    "suspended, another follows, resumed, speaks": [*_WAITING, *_NEXT, *_ANSWERED, says("t")],
    "suspended, another follows, resumed, fails": [*_WAITING, *_NEXT, *_ANSWERED, says("t"), fails("t")],
    "suspended, another follows, given up": [*_WAITING, *_NEXT, stopped("t")],
    "suspended, another is open, resumed": [*_WAITING, start("u"), says("u"), resumed("t"), ends("t")],
    "suspended, started once more": [*_WAITING, start("t"), says("t", "more")],
    "two are suspended": [
        *(*_WAITING, start("u"), asks("u", "r"), suspended("u"), start("v"), ends("v")),
        *(*_ANSWERED, ends("t")),
    ],
    "a child is suspended": [*_BELOW, suspended("k")],
    "a child is suspended, and the run ends": [*_BELOW, asks("k", "q"), suspended("k"), ends("t")],
    "a child is resumed": [
        *(*_BELOW, asks("k", "q"), suspended("k"), answered("k", "q"), resumed("k"), says("k")),
        *(ends("k"), called("t", "c"), says("t"), ends("t")),
    ],
    "resumed without a start": [resumed("t"), says("t"), ends("t")],
    "started again after its end": [start("t"), says("t"), fails("t"), start("t"), says("t", "again")],
    "started again, and ended": [
        start("t"),
        says("t"),
        fails("t"),
        start("t"),
        says("t", "again"),
        ends("t"),
    ],
    "a child before its parent": [
        start("k", "c"),
        says("k"),
        start("t"),
        call("t", "c"),
        says("t"),
        ends("t"),
    ],
    "a child before its parent, with its end": [
        start("k", "c"),
        says("k"),
        ends("k"),
        start("t"),
        ends("t", "x"),
    ],
    "a child alone": [start("k", "c"), says("k"), used("k", 2)],
    "a child after the end of its parent": [*_BELOW, ends("t", "x"), says("k"), ends("k")],
    "the same id for the calls of parent and child": [
        *(*_BELOW, call("k", "c"), start("g", "c"), says("g"), ends("g"), called("k", "c"), ends("k")),
        *(called("t", "c"), says("t"), ends("t")),
    ],
    "below a program": [
        *(start("t"), ReplInput(run_id="t", id="p", code="x"), start("k", "p"), call("k", "d")),
        *(start("g", "d"), says("g"), ends("g"), called("k", "d"), ends("k")),
        *(ReplOutput(run_id="t", id="p"), ends("t")),
    ],
    "a notice before the second start": [start("t"), says("t"), Warning(run_id="u", message="w"), *_NEXT],
    "usage before the start": [used("t", 3), start("t"), says("t"), ends("t")],
    "usage before the second start": [
        *(start("t"), says("t"), used("t", 2), used("u", 3)),
        *(start("u"), says("u"), used("u", 4), ends("u")),
    ],
    "usage of a child that was not announced": [start("t"), used("t", 1), used("k", 5), ends("t")],
    "usage after the end": [start("t"), says("t"), ends("t"), used("t", 7)],
    "usage around a suspension": [
        *(start("t"), used("t", 1), asks("t", "q"), suspended("t"), start("u"), used("u", 2), ends("u")),
        *(*_ANSWERED, used("t", 4), ends("t")),
    ],
    "a call after the end": [start("t"), says("t"), ends("t"), call("t", "c")],
    "an empty piece": [start("t"), piece("t", ""), ends("t")],
    "two messages with one id": [start("t"), says("t", "one", "m"), says("t", "two", "m"), ends("t")],
    "compacted": [start("t"), says("t", "one"), Compacted(run_id="t", summary="s", kept=0), says("t", "two")],
    "a forked sub-agent": [
        *(start("t"), call("t", "c"), Forked(run_id="t", call_id="c", log_id="fork")),
        *(called("t", "c"), says("t"), ends("t")),
    ],
    "a thread": [ThreadCreated(id="th", run_id="th"), start("t"), says("t"), ends("t"), *_NEXT],
    "started again in the middle of a text": [
        *(
            start("t"),
            piece("t", "It r"),
            start("t"),
            piece("t", "It ran."),
            says("t", "It ran.", "m"),
            ends("t"),
        ),
    ],
    "usage after the end that the total has": [
        *(start("t"), says("t"), used("t", 5), states("t", 10), used("t", 5), *_NEXT),
    ],
    "started again after another run has ended it": [
        *(start("t"), used("t", 7), start("o"), says("o"), start("t"), used("t", 2), states("t", 3)),
    ],
    "an event from the future": [start("t"), FromTheFuture(run_id="t"), says("t"), ends("t")],
}
LOGS = {name: numbered(log) for name, log in _LOGS.items()}
