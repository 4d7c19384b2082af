"""Signals in a session: how each reaches the model, live and from the history, and what becomes of those who send."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.errors import UsageError
from harness.events import SessionStart, Signal
from harness.folds.session.encoding import to_wire
from harness.log.stores.files import FileStore
from harness_kit import Model, call, log_of, opened
from running_kit import (
    YOLO,
    Gate,
    Live,
    check,
    ends,
    errors,
    halting,
    in_loop,
    started,
    starts,
    texts,
    waiting,
)

REMINDER = {"type": "reactive", "contents": "Save your work.", "attributes": {"type": "save"}}


@in_loop
async def test_without_an_active_run_it_wakes_the_agent() -> None:
    model = Model("Saved.")
    async with opened(model) as (harness, record):
        sent = await harness.send_signal(REMINDER)
        await harness.session.wait_until_idle()
        [start] = [event for event in log_of(harness) if isinstance(event, SessionStart)]
        assert (sent.type, sent.accepted.action, sent.accepted.run_id) == ("reactive", "wake", start.run_id)
        assert model.received() == ['<system-reminder type="save">Save your work.</system-reminder>']
        assert texts(record) == ["Saved."]
        assert record.types.index("thread_created") < record.types.index("agent_start")
        check(harness, log_of(harness))


@in_loop
async def test_a_running_agent_is_informed_with_its_next_step() -> None:
    gate = Gate()
    model = Live(call("work"), "Saved.")
    async with opened(model, tools=[waiting(gate)], initial_state=YOLO) as (harness, record):
        first = started(harness.send_message(content="go"))
        await gate.come()
        sent = await harness.send_signal(REMINDER)
        assert sent.accepted.action == "deliver"
        assert sent.accepted.run_id == harness.get_current_run_id()
        gate.open()
        await first
        assert model.received()[-1].startswith("<system-reminder")
        assert starts(record) == 1


@in_loop
async def test_a_persons_words_with_attributes_are_answered_by_the_run_that_continues() -> None:
    gate = Gate()
    model = Live(halting(gate), "And that.")
    async with opened(model) as (harness, record):
        first = started(harness.send_message(content="go"))
        await gate.come()
        await harness.send_signal({"type": "user", "contents": "also this", "attributes": {"from": "Ann"}})
        gate.open()
        await first
        assert model.received()[-1] == '<user from="Ann">also this</user>'
        assert texts(record) == ["Let me", " see.And that."]
        said = [data["message"] for data in record.named("message_end") if data["message"]["role"] == "user"]
        assert said[-1]["attributes"] == {"from": "Ann"}


@pytest.mark.parametrize("behavior", ["persist", "discard"])
@in_loop
async def test_it_may_be_stored_for_later_or_thrown_away(behavior: str) -> None:
    model = Model("Yes.")
    async with opened(model) as (harness, record):
        sent = await harness.send_signal(REMINDER, if_idle={"behavior": behavior})
        assert sent.accepted.action == behavior
        assert sent.accepted.run_id == ""
        assert starts(record) == 0
        await harness.send_message(content="hi")
        received = [text for text in model.received() if text.startswith("<system-reminder")]
        assert len(received) == (behavior == "persist")


@in_loop
async def test_attributes_may_depend_on_whether_a_run_is_active() -> None:
    model = Model("Yes.")
    async with opened(model) as (harness, _):
        await harness.send_signal(REMINDER, if_idle={"attributes": {"idle": True}})
        await harness.session.wait_until_idle()
        assert 'idle="true"' in model.received()[0]


@in_loop
async def test_what_cannot_be_is_refused_and_what_fails_later_is_reported() -> None:
    async with opened(Model(), initial_state={"currentModelId": ""}) as (harness, record):
        with pytest.raises(UsageError, match="Invalid signal type"):
            await harness.send_signal({"type": "nonsense", "contents": "x"})
        with pytest.raises(UsageError, match="cannot deliver"):
            await harness.send_signal(REMINDER, if_idle={"behavior": "deliver"})
        await harness.send_signal(REMINDER)
        await harness.session.wait_until_idle()
        assert errors(record)[0].startswith("Mode build requires a defaultModelId")
        assert ends(record) == ["error"]


@in_loop
async def test_a_question_that_waits_is_not_given_up_for_a_reminder() -> None:
    model = Model(call("ask_user", question="Which?"), "Saved, and b.")
    async with opened(model) as (harness, record):
        await harness.send_message(content="go")
        sent = await harness.send_signal(REMINDER)
        assert sent.accepted.action == "persist"
        assert harness.session.suspensions.has_pending()
        await harness.respond_to_tool_suspension(resume_data="b")
        assert model.results() == ["User answered: b"]
        assert model.received()[-1].startswith("<system-reminder")
        assert ends(record) == ["suspended", "complete"]
        check(harness, log_of(harness))


@in_loop
async def test_a_reminder_may_be_stored_with_the_thread(tmp_path: Path) -> None:
    model = Model("I will.")
    async with opened(model, storage=FileStore(str(tmp_path))) as (harness, record):
        assert await harness.save_system_reminder_message(message="Be brief.", reminder_type="style") is None
        await harness.create_thread()
        saved = await harness.save_system_reminder_message(message="Be brief.", reminder_type="style")
        assert saved is not None
        assert saved.role == "user"
        noted = await harness.save_system_reminder_message(
            message="Noted.", reminder_type="note", role="system", metadata={"path": "a.py"}
        )
        assert noted is not None
        assert noted.role == "system"
        assert [to_wire(part) for part in noted.content] == [
            {"type": "system_reminder", "message": "Noted.", "reminderType": "note", "path": "a.py"}
        ]
        assert harness.session.thread.list_active_messages() == [saved, noted]
        assert starts(record) == 0
        await harness.send_message(content="hi")
        assert model.received()[0] == '<system-reminder type="style">Be brief.</system-reminder>'


KINDS: list[tuple[dict[str, Any], str, dict[str, Any]]] = [
    (REMINDER, "system_reminder", {"message": "Save your work.", "reminderType": "save"}),
    (
        {"type": "reactive", "tagName": "file-changed", "contents": "a.py", "attributes": {"by": "Ann"}},
        "reactive_signal",
        {"tagName": "file-changed", "message": "a.py", "attributes": {"by": "Ann"}},
    ),
    (
        {
            "type": "notification",
            "contents": "It failed.",
            "attributes": {"source": "ci", "priority": "high"},
        },
        "notification",
        {"message": "It failed.", "source": "ci", "priority": "high"},
    ),
    (
        {
            "type": "notification",
            "tagName": "notification-summary",
            "contents": "ci: 2",
            "metadata": {
                "pending": 2,
                "bySource": {"ci": 2},
                "byPriority": {"low": 2},
                "notificationIds": ["a", "b"],
            },
        },
        "notification_summary",
        {"message": "ci: 2", "pending": 2, "bySource": {"ci": 2}, "notificationIds": ["a", "b"]},
    ),
    (
        {"type": "state", "tagName": "weather", "contents": "rain"},
        "state_signal",
        {"message": "rain", "mode": "snapshot"},
    ),
]


@pytest.mark.parametrize(("given", "name", "fields"), KINDS, ids=[kind[1] for kind in KINDS])
@in_loop
async def test_each_kind_is_reported_live_and_read_from_the_history(
    given: dict[str, Any], name: str, fields: dict[str, Any], tmp_path: Path
) -> None:
    gate = Gate()
    model = Live(call("work"), "Seen.", "Alone.")
    options: dict[str, Any] = {
        "tools": [waiting(gate)],
        "initial_state": YOLO,
        "storage": FileStore(str(tmp_path)),
    }
    async with opened(model, **options) as (harness, record):
        first = started(harness.send_message(content="go"))
        await gate.come()
        sent = await harness.send_signal(given)
        [live] = record.named(name)
        assert fields.items() <= live.items()
        in_message = [
            part
            for data in record.named("message_update")
            for part in data["message"]["content"]
            if part["type"] == name
        ]
        assert in_message
        assert fields.items() <= in_message[-1].items()
        gate.open()
        await first
        [signal] = [event for event in log_of(harness) if isinstance(event, Signal)]
        assert signal.id == sent.id

        messages = harness.session.thread.list_active_messages()
        [shown] = [message for message in messages if message.id == sent.id]
        assert shown.role == "user"
        [part] = shown.content
        assert part.type == name


PAGE = {"type": "state", "id": "browser", "cacheKey": "k1", "contents": "url=x", "tagName": "browser"}


KEPT = {"behavior": "persist"}


@in_loop
async def test_a_signal_during_an_abort_is_answered_by_a_run_of_its_own() -> None:
    gate = Gate()
    model = Live(halting(gate), "Here I am.")
    async with opened(model) as (harness, record):
        sending = started(harness.send_message(content="a"))
        await gate.come()
        harness.abort()
        sent = await harness.send_signal("please answer me")
        await sending
        await harness.session.wait_until_idle()
        assert (sent.accepted.action, sent.accepted.run_id) == ("wake", harness.get_current_run_id())
        assert ends(record) == ["aborted", "complete"]
        assert model.received()[-1] == "please answer me"


@in_loop
async def test_a_state_that_the_model_knows_is_not_reported_again() -> None:
    model = Model()
    async with opened(model) as (harness, record):
        first = await harness.send_signal(PAGE, if_idle=KEPT)
        again = await harness.send_signal(PAGE, if_idle=KEPT)
        assert (first.accepted.action, first.accepted.reason) == ("persist", "")
        assert (again.accepted.action, again.accepted.reason) == ("discard", "unchanged")
        await harness.send_message(content="go")
        assert (await harness.send_signal(PAGE)).accepted.reason == "unchanged"
        assert starts(record) == 1
        change = {**PAGE, "cacheKey": "k2", "mode": "delta", "contents": "url=y", "delta": {"url": "y"}}
        await harness.send_signal(change, if_idle=KEPT)
        await harness.send_message(content="on")
        assert model.received() == [
            "<browser>url=x</browser>",
            "go",
            "<browser>url=y</browser>",
            "on",
        ]
        emitted = [event for event in log_of(harness) if isinstance(event, Signal)]
        assert [event.state for event in emitted] == [
            {"id": "browser", "cacheKey": "k1", "mode": "snapshot", "version": 1},
            {"id": "browser", "cacheKey": "k2", "mode": "delta", "version": 2},
        ]
        assert emitted[1].metadata == {"delta": {"url": "y"}}
        shown = record.named("state_signal")[-1]
        assert (shown["stateId"], shown["mode"], shown["version"]) == ("browser", "delta", 2)


@pytest.mark.parametrize(
    ("given", "options", "problem"),
    [
        ({**PAGE, "id": ""}, {}, "needs the id of its lane"),
        ({**PAGE, "mode": "all"}, {}, "Invalid mode"),
        ({"type": "reactive", "contents": "x", "metadata": {"a": object()}}, {}, "Invalid signal"),
        ("x", {"if_idle": {"behavior": "foo"}}, "not a way to treat a signal"),
        ("x", {"if_idle": {"attributes": {"a": object()}}}, "Invalid signal"),
    ],
)
@in_loop
async def test_a_signal_that_cannot_be_is_refused_before_anything_happens(
    given: Any, options: dict[str, Any], problem: str
) -> None:
    async with opened(Model("Yes.")) as (harness, record):
        await harness.create_thread()
        with pytest.raises(UsageError, match=problem):
            await harness.send_signal(given, **options)
        assert starts(record) == 0
        await harness.send_message(content="hi")
        assert ends(record) == ["complete"]


@in_loop
async def test_a_tool_that_runs_still_gets_a_signal_after_a_question_was_answered() -> None:
    gate = Gate()
    model = Live(call("ask_user", question="Which?"), call("work", id="c2"), "Saved.")
    async with opened(model, tools=[waiting(gate)], initial_state=YOLO) as (harness, record):
        await harness.send_message(content="go")
        answering = started(harness.respond_to_tool_suspension(resume_data="b"))
        await gate.come()
        sent = await harness.send_signal({"type": "reactive", "contents": "Save."})
        assert sent.accepted.action == "deliver"
        gate.open()
        await answering
        assert model.received()[-1] == "<system-reminder>Save.</system-reminder>"
        assert ends(record) == ["suspended", "complete"]
