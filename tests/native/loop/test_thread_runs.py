"""Runs of all kinds in one log that outlives them: followed, proved, and completed when their process died."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

import recorded_runs
from conversation_kit import Talk, assert_consistent, assert_runs, in_loop
from harness import FileStore, MemoryStore, Request, Run, start
from harness.approvals.call import ProposedCall
from harness.contracts.model import AssistantTurn, ToolTurn, UserTurn
from harness.contracts.tool import ToolContext
from harness.conversation.history import history
from harness.events import (
    Event,
    Message,
    ModeChanged,
    Relay,
    Result,
    SessionStart,
    StepEnd,
    ToolEnd,
    ToolStart,
)
from harness.log.hub import Hub
from harness.log.ids import new_run_id
from harness.log.store import Fork, Metadata, Store, read_all
from harness.native.tools.function_tool import tool
from harness.questions.permissions import Permissions, PermissionVerdict
from harness.runs.audit import DIED, check, recover, recover_thread, runs_in
from harness.testing.golden import translate
from played_model import calls, says

AGENTS = Path(__file__).parents[2] / "agents"
RECORDINGS = AGENTS / "claude" / "2.1.325"
CASES = recorded_runs.CASES
THREAD = "my-thread_1"
RUN = new_run_id(1)


def thread(store: Store, log_id: str = THREAD, fork: Fork | None = None) -> Hub:
    writer = store.create(Metadata(session_id=log_id, kind="thread", fork=fork))
    return Hub(store, log_id, writer)


def replayed(hub: Hub, case: str) -> Run:
    path = str(RECORDINGS / case / "stdout.jsonl")
    return start(Request(agent="replay", recording=path, extra_args=("--fast",)), hub=hub)


def scripted(tmp_path: Path, *texts: str) -> Request:
    script = tmp_path / "script.json"
    responses = [{"events": [{"type": "text", "content": text}]} for text in texts]
    script.write_bytes(msgspec.json.encode({"responses": responses}))
    return Request(agent="native", model=f"scripted/{script}", prompt="hello", cwd=str(tmp_path))


def test_programs_and_loops_run_one_after_the_other_in_one_log(tmp_path: Path) -> None:
    store = FileStore(str(tmp_path / "sessions"))
    hub = thread(store)
    first = replayed(hub, "subagent")
    shown = list(first)
    hub.source(THREAD).append([ModeChanged(mode_id="build")])
    second = start(scripted(tmp_path, "hi"), hub=hub)
    second.wait()
    third = replayed(hub, "shell")
    assert list(third)[-1] == third.wait()
    hub.source(THREAD).append([ModeChanged(mode_id="plan")])

    events = list(read_all(store, THREAD))
    assert len({THREAD, first.id, second.id, third.id}) == 4
    assert shown == events[: len(shown)]
    assert [event.run_id for event in events if isinstance(event, Result)][-1] == third.id
    assert {event.run_id for event in shown} >= {first.id}
    assert isinstance(shown[-1], Result)
    assert [event for batch in first.batches() for event in batch] == shown
    assert [event for batch in first.batches(5) for event in batch] == shown[5:]
    assert list(first.batches(shown[-1].seq + 1)) == []
    hub.close()
    assert sorted(name for name in os.listdir(store.directory) if name.endswith(".raw")) == sorted(
        f"{THREAD}.{run.id}.raw" for run in (first, third)
    )
    audit = check(store, THREAD)
    assert (audit.problems, audit.is_original) == ([], False)
    assert audit.lines > 10
    assert_runs(events)


def test_asyncio_follows_a_run_in_a_thread_to_its_end() -> None:
    store = MemoryStore()
    hub = thread(store)

    async def follow() -> list[Event]:
        run = await asyncio.to_thread(replayed, hub, "shell")
        return [event async for event in run.events()]

    for _ in range(2):
        events = asyncio.run(follow())
        assert isinstance(events[0], SessionStart)
        assert isinstance(events[-1], Result)


def test_a_run_that_breaks_in_a_thread_still_has_its_result(monkeypatch: pytest.MonkeyPatch) -> None:
    from harness.runs.process_worker import ProcessWorker

    monkeypatch.setattr(ProcessWorker, "work", lambda self: 1 / 0)
    hub = thread(MemoryStore())
    run = replayed(hub, "shell")
    with pytest.raises(Exception, match="the run broke"):
        list(run)
    assert hub.store is not None
    events = list(read_all(hub.store, THREAD))
    assert isinstance(events[-1], Result)
    assert events[-1].run_id == run.id


def test_a_missing_raw_record_is_a_problem_of_that_run(tmp_path: Path) -> None:
    store = FileStore(str(tmp_path))
    hub = thread(store)
    run = replayed(hub, "shell")
    run.wait()
    hub.close()
    os.unlink(store.path(THREAD, f".{run.id}.raw"))

    assert check(store, THREAD).problems == [f"run {run.id}: there is no raw record, so it cannot be proved"]


def test_a_fork_is_proved_with_the_records_of_its_parent(tmp_path: Path) -> None:
    store = FileStore(str(tmp_path))
    hub = thread(store)
    replayed(hub, "shell").wait()
    fork = thread(store, "the-fork", Fork(THREAD, hub.next_seq))
    replayed(fork, "subagent").wait()
    hub.close()
    fork.close()

    assert check(store, "the-fork").problems == []
    assert not recover_thread(store, "the-fork")


def cut(store: FileStore, hub: Hub, run: Run, keep: int) -> None:
    """As if the process had been killed after so many events of the run."""
    hub.close()
    path = store.path(THREAD)
    lines = Path(path).read_bytes().split(b"\n")
    first = next(place for place, line in enumerate(lines) if run.id.encode() in line)
    Path(path).write_bytes(b"".join(line + b"\n" for line in lines[: first + keep]))


@pytest.mark.parametrize("keep", [0, 1, 9])
def test_a_program_that_died_with_the_thread_is_completed_from_its_record(keep: int, tmp_path: Path) -> None:
    store = FileStore(str(tmp_path))
    hub = thread(store)
    replayed(hub, "subagent").wait()
    run = replayed(hub, "shell")
    whole = list(run)
    cut(store, hub, run, keep)

    assert recover(store, THREAD)
    events = list(read_all(store, THREAD))
    assert [type(event) for event in events[-len(whole) :]] == [type(event) for event in whole]
    assert isinstance(events[-1], Result)
    assert events[-1].run_id == run.id
    assert check(store, THREAD).problems == []
    assert not recover_thread(store, THREAD)


@tool
async def hang() -> str:
    await asyncio.Event().wait()
    return "never"


@tool
async def ask_somebody(task: str, context: ToolContext) -> str:
    return await context.spawn(task)


@pytest.mark.parametrize("moment", ["call", "nested", "nested relay"])
@in_loop
async def test_a_loop_that_died_without_a_question_is_closed_as_interrupted(moment: str) -> None:
    inner = calls(("h", "hang", {}))
    step = inner if moment == "call" else calls(("s", "ask_somebody", {"task": "t"}))

    class Asking(Permissions):
        def verdict(self, call: ProposedCall) -> PermissionVerdict:
            return PermissionVerdict("ask" if moment == "nested relay" and call.tool == "hang" else "allow")

    talk = Talk(says("hi"), step, inner, tools=(hang, ask_somebody), permissions=Asking())
    await talk.send("first")
    running = asyncio.create_task(talk.send())
    if moment == "nested relay":
        await talk.until(Relay)
    else:
        await talk.until(ToolStart, 1 if moment == "call" else 2)
    dead = talk.after_death()
    running.cancel()
    dead.hub.close()

    assert recover_thread(dead.store, dead.log_id)
    assert not recover_thread(dead.store, dead.log_id)
    events = dead.events
    assert isinstance(events[-1], Result)
    assert events[-1].outcome == "interrupted"
    assert_runs(events)
    ended = [event for event in events if isinstance(event, ToolEnd)]
    assert {(end.success, end.output) for end in ended} == {(None, DIED)}
    emitted = history(events)
    assert emitted.pending is None
    assert emitted.entries[-1].turn == ToolTurn(ended[-1].call_id.rpartition("/")[2], DIED, is_error=True)


@in_loop
async def test_a_step_that_was_active_is_closed() -> None:
    async def endless(ask: Any) -> Any:
        yield Message(role="assistant", text="half")
        await asyncio.Event().wait()

    talk = Talk(endless)
    running = asyncio.create_task(talk.send())
    await talk.until(Message, 2)
    dead = talk.after_death()
    running.cancel()
    dead.hub.close()

    assert recover_thread(dead.store, dead.log_id)
    assert [end.stop_reason for end in dead.of(StepEnd)] == ["cancelled"]
    assert_runs(dead.events)


def test_no_one_recovers_what_is_being_written(tmp_path: Path) -> None:
    store = FileStore(str(tmp_path))
    hub = thread(store)
    hub.source("r").append([SessionStart(agent="native")])
    assert not recover_thread(store, THREAD)
    hub.close()
    assert recover_thread(store, THREAD)


def test_history_reads_the_logs_of_programs(tmp_path: Path) -> None:
    store = MemoryStore()
    hub = thread(store)
    replayed(hub, "subagent").wait()
    replayed(hub, "shell").wait()
    emitted = history(read_all(store, THREAD))

    assert emitted.pending is None
    assert isinstance(emitted.entries[0].turn, UserTurn)
    assert isinstance(emitted.entries[-1].turn, AssistantTurn)
    assert_consistent(emitted.entries)


@pytest.mark.parametrize("agent", sorted({case.agent for case in CASES}))
def test_history_of_every_recording_has_a_result_for_every_call_and_the_answer(agent: str) -> None:
    for case in CASES:
        if case.agent != agent:
            continue
        store = MemoryStore()
        hub = thread(store)
        _, events = translate(case)
        hub.source(RUN).append(events)
        logged = list(read_all(store, THREAD))
        emitted = history(logged)

        assert_consistent(emitted.entries)
        assert emitted.pending is None
        answer = logged[-1].text.strip() if isinstance(logged[-1], Result) else ""
        said = [entry.turn.text for entry in emitted.entries if isinstance(entry.turn, AssistantTurn)]
        assert not answer or said, str(case)
        assert [(run.id, len(run.events)) for run in runs_in(logged, {RUN})] == [(RUN, len(logged))]
