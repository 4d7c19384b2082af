"""The screen of the terminal has the same data from files and from a server, and its commands reach the right program."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from harness.clients.commands import Approve, Submit
from harness.clients.conversations.backend import Setup
from harness.clients.server_address import TOKEN_VARIABLE, leave_address
from harness.errors import HarnessError
from harness.events import Event, Message, Relay, ToolEnd, ToolStart
from harness.folds.inbox.row import InboxRow
from harness.log.stores.files import FileStore
from harness.tui.file_data import FileScreenData
from harness.tui.lines import text_of
from harness.tui.screens import call_lines
from harness.tui.server_data import ServerScreenData
from harness.tui.source_data import ScreenData
from harness.tui.transcript_lines import CallRange
from harness.usage.prices import Prices
from live_server import TIMEOUT_S, LiveServer
from small_fleet import FAILS, SOLVES
from test_approvals import bash, scripted
from test_fleet_api import carried_out, made

PRICES = Prices("", {})


@pytest.fixture(autouse=True)
def _own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


@pytest.fixture(params=["files", "server"])
def data(
    request: pytest.FixtureRequest, live: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ScreenData]:
    found: ScreenData
    if request.param == "server":
        found = ServerScreenData(live.url, live.access.token)
    else:
        assert isinstance(live.store, FileStore)
        leave_address(live.url)  # as `harness serve` on this machine does, beside its token
        monkeypatch.setenv(TOKEN_VARIABLE, live.access.token)
        found = FileScreenData(FileStore(live.store.directory), PRICES, lambda: Setup(agent="native"))
    found.open(lambda: None)
    yield found
    found.close()


def until(is_so: Callable[[], Any]) -> Any:
    ends_s = time.monotonic() + TIMEOUT_S
    while not (found := is_so()):
        assert time.monotonic() < ends_s, found
        time.sleep(0.02)
    return found


def row_of(data: ScreenData, session: str, *states: str) -> InboxRow:
    def found() -> InboxRow | None:
        return next((row for row in data.rows() if row.id == session and row.state in states), None)

    row = until(found)
    assert isinstance(row, InboxRow)
    return row


@pytest.mark.parametrize("data", ["server"], indirect=True)
def test_a_session_is_seen_read_and_answered(live: LiveServer, data: ScreenData) -> None:
    model = scripted(live, [bash("/bin/echo one", "a")], "All of it is done.")
    session = live.create(model=model, prompt="a rare word")["id"]
    row = row_of(data, session, "needs-approval")
    tail = data.sessions.tail(session, lambda: None)
    events: list[Event] = []
    until(lambda: events.extend(tail.poll()) or any(isinstance(one, Relay) for one in events))
    (ask,) = row.asks
    with pytest.raises(HarnessError, match="It changed"):
        data.sessions.send(session, Approve(relay_id=ask.id, arguments_hash="0"))
    data.sessions.send(session, Approve(relay_id=ask.id, arguments_hash=ask.arguments_hash))
    row_of(data, session, "succeeded", "idle")
    until(
        lambda: events.extend(tail.poll()) or any("All of it" in getattr(one, "text", "") for one in events)
    )
    tail.close()
    assert [event.seq for event in events] == list(range(len(events)))
    assert list(data.sessions.read(session))[: len(events)] == events
    assert session in until(lambda: data.sessions.find("rare"))
    start, end = (next(one.seq for one in events if isinstance(one, kind)) for kind in (ToolStart, ToolEnd))
    shown = "\n".join(map(text_of, call_lines(data, session, CallRange(start, end), "")))
    assert "/bin/echo one" in shown
    assert "exit code: 0" in shown
    assert "native" in data.usage() or "No usage" in data.usage()
    data.sessions.mark_seen(session)


def test_a_conversation_begins_and_is_continued(live: LiveServer, data: ScreenData, tmp_path: Path) -> None:
    model = live.script("The first answer.", "The second answer.")
    session = data.sessions.start(Setup(agent="native", model=model, cwd=str(tmp_path)), "begin")
    row_of(data, session, "succeeded", "idle")
    data.sessions.send(session, Submit(prompt="once more"))

    def has_continued() -> bool:
        texts = [(one.role, one.text) for one in data.sessions.read(session) if isinstance(one, Message)]
        return ("user", "once more") in texts and texts[-1][0] == "assistant"

    until(has_continued)
    assert "native" in data.agents()


def test_a_server_that_does_not_answer_is_reported_and_nothing_is_sent(live: LiveServer) -> None:
    data = ServerScreenData("http://127.0.0.1:9", live.access.token)
    data.open(lambda: None)
    until(lambda: data.notice)
    assert "no server answers" in data.notice
    with pytest.raises(HarnessError, match="no server answers"):
        data.sessions.send("x", Submit(prompt="lost"))


def test_files_are_offered_for_what_was_typed(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / ".git").mkdir()
    for name in ("src/cart.py", "src/total.py", ".git/cart", "README.md"):
        (tmp_path / name).write_text("")
    data = FileScreenData(FileStore(str(tmp_path / "logs")), PRICES, Setup)
    assert data.files(str(tmp_path), "car") == ["src/cart.py"]
    assert data.files(str(tmp_path), "src/") == ["src/cart.py", "src/total.py"]


def test_fleets_are_the_same_from_files_and_from_a_server(live: LiveServer, data: ScreenData) -> None:
    fleet = made(live, ("good", SOLVES), ("bad", FAILS))
    carried_out(fleet)
    with closing(data.fleets()) as source:
        (row,) = source.all()
        assert (row.state, row.passed, row.failed) == ("completed", 2, 2)
        view = source.view("small")
        assert [one.state for one in view.cases] == ["passed", "failed"] * 2
        assert view.report[0].pass_rate == 1.0
        found = source.compare("small", "bad", "good")
        assert (found.verdict, found.difference) == ("no clear winner", 1.0)
        with pytest.raises(HarnessError, match="not being run"):
            source.stop("small", now=True)
        for name in ("nobody", "../small", "a/b"):
            with pytest.raises(HarnessError, match=r"no fleet|nothing is here"):
                source.view(name)
        hub = fleet.open_log()
        try:
            source.stop("small", now=False)
        finally:
            hub.close()
    assert fleet.records.stop_requested() == "after"
