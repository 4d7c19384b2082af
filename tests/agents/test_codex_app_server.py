"""The driver of `codex app-server`: recorded conversations held again, and rules one by one."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codex_dialogues import (
    CHILD,
    FOREIGN,
    OPENED,
    OWN,
    THREAD,
    TURN,
    Player,
    asked,
    busy,
    command,
    completed,
    driver,
    note,
    of,
    ready,
    recorded,
    said,
    started,
    written,
)
from harness.agents.codex.driver import CodexAppServer
from harness.agents.codex.limits import LIMITS
from harness.contracts.driver import (
    Notice,
    NotTaken,
    Prompt,
    SessionKnown,
    Taken,
    TurnEnded,
    TurnStarted,
)
from harness.contracts.model import Attachment
from harness.events import Relay, RelayReply, Warning

# Recordings


@pytest.mark.parametrize("name", OWN)
def test_a_recorded_conversation_is_held_again_with_the_same_lines(name: str) -> None:
    player = Player(name)
    player.play()

    assert not player.sent
    assert not player.driver.open
    assert not player.driver.is_busy
    turns = sum(line["dir"] == "note" and "run" in line["msg"] for line in recorded(name))
    assert len(of(TurnEnded, player.moves)) == turns


@pytest.mark.parametrize(
    ("name", "outcomes"),
    [
        ("allow", ["completed"]),
        ("interrupt-in-text", ["interrupted", "completed"]),
        ("interrupt-in-tool", ["interrupted", "completed"]),
        ("interrupt-while-asked", ["interrupted", "completed"]),
        ("plan", ["completed", "completed"]),
        ("error-401", ["failed"]),
    ],
)
def test_turns_end_as_they_did(name: str, outcomes: list[str]) -> None:
    player = Player(f"0.166.0/{name}")
    player.play()

    assert [end.outcome for end in of(TurnEnded, player.moves)] == outcomes


@pytest.mark.parametrize("version", ["0.166.0", "0.130.0"])
def test_a_steering_message_is_taken_when_its_item_comes(version: str) -> None:
    player = Player(f"{version}/steer")
    player.play()

    [taken] = of(Taken, player.moves)
    assert not of(NotTaken, player.moves)
    sent = [
        line["msg"]["params"]["clientUserMessageId"]
        for line in recorded(f"{version}/steer")
        if line["dir"] == "in" and line["msg"].get("method") == "turn/steer"
    ]
    assert sent == [taken.prompt_id]


# The handshake


def test_the_handshake_leaves_out_what_names_account_and_machine() -> None:
    codex = driver(
        cwd="/repo", model="gpt", permissions="ask", effort="high", append_system_prompt="Be brief."
    )
    [hello] = written(codex.begin())

    assert "jsonrpc" not in hello
    assert hello["params"]["capabilities"]["experimentalApi"] is True
    unwanted = set(hello["params"]["capabilities"]["optOutNotificationMethods"])
    assert {"remoteControl/status/changed", "account/updated"} <= unwanted
    assert LIMITS not in unwanted
    done, opening = written(codex.receive({"id": 1, "result": {}}))
    assert done == {"method": "initialized"}
    assert opening["method"] == "thread/start"
    params = opening["params"]
    assert (params["model"], params["developerInstructions"]) == ("gpt", "Be brief.")
    assert (params["approvalPolicy"], params["sandbox"]) == ("untrusted", "workspace-write")
    assert params["approvalsReviewer"] == "user"
    assert params["config"]["model_reasoning_effort"] == "high"


@pytest.mark.parametrize(
    ("permissions", "policy", "sandbox"),
    [
        ("full-access", "never", "danger-full-access"),
        ("read-only", "untrusted", "read-only"),
        ("agent-default", None, None),
    ],
)
def test_permissions_are_policy_and_sandbox(permissions: str, policy: Any, sandbox: Any) -> None:
    codex = driver(permissions=permissions)
    codex.begin()
    params = written(codex.receive({"id": 1, "result": {}}))[1]["params"]

    assert (params.get("approvalPolicy"), params.get("sandbox")) == (policy, sandbox)
    assert ("approvalsReviewer" in params) is (policy is not None)


def test_a_new_thread_is_not_given_its_folder_which_would_make_codex_trust_it() -> None:
    codex = driver(cwd="/repo", permissions="full-access")
    codex.begin()

    assert "cwd" not in written(codex.receive({"id": 1, "result": {}}))[1]["params"]


def test_a_thread_is_resumed_without_its_history() -> None:
    codex = driver(resume="old", cwd="/repo")
    codex.begin()
    [_, resume] = written(codex.receive({"id": 1, "result": {}}))

    assert resume["method"] == "thread/resume"
    assert (resume["params"]["threadId"], resume["params"]["excludeTurns"]) == ("old", True)
    assert resume["params"]["cwd"] == "/repo"


def test_a_copy_of_a_thread_is_continued_where_that_was_asked_for() -> None:
    codex = driver(resume="old", fork=True, cwd="/repo")
    codex.begin()
    [_, fork] = written(codex.receive({"id": 1, "result": {}}))
    assert (fork["method"], fork["params"]["threadId"]) == ("thread/fork", "old")
    codex.receive({"id": fork["id"], "result": {"thread": {"id": "copy"}}})

    assert codex.session_id == "copy"


@pytest.mark.parametrize(("found", "method"), [([{"id": "old"}], "thread/resume"), ([], "thread/start")])
def test_the_latest_thread_of_the_directory_is_continued_if_there_is_one(found: Any, method: str) -> None:
    codex = driver(continue_last=True, cwd="/repo")
    codex.begin()
    [_, listing] = written(codex.receive({"id": 1, "result": {}}))
    assert (listing["method"], listing["params"]["cwd"]) == ("thread/list", "/repo")

    [opening] = written(codex.receive({"id": 2, "result": {"data": found}}))
    assert opening["method"] == method


@pytest.mark.parametrize(
    "refusal", [{"id": 1, "error": {"code": -1, "message": "no"}}, {"id": 1, "error": {}}]
)
def test_a_refused_handshake_ends_the_turn_and_the_process(refusal: dict[str, Any]) -> None:
    codex = driver()
    codex.begin()
    codex.prompt(Prompt(id="p", text="go"))

    [end] = of(TurnEnded, codex.receive(refusal))
    assert (end.outcome, end.is_final) == ("failed", True)
    assert not codex.is_busy


def test_a_thread_without_an_id_is_a_refused_handshake() -> None:
    codex = driver()
    codex.begin()
    codex.receive({"id": 1, "result": {}})

    [end] = of(TurnEnded, codex.receive({"id": 2, "result": {}}))
    assert (end.outcome, end.is_final) == ("failed", True)


def test_a_prompt_waits_for_the_handshake() -> None:
    codex = driver()
    codex.begin()
    assert not codex.prompt(Prompt(id="p", text="go"))
    codex.receive({"id": 1, "result": {}})
    known, start = codex.receive(OPENED)

    assert known == SessionKnown(THREAD)
    [turn] = written([start])
    assert turn["params"]["clientUserMessageId"] == "p"


# Steering


def test_a_steering_message_that_is_accepted_but_not_taken_has_to_be_sent_again() -> None:
    codex = busy()
    [steer] = written(codex.steer(Prompt(id="s", text="also")))
    assert not codex.receive({"id": steer["id"], "result": {"turnId": TURN}})

    assert codex.receive(completed()) == [NotTaken("s"), TurnEnded("completed")]


def test_a_steering_message_for_the_wrong_turn_is_not_taken() -> None:
    codex = busy()
    [steer] = written(codex.steer(Prompt(id="s", text="also")))
    error = {"code": -32600, "message": "expected active turn id"}

    assert codex.receive({"id": steer["id"], "error": error}) == [NotTaken("s")]
    assert codex.receive(completed()) == [TurnEnded("completed")]


def test_a_steering_message_waits_for_the_turn_to_start() -> None:
    codex = ready()
    codex.prompt(Prompt(id="p", text="go"))
    assert codex.steer(Prompt(id="s", text="also")) == ()

    [steer] = written(codex.receive(started()))
    assert steer["params"]["expectedTurnId"] == TURN
    assert not codex.receive(started())


def test_an_idle_codex_cannot_be_steered() -> None:
    codex = ready()
    assert not codex.can_steer
    assert codex.steer(Prompt(id="s", text="also")) is None


def test_without_our_id_the_text_says_which_message_was_taken() -> None:
    codex = busy()
    codex.steer(Prompt(id="s", text="also"))
    item = {"type": "userMessage", "id": "i", "content": [{"type": "text", "text": "also"}]}

    assert codex.receive(note("item/started", item={**item, "content": []})) == ()
    assert codex.receive(note("item/started", item=item)) == [Taken("s")]


# Interrupting


def test_an_interrupted_turn_ends_when_what_it_left_is_ended_too() -> None:
    codex = busy()
    [interrupt] = written(codex.interrupt())
    assert (interrupt["method"], interrupt["params"]["turnId"]) == ("turn/interrupt", TURN)
    assert not codex.interrupt()
    assert not codex.can_steer
    codex.receive({"id": interrupt["id"], "result": {}})

    [clean] = written(codex.receive(completed("interrupted")))
    assert clean["method"] == "thread/backgroundTerminals/clean"
    assert codex.receive({"id": clean["id"], "result": {}}) == [TurnEnded("interrupted")]
    assert written(codex.prompt(Prompt(id="q", text="next")))[0]["method"] == "turn/start"


def test_sub_agents_are_interrupted_too() -> None:
    codex = busy()
    codex.receive(started(CHILD, "ct"))
    threads = [one["params"]["threadId"] for one in written(codex.interrupt())]
    assert threads == [THREAD, CHILD]

    [clean] = written(codex.receive(completed("interrupted")))
    assert not codex.receive({"id": clean["id"], "result": {}})
    [clean] = written(codex.receive(completed("interrupted", CHILD, "ct")))
    assert codex.receive({"id": clean["id"], "error": {"message": "unknown"}}) == [TurnEnded("interrupted")]


def test_a_turn_that_has_not_started_is_interrupted_when_it_does() -> None:
    codex = ready()
    codex.prompt(Prompt(id="p", text="go"))
    assert not codex.interrupt()

    [interrupt] = written(codex.receive(started()))
    assert interrupt["method"] == "turn/interrupt"


def test_a_turn_that_codex_does_not_know_any_more_has_ended() -> None:
    codex = busy()
    [interrupt] = written(codex.interrupt())

    [clean] = written(codex.receive({"id": interrupt["id"], "error": {"message": "no active turn"}}))
    assert codex.receive({"id": clean["id"], "result": {}}) == [TurnEnded("interrupted")]
    assert not codex.receive(completed("interrupted"))


def test_an_interrupt_cancels_open_questions() -> None:
    codex = busy()
    asked(codex, command(0))
    codex.interrupt()

    assert written(codex.cancel_all()) == [{"id": 0, "result": {"decision": "cancel"}}]


def test_an_interrupt_before_the_handshake_ends_the_process() -> None:
    codex = driver()
    codex.begin()
    codex.prompt(Prompt(id="p", text="go"))

    assert codex.interrupt() == [TurnEnded("interrupted", is_final=True)]
    assert not ready().interrupt()


def test_a_turn_that_cannot_begin_has_failed() -> None:
    codex = ready()
    [turn] = written(codex.prompt(Prompt(id="p", text="go")))

    assert codex.receive({"id": turn["id"], "error": {"message": "no such model"}}) == [
        TurnEnded("failed", "no such model")
    ]


def test_a_turn_that_begins_by_itself_is_announced() -> None:
    codex = ready()
    assert codex.receive(started()) == [TurnStarted()]
    assert codex.receive(completed("failed")) == [TurnEnded("failed", "why")]


def test_the_end_of_another_turn_is_none_of_ours() -> None:
    codex = busy()
    assert not codex.receive(completed(turn="other"))
    assert codex.is_busy


# Plans, modes, models, files


def planned(codex: CodexAppServer) -> Relay:
    codex.receive(note("item/completed", item={"type": "plan", "id": "pl", "text": "1. Do it"}))
    return asked(codex, completed())


def test_a_plan_is_asked_about_and_then_implemented_in_the_default_mode() -> None:
    codex = ready()
    assert codex.configure(mode="plan") == ()
    [turn] = written(codex.prompt(Prompt(id="p", text="plan")))
    assert turn["params"]["collaborationMode"]["mode"] == "plan"
    assert turn["params"]["collaborationMode"]["settings"]["model"] == "gpt"
    codex.receive(started())

    relay = planned(codex)
    assert (relay.kind, relay.payload) == ("plan", {"plan": "1. Do it"})
    assert codex.is_busy
    assert not codex.can_steer
    [turn] = written(codex.answer(RelayReply(id=relay.id, approved=True)))
    assert turn["params"]["collaborationMode"]["mode"] == "default"


def test_a_remark_on_a_plan_is_worked_in_and_a_refused_plan_ends_the_turn() -> None:
    codex = busy()
    relay = planned(codex)
    [turn] = written(codex.answer(RelayReply(id=relay.id, approved=False, reason="shorter")))
    assert turn["params"]["input"][0]["text"] == "shorter"
    codex.receive(started())

    relay = planned(codex)
    assert codex.answer(RelayReply(id=relay.id, approved=False)) == [TurnEnded("completed")]


def test_an_interrupt_while_a_plan_is_asked_about_ends_the_turn() -> None:
    codex = busy()
    planned(codex)

    assert not codex.interrupt()
    assert codex.cancel_all() == [TurnEnded("interrupted")]


def test_a_model_is_switched_with_the_next_turn_and_an_unknown_mode_is_not() -> None:
    codex = ready()
    assert codex.configure(model="other") == ()
    assert codex.configure(mode="acceptEdits") is None

    [turn] = written(codex.prompt(Prompt(id="p", text="go")))
    assert turn["params"]["model"] == "other"


def test_images_are_sent_and_what_codex_does_not_take_is_warned_of() -> None:
    files = (Attachment("image/png", "QUJD", "a.png"), Attachment("application/pdf", "QUJD", "b.pdf"))
    moves = ready().prompt(Prompt(id="p", text="look", attachments=files))

    [notice] = of(Notice, moves)
    assert isinstance(notice.event, Warning)
    assert "b.pdf" in notice.event.message
    [turn] = written(moves)
    assert turn["params"]["input"][1] == {"type": "image", "url": "data:image/png;base64,QUJD"}


# Bad input

_LINES = [line for name in [*OWN, *FOREIGN] for line in said(name) if isinstance(line, dict)]
_ODD: st.SearchStrategy[Any] = st.sampled_from([None, True, 0, -1, "", "x", [], [1], {}, {"id": 0}])


def _mutated(record: Any, path: list[int], value: Any) -> Any:
    """The record with one value replaced, at a place given by numbers."""
    if not path or not isinstance(record, dict) or not record:
        return value
    name = sorted(record)[path[0] % len(record)]
    return {**record, name: _mutated(record[name], path[1:], value)}


_MUTATIONS = st.tuples(st.sampled_from(_LINES), st.lists(st.integers(0, 9), max_size=4), _ODD)


@settings(max_examples=60, deadline=None)
@given(st.lists(_MUTATIONS, max_size=12), st.booleans())
def test_whatever_codex_writes_the_driver_answers_with_whole_lines(
    mutations: list[tuple[Any, list[int], Any]], is_approved: bool
) -> None:
    codex = busy()
    codex.session_id = "01a1e2aa-af3e-70c2-b653-124fb3394628"
    codex.steer(Prompt(id="s", text="also"))
    for record, path, value in mutations:
        mutated = _mutated(record, path, value)
        if isinstance(mutated, dict):
            written(codex.receive(mutated))
    for relay_id in list(codex.open):
        written(codex.answer(RelayReply(id=relay_id, approved=is_approved, answer="x", reason="y")))
    written(codex.interrupt())
    written(codex.cancel_all())


def test_lines_without_meaning_for_the_driver_are_known_by_their_beginning() -> None:
    piece = msgspec.json.encode({"method": "item/agentMessage/delta", "params": {}})
    assert piece.startswith(CodexAppServer.skips)
    assert not msgspec.json.encode({"method": "item/started"}).startswith(CodexAppServer.skips)
