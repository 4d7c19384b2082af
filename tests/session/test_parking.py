"""A conversation that a full window has ended continues once, when it opens again, and only where that was asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import Harness, Mode, Model, Store
from harness.events import LimitWindow, Message, Parked, Unparked
from harness.folds.limits import LimitFacts
from harness.log.store import read_all
from harness.session import parking
from harness.session.parking import CONTINUATION, Parking, ParkingRules, after_quiet, next_parking
from harness.testing.sessions import TestedApp, call, opened

NOW = 1_794_000_000_000
HOUR = 3_600_000
ON = ParkingRules(is_on=True)
FULL = {
    "events": [
        {
            "type": "error",
            "message": "You've hit your limit, try again in 20 minutes",
            "code": "limit_reached",
        }
    ]
}


def _reached(resets_ms: int | None, *, status: str = "reached", before: Parked | None = None) -> LimitFacts:
    window = LimitWindow(name="5 h", status=status, resets_at_ms=resets_ms)  # type: ignore[arg-type]
    return LimitFacts(limit=window, began_ms=NOW - 1000, ended_ms=NOW, last_parked=before)


def _parked(*, number: int = 1, again: int = 0, name: str = "5 h") -> Parked:
    window = LimitWindow(name=name, status="reached", resets_at_ms=NOW)
    return Parked(id="p0", window=window, resumes_at_ms=NOW, number=number, most=2, again=again)


def test_it_continues_a_little_after_the_window_opens() -> None:
    parked = next_parking(_reached(NOW + HOUR), ON, NOW, "p1")

    assert parked is not None
    assert NOW + HOUR + 5_000 <= parked.resumes_at_ms <= NOW + HOUR + 60_000
    assert (parked.number, parked.most, parked.again) == (1, 2, 0)


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(LimitFacts(), id="it ended otherwise"),
        pytest.param(_reached(None), id="nobody knows when"),
        pytest.param(_reached(NOW + HOUR, status="exhausted"), id="no window opens: the money is used up"),
        pytest.param(_reached(NOW + 7 * HOUR), id="it is too long"),
        pytest.param(_reached(NOW + HOUR, before=_parked(number=2, name="week")), id="two were waited for"),
        pytest.param(_reached(NOW + HOUR, before=_parked(again=3)), id="it was full again three times"),
    ],
)
def test_a_person_decides(facts: LimitFacts) -> None:
    assert next_parking(facts, ON, NOW, "p1") is None


def test_a_window_that_is_full_again_at_once_is_waited_for_longer_each_time() -> None:
    waits = [
        next_parking(_reached(NOW + 1, before=_parked(again=again)), ON, NOW, "p1") for again in (0, 1, 2)
    ]

    minutes = [(one.resumes_at_ms - NOW) // 60_000 for one in waits if one is not None]
    assert minutes == [5, 15, 45]
    assert all(one is not None and one.number == 1 for one in waits)


@given(st.integers(NOW, NOW + 48 * HOUR), st.integers(0, 1439), st.integers(0, 1439))
def test_nothing_is_continued_in_the_quiet_time(at_ms: int, start: int, end: int) -> None:
    later = after_quiet(at_ms, (start, end))

    assert at_ms <= later <= at_ms + 24 * HOUR
    assert after_quiet(later, (start, end)) == later


def _build(rules: ParkingRules | None) -> Callable[[Model, Store], Harness]:
    def build(model: Model, store: Store) -> Harness:
        mode = Mode(id="build", default=True, default_model_id="m")
        app = Harness(
            id="app",
            modes=[mode],
            storage=store,
            resolve_model=lambda _: model,
            environ={},
        )
        if rules is not None:
            app.session.run.park_at_limits(rules)
        return app

    return build


class _Clock:
    def __init__(self) -> None:
        self.after_ms = 0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> _Clock:
    """What is looked at twice a minute is looked at at once, by a clock that the test sets."""
    clock = _Clock()
    monkeypatch.setattr(parking, "_POLL_S", 0.001)
    build = Parking.__init__

    def set_up(self: Parking, *arguments: object, **more: object) -> None:
        build(self, *arguments, **more)  # type: ignore[arg-type]
        now_ms = self._clock_ms
        self._clock_ms = lambda: now_ms() + clock.after_ms

    monkeypatch.setattr(Parking, "__init__", set_up)
    return clock


def run(main: Callable[[], Awaitable[None]]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(30):
            await main()

    asyncio.run(limited())


def _texts(app: TestedApp) -> list[str]:
    thread = app.harness.session.thread.get_id()
    assert thread is not None
    events = read_all(app.store, thread)
    kinds = {Parked: "parked", Unparked: "unparked"}
    return [
        event.text if isinstance(event, Message) else kinds[type(event)]
        for event in events
        if isinstance(event, Message | Parked | Unparked)
    ]


async def _until(app: TestedApp, *texts: str) -> None:
    for _ in range(20_000):
        if _texts(app) == list(texts):
            break
        await asyncio.sleep(0.001)
    assert _texts(app) == list(texts)
    await app.harness.session.wait_until_idle()


def test_a_parked_conversation_continues_once(clock: _Clock) -> None:
    async def main() -> None:
        async with opened(_build(ON), FULL, "Done.") as app:
            await app.send("go")
            assert _texts(app) == ["go", "parked"]
            clock.after_ms = HOUR
            await _until(app, "go", "parked", "unparked", CONTINUATION, "Done.")

    run(main)


def test_nothing_is_continued_where_it_was_not_asked_for(clock: _Clock) -> None:
    async def main() -> None:
        async with opened(_build(None), FULL) as app:
            clock.after_ms = HOUR
            await app.send("go")
            assert _texts(app) == ["go"]

    run(main)


def test_a_message_of_a_person_is_the_continuation(clock: _Clock) -> None:
    async def main() -> None:
        async with opened(_build(ON), FULL, "Done.") as app:
            await app.send("go")
            outcome = await app.send("go on")
            assert outcome.text == "Done."
            clock.after_ms = HOUR
            assert _texts(app) == ["go", "parked", "unparked", "go on", "Done."]

    run(main)


def test_stopping_it_ends_the_wait(clock: _Clock) -> None:
    async def main() -> None:
        async with opened(_build(ON), FULL) as app:
            await app.send("go")
            app.harness.session.abort()
            clock.after_ms = HOUR
            assert _texts(app) == ["go", "parked", "unparked"]

    run(main)


def test_another_process_continues_what_this_one_has_left(clock: _Clock) -> None:
    async def main() -> None:
        async with opened(_build(ON), FULL, "Done.") as app:
            await app.send("go")
            await app.restart()
            clock.after_ms = HOUR
            await _until(app, "go", "parked", "unparked", CONTINUATION, "Done.")

    run(main)


def test_what_was_to_be_continued_when_the_process_died_waits_for_a_person(clock: _Clock) -> None:
    async def main() -> None:
        async with opened(_build(ON), FULL) as app:
            await app.send("go")
            core = app.harness.session.internals
            parked = core.bus.fold.facts.limits.parked
            assert parked is not None
            core.append(Unparked(id=parked.id, reason="resumed"))
            clock.after_ms = HOUR
            await app.restart()
            assert app.harness.session.internals.bus.fold.facts.limits.is_resumed
            assert _texts(app) == ["go", "parked", "unparked"]

    run(main)


def test_nothing_is_continued_while_a_person_is_asked(clock: _Clock) -> None:
    async def main() -> None:
        async with opened(_build(ON), FULL, call("ask_user", question="Sure?")) as app:
            await app.send("go")
            core = app.harness.session.internals
            free = core.runs.parking._is_free
            core.runs.parking._is_free = lambda: False  # as while a question is open
            clock.after_ms = HOUR
            await asyncio.sleep(0.02)
            assert _texts(app) == ["go", "parked"]
            assert free()

    run(main)
