"""How a run ends: the model's reasons, its errors, and a session that is usable afterwards."""

from __future__ import annotations

import asyncio

import pytest

from harness.conversation.history import history
from harness.errors import UsageError
from harness.native.tools.function_tool import tool
from harness.session.config import Mode
from harness_kit import Model, call, log_of, opened
from running_kit import (
    NO_MODEL,
    YOLO,
    check,
    ends,
    errors,
    failing,
    in_loop,
    started,
    starts,
    stopping,
    texts,
)


@pytest.mark.parametrize("stop_reason", ["length", "refusal"])
@in_loop
async def test_an_answer_that_was_cut_off_is_an_error(stop_reason: str) -> None:
    model = Model(stopping("I was about", stop_reason), "Whole.")
    async with opened(model) as (harness, record):
        await harness.send_message(content="go")
        assert ends(record) == ["error"]
        assert (len(errors(record)), record.named("info")) == (1, [])
        last = record.named("message_end")[-1]["message"]
        assert (last["stopReason"], last["errorMessage"]) == ("error", errors(record)[0])
        await harness.send_message(content="again")
        assert ends(record) == ["error", "complete"]
        check(harness, log_of(harness))


@in_loop
async def test_an_answer_that_came_to_its_end_is_complete() -> None:
    async with opened(Model("Whole.")) as (harness, record):
        await harness.send_message(content="go")
        assert record.named("message_end")[-1]["message"]["stopReason"] == "complete"
        assert errors(record) == []


@in_loop
async def test_an_error_of_the_provider_is_reported_once_and_the_session_continues() -> None:
    model = Model(failing("the server is down"), "Back.")
    async with opened(model) as (harness, record):
        await harness.send_message(content="go")
        assert errors(record) == ["the server is down"]
        assert ends(record) == ["error"]
        assert not harness.session.run.is_running()
        await harness.send_message(content="again")
        assert texts(record)[-1] == "Back."
        assert model.received() == ["go", "again"]
        check(harness, log_of(harness))


@in_loop
async def test_a_model_that_breaks_is_an_error() -> None:
    class Broken(Model):
        def answer(self, ask: object) -> object:  # type: ignore[override]
            raise ValueError("broken in two")

    async with opened(Broken()) as (harness, record):
        await harness.send_message(content="go")
        assert "broken in two" in errors(record)[0]
        assert ends(record) == ["error"]
        check(harness, log_of(harness))


@in_loop
async def test_without_a_model_the_error_is_reported_and_the_message_is_stored() -> None:
    async with opened(Model("Now."), modes=[Mode(id="build")], initial_state=NO_MODEL) as (harness, record):
        await harness.send_message(content="go")
        assert (starts(record), ends(record)) == (1, ["error"])
        assert errors(record)[0].startswith("Mode build requires a defaultModelId")
        assert texts(record, "user") == ["go"]
        await harness.session.model.switch(model_id="test/model")
        await harness.send_message(content="again")
        assert ends(record) == ["error", "complete"]
        check(harness, log_of(harness))


@in_loop
async def test_a_model_that_no_one_knows_is_an_error_of_the_run() -> None:
    def resolve(model_id: str) -> Model:
        raise UsageError(f"unknown model: {model_id}", hint="there are others")

    async with opened(resolve_model=resolve) as (harness, record):
        await harness.send_message(content="go")
        assert errors(record) == ["unknown model: test/model; there are others"]
        assert ends(record) == ["error"]


@in_loop
async def test_tools_that_cannot_be_made_are_an_error_of_the_run() -> None:
    def tools(_context: object) -> list[object]:
        raise RuntimeError("no tools today")

    async with opened(tools=tools) as (harness, record):
        await harness.send_message(content="go")
        assert "no tools today" in errors(record)[0]
        assert ends(record) == ["error"]


@in_loop
async def test_a_tool_that_breaks_is_reported_to_the_model_and_the_run_continues() -> None:

    @tool
    async def work() -> str:
        """Work."""
        raise RuntimeError("it does not work")

    model = Model(call("work"), "I see.")
    async with opened(model, tools=[work], initial_state=YOLO) as (harness, record):
        await harness.send_message(content="go")
        assert "it does not work" in model.results()[0]
        assert record.named("tool_end")[0]["isError"] is True
        assert ends(record) == ["complete"]


@in_loop
async def test_a_resumed_run_has_its_whole_budget_of_steps() -> None:
    async def work(part: int) -> str:
        """Work."""
        return f"part {part} is done"

    # Each call differs: a model that makes the same one again and again is stopped before its steps are used up.
    works = [call("work", id=f"w{n}", part=n) for n in range(15)]
    turns = [call("ask_user", id="q", question="?"), *works, "Done."]
    async with opened(Model(*turns), tools=[work], initial_state=YOLO) as (harness, record):
        await harness.send_message(content="go")
        await harness.respond_to_tool_suspension(resume_data="yes")
        assert texts(record)[-1] == "Done."
        assert ends(record) == ["suspended", "complete"]


@in_loop
async def test_a_listener_that_throws_hurts_no_other() -> None:
    async with opened(Model("Yes.")) as (harness, record):

        def broken(_event: object) -> None:
            raise RuntimeError("listener")

        async def broken_later(_event: object) -> None:
            raise RuntimeError("listener")

        harness.subscribe(broken)
        harness.subscribe(broken_later)
        await harness.send_message(content="go")
        assert ends(record) == ["complete"]


@in_loop
async def test_what_could_not_be_sent_or_was_stopped_early_arrives_with_the_next_message() -> None:
    model = Model()
    is_broken = False

    def resolve(_model_id: str) -> Model:
        if is_broken:
            raise RuntimeError("no key")
        return model

    async with opened(model, resolve_model=resolve) as (harness, record):
        await harness.send_message(content="first")
        is_broken = True
        await harness.send_message(content="unsent")
        is_broken = False
        stopped = started(harness.send_message(content="stopped"))
        await asyncio.sleep(0)
        harness.abort()
        await stopped
        await harness.send_message(content="last")
        assert ends(record) == ["complete", "error", "aborted", "complete"]
        assert model.received() == ["first", "unsent", "stopped", "last"]
        kept = harness.session.internals.conversation
        assert kept is not None
        assert history(log_of(harness)).entries == kept.entries
