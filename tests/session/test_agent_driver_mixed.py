"""One thread, several agents: our own loop and a program take turns, and each knows what was said."""

from __future__ import annotations

import asyncio
from pathlib import Path

from harness.conversation.turns import CUT_OFF
from harness.events import RelayReply, Result, SessionStart
from harness.log.stores.files import FileStore
from harness.native.loop.conversation import GIVEN_UP
from harness.session.config import Mode
from harness.session.memory.config import Memory
from harness_kit import Model, call, log_of, opened, run
from running_kit import check, fake_claude


def test_our_own_loop_knows_what_the_program_said(tmp_path: Path) -> None:
    async def work() -> None:
        model = Model("Native.")
        modes = [Mode(id="own"), Mode(id="claude", agent=fake_claude(tmp_path))]
        store = FileStore(str(tmp_path / "data"))
        async with opened(model, modes=modes, storage=store, cwd=str(tmp_path)) as (harness, record):
            await harness.send_message(content="to the loop")
            await harness.session.mode.switch(mode_id="claude")
            assert harness.session.internals.conversation is None
            assert "steer" not in harness.session.capabilities
            await harness.send_message(content="to the program")
            await harness.session.mode.switch(mode_id="own")
            await harness.send_message(content="to the loop again")
            assert model.received() == ["to the loop", "to the program", "to the loop again"]
            said = [message.text for message in harness.session.thread.list_active_messages()]
            assert said[:2] == ["to the loop", "Native."]
            assert said[2] == "to the program"
            assert said[3].startswith("You said")
            assert [data["reason"] for data in record.named("agent_end")] == ["complete"] * 3
        store.close()

    run(work)


def test_a_question_that_waits_is_answered_in_its_own_thread_and_not_in_a_clone_as_well() -> None:
    async def work() -> None:
        from harness.log.stores.memory import MemoryStore

        model = Model(call("ask_user", question="Which?"), "In the clone.", "In the source.")
        async with opened(model, storage=MemoryStore(), memory=Memory()) as (harness, record):
            source = await harness.create_thread()
            await harness.send_message(content="ask me")
            cloned = await harness.clone_thread()
            assert harness.session.suspensions.all() == []
            assert harness.session.display_state.get().pending_suspensions == {}
            assert record.types[-2:] == ["tool_suspension_cancelled", "tool_end"]
            assert not await harness.respond_to_tool_suspension(resume_data="a")
            await harness.send_message(content="go on")
            assert record.wire[-1] == {"type": "agent_end", "reason": "complete"}
            assert model.results() != ["User answered: a"]
            await harness.switch_thread(thread_id=source.id)
            assert len(harness.session.suspensions.all()) == 1
            assert await harness.respond_to_tool_suspension(resume_data="b")
            assert "User answered: b" in model.results()
            assert not await harness.respond_to_tool_suspension(resume_data="c")
            texts = {
                thread_id: harness.session.thread.list_messages(thread_id=thread_id)[-1].text
                for thread_id in (source.id, cloned.id)
            }
            assert texts == {source.id: "In the source.", cloned.id: "In the clone."}

    run(work)


def test_two_answers_at_once_to_one_question_are_one_answer_and_one_refusal() -> None:
    async def work() -> None:
        model = Model(call("ask_user", question="Which?"), "Thanks.")
        async with opened(model) as (harness, _):
            await harness.send_message(content="ask me")
            answers = await asyncio.gather(
                harness.respond_to_tool_suspension(resume_data="first"),
                harness.respond_to_tool_suspension(resume_data="second"),
            )
            assert [*answers] == [True, False]
            assert model.results() == ["User answered: first"]

    run(work)


def test_a_message_to_a_program_gives_up_the_run_of_our_own_loop_that_waits(tmp_path: Path) -> None:
    async def work() -> None:
        store = FileStore(str(tmp_path / "data"))
        model = Model(call("ask_user", question="Which?"))
        async with opened(model, modes=[Mode(id="build")], storage=store, cwd=str(tmp_path)) as (harness, _):
            await harness.send_message(content="ask me")
        modes = [Mode(id="build", agent=fake_claude(tmp_path)), Mode(id="own")]
        model = Model("On my own again.")
        async with opened(model, modes=modes, storage=store, cwd=str(tmp_path)) as (harness, _):
            await harness.select_or_create_thread()
            assert len(harness.session.suspensions.all()) == 1  # opening the thread gives nothing up
            await harness.send_message(content="to the program")
            assert harness.session.suspensions.all() == []
            events = log_of(harness)
            [reply] = [event for event in events if isinstance(event, RelayReply)]
            assert (reply.approved, reply.by, reply.reason) == (False, "policy", GIVEN_UP)
            starts = [event for event in events if isinstance(event, SessionStart)]
            given_up, of_program = (event for event in events if isinstance(event, Result))
            assert [start.run_id for start in starts] == [given_up.run_id, of_program.run_id]
            assert given_up.outcome == "interrupted"
            assert reply.seq < given_up.seq < starts[1].seq
            await harness.session.mode.switch(mode_id="own")
            await harness.send_message(content="to the loop again")
            assert model.received() == ["ask me", "to the program", "to the loop again"]
            assert model.results() == [CUT_OFF]
            check(harness, log_of(harness))
        store.close()

    run(work)
