"""The inbox from the files while other programs run the sessions: real ones, which are then killed."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from harness.clients.commands import Approve
from harness.clients.inbox.contract import Sessions
from harness.clients.inbox.local_sessions import open_sessions
from harness.clients.server_address import TOKEN_VARIABLE, leave_address
from harness.errors import UsageError
from harness.events import Relay, Result, SessionStart, ToolStart
from harness.folds.inbox.row import InboxRow
from harness.log.hub import Hub
from harness.log.ids import new_run_id
from harness.log.store import Metadata
from harness.log.stores.files import FileStore
from harness.usage.prices import Prices
from live_server import TIMEOUT_S
from serve_program import PROGRAM, serve_program
from test_approvals import bash

PRICES = Prices("", {})


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FileStore:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return FileStore(str(tmp_path / "data" / "harness" / "sessions"))


def until(inbox: Sessions, is_so: Callable[[], Any]) -> Any:
    deadline_s, seen = time.monotonic() + TIMEOUT_S, 0
    while not (found := is_so()):
        assert time.monotonic() < deadline_s, inbox.page().rows
        seen = inbox.wait(seen, 1.0)
    return found


def shows(inbox: Sessions, session: str, state: str, *, is_live: bool) -> InboxRow:
    """Waits until its row is so."""

    def found() -> InboxRow | None:
        row = inbox.row(session)
        return row if row is not None and (row.state, row.is_live) == (state, is_live) else None

    row = until(inbox, found)
    assert isinstance(row, InboxRow)
    return row


def script(folder: Path, *responses: Any) -> str:
    """The name of a model with these answers."""
    path = folder / "script.json"
    texts = [[{"type": "text", "content": one}] if isinstance(one, str) else one for one in responses]
    path.write_text(json.dumps({"goes_by": "conversation", "responses": [{"events": one} for one in texts]}))
    return f"scripted/{path}"


@contextmanager
def chat_program(folder: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    environ = {**os.environ, "XDG_CONFIG_HOME": str(folder / "config")}
    with subprocess.Popen(
        [*PROGRAM, "chat", "-a", "native", *options],
        env=environ,
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        text=True,
        bufsize=1,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_a_session_of_a_server_waits_and_is_lost_with_it(tmp_path: Path, store: FileStore) -> None:
    with serve_program(tmp_path) as server, open_sessions(store, PRICES) as early:
        session = server.create(model=script(tmp_path, [bash("/bin/echo one", "a")]), prompt="go")
        row = shows(early, session, "needs-approval", is_live=True)
        assert row.can.answer
        with open_sessions(store, PRICES) as late:
            shows(late, session, "needs-approval", is_live=True)
            server.kill()
            for inbox in (early, late):
                shows(inbox, session, "lost", is_live=False)


def test_a_session_of_a_server_is_answered_runs_and_is_lost_with_it(tmp_path: Path, store: FileStore) -> None:
    model = script(tmp_path, [bash("sleep 20", "a")])
    with serve_program(tmp_path) as server, open_sessions(store, PRICES) as inbox:
        session = server.create(model=model, prompt="go")
        (ask,) = shows(inbox, session, "needs-approval", is_live=True).asks
        inbox.send(session, Approve(relay_id=ask.id, arguments_hash=ask.arguments_hash))
        shows(inbox, session, "running", is_live=True)
        server.kill()
        shows(inbox, session, "lost", is_live=False)


def test_a_server_that_cannot_be_reached_is_reported_with_what_to_do(
    tmp_path: Path, store: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = script(tmp_path, [bash("/bin/echo one", "a")], "Done.")
    with serve_program(tmp_path) as server, open_sessions(store, PRICES) as inbox:
        session = server.create(model=model, prompt="go")
        (ask,) = shows(inbox, session, "needs-approval", is_live=True).asks
        with pytest.raises(UsageError, match="It changed"):
            inbox.send(session, Approve(relay_id=ask.id, arguments_hash="0"))
        monkeypatch.setenv(TOKEN_VARIABLE, "wrong")
        with pytest.raises(UsageError, match="is not the server of this machine, or has another") as refused:
            inbox.send(session, Approve(relay_id=ask.id))
        assert "on its page, or here with --server URL" in refused.value.hint
        monkeypatch.delenv(TOKEN_VARIABLE)
        leave_address("http://127.0.0.1:1")
        with pytest.raises(UsageError, match="was not reached: no server answers at"):
            inbox.send(session, Approve(relay_id=ask.id))
        leave_address(server.url)
        inbox.send(session, Approve(relay_id=ask.id, arguments_hash=ask.arguments_hash))
        shows(inbox, session, "succeeded", is_live=False)


@pytest.mark.parametrize("has_server", [False, True])
def test_a_chat_that_waits_for_a_message_is_idle(tmp_path: Path, store: FileStore, has_server: bool) -> None:
    if has_server:
        leave_address("http://127.0.0.1:9")
    options = ("-m", script(tmp_path, "Hi.", [bash("sleep 20", "a")]), "--permissions", "full-access")
    with open_sessions(store, PRICES) as inbox, chat_program(tmp_path, *options) as process:
        assert process.stdin is not None
        process.stdin.write("hello\n")
        session = until(inbox, lambda: inbox.page().rows)[0].id
        shows(inbox, session, "idle", is_live=True)
        process.stdin.write("and work\n")
        shows(inbox, session, "running", is_live=True)
        process.kill()
        shows(inbox, session, "lost", is_live=False)


def test_metadata_that_is_behind_the_log_makes_no_session_lost(store: FileStore) -> None:
    leave_address("http://127.0.0.1:9")
    log_id = new_run_id(time.time_ns() // 1_000_000)
    hub = Hub(store, log_id, store.create(Metadata(session_id=log_id, kind="thread", agent_name="native")))
    source = hub.source(log_id)
    with open_sessions(store, PRICES) as inbox:
        source.append([SessionStart(agent="native")])
        shows(inbox, log_id, "running", is_live=True)
        source.append(
            [ToolStart(call_id="c", tool_name="Bash"), Relay(id="q", call_id="c", tool_name="Bash")]
        )
        shows(inbox, log_id, "needs-approval", is_live=True)
        source.append([Result(success=True)])
        shows(inbox, log_id, "succeeded", is_live=False)  # the server has it open, and nothing runs
        hub.close()
