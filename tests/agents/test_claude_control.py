"""Claude Code's control channel: recorded conversations, and whatever else a program may write."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from claude_peer import SCENARIOS, new_driver, played, recorded
from harness.contracts.driver import (
    Asked,
    Moves,
    NotTaken,
    Prompt,
    Send,
    SessionKnown,
    Taken,
    TurnEnded,
    TurnStarted,
    Withdrawn,
)
from harness.events import Relay, RelayReply
from recorded_peer import Played, read_recording

ENDS = {
    "error-401": ["failed"],
    "deny-interrupt": ["interrupted", "completed"],
    "interrupt-cancel-queued": ["interrupted"],
    "interrupt-queued": [
        "interrupted"
    ],  # as versions do that take nothing back: what followed is not waited for
    "interrupt-in-text": ["interrupted", "completed"],
    "interrupt-in-tool": ["interrupted", "completed"],
    "kill-in-tool": [],
    "kill-while-approval": [],
    "mode-switch": ["completed"] * 3,
    "model-switch": ["completed"] * 2,  # its third prompt was sent before the second turn was over
    "resume-unknown": [],
}
"""How the turns of a recording end; one completed turn where nothing is said."""


def relays(of: Played) -> list[Relay]:
    return [move.relay for move in of.of(Asked)]


def written(moves: Moves | None) -> list[Any]:
    lines = [move.data for move in moves or () if isinstance(move, Send)]
    assert all(data.endswith(b"\n") and data.count(b"\n") == 1 for data in lines)
    return [msgspec.json.decode(data) for data in lines]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_recorded_conversation_is_held_again(scenario: str) -> None:
    found = played(scenario)

    assert not found.differences
    assert not found.extra
    assert [move.outcome for move in found.of(TurnEnded)] == ENDS.get(scenario, ["completed"])


def test_a_question_for_permission_says_what_is_to_be_done() -> None:
    [relay] = relays(played("allow"))

    assert (relay.id, relay.kind, relay.tool_name) == ("line-1", "permission", "Bash")
    assert relay.input == {"command": "touch a.txt", "description": "Run a command"}
    assert relay.question == "Run a command"
    assert relay.call_id == "toolu_main_0_1_0"
    assert not relay.subagent


def test_a_question_has_its_options() -> None:
    [relay] = relays(played("question"))

    assert relay.kind == "question"
    assert [one["question"] for one in relay.payload["questions"]]
    assert all(one["options"] for one in relay.payload["questions"])


def test_a_plan_is_shown_as_it_was_written() -> None:
    kinds = [(relay.kind, relay.payload) for relay in relays(played("plan-file-approved"))]

    assert [kind for kind, _ in kinds] == ["question", "plan", "permission"]
    assert kinds[1][1]["plan"].startswith("# Plan")


def test_a_question_of_a_sub_agent_names_it_and_the_call_that_began_it() -> None:
    found = relays(played("two-approvals-subagents"))

    assert len(found) == 2
    assert {relay.subagent for relay in found} == {"general-purpose"}
    assert len({relay.spawn_call_id for relay in found}) == 2
    assert all(relay.spawn_call_id.startswith("toolu_") for relay in found)


def test_the_main_agent_is_no_sub_agent_also_where_it_is_named_like_its_session() -> None:
    driver = busy_driver()
    driver.receive({"type": "system", "subtype": "init", "session_id": "s1"})

    [main] = driver.receive(question("q1", agent_id="s1"))
    [child] = driver.receive(question("q2", agent_id="a1"))
    assert (main.relay.subagent, child.relay.subagent) == ("", "a1")


def test_a_sub_agent_is_known_by_its_call_where_no_task_is_announced() -> None:
    def called(call_id: str, parent: str | None, **given: Any) -> dict[str, Any]:
        content = [{"type": "tool_use", "id": call_id, "name": "Task", "input": given}]
        return {"type": "assistant", "message": {"content": content}, "parent_tool_use_id": parent}

    driver = busy_driver()
    driver.receive(called("c1", None, subagent_type="explorer"))
    driver.receive(called("c2", "c1"))
    [asked] = driver.receive(question("q", agent_id="7168f675", tool_use_id="c2"))

    assert (asked.relay.subagent, asked.relay.spawn_call_id) == ("explorer", "c1")


def test_a_version_without_a_tool_to_ask_cannot_ask() -> None:
    driver = new_driver()
    driver.receive(
        {"type": "system", "subtype": "init", "session_id": "s", "tools": ["Bash", "ExitPlanMode"]}
    )

    assert "ask" not in driver.capabilities
    assert "plan" in driver.capabilities


@pytest.mark.parametrize("scenario", ["steer-in-tool", "steer-while-approval", "two-prompts"])
def test_a_message_in_the_middle_is_taken_once(scenario: str) -> None:
    found = played(scenario)

    assert len(found.of(Taken)) == 1
    assert not found.of(NotTaken)


def test_the_session_is_known_from_its_first_turn() -> None:
    driver = new_driver()
    found = played("hello", driver)

    assert found.of(SessionKnown) == [SessionKnown(driver.session_id)]
    assert len(driver.session_id) == 36


# One turn, step by step


def idle(state: str = "idle") -> dict[str, Any]:
    return {"type": "system", "subtype": "session_state_changed", "state": state}


def lifecycle(prompt_id: str, state: str) -> dict[str, Any]:
    return {"type": "command_lifecycle", "command_uuid": prompt_id, "state": state}


def question(request_id: Any, **request: Any) -> dict[str, Any]:
    body = {"subtype": "can_use_tool", "tool_name": "Bash", "input": {"command": "ls"}, **request}
    return {"type": "control_request", "request_id": request_id, "request": body}


RESULT = {"type": "result", "subtype": "success", "is_error": False, "result": "Done.", "session_id": "s"}


def busy_driver() -> Any:
    driver = new_driver()
    driver.begin()
    driver.prompt(Prompt(id="p1", text="go"))
    driver.receive(idle("running"))
    driver.receive(lifecycle("p1", "started"))
    return driver


def test_a_turn_ends_when_the_program_is_idle_and_no_task_works_in_the_background() -> None:
    driver = busy_driver()
    task = {"type": "system", "task_id": "t1", "tool_use_id": "c1"}

    assert not driver.receive({**task, "subtype": "task_started"})
    assert not driver.receive(RESULT)
    assert not driver.receive(idle())
    assert not driver.receive({**task, "subtype": "task_notification", "status": "completed"})
    assert not driver.receive(idle("running"))
    assert not driver.receive(RESULT)
    assert driver.receive(idle()) == [TurnEnded("completed")]
    assert not driver.is_busy


def test_a_version_that_does_not_report_its_state_ends_with_its_result() -> None:
    driver = new_driver()
    driver.prompt(Prompt(id="p1", text="go"))

    assert driver.receive(RESULT) == [TurnEnded("completed")]


def test_an_interrupted_turn_ends_although_a_task_works_in_the_background() -> None:
    driver = busy_driver()
    driver.receive({"type": "system", "subtype": "task_started", "task_id": "t1"})
    driver.interrupt()
    driver.receive({**RESULT, "subtype": "error_during_execution", "terminal_reason": "aborted_tools"})

    assert driver.receive(idle()) == [TurnEnded("interrupted", "Done.")]


def test_what_waits_for_its_tasks_only_is_interrupted_at_once() -> None:
    driver = busy_driver()
    driver.receive({"type": "system", "subtype": "task_started", "task_id": "t1"})
    driver.receive(RESULT)
    driver.receive(idle())
    moves = driver.interrupt()

    assert [one["request"]["subtype"] for one in written(moves)] == ["interrupt", "stop_task"]
    assert moves[-1] == TurnEnded("interrupted")
    assert not driver.is_busy


def test_a_turn_waits_for_a_message_that_is_queued() -> None:
    driver = busy_driver()
    assert len(written(driver.steer(Prompt(id="p2", text="also")))) == 1

    assert not driver.receive(RESULT)
    assert not driver.receive(idle())
    assert not driver.receive(idle("running"))
    assert driver.receive(lifecycle("p2", "started")) == [Taken("p2")]
    assert not driver.receive(lifecycle("p2", "completed"))
    assert not driver.receive(RESULT)
    assert driver.receive(idle()) == [TurnEnded("completed")]


def test_a_message_that_was_dropped_from_the_queue_is_not_taken() -> None:
    driver = busy_driver()
    driver.steer(Prompt(id="p2", text="also"))

    assert driver.receive(lifecycle("p2", "cancelled")) == [NotTaken("p2")]
    driver.receive(RESULT)
    assert driver.receive(idle()) == [TurnEnded("completed")]


ABORTED = {**RESULT, "subtype": "error_during_execution", "terminal_reason": "aborted_tools"}


def steered_and_interrupted() -> tuple[Any, str]:
    """A driver whose turn is interrupted while a message is queued, and the id of its request to take that back."""
    driver = busy_driver()
    driver.steer(Prompt(id="p2", text="also"))
    requests = written(driver.interrupt())
    assert [one["request"]["subtype"] for one in requests] == ["cancel_async_message", "interrupt"]
    assert requests[0]["request"]["message_uuid"] == "p2"
    return driver, requests[0]["request_id"]


def response(request_id: str, subtype: str = "success", **body: Any) -> dict[str, Any]:
    return {
        "type": "control_response",
        "response": {"subtype": subtype, "request_id": request_id, "response": body},
    }


def test_what_is_queued_is_taken_back_before_the_turn_is_interrupted() -> None:
    driver, request_id = steered_and_interrupted()

    assert driver.receive(response(request_id, cancelled=True)) == [NotTaken("p2")]
    assert not driver.receive(ABORTED)
    assert driver.receive(idle()) == [TurnEnded("interrupted", "Done.")]


def test_a_message_that_was_taken_before_the_interruption_is_said_to_be_taken() -> None:
    driver, request_id = steered_and_interrupted()

    assert not driver.receive(response(request_id, cancelled=False))
    assert driver.receive({"type": "user", "uuid": "p2", "isReplay": True}) == [Taken("p2")]
    assert not driver.receive(ABORTED)
    assert driver.receive(idle()) == [TurnEnded("interrupted", "Done.")]


@pytest.mark.parametrize("answers", [[], [{"subtype": "error", "error": "Unsupported"}]])
def test_a_version_that_takes_nothing_back_is_killed_before_it_begins_with_the_message(
    answers: list[dict[str, str]],
) -> None:
    driver, request_id = steered_and_interrupted()
    for answer in answers:
        driver.receive({"type": "control_response", "response": {"request_id": request_id, **answer}})

    assert driver.receive(ABORTED) == [TurnEnded("interrupted", is_final=True, is_urgent=True)]


@pytest.mark.parametrize(("state", "outcome"), [("cancelled", "interrupted"), ("completed", "completed")])
def test_a_prompt_that_never_began_ends_its_turn(state: str, outcome: str) -> None:
    driver = new_driver()
    driver.prompt(Prompt(id="p1", text="go"))

    assert not driver.receive(lifecycle("p1", "queued"))
    assert [move.outcome for move in driver.receive(lifecycle("p1", state))] == [outcome]
    assert not driver.is_busy


def test_a_turn_may_begin_without_a_prompt() -> None:
    driver = busy_driver()
    driver.receive(RESULT)
    driver.receive(idle())

    assert driver.receive(idle("running")) == [TurnStarted()]
    driver.receive(RESULT)
    assert driver.receive(idle()) == [TurnEnded("completed")]


def test_a_result_without_a_turn_ends_nothing() -> None:
    assert not new_driver().receive(RESULT)


def test_a_message_is_taken_only_while_a_turn_runs() -> None:
    assert new_driver().steer(Prompt(id="p", text="x")) is None


# Questions


@pytest.mark.parametrize("request_id", [0, "", None, False, 1.5, "a", ["x"], {"y": 1}])
def test_ids_are_returned_exactly_as_they_came(request_id: Any) -> None:
    driver = busy_driver()
    [asked] = driver.receive(question(request_id))
    [said] = written(driver.answer(RelayReply(id=asked.relay.id, approved=True)))

    assert said["response"]["request_id"] == request_id
    assert type(said["response"]["request_id"]) is type(request_id)
    assert said["response"]["response"] == {"behavior": "allow", "updatedInput": {"command": "ls"}}


def test_an_id_that_is_used_again_belongs_to_the_later_question() -> None:
    driver = busy_driver()
    [first] = driver.receive(question("q"))
    withdrawn, second = driver.receive(question("q", tool_name="Write"))

    assert withdrawn == Withdrawn(first.relay.id)
    assert driver.answer(RelayReply(id=first.relay.id, approved=True)) is None
    assert len(written(driver.answer(RelayReply(id=second.relay.id, approved=False)))) == 1


@pytest.mark.parametrize(("open_id", "withdrawn_id"), [(0, False), (0, "0"), (1, True), (1, 1.0), ("", None)])
def test_only_the_question_of_that_very_id_is_withdrawn(open_id: Any, withdrawn_id: Any) -> None:
    driver = busy_driver()
    [asked] = driver.receive(question(open_id))

    assert not driver.receive({"type": "control_cancel_request", "request_id": withdrawn_id})
    assert driver.receive({"type": "control_cancel_request", "request_id": open_id}) == [
        Withdrawn(asked.relay.id)
    ]


def test_a_question_is_answered_once() -> None:
    driver = busy_driver()
    [asked] = driver.receive(question("q"))
    reply = RelayReply(id=asked.relay.id, approved=False, reason="not that file")

    [said] = written(driver.answer(reply))
    assert said["response"]["response"] == {"behavior": "deny", "message": "not that file"}
    assert driver.answer(reply) is None
    assert driver.answer(RelayReply(id="line-99", approved=True)) is None


def test_open_questions_of_an_interrupted_turn_are_refused() -> None:
    driver = busy_driver()
    driver.receive(question("q1"))
    driver.receive(question("q2"))

    answers = [record["response"] for record in written(driver.cancel_all())]
    assert [answer["request_id"] for answer in answers] == ["q1", "q2"]
    assert {answer["response"]["behavior"] for answer in answers} == {"deny"}
    assert not driver.cancel_all()


QUESTIONS = [
    {"question": "Which?", "options": [{"label": "A"}, {"label": "B"}], "multiSelect": True},
    {"question": "Why?", "options": []},
]


@pytest.mark.parametrize(
    ("questions", "answer", "answers"),
    [
        (QUESTIONS[:1], "A", {"Which?": "A"}),
        (QUESTIONS[:1], ["A", "B"], {"Which?": "A, B"}),
        (QUESTIONS[:1], {"Which?": ["A", "B"]}, {"Which?": "A, B"}),
        (QUESTIONS[:1], {"answer": "A"}, {"Which?": "A"}),
        (QUESTIONS, {"Which?": "A", "Why?": "so"}, {"Which?": "A", "Why?": "so"}),
        (QUESTIONS, {"Which?": "A"}, {"Which?": "A", "Why?": ""}),
        (QUESTIONS, None, {"Which?": "", "Why?": ""}),
    ],
)
def test_answers_go_under_the_text_of_their_question(questions: Any, answer: Any, answers: Any) -> None:
    driver = busy_driver()
    given_input = {"questions": questions}
    [asked] = driver.receive(question("q", tool_name="AskUserQuestion", input=given_input))
    [said] = written(driver.answer(RelayReply(id=asked.relay.id, approved=True, answer=answer)))

    assert said["response"]["response"] == {
        "behavior": "allow",
        "updatedInput": {**given_input, "answers": answers},
    }


def test_a_request_that_is_not_known_is_refused() -> None:
    [said] = written(busy_driver().receive(question("q", subtype="mcp_message")))

    assert said["response"] == {"request_id": "q", "subtype": "error", "error": "unsupported"}


@pytest.mark.parametrize(
    ("tool", "is_asked"), [("Bash", True), ("mcp__new__thing", True), ("Read", True), ("TodoWrite", False)]
)
def test_a_run_that_has_to_ask_asks_before_everything_that_is_not_known_to_be_harmless(
    tool: str, is_asked: bool
) -> None:
    driver = new_driver("ask")
    [hello] = written(driver.begin())
    [hook] = hello["request"]["hooks"]["PreToolUse"]
    [name] = hook["hookCallbackIds"]
    called = {"subtype": "hook_callback", "callback_id": name, "input": {"tool_name": tool}}
    [said] = written(driver.receive({"type": "control_request", "request_id": "k", "request": called}))

    decision = said["response"]["response"].get("hookSpecificOutput", {}).get("permissionDecision")
    assert (decision == "ask") is is_asked
    assert hook["matcher"] == "*"


# Whatever a program may write

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text(),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(st.text(), values, max_size=3),
    max_leaves=8,
)
LINES = [
    step.message
    for scenario in ("allow", "question", "plan-file-approved", "two-approvals-subagents", "steer-in-tool")
    for step in read_recording(recorded(scenario))
    if step.direction == "out" and step.message.get("type") != "stream_event"
]


@st.composite
def mutated(draw: st.DrawFn) -> dict[str, Any]:
    """A recorded line in which some value is another one."""
    record = msgspec.json.decode(msgspec.json.encode(draw(st.sampled_from(LINES))))
    place: Any = record
    for _ in range(draw(st.integers(0, 3))):
        inner = [value for value in _values(place) if isinstance(value, dict | list) and value]
        if not inner:
            break
        place = draw(st.sampled_from(inner))
    key = draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
    if draw(st.booleans()):
        place[key] = draw(JSON)
    else:
        del place[key]
    return record


def _values(place: Any) -> list[Any]:
    return list(place.values() if isinstance(place, dict) else place)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(mutated() | st.dictionaries(st.text(), JSON, max_size=4), max_size=6), JSON, st.booleans())
def test_a_driver_never_fails_and_writes_whole_lines(
    records: list[dict[str, Any]], answer: Any, approved: bool
) -> None:
    driver = busy_driver()
    for record in records:
        moves = driver.receive(record)
        written(moves)
        for move in moves:
            if isinstance(move, Asked):
                msgspec.json.encode(move.relay)
                reply = RelayReply(id=move.relay.id, approved=approved, answer=answer)
                assert len(written(driver.answer(reply))) == 1
    written(driver.steer(Prompt(id="p", text="x")))
    written(driver.interrupt())
    written(driver.cancel_all())
