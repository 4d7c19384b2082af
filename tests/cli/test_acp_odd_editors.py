"""`harness acp`: editors that ask a lot at once, send what is odd or too long, or take a request back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from acp_editor import Editor, Refused, never
from test_cli_acp import Desk, words


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
