"""What Codex asks: as questions of the run, and the answers in its own form."""

from __future__ import annotations

from typing import Any

import pytest

from codex_dialogues import CHILD, TURN, asked, busy, command, completed, note, of, request, started, written
from harness.contracts.driver import TurnEnded, Withdrawn
from harness.events import RelayReply


def test_two_questions_are_open_at_once_and_answered_in_any_order() -> None:
    codex = busy()
    first, second = asked(codex, command(0)), asked(codex, command(1, itemId="c2", command="touch b"))

    assert (first.tool_name, first.call_id, first.input) == ("shell", "c1", {"command": "touch a"})
    no = codex.answer(RelayReply(id=second.id, approved=False))
    yes = codex.answer(RelayReply(id=first.id, approved=True, always=True))
    assert written(no) == [{"id": 1, "result": {"decision": "decline"}}]
    assert written(yes) == [{"id": 0, "result": {"decision": "accept"}}]


def test_the_folder_of_a_command_is_shown_where_it_is_another_one() -> None:
    codex = busy(cwd="/repo")

    assert asked(codex, command(0, cwd="/repo")).input == {"command": "touch a"}
    assert asked(codex, command(1, cwd="/etc")).input == {"command": "touch a", "cwd": "/etc"}


def test_a_reason_is_said_before_the_refusal_whether_codex_takes_it_or_not() -> None:
    for answer in ({"result": {"turnId": TURN}}, {"error": {"code": -32600, "message": "no active turn"}}):
        codex = busy()
        relay = asked(codex, command())

        [steer] = written(codex.answer(RelayReply(id=relay.id, approved=False, reason="use b")))
        assert steer["method"] == "turn/steer"
        assert steer["params"]["expectedTurnId"] == TURN
        assert steer["params"]["input"][0]["text"] == "Not allowed: use b"
        refusal = codex.receive({"id": steer["id"], **answer})
        assert written(refusal) == [{"id": 0, "result": {"decision": "decline"}}]


def test_a_change_of_files_is_asked_with_its_differences() -> None:
    codex = busy()
    changes = [
        {"path": "/r/new", "kind": {"type": "add"}, "diff": "a\nb\n"},
        {"path": "/r/old", "kind": {"type": "update", "move_path": None}, "diff": "@@ -1 +1 @@\n-a\n+b\n"},
        {"path": "/r/gone", "kind": {"type": "delete"}, "diff": "x\n"},
    ]
    codex.receive(note("item/started", item={"type": "fileChange", "id": "f1", "changes": changes}))

    relay = asked(codex, request("item/fileChange/requestApproval", itemId="f1", reason="more room"))
    assert (relay.tool_name, relay.question) == ("file_change", "more room")
    assert relay.input == {"changes": changes}
    shown = [(one["change"], one["added"], one["removed"], one["diff"]) for one in relay.preview]
    assert shown == [
        ("create", 2, 0, "+a\n+b"),
        ("update", 1, 1, "@@ -1 +1 @@\n-a\n+b"),
        ("delete", 0, 1, "-x"),
    ]


def test_of_a_huge_change_a_part_is_shown() -> None:
    codex = busy()
    change = {"path": "/r/new", "kind": {"type": "add"}, "diff": "line\n" * 1000}
    codex.receive(note("item/started", item={"type": "fileChange", "id": "f1", "changes": [change]}))

    relay = asked(codex, request("item/fileChange/requestApproval", itemId="f1"))
    assert (relay.preview[0]["added"], relay.preview[0]["hidden_lines"]) == (1000, 600)


def test_permissions_are_granted_for_the_turn_or_not_at_all() -> None:
    wanted = {"network": {"enabled": True}, "fileSystem": None}
    for is_approved, granted in ((True, {"network": {"enabled": True}}), (False, {})):
        codex = busy()
        relay = asked(codex, request("item/permissions/requestApproval", permissions=wanted, cwd="/r"))

        answer = written(codex.answer(RelayReply(id=relay.id, approved=is_approved)))
        assert answer == [{"id": 0, "result": {"permissions": granted, "scope": "turn"}}]


QUESTION = {"id": "q1", "question": "Which?", "header": "Pick", "options": [{"label": "A"}, {"label": "B"}]}


@pytest.mark.parametrize(
    ("reply", "answers"),
    [
        ({"approved": True, "answer": "B"}, {"q1": {"answers": ["B"]}}),
        ({"approved": True, "answer": {"q1": ["A", "B"]}}, {"q1": {"answers": ["A", "B"]}}),
        ({"approved": False}, {}),
        ({"approved": False, "reason": "guess"}, {"q1": {"answers": ["The user did not answer: guess"]}}),
    ],
)
def test_questions_of_the_model_are_answered_by_their_ids(reply: Any, answers: Any) -> None:
    codex = busy()
    relay = asked(codex, request("item/tool/requestUserInput", itemId="c1", questions=[QUESTION]))

    assert (relay.kind, relay.question, relay.options) == ("question", "Which?", ["A", "B"])
    answer = written(codex.answer(RelayReply(id=relay.id, **reply)))
    assert answer == [{"id": 0, "result": {"answers": answers}}]


def test_a_call_of_an_mcp_tool_is_a_question_for_permission() -> None:
    codex = busy()
    for number, text in enumerate(("other", "hi")):
        item = {"type": "mcpToolCall", "id": f"m{number}", "server": "demo", "tool": "echo"}
        codex.receive(note("item/started", item={**item, "arguments": {"text": text}}))
    meta = {"codex_approval_kind": "mcp_tool_call", "tool_params": {"text": "hi"}}

    relay = asked(
        codex, request("mcpServer/elicitation/request", serverName="demo", message="Allow?", _meta=meta)
    )
    assert (relay.kind, relay.tool_name, relay.input) == ("permission", "mcp__demo__echo", {"text": "hi"})
    assert relay.call_id == "m1"
    answer = written(codex.answer(RelayReply(id=relay.id, approved=True)))
    assert answer == [{"id": 0, "result": {"action": "accept", "content": {}, "_meta": None}}]


FORM = {"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]}


@pytest.mark.parametrize(
    ("reply", "action", "content"),
    [
        ({"approved": True, "answer": "7"}, "accept", {"age": 7}),
        ({"approved": True, "answer": {"age": 7}}, "accept", {"age": 7}),
        ({"approved": True, "answer": "old"}, "cancel", None),
        ({"approved": False}, "decline", None),
    ],
)
def test_what_an_mcp_server_asks_is_a_question(reply: Any, action: str, content: Any) -> None:
    codex = busy()
    relay = asked(
        codex,
        request(
            "mcpServer/elicitation/request",
            serverName="demo",
            mode="form",
            message="Your age?",
            requestedSchema=FORM,
            _meta=None,
        ),
    )

    assert (relay.kind, relay.question) == ("question", "demo asks: Your age?")
    answer = written(codex.answer(RelayReply(id=relay.id, **reply)))
    assert answer == [{"id": 0, "result": {"action": action, "content": content, "_meta": None}}]


def test_a_sub_agent_asks_under_its_own_name() -> None:
    codex = busy()
    spawn = {"type": "collabAgentToolCall", "id": "s1", "tool": "spawnAgent", "receiverThreadIds": [CHILD]}
    codex.receive(note("item/completed", item=spawn))
    codex.receive(started(CHILD, "ct"))

    relay = asked(codex, command(threadId=CHILD, turnId="ct"))
    assert (relay.subagent, relay.spawn_call_id) == ("sub-agent 1", "s1")
    [steer] = written(codex.answer(RelayReply(id=relay.id, approved=False, reason="no")))
    assert (steer["params"]["threadId"], steer["params"]["expectedTurnId"]) == (CHILD, "ct")


def test_a_question_is_withdrawn_when_codex_resolves_it_itself() -> None:
    codex = busy()
    relay = asked(codex, command(0))

    assert codex.receive(note("serverRequest/resolved", requestId=0)) == [Withdrawn(relay.id)]
    assert codex.answer(RelayReply(id=relay.id, approved=True)) is None


def test_what_is_open_when_the_turn_ends_is_refused() -> None:
    codex = busy()
    codex.receive(started(CHILD, "ct"))
    relay = asked(codex, command(5, threadId=CHILD, turnId="ct"))

    moves = codex.receive(completed())
    assert of(Withdrawn, moves) == [Withdrawn(relay.id, "the turn has ended")]
    assert written(moves) == [{"id": 5, "result": {"decision": "decline"}}]
    assert moves[-1] == TurnEnded("completed")


def test_an_unknown_request_is_refused() -> None:
    [refusal] = written(busy().receive(request("item/tool/call", "x")))
    assert (refusal["id"], refusal["error"]["code"]) == ("x", -32601)
