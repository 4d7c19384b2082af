"""Questions of ACP agents: forms, and questions in disguise."""

from __future__ import annotations

from typing import Any

import pytest

from acp_peer import OPTIONS, Peer
from harness.contracts.driver import Asked


def test_a_form_is_questions_and_its_answer_has_the_types_of_its_fields() -> None:
    peer = Peer()
    peer.open()
    choices = [{"const": "A", "title": "A", "description": "first"}, {"const": "B"}]
    schema = {
        "type": "object",
        "properties": {
            "one": {"type": "string", "title": "Pick", "oneOf": choices},
            "one_custom": {"type": "string"},
            "many": {"type": "array", "items": {"enum": ["x", "y"]}},
            "number": {"type": "integer"},
            "sure": {"type": "boolean"},
        },
    }
    params = {"mode": "form", "message": "Which?", "requestedSchema": schema, "toolCallId": "c"}
    peer.hear({"id": 0, "method": "elicitation/create", "params": params})
    relay = peer.has(Asked)[0].relay
    assert [one["id"] for one in relay.payload["questions"]] == ["one", "many", "number", "sure"]
    answers = {"one": "something else", "many": ["x", "y"], "number": "4", "sure": "yes"}
    [answer] = peer.reply(relay.id, approved=True, answer=answers)
    content = {"one_custom": "something else", "many": ["x", "y"], "number": 4, "sure": True}
    assert answer["result"] == {"action": "accept", "content": content}


@pytest.mark.parametrize(
    ("field", "answer"),
    [
        ({"type": "string", "oneOf": [{"const": "red"}, {"const": "blue"}]}, "take mauve"),
        ({"type": "array", "items": {"enum": ["red", "blue"]}}, ["red", "take mauve"]),
    ],
)
def test_own_words_that_a_form_has_no_place_for_are_given_as_a_message(
    field: dict[str, Any], answer: Any
) -> None:
    peer = Peer()
    peer.open()
    peer.prompt()
    schema = {"type": "object", "properties": {"q0": field}, "required": ["q0"]}
    params = {"mode": "form", "message": "Which colour?", "requestedSchema": schema}
    peer.hear({"id": 0, "method": "elicitation/create", "params": params})
    [declined] = peer.reply(peer.has(Asked)[0].relay.id, approved=True, answer=answer)
    assert declined["result"] == {"action": "decline"}
    [prompt] = peer.answer("session/prompt", {"stopReason": "end_turn"})
    assert "Which colour?" in prompt["params"]["prompt"][0]["text"]
    assert "take mauve" in prompt["params"]["prompt"][0]["text"]


def test_a_form_is_declined_and_cancelled() -> None:
    peer = Peer()
    peer.open()
    peer.hear({"id": 0, "method": "elicitation/create", "params": {"mode": "url", "url": "http://x"}})
    [answer] = peer.reply(peer.has(Asked)[0].relay.id, approved=False)
    assert answer["result"] == {"action": "decline"}
    peer.hear({"id": 0, "method": "elicitation/create", "params": {}})
    [answer] = peer.do(peer.driver.cancel_all())
    assert answer["result"] == {"action": "cancel"}
    assert not peer.driver.open


def test_a_question_in_disguise_is_a_question() -> None:
    peer = Peer()
    peer.open()
    asked = [{"question": "Which?", "header": "H", "options": [{"label": "A"}, {"label": "B"}]}]
    meta = {"qwenInteractionKind": "user_question", "qwenQuestions": asked}
    relay_id = ""
    params = {"toolCall": {"toolCallId": "c", "_meta": meta}, "options": OPTIONS}
    peer.hear({"id": 0, "method": "session/request_permission", "params": params})
    relay = peer.has(Asked)[0].relay
    relay_id = relay.id
    assert (relay.kind, relay.question, relay.options) == ("question", "Which?", ["A", "B"])
    [answer] = peer.reply(relay_id, approved=True, answer="B")
    assert answer["result"] == {"outcome": {"outcome": "selected", "optionId": 0}, "answers": {"0": "B"}}
