"""Which failures of a model pass by themselves, and how long one waits for them."""

from __future__ import annotations

import asyncio

import pytest

from harness.contracts.model import Ask, UserTurn
from harness.events import Error
from harness.session.memory.ask_text import ModelFailed, RetryPolicy, answer_text, is_transient
from memory_bench import Answering, run

ASK = Ask(turns=(UserTurn("hello"),))


def _with(error: Exception, **attributes: object) -> Exception:
    for name, value in attributes.items():
        setattr(error, name, value)
    return error


def _caused(outer: Exception, inner: BaseException) -> Exception:
    outer.__cause__ = inner
    return outer


@pytest.mark.parametrize(
    "error",
    [
        ModelFailed("slow down", "http_429"),
        ModelFailed("no", "http_408"),
        ModelFailed("no", "http_425"),
        ModelFailed("no", "http_500"),
        ModelFailed("no", "http_599"),
        ModelFailed("overloaded", "overloaded_error"),
        ModelFailed("cannot connect", "connection"),
        ModelFailed("ECONNRESET while reading"),
        ModelFailed("socket hang up"),
        ModelFailed("the request timed out"),
        ConnectionResetError("gone"),
        TimeoutError(),
        _with(RuntimeError("who knows"), is_retryable=True),
        _with(RuntimeError("who knows"), status_code=503),
        _caused(RuntimeError("wrapped"), ConnectionResetError()),
        _caused(RuntimeError("wrapped"), _caused(ValueError("again"), ModelFailed("", "http_502"))),
    ],
    ids=repr,
)
def test_what_passes_is_tried_again(error: Exception) -> None:
    assert is_transient(error)


@pytest.mark.parametrize(
    "error",
    [
        ModelFailed("wrong key", "http_401"),
        ModelFailed("no such model, connection closed", "http_404"),
        ModelFailed("bad schema"),
        ValueError("nonsense"),
        asyncio.CancelledError(),
        _caused(ConnectionResetError(), asyncio.CancelledError()),
    ],
    ids=repr,
)
def test_what_does_not_pass_is_not(error: BaseException) -> None:
    assert not is_transient(error)


def test_an_error_that_causes_itself_is_looked_at_once() -> None:
    first, second = RuntimeError("a"), RuntimeError("b")
    first.__cause__, second.__cause__ = second, first
    assert not is_transient(first)


@pytest.mark.parametrize(("chance", "factor"), [(0.5, 1.0), (0.0, 0.8), (1.0, 1.2)])
def test_waiting_doubles_up_to_two_minutes_give_or_take_a_fifth(chance: float, factor: float) -> None:
    retry = RetryPolicy(chance=lambda: chance)
    waits = [retry.wait_s(tried) for tried in range(retry.retries)]
    assert waits == pytest.approx([factor * wait for wait in (1, 2, 4, 8, 16, 32, 64, 120)])


def test_eight_retries_then_the_model_has_failed() -> None:
    model = Answering(*[Error(message="busy", code="http_503")] * 20)
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    with pytest.raises(ModelFailed, match="busy"):
        run(answer_text(model, ASK, RetryPolicy(sleep=sleep)))
    assert (len(model.asked), len(waits)) == (9, 8)


def test_one_retry_is_enough_when_it_helps() -> None:
    async def sleep(_seconds: float) -> None:
        return None

    model = Answering(ConnectionResetError("gone"), "hello")
    assert run(answer_text(model, ASK, RetryPolicy(sleep=sleep))) == "hello"
    model = Answering(Error(message="wrong key", code="http_401"), "hello")
    with pytest.raises(ModelFailed, match="wrong key"):
        run(answer_text(model, ASK, RetryPolicy(sleep=sleep)))


def test_nothing_waits_on_after_being_stopped() -> None:
    async def check() -> None:
        forever = asyncio.Event()

        async def sleep(_seconds: float) -> None:
            await forever.wait()

        model = Answering(ConnectionResetError("gone"), "hello")
        task = asyncio.create_task(answer_text(model, ASK, RetryPolicy(sleep=sleep)))
        await model.was_asked.wait()
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(check())
