"""Images and documents that come with a prompt."""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from harness.clients.client import PlainClient, to_thread
from harness.events import Message, Warning
from harness.log.store import read_all
from live_server import TIMEOUT_S, LiveServer, is_done
from python_programs import python_program

PIXEL = b64encode(b"\x89PNG\r\n\x1a\n not much of a picture").decode()
IMAGE = {"mediaType": "image/png", "name": "pixel.png", "data": PIXEL}
NOTES = {"mediaType": "text/plain", "name": "notes.txt", "data": b64encode("drei Äpfel".encode()).decode()}


def ended(live: LiveServer, session: str) -> dict[str, Any]:
    with PlainClient(live.url, token=live.access.token, session=session) as client:
        return client.until(is_done, TIMEOUT_S)


def test_files_come_with_the_first_prompt_or_without_any_words(live: LiveServer) -> None:
    for prompt in ("look", ""):
        session = live.create(model=live.script("I see."), prompt=prompt, attachments=[IMAGE, NOTES])
        state = ended(live, session["id"])
        asked, answer = state["messages"]
        assert (asked["content"], answer["content"]) == (prompt, "I see.")
        files = [part for part in asked["parts"] if part["type"] == "file"]
        assert [(one["name"], one["mediaType"], one["data"]) for one in files] == [
            ("pixel.png", "image/png", PIXEL),
            ("notes.txt", "text/plain", NOTES["data"]),
        ]
        shown = to_thread(state)["messages"][0]["content"]
        assert {"type": "image", "image": f"data:image/png;base64,{PIXEL}"} in shown


@pytest.mark.parametrize(
    "attachment", [{**IMAGE, "data": "not base64!"}, {**IMAGE, "data": ""}, {**IMAGE, "mediaType": "png"}]
)
def test_an_invalid_file_is_refused_before_a_run_starts(live: LiveServer, attachment: dict[str, str]) -> None:
    session = live.create(model=live.script("Never."))["id"]
    command = {"type": "submit", "prompt": "look", "attachments": [attachment]}
    with live.http() as http:
        answer = http.post(f"/api/sessions/{session}/commands", json={"commands": [command]})
    assert answer.status_code == 400
    assert "cannot be attached" in answer.json()["error"]["message"]
    assert not any(isinstance(event, Message) for event in read_all(live.store, session))


def test_a_program_that_takes_no_files_gets_text_files_in_its_prompt(
    live: LiveServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = {"type": "result", "subtype": "success", "is_error": False, "result": "ok", "session_id": "s"}
    answers = f"print('1.0.128' if sys.argv[1:] == ['--version'] else {json.dumps(json.dumps(texts))})"
    python_program(tmp_path / "claude", f"import sys\n{answers}\n")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    session = live.create(
        agent="claude", prompt="count them", permissionMode="fullAuto", attachments=[IMAGE, NOTES]
    )["id"]
    ended(live, session)
    events = list(read_all(live.store, session))
    asked = next(event.text for event in events if isinstance(event, Message) and event.role == "user")
    assert asked.startswith("count them")
    assert "notes.txt" in asked
    assert "drei Äpfel" in asked
    left_out = [event.message for event in events if isinstance(event, Warning)]
    assert any("pixel.png" in message and "notes.txt" not in message for message in left_out)
