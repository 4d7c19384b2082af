"""One turn with a program that asks, is answered, steered and stopped: over real pipes, with no agent installed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

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
    Talk,
    allowing,
    ask,
    at_call,
    call,
    called,
    done,
    first_turn,
    is_alive,
    lifecycle,
    out,
    pid_file,
    prompt,
    relays,
    replies,
    result,
    result_of,
    said,
    state,
    text,
    worker_of,
)
from harness.contracts.request import Limits
from harness.errors import UsageError
from harness.events import Error, Event, Message, Relay, RelayReply, ToolEnd, Unknown, Warning
from harness.runs import dialogue, launch
from harness.runs.process_worker import LimitWatch
from harness.runs.program_conversation import ProgramConversation
from recorded_peer import peer_program


@pytest.fixture(autouse=True)
def known_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "probe_version", lambda binary, args: VERSION)


@pytest.fixture
def talk(tmp_path: Path) -> Talk:
    return Talk(tmp_path)


# Questions


def test_an_allowed_call_is_carried_out(talk: Talk) -> None:
    run = talk.start(talk.program(*first_turn(*called("c1"), ANSWER, done("c1"))))
    events = talk.follow(run, allowing(run))

    [relay] = relays(events)
    assert (relay.tool_name, relay.input) == ("Bash", {"command": "touch a.txt"})
    assert replies(events) == [(True, "person")]
    assert (result_of(events).outcome, result_of(events).text) == ("completed", "Done.")
    assert run.agent_session_id == SESSION


@pytest.mark.parametrize(
    ("scenario", "reply"),
    [
        ("allow", {"approved": True}),
        ("deny", {"approved": False, "reason": "Not that file, use b.txt."}),
        ("plan-approved", {"approved": True}),
        ("plan-rejected", {"approved": False, "reason": "Add a test step first."}),
        ("two-approvals-subagents", {"approved": True}),
    ],
)
def test_a_recorded_conversation_runs_again(talk: Talk, scenario: str, reply: dict[str, Any]) -> None:
    run = talk.start(peer_program(talk.folder, recorded(scenario), VERSION))
    events = talk.follow(run, allowing(run, **reply))

    assert result_of(events).outcome == "completed"
    assert {answer[0] for answer in replies(events)} == {reply["approved"]}
    assert not [event for event in events if isinstance(event, Unknown)]


def test_a_question_is_answered_with_a_choice(talk: Talk) -> None:
    run = talk.start(peer_program(talk.folder, recorded("question"), VERSION))
    answered: list[Any] = []

    def answer(event: Event) -> None:
        if isinstance(event, Relay):
            questions = event.payload["questions"]
            answered.append({one["question"]: one["options"][-1]["label"] for one in questions})
            run.reply(event.id, approved=True, answer=answered[0])

    events = talk.follow(run, answer)
    [reply] = [event for event in events if isinstance(event, RelayReply)]
    assert reply.answer == answered[0]
    assert result_of(events).outcome == "completed"


def test_always_holds_for_the_same_call_and_no_other(talk: Talk) -> None:
    steps = [step for name in ("c1", "c2") for step in (*called(name), ANSWER, done(name))]
    other = [*called("c3", "touch b.txt"), ANSWER, done("c3")]
    run = talk.start(talk.program(*first_turn(*steps, *other)))
    events = talk.follow(run, allowing(run, always=True))

    assert replies(events) == [(True, "person"), (True, "policy"), (True, "person")]


def test_two_questions_may_be_answered_in_the_other_order(talk: Talk) -> None:
    steps = [call("c1"), call("c2"), ask("c1"), ask("c2"), ANSWER, ANSWER, done("c2"), done("c1")]
    run = talk.start(talk.program(*first_turn(*steps)))
    waiting: list[Relay] = []

    def answer(event: Event) -> None:
        if isinstance(event, Relay):
            waiting.append(event)
        if len(waiting) == 2:
            for relay in reversed(waiting):
                assert run.reply(relay.id, approved=relay.call_id == "c2")
            waiting.clear()

    events = talk.follow(run, answer)
    order = [relay.id for relay in relays(events)]
    answered = [event.id for event in events if isinstance(event, RelayReply)]
    assert answered == order[::-1]
    assert replies(events) == [(True, "person"), (False, "person")]


def test_a_withdrawn_question_takes_no_answer_any_more(talk: Talk) -> None:
    withdrawn = out({"type": "control_cancel_request", "request_id": "q-c1"})
    run = talk.start(talk.program(*first_turn(*called("c1"), withdrawn, done("c1"))))
    events = talk.follow(run)

    assert replies(events) == [(False, "policy")]
    assert not run.reply(relays(events)[0].id, approved=True)
    assert result_of(events).outcome == "completed"


def test_the_first_answer_counts(talk: Talk) -> None:
    run = talk.start(talk.program(*first_turn(*called("c1"), ANSWER, done("c1"))))
    taken: list[bool] = []

    def answer(event: Event) -> None:
        if isinstance(event, Relay):
            taken.append(run.reply("unknown", approved=True))
            taken.extend(run.reply(event.id, approved=approved) for approved in (False, True))

    events = talk.follow(run, answer)
    assert taken == [False, True, False]
    assert replies(events) == [(False, "person")]
    assert not run.reply(relays(events)[0].id, approved=True)


def test_an_answer_that_is_none_leaves_the_question_open(talk: Talk) -> None:
    run = talk.start(talk.program(*first_turn(*called("c1"), ANSWER, done("c1"))))

    def answer(event: Event) -> None:
        if isinstance(event, Relay):
            with pytest.raises(UsageError):
                run.reply(event.id, approved=True, choice="no such choice")
            assert run.reply(event.id, approved=True, choice="once")

    assert replies(talk.follow(run, answer)) == [(True, "person")]


def test_what_is_not_answered_in_time_is_refused(talk: Talk) -> None:
    run = talk.start(talk.program(*first_turn(*called("c1"), ANSWER)), ask_timeout_s=0.05)
    events = talk.follow(run)

    assert replies(events) == [(False, "timeout")]
    assert result_of(events).outcome == "completed"


@pytest.mark.parametrize(
    ("request_options", "approved"),
    [
        ({"on_ask": "allow"}, True),
        ({"on_ask": "deny"}, False),
        ({"permissions": "read-only"}, False),
        ({"permissions": "full-access"}, True),
    ],
)
def test_the_rules_answer_first(talk: Talk, request_options: dict[str, Any], approved: bool) -> None:
    run = talk.start(talk.program(*first_turn(*called("c1"), ANSWER)), **request_options)

    assert replies(talk.follow(run)) == [(approved, "policy")]


# Messages in the middle


def test_a_message_is_in_the_log_where_it_was_taken(talk: Talk) -> None:
    steered = [prompt("P2"), lifecycle("P2", "queued"), done("c1"), lifecycle("P2", "started"), text("Yes.")]
    run = talk.start(talk.program(*first_turn(call("c1"), *steered)))
    events = talk.follow(run, at_call(lambda: run.steer("also do X")))

    assert said(events) == ["go", "also do X"]
    place = next(i for i, one in enumerate(events) if isinstance(one, Message) and one.text == "also do X")
    assert any(isinstance(event, ToolEnd) for event in events[:place])
    assert not worker_of(run).untaken


def test_a_message_that_was_not_taken_has_to_be_sent_again(talk: Talk) -> None:
    steered = [prompt("P2"), lifecycle("P2", "cancelled"), done("c1")]
    run = talk.start(talk.program(*first_turn(call("c1"), *steered)))
    events = talk.follow(run, at_call(lambda: run.steer("also do X")))

    assert said(events) == ["go"]
    assert [one.text for one in worker_of(run).untaken] == ["also do X"]


def test_a_message_that_comes_too_late_is_refused(talk: Talk) -> None:
    run = talk.start(talk.program(*first_turn()))
    talk.follow(run)

    assert not run.is_steerable
    with pytest.raises(UsageError, match="takes no message now"):
        run.steer("too late")


def test_a_message_that_comes_with_the_end_of_the_process_is_not_lost(talk: Talk) -> None:
    steps = [HELLO, READY, prompt(), state("running"), INIT, call("c1"), prompt("P2")]
    run = talk.start(talk.program(*steps, {"dir": "note", "msg": {"exit_code": -9}}))
    events = talk.follow(run, at_call(lambda: run.steer("also do X")))

    assert result_of(events).outcome == "failed"
    assert [one.text for one in worker_of(run).untaken] == ["also do X"]


# Stop


def interrupted(*middle: Any) -> list[Any]:
    return first_turn(*middle, INTERRUPT, end=ABORTED)


def test_a_stop_ends_the_turn_by_the_protocol(talk: Talk) -> None:
    run = talk.start(talk.program(*interrupted(call("c1"))))
    events = talk.follow(run, at_call(run.cancel))

    assert (result_of(events).outcome, result_of(events).signal) == ("interrupted", None)
    assert [event.success for event in events if isinstance(event, ToolEnd)] == [None]


def test_nothing_that_is_queued_runs_after_a_stop(talk: Talk) -> None:
    """Versions that cannot take a message back would begin with it as soon as the interrupted turn has ended."""
    ran = talk.folder / "ran"
    binary = talk.code(f"""
with open({str(talk.folder / "pid")!r}, "w") as file:
    file.write(str(os.getpid()))
SESSION = {{"session_id": {SESSION!r}}}
def say(record):
    print(json.dumps(record), flush=True)
queued = 0
for line in sys.stdin:
    record = json.loads(line)
    if record["type"] == "user":
        queued += 1
        if queued == 1:
            say({{"type": "system", "subtype": "init", "model": "m", "cwd": "/", **SESSION}})
            say({call("c1")["msg"]!r})
    elif record["request"]["subtype"] == "interrupt":
        say({ABORTED["msg"]!r})
        time.sleep(3)  # for the model's answer to the message that is still queued
        if queued == 2:
            open({str(ran)!r}, "w").close()
""")
    conversation = ProgramConversation()
    run = talk.start(binary, conversation)
    events = talk.follow(run, at_call(lambda: (run.steer("Use integers."), run.cancel())))

    assert result_of(events).outcome == "interrupted"
    assert [one.text for one in run.untaken] == ["Use integers."]
    assert conversation.line is None
    assert not is_alive(pid_file(talk.folder))
    assert not ran.exists()


def test_a_stop_in_text(talk: Talk) -> None:
    run = talk.start(peer_program(talk.folder, recorded("interrupt-in-text"), VERSION))
    stopped: list[bool] = []

    def stop(event: Event) -> None:
        if type(event).__name__ == "TextDelta" and not stopped:
            stopped.append(True)
            run.cancel()

    assert result_of(talk.follow(run, stop)).outcome == "interrupted"


def test_a_stop_while_it_asks_refuses_the_question(talk: Talk) -> None:
    run = talk.start(talk.program(*interrupted(*called("c1")), ANSWER))
    taken: list[bool] = []

    def stop(event: Event) -> None:
        if isinstance(event, Relay):
            run.cancel()
        if isinstance(event, RelayReply):
            taken.append(run.reply(event.id, approved=True))

    events = talk.follow(run, stop)
    assert replies(events) == [(False, "policy")]
    assert taken == [False]
    assert result_of(events).outcome == "interrupted"


def test_a_question_after_a_stop_is_refused_at_once(talk: Talk) -> None:
    steps = first_turn(call("c1"), INTERRUPT, ask("c1"), ANSWER, end=ABORTED)
    run = talk.start(talk.program(*steps))

    assert replies(talk.follow(run, at_call(run.cancel))) == [(False, "policy")]


def test_a_stop_before_the_program_has_said_anything_ends_it(talk: Talk) -> None:
    run = talk.start(talk.code("sys.stdin.readline(); time.sleep(300)"))
    run.cancel()
    events = talk.follow(run)

    assert result_of(events).outcome == "interrupted"


def test_a_second_stop_ends_the_process(talk: Talk) -> None:
    run = talk.start(talk.program(HELLO, READY, prompt(), state("running"), INIT, call("c1"), prompt()))
    events = talk.follow(run, at_call(lambda: (run.cancel(), run.cancel())))

    assert result_of(events).outcome == "interrupted"
    assert result_of(events).exit_code == 130


def test_an_interrupt_that_is_never_heard_is_followed_by_signals(
    talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dialogue, "INTERRUPT_S", 0.05)
    run = talk.start(talk.program(HELLO, READY, prompt(), state("running"), INIT, call("c1"), prompt()))
    events = talk.follow(run, at_call(run.cancel))

    assert result_of(events).outcome == "interrupted"
    assert result_of(events).exit_code == 130


def test_a_stop_after_the_end_changes_nothing(talk: Talk) -> None:
    run = talk.start(talk.program(*first_turn()))
    events = talk.follow(run)
    run.cancel()

    assert result_of(events).outcome == "completed"


# Limits


class ThinkingWatch(LimitWatch):
    """Has limits only while the run waits."""

    def note_waiting(self, now_ms: int, *, waits: bool) -> None:
        super().note_waiting(now_ms, waits=waits)
        self._limits = Limits(first_output_s=0.0, inactivity_s=0.0) if waits else Limits()


def test_while_a_person_thinks_the_program_is_not_silent(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dialogue, "LimitWatch", ThinkingWatch)
    run = talk.start(talk.program(*first_turn(*called("c1"), ANSWER)))
    events = talk.follow(run, allowing(run))

    assert result_of(events).outcome == "completed"
    assert replies(events) == [(True, "person")]


QUESTION = {"questions": [{"question": "Which?", "header": "", "options": [], "multiSelect": False}]}


@pytest.mark.parametrize("asks", [{}, {"tool": "AskUserQuestion", "input": QUESTION}])
def test_a_run_that_waits_for_an_answer_ends_at_the_time_of_the_whole_run(
    talk: Talk, asks: dict[str, Any]
) -> None:
    steps = interrupted(call("c1"), ask("c1", **asks))
    run = talk.start(talk.program(*steps), limits=Limits(timeout_s=0.3), ask_timeout_s=600)
    events = talk.follow(run)

    assert result_of(events).outcome == "timed_out"
    assert replies(events) == [(False, "policy")]


@pytest.mark.parametrize(
    ("limits", "outcome", "code"),
    [
        (Limits(timeout_s=0.3), "timed_out", "timeout"),
        (Limits(inactivity_s=0.3), "stalled", "stalled"),
    ],
)
def test_a_limit_interrupts_the_turn(talk: Talk, limits: Limits, outcome: str, code: str) -> None:
    run = talk.start(talk.program(*interrupted(call("c1"))), limits=limits)
    events = talk.follow(run)

    assert result_of(events).outcome == outcome
    assert [event.code for event in events if isinstance(event, Error)] == [code]


def test_a_handshake_that_is_never_answered_ends_the_run(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dialogue, "HANDSHAKE_S", 0.2)
    run = talk.start(talk.code("for line in sys.stdin: pass"))
    events = talk.follow(run)

    assert result_of(events).outcome == "failed"
    [error] = [event for event in events if isinstance(event, Error)]
    assert "did not answer within 0.2 s" in error.message


# Secrets


def test_what_is_written_has_no_secret_in_the_log(talk: Talk) -> None:
    secret = "sk-" + "a1B2" * 10
    steps = first_turn(call("c1", f"curl {secret}"), ask("c1", f"curl {secret}"), ANSWER)
    run = talk.start(talk.program(*steps), env={"MY_API_KEY": secret})
    events = talk.follow(run, allowing(run))

    assert relays(events)
    for path in (talk.folder / "store").rglob("*"):
        assert not path.is_file() or secret.encode() not in path.read_bytes(), path


def test_odd_answers_are_sent_as_whole_lines(talk: Talk) -> None:
    steps = first_turn(*called("c1"), ANSWER, done("c1"))
    run = talk.start(talk.program(*steps))
    events = talk.follow(run, allowing(run, approved=False, reason="no \udfff\nnever"))

    assert result_of(events).outcome == "completed"


# Bad input


@pytest.mark.parametrize(
    "odd",
    [
        "no JSON at all",
        "{",
        '{"type":',
        "[1,2,3]",
        '"text"',
        "\ufeff{}",
        '{"type":"control_request"}',
        '{"type":"control_request","request_id":0,"request":{"subtype":"new_thing"}}',
        '{"type":"control_request","request_id":[],"request":{"subtype":"can_use_tool","tool_name":7}}',
        '{"type":"control_response","response":{"request_id":"nothing"}}',
        '{"type":"control_cancel_request","request_id":null}',
        '{"type":"system","subtype":"session_state_changed","state":["idle"]}',
        '{"type":"command_lifecycle","command_uuid":5,"state":{}}',
        '{"type":"user","isReplay":true,"uuid":{}}',
    ],
)
def test_an_odd_line_does_not_end_the_turn(talk: Talk, odd: str) -> None:
    run = talk.start(talk.program(*first_turn({"dir": "out", "msg": odd})))
    events = talk.follow(run, allowing(run))

    assert (result_of(events).outcome, result_of(events).text) == ("completed", "Done.")


@pytest.mark.parametrize("request_id", [0, "", "same"])
def test_ids_of_requests_may_be_empty_or_used_again(talk: Talk, request_id: Any) -> None:
    first = {**ask("c1")["msg"], "request_id": request_id}
    second = {**ask("c2")["msg"], "request_id": request_id}
    steps = [call("c1"), call("c2"), out(first), ANSWER, out(second), ANSWER]
    run = talk.start(talk.program(*first_turn(*steps)))

    assert replies(talk.follow(run, allowing(run))) == [(True, "person"), (True, "person")]


def test_a_driver_that_fails_is_noted_and_the_turn_continues(
    talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    from harness.agents.claude.driver import ClaudeControl

    def broken(self: Any, record: Any) -> Any:
        if record.get("type") == "command_lifecycle":
            raise ValueError("odd")
        return receive(self, record)

    receive = ClaudeControl.receive
    monkeypatch.setattr(ClaudeControl, "receive", broken)
    run = talk.start(talk.program(*first_turn()))
    events = talk.follow(run)

    assert "the driver failed" in next(event.reason for event in events if isinstance(event, Unknown))
    assert result_of(events).outcome == "completed"


def test_a_driver_that_fails_in_an_answer_ends_the_run(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    from harness.agents.claude.driver import ClaudeControl

    def broken(*_: object) -> Any:
        raise ValueError("odd")

    monkeypatch.setattr(ClaudeControl, "_answered", broken)
    run = talk.start(talk.program(*first_turn(*called("c1"), ANSWER)))
    events = talk.follow(run, allowing(run))

    assert result_of(events).outcome == "failed"
    assert "the driver failed" in next(event.message for event in events if isinstance(event, Error))


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_a_huge_line_is_read(talk: Talk) -> None:
    code = """
sys.stdin.readline(); sys.stdin.readline()
print(json.dumps({"type": "system", "subtype": "init", "session_id": "s"}), flush=True)
block = {"type": "text", "text": "x" * 100_000_000}
message = {"id": "m", "role": "assistant", "model": "m", "content": [block]}
print(json.dumps({"type": "assistant", "message": message, "session_id": "s"}), flush=True)
print(json.dumps({"type": "result", "subtype": "success", "result": "Done.", "session_id": "s"}), flush=True)
sys.stdin.read()
"""
    run = talk.start(talk.code(code))
    events = talk.follow(run)

    assert result_of(events).outcome == "completed"
    assert [len(one) for one in said(events, "assistant")] == [100_000_000]


def test_a_program_that_never_reads_can_be_stopped(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dialogue, "INTERRUPT_S", 0.05)
    code = f"""
print(json.dumps({INIT["msg"]!r}), flush=True)
print(json.dumps({call("c1")["msg"]!r}), flush=True)
time.sleep(300)
"""
    run = talk.start(talk.code(code), prompt="x" * 3_000_000)
    events = talk.follow(run, at_call(run.cancel))

    assert result_of(events).outcome == "interrupted"


def test_a_program_that_closes_its_output_is_ended(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dialogue, "INTERRUPT_S", 0.05)
    code = f"print(json.dumps({INIT['msg']!r}), flush=True); os.close(1); time.sleep(300)"
    events = talk.follow(talk.start(talk.code(code)))

    assert result_of(events).outcome == "failed"


def test_a_program_that_is_not_there_is_an_outcome(talk: Talk) -> None:
    events = talk.follow(talk.start(str(talk.folder / "nothing")))

    assert result_of(events).outcome == "agent_not_found"


def test_a_warning_is_given_once_where_nobody_can_be_asked(talk: Talk) -> None:
    steps = [step for name in ("c1", "c2") for step in (*called(name), ANSWER, done(name))]
    run = talk.start(talk.program(*first_turn(*steps)), on_ask="deny")
    events = talk.follow(run)

    assert [event.code for event in events if isinstance(event, Warning)] == ["nobody_to_ask"]


def test_a_program_is_greeted_and_given_its_prompt(talk: Talk) -> None:
    heard = talk.folder / "heard"
    code = f"""
with open({str(heard)!r}, "w") as file:
    for line in (sys.stdin.readline() for _ in range(2)):
        file.write(line)
print(json.dumps({result()["msg"]!r}), flush=True)
sys.stdin.read()
"""
    talk.follow(talk.start(talk.code(code)))
    hello, user = map(json.loads, heard.read_text().splitlines())
    assert hello["request"]["subtype"] == "initialize"
    assert user["message"]["content"] == [{"type": "text", "text": "go"}]
