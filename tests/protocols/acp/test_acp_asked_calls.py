"""What a question over ACP is decided by: the tool that the program itself names, and every call that it stands for."""

from __future__ import annotations

from typing import Any

import pytest

from acp_peer import OPTIONS, Peer
from harness.agents.registry import load
from harness.contracts.driver import Asked, AskedCall, Notice, TurnEnded
from harness.contracts.request import Request
from harness.events import Error, Relay
from harness.protocols.acp.driver import AcpDriver


def peer_of(agent: str) -> Peer:
    two_way = load(agent).two_way
    assert two_way is not None
    peer = Peer()
    driver = two_way.driver(Request(agent=agent, cwd="/w", permissions="ask"), "line")
    assert isinstance(driver, AcpDriver)
    peer.driver = driver
    mode = driver.program.modes.get("ask", "")
    peer.open(session={"modes": {"currentModeId": mode}})
    peer.prompt()
    return peer


def announce(peer: Peer, call_id: str, **call: Any) -> None:
    update = {"sessionUpdate": "tool_call", "toolCallId": call_id, "status": "pending", **call}
    peer.hear({"method": "session/update", "params": {"sessionId": "s", "update": update}})


def asked(peer: Peer, request_id: int = 1, options: Any = OPTIONS, **called: Any) -> tuple[AskedCall, ...]:
    params = {"sessionId": "s", "toolCall": called, "options": options}
    peer.hear({"id": request_id, "method": "session/request_permission", "params": params})
    [question] = peer.has(Asked)
    return question.calls  # type: ignore[no-any-return]


@pytest.mark.parametrize("agent", ["copilot", "droid"])
@pytest.mark.parametrize(
    "given",
    [
        {"path": "~/.bashrc", "content": "x"},
        {"file_path": "a", "mode": "wipe"},
        {"pattern": "x", "cmd": "delete"},
        {"skill": "x", "env": "production"},
        {"command": "ls"},
    ],
)
@pytest.mark.parametrize("kind", ["read", "other", "execute"])
def test_a_tool_without_a_name_is_not_known_by_its_arguments_or_kind(
    agent: str, given: dict[str, str], kind: str
) -> None:
    [call] = asked(peer_of(agent), toolCallId="c1", title="Read notes.md", kind=kind, rawInput=given)

    assert call.is_guess
    assert call.doubt
    assert call.input == given


@pytest.mark.parametrize(
    ("agent", "called", "tool"),
    [
        (
            "qwen",
            {"_meta": {"toolName": "run_shell_command"}, "rawInput": {"command": "ls"}},
            "run_shell_command",
        ),
        ("cline", {"title": "run_commands: ls", "rawInput": {"commands": ["ls"]}}, "run_commands"),
        (
            "gemini",
            {"toolCallId": "write_file__write_file_1_0", "locations": [{"path": "/w/a"}], "content": []},
            "write_file",
        ),
    ],
)
def test_a_tool_that_the_program_names_is_known(agent: str, called: dict[str, Any], tool: str) -> None:
    [call] = asked(peer_of(agent), **{"toolCallId": "c1", "kind": "read", **called})

    assert (call.tool, call.is_guess, call.doubt) == (tool, False, "")


def test_goose_names_the_tool_when_it_announces_the_call() -> None:
    peer = peer_of("goose")
    meta = {"goose": {"toolCall": {"toolName": "shell", "extensionName": "developer"}}}
    announce(peer, "c1", title="shell · ls", rawInput={"command": "ls"}, _meta=meta)
    [call] = asked(peer, toolCallId="c1", title="shell · ls", rawInput={"command": "ls"})
    assert (call.tool, call.is_guess) == ("shell", False)

    [changed] = asked(peer, 2, toolCallId="c1", title="shell · ls", rawInput={"command": "touch x"})
    assert changed.is_guess
    assert changed.doubt


def test_a_question_of_droid_stands_for_every_call_that_was_not_asked_about() -> None:
    peer = peer_of("droid")
    announce(peer, "c0", title="Read", rawInput={"file_path": "a"})
    asked(peer, toolCallId="c0", title="Read", rawInput={"file_path": "a"})
    for number, line in ((1, "touch boom.txt"), (2, "cat notes.md")):
        announce(peer, f"c{number}", title=line, rawInput={"command": line})
    calls = asked(peer, 2, toolCallId="c2", title="cat notes.md", rawInput={"command": "cat notes.md"})

    assert [call.input["command"] for call in calls] == ["touch boom.txt", "cat notes.md"]


def test_a_question_for_several_calls_that_shows_one_says_so() -> None:
    both = [{"optionId": "b", "name": "Allow both", "kind": "allow_once"}]
    [call] = asked(peer_of("droid"), 1, both, toolCallId="c1", title="ls", rawInput={"command": "ls"})

    assert "several calls" in call.doubt


@pytest.mark.parametrize(
    ("agent", "called"),
    [
        ("copilot", {"rawInput": {"command": "touch x"}}),
        ("copilot", {"rawInput": {"plan": "1. Look.", "command": "touch x"}}),
        ("droid", {"rawInput": {"file_path": "~/.bashrc", "content": "x"}}),
        ("qwen", {"_meta": {"toolName": "run_shell_command"}, "rawInput": {"plan": "1."}}),
        ("qwen", {"_meta": {"toolName": "mcp__x__y"}, "rawInput": {"command": "touch x"}}),
    ],
)
def test_a_call_that_claims_to_be_a_plan_is_asked_about_as_what_it_is(
    agent: str, called: dict[str, Any]
) -> None:
    peer = peer_of(agent)
    [call] = asked(peer, toolCallId="c1", title="Plan: only look", kind="switch_mode", **called)
    assert call.input == called["rawInput"]


def test_a_plan_that_comes_with_other_calls_is_no_question_about_a_plan_alone() -> None:
    peer = peer_of("droid")
    announce(peer, "run", title="Execute", rawInput={"command": "touch x"})
    plan = {"kind": "switch_mode", "title": "Plan", "rawInput": {"plan": "1. Look."}}
    calls = asked(peer, toolCallId="plan", **plan)
    assert [call.input for call in calls] == [{"command": "touch x"}, {"plan": "1. Look."}]


def test_refusals_end() -> None:
    peer = peer_of("copilot")
    prompts = 0
    for number in range(200):
        params = {"toolCall": {"toolCallId": f"c{number}", "title": "x"}, "options": OPTIONS}
        peer.hear({"id": number, "method": "session/request_permission", "params": params})
        [question] = peer.has(Asked)
        peer.reply(question.relay.id, approved=False, by="policy", reason="no")
        prompts += len(peer.answer("session/prompt", {"stopReason": "end_turn"}))
        if peer.has(TurnEnded):
            break

    assert prompts == 3
    [end], [notice] = peer.has(TurnEnded), peer.has(Notice)
    assert end.outcome == "failed"
    assert isinstance(notice.event, Error)
    assert notice.event.code == "refused_too_often"


_SPAWN: dict[str, dict[str, Any]] = {
    "copilot": {"kind": "other", "rawInput": {"agent_type": "explore", "prompt": "look", "mode": "sync"}},
    "kimi": {"title": "Agent", "rawInput": {"subagent_type": "explore", "prompt": "look"}},
}
"""Agent → the call by which it spawns a sub-agent."""


def ask_as_subagent(peer: Peer, agent: str) -> Relay:
    """A sub-agent's call: Copilot announces it with a mark, Kimi does not announce it."""
    if agent == "copilot":
        mark = {"github.com/copilot": {"agentId": "a1"}}
        announce(peer, "sub", kind="execute", rawInput={"command": "make"}, _meta=mark)
    asked(peer, toolCallId="sub", title="Bash", rawInput={"command": "make"})
    [question] = peer.has(Asked)
    return question.relay  # type: ignore[no-any-return]


@pytest.mark.parametrize("agent", _SPAWN)
def test_a_question_of_a_sub_agent_says_whose_it_is(agent: str) -> None:
    peer = peer_of(agent)
    announce(peer, "own", title="Bash", kind="execute", rawInput={"command": "ls"})
    announce(peer, "spawn", **_SPAWN[agent])
    relay = ask_as_subagent(peer, agent)

    assert (relay.subagent, relay.spawn_call_id) == ("explore", "spawn")


@pytest.mark.parametrize("agent", _SPAWN)
@pytest.mark.parametrize("spawns", [0, 2])
def test_where_it_is_not_certain_which_sub_agent_asks_it_is_not_guessed(agent: str, spawns: int) -> None:
    peer = peer_of(agent)
    for number in range(spawns):
        announce(peer, f"spawn{number}", **_SPAWN[agent])
    relay = ask_as_subagent(peer, agent)

    assert (relay.subagent, relay.spawn_call_id) == ("sub-agent", "")


@pytest.mark.parametrize("agent", _SPAWN)
def test_a_question_of_the_main_agent_has_no_mark(agent: str) -> None:
    peer = peer_of(agent)
    announce(peer, "spawn", **_SPAWN[agent])
    announce(peer, "own", title="Bash", kind="execute", rawInput={"command": "ls"})
    asked(peer, toolCallId="own", title="Bash", rawInput={"command": "ls"})
    [question] = peer.has(Asked)

    assert (question.relay.subagent, question.relay.spawn_call_id) == ("", "")
