"""`harness acp`: editors that ask a lot at once, send what is odd or too long, or take a request back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from acp_editor import Editor, Refused, allow_once, never
from test_cli_acp import ASKING, Desk, words


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def _loose(editor: Editor) -> list[dict[str, Any]]:
    lines = editor.errors.replace(b"}{", b"}\n{").split(b"\n")
    return [json.loads(line) for line in lines if line.startswith(b'{"jsonrpc"')]


def test_many_lists_are_asked_for_at_once(desk: Desk) -> None:
    """The catalogue of histories belongs to one thread: only the first was answered."""
    with desk.editor() as editor:
        session = editor.call("session/new", **desk.place())["sessionId"]
        for _ in range(3):
            waiting = [editor.begin("session/list") for _ in range(8)]
            for number in waiting:
                assert [one["sessionId"] for one in editor.answer(number)["sessions"]] == [session]


def test_a_prompt_that_is_taken_back_stops_its_turn(desk: Desk) -> None:
    with desk.editor(permits=never) as editor:
        session = editor.call("session/new", **desk.place())["sessionId"]
        waiting = editor.begin("session/prompt", sessionId=session, prompt=words("write"))
        editor.until(lambda: editor.asked)
        editor.send({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": waiting}})
        assert editor.answer(waiting) == {"stopReason": "cancelled"}
        editor.until(lambda: editor.withdrawn == [editor.asked[0]["id"]])
        assert not (desk.work / "made.txt").exists()
        done = editor.call("session/prompt", sessionId=session, prompt=words("go on"))
        assert done == {"stopReason": "end_turn"}


@pytest.mark.parametrize("is_last", [False, True])
def test_a_message_that_is_too_long_is_refused_by_its_id(desk: Desk, is_last: bool) -> None:
    """A client waits for the answer to its request, and knows nothing of an error without an id."""
    with desk.editor() as editor:
        session = editor.call("session/new", **desk.place())["sessionId"]
        parameters = {"sessionId": session, "prompt": words("x" * (100 * 1024 * 1024))}
        number = {"id": "long-1"}
        message = {"jsonrpc": "2.0", "method": "session/prompt"}
        ordered = {"params": parameters, **message, **number} if is_last else {**number, **message}
        editor.send({**ordered, "params": parameters})
        (refused,) = editor.until(lambda: [one for one in _loose(editor) if one.get("id") == "long-1"])
        assert refused["error"]["code"] == -32600
        assert "at most" in refused["error"]["message"]
        assert editor.call("session/list")["sessions"]


def test_what_is_odd_gets_the_error_of_the_protocol(desk: Desk) -> None:
    with desk.editor() as editor:
        with pytest.raises(Refused, match="must be an object"):
            editor.answer(editor.begin_with("session/list", {"params": [1]}))
        for fields in ({}, {"params": None}):
            assert editor.answer(editor.begin_with("session/list", fields)) == {"sessions": []}
        for odd in (True, 1.5, [1], {}, None):
            editor.send({"jsonrpc": "2.0", "id": odd, "method": "session/list", "params": {}})
            editor.send({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": odd}})
        for parameters in ([1], "x", 7):
            editor.send({"jsonrpc": "2.0", "method": "session/cancel", "params": parameters})
        editor.until(lambda: editor.errors.count(b"-32600") == 5)
        with pytest.raises(Refused):
            editor.call("no/such")
        assert b"Error:" not in editor.errors


def test_a_prompt_that_is_stopped_before_it_has_begun_does_not_begin(desk: Desk) -> None:
    """It was sent all the same: the stop came to a session in which nothing ran yet."""
    with desk.editor() as editor:
        for _ in range(3):
            session = editor.call("session/new", **desk.place())["sessionId"]
            lines: list[bytes] = []
            with patch.object(editor, "send_bytes", lines.append):  # both come at once
                waiting = editor.begin("session/prompt", sessionId=session, prompt=words("write"))
                editor.send({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}})
            editor.send_bytes(b"".join(lines))
            assert editor.answer(waiting) == {"stopReason": "cancelled"}
        assert not (desk.work / "made.txt").exists()
        assert not editor.asked
        editor.permits = allow_once
        assert editor.call("session/prompt", sessionId=session, prompt=words("write")) == {
            "stopReason": "end_turn"
        }


def test_what_was_asked_is_withdrawn_when_its_session_is_opened_again_or_closed(desk: Desk) -> None:
    with desk.editor(permits=never) as editor:
        session = editor.call("session/new", **desk.place())["sessionId"]
        waiting = editor.begin("session/prompt", sessionId=session, prompt=words("write"))
        editor.until(lambda: editor.asked)
        editor.call("session/load", **desk.place(sessionId=session))
        editor.until(lambda: len(editor.asked) == 2)
        assert editor.withdrawn == [editor.asked[0]["id"]]
        editor.call("session/close", sessionId=session)
        editor.until(lambda: len(editor.withdrawn) == 2)
        with pytest.raises(Refused, match="closed"):  # nobody watched it any more
            editor.answer(waiting)
        session = editor.call("session/new", **desk.place())["sessionId"]
        waiting = editor.begin("session/prompt", sessionId=session, prompt=words("write"))
        editor.until(lambda: len(editor.asked) == 3)
        editor.call("session/close", sessionId=session)
        assert editor.answer(waiting) == {"stopReason": "cancelled"}


@pytest.mark.parametrize("answer", [None, {"answer": None}, {"other": 1}])
def test_a_form_that_is_filled_in_with_nothing_does_not_wait_for_ever(desk: Desk, answer: Any) -> None:
    """The question stayed open, and nobody was asked any more."""
    desk.script.write_text(ASKING)
    given = {"action": "accept", "content": answer}
    with desk.editor(capabilities={"elicitation": {"form": {}}}, permits=lambda _asked: given) as editor:
        session = editor.call("session/new", **desk.place())["sessionId"]
        done = editor.call("session/prompt", sessionId=session, prompt=words("ask"))
        assert done == {"stopReason": "end_turn"}
        assert len(editor.asked) <= 3


def test_what_a_rule_denies_no_mode_of_an_editor_allows(desk: Desk) -> None:
    settings = desk.home / "config" / "harness" / "config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(
        """[[permissions.rules]]
command = "echo *"
answer = "deny"
"""
    )
    call = '{ tool = "bash", input = { command = "echo hi > made.txt" } }'
    desk.script.write_text(f'turns = [ [ {call} ], [ {{ text = "No, then." }} ] ]')
    with desk.editor() as editor:
        for mode in ("fullAuto", "acceptEdits", "default"):
            session = editor.call("session/new", **desk.place())["sessionId"]
            editor.call("session/set_config_option", sessionId=session, configId="permissions", value=mode)
            editor.call("session/prompt", sessionId=session, prompt=words("write"))
        assert editor.text() == "No, then." * 3
        assert not editor.asked
        assert not (desk.work / "made.txt").exists()


def test_a_turn_in_another_process_that_dies_ends_for_its_editor(desk: Desk) -> None:
    """The prompt was never answered: only the process that runs a turn was looked at."""
    desk.script.write_text('turns = [ [ { tool = "bash", input = { command = "sleep 60" } } ] ]')
    with desk.editor() as first, desk.editor() as second:
        session = first.call("session/new", **desk.place())["sessionId"]
        second.call("session/load", **desk.place(sessionId=session))
        waiting = second.begin("session/prompt", sessionId=session, prompt=words("sleep"))
        second.until(lambda: "in_progress" in str(second.updates))
        first.kill()
        with pytest.raises(Refused, match="ended without a result"):
            second.answer(waiting)
