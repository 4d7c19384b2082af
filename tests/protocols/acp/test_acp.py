"""The ACP driver: recorded sessions of real agents, and every state of the protocol by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acp_dialogues import AGENTS, Recorded, recordings
from acp_peer import OPTIONS, PLAIN, Peer
from harness.agents.registry import load
from harness.contracts.driver import (
    Asked,
    Notice,
    NotTaken,
    Prompt,
    Send,
    SessionKnown,
    Taken,
    TurnEnded,
    Withdrawn,
)
from harness.contracts.model import Attachment
from harness.contracts.request import Request
from harness.errors import UsageError
from harness.events import RelayReply, Unknown
from harness.protocols.acp.driver import AcpDriver, AcpProgram
from harness.protocols.acp.stream import AcpTranslator
from harness.runs.launch import prepare

# Recorded sessions


@pytest.mark.parametrize("path", recordings(), ids=lambda path: f"{path.parts[-3]}-{path.name[:-9]}")
def test_a_recorded_session_is_led_as_it_was(path: Any) -> None:
    recorded = Recorded(path)
    for said, wrote in recorded.play():
        same = [one for one in wrote if one.get("method") == said.get("method")]
        if said.get("method") == "session/prompt" and same:
            assert (
                same[0]["params"]["sessionId"] == said["params"]["sessionId"] or recorded.scenario == "load-2"
            )
            assert same[0]["params"]["prompt"][0] == said["params"]["prompt"][0]
        elif said.get("method") in ("session/new", "session/cancel"):
            # A turn that has ended already is not cancelled.
            assert [one["params"] for one in same] in (
                [said["params"]],
                [] if "cancel" in said["method"] else None,
            )
        elif "result" in said and wrote:
            [answer] = [one for one in wrote if "method" not in one]
            assert answer["id"] == said["id"]
            assert type(answer["id"]) is type(said["id"])
            # One that was withdrawn meanwhile has its answer already.
            assert answer.get("result", said["result"]).keys() >= said["result"].keys() - {"messages"}
    dialogue = recorded.dialogue
    assert not dialogue.driver.open
    assert not [event for turn in dialogue.turns for event in turn if isinstance(event, Unknown)]


@pytest.mark.parametrize("name", AGENTS)
def test_an_agent_says_how_it_is_driven(name: str) -> None:
    two_way = load(name).two_way
    assert two_way is not None
    assert "approve" in two_way.capabilities
    assert bool(two_way.unasked) == (name in ("grok", "kimi"))
    for permissions in ("full-access", "ask", "read-only", "agent-default"):
        request = Request(agent=name, prompt="x", permissions=permissions, model="m", cwd="/w")
        command = two_way.command(request, ())
        assert command.stdin is None
        assert "x" not in command.args
        assert two_way.driver(request, "line").capabilities == two_way.capabilities


@pytest.mark.parametrize("name", ["goose", "kimi"])
def test_an_agent_that_does_not_ask_about_everything_is_not_to_ask(name: str, tmp_path: Path) -> None:
    request = Request(agent=name, prompt="x", permissions="ask", cwd=str(tmp_path), binary="/bin/true")
    if name == "goose":
        assert prepare(request).two_way is not None
        return
    with pytest.raises(UsageError, match="does not ask about everything"):
        prepare(request)


# The handshake


def test_a_prompt_waits_for_the_session() -> None:
    peer = Peer()
    [hello] = peer.do(peer.driver.begin())
    assert hello["method"] == "initialize"
    assert hello["params"]["clientCapabilities"]["terminal"] is False
    assert peer.prompt() == []
    peer.answer("initialize", {"protocolVersion": 1})
    [prompt] = peer.answer("session/new", {"sessionId": "s"})
    assert prompt["params"] == {"sessionId": "s", "prompt": [{"type": "text", "text": "go"}]}
    assert peer.has(SessionKnown) == [SessionKnown("s")]


def test_it_authenticates_once() -> None:
    program = AcpProgram(translator=AcpTranslator, capabilities=frozenset(), auth_method="key")
    peer = Peer(program)
    peer.do(peer.driver.begin())
    peer.answer("initialize", {"authMethods": [{"id": "key", "name": "By key"}]})
    required = {"code": -32000, "message": "Authentication required"}
    [asked] = peer.answer("session/new", error=required)
    assert asked["method"] == "authenticate"
    assert asked["params"] == {"methodId": "key"}
    [again] = peer.answer("authenticate")
    assert again["method"] == "session/new"
    assert peer.answer("session/new", error=required) == []
    [end] = peer.has(TurnEnded)
    assert end.outcome == "failed"
    assert end.is_final
    assert end.message == "the agent refused the session: Authentication required (By key)"


@pytest.mark.parametrize(
    ("can", "method"), [({"resume": {}}, "session/resume"), ({"list": {}}, "session/load")]
)
def test_a_session_is_resumed_without_its_history_where_the_agent_can(can: Any, method: str) -> None:
    peer = Peer(resume="old")
    peer.do(peer.driver.begin())
    capabilities = {"agentCapabilities": {"sessionCapabilities": can, "loadSession": True}}
    [opened] = peer.answer("initialize", capabilities)
    assert opened["method"] == method
    assert opened["params"] == {"sessionId": "old", "cwd": "/w", "mcpServers": []}
    peer.answer(method)
    assert peer.driver.session_id == "old"


def test_the_mode_is_set_before_the_prompt_and_a_refusal_ends_the_run() -> None:
    program = AcpProgram(translator=AcpTranslator, capabilities=frozenset(), modes={"ask": "manual"})
    peer = Peer(program, permissions="ask")
    peer.prompt()
    [mode] = peer.open(session={"modes": {"currentModeId": "auto"}})
    assert mode["method"] == "session/set_mode"
    assert mode["params"] == {"sessionId": "s", "modeId": "manual"}
    assert peer.answer("session/set_mode", error={"code": 1, "message": "no such mode"}) == []
    [end] = peer.has(TurnEnded)
    assert end.is_final
    assert "no such mode" in end.message
    assert not peer.driver.is_busy


def test_a_session_that_is_in_its_mode_needs_none() -> None:
    program = AcpProgram(translator=AcpTranslator, capabilities=frozenset(), modes={"ask": "manual"})
    peer = Peer(program, permissions="ask")
    peer.prompt()
    [prompt] = peer.open(session={"modes": {"currentModeId": "manual"}})
    assert prompt["method"] == "session/prompt"


def test_v2_is_known_by_the_shape_of_the_answer() -> None:
    program = AcpProgram(translator=AcpTranslator, capabilities=frozenset(), version=2)
    claims = Peer(program)
    claims.prompt()
    claims.open({"protocolVersion": 2})
    claims.answer("session/prompt", {"stopReason": "end_turn"})
    assert claims.has(TurnEnded) == [TurnEnded("completed")]
    speaks = Peer(program)
    speaks.prompt()
    speaks.open({"protocolVersion": 2, "capabilities": {}})
    state = {"sessionUpdate": "state_update", "state": "idle"}
    update = {"method": "session/update", "params": {"sessionId": "s", "update": state}}
    speaks.hear(update)
    assert not speaks.moves, "idle before the prompt was taken"
    speaks.answer("session/prompt", {"messageId": "m"})
    assert not speaks.moves
    speaks.hear(update)
    assert speaks.has(TurnEnded) == [TurnEnded("completed")]


def test_a_copy_of_a_session_is_continued_where_that_was_asked_for() -> None:
    peer = Peer(resume="s", fork=True)
    peer.do(peer.driver.begin())
    can = {"sessionCapabilities": {"fork": {}, "resume": {}}}
    [fork] = peer.answer("initialize", {"protocolVersion": 1, "agentCapabilities": can})
    assert (fork["method"], fork["params"]["sessionId"]) == ("session/fork", "s")
    peer.answer("session/fork", {"sessionId": "copy"})
    assert peer.has(SessionKnown) == [SessionKnown("copy")]


@pytest.mark.parametrize(
    ("name", "request_options", "is_held"),
    [
        ("codex", {"fork": True, "resume": "x"}, True),
        ("codex", {"resume": "x"}, False),
        ("kimi", {"fork": True, "resume": "x"}, True),
        ("opencode", {"fork": True, "resume": "x"}, True),
        ("kilo", {"fork": True, "resume": "x"}, True),
        ("claude", {"fork": True, "resume": "x"}, False),
    ],
)
def test_an_agent_that_copies_a_session_in_a_conversation_alone_is_held_in_one(
    name: str, request_options: dict[str, Any], is_held: bool, tmp_path: Path
) -> None:
    version = {
        "codex": "0.166.0",
        "kimi": "2.1.0",
        "claude": "2.1.325",
        "opencode": "1.18.33",
        "kilo": "7.7.9",
    }[name]
    program = tmp_path / name
    program.write_text(f"#!/bin/sh\necho {version}\n")
    program.chmod(0o755)
    request = Request(agent=name, prompt="go", binary=str(program), cwd=str(tmp_path), **request_options)
    launched = prepare(request)
    assert (launched.two_way is not None) == is_held
    assert launched.request.fork == request.fork


def test_history_that_comes_after_the_session_was_opened_is_awaited() -> None:
    gemini = load("gemini").two_way
    assert gemini is not None
    peer, translator = Peer(), gemini.translator()
    request = Request(agent="gemini", cwd="/w", permissions="agent-default", resume="s")
    driver = gemini.driver(request, "line")
    assert isinstance(driver, AcpDriver)
    peer.driver = driver
    peer.do(driver.begin())
    peer.prompt()
    peer.answer("initialize")
    translator.record({"id": "initialize#1", "result": {}})
    old = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "old"}}
    said = {"method": "session/update", "params": {"sessionId": "s", "update": old}}
    [wait] = peer.answer("session/load")
    assert [type(event).__name__ for event in translator.record({"id": "session/load#2", "result": {}})] == [
        "SessionStart"
    ]
    peer.hear(said)
    refusal = {"code": -32601, "message": "Method not found"}
    [again] = peer.answer(wait["method"], error=refusal)
    assert again["method"] == wait["method"]
    [ready] = peer.answer(wait["method"], error=refusal)
    [prompt] = peer.answer(ready["method"], error=refusal)
    assert prompt["method"] == "session/prompt"
    assert translator.record(said) == ()
    translator.record({"id": f"{ready['method']}#9", "error": refusal})
    assert len(translator.record(said)) == 1


# Questions


def test_allowed_means_once() -> None:
    peer = Peer()
    peer.open()
    peer.prompt()
    [answer] = peer.reply(peer.ask(0), approved=True, always=True)
    assert answer == {
        "jsonrpc": "2.0",
        "id": 0,
        "result": {"outcome": {"outcome": "selected", "optionId": 0}},
    }


def test_what_can_only_be_allowed_for_ever_is_refused() -> None:
    peer = Peer()
    peer.open()
    params = {"toolCall": {"toolCallId": "c"}, "options": [OPTIONS[0]]}
    peer.hear({"id": "", "method": "session/request_permission", "params": params})
    [answer] = peer.reply(peer.has(Asked)[0].relay.id, approved=True)
    assert answer["result"] == {"outcome": {"outcome": "cancelled"}}
    assert peer.has(Notice)


def test_the_question_has_what_was_said_of_the_call_before() -> None:
    peer = Peer()
    peer.open()
    update = {
        "sessionUpdate": "tool_call",
        "toolCallId": "c1",
        "kind": "execute",
        "rawInput": {"command": "ls"},
    }
    peer.hear({"method": "session/update", "params": {"sessionId": "s", "update": update}})
    params = {"toolCall": {"toolCallId": "c1", "title": "ls"}, "options": OPTIONS}
    peer.hear({"id": 1, "method": "session/request_permission", "params": params})
    relay = peer.has(Asked)[0].relay
    assert (relay.tool_name, relay.input, relay.question) == ("execute", {"command": "ls"}, "ls")


def test_an_option_that_allows_more_than_is_shown_says_so() -> None:
    peer = Peer()
    peer.open()
    both = {"optionId": "b", "name": "Allow both", "kind": "allow_once"}
    params = {"toolCall": {"toolCallId": "c", "title": "touch b"}, "options": [both]}
    peer.hear({"id": 1, "method": "session/request_permission", "params": params})
    assert peer.has(Asked)[0].relay.question == "touch b (Allow both)"


@pytest.mark.parametrize("reason", ["end_turn", "cancelled"])
def test_the_reason_of_a_refusal_is_the_next_prompt_of_the_same_turn(reason: str) -> None:
    program = AcpProgram(translator=AcpTranslator, capabilities=frozenset(), ends_turn_on_reject=True)
    peer = Peer(program)
    peer.open()
    peer.prompt()
    [answer] = peer.reply(peer.ask(), approved=False, reason="not today")
    assert answer["result"]["outcome"]["optionId"] == "no"
    [prompt] = peer.answer("session/prompt", {"stopReason": reason})
    assert "not today" in prompt["params"]["prompt"][0]["text"]
    assert not peer.has(TurnEnded)
    peer.answer("session/prompt", {"stopReason": "end_turn"})
    assert peer.has(TurnEnded) == [TurnEnded("completed")]


def test_goose_hears_the_reason_before_the_refusal() -> None:
    goose = load("goose").two_way
    assert goose is not None
    peer = Peer()
    driver = goose.driver(Request(agent="goose", cwd="/w", permissions="ask"), "line")
    assert isinstance(driver, AcpDriver)
    peer.driver = driver
    peer.open(session={"modes": {"currentModeId": "approve"}})
    peer.prompt()
    assert not peer.driver.can_steer
    running = {"sessionUpdate": "session_info_update", "_meta": {"goose": {"activeRunId": "run"}}}
    peer.hear({"method": "session/update", "params": {"sessionId": "s", "update": running}})
    [steer, answer] = peer.reply(peer.ask("uuid"), approved=False, reason="not today")
    assert steer["params"]["expectedRunId"] == "run"
    assert "not today" in steer["params"]["prompt"][0]["text"]
    assert answer["id"] == "uuid"
    peer.answer("_goose/unstable/session/steer", error={"code": 1, "message": "over"})
    [prompt] = peer.answer("session/prompt", {"stopReason": "end_turn"})
    assert "not today" in prompt["params"]["prompt"][0]["text"]


def test_a_plan_is_approved_or_gets_a_remark() -> None:
    program = AcpProgram(translator=AcpTranslator, capabilities=frozenset(), ends_turn_on_reject=True)
    peer = Peer(program)
    peer.open()
    peer.prompt()
    plan = {"toolCallId": "c", "kind": "switch_mode", "title": "Plan:", "rawInput": {"plan": "1. Do it."}}
    params = {"toolCall": plan, "options": OPTIONS}
    peer.hear({"id": 0, "method": "session/request_permission", "params": params})
    relay = peer.has(Asked)[0].relay
    assert (relay.kind, relay.question, relay.payload) == ("plan", "Plan:", {"plan": "1. Do it."})
    [answer] = peer.reply(relay.id, approved=False, reason="test it too")
    assert answer["result"]["outcome"]["optionId"] == "no"
    [prompt] = peer.answer("session/prompt", {"stopReason": "end_turn"})
    assert prompt["params"]["prompt"][0]["text"] == "The plan was not approved: test it too"


def test_a_withdrawn_question_is_closed_and_its_request_answered() -> None:
    peer = Peer()
    peer.open()
    relay_id = peer.ask(0)
    [answer] = peer.hear({"method": "$/cancel_request", "params": {"requestId": 0}})
    assert answer["error"]["code"] == -32800
    assert peer.has(Withdrawn) == [Withdrawn(relay_id)]
    assert peer.driver.answer(RelayReply(id=relay_id, approved=True)) is None
    peer.ask(0)
    assert peer.hear({"method": "$/cancel_request", "params": {"requestId": False}}) == []


@pytest.mark.parametrize("method", ["fs/write_text_file", "terminal/create", "session/new", "no/such"])
def test_what_is_not_offered_is_refused_politely(method: str) -> None:
    peer = Peer()
    peer.open()
    [answer] = peer.hear({"jsonrpc": "2.0", "id": 0, "method": method, "params": {}})
    assert answer["id"] == 0
    assert answer["error"]["code"] == -32601


# Turns


def test_an_interrupt_is_sent_once_and_ends_with_the_answer_to_the_prompt() -> None:
    peer = Peer()
    peer.open()
    peer.prompt()
    relay_id = peer.ask(0)
    [cancel] = peer.do(peer.driver.interrupt())
    assert cancel == {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "s"}}
    [answer] = peer.do(peer.driver.cancel_all())
    assert answer["result"] == {"outcome": {"outcome": "cancelled"}}
    assert peer.do(peer.driver.interrupt()) == []
    assert peer.reply(relay_id, approved=True) == []
    peer.answer("session/prompt", {"stopReason": "cancelled"})
    assert peer.has(TurnEnded) == [TurnEnded("interrupted")]
    assert peer.do(peer.driver.interrupt()) == [], "nothing runs"


@pytest.mark.parametrize("is_calling", [True, False])
def test_a_program_that_leaves_commands_is_ended_with_the_interrupted_call(is_calling: bool) -> None:
    peer = Peer(msgspec.structs.replace(PLAIN, leaves_commands=True))
    peer.open()
    peer.prompt()
    call = {"sessionUpdate": "tool_call", "toolCallId": "c1", "title": "sleep", "rawInput": {}}
    ended = {"sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "completed"}
    for update in (call,) if is_calling else (call, ended):
        peer.hear({"method": "session/update", "params": {"sessionId": "s", "update": update}})
    peer.do(peer.driver.interrupt())
    peer.answer("session/prompt", {"stopReason": "cancelled"})
    assert peer.has(TurnEnded) == [TurnEnded("interrupted", is_final=is_calling, is_urgent=is_calling)]


def test_an_interrupt_in_the_handshake_drops_the_prompt() -> None:
    peer = Peer()
    peer.do(peer.driver.begin())
    peer.prompt()
    peer.do(peer.driver.interrupt())
    assert peer.has(TurnEnded) == [TurnEnded("interrupted")]
    peer.answer("initialize")
    assert peer.answer("session/new", {"sessionId": "s"}) == []


def test_a_message_that_is_drained_is_taken_and_one_that_is_not_comes_back() -> None:
    qwen = load("qwen").two_way
    assert qwen is not None
    peer = Peer()
    driver = qwen.driver(Request(agent="qwen", cwd="/w", permissions="agent-default"), "line")
    assert isinstance(driver, AcpDriver)
    peer.driver = driver
    peer.open()
    assert peer.driver.steer(Prompt(id="early", text="x")) is None
    peer.prompt()
    assert peer.driver.steer(Prompt(id="one", text="also this")) == ()
    [answer] = peer.hear({"id": 7, "method": "craft/drainMidTurnQueue", "params": {}})
    assert answer["result"] == {"messages": ["also this"]}
    assert peer.has(Taken) == [Taken("one")]
    [empty] = peer.hear({"id": 8, "method": "craft/drainMidTurnQueue", "params": {}})
    assert empty["result"] == {"messages": []}
    peer.driver.steer(Prompt(id="two", text="too late"))
    peer.answer("session/prompt", {"stopReason": "end_turn"})
    assert peer.moves == [NotTaken("two"), TurnEnded("completed")]


def test_steering_that_an_agent_announces_is_used() -> None:
    peer = Peer()
    peer.open({"_meta": {"steering": {"supported": True}}})
    peer.prompt()
    for outcome, move in (("injected", Taken("m")), ("promptRequired", NotTaken("m"))):
        [sent] = peer.do(peer.driver.steer(Prompt(id="m", text="also this")))
        assert sent["method"] == "_session/steering"
        peer.answer("_session/steering", {"outcome": outcome})
        assert peer.moves == [move]


def test_files_go_with_the_prompt_where_the_agent_takes_them() -> None:
    image = Attachment(media_type="image/png", data="AAAA", name="a.png")
    for takes, kinds in (
        ({"image": True}, ["text", "image"]),
        ({"embeddedContext": True}, ["text", "resource"]),
    ):
        peer = Peer()
        peer.open({"agentCapabilities": {"promptCapabilities": takes}})
        [prompt] = peer.do(peer.driver.prompt(Prompt(id="p", text="see", attachments=(image,))))
        assert [block["type"] for block in prompt["params"]["prompt"]] == kinds
    peer = Peer()
    peer.open()
    peer.do(peer.driver.prompt(Prompt(id="p", text="see", attachments=(image,))))
    assert "a.png was not sent" in peer.has(Notice)[0].event.message
    assert "files" not in peer.driver.capabilities


def test_model_and_mode_are_switched_in_the_session() -> None:
    peer = Peer()
    assert peer.driver.configure(model="m") is None
    options = [{"id": "model", "category": "model", "currentValue": "old"}]
    peer.open(session={"configOptions": options, "modes": {"currentModeId": "a"}})
    [mode, model] = peer.do(peer.driver.configure(model="m", mode="b"))
    assert mode["params"]["modeId"] == "b"
    assert model["params"]["value"] == "m"
    assert peer.do(peer.driver.configure(model="m")) == [], "it is the model already"
    peer.answer("session/set_config_option", error={"code": 1, "message": "no"})
    assert "no" in peer.has(Notice)[0].event.message


# Whatever comes

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
_LINES = [
    line["msg"]
    for path in recordings()
    if path.parts[-3] in ("acp-qwen", "acp-kimi", "acp2-claude-agent-acp") and "question" in path.name
    for line in Recorded(path).lines
    if line["dir"] == "out" and isinstance(line["msg"], dict)
]


def _mutated(value: Any, draw: Any) -> Any:
    """Some part of the value is another value."""
    if isinstance(value, dict) and value and draw(st.integers(0, 4)):
        key = draw(st.sampled_from(sorted(value)))
        return {**value, key: _mutated(value[key], draw)}
    if isinstance(value, list) and value and draw(st.integers(0, 4)):
        place = draw(st.integers(0, len(value) - 1))
        return [*value[:place], _mutated(value[place], draw), *value[place + 1 :]]
    return draw(_VALUES)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_no_line_breaks_the_driver_or_the_translator(data: Any) -> None:
    peer = Peer()
    peer.open()
    peer.prompt()
    translator = AcpTranslator()
    for _ in range(4):
        record = _mutated(data.draw(st.sampled_from(_LINES)), data.draw)
        if not isinstance(record, dict):
            record = {"params": record}
        translator.record(record)
        moves = [*peer.driver.receive(record)]
        for relay_id in list(peer.driver.open):
            moves += peer.driver.answer(RelayReply(id=relay_id, approved=data.draw(st.booleans()))) or ()
        for move in moves:
            if isinstance(move, Send):
                assert move.data.count(b"\n") == 1
                assert isinstance(json.loads(move.data), dict)
    peer.do(peer.driver.interrupt())
    peer.do(peer.driver.cancel_all())
    assert not peer.driver.open
