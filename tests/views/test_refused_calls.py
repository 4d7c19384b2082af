"""A call that was refused is shown as one that was not carried out, also where its end is no failure for the agent."""

from __future__ import annotations

import json

import pytest

from harness.events import Event, Message, Relay, RelayReply, SessionStart, ToolEnd, ToolStart
from showing import shown

START = SessionStart(run_id="r", session_id="s", agent="native")
CALL = ToolStart(run_id="r", call_id="r/1", tool_name="shop__pay", input={"sum": 9})
END = ToolEnd(run_id="r", call_id="r/1", tool_name="shop__pay", success=True, output="not approved")
BY_A_PERSON = (
    Relay(run_id="r", id="q", call_id="r/1", tool_name="shop__pay", input={"sum": 9}),
    RelayReply(run_id="r", id="q", approved=False, reason="too dear"),
)
BY_A_RULE = (RelayReply(run_id="r", id="r/1", approved=False, by="policy", reason="a rule"),)


@pytest.mark.parametrize("refusal", [BY_A_PERSON, BY_A_RULE])
def test_a_refused_call_has_not_succeeded_in_any_view(refusal: tuple[Event, ...]) -> None:
    events = (START, *refusal, CALL, END)
    transcript = shown("transcript", *events)
    assert "shop__pay sum: 9  ✗" in transcript
    assert "not approved" not in transcript  # why is said above it
    assert "[fail]" in shown("markdown", *events)
    assert '<span class="mark">✗' in shown("html", *events)
    assert '"success": false' in shown("atif", *events)
    [ended] = [line for line in map(json.loads, shown("stream", *events).splitlines()) if "output" in line]
    assert ended["success"] is False


def test_what_was_allowed_or_only_answered_is_as_it_says() -> None:
    allowed = (BY_A_PERSON[0], RelayReply(run_id="r", id="q", approved=True))
    assert "sum: 9  ✓" in shown("transcript", START, *allowed, CALL, END)
    plan = Relay(run_id="r", id="q", kind="plan", call_id="r/1", question="The plan")
    assert "sum: 9  ✓" in shown("transcript", START, CALL, plan, BY_A_PERSON[1], END)
    assert "sum: 9  ✓" in shown("transcript", START, *BY_A_PERSON, CALL, END, CALL, END).splitlines()[-1]


def test_what_the_model_is_told_besides_is_no_prompt() -> None:
    told = shown("transcript", START, Message(run_id="r", role="system", text="Of the list is open:\n- a"))
    assert "· Of the list is open:" in told
    assert "❯" not in told
