"""Sessions whose work an agent program does: what it can is there, what it cannot is said, and nothing is faked."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from harness.contracts.model import AssistantTurn, UserTurn
from harness.errors import UsageError
from harness.events import SessionStart
from harness.log.stores.files import FileStore
from harness.runs.audit import check as audit
from harness.session.config import CommandAgent, Mode
from harness_kit import Model, Record, log_of, opened
from running_kit import (
    NO_MODEL,
    check,
    ends,
    errors,
    fake_claude,
    in_loop,
    notes,
    started,
    starts,
    texts,
)

RECORDINGS = Path(__file__).parents[1] / "agents"


def one_of_each() -> list[Path]:
    """A recording of every agent there is one of."""
    found: list[Path] = []
    for agent in sorted(RECORDINGS.iterdir()):
        folders = [folder for folder in sorted(agent.glob("*/*")) if (folder / "stdout.jsonl").exists()]
        folders.sort(key=lambda folder: folder.name in ("read", "shell"))
        found += folders[-1:]
    return found


@pytest.mark.parametrize("folder", one_of_each(), ids=lambda folder: f"{folder.parts[-3]}-{folder.name}")
@in_loop
async def test_what_a_program_did_is_reported_as_of_any_agent(folder: Path, tmp_path: Path) -> None:
    store = FileStore(str(tmp_path))
    recording = str(folder / "stdout.jsonl")
    agent = CommandAgent(name="replay", recording=recording, extra_args=("--fast",))
    async with opened(modes=[Mode(id="a", agent=agent)], storage=store, initial_state=NO_MODEL) as (
        harness,
        record,
    ):
        await harness.send_message(content="do it")
        assert (starts(record), len(ends(record))) == (1, 1)
        assert "do it" in texts(record, "user")
        assert texts(record) or errors(record)
        assert len(record.named("tool_start")) == len(record.named("tool_end"))
        assert record.types[-1] == "agent_end"
        assert not harness.session.display_state.get().is_running
        thread_id = harness.session.thread.require_id()
        check(harness, log_of(harness))
    assert audit(store, thread_id).problems == []


@in_loop
async def test_a_thread_knows_what_the_program_calls_its_session(tmp_path: Path) -> None:
    """In the program's own history it is the same session: it is listed and counted once."""
    store = FileStore(str(tmp_path / "store"))
    modes = [Mode(id="a", agent=fake_claude(tmp_path))]
    async with opened(modes=modes, storage=store, initial_state=NO_MODEL) as (harness, _):
        await harness.send_message(content="one")
        thread_id = harness.session.thread.require_id()
        assert store.metadata(thread_id).names_of_agents() == [
            ("claude", "5a493fb5-b26f-43a3-abfc-79ac63502f36")
        ]
        await harness.send_message(content="two")
    assert len(store.metadata(thread_id).agent_sessions) == 1


@in_loop
async def test_each_message_is_a_process_that_continues_with_the_programs_own_session(tmp_path: Path) -> None:
    modes = [Mode(id="a", agent=fake_claude(tmp_path), instructions="Be kind.")]
    async with opened(modes=modes, initial_state=NO_MODEL) as (harness, record):
        await harness.send_message(content="one")
        await harness.send_message(content="two")
        first, second = notes(tmp_path)
        assert "--resume" not in first["arguments"]
        at = second["arguments"].index("--resume")
        assert second["arguments"][at + 1] == "5a493fb5-b26f-43a3-abfc-79ac63502f36"
        assert "Be kind." in first["arguments"]
        assert texts(record) == ["You said 'one'.", "You said 'two'."]
        assert harness.session.get_token_usage().prompt_tokens == 6


@in_loop
async def test_the_programs_session_is_known_in_another_process(tmp_path: Path) -> None:
    modes = [Mode(id="a", agent=fake_claude(tmp_path))]
    for text in ("one", "two"):
        storage = FileStore(str(tmp_path / "data"))
        async with opened(modes=modes, storage=storage, initial_state=NO_MODEL) as (harness, _):
            await harness.select_or_create_thread()
            await harness.send_message(content=text)
    assert "--resume" in notes(tmp_path)[1]["arguments"]


@in_loop
async def test_another_thread_is_another_session_of_the_program(tmp_path: Path) -> None:
    modes = [Mode(id="a", agent=fake_claude(tmp_path))]
    async with opened(modes=modes, initial_state=NO_MODEL) as (harness, _):
        await harness.send_message(content="one")
        await harness.create_thread()
        await harness.send_message(content="two")
        assert all("--resume" not in call["arguments"] for call in notes(tmp_path))


@in_loop
async def test_what_it_can_is_said(tmp_path: Path) -> None:
    modes = [
        Mode(id="own"),
        Mode(id="claude", agent=fake_claude(tmp_path)),
        Mode(id="aider", agent="aider"),
        Mode(id="nobody", agent="no-such-agent"),
    ]
    async with opened(Model(), modes=modes) as (harness, record):
        assert {"steer", "approve", "suspend", "tools", "memory"} <= harness.session.capabilities
        await harness.session.mode.switch(mode_id="claude")
        assert harness.session.capabilities == {"resume", "model", "append_system_prompt", "briefing"}
        await harness.session.mode.switch(mode_id="aider")
        assert harness.session.capabilities == {"model", "briefing"}
        await harness.session.mode.switch(mode_id="nobody")
        assert harness.session.capabilities == frozenset()
        await harness.send_message(content="hi")
        assert "no-such-agent" in errors(record)[0]
        assert ends(record) == ["error"]


@in_loop
async def test_a_program_that_is_not_installed_is_an_error_of_the_run(tmp_path: Path) -> None:
    agent = CommandAgent(name="claude", binary=str(tmp_path / "nowhere"))
    async with opened(modes=[Mode(id="a", agent=agent)], initial_state=NO_MODEL) as (harness, record):
        await harness.send_message(content="hi")
        assert ends(record) == ["error"]
        assert len(errors(record)) == 1
        check(harness, log_of(harness))


@in_loop
async def test_a_program_that_fails_is_an_error_and_the_next_message_works(tmp_path: Path) -> None:
    modes = [Mode(id="a", agent=fake_claude(tmp_path))]
    async with opened(modes=modes, initial_state=NO_MODEL) as (harness, record):
        await harness.send_message(content="please fail")
        await harness.send_message(content="now work")
        assert ends(record) == ["error", "complete"]


@in_loop
async def test_it_is_stopped_and_the_next_message_starts_it_again(tmp_path: Path) -> None:
    modes = [Mode(id="a", agent=fake_claude(tmp_path))]
    storage = FileStore(str(tmp_path / "data"))
    async with opened(modes=modes, storage=storage, initial_state=NO_MODEL) as (harness, record):
        first = started(harness.send_message(content="be slow"))
        await record.until_emitted("message_update")
        harness.abort()
        await first
        assert ends(record) == ["aborted"]
        assert record.types[-1] == "agent_end"
        await harness.send_message(content="again")
        assert ends(record) == ["aborted", "complete"]
        check(harness, log_of(harness))
        thread_id = harness.session.thread.require_id()
    assert audit(storage, thread_id).problems == []


@in_loop
async def test_it_is_stopped_even_before_it_is_there(tmp_path: Path) -> None:
    modes = [Mode(id="a", agent=fake_claude(tmp_path))]
    async with opened(modes=modes, initial_state=NO_MODEL) as (harness, record):
        await harness.create_thread()
        first = started(harness.send_message(content="be slow"))
        for _ in range(4):
            await asyncio.sleep(0)
        harness.abort()
        await first
        assert (starts(record), ends(record)) == (1, ["aborted"])
        check(harness, log_of(harness))


@in_loop
async def test_what_is_said_while_it_works_waits_for_its_end(tmp_path: Path) -> None:
    modes = [Mode(id="a", agent=fake_claude(tmp_path))]
    async with opened(modes=modes, initial_state=NO_MODEL) as (harness, record):
        first = started(harness.send_message(content="one"))
        await record.until_emitted("agent_start")
        await harness.send_message(content="two")
        await first
        assert [call["prompt"] for call in notes(tmp_path)] == ["one", "two"]
        assert ends(record) == ["complete", "complete"]


@in_loop
async def test_more_of_them_than_any_pool_has_threads_work_at_once(tmp_path: Path) -> None:
    modes = [Mode(id="a", agent=fake_claude(tmp_path))]
    async with opened(modes=modes, initial_state=NO_MODEL) as (harness, _):
        sessions = [harness.create_session(resource_id=f"r{number}") for number in range(40)]
        records = [Record(session) for session in sessions]
        sending = [started(session.send_message(content="be slow")) for session in sessions]
        await asyncio.gather(*(record.until_emitted("message_update") for record in records))
        for session in sessions:
            session.abort()
        await asyncio.gather(*sending)
        assert [ends(record) for record in records] == [["aborted"]] * 40


@in_loop
async def test_files_that_it_cannot_take_are_named(tmp_path: Path) -> None:
    modes = [Mode(id="a", agent=fake_claude(tmp_path))]
    storage = FileStore(str(tmp_path / "data"))
    async with opened(modes=modes, storage=storage, initial_state=NO_MODEL) as (harness, record):
        picture = {"data": "QUJD", "mediaType": "image/png", "filename": "a.png"}
        text = {"data": "words", "mediaType": "text/plain", "filename": "b.txt"}
        await harness.send_message(content="look", files=[picture, text])
        assert record.named("info")[0]["message"] == "claude takes no files: a.png left out"
        assert "[File: b.txt]" in notes(tmp_path)[0]["prompt"]
        thread_id = harness.session.thread.require_id()
    assert audit(storage, thread_id).problems == []


@in_loop
async def test_a_signal_is_described_to_it(tmp_path: Path) -> None:
    modes = [Mode(id="a", agent=fake_claude(tmp_path))]
    async with opened(modes=modes, initial_state=NO_MODEL) as (harness, record):
        await harness.send_signal({"type": "reactive", "contents": "Save."})
        await harness.session.wait_until_idle()
        assert notes(tmp_path)[0]["prompt"] == "<system-reminder>Save.</system-reminder>"
        assert ends(record) == ["complete"]


@in_loop
async def test_no_one_can_answer_it() -> None:
    from harness.session.program_driver import CommandDriver

    async with opened(modes=[Mode(id="a", agent="claude")], initial_state=NO_MODEL) as (harness, _):
        backing = harness.session.internals.driver
        assert isinstance(backing, CommandDriver)
        with pytest.raises(UsageError, match="cannot be answered"):
            await backing.resume({})
        assert not harness.session.respond_to_tool_approval(decision="approve")


@in_loop
async def test_a_thread_may_go_from_our_own_loop_to_a_program_and_back(tmp_path: Path) -> None:
    model = Model("I am native.", "I heard it all.")
    modes = [Mode(id="own", default_model_id="test/model"), Mode(id="claude", agent=fake_claude(tmp_path))]
    async with opened(model, modes=modes, storage=FileStore(str(tmp_path / "data"))) as (harness, record):
        await harness.send_message(content="one")
        await harness.session.mode.switch(mode_id="claude")
        assert harness.session.model.get() == ""
        await harness.send_message(content="two")
        assert "--model" not in notes(tmp_path)[0]["arguments"]
        await harness.session.mode.switch(mode_id="own")
        assert harness.session.model.get() == "test/model"
        await harness.send_message(content="three")
        assert texts(record) == ["I am native.", "You said 'two'.", "I heard it all."]
        assert [turn.text for turn in model.asked[-1][0] if isinstance(turn, UserTurn | AssistantTurn)] == [
            "one",
            "I am native.",
            "two",
            "You said 'two'.",
            "three",
        ]
        await harness.session.mode.switch(mode_id="claude")
        await harness.send_message(content="four")
        assert "--resume" in notes(tmp_path)[1]["arguments"]
        assert [event.agent for event in log_of(harness) if isinstance(event, SessionStart)] == [
            "native",
            "claude",
            "native",
            "claude",
        ]
        check(harness, log_of(harness))


@in_loop
async def test_a_model_that_was_chosen_for_the_programs_mode_is_passed_on(tmp_path: Path) -> None:
    modes = [Mode(id="own"), Mode(id="claude", agent=fake_claude(tmp_path))]
    async with opened(Model(), modes=modes) as (harness, _):
        await harness.session.mode.switch(mode_id="claude")
        await harness.session.model.switch(model_id="opus")
        await harness.send_message(content="hi")
        arguments = notes(tmp_path)[0]["arguments"]
        assert arguments[arguments.index("--model") + 1] == "opus"


@in_loop
async def test_words_for_a_program_that_runs_are_reported_by_the_next_run(tmp_path: Path) -> None:
    modes = [Mode(id="a", agent=fake_claude(tmp_path))]
    async with opened(modes=modes, initial_state=NO_MODEL) as (harness, record):
        sending = started(harness.send_message(content="go"))
        await record.until_emitted("agent_start")
        sent = await harness.send_signal("and this")
        assert (sent.accepted.action, sent.accepted.run_id) == ("persist", "")
        await sending
        assert [note["prompt"] for note in notes(tmp_path)] == ["go", "and this"]
        assert starts(record) == 2
