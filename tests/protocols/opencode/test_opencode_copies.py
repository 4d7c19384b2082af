"""Copies of sessions of OpenCode's server, and what is new in them."""

from __future__ import annotations

from typing import Any

import pytest

from harness.contracts.driver import Prompt, SessionKnown, TurnEnded
from harness.events import Message, SessionStart, UsageDelta
from served_dialogue import BUSY, ServedDialogue, event


@pytest.mark.parametrize(("permissions", "method"), [("ask", "PATCH"), ("full-access", "GET")])
@pytest.mark.parametrize("agent", ["opencode", "kilo"])
def test_a_copy_of_a_session_is_continued_with_the_rules_of_this_run(
    agent: str, permissions: Any, method: str
) -> None:
    dialogue = ServedDialogue(agent, permissions=permissions, resume="ses_0", fork=True)
    dialogue.do(dialogue.driver.begin())
    assert dialogue.last() == ("POST", "/session/ses_0/fork", {})
    dialogue.answers({"id": "ses_1", "directory": "/repo", "time": {"created": 50}})
    assert dialogue.last()[:2] == (method, "/session/ses_1")

    assert dialogue.answers({"id": "ses_1"}) == [SessionKnown("ses_1")]


def test_what_a_copy_has_from_the_session_before_is_no_news() -> None:
    """The server announces its messages and their parts as if they were new."""
    dialogue = ServedDialogue(permissions="full-access", resume="ses_0", fork=True)
    dialogue.do(dialogue.driver.begin())
    dialogue.do(dialogue.driver.prompt(Prompt(id="p1", text="hello")))
    opened = {"id": "ses_1", "directory": "/repo", "time": {"created": 50}}
    text = {"type": "text", "sessionID": "ses_1", "time": {"start": 1, "end": 2}}
    dialogue.answers(opened)
    dialogue.hears(
        event("session.created", sessionID="ses_1", info=opened),
        event(
            "message.updated",
            info={"id": "m1", "sessionID": "ses_1", "role": "assistant", "time": {"created": 2}},
        ),
        event("message.part.updated", part={**text, "id": "p1", "messageID": "m1", "text": "old"}),
        event(
            "message.part.updated",
            part={"type": "step-finish", "id": "p2", "messageID": "m1", "sessionID": "ses_1", "cost": 1},
        ),
    )
    dialogue.answers(opened)
    dialogue.hears(
        BUSY,
        event(
            "message.updated",
            info={"id": "m2", "sessionID": "ses_1", "role": "assistant", "time": {"created": 60}},
        ),
        event("message.part.updated", part={**text, "id": "p3", "messageID": "m2", "text": "new"}),
    )

    assert [one.session_id for one in dialogue.events if isinstance(one, SessionStart)] == ["ses_1"]
    assert [one.text for one in dialogue.events if isinstance(one, Message)] == ["new"]
    assert not [one for one in dialogue.events if isinstance(one, UsageDelta)]


def test_a_session_that_cannot_be_copied_ends_the_conversation() -> None:
    dialogue = ServedDialogue(permissions="full-access", resume="ses_0", fork=True)
    dialogue.do(dialogue.driver.begin())
    dialogue.do(dialogue.driver.prompt(Prompt(id="p1", text="hello")))

    [end] = dialogue.answers({"data": {"message": "Session not found: ses_0"}}, 404)

    assert isinstance(end, TurnEnded)
    assert "Session not found" in end.message
