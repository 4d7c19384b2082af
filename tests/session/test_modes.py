"""Which mode and which models are in use: switched, remembered with the thread, and found again."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from harness.log.stores.memory import MemoryStore
from harness.session.config import MemoryDefaults, Mode, Subagent
from harness_kit import Model, StoreMaker, call, make, opened, run, storage

__all__ = ["storage"]

MODES = (
    Mode(id="plan", default_model_id="p/plan"),
    Mode(id="build", default_model_id="b/build"),
    Mode(id="free"),
)


def test_a_mode_is_emitted_before_its_model() -> None:
    async def work() -> None:
        async with opened(modes=MODES, storage=MemoryStore()) as (harness, record):
            await harness.create_thread()
            await harness.session.model.switch(model_id="p/own")
            record.clear()
            await harness.session.mode.switch(mode_id="build")
            assert record.wire == [
                {"type": "mode_changed", "modeId": "build", "previousModeId": "plan"},
                {"type": "model_changed", "modelId": "b/build"},
            ]
            assert (harness.session.mode.get(), harness.session.model.get()) == ("build", "b/build")
            thread = harness.session.thread
            assert await thread.get_setting(key="modeModelId_plan") == "p/own"
            assert await thread.get_setting(key="currentModeId") == "build"
            record.clear()
            await harness.session.mode.switch(mode_id="plan")
            assert record.wire[-1] == {"type": "model_changed", "modelId": "p/own"}
            record.clear()
            await harness.session.mode.switch(mode_id="free")
            assert record.types == ["mode_changed"]
            assert harness.session.model.get() == "p/own"

    run(work)


def test_switching_the_mode_stops_the_run_and_the_next_one_is_in_the_new_mode() -> None:
    async def work() -> None:
        async def wait() -> str:
            """Wait for ever."""
            await asyncio.Event().wait()
            return ""

        asked: list[str] = []
        model = Model(call("wait"))

        def resolve(model_id: str) -> Model:
            asked.append(model_id)
            return model

        modes = (
            Mode(id="plan", instructions="Plan."),
            Mode(id="build", default_model_id="b", instructions="Build."),
        )
        async with opened(
            model, modes=modes, tools=[wait], initial_state={"yolo": True}, resolve_model=resolve
        ) as (harness, record):
            going_on = asyncio.create_task(harness.send_message(content="go"))
            await record.until_emitted("tool_start")
            await harness.follow_up(content="afterwards")
            await harness.session.mode.switch(mode_id="build")
            await harness.send_message(content="at once")
            await going_on
            await harness.session.wait_until_idle()
            assert record.named("agent_end")[0] == {"type": "agent_end", "reason": "aborted"}
            assert asked[0] == "test/model"
            assert set(asked[1:]) == {"b"}
            assert model.system() == "Build."
            said = [text for turn in model.asked for text in model.received(model.asked.index(turn))]
            assert {"afterwards", "at once"} <= set(said)

    run(work)


def test_of_two_switches_at_once_the_last_one_counts_and_nothing_comes_late() -> None:
    async def work() -> None:
        async with opened(modes=MODES, storage=MemoryStore()) as (harness, record):
            await harness.create_thread()
            record.clear()
            switch = harness.session.mode.switch
            await asyncio.gather(switch(mode_id="build"), switch(mode_id="free"), switch(mode_id="plan"))
            assert harness.session.mode.get() == "plan"
            assert record.named("mode_changed")[-1]["modeId"] == "plan"
            assert await harness.session.thread.get_setting(key="currentModeId") == "plan"
            last_mode = record.types[::-1].index("mode_changed")
            assert record.types[::-1][:last_mode] in ([], ["model_changed"])

    run(work)


def test_the_model_of_a_mode_is_switched_for_the_thread_or_for_now() -> None:
    async def work() -> None:
        async with opened(modes=MODES, storage=MemoryStore()) as (harness, record):
            session = harness.session
            await harness.create_thread()
            record.clear()
            await session.model.switch(model_id="x/one")
            await session.model.switch(model_id="x/two", scope="global")
            await session.model.switch(model_id="x/three", mode_id="build")
            assert record.wire == [
                {"type": "model_changed", "modelId": "x/one", "scope": "thread", "modeId": "plan"},
                {"type": "model_changed", "modelId": "x/two", "scope": "global", "modeId": "plan"},
                {"type": "model_changed", "modelId": "x/three", "scope": "thread", "modeId": "build"},
            ]
            assert session.model.get() == "x/two"
            thread = session.thread
            assert await thread.get_setting(key="modeModelId_plan") == "x/one"
            assert await thread.get_setting(key="currentModelId") == "x/one"
            assert await thread.get_setting(key="modeModelId_build") == "x/three"
            await session.mode.switch(mode_id="build")
            assert session.model.get() == "x/three"

    run(work)


def test_the_use_of_a_model_is_counted_and_a_failing_count_holds_up_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def work() -> None:
        counted: list[str] = []

        async def count(model_id: str) -> None:
            counted.append(model_id)
            if model_id == "bad":
                raise RuntimeError("no counter")

        async with opened(model_use_count_tracker=count) as (harness, record):
            await harness.session.model.switch(model_id="good")
            with caplog.at_level(logging.WARNING):
                await harness.session.model.switch(model_id="bad")
            assert counted == ["good", "bad"]
            assert "no counter" in caplog.text
            assert [data["modelId"] for data in record.named("model_changed")] == ["good", "bad"]

    run(work)


def test_mode_and_models_are_found_again_with_the_thread(storage: StoreMaker) -> None:
    async def work() -> None:
        async with opened(modes=MODES, storage=storage.open()) as (harness, _):
            first = await harness.create_thread()
            await harness.session.mode.switch(mode_id="build")
            await harness.session.model.switch(model_id="b/own")
            second = await harness.create_thread()
            await harness.session.mode.switch(mode_id="plan")
        async with opened(modes=MODES, storage=storage.open()) as (harness, record):
            assert harness.session.mode.get() == "plan"
            await harness.switch_thread(thread_id=first.id)
            assert record.types == ["mode_changed", "thread_changed"]
            assert record.wire[0] == {"type": "mode_changed", "modeId": "build", "previousModeId": "plan"}
            assert (harness.session.mode.get(), harness.session.model.get()) == ("build", "b/own")
            record.clear()
            await harness.switch_thread(thread_id=second.id)
            assert record.wire[0] == {"type": "mode_changed", "modeId": "plan", "previousModeId": "build"}
            assert harness.session.model.get() == "p/plan"

    run(work)


@pytest.mark.parametrize(
    ("settings", "mode", "model"),
    [
        ({}, "plan", "p/plan"),
        ({"currentModeId": "gone", "currentModelId": "c/x"}, "plan", "p/plan"),
        ({"currentModeId": "free", "currentModelId": "c/x"}, "free", "c/x"),
        ({"currentModeId": "free", "modeModelId_free": "f/x", "currentModelId": "c/x"}, "free", "f/x"),
        ({"currentModeId": "build", "currentModelId": "c/x"}, "build", "b/build"),
        ({"currentModeId": "build", "modeModelId_build": "b/x"}, "build", "b/x"),
        ({"currentModeId": ["odd"], "currentModelId": {"odd": 1}}, "plan", "test/model"),
    ],
)
def test_the_order_in_which_mode_and_model_are_loaded(
    settings: dict[str, Any], mode: str, model: str
) -> None:
    async def work() -> None:
        store = MemoryStore()
        async with opened(modes=MODES, storage=store) as (harness, _):
            thread = await harness.create_thread()
        metadata = store.metadata(thread.id)
        metadata.settings = settings
        store.save_metadata(metadata)
        async with opened(modes=MODES, storage=store) as (harness, record):
            await harness.switch_thread(thread_id=thread.id)
            assert (harness.session.mode.get(), harness.session.model.get()) == (mode, model)
            assert record.types[-1] == "thread_changed"
            await harness.send_message(content="it works")
            assert record.types[-1] == "agent_end"

    run(work)


def test_memory_roles_fall_back_to_the_configuration_and_then_to_what_is_usual() -> None:
    bare = make().session.om
    assert (bare.observer.model_id(), bare.observer.threshold()) == ("google/gemini-2.5-flash", 30_000)
    assert (bare.reflector.model_id(), bare.reflector.threshold()) == ("google/gemini-2.5-flash", 40_000)
    defaults = MemoryDefaults(
        default_observer_model_id="o/x",
        default_reflector_model_id="r/x",
        default_observation_threshold=11,
        default_reflection_threshold=12,
    )
    emitted = make(om_config=defaults).session.om
    assert (emitted.observer.model_id(), emitted.observer.threshold()) == ("o/x", 11)
    assert (emitted.reflector.model_id(), emitted.reflector.threshold()) == ("r/x", 12)
    state = {"observerModelId": "o/y", "observationThreshold": 21}
    said = make(om_config=defaults, initial_state=state).session.om
    assert (said.observer.model_id(), said.observer.threshold()) == ("o/y", 21)
    assert (said.reflector.model_id(), said.reflector.threshold()) == ("r/x", 12)
    assert said.observer.resolved_model().name == "test/model"


def test_the_model_of_a_memory_role_is_switched_with_the_thread(storage: StoreMaker) -> None:
    async def work() -> None:
        async with opened(storage=storage.open()) as (harness, record):
            thread = await harness.create_thread()
            record.clear()
            await harness.session.om.observer.switch_model(model_id="o/new")
            await harness.session.om.reflector.switch_model(model_id="r/new")
            assert record.types == ["state_changed", "om_model_changed"] * 2
            assert record.named("om_model_changed") == [
                {"type": "om_model_changed", "role": "observer", "modelId": "o/new"},
                {"type": "om_model_changed", "role": "reflector", "modelId": "r/new"},
            ]
            assert await harness.session.thread.get_setting(key="observerModelId") == "o/new"
        async with opened(storage=storage.open()) as (harness, _):
            assert harness.session.om.observer.model_id() != "o/new"
            await harness.switch_thread(thread_id=thread.id)
            assert harness.session.om.observer.model_id() == "o/new"
            assert harness.session.om.reflector.model_id() == "r/new"

    run(work)


def test_thresholds_that_a_thread_does_not_know_are_written_when_it_is_opened() -> None:
    async def work() -> None:
        store = MemoryStore()
        async with opened(storage=store) as (harness, _):
            thread = await harness.create_thread()
        async with opened(storage=store, om_config=MemoryDefaults(default_observation_threshold=77)) as (
            harness,
            record,
        ):
            await harness.switch_thread(thread_id=thread.id)
            kept = store.metadata(thread.id).settings
            assert (kept["observationThreshold"], kept["reflectionThreshold"]) == (77, 40_000)
            assert record.types == ["thread_changed"]
        async with opened(storage=store, om_config=MemoryDefaults(default_observation_threshold=99)) as (
            harness,
            _,
        ):
            await harness.switch_thread(thread_id=thread.id)
            assert harness.session.om.observer.threshold() == 77

    run(work)


def test_subagents_have_models_by_type_and_in_common(storage: StoreMaker) -> None:
    async def work() -> None:
        async with opened(storage=storage.open()) as (harness, record):
            models = harness.session.subagents.model
            thread = await harness.create_thread()
            assert models.get() is None
            assert models.get(agent_type="explore") is None
            record.clear()
            await models.set(model_id="s/all")
            await models.set(model_id="s/explore", agent_type="explore")
            assert record.named("subagent_model_changed") == [
                {"type": "subagent_model_changed", "modelId": "s/all", "scope": "thread"},
                {
                    "type": "subagent_model_changed",
                    "modelId": "s/explore",
                    "scope": "thread",
                    "agentType": "explore",
                },
            ]
            assert models.get() == "s/all"
            assert models.get(agent_type="explore") == "s/explore"
            assert models.get(agent_type="other") == "s/all"
            assert await harness.session.thread.get_setting(key="subagentModelId_explore") == "s/explore"
        async with opened(storage=storage.open()) as (harness, _):
            await harness.switch_thread(thread_id=thread.id)
            assert harness.session.subagents.model.get(agent_type="explore") == "s/explore"

    run(work)


def test_the_chosen_model_is_the_one_a_subagent_gets() -> None:
    async def work() -> None:
        asked: list[str] = []
        model = Model(call("subagent", agentType="explore", task="look"))

        def resolve(model_id: str) -> Model:
            asked.append(model_id)
            return model

        explore = Subagent(id="explore", name="Explore", description="Looks.", default_model_id="d/x")
        options = {"subagents": [explore], "initial_state": {"yolo": True}}
        async with opened(model, resolve_model=resolve, **options) as (harness, record):
            await harness.session.subagents.model.set(model_id="s/explore", agent_type="explore")
            await harness.send_message(content="go")
            assert asked == ["test/model", "s/explore"]
            assert record.named("subagent_end")[0]["isError"] is False

    run(work)
