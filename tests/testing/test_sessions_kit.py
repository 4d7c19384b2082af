"""The kit for tests of applications says what went wrong, and works as its docstring shows it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from harness import Harness, Mode, Model, Store
from harness.testing.sessions import answer, approve, call, decline, opened, plan, used


async def deploy(place: str) -> str:
    "Deploy it."
    return f"deployed to {place}"


def build(model: Model, store: Store) -> Harness:
    modes = [Mode(id="plan", transitions_to="build", default=True, default_model_id="m"), Mode(id="build")]
    return Harness(
        id="app", modes=modes, storage=store, tools=[deploy], resolve_model=lambda _: model, environ={}
    )


def run(main: Callable[[], Awaitable[None]]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(60):
            await main()

    asyncio.run(limited())


def test_answers_are_given_in_order() -> None:
    async def main() -> None:
        responses = (
            call("deploy", place="here"),
            call("deploy", place="there"),
            call("ask_user", question="Sure?"),
            used("Done.", input=10, output=2),
        )
        async with opened(build, *responses) as app:
            app.answers(approve("deploy"), decline("deploy", "not there"), answer("yes"))
            outcome = await app.send("go")
            assert outcome.text == "Done."
            app.assert_calls("deploy", "deploy", "ask_user")
            assert "deploy" in app.model.tools()
            assert app.model.prefix_is_stable()
            with pytest.raises(AssertionError, match="called: deploy"):
                app.assert_calls("deploy")

    run(main)


def test_a_plan_is_reviewed_and_a_restart_forgets_nothing() -> None:
    async def main() -> None:
        async with opened(build, call("submit_plan", plan="1. do it"), "One.") as app:
            app.answers(plan(approved=True))
            await app.send("plan it")
            assert app.harness.session.mode.get() == "build"
            await app.restart()
            assert app.harness.session.mode.get() == "build"
            await app.send("again")
            assert len(app.model.asked) == 2

    run(main)


def test_what_was_not_expected_fails_the_test() -> None:
    async def main() -> None:
        async with opened(build, call("deploy", place="here"), "Done.", "Done.") as app:
            with pytest.raises(AssertionError, match="deploy asked, and nothing was expected to"):
                await app.send("go")
            app.answers(approve("deploy"))
            with pytest.raises(AssertionError, match="nothing asked about deploy"):
                await app.send("again")

    run(main)
