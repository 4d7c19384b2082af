"""The kit for tests of applications says what went wrong, and works as its docstring shows it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from harness import Harness, Mode, Model, Store
from harness.testing.sessions import answer, approve, call, decline, fail, opened, plan, think, used


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


def test_a_question_outlives_the_process() -> None:
    async def main() -> None:
        async with opened(build, call("deploy", place="here"), call("deploy", place="there"), "Done.") as app:
            question = await app.send_until_asked("go")
            assert question.tool_name == "deploy"
            await app.restart()
            assert [one.args for one in app.harness.questions()] == [{"place": "here"}]
            app.answers(approve("deploy"), decline("deploy", "not there"))
            outcome = await app.resume()
            assert (outcome.outcome, outcome.text) == ("completed", "Done.")
            app.assert_calls("deploy", "deploy")
            with pytest.raises(AssertionError, match="nothing waits for an answer"):
                await app.resume()

    run(main)


def test_a_question_for_words_and_a_plan_outlive_it_as_well() -> None:
    async def main() -> None:
        responses = (call("ask_user", question="Which?"), call("submit_plan", plan="1. do it"), "Never said.")
        async with opened(build, *responses) as app:
            assert (await app.send_until_asked("go")).tool_name == "ask_user"
            await app.restart()
            app.answers(answer("blue"), plan(approved=True))
            await app.resume()
            assert app.harness.session.mode.get() == "build"

    run(main)


def test_without_a_question_there_is_nothing_to_leave_waiting() -> None:
    async def main() -> None:
        async with opened(build, "Done.", call("deploy", place="here"), "Done.") as app:
            with pytest.raises(AssertionError, match="nothing was asked"):
                await app.send_until_asked("go")
            await app.send_until_asked("go")
            await app.restart()
            app.answers(decline("ask_user"))
            with pytest.raises(AssertionError, match="deploy asked, and ask_user was expected to"):
                await app.resume()

    run(main)


def test_a_model_that_thinks_and_one_that_fails() -> None:
    async def main() -> None:
        async with opened(build, think("Let me see.", "It is so."), fail("too many requests")) as app:
            assert (await app.send("go")).text == "It is so."
            assert [event.thinking for event in app.events if event.type == "thinking"] == ["Let me see."]
            outcome = await app.send("again")
            assert (outcome.outcome, outcome.error) == ("failed", "too many requests")

    run(main)
