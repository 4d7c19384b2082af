"""A process is killed, or ends, while a person is asked: another one lists the question, and the run continues."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import child_process
import postgres_server
from harness.events import ModeChanged, Result, SessionStart, ToolEnd, ToolStart
from harness.folds.session.encoding import to_wire
from harness.log.query import waits
from harness.log.store import Query
from harness.log.stores.files import FileStore
from harness.runs.audit import check as audit
from harness.session.harness import Harness
from harness_kit import Model, Record, log_of, make
from running_kit import check, ends, in_loop, texts
from waiting_session import MODES, marking, open_store, rest, wait_to_be_killed

_LOCKS = (
    "SELECT FROM pg_locks WHERE locktype = 'advisory'"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)


class Place:
    """Where the threads of this test are kept, for whatever process."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind = kind
        self.where = str(folder / "data") if kind == "files" else postgres_server.url()
        self.mark = folder / "mark"

    def kill_while(self, what: str, by: signal.Signals = signal.SIGKILL) -> None:
        """A process of its own waits there, and is killed, or asked to end."""
        reader, writer = os.pipe()

        def work() -> None:
            asyncio.run(wait_to_be_killed(open_store(self.kind, self.where), what, str(self.mark), writer))

        victim = child_process.begin(work)
        os.close(writer)
        with os.fdopen(reader, "rb") as pipe:
            assert pipe.read(5) == b"ready"
            os.kill(victim, by)
        assert child_process.end(victim) == (-by if by == signal.SIGKILL else 0)
        if self.kind == "postgres":
            self._wait_until_unlocked()

    def _wait_until_unlocked(self) -> None:
        """A server sees a moment later that a client was killed."""
        import psycopg

        until_s = time.monotonic() + 30
        with psycopg.connect(self.where, autocommit=True) as connection:
            while connection.execute(_LOCKS).fetchone() and time.monotonic() < until_s:
                time.sleep(0.01)

    @asynccontextmanager
    async def opened(self, model: Model) -> AsyncIterator[tuple[Harness, Record]]:
        """The thread, in the hands of this process."""
        store = open_store(self.kind, self.where)
        harness = make(model, modes=MODES, storage=store, tools=[marking(str(self.mark)), rest])
        record = Record(harness.session)
        await harness.init()
        thread = await harness.select_or_create_thread()
        assert (thread.id, thread.title) == ("thread-1", "The thread")
        try:
            yield harness, record
        finally:
            await harness.destroy()
            store.close()


@pytest.fixture(params=["files", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return Place(request.param, tmp_path)


def one_run(harness: Harness, **counts: int) -> None:
    """The log holds one run, from its beginning in one process to its end in another."""
    events = log_of(harness)
    check(harness, events)
    found = {
        kind.__name__: sum(isinstance(event, kind) for event in events)
        for kind in (SessionStart, Result, ToolStart, ToolEnd)
    }
    assert found == {"SessionStart": 1, "Result": 1, "ToolStart": 1, "ToolEnd": 1, **counts}
    if isinstance(harness.store, FileStore):
        assert audit(harness.store, "thread-1").problems == []


@in_loop
async def test_a_question_is_answered(place: Place) -> None:
    place.kill_while("ask")
    model = Model("You said b.")
    async with place.opened(model) as (harness, record):
        [relay] = harness.session.suspensions.all()
        assert relay.tool_name == "ask_user"
        [shown] = harness.session.display_state.get().pending_suspensions.values()
        assert shown.suspend_payload["question"] == "Which?"
        assert {"type": "tool_suspended", **to_wire(shown)} == to_wire(relay)
        assert not harness.session.run.is_running()
        assert not harness.session.display_state.get().is_running

        assert await harness.respond_to_tool_suspension(resume_data="b")
        assert model.results() == ["User answered: b"]
        assert model.received() == ["go"]
        assert (texts(record), ends(record)) == (["You said b."], ["complete"])
        assert not await harness.respond_to_tool_suspension(resume_data="a")
        one_run(harness)


@in_loop
async def test_a_plan_is_sent_back(place: Place) -> None:
    place.kill_while("plan")
    model = Model("I will revise it.")
    async with place.opened(model) as (harness, record):
        await harness.respond_to_tool_suspension(resume_data={"action": "rejected", "feedback": "longer"})
        assert "User feedback: longer" in model.results()[0]
        assert ends(record) == ["complete"]
        assert harness.session.mode.get() == "plan"
        one_run(harness)


@in_loop
async def test_a_plan_is_approved_and_the_mode_changes(place: Place) -> None:
    place.kill_while("plan")
    model = Model("I have begun.")
    async with place.opened(model) as (harness, record):
        assert harness.session.mode.get() == "plan"
        await harness.respond_to_tool_suspension(resume_data={"action": "approved"})
        assert harness.session.mode.get() == "build"
        assert (ends(record), model.asked) == (["complete"], [])
        one_run(harness)
        await harness.send_message(content="begin")
        assert model.system() == "Build."
        assert texts(record)[-1] == "I have begun."


@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("decision", ["approve", "decline", "always_allow_category"])
@in_loop
async def test_an_approval_is_given_or_refused(place: Place, decision: Any, by: signal.Signals) -> None:
    place.kill_while("approve", by)
    model = Model("So it is.", "And then that.")
    async with place.opened(model) as (harness, record):
        assert harness.session.approval.is_armed()
        shown = harness.session.display_state.get().pending_approval
        assert shown is not None
        assert (shown.tool_name, shown.args) == ("mark", {})
        assert harness.session.follow_ups.count() == 1
        assert not place.mark.exists()

        assert harness.session.respond_to_tool_approval(decision=decision, tool_call_id=shown.tool_call_id)
        await harness.session.wait_until_idle()
        assert place.mark.exists() == (decision != "decline")
        assert not harness.session.approval.is_armed()
        assert not harness.session.respond_to_tool_approval(decision="approve")
        # What was queued in the process that is gone comes after the run, here.
        assert ends(record)[-2:] == ["complete", "complete"]
        assert model.received() == ["go", "and then?"]
        one_run(harness, SessionStart=2, Result=2)


@in_loop
async def test_what_waits_may_be_given_up_instead(place: Place) -> None:
    place.kill_while("ask")
    model = Model("Never mind.")
    async with place.opened(model) as (harness, record):
        harness.abort()
        assert record.named("tool_suspension_cancelled")
        assert not harness.session.suspensions.has_pending()
        await harness.send_message(content="something else")
        assert texts(record) == ["Never mind."]
        check(harness, log_of(harness))


@in_loop
async def test_a_run_that_was_not_waiting_has_ended_and_the_thread_continues(place: Place) -> None:
    place.kill_while("stream")
    model = Model("I was gone for a moment.")
    async with place.opened(model) as (harness, record):
        assert not harness.session.display_state.get().is_running
        assert not harness.session.suspensions.has_pending()
        await harness.send_message(content="are you there?")
        assert model.received() == ["go", "are you there?"]
        assert ends(record) == ["complete"]
        events = log_of(harness)
        check(harness, events)
        assert [event.outcome for event in events if isinstance(event, Result)][-1] == "completed"


@in_loop
async def test_what_was_said_to_a_run_that_was_killed_is_reported_in_the_next_one_once(place: Place) -> None:
    place.kill_while("steer")
    model = Model("All right.", "Again.")
    async with place.opened(model) as (harness, _record):
        shown = harness.session.display_state.get()
        assert [one.text for one in shown.queued_steering] == ["rather this", "and that"]
        listed = harness.session.thread.list_active_messages()
        assert [message.content[0].text for message in listed[-2:]] == ["rather this", "and that"]  # type: ignore[union-attr]
        await harness.send_message(content="go on")
        assert model.received() == ["go", "rather this", "and that", "go on"]
        assert harness.session.display_state.get().queued_steering == []
        check(harness, log_of(harness))
    async with place.opened(model) as (harness, _record):
        await harness.send_message(content="and now?")
        assert model.received() == ["go", "rather this", "and that", "go on", "and now?"]
        if isinstance(harness.store, FileStore):
            assert audit(harness.store, "thread-1").problems == []


@in_loop
async def test_what_was_said_beside_an_approval_is_reported_when_the_run_continues(place: Place) -> None:
    place.kill_while("approve-steer")
    model = Model("So it is.")
    async with place.opened(model) as (harness, record):
        assert harness.session.respond_to_tool_approval(decision="approve")
        await harness.session.wait_until_idle()
        assert model.received() == ["go", "rather this", "and that"]
        assert (model.results(), ends(record)) == (["marked"], ["complete"])
        one_run(harness)


@pytest.mark.parametrize("what", ["ask", "plan", "approve"])
@in_loop
async def test_a_follow_up_waits_beside_what_a_killed_process_asked(place: Place, what: str) -> None:
    place.kill_while(what)
    model = Model("Answered.")
    async with place.opened(model) as (harness, _record):
        await harness.follow_up(content="last of all")
        assert model.asked == []
        assert harness.session.internals.runs.waits
        assert harness.session.internals.runs.queued[-1]["text"] == "last of all"
        if what == "approve":
            harness.session.respond_to_tool_approval(decision="approve")
        else:
            action = {"action": "approved"} if what == "plan" else "b"
            await harness.respond_to_tool_suspension(resume_data=action)
        await harness.session.wait_until_idle()
        assert model.received()[-1] == "last of all"
        assert harness.session.follow_ups.is_empty()


@pytest.mark.parametrize("what", ["ask", "plan", "approve"])
def test_a_thread_that_waits_is_known_to_wait_without_being_opened(place: Place, what: str) -> None:
    place.kill_while(what)
    store = open_store(place.kind, place.where)
    try:
        assert [waits(metadata) for metadata in store.find(Query(active=True))] == [True]
    finally:
        store.close()


@in_loop
async def test_an_approval_of_a_killed_process_can_be_given_up(place: Place) -> None:
    place.kill_while("approve")
    model = Model("Another.")
    async with place.opened(model) as (harness, _record):
        harness.abort(queue="clear")
        assert not harness.session.approval.is_armed()
        [end] = [event for event in log_of(harness) if isinstance(event, Result)]
        assert end.outcome == "interrupted"
        assert harness.session.follow_ups.is_empty()
        await harness.follow_up(content="something else")
        assert model.received() == ["go", "something else"]
        assert not place.mark.exists()
        check(harness, log_of(harness))


@pytest.mark.parametrize("at", ["tool_end", "agent_end", "mode_changed"])
@in_loop
async def test_an_approved_plan_is_not_lost_when_the_process_dies_before_the_mode_changes(
    place: Place, at: str
) -> None:
    place.kill_while(f"approved-{at}")
    model = Model("I have begun.")
    for _ in range(2):
        async with place.opened(model) as (harness, _record):
            assert harness.session.mode.get() == "build"
            assert not harness.session.suspensions.has_pending()
            assert harness.session.thread.setting("currentModeId") == "build"
    async with place.opened(model) as (harness, _record):
        await harness.send_message(content="begin")
        assert model.system() == "Build."
        changed = [event for event in log_of(harness) if isinstance(event, ModeChanged)]
        assert [event.mode_id for event in changed if event.previous_mode_id == "plan"][:1] == ["build"]
