"""Observational memory in a session: it watches, notes, shows its notes instead of messages, and fails aloud."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.events import BufferingEnd, ObservationEnd, Result, ThreadRenamed, UsageDelta
from harness.log.stores.files import FileStore
from harness.runs.audit import check as audit
from harness.session.config import MemoryDefaults
from harness.session.memory.config import Memory
from harness_kit import Model, Record, call, log_of, opened, used
from running_kit import (
    YOLO,
    Gate,
    Live,
    check,
    ends,
    errors,
    failing,
    halting,
    in_loop,
    plain,
    started,
    texts,
)

LONG = "word " * 400
"""About 500 tokens."""


def notes(*lines: str, title: str = "") -> str:
    """What an observer answers."""
    listed = "\n".join(f"* (10:00) {line}" for line in lines)
    titled = f"\n<thread-title>\n{title}\n</thread-title>" if title else ""
    return f"<observations>\nDate: Nov 15, 2026\n{listed}\n</observations>{titled}"


def setting(
    model: Model, observer: Model | None = None, reflector: Model | None = None, **observation: Any
) -> dict[str, Any]:
    """A harness whose models are distinguished by their ids, with a memory of small thresholds."""
    models = {"observer": observer or Model(), "reflector": reflector or Model()}
    config = {
        "observation": {"messageTokens": 600, "bufferTokens": False, **observation},
        "reflection": {"observationTokens": 5000},
    }
    return {
        "memory": Memory(observational=config),
        "om_config": MemoryDefaults(
            default_observer_model_id="observer", default_reflector_model_id="reflector"
        ),
        "resolve_model": lambda model_id: models.get(model_id, model),
        "tools": [plain("read", LONG)],
        "initial_state": YOLO,
    }


def om(record: Record) -> list[str]:
    return [name for name in record.types if name.startswith("om_") and name != "om_status"]


@in_loop
async def test_each_step_reports_how_full_it_is() -> None:
    async with opened(**setting(Model("Hello.", "Again."))) as (harness, record):
        await harness.send_message(content="hi")
        [status] = record.named("om_status")
        assert status["windows"]["active"]["messages"]["threshold"] == 600
        assert status["windows"]["active"]["messages"]["tokens"] > 0
        assert (status["threadId"], status["stepNumber"]) == (harness.session.thread.get_id(), 0)
        shown = harness.session.display_state.get().om_progress
        assert (shown.threshold, shown.status) == (600, "idle")


@in_loop
async def test_messages_that_outgrow_the_threshold_in_a_run_become_notes() -> None:
    model = Model(call("read"), call("read", id="c2"), "Done.", "Yes.")
    observer = Model(notes("The user wants a file read.", "It holds words."))
    async with opened(**setting(model, observer)) as (harness, record):
        await harness.send_message(content="read it")
        assert om(record) == ["om_observation_start", "om_observation_end"]
        end = record.named("om_observation_end")[0]
        assert "It holds words." in end["observations"]
        assert harness.session.display_state.get().om_progress.observation_tokens > 0
        seen = [getattr(turn, "text", "") for turn in model.asked[-1][0]]
        assert any("It holds words." in text for text in seen)
        assert sum(text == LONG for text in seen) == 1  # of two: the rest is noted
        assert ends(record) == ["complete"]
        record_ = await harness.get_observational_memory_record()
        assert "It holds words." in record_.active_observations
        assert record_.thread_id == harness.session.thread.get_id()
        marks = [
            part for part in record.named("message_end")[-1]["message"]["content"] if "om_" in part["type"]
        ]
        assert [part["type"] for part in marks] == om(record)
        check(harness, log_of(harness))


@in_loop
async def test_what_was_buffered_in_the_background_is_activated_without_a_model() -> None:
    model = Model(*[f"Answer {number}. {LONG}" for number in range(4)], "Last.")
    observer = Model(*[notes(f"Note {number}.") for number in range(8)])
    async with opened(**setting(model, observer, messageTokens=1500, bufferTokens=400)) as (harness, record):
        for number in range(5):
            await harness.send_message(content=f"question {number}")
            memory = harness.session.internals.hooks.memory.memory
            assert memory is not None
            await memory.settle()
        assert "om_buffering_end" in om(record)
        assert "om_activation" in om(record)
        assert "om_observation_start" not in om(record)
        activation = record.named("om_activation")[0]
        assert (activation["triggeredBy"], activation["operationType"]) == ("threshold", "observation")
        assert "Note 0." in (await harness.get_observational_memory_record()).active_observations


@in_loop
async def test_notes_that_grow_too_long_are_reflected_on_in_a_new_generation() -> None:
    lines = [f"Fact number {number} of many." for number in range(40)]
    model = Model(call("read"), call("read", id="c2"), "Done.")
    reflector = Model(notes("Forty facts."))
    options = setting(model, Model(notes(*lines)), reflector)
    options["memory"] = Memory(
        observational={
            "observation": {"messageTokens": 600, "bufferTokens": False},
            "reflection": {"observationTokens": 200},
        }
    )
    async with opened(**options) as (harness, record):
        await harness.send_message(content="read it")
        assert om(record)[:4] == [
            "om_observation_start",
            "om_observation_end",
            "om_reflection_start",
            "om_reflection_end",
        ]
        kept = await harness.get_observational_memory_record()
        assert kept.generation_count == 1
        assert "Forty facts." in kept.active_observations


@in_loop
async def test_a_title_that_the_observer_finds_becomes_the_threads(tmp_path: Path) -> None:
    model = Model(call("read"), call("read", id="c2"), "Done.")
    observer = Model(notes("It holds words.", title="Reading a file"))
    options = {**setting(model, observer, threadTitle=True), "storage": FileStore(str(tmp_path))}
    async with opened(**options) as (harness, record):
        await harness.create_thread(title="New thread")
        await harness.send_message(content="read it")
        [renamed] = record.named("om_thread_title_updated")
        assert (renamed["oldTitle"], renamed["newTitle"]) == ("New thread", "Reading a file")
        assert harness.session.thread.list()[0].title == "Reading a file"
        assert [event.title for event in log_of(harness) if isinstance(event, ThreadRenamed)] == [
            "Reading a file"
        ]


@in_loop
async def test_a_failed_observation_stops_the_run_with_its_exact_words_and_nothing_after() -> None:
    model = Model(call("read"), call("read", id="c2"), "Never.", "Again.")
    observer = Model(failing("bad key", "http_401"))
    async with opened(**setting(model, observer, bufferOnIdle=False)) as (harness, record):
        await harness.send_message(content="read it")
        assert record.types[-4:] == ["om_observation_failed", "error", "message_end", "agent_end"]
        assert errors(record) == ["Observational memory observation run failed: bad key"]
        assert ends(record) == ["aborted"]
        assert record.named("om_observation_failed")[0]["error"] == "bad key"
        check(harness, log_of(harness))
        assert isinstance(log_of(harness)[-1], Result)


@in_loop
async def test_a_run_that_is_stopped_while_it_is_noted_down_has_no_error() -> None:
    model, gate = Model(call("read"), call("read", id="c2"), "Never."), Gate()
    async with opened(**setting(model, Live(halting(gate)))) as (harness, record):
        going = started(harness.send_message(content="read it"))
        await gate.come()
        harness.abort()
        await going
        assert om(record) == ["om_observation_start", "om_observation_failed"]
        assert (errors(record), ends(record)) == ([], ["aborted"])


@in_loop
async def test_a_failure_in_the_background_stops_the_active_run() -> None:
    gate = Gate()
    model = Live(f"One. {LONG}", halting(gate), "Two.")
    options = setting(model, Model(failing("bad key", "http_401")), messageTokens=3000, bufferTokens=300)
    async with opened(**options) as (harness, record):
        await harness.send_message(content="hello")
        first = started(harness.send_message(content="go"))
        await first
        assert gate.was_stopped
        assert "Observational memory observation buffering failed: bad key" in errors(record)
        at_failure = record.types.index("om_buffering_failed")
        assert record.types[at_failure + 1] == "error"
        assert ends(record)[-1] == "aborted"
        assert record.types[-1] == "agent_end"
        assert len(errors(record)) == 1
        check(harness, log_of(harness))


@in_loop
async def test_the_session_is_usable_after_a_failure() -> None:
    model = Model(call("read"), call("read", id="c2"), call("read", id="c3"), "Done.")
    observer = Model(failing("bad key", "http_401"), notes("It holds words."))
    async with opened(**setting(model, observer)) as (harness, record):
        await harness.send_message(content="read it")
        assert ends(record) == ["aborted"]
        await harness.send_message(content="again")
        assert ends(record) == ["aborted", "complete"]
        assert texts(record)[-1] == "Done."


@in_loop
async def test_what_the_observer_uses_is_counted_with_the_thread(tmp_path: Path) -> None:
    model = Model(call("read"), call("read", id="c2"), used("Done.", inputTokens=10, outputTokens=1))
    observer = Model(used(notes("It holds words."), inputTokens=700, outputTokens=30), name="observer/model")
    store = FileStore(str(tmp_path))
    async with opened(**{**setting(model, observer), "storage": store}) as (harness, record):
        await harness.send_message(content="read it")
        assert harness.session.get_token_usage().prompt_tokens == 710
        thread_id = harness.session.thread.require_id()
        [of_memory] = [
            event for event in log_of(harness) if isinstance(event, UsageDelta) and event.run_id == thread_id
        ]
        assert (of_memory.model, of_memory.usage.input) == ("observer/model", 700)
        assert [data["usage"]["promptTokens"] for data in record.named("usage_update")] == [700, 10]
        [result] = [event for event in log_of(harness) if isinstance(event, Result)]
        assert result.usage is not None
        assert result.usage.input == 10
    assert audit(store, thread_id).problems == []


@in_loop
async def test_secrets_that_the_observer_repeats_are_masked() -> None:
    secret = "sk-ant-api03-" + "Abc123Xyz" * 9 + "AA"
    model = Model(call("read"), call("read", id="c2"), "Done.")
    observer = Model(notes(f"The key is {secret}.", title=f"About {secret}"))
    async with opened(**setting(model, observer, threadTitle=True)) as (harness, record):
        await harness.send_message(content="read it")
        [end] = [event for event in log_of(harness) if isinstance(event, ObservationEnd)]
        assert "The key is" in end.observations
        assert secret not in str(log_of(harness))
        assert secret not in str(record.wire)
        assert secret not in str(await harness.get_observational_memory_record())


@in_loop
async def test_a_clone_remembers_what_the_thread_did(tmp_path: Path) -> None:
    model = Model(call("read"), call("read", id="c2"), "Done.", "In the clone.", "In the thread.")
    options = {**setting(model, Model(notes("It holds words."))), "storage": FileStore(str(tmp_path))}
    async with opened(**options) as (harness, _):
        await harness.create_thread(id="t1")
        await harness.send_message(content="read it")
        original = await harness.get_observational_memory_record()
        await harness.clone_thread()
        cloned = await harness.get_observational_memory_record()
        assert cloned.active_observations == original.active_observations
        assert cloned.thread_id == harness.session.thread.get_id() != "t1"
        await harness.send_message(content="what do you know?")
        assert any("It holds words." in getattr(turn, "text", "") for turn in model.asked[-1][0])
        await harness.switch_thread(thread_id="t1")
        assert (await harness.get_observational_memory_record()).thread_id == "t1"


@in_loop
async def test_the_record_and_its_progress_are_there_in_another_process(tmp_path: Path) -> None:
    model = Model(call("read"), call("read", id="c2"), "Done.")
    options = {**setting(model, Model(notes("It holds words."))), "storage": FileStore(str(tmp_path))}
    async with opened(**options) as (harness, _):
        assert await harness.get_observational_memory_record() is None
        await harness.create_thread()
        assert await harness.get_observational_memory_record() is None
        await harness.send_message(content="read it")
    model = Model("Yes.")
    options = {**setting(model), "storage": FileStore(str(tmp_path))}
    async with opened(**options) as (harness, record):
        await harness.select_or_create_thread()
        kept = await harness.get_observational_memory_record()
        assert "It holds words." in kept.active_observations
        await harness.load_om_progress()
        [status] = record.named("om_status")
        assert status["windows"]["active"]["observations"]["tokens"] > 0
        assert status["windows"]["active"]["messages"]["threshold"] == 600
        await harness.send_message(content="what do you know?")
        assert any("It holds words." in getattr(turn, "text", "") for turn in model.asked[-1][0])


@in_loop
async def test_thresholds_of_the_thread_count_before_those_of_the_memory(tmp_path: Path) -> None:
    store = FileStore(str(tmp_path))
    async with opened(**{**setting(Model("One.", "Two.")), "storage": store}) as (harness, record):
        assert harness.session.om.observer.threshold() == 600
        await harness.create_thread()
        await harness.session.thread.set_setting(key="observationThreshold", value=900)
        thread_id = harness.session.thread.require_id()
        await harness.create_thread()
        await harness.switch_thread(thread_id=thread_id)
        assert harness.session.om.observer.threshold() == 900
        await harness.send_message(content="hi")
        assert record.named("om_status")[-1]["windows"]["active"]["messages"]["threshold"] == 900


@in_loop
async def test_what_is_still_being_observed_when_the_thread_is_left_goes_into_no_other() -> None:
    gate = Gate()
    model = Model(f"One. {LONG}", f"Two. {LONG}", "Three.")
    observer = Live(halting(gate, notes("Late."), ""))
    async with opened(**setting(model, observer, messageTokens=3000, bufferTokens=300)) as (harness, record):
        await harness.create_thread(id="t1")
        await harness.send_message(content="hello")
        await harness.send_message(content="hello again")
        await gate.come()
        await harness.create_thread(id="t2")
        gate.open()
        await harness.send_message(content="another")
        assert not [event for event in log_of(harness, "t2") if isinstance(event, BufferingEnd)]
        assert errors(record) == []
        assert ends(record) == ["complete"] * 3


@in_loop
async def test_without_a_memory_there_is_no_record_and_nothing_is_reported() -> None:
    async with opened(Model("Hi.")) as (harness, record):
        await harness.send_message(content="hi")
        await harness.load_om_progress()
        assert await harness.get_observational_memory_record() is None
        assert not [name for name in record.types if name.startswith("om_")]


@pytest.mark.parametrize("gap_ms", [60_000, 3_600_000])
@in_loop
async def test_a_long_pause_is_marked_before_the_message(gap_ms: int) -> None:
    model = Model("One.", "Two.")
    options = setting(model)
    options["memory"] = Memory(observational={"temporalMarkers": True})
    async with opened(**options) as (harness, record):
        real, later_ms = harness.internals.clock, [0]
        harness.internals.clock = lambda: real() + later_ms[0]
        await harness.send_message(content="hello")
        later_ms[0] = gap_ms
        await harness.send_message(content="still there?")
        reminders = record.named("system_reminder")
        assert len(reminders) == (gap_ms > 600_000)
        if reminders:
            assert reminders[0]["reminderType"] == "temporal-gap"
            assert model.received()[-2].startswith("<system-reminder")
            assert model.received()[-1] == "still there?"


@in_loop
async def test_the_originals_can_be_recalled_with_a_tool() -> None:
    model = Model("One.", call("recall", mode="messages"), "I remember.")
    options = setting(model)
    options["memory"] = Memory(observational={"retrieval": True})
    async with opened(**options) as (harness, _):
        await harness.send_message(content="the word is banana")
        assert "recall" in model.tool_names()
        await harness.send_message(content="what was the word?")
        assert "banana" in model.results()[0]


def of_threads(**notes_by_thread: str) -> str:
    """What an observer answers who was given several conversations."""
    emitted = "\n".join(
        f'<thread id="{id}">\n* (10:00) {line}\n</thread>' for id, line in notes_by_thread.items()
    )
    return f"<observations>\n{emitted}\n</observations>"


@in_loop
async def test_one_memory_may_be_of_all_threads_of_a_resource(tmp_path: Path) -> None:
    model = Model("Noted.", call("read"), call("read", id="c2"), "Done.", "Again.")
    observer = Model(of_threads(t1="The word is banana.", t2="A file was read."))
    options = {**setting(model, observer), "storage": FileStore(str(tmp_path))}
    options["memory"] = Memory(observational={"scope": "resource", "observation": {"messageTokens": 600}})
    async with opened(**options) as (harness, record):
        await harness.create_thread(id="t1")
        await harness.send_message(content="the word is banana")
        await harness.create_thread(id="t2")
        await harness.send_message(content="read it")
        assert any("the word is banana" in getattr(turn, "text", "") for turn in model.asked[1][0])
        assert len(record.named("om_observation_end")) == 2
        kept = await harness.get_observational_memory_record()
        assert (kept.thread_id, kept.resource_id) == (None, "h")
        assert "banana" in kept.active_observations
    options = {**options, "storage": FileStore(str(tmp_path))}
    async with opened(**options) as (harness, record):
        await harness.switch_thread(thread_id="t2")
        await harness.send_message(content="what was the word?")
        assert not record.named("om_observation_start")
        seen = [getattr(turn, "text", "") for turn in model.asked[-1][0]]
        assert any("The word is banana." in text for text in seen)
        assert "read it" not in seen
