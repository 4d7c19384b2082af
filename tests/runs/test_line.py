"""A process that outlives its runs: several prompts, what it does between them, and how it ends."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from claude_peer import recorded
from conversations import (
    ABORTED,
    ANSWER,
    HELLO,
    INIT,
    INTERRUPT,
    READY,
    SESSION,
    VERSION,
    Step,
    Talk,
    allowing,
    at_call,
    await_line,
    call,
    called,
    first_turn,
    is_alive,
    lifecycle,
    out,
    prompt,
    relays,
    replies,
    result,
    result_of,
    said,
    state,
    text,
    turn,
    wait_until,
)
from harness.contracts.driver import Prompt, TurnEnded
from harness.contracts.request import Request
from harness.events import Event, Message
from harness.log.clock import new_clock
from harness.log.hub import Hub, observe
from harness.log.store import Metadata
from harness.log.stores.memory import MemoryStore
from harness.process.child import OutputChunk
from harness.runs import dialogue, launch, line
from harness.runs.dialogue import Dialogue
from harness.runs.program_conversation import ProgramConversation
from harness.runs.recorder import Recorder
from recorded_peer import read_recording


@pytest.fixture(autouse=True)
def known_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "probe_version", lambda binary, args: VERSION)


@pytest.fixture
def talk(tmp_path: Path) -> Talk:
    return Talk(tmp_path)


@pytest.fixture
def held() -> Iterator[ProgramConversation]:
    conversation = ProgramConversation()
    yield conversation
    conversation.close()


def pid_of(conversation: ProgramConversation) -> int:
    assert conversation.line is not None
    return conversation.line.child.pid


def runs(
    talk: Talk, held: ProgramConversation, binary: str, *prompts: str, **request: Any
) -> list[list[Event]]:
    return [talk.follow(talk.start(binary, held, prompt=one, **request)) for one in prompts]


def test_a_second_prompt_goes_to_the_same_process(talk: Talk, held: ProgramConversation) -> None:
    second = [prompt("P2"), state("running"), INIT, text("Again."), result("Again."), state("idle")]
    binary = talk.program(*first_turn(text("Hello.")), *second)
    first = talk.follow(talk.start(binary, held))
    pid = pid_of(held)
    again = talk.follow(talk.start(binary, held, prompt="once more", resume=SESSION))

    assert pid_of(held) == pid
    assert [result_of(events).text for events in (first, again)] == ["Done.", "Again."]
    assert said(again) == ["once more"]
    assert result_of(again).exit_code is None
    held.close()
    assert not is_alive(pid)


class Telling:
    """An observer of logs that tells each program its run."""

    def opened(self, hub: Hub, /) -> None:
        """It only tells."""

    def environment(self, _log_id: str, run_id: str, /) -> dict[str, str]:
        return {"TRACEPARENT": run_id}


def test_a_process_is_told_its_first_run_and_is_used_for_the_next_all_the_same(
    talk: Talk, held: ProgramConversation
) -> None:
    second = [prompt("P2"), state("running"), INIT, text("Again."), result("Again."), state("idle")]
    binary = talk.program(*first_turn(text("Hello.")), *second)
    stop = observe(Telling())
    try:
        first = talk.start(binary, held)
        talk.follow(first)
        pid = pid_of(held)
        talk.follow(talk.start(binary, held, prompt="once more", resume=SESSION))
        assert pid_of(held) == pid
        assert first.launch.invocation.env["TRACEPARENT"] == first.id
    finally:
        stop()


def test_an_interrupted_process_takes_the_next_prompt(talk: Talk, held: ProgramConversation) -> None:
    binary = talk.program(*first_turn(call("c1"), INTERRUPT, end=ABORTED), *turn(text("Again.")))
    run = talk.start(binary, held)
    events = talk.follow(run, at_call(run.cancel))
    pid = pid_of(held)

    assert result_of(events).outcome == "interrupted"
    assert result_of(runs(talk, held, binary, "again")[0]).outcome == "completed"
    assert pid_of(held) == pid


def test_another_model_is_asked_for_once(talk: Talk, held: ProgramConversation) -> None:
    switch = await_line({"type": "control_request", "request_id": "m", "request": {"subtype": "set_model"}})
    binary = talk.program(*first_turn(), switch, *turn(), *turn())
    for model in ("one", "two", "two"):
        events = talk.follow(talk.start(binary, held, model=model))
        assert result_of(events).outcome == "completed"
    assert held.line is not None
    assert (held.line.model, held.line.turns) == ("two", 3)


def test_a_program_that_cannot_switch_its_model_is_started_again(
    talk: Talk, held: ProgramConversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    from harness.agents.claude.driver import ClaudeControl

    monkeypatch.setattr(ClaudeControl, "configure", lambda *_, **__: None)
    binary = talk.program(*first_turn())
    first = talk.follow(talk.start(binary, held, model="one"))
    pid = pid_of(held)
    again = talk.follow(talk.start(binary, held, model="two", resume=SESSION))

    assert pid_of(held) != pid
    assert result_of(again).usage == result_of(first).usage  # a new process counts anew
    assert not is_alive(pid)


@pytest.mark.parametrize(
    "changed", [{"permissions": "full-access"}, {"env": {"A": "1"}}, {"resume": "other"}]
)
def test_a_run_that_wants_another_process_gets_one(
    talk: Talk, held: ProgramConversation, changed: dict[str, Any]
) -> None:
    binary = talk.program(*first_turn())
    talk.follow(talk.start(binary, held))
    pid = pid_of(held)
    talk.follow(talk.start(binary, held, **changed))

    assert pid_of(held) != pid
    assert not is_alive(pid)


def test_a_process_that_died_in_between_is_replaced_and_its_last_words_are_recorded(
    talk: Talk, held: ProgramConversation
) -> None:
    binary = talk.program(
        *first_turn(), talk.later, text("Late words."), {"dir": "note", "msg": {"exit_code": -9}}
    )
    talk.follow(talk.start(binary, held))
    line_before = held.line
    assert line_before is not None
    talk.gate.touch()
    wait_until(lambda: not line_before.is_open)
    again = talk.follow(talk.start(talk.program(*first_turn()), held, resume=SESSION))

    assert pid_of(held) != line_before.child.pid
    assert "Late words." in said(again, "assistant")
    assert result_of(again).outcome == "completed"


def test_a_process_that_rests_too_long_is_closed(
    talk: Talk, held: ProgramConversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line, "IDLE_S", 0.05)
    binary = talk.program(*first_turn())
    talk.follow(talk.start(binary, held))
    first = held.line
    assert first is not None
    wait_until(lambda: not first.is_open)

    assert result_of(runs(talk, held, binary, "again")[0]).outcome == "completed"


def test_what_it_writes_while_it_rests_is_recorded_by_the_next_run(
    talk: Talk, held: ProgramConversation
) -> None:
    odd = out({"type": "control_request", "request_id": 0, "request": {"subtype": "mcp_message"}})
    binary = talk.program(
        *first_turn(), talk.later, text("While idle."), odd, ANSWER, text("Answered."), *turn()
    )
    talk.follow(talk.start(binary, held))
    talk.gate.touch()
    wait_until(lambda: held.line is not None and b"Answered." in heard_by(held.line))
    run = talk.start(binary, held, prompt="again")
    events = talk.follow(run)

    assert said(events, "assistant")[:2] == ["While idle.", "Answered."]
    raw = Path(talk.store.path(run.id, ".raw")).read_bytes()
    assert b'"error":"unsupported"' in raw


def heard_by(one: line.Line) -> bytes:
    return b"".join(part.data for part in list(one.unread))


def test_half_a_line_belongs_to_the_next_run(talk: Talk, held: ProgramConversation) -> None:
    whole = '{"type":"assistant","message":{"id":"m2","role":"assistant","content":[{"type":"text","text":"Whole."}]}}'
    code = f"""
def say(record): sys.stdout.write(json.dumps(record) + "\\n")
sys.stdin.readline(); sys.stdin.readline()
say({INIT["msg"]!r}); say({result()["msg"]!r})
sys.stdout.write({whole[:40]!r}); sys.stdout.flush()
sys.stdin.readline()
sys.stdout.write({whole[40:]!r} + "\\n"); say({INIT["msg"]!r}); say({result("Again.")["msg"]!r}); sys.stdout.flush()
sys.stdin.read()
"""
    binary = talk.code(code)
    first, again = runs(talk, held, binary, "one", "two")

    assert not said(first, "assistant")
    assert said(again, "assistant")[0] == "Whole."
    assert result_of(again).text == "Again."


OWN_TURN: list[Step] = [state("running"), INIT, text("By myself."), result("By myself."), state("idle")]


def test_a_turn_that_ended_while_no_run_listened_does_not_end_the_next_run(
    talk: Talk, held: ProgramConversation
) -> None:
    binary = talk.program(*first_turn(), talk.later, *OWN_TURN, *turn(text("To you."), end=result("To you.")))
    talk.follow(talk.start(binary, held))
    talk.gate.touch()
    wait_until(lambda: held.line is not None and len(held.line.held) >= 3)
    [events] = runs(talk, held, binary, "again")

    assert said(events, "assistant") == ["By myself.", "To you."]
    assert result_of(events).text == "To you."


def test_a_prompt_waits_until_a_turn_of_the_programs_own_is_over(
    talk: Talk, held: ProgramConversation
) -> None:
    own = [state("running"), INIT, *called("c1"), ANSWER, result("By myself."), state("idle")]
    binary = talk.program(*first_turn(), talk.later, *own, *turn(text("To you."), end=result("To you.")))
    talk.follow(talk.start(binary, held))
    talk.gate.touch()
    wait_until(lambda: held.line is not None and held.line.driver.open)
    run = talk.start(binary, held, prompt="again")
    events = talk.follow(run, allowing(run))

    assert replies(events) == [(True, "person")]
    assert result_of(events).text == "To you."


def test_a_turn_of_the_programs_own_is_announced_and_becomes_a_run(talk: Talk) -> None:
    begun = threading.Event()
    held = ProgramConversation(on_turn=begun.set)
    binary = talk.program(*first_turn(), talk.later, *OWN_TURN)
    talk.follow(talk.start(binary, held))
    talk.gate.touch()
    assert begun.wait(60)

    events = run_without_prompt(talk, held, binary)
    held.close()
    assert said(events, "assistant") == ["By myself."]
    assert not said(events)
    assert result_of(events).outcome == "completed"


def run_without_prompt(talk: Talk, held: ProgramConversation, binary: str) -> list[Event]:
    request = Request(
        agent="claude", binary=binary, prompt="x", permissions="ask", two_way=True, cwd=str(talk.folder)
    )
    prepared = replace(launch.prepare(request), prompt="")
    prepared = replace(prepared, request=replace(prepared.request, prompt=""))
    store = MemoryStore()
    hub = Hub(store, "log", store.create(Metadata(session_id="log", agent="Claude Code")), new_clock())
    recorder = Recorder(prepared, redact=False)
    Dialogue(prepared, hub, recorder, lambda result, session: None, held).work()
    hub.close()
    return [event for batch in hub.batches(0) for event in batch]


def test_a_question_between_two_runs_is_asked_by_the_next(talk: Talk) -> None:
    begun = threading.Event()
    held = ProgramConversation(on_turn=begun.set)
    own = [state("running"), INIT, *called("c1"), ANSWER, result("By myself."), state("idle")]
    binary = talk.program(*first_turn(), talk.later, *own, *turn())
    talk.follow(talk.start(binary, held))
    talk.gate.touch()
    assert begun.wait(60)
    run = talk.start(binary, held, prompt="again")
    events = talk.follow(run, allowing(run))
    held.close()

    assert len(relays(events)) == 1
    assert replies(events) == [(True, "person")]


def test_a_program_that_floods_while_it_rests_waits(
    talk: Talk, held: ProgramConversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line, "_MOST_UNREAD_BYTES", 1000)
    flood = [text("x" * 500) for _ in range(20)]
    binary = talk.program(*first_turn(), talk.later, *flood, *turn())
    talk.follow(talk.start(binary, held))
    one = held.line
    assert one is not None
    talk.gate.touch()
    wait_until(lambda: one._unread_bytes >= 1000)
    [events] = runs(talk, held, binary, "again")

    assert sum(len(words) for words in said(events, "assistant")) == 10_000
    assert result_of(events).outcome == "completed"


def test_a_stop_while_the_prompt_waits_leaves_it_unsent(talk: Talk, held: ProgramConversation) -> None:
    own = [state("running"), INIT, call("c1"), INTERRUPT, ABORTED, state("idle")]
    binary = talk.program(*first_turn(), talk.later, *own, prompt("P2"), text("Never said."))
    talk.follow(talk.start(binary, held))
    talk.gate.touch()
    wait_until(lambda: held.line is not None and held.line.driver.is_busy)
    run = talk.start(binary, held, prompt="again")
    events = talk.follow(run, at_call(run.cancel))

    assert result_of(events).outcome == "interrupted"
    assert held.line is not None
    assert held.line.turns == 1


def test_a_message_queued_at_the_end_of_a_turn_runs_in_the_same_run(
    talk: Talk, held: ProgramConversation
) -> None:
    late = [prompt("P2"), result("First."), state("idle"), state("running"), lifecycle("P2", "started")]
    binary = talk.program(*first_turn(call("c1"), *late, INIT, text("Second."), end=result("Second.")))
    run = talk.start(binary, held)
    events = talk.follow(run, at_call(lambda: run.steer("and this")))

    assert said(events) == ["go", "and this"]
    assert result_of(events).text == "Second."


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("where", ["handshake", "busy", "asked", "idle"])
def test_a_process_that_is_killed_ends_its_run_and_is_replaced(
    talk: Talk, held: ProgramConversation, where: str, number: int
) -> None:
    steps = {
        "handshake": [HELLO, prompt("never"), READY],
        "busy": [HELLO, READY, prompt(), state("running"), INIT, call("c1"), prompt("never")],
        "asked": [HELLO, READY, prompt(), state("running"), INIT, *called("c1"), ANSWER],
        "idle": first_turn(),
    }[where]
    run = talk.start(talk.program(*steps), held)
    if where == "idle":
        talk.follow(run)
        one = held.line
        assert one is not None
        os.kill(one.child.pid, number)
        wait_until(lambda: not one.is_open)
    else:
        wait_until(lambda: _is_there(run, where))
        os.kill(run._worker._line.child.pid, number)
        events = talk.follow(run)
        assert result_of(events).outcome == ("failed" if number == signal.SIGKILL else "interrupted")
        assert len(relays(events)) == len(replies(events))
    assert result_of(runs(talk, held, talk.program(*first_turn()), "again")[0]).outcome == "completed"


def _is_there(run: Any, where: str) -> bool:
    worker = run._worker
    if worker._line is None:
        return False
    return {
        "handshake": lambda: not worker._line.driver.is_ready,
        "busy": lambda: run.agent_session_id and worker._log.pipeline.lifecycle.open_call("c1"),
        "asked": lambda: bool(worker._waiting),
    }[where]()


def test_nothing_is_left_open(talk: Talk, held: ProgramConversation) -> None:
    binary = talk.program(*first_turn(), *turn())
    runs(talk, held, binary, "one")
    held.close()
    before = len(os.listdir("/proc/self/fd"))
    threads = threading.active_count()
    for _ in range(3):
        runs(talk, held, binary, "one", "two")
        held.close()
    wait_until(lambda: threading.active_count() <= threads)

    assert len(os.listdir("/proc/self/fd")) == before


def test_an_interrupt_that_fails_closes_the_process(
    talk: Talk, held: ProgramConversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dialogue, "INTERRUPT_S", 0.05)
    binary = talk.program(HELLO, READY, prompt(), state("running"), INIT, call("c1"), prompt("never"))
    run = talk.start(binary, held)
    talk.follow(run, at_call(run.cancel))

    assert held.line is None


def test_messages_of_events_have_their_ids(talk: Talk, held: ProgramConversation) -> None:
    steered = [prompt("P2"), lifecycle("P2", "started")]
    binary = talk.program(*first_turn(call("c1"), *steered))
    run = talk.start(binary, held)
    worker = run._worker
    events = talk.follow(run, at_call(lambda: worker.steer("also", "11111111-2222-4333-8444-555555555555")))

    [message] = [event for event in events if isinstance(event, Message) and event.text == "also"]
    assert message.id == "11111111-2222-4333-8444-555555555555"


@pytest.mark.parametrize("scenario", ["allow", "two-approvals-subagents", "steer-in-tool"])
def test_any_split_of_the_bytes_gives_the_same_moves(
    talk: Talk, scenario: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line, "_connect", lambda prepared: None)
    monkeypatch.setattr(line.secrets, "token_hex", lambda size: "line")
    steps = [step.message for step in read_recording(recorded(scenario)) if step.direction == "out"]
    data = b"".join(msgspec.json.encode(step) + b"\n" for step in steps)
    request = Request(agent="claude", binary=sys.executable, prompt="x", two_way=True, cwd=str(talk.folder))
    prepared = launch.prepare(request)

    def moves(size: int) -> list[Any]:
        one = line.Line(prepared)
        one.driver.prompt(Prompt(id="aaaaaaaa-0000-4000-8000-000000000001", text="go"))
        parts = [OutputChunk("stdout", data[at : at + size]) for at in range(0, len(data), size)]
        return [move for part in parts for move in one.heard([part])]

    whole = moves(len(data))
    assert any(isinstance(move, TurnEnded) for move in whole)
    for size in (1, 7, 100, 4096):
        assert moves(size) == whole
