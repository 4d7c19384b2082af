"""Before a call is carried out: who is asked, in which order, and what holds without an answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from harness.approvals.rules import Rule
from harness.contracts.model import Ask, ToolTurn
from harness.contracts.tool import ToolPermission
from harness.events import Event, Relay, RelayReply, SessionStart, ToolEnd
from harness.native.loop import outbox
from harness.native.tools.function_tool import tool
from harness.questions.permissions import Denial, Permissions
from played_model import calls, play, says


@tool(quick=True)
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def denied(reason: str) -> str:
    """What the model is sent."""
    return f'{{"status":"denied","reason":"{reason}"}}'


ASKED = calls(("tc-1", "add", {"a": 1, "b": 2}))


def test_the_run_waits_until_a_person_answers() -> None:
    seen: list[list[str]] = []

    async def answer_later(agents: Any, event: Event) -> None:
        if isinstance(event, Relay):
            for _ in range(10):
                await asyncio.sleep(0)
            seen.append([type(one).__name__ for one in agents.hub.recent(0)])
            agents.resolve(event.id, approved=True)

    played = play(ASKED, says("3"), tools=(add,), permissions=Permissions("ask"), on_event=answer_later)

    assert seen[0][-1] == "Relay"
    relay, reply = played.of(Relay)[0], played.of(RelayReply)[0]
    assert (relay.call_id, relay.tool_name) == (f"{played.run_id}/tc-1", "add")
    assert relay.input == {"a": 1, "b": 2}
    assert (reply.id, reply.approved, reply.by) == (relay.id, True, "person")
    assert played.shape.index("RelayReply") < played.shape.index("ToolStart")
    assert played.of(ToolEnd)[0].output == "3"


def test_a_denial_is_reported_to_the_model() -> None:
    def deny(agents: Any, event: Event) -> None:
        if isinstance(event, Relay):
            agents.resolve(event.id, approved=False, reason="too risky")

    played = play(ASKED, says("ok"), tools=(add,), permissions=Permissions("ask"), on_event=deny)

    assert (played.of(ToolEnd)[0].success, played.of(ToolEnd)[0].output) == (False, denied("too risky"))
    assert played.model.asked[1][0][-1] == ToolTurn("tc-1", denied("too risky"), is_error=True)


def test_what_is_on_the_allowlist_is_not_asked_for() -> None:
    permissions = Permissions("ask", allowlist=[ToolPermission("add", {"a": "1"})])
    played = play(ASKED, says("3"), tools=(add,), permissions=permissions)

    assert not played.of(Relay)
    assert played.of(ToolEnd)[0].success


def test_always_is_not_offered_where_a_rule_asks() -> None:
    permissions = Permissions("ask", rules=[Rule(answer="ask", tool="add")])
    offered: list[list[str]] = []

    def allow(agents: Any, event: Event) -> None:
        if isinstance(event, Relay):
            offered.append([choice.kind for choice in event.choices or ()])
            agents.resolve(event.id, approved=True)

    play(ASKED, says("3"), tools=(add,), permissions=permissions, on_event=allow)
    play(ASKED, says("3"), tools=(add,), permissions=Permissions("ask"), on_event=allow)

    assert offered == [["allow-once", "reject-once"], ["allow-once", "allow-always", "reject-once"]]


def test_a_grant_for_once_answers_a_rule_that_asks_and_none_that_denies() -> None:
    asks, denies = (Rule(answer=answer, tool="add") for answer in ("ask", "deny"))
    for rule, expected in ((asks, [True, False]), (denies, [False, False])):
        permissions = Permissions("deny", rules=[rule], allow_once=[ToolPermission("add")])
        refuse = lambda agents, event: isinstance(event, Relay) and agents.resolve(event.id, approved=False)  # noqa: E731
        played = play(ASKED, ASKED, says("3"), tools=(add,), permissions=permissions, on_event=refuse)
        assert [end.success for end in played.of(ToolEnd)] == expected


def test_a_grant_for_once_is_used_up() -> None:
    permissions = Permissions("deny", allow_once=[ToolPermission("add")])
    played = play(ASKED, ASKED, says("3"), tools=(add,), permissions=permissions)

    assert [end.success for end in played.of(ToolEnd)] == [True, False]


def test_a_denied_call_id_is_refused_without_asking() -> None:
    permissions = Permissions("allow", deny=[Denial(call_id="tc-1", reason="asked before")])
    played = play(ASKED, says("ok"), tools=(add,), permissions=permissions)

    assert not played.of(Relay)
    reply = played.of(RelayReply)[0]
    assert (reply.id, reply.by, reply.reason) == (f"{played.run_id}/tc-1", "policy", "asked before")
    assert played.of(ToolEnd)[0].output == denied("asked before")


def test_who_does_not_answer_in_time_has_said_no() -> None:
    played = play(ASKED, says("ok"), tools=(add,), permissions=Permissions("ask"), relay_deadline_s=0.01)

    reply = played.of(RelayReply)[0]
    assert (reply.approved, reply.by) == (False, "timeout")
    assert played.of(ToolEnd)[0].output == denied("no answer within 0.01 s")
    assert played.result.success


def test_permission_is_asked_in_order_one_at_a_time() -> None:
    waiting: list[int] = []

    def approve(agents: Any, event: Event) -> None:
        if isinstance(event, Relay):
            shown = [type(one).__name__ for one in agents.hub.recent(0)]
            waiting.append(shown.count("Relay") - shown.count("RelayReply"))
            agents.resolve(event.id, approved=True)

    two = calls(("x", "add", {"a": 1, "b": 1}), ("y", "add", {"a": 2, "b": 2}))
    played = play(two, says("ok"), tools=(add,), permissions=Permissions("ask"), on_event=approve)

    assert waiting == [1, 1]
    assert [relay.call_id[-1] for relay in played.of(Relay)] == ["x", "y"]
    kinds = [kind for kind in played.shape if kind in ("Relay", "RelayReply", "ToolStart", "ToolEnd")]
    assert kinds == [*["Relay", "RelayReply", "ToolStart"] * 2, "ToolEnd", "ToolEnd"]


def test_always_takes_effect_for_the_next_call_of_the_same_answer() -> None:
    def approve(agents: Any, event: Event) -> None:
        if isinstance(event, Relay):
            agents.resolve(event.id, approved=True, always=True)

    two = calls(("x", "add", {"a": 1, "b": 1}), ("y", "add", {"a": 1, "b": 1}))
    played = play(two, says("ok"), tools=(add,), permissions=Permissions("ask"), on_event=approve)

    assert len(played.of(Relay)) == 1
    assert played.of(RelayReply)[0].always


def test_no_one_is_asked_about_arguments_that_cannot_be_read_and_nothing_runs() -> None:
    played = play(
        calls(("tc", "add", {"__toolParseError": True})),
        says("ok"),
        tools=(add,),
        permissions=Permissions("ask"),
        relay_deadline_s=0.01,
    )

    assert played.of(Relay) == []
    assert "malformed arguments" in played.of(ToolEnd)[0].output


def test_an_answer_the_moment_the_question_is_in_the_log_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(outbox, "MOST_AT_ONCE", 1)
    received: list[bool] = []
    watched = asyncio.Event()

    def watch(agents: Any, event: Event) -> None:
        def answer() -> None:
            last = agents.hub.recent(0)[-1]
            if isinstance(last, Relay):
                received.append(agents.resolve(last.id, approved=True))

        if isinstance(event, SessionStart):
            agents.hub.add_waker(answer)
            watched.set()

    async def asks_when_watched(_ask: Ask) -> AsyncIterator[Event]:
        await watched.wait()
        for event in ASKED:
            yield event

    played = play(asks_when_watched, says("3"), tools=(add,), permissions=Permissions("ask"), on_event=watch)

    assert received == [True]
    assert played.of(ToolEnd)[0].output == "3"
