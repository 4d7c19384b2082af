"""Notifications when a session needs a person or ends: signed, redacted, short, and only to targets of the user."""

from __future__ import annotations

import hashlib
import hmac
import json
import queue
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from harness.errors import UsageError
from harness.folds.inbox.row import InboxRow, RowAsk, RowFailure, RowProject
from harness.server.machine.notifier import Notifier, NotifyChoices, target_of
from live_server import TIMEOUT_S, LiveServer

SECRET = "sk-ant-api03-" + "a1B2c3D4" * 11 + "AA"
"""In the form of a key, and nowhere a key."""


class Receiver:
    """A place that takes messages, and answers with `statuses`, the last of them again and again."""

    def __init__(self) -> None:
        self.got: queue.Queue[tuple[str, dict[str, str], bytes]] = queue.Queue()
        self.statuses = [200]
        self.location = ""
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                receiver.got.put((self.path, headers, body))
                status = receiver.statuses.pop(0) if len(receiver.statuses) > 1 else receiver.statuses[0]
                self.send_response(status)
                if receiver.location:
                    self.send_header("location", receiver.location)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                return

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def next(self) -> tuple[str, dict[str, str], bytes]:
        return self.got.get(timeout=TIMEOUT_S)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()


def notifier(folder: Path, *urls: str) -> Notifier:
    return Notifier(
        [target_of(url) for url in urls], "http://page", folder=str(folder), environ={}, pauses_s=(0.01, 0.01)
    )


def row(state: Any, **more: Any) -> InboxRow:
    return InboxRow(
        id="s", title="Tax table", agent="Codex", project=RowProject(name="shop"), state=state, **more
    )


ASKS = row("needs-approval", asks=(RowAsk(id="q", title="run a command", subject=f"echo {SECRET}"),))


def test_a_webhook_is_signed_and_contains_little(tmp_path: Path, receiver: Receiver) -> None:
    sender = notifier(tmp_path, f"{receiver.url}/hook?x=1")
    sender.note(row("running"), ASKS)
    sender.note(ASKS, ASKS)
    path, headers, body = receiver.next()
    assert path == "/hook?x=1"
    secret = (tmp_path / "notify-secret").read_text().strip()
    signed = hmac.new(secret.encode(), headers["x-harness-timestamp"].encode() + b"." + body, hashlib.sha256)
    assert headers["x-harness-signature"] == f"sha256={signed.hexdigest()}"
    shown_text = json.loads(body)
    assert (shown_text["event"], shown_text["session"], shown_text["state"]) == (
        "needs-you",
        "s",
        "needs-approval",
    )
    assert shown_text["text"] == "Codex in shop asks to run a command"
    assert shown_text["link"] == "http://page/#/c/s"
    assert SECRET not in body.decode()
    assert receiver.got.empty()  # once for each ask
    sender.note(ASKS, row("failed", failure=RowFailure(text="timed out after 30 min"), state_since_ms=5))
    assert json.loads(receiver.next()[2])["text"] == "Codex in shop failed: timed out after 30 min"
    sender.close()


@pytest.mark.parametrize(
    ("kind", "words"), [("question", "asks a question"), ("plan", "asks to review a plan")]
)
def test_a_question_is_not_part_of_its_notification(
    tmp_path: Path, receiver: Receiver, kind: Any, words: str
) -> None:
    ask = RowAsk(id="q", kind=kind, title="answer a question", question="Sell it?", subject="Sell it?")
    sender = notifier(tmp_path, f"{receiver.url}/hook")
    sender.note(row("running"), row("asks", asks=(ask,)))
    body = receiver.next()[2]
    assert json.loads(body)["text"] == f"Codex in shop {words}"
    assert b"Sell" not in body
    sender.close()


def test_a_push_is_plain_text(tmp_path: Path, receiver: Receiver) -> None:
    sender = notifier(tmp_path, f"ntfy+{receiver.url.replace('//', '//me:word@')}/topic")
    sender.note(None, row("asks", asks=(RowAsk(id="q", title="answer a question"),)))
    _path, headers, body = receiver.next()
    assert body == b"Codex in shop asks to answer a question"
    assert (headers["title"], headers["click"], headers["priority"]) == (
        "Tax table",
        "http://page/#/c/s",
        "high",
    )
    assert headers["authorization"] == "Basic bWU6d29yZA=="
    assert "word" not in json.dumps(sender.settings.targets)
    sender.close()


def test_secrets_and_line_ends_do_not_get_out(tmp_path: Path, receiver: Receiver) -> None:
    sender = notifier(tmp_path, f"ntfy+{receiver.url}/topic")
    evil = InboxRow(
        id="s", title=f"a\r\nX-Evil: 1 {SECRET} é", agent="Codex", state="failed", state_since_ms=1
    )
    sender.note(row("running"), evil)
    _path, headers, body = receiver.next()
    assert "x-evil" not in headers
    assert SECRET not in json.dumps(headers) + body.decode()
    sender.close()


def test_what_fails_is_tried_again_and_what_is_refused_is_not(tmp_path: Path, receiver: Receiver) -> None:
    sender = notifier(tmp_path, receiver.url)
    receiver.statuses = [503, 429, 200]
    sender.note(row("running"), row("succeeded", state_since_ms=1))
    for _ in range(3):
        receiver.next()
    receiver.statuses = [404]
    sender.note(row("running"), row("succeeded", state_since_ms=2))
    receiver.next()
    receiver.statuses = [200]
    sender.note(row("running"), row("succeeded", state_since_ms=3))
    assert json.loads(receiver.next()[2])["event"] == "end"
    assert receiver.got.empty()
    sender.close()


def test_redirects_are_not_followed(tmp_path: Path, receiver: Receiver) -> None:
    other = Receiver()
    receiver.statuses, receiver.location = [302], f"{other.url}/inside"
    sender = notifier(tmp_path, receiver.url)
    assert sender.test() == ["refused with status 302"]
    assert other.got.empty()
    assert "302" in sender.settings.last_error
    sender.close()
    other.close()


def test_what_a_person_stopped_and_what_is_not_chosen_is_not_sent(tmp_path: Path, receiver: Receiver) -> None:
    sender = notifier(tmp_path, receiver.url)
    sender.note(row("running"), row("interrupted"))
    sender.choose(NotifyChoices(needs_you=False))
    sender.note(row("running"), ASKS)
    sender.note(row("running"), row("succeeded", state_since_ms=1))
    assert json.loads(receiver.next()[2])["event"] == "end"
    assert receiver.got.empty()
    assert not notifier(tmp_path).settings.needs_you  # stored
    sender.close()


@pytest.mark.parametrize("text", ["", "file:///etc/passwd", "ftp://x/y", "https://", "ntfy+gopher://x", "x"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(UsageError, match="not an address"):
        target_of(text)


def test_clients_choose_what_and_never_where_to(live: LiveServer) -> None:
    with live.http() as http:
        assert http.get("/api/settings/notify").json() == {
            "needsYou": True,
            "ended": True,
            "targets": [],
            "lastSentMs": 0,
            "lastError": "",
        }
        refused = http.post("/api/inbox/notify/test", json={})
        assert refused.status_code == 400
        assert "--notify" in refused.json()["error"]["hint"]
    assert httpx.put(f"{live.url}/api/settings/notify", json={}).status_code == 401
