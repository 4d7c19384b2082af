"""The driver of OpenCode's server: the handshake, turns, questions and the connection."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from harness.agents.registry import load
from harness.contracts.driver import (
    Asked,
    NotTaken,
    Prompt,
    Send,
    SessionKnown,
    Taken,
    TurnEnded,
    TurnStarted,
    Withdrawn,
)
from harness.contracts.model import Attachment
from harness.contracts.request import Request
from served_dialogue import BUSY, PERMISSION, ServedDialogue, asked, busy, event, new_dialogue

COMPLETE: dict[str, Any] = {"time": {"created": 1, "completed": 2}}
IDLE = event("session.idle", sessionID="ses_1")


def answer_begins(parent: str = "msg_0", message_id: str = "msg_1", **more: Any) -> dict[str, Any]:
    info = {"id": message_id, "role": "assistant", "parentID": parent, "time": {"created": 1}, **more}
    return event("message.updated", sessionID="ses_1", info={"sessionID": "ses_1", **info})


def call(status: str = "running", **state: Any) -> dict[str, Any]:
    part = {
        "type": "tool",
        "tool": "bash",
        "callID": "call_1",
        "messageID": "msg_1",
        "sessionID": "ses_1",
        "id": "prt_1",
    }
    return event(
        "message.part.updated", sessionID="ses_1", part={**part, "state": {"status": status, **state}}
    )


# The handshake


def test_a_new_session_gets_a_title_and_the_rules_of_its_permissions() -> None:
    dialogue = ServedDialogue()
    dialogue.do(dialogue.driver.begin())

    method, path, body = dialogue.last()
    assert (method, path, body["title"]) == ("POST", "/session", "go")
    assert body["permission"][0] == {"permission": "*", "pattern": "*", "action": "ask"}
    allowed = {rule["permission"] for rule in body["permission"] if rule["action"] == "allow"}
    assert allowed == {"todoread", "todowrite", "question"}


def test_a_read_only_session_denies_what_its_sub_agents_inherit() -> None:
    dialogue = ServedDialogue(permissions="read-only")
    dialogue.do(dialogue.driver.begin())

    rules = dialogue.last()[2]["permission"]
    assert [rule["permission"] for rule in rules if rule["action"] == "deny"] == ["edit", "bash"]
    assert rules[-1]["action"] == "deny"


def test_a_session_that_was_read_only_can_be_resumed_with_more_access() -> None:
    dialogue = ServedDialogue(permissions="full-access", resume="ses_0")
    dialogue.do(dialogue.driver.begin())
    denies = {"permission": "bash", "pattern": "*", "action": "deny"}
    dialogue.answers({"id": "ses_0", "permission": [denies]})

    assert dialogue.last()[:2] == ("PATCH", "/session/ses_0")
    assert dialogue.answers({"id": "ses_0"}) == [SessionKnown("ses_0")]


@pytest.mark.parametrize("permissions", ["full-access", "agent-default"])
def test_without_asking_the_rules_are_those_of_its_settings(permissions: Any) -> None:
    dialogue = ServedDialogue(permissions=permissions)
    dialogue.do(dialogue.driver.begin())

    assert "permission" not in dialogue.last()[2]


def test_a_prompt_waits_for_the_session() -> None:
    dialogue = ServedDialogue(permissions="full-access")
    dialogue.do(dialogue.driver.begin())
    dialogue.do(dialogue.driver.prompt(Prompt(id="p1", text="hello")))
    assert len(dialogue.written) == 1

    dialogue.answers({"id": "ses_1"})

    assert dialogue.moves == [SessionKnown("ses_1")]
    assert dialogue.last() == (
        "POST",
        "/session/ses_1/prompt_async",
        {"parts": [{"type": "text", "text": "hello"}]},
    )


def test_a_session_is_resumed_with_the_rules_of_this_run() -> None:
    dialogue = ServedDialogue(permissions="read-only", resume="ses_0")
    dialogue.do(dialogue.driver.begin())
    assert dialogue.last()[:2] == ("PATCH", "/session/ses_0")

    plain = ServedDialogue(permissions="full-access", resume="a/../b")
    plain.do(plain.driver.begin())
    assert plain.last() == ("GET", "/session/a%2F..%2Fb", None)


def test_the_latest_session_is_continued() -> None:
    dialogue = ServedDialogue(permissions="read-only", continue_last=True)
    dialogue.do(dialogue.driver.begin())
    dialogue.answers([{"id": "ses_9"}])
    assert dialogue.last()[:2] == ("PATCH", "/session/ses_9")

    assert dialogue.answers({"id": "ses_9"}) == [SessionKnown("ses_9")]


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (
            404,
            {"name": "NotFoundError", "data": {"message": "Session not found: ses_0"}},
            "Session not found",
        ),
        (500, None, "status 500"),
        (200, ["?"], "status 200"),
        (0, None, "failed"),
    ],
)
def test_a_session_that_cannot_be_had_ends_the_conversation(status: int, body: Any, words: str) -> None:
    dialogue = ServedDialogue(permissions="full-access", resume="ses_0")
    dialogue.do(dialogue.driver.begin())
    dialogue.do(dialogue.driver.prompt(Prompt(id="p1", text="hello")))

    [end] = dialogue.answers(body, status)

    assert isinstance(end, TurnEnded)
    assert (end.outcome, end.is_final) == ("failed", True)
    assert words in end.message


def test_without_a_session_to_continue_the_conversation_ends() -> None:
    dialogue = ServedDialogue(permissions="full-access", continue_last=True)
    dialogue.do(dialogue.driver.begin())

    [end] = dialogue.answers([])

    assert end == TurnEnded("failed", "there is no session to continue in this directory", is_final=True)


def test_the_server_is_started_here_with_a_password_and_the_settings_of_its_permissions() -> None:
    two_way = load("kilo").two_way
    assert two_way is not None
    command = two_way.command(Request(agent="kilo", permissions="ask"), ())

    assert command.args == ("serve", "--hostname", "127.0.0.1", "--port", "0")
    assert command.env["KILO_SERVER_PASSWORD"] == command.env["KILO_SERVER_USERNAME"] == ""
    settings = msgspec.json.decode(command.env["KILO_PERMISSION"])
    assert settings["*"] == settings["bash"] == settings["edit"] == {"*": "ask"}
    assert settings["read"] == settings["task"] == settings["skill"] == {"*": "ask"}
    read_only = two_way.command(Request(agent="kilo", permissions="read-only"), ())
    settings = msgspec.json.decode(read_only.env["KILO_PERMISSION"])
    assert settings["edit"] == settings["bash"] == {"*": "deny"}
    assert settings["*"] == {"*": "ask"}
    assert "KILO_PERMISSION" not in two_way.command(Request(agent="kilo"), ()).env


# Turns


def test_a_turn_ends_when_the_session_rests_after_it_has_worked() -> None:
    dialogue = new_dialogue()
    dialogue.do(dialogue.driver.prompt(Prompt(id="p1", text="go")))

    assert dialogue.hears(IDLE) == []  # of the turn before
    assert dialogue.hears(BUSY, event("session.idle", sessionID="ses_other")) == []
    assert dialogue.hears(IDLE) == [TurnEnded("completed")]
    assert dialogue.hears(IDLE) == []
    assert not dialogue.driver.is_busy


def test_files_model_and_agent_go_with_the_prompt() -> None:
    dialogue = new_dialogue(model="lab/small/model")
    image = Attachment("image/png", "aGk=", "a.png")
    dialogue.do(dialogue.driver.configure(mode="plan"))
    dialogue.do(dialogue.driver.prompt(Prompt(id="p1", text="see", attachments=(image,))))

    assert dialogue.last()[2] == {
        "parts": [
            {"type": "text", "text": "see"},
            {"type": "file", "mime": "image/png", "url": "data:image/png;base64,aGk=", "filename": "a.png"},
        ],
        "model": {"providerID": "lab", "modelID": "small/model"},
        "agent": "plan",
    }


def test_a_prompt_that_is_refused_ends_the_turn_but_not_the_conversation() -> None:
    dialogue = new_dialogue()
    dialogue.do(dialogue.driver.prompt(Prompt(id="p1", text="go")))

    [end] = dialogue.answers({"name": "BadRequest", "data": {"message": "Missing key"}}, 400)

    assert end == TurnEnded("failed", "the agent's server answers with status 400: Missing key")


def test_an_error_of_the_session_is_the_reason_of_its_end() -> None:
    error = {"name": "APIError", "data": {"message": "no such key"}}

    moves = busy().hears(event("session.error", sessionID="ses_1", error=error), IDLE)

    assert moves == [TurnEnded("failed", "no such key")]


def test_work_without_a_prompt_is_a_turn_of_its_own() -> None:
    dialogue = new_dialogue()

    assert dialogue.hears(BUSY, BUSY, IDLE) == [TurnStarted(), TurnEnded("completed")]


# Steering


def steered(dialogue: ServedDialogue) -> None:
    dialogue.do(dialogue.driver.steer(Prompt(id="s1", text="also X")))
    dialogue.answers(status=204)


def echo(text: str = "also X", message_id: str = "msg_s") -> dict[str, Any]:
    part = {"type": "text", "text": text, "messageID": message_id, "sessionID": "ses_1", "id": "prt_s"}
    return event("message.part.updated", sessionID="ses_1", part=part)


def test_a_steering_message_is_taken_by_the_answer_to_it() -> None:
    dialogue = busy()
    steered(dialogue)

    assert dialogue.hears(echo(), answer_begins("msg_0")) == []
    assert dialogue.hears(answer_begins("msg_s", **COMPLETE), IDLE) == [Taken("s1"), TurnEnded("completed")]


def test_a_turn_continues_when_a_late_message_has_started_another_answer() -> None:
    dialogue = busy()
    steered(dialogue)

    assert dialogue.hears(echo(), IDLE) == []
    assert dialogue.answers({"ses_1": {"type": "busy"}}, path="/session/status") == []
    end = [Taken("s1"), TurnEnded("completed")]
    assert dialogue.hears(BUSY, answer_begins("msg_s", **COMPLETE), IDLE) == end


def test_a_message_that_came_too_late_has_to_be_sent_again() -> None:
    dialogue = busy()
    steered(dialogue)
    dialogue.hears(IDLE)

    assert dialogue.answers({}, path="/session/status") == [NotTaken("s1"), TurnEnded("completed")]


def test_a_message_that_is_refused_was_not_taken() -> None:
    dialogue = busy()
    dialogue.do(dialogue.driver.steer(Prompt(id="s1", text="also X")))

    assert dialogue.answers(None, 500, "prompt_async") == [NotTaken("s1")]


def test_a_message_that_an_interrupted_turn_has_in_its_history_counts_as_taken() -> None:
    dialogue = busy()
    steered(dialogue)
    dialogue.hears(echo())
    dialogue.do(dialogue.driver.interrupt())

    assert dialogue.hears(IDLE) == [Taken("s1"), TurnEnded("interrupted")]


def test_an_idle_session_takes_no_steering_message() -> None:
    assert new_dialogue().driver.steer(Prompt(id="s1", text="x")) is None


# Interrupting


def test_an_interrupted_turn_ends_when_the_server_is_really_done() -> None:
    dialogue = busy()
    dialogue.hears(answer_begins())
    dialogue.do(dialogue.driver.interrupt())
    assert dialogue.last() == ("POST", "/session/ses_1/abort", None)

    assert dialogue.hears(IDLE, call("completed"), answer_begins(**COMPLETE)) == []
    assert dialogue.hears(IDLE) == [TurnEnded("interrupted")]
    assert dialogue.hears(IDLE) == []


def test_a_failed_turn_ends_when_the_server_is_really_done() -> None:
    dialogue = busy()
    error = {"name": "APIError", "data": {"message": "no"}}

    assert dialogue.hears(answer_begins(), event("session.error", sessionID="ses_1", error=error), IDLE) == []
    assert dialogue.hears(answer_begins(error=error, **COMPLETE)) == []
    assert dialogue.hears(IDLE) == [TurnEnded("failed", "no")]


def test_answers_of_an_earlier_turn_do_not_end_this_one() -> None:
    dialogue = busy()
    dialogue.do(dialogue.driver.interrupt())
    dialogue.hears(IDLE)
    dialogue.answers(True, path="/abort")
    dialogue.do(dialogue.driver.prompt(Prompt(id="p2", text="more")))

    assert dialogue.answers({}, path="/session/status") == []
    count = len(dialogue.written)
    dialogue.answers([{**PERMISSION, "sessionID": "ses_1"}], path="/permission")
    assert len(dialogue.written) == count  # what is open now is not left over


def test_a_server_that_says_only_once_that_it_rests_is_asked_and_then_believed() -> None:
    dialogue = busy()
    dialogue.hears(answer_begins(), IDLE, answer_begins(**COMPLETE))

    moves: list[Any] = []
    for _ in range(20):
        assert moves == []
        moves = dialogue.answers({}, path="/session/status")

    assert moves == [TurnEnded("completed")]


def test_a_prompt_that_the_server_cannot_begin_with_fails() -> None:
    dialogue = new_dialogue()
    dialogue.do(dialogue.driver.prompt(Prompt(id="p1", text="go")))
    error = {"name": "UnknownError", "data": {"message": "Agent not found"}}
    dialogue.hears(event("session.error", sessionID="ses_1", error=error))

    assert dialogue.answers({}, path="/session/status") == [TurnEnded("failed", "Agent not found")]


def test_a_turn_that_has_not_started_to_answer_ends_when_the_server_says_that_it_rests() -> None:
    dialogue = busy()
    dialogue.do(dialogue.driver.interrupt())
    dialogue.answers(True, path="/abort")

    assert dialogue.answers({"ses_1": {"type": "busy"}}, path="/session/status") == []
    assert dialogue.hears(IDLE) == [TurnEnded("interrupted")]


def test_an_abort_that_came_before_the_work_is_sent_again() -> None:
    dialogue = new_dialogue()
    dialogue.do(dialogue.driver.prompt(Prompt(id="p1", text="go")))
    dialogue.do(dialogue.driver.interrupt())
    dialogue.answers(True, path="/abort")
    assert dialogue.answers({}, path="/session/status") == []

    dialogue.hears(BUSY)
    assert dialogue.last()[:2] == ("POST", "/session/ses_1/abort")
    dialogue.hears(BUSY)
    assert [each["path"] for each in dialogue.written].count("/session/ses_1/abort") == 2
    assert dialogue.hears(IDLE) == [TurnEnded("interrupted")]


def test_a_turn_that_another_client_has_aborted_is_interrupted() -> None:
    error = {"name": "MessageAbortedError", "data": {"message": "Aborted"}}

    moves = busy().hears(event("session.error", sessionID="ses_1", error=error), IDLE)

    assert moves == [TurnEnded("interrupted")]


def test_questions_that_outlive_an_abort_are_rejected() -> None:
    dialogue = busy()
    dialogue.hears(asked())
    dialogue.do(dialogue.driver.interrupt())
    dialogue.do(dialogue.driver.cancel_all())
    assert dialogue.last() == ("POST", "/permission/per_1/reply", {"reply": "reject"})

    dialogue.answers(True, path="/abort")
    foreign = {**PERMISSION, "id": "per_x", "sessionID": "ses_x"}
    dialogue.answers([{**PERMISSION, "id": "per_2", "sessionID": "ses_1"}, foreign, 7], path="/permission")
    assert dialogue.last() == ("POST", "/permission/per_2/reply", {"reply": "reject"})
    dialogue.hears(asked(id="per_3"))
    assert dialogue.last()[1] == "/permission/per_3/reply"
    assert len(dialogue.asked) == 1


def test_an_interrupt_before_the_session_is_there_ends_the_turn_at_once() -> None:
    dialogue = ServedDialogue(permissions="full-access")
    dialogue.do(dialogue.driver.begin())
    dialogue.do(dialogue.driver.prompt(Prompt(id="p1", text="go")))

    assert dialogue.do(dialogue.driver.interrupt()) == [TurnEnded("interrupted")]
    assert dialogue.answers({"id": "ses_1"}) == [SessionKnown("ses_1")]
    assert len(dialogue.written) == 1


# Questions


def test_a_question_for_permission_shows_the_call() -> None:
    dialogue = busy()
    [move] = dialogue.hears(call(input={"command": "touch a", "description": "x"}), asked())

    assert isinstance(move, Asked)
    relay = move.relay
    assert (relay.kind, relay.call_id, relay.tool_name) == ("permission", "call_1", "bash")
    assert relay.input == {"command": "touch a", "description": "x"}
    assert relay.question == "bash: touch a"


def test_a_call_whose_part_comes_later_shows_what_the_question_says() -> None:
    [move] = busy().hears(call("pending", input={}), asked())

    assert isinstance(move, Asked)
    assert (move.relay.tool_name, move.relay.input) == ("bash", {"command": "touch a"})


def test_a_permission_is_given_once_or_refused_with_a_reason() -> None:
    dialogue = busy()
    dialogue.hears(asked(), asked(id="per_2"), asked(id="per_3"))
    first, second, third = (move.relay.id for move in dialogue.asked)

    dialogue.reply(second, False, reason="Not that file.")
    assert dialogue.last() == (
        "POST", "/permission/per_2/reply", {"reply": "reject", "message": "Not that file."},
    )  # fmt: skip
    dialogue.reply(first, always=True)
    assert dialogue.last() == ("POST", "/permission/per_1/reply", {"reply": "once"})
    dialogue.reply(third, False)
    assert dialogue.last()[2]["message"]
    assert dialogue.driver.answer(msgspec.structs.replace(_reply(first), approved=False)) is None


def _reply(relay_id: str) -> Any:
    from harness.events import RelayReply

    return RelayReply(id=relay_id, approved=True)


def test_the_same_question_is_asked_once() -> None:
    assert len(busy().hears(asked(), asked())) == 1


def test_a_question_that_another_client_has_answered_is_withdrawn() -> None:
    dialogue = busy()
    dialogue.hears(asked())

    moves = dialogue.hears(event("permission.replied", sessionID="ses_1", requestID="per_1", reply="once"))

    assert moves == [Withdrawn(dialogue.asked[0].relay.id)]


def test_full_access_needs_no_question() -> None:
    dialogue = busy(permissions="full-access")

    assert dialogue.hears(asked()) == []
    assert dialogue.last() == ("POST", "/permission/per_1/reply", {"reply": "once"})


def test_a_foreign_session_is_not_answered() -> None:
    dialogue = busy(permissions="full-access")

    assert dialogue.hears(asked("ses_other")) == []
    assert "/permission" not in dialogue.last()[1]


QUESTIONS = [
    {"question": "Which?", "header": "Pick", "options": [{"label": "A", "description": "1"}, {"label": "B"}]},
    {"question": "How?", "header": "Way", "options": [], "multiple": True},
]


@pytest.mark.parametrize(
    ("questions", "answer", "sent"),
    [
        (QUESTIONS[:1], "B", [["B"]]),
        (QUESTIONS[:1], {"answer": "B"}, [["B"]]),
        (QUESTIONS, {"0": "A", "How?": ["x", "y"]}, [["A"], ["x", "y"]]),
        (QUESTIONS, {"0": "A"}, [["A"], []]),
    ],
)
def test_the_user_is_asked_and_the_answers_go_back_in_order(questions: Any, answer: Any, sent: Any) -> None:
    dialogue = busy()
    [move] = dialogue.hears(event("question.asked", id="que_1", sessionID="ses_1", questions=questions))
    assert isinstance(move, Asked)
    assert move.relay.kind == "question"

    dialogue.reply(move.relay.id, answer=answer)

    assert dialogue.last() == ("POST", "/question/que_1/reply", {"answers": sent})


def test_a_question_that_is_not_answered_is_rejected_or_answered_with_the_reason() -> None:
    dialogue = busy()
    for number in (1, 2):
        dialogue.hears(event("question.asked", id=f"que_{number}", sessionID="ses_1", questions=QUESTIONS))
    first, second = (move.relay.id for move in dialogue.asked)

    dialogue.reply(first, False)
    assert dialogue.last() == ("POST", "/question/que_1/reject", None)
    dialogue.reply(second, False, reason="no time")
    assert dialogue.last()[2] == {"answers": [["The user did not answer: no time"]] * 2}


# The connection


def test_after_a_gap_in_the_stream_everything_that_was_missed_is_requested() -> None:
    dialogue = busy()
    steered(dialogue)
    connected = event("server.connected")
    dialogue.hears(connected)
    assert dialogue.last()[:2] == ("GET", "/session/ses_1/message?limit=50")
    user = {"id": "msg_s", "role": "user", "sessionID": "ses_1"}
    text = {"type": "text", "text": "also X", "id": "prt_s", "messageID": "msg_s", "sessionID": "ses_1"}
    answer = {**answer_begins("msg_s")["data"]["properties"]["info"], "time": {"completed": 2}}

    missed = [{"info": user, "parts": [text]}, {"info": answer, "parts": []}]
    assert dialogue.answers(missed, path="/message") == [Taken("s1")]
    [move] = dialogue.answers([{**PERMISSION, "sessionID": "ses_1"}], path="/permission")
    assert isinstance(move, Asked)
    dialogue.answers([], path="/question")
    assert dialogue.answers({}, path="/session/status") == [TurnEnded("completed")]


def test_while_nothing_runs_nothing_can_be_missed() -> None:
    dialogue = new_dialogue()
    count = len(dialogue.written)

    assert dialogue.hears(event("server.connected")) == []
    assert len(dialogue.written) == count


def test_a_server_that_is_lost_ends_the_conversation() -> None:
    dialogue = busy()
    dialogue.hears(asked())

    moves = dialogue.hears({"event": "transport.lost", "data": {"error": "it is gone"}})

    assert moves == [
        Withdrawn(dialogue.asked[0].relay.id),
        TurnEnded("failed", "it is gone", is_final=True),
    ]


def test_pieces_of_text_need_not_be_decoded() -> None:
    driver = new_dialogue().driver

    assert b'{"event":"message.part.delta","data":{}}'.startswith(driver.skips)
    assert not b'{"event":"message.part.updated","data":{}}'.startswith(driver.skips)


def test_every_request_has_a_number_of_its_own() -> None:
    dialogue = busy()
    dialogue.do(dialogue.driver.interrupt())
    dialogue.answers(True, path="/abort")

    numbers = [request["id"] for request in dialogue.written]
    assert numbers == sorted(set(numbers))
    assert all(isinstance(move, Send) for move in dialogue.driver.cancel_all())
