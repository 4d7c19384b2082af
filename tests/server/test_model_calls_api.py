"""What a gateway has recorded of a session: a line for each call, and what was new in one, in the API and the screen."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from harness import Request, start
from harness.clients.conversations.backend import Setup
from harness.contracts.fixture import LabContext
from harness.contracts.request import GatewayOptions
from harness.errors import UsageError
from harness.events import ModelCall
from harness.lab import LabServer, ScriptRun, load_fixture, parse_script
from harness.log.store import read_all
from harness.log.stores.files import FileStore
from harness.tui.file_data import FileScreenData
from harness.tui.server_data import ServerScreenData
from harness.usage.prices import Prices
from live_server import LiveServer

sys.path.insert(0, str(Path(__file__).parents[1] / "gateway"))
import small_agent


@pytest.fixture
def session(live: LiveServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("PATH", small_agent.install(tmp_path / "bin") + os.pathsep + os.environ["PATH"])
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-real-key-0123456789abcdef")
    work = tmp_path / "work"
    work.mkdir()
    with LabServer() as lab:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", lab.url)
        context = LabContext(url=lab.url, home=str(tmp_path), cwd=str(work))
        script = {"turns": [{"call": "run", "command": "echo a-rare-word"}, {"text": "Done."}]}
        lab.script_run = ScriptRun(parse_script(script), load_fixture("claude"), context)
        request = Request(agent="claude", prompt="Go.", cwd=str(work), gateway=GatewayOptions())
        run = start(request, store=live.store)
        assert run.wait().outcome == "completed"
        return run.id


def _get(live: LiveServer, path: str) -> Any:
    with live.http() as client:
        return client.get(path).raise_for_status().json()


def test_calls_are_listed_and_shown_with_what_is_new(live: LiveServer, session: str) -> None:
    table = _get(live, f"/api/sessions/{session}/requests")
    assert [row[0] for row in table["rows"]] == ["1", "2"]
    assert table["head"][4] == "sent (new)"
    whole = "\n".join(_get(live, f"/api/sessions/{session}/requests/2")["lines"])
    new = "\n".join(_get(live, f"/api/sessions/{session}/requests/2?new=true")["lines"])
    assert "[user text]" in whole
    assert "[user text]" not in new
    assert "… 1 item as before" in new
    assert "a-rare-word" in new


def test_a_session_without_a_gateway_has_no_calls(live: LiveServer) -> None:
    plain = live.create(model=live.script("Hello."), prompt="begin")["id"]
    assert _get(live, f"/api/sessions/{plain}/requests")["rows"] == []


def test_the_screen_shows_the_same_from_files_and_from_a_server(live: LiveServer, session: str) -> None:
    assert isinstance(live.store, FileStore)
    files = FileScreenData(FileStore(live.store.directory), Prices("", {}), lambda: Setup(agent="native"))
    server = ServerScreenData(live.url, live.access.token)
    lines = list(files.model_calls(session))
    assert lines == list(server.model_calls(session))
    assert any("a-rare-word" in line for line in lines)
    assert "── 2 ── main" in "\n".join(lines)


def test_a_call_that_there_is_none_of_is_refused(live: LiveServer, session: str) -> None:
    server = ServerScreenData(live.url, live.access.token)
    with pytest.raises(UsageError, match="there is no call 3: this session has 2"):
        server._calls.get(f"/api/sessions/{session}/requests/3")


def test_a_session_goes_on_from_a_step(live: LiveServer, session: str) -> None:
    with live.http() as client:
        for body, words in (
            ({"at": -1}, "counted from 0"),
            ({"at": 1, "model": "openai/gpt-5.5"}, "needs a key"),
        ):
            refused = client.post(f"/api/sessions/{session}/forks", json=body)
            assert (refused.status_code, words in refused.text) == (400, True), refused.text
        started = client.post(f"/api/sessions/{session}/forks", json={"at": 2}).raise_for_status()
        assert started.status_code == 201
        fork = started.json()["id"]
    ends_s = time.monotonic() + 60
    while not (metadata := live.store.metadata(fork)).outcome and time.monotonic() < ends_s:
        time.sleep(0.02)
    assert metadata.outcome == "completed"
    events = list(read_all(live.store, fork))
    assert [one.origin for one in events if isinstance(one, ModelCall)] == ["recording", "recording"]
