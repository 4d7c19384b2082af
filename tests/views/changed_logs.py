"""Logs made of recordings: with starts, ends and whole stretches missing, followed by a second run, or with events
that this version does not know.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache

from msgspec.structs import replace

from harness.events import (
    Event,
    Message,
    Relay,
    RelayReply,
    Result,
    Resumed,
    SessionStart,
    Suspended,
    TextDelta,
    ThreadCreated,
    ToolEnd,
    ToolStart,
    Unrecognized,
    UsageDelta,
)
from harness.testing.golden import Case, translate

TOP, OTHER = "top", "other"
_FEWEST = 2
Log = list[Event]
Mutation = Callable[[Log, random.Random], Log]


class FromTheFuture(Event):
    """An event class that no view was written for."""

    text: str = "unknown"


def whole(log: Log, chance: random.Random) -> Log:
    return log


def no_child_starts(log: Log, chance: random.Random) -> Log:
    return [event for event in log if not isinstance(event, SessionStart) or event.run_id == TOP]


def no_starts(log: Log, chance: random.Random) -> Log:
    return [event for event in log if not isinstance(event, SessionStart)]


def few_ends(log: Log, chance: random.Random) -> Log:
    return [e for e in log if not isinstance(e, Result | ToolEnd | RelayReply) or chance.random() < 0.5]


def no_beginning(log: Log, chance: random.Random) -> Log:
    return log[chance.randint(1, max(1, len(log) // 2)) :]


def no_end(log: Log, chance: random.Random) -> Log:
    return log[: chance.randint(1, len(log))]


def twice(log: Log, chance: random.Random) -> Log:
    """A second run follows the first, which may have been cut off."""
    return [*log[: chance.randint(2, len(log))], *map(_renamed, log)]


def thread(log: Log, chance: random.Random) -> Log:
    return [ThreadCreated(id="thread", run_id="thread"), *twice(log, chance)]


def unannounced_child(log: Log, chance: random.Random) -> Log:
    start, end = SessionStart(run_id=OTHER), Result(run_id=OTHER, success=True, text="done below")
    said = _said_below()
    below = chance.choice([[start, end], [end], [said], [said, end]])
    return _inserted(log, below, chance.randint(2, max(2, len(log) - 1)))


def text_before_the_start(log: Log, chance: random.Random) -> Log:
    """Text before any start: of the run that follows, or of another one."""
    return [TextDelta(run_id=chance.choice([TOP, OTHER]), text="early", id="e"), *log]


def suspended_before_another(log: Log, chance: random.Random) -> Log:
    """The first run waits for an answer while the second begins, and may be ended after that."""
    place = chance.randint(2, len(log))
    asked = [Relay(run_id=TOP, id="q", kind="question", question="Which?"), Suspended(run_id=TOP)]
    later: Log = [Result(run_id=TOP, success=False, outcome="interrupted")] if chance.random() < 0.5 else []
    ended = any(isinstance(event, Result) and event.run_id == TOP for event in log[:place])
    return [*log[:place], *(() if ended else asked), *map(_renamed, log), *(() if ended else later)]


def resumed_after_another(log: Log, chance: random.Random) -> Log:
    """The first run waits for an answer while another run happens, and is resumed or started once more."""
    place = chance.randint(1, len(log))
    if any(isinstance(event, Result) and event.run_id == TOP for event in log[:place]):
        return log
    asked = [Relay(run_id=TOP, id="q", kind="question", question="Which?"), Suspended(run_id=TOP)]
    other = list(map(_renamed, log))[: chance.randint(1, len(log))]
    again = chance.choice([Resumed(run_id=TOP), SessionStart(run_id=TOP, agent="x")])
    return [*log[:place], *asked, *other, RelayReply(run_id=TOP, id="q", approved=True), again, *log[place:]]


def interleaved(log: Log, chance: random.Random) -> Log:
    """Two runs write at once: what the first writes after the second has begun comes too late."""
    if any(event.run_id == f"{TOP}-2" for event in log):
        return log  # runs that write at once never have the same id
    first, second, found = list(log), list(map(_renamed, log)), list[Event]()
    while first and second:
        found.append((first if chance.random() < 0.5 else second).pop(0))
    return [*found, *first, *second]


def child_before_its_parent(log: Log, chance: random.Random) -> Log:
    early: Log = [SessionStart(run_id=OTHER, parent_id="c", agent="x"), _said_below()]
    return [*early, *log, *([Result(run_id=OTHER, success=True)] if chance.random() < 0.5 else [])]


def started_again(log: Log, chance: random.Random) -> Log:
    """The same run, with the same ids, once more."""
    return [*log, *log[: chance.randint(1, len(log))]]


def asked_below(log: Log, chance: random.Random) -> Log:
    """A sub-agent that was not announced asks, and is answered or not."""
    asked: Log = [Relay(run_id=OTHER, id="q", kind="question", question="Which?")]
    if chance.random() < 0.5:
        asked.append(RelayReply(run_id=OTHER, id="q", approved=chance.random() < 0.5))
    return _inserted(log, asked, chance.randint(1, len(log)))


def from_the_future(log: Log, chance: random.Random) -> Log:
    for _ in range(3):
        event: Event = FromTheFuture(run_id=chance.choice([TOP, OTHER]))
        if chance.random() < 0.3:
            event = Unrecognized(run_id=TOP, unread={"type": "FromTheFuture"})
        log = _inserted(log, [event], chance.randint(0, len(log)))
    return log


MUTATIONS: tuple[Mutation, ...] = (
    no_child_starts,
    no_starts,
    few_ends,
    no_beginning,
    no_end,
    twice,
    thread,
    unannounced_child,
    text_before_the_start,
    suspended_before_another,
    resumed_after_another,
    interleaved,
    child_before_its_parent,
    started_again,
    asked_below,
    from_the_future,
)


TORN = (
    *(no_beginning, no_end, twice, thread, text_before_the_start, suspended_before_another),
    *(resumed_after_another, interleaved, started_again),
)
"""Those that may leave pieces of a text without the whole."""


@cache
def log_of(case: Case) -> tuple[Event, ...]:
    """A recording as its log has it, with `top` for the run's own id."""
    return tuple(replace(event, run_id=event.run_id or TOP) for event in translate(case)[1])


def changed(case: Case, *mutations: Mutation, seed: int = 0) -> Log:
    """One change after the other, as long as anything is left to change."""
    names = " ".join(mutation.__name__ for mutation in mutations)
    chance, log = random.Random(f"{case} {names} {seed}"), list(log_of(case))
    for mutation in mutations:
        log = mutation(log, chance) if len(log) > _FEWEST else log
    return numbered(log)


def numbered(log: Log) -> Log:
    return [replace(event, seq=number, timestamp_ms=number) for number, event in enumerate(log)]


def _renamed(event: Event) -> Event:
    event = replace(event, run_id=f"{event.run_id}-2", parent_id=event.parent_id and f"{event.parent_id}-2")
    if isinstance(event, UsageDelta) and event.id:
        return replace(event, id=f"{event.id}-2")
    return replace(event, call_id=f"{event.call_id}-2") if isinstance(event, ToolStart | ToolEnd) else event


def _said_below() -> Event:
    return Message(run_id=OTHER, role="assistant", text="said below")


def _inserted(log: Log, events: list[Event], place: int) -> Log:
    return [*log[:place], *events, *log[place:]]
