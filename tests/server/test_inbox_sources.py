"""The inbox in a terminal: the same rows from the files and from a server, and commands that reach the right program."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.clients.commands import Approve, Steer
from harness.clients.conversations.backend import ConversationStatus, Setup
from harness.clients.conversations.local_socket import LocalSocketServer
from harness.clients.inbox.contract import Sessions
from harness.clients.inbox.local_sessions import open_sessions
from harness.clients.inbox.rows import InboxRows, RowStatus
from harness.clients.server_address import ServerCalls, leave_address
from harness.errors import HarnessError, UsageError
from harness.events import Relay, Result, ToolStart
from harness.events.operation import Command
from harness.folds.inbox.row import InboxRow
from harness.log.stores.files import FileStore
from harness.usage.prices import Prices
from live_server import TIMEOUT_S, LiveServer, recorded
from test_approvals import bash, scripted

PRICES = Prices("", {})


@pytest.fixture(autouse=True)
def _own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


def until(inbox: Sessions, is_so: Callable[[], Any]) -> Any:
    deadline_s, seen = time.monotonic() + TIMEOUT_S, 0
    while not (found := is_so()):
        assert time.monotonic() < deadline_s
        seen = inbox.wait(seen, 1.0)
    return found


def state_of(inbox: Sessions, session: str) -> str:
    row = inbox.row(session)
    return "" if row is None else row.state


def test_files_alone(tmp_path: Path) -> None:
    live = LiveServer(tmp_path)
    assert isinstance(live.store, FileStore)
    taken: list[Any] = []
    status = ConversationStatus(is_running=True, can_answer=True, can_steer=True)
    with open_sessions(FileStore(live.store.directory), PRICES) as inbox:
        assert inbox.page().total == 0
        hub, log_id = recorded(live)
        until(inbox, lambda: state_of(inbox, log_id) == "running")
        with pytest.raises(UsageError, match="takes no commands"):
            inbox.send(log_id, Steer(message="x"))
        channel = LocalSocketServer(log_id, taken.append, lambda: status)
        call = ToolStart(call_id="c", tool_name="Bash", operations=[Command(command="make")])
        hub.source(log_id).append([call, Relay(id="q", call_id="c", tool_name="Bash")])
        until(inbox, lambda: state_of(inbox, log_id) == "needs-approval")
        inbox.send(log_id, Approve(relay_id="q"))
        assert taken == [Approve(relay_id="q")]
        assert until(inbox, lambda: (row := inbox.row(log_id)) and row.can.steer)
        hub.source(log_id).append([Result(success=True)])
        until(inbox, lambda: state_of(inbox, log_id) == "succeeded")
        channel.close()
        hub.close()


def test_a_log_that_comes_while_all_are_read_is_not_lost(tmp_path: Path) -> None:
    live = LiveServer(tmp_path)
    rows = InboxRows(live.store, PRICES, status=lambda _metadata: RowStatus(is_live=True))
    first, first_id = recorded(live)
    found = rows.read()
    second, second_id = recorded(live)
    rows.update([second_id])
    rows.show(found)
    assert {log_id: row.state for log_id, row in rows.rows.items()} == {
        first_id: "running",
        second_id: "running",
    }
    assert rows.counts.running == 2
    second.close()
    live.store.delete(second_id)
    assert rows.update([second_id]) == [second_id]
    assert rows.counts.running == 1
    first.close()
    rows.close()


def test_a_process_that_died_is_lost(tmp_path: Path) -> None:
    live = LiveServer(tmp_path)
    assert isinstance(live.store, FileStore)
    hub, log_id = recorded(live)
    with open_sessions(FileStore(live.store.directory), PRICES) as inbox:
        assert state_of(inbox, log_id) == "running"
        hub.close()
        until(inbox, lambda: state_of(inbox, log_id) == "lost")


def test_a_server_and_its_files_give_the_same_rows(live: LiveServer) -> None:
    model = scripted(live, [bash("/bin/echo one", "a")], "Done.")
    session = live.create(model=model, prompt="go")["id"]
    assert isinstance(live.store, FileStore)
    leave_address(live.url)
    with (
        open_sessions(live.store, PRICES, url=live.url, token=live.access.token) as served,
        open_sessions(FileStore(live.store.directory), PRICES) as files,
    ):
        for inbox in (served, files):
            until(inbox, lambda inbox=inbox: state_of(inbox, session) == "needs-approval")
        assert _shown(served.row(session)) == _shown(files.row(session))
        row = served.row(session)
        assert row is not None
        (ask,) = row.asks
        with pytest.raises(UsageError, match="It changed"):
            served.send(session, Approve(relay_id=ask.id, arguments_hash="0"))
        served.send(session, Approve(relay_id=ask.id, arguments_hash=ask.arguments_hash))
        for inbox in (served, files):
            until(inbox, lambda inbox=inbox: state_of(inbox, session) == "succeeded")
        until(served, lambda: served.answered_by(session, ask.id) == "terminal")
        assert served.answered_by(session, "another") == ""
        with pytest.raises(UsageError, match="answered already"):
            served.send(session, Approve(relay_id=ask.id))
        again = served.start(Setup(model=live.script("Yes.")), "more")
        until(served, lambda: state_of(served, again) == "succeeded")


def _shown(row: InboxRow | None) -> Any:
    assert row is not None
    return row.state, row.title, row.asks, row.cost_usd, row.tokens, row.is_live


def test_what_is_no_server_and_who_has_no_token(live: LiveServer) -> None:
    assert isinstance(live.store, FileStore)
    with pytest.raises(UsageError, match="refused"):
        open_sessions(live.store, PRICES, url=live.url, token="wrong")
    with pytest.raises(HarnessError, match="no server answers"):
        open_sessions(live.store, PRICES, url="http://127.0.0.1:1", token="x")


def test_a_server_that_is_gone_is_named_in_words() -> None:
    with pytest.raises(HarnessError, match=r"no server answers at http://127.0.0.1:1: Connection refused"):
        ServerCalls("http://127.0.0.1:1", "x").get("/api/agents")
