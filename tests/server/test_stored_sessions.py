"""Sessions that agents have stored themselves, in the server: listed, searched, read, followed, copied, continued."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import pytest

from harness import config
from harness.cli.commands.serve import _with_histories
from harness.log.store import Query
from harness.log.stores.files import FileStore
from harness.log.stores.memory import MemoryStore
from harness.server.machine.histories import Histories, HistoryKeeper
from harness.server.machine.machine_store import MachineStore
from harness.session.open_thread import folded
from live_server import TIMEOUT_S, LiveServer

sys.path.insert(0, str(Path(__file__).parents[1] / "histories"))
from stored_homes import cases

CLAUDE = "dcf6af37-9996-4a16-9b4e-bd16fefb37c6"
NAME = f"claude:{CLAUDE}"
CASES = (
    "claude/2.1.197/tools",
    "codex/0.166.0/subagent",
    "goose/1.52.0/resume",
    "gemini/0.61.0/text",
    "pi/1.5.0/text",
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    for case in cases():
        if str(case) in CASES:
            case.unpack(home)
    monkeypatch.setenv("HOME", str(home))
    for name in ("XDG_DATA_HOME", "XDG_CACHE_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "PI_CODING_AGENT_DIR"):
        monkeypatch.delenv(name, raising=False)
    return home


@pytest.fixture
def live(tmp_path: Path, home: Path) -> Iterator[LiveServer]:
    store = MachineStore(str(tmp_path / "sessions"), Histories())
    with LiveServer(tmp_path, store).serving_now() as serving:
        yield serving


@pytest.fixture
def cli_usage(home: Path) -> Any:
    """What `harness usage --json` says of the stored sessions."""
    del home

    def ask(by: str) -> Any:
        words = [sys.executable, "-m", "harness", "usage", "--json", "--by", by]
        return json.loads(subprocess.run(words, capture_output=True, check=True).stdout)

    return ask


def sums(home: Path) -> dict[str, str]:
    stores = [path for path in home.rglob("*") if path.is_file() and ".cache" not in path.parts]
    return {str(path): sha256(path.read_bytes()).hexdigest() for path in stores}


def until(ask: Any, is_right: Any) -> Any:
    deadline_s = time.monotonic() + TIMEOUT_S
    while not is_right(answer := ask()):
        assert time.monotonic() < deadline_s, answer
        time.sleep(0.02)
    return answer


def ids(http: httpx.Client, **asked: str) -> list[str]:
    return [one["id"] for one in http.get("/api/sessions", params=asked).json()["sessions"]]


def transcript(home: Path) -> Path:
    return next(home.rglob(f"{CLAUDE}.jsonl"))


def test_they_are_listed_beside_ours_and_in_the_inbox_with_whose_history_it_is(live: LiveServer) -> None:
    own = live.create(model=live.script("hello"), prompt="ours")["id"]
    with live.http() as http:
        listed = http.get("/api/sessions").json()
        found = {one["id"]: one["history"] for one in listed["sessions"]}
        assert found[own] == ""
        assert found[NAME] == "Claude Code"
        assert {name.split(":")[0] for name in found if ":" in name} == {
            "claude",
            "codex",
            "gemini",
            "goose",
            "pi",
        }
        assert listed["total"] == len(found)
        rows = until(
            lambda: {row["id"]: row for row in http.get("/api/inbox").json()["rows"]},
            lambda rows: NAME in rows,
        )
        assert (rows[NAME]["history"], rows[NAME]["state"]) == ("Claude Code", "succeeded")
        assert rows[NAME]["can"] == dict.fromkeys(("submit", "steer", "answer", "cancel"), False)


def test_filters_mean_what_they_mean_in_the_command(live: LiveServer) -> None:
    with live.http() as http:
        assert ids(http, agent="claude") == [NAME]
        assert NAME in ids(http, project="/workspace")
        assert ids(http, project="/nowhere") == []
        assert ids(http, model="opus-4-8") == [NAME]
        assert NAME in ids(http, outcome="completed")
        assert NAME not in ids(http, outcome="failed")
        assert ids(http, tag="x") == ids(http, live="true") == []
        assert ids(http, since="2030-01-01") == []
        assert NAME in ids(http, until="2030-01-01")
        assert NAME in ids(http, since="0")
        for wrong in ("outcome=odd", "agent=odd", "since=odd", "live=odd"):
            assert http.get(f"/api/sessions?{wrong}").status_code == 400


def test_a_search_shows_where_and_how_to_continue(live: LiveServer) -> None:
    with live.http() as http:
        [found] = until(  # what was not read yet is not found
            lambda: http.get("/api/sessions", params={"query": "look", "agent": "claude"}).json()["sessions"],
            lambda sessions: sessions != [],
        )
        assert found["id"] == NAME
        assert "Let me look" in found["passage"]["text"]
        assert found["passage"]["resume"] == f"harness resume {NAME}"
        [ran] = http.get("/api/sessions", params={"command": "echo hello", "agent": "claude"}).json()[
            "sessions"
        ]
        assert (ran["passage"]["how"], ran["passage"]["text"]) == ("ran", "echo hello; pwd")
        assert ids(http, commit="0123456789") == ids(http, query="nobodysaidthis") == []


def test_ours_have_passages_where_they_are_asked_for(live: LiveServer) -> None:
    own = live.create(model=live.script("a particular answer"), prompt="ours")["id"]
    with live.http() as http:
        until(lambda: ids(http, query="particular"), lambda found: found == [own])
        [found] = http.get("/api/sessions?query=particular&passages=true").json()["sessions"]
        assert found["passage"]["text"] == "a particular answer"
        assert found["passage"]["resume"] == f"harness resume {own}"


def test_any_of_them_is_read_and_none_is_changed(live: LiveServer, home: Path) -> None:
    with live.http() as http:
        names = [name for name in ids(http) if ":" in name]
        before = sums(home)
        for name in names:
            state = http.get(f"/api/sessions/{name}/state").json()["state"]
            assert next(message["role"] for message in state["messages"]) == "user", name
            assert state["capabilities"]["submit"] is False
            for part in ("timeline", "runs", "usage", "changes", "events?follow=false", "export?level=talk"):
                assert http.get(f"/api/sessions/{name}/{part}").status_code == 200, (name, part)
        call = http.get(f"/api/sessions/{NAME}/state").json()["state"]["messages"][1]["parts"][1]["callId"]
        assert "hello" in http.get(f"/api/sessions/{NAME}/calls/{call}").json()["output"]
        assert sums(home) == before


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PATCH", "", {"title": "mine"}),
        ("DELETE", "", None),
        ("POST", "/commands", {"commands": [{"type": "submit", "prompt": "go"}]}),
        ("POST", "/commands", {"commands": [{"type": "rename", "title": "go"}]}),
        ("POST", "/revert", {}),
        ("POST", "/commit", {"paths": [], "message": "x", "expectHead": "x"}),
    ],
)
def test_nothing_can_be_done_to_one(
    live: LiveServer, home: Path, method: str, path: str, body: dict[str, Any] | None
) -> None:
    with live.http() as http:
        before = sums(home)
        answer = http.request(method, f"/api/sessions/{NAME}{path}", json=body)
        assert answer.status_code == 400, answer.text
        assert answer.json()["error"]["hint"]
        assert sums(home) == before


@pytest.mark.parametrize(
    "name",
    [
        "claude:",
        ":x",
        "odd:x",
        "claude:..",
        "claude:%2e%2e%2fx",
        "claude:%00",
        "a:b:c",
        "claude:" + "x" * 300,
        "claude:dcf6af37",
    ],
)
def test_a_name_leads_to_no_file(live: LiveServer, name: str) -> None:
    with live.http() as http:
        for part in ("", "/state", "/changes", "/export", "/hand-over?to=native"):
            assert http.get(f"/api/sessions/{name}{part}").status_code == 404
        assert http.post(f"/api/sessions/{name}/keep", json={}).status_code in (404, 405)
        created = http.post("/api/sessions", json={"continues": name, "prompt": "x"})
        assert created.status_code in (400, 404)


def test_what_agents_have_used_themselves_is_on_the_bill(live: LiveServer, cli_usage: Any) -> None:
    """As `harness usage` counts it, however it is grouped; a copy of a session adds nothing."""
    with live.http() as http:

        def bill(**asked: str) -> dict[str, Any]:
            answer: dict[str, Any] = http.get("/api/usage", params=asked).json()
            assert answer["unread_sessions"] == 0
            return answer

        for by in ("agent", "day", "model", "project", "session"):
            expected = cli_usage(by)
            found = bill(by=by)
            assert found["total"] == expected["total"]
            if by != "session":
                assert found["rows"] == expected["rows"]
        assert expected["total"]["sessions"] >= len(CASES)
        named = {row["session"]: row["input"] for row in found["rows"]}
        assert NAME in named
        split = bill(by="day", split="agent")
        assert split["total"] == expected["total"]
        assert sum(row["input"] for row in split["rows"]) == expected["total"]["input"]
        only = bill(by="model", agent="claude")["total"]
        (claude,) = [row for row in bill(by="agent")["rows"] if row["agent"] == "claude"]
        assert {**claude, "agent": "claude"} == {**only, "agent": "claude"}
        (project,) = bill(by="project", agent="claude")["rows"]
        of_project = bill(by="agent", project=project["project"], agent="claude")
        assert of_project["total"]["input"] == claude["input"]
        assert bill(by="agent", project="/nowhere")["rows"] == []
        assert http.post(f"/api/sessions/{NAME}/keep", json={}).status_code in (200, 201)
        assert bill(by="agent")["total"] == expected["total"]


def test_what_its_agent_writes_is_followed(live: LiveServer, home: Path) -> None:
    seen: list[str] = []

    def follow() -> None:
        with live.http() as http, http.stream("GET", f"/api/sessions/{NAME}/events?view=events") as stream:
            for line in stream.iter_lines():
                seen.append(line)
                if "the last word" in line:
                    return

    reading = threading.Thread(target=follow, daemon=True)
    reading.start()
    until(lambda: seen, lambda lines: any("All done" in line for line in lines))
    registry = home / ".claude" / "sessions"
    registry.mkdir(parents=True)
    start = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
    entry = {"pid": os.getpid(), "sessionId": CLAUDE, "procStart": start, "status": "waiting"}
    (registry / "1.json").write_text(json.dumps(entry))
    with live.http() as http:
        [live] = until(
            lambda: http.get("/api/sessions?live=true").json()["sessions"], lambda found: len(found) == 1
        )
        assert (live["id"], live["activity"], live["waits"]) == (NAME, "waiting", True)
        refused = http.post("/api/sessions", json={"continues": NAME, "prompt": "and now?"})
        assert refused.status_code == 409
        assert "open" in refused.json()["error"]["message"]
        time.sleep(0.6)  # so long a session counts as open or not
        _say(transcript(home), "user", "and now?")
        _say(transcript(home), "assistant", "the last word")
        reading.join(TIMEOUT_S)
        state = until(
            lambda: http.get(f"/api/sessions/{NAME}/state").json()["state"],
            lambda state: len(state["messages"]) == 4,
        )
        assert state["messages"][-1]["content"] == "the last word"


def _say(path: Path, role: str, text: str) -> None:
    message: dict[str, Any] = {"role": role, "content": text}
    if role == "assistant":
        message |= {"id": "msg_1", "model": "claude-opus-4-8", "content": [{"type": "text", "text": text}]}
        message |= {"stop_reason": "end_turn", "usage": {"input_tokens": 1, "output_tokens": 1}}
    line = {"type": role, "uuid": role, "parentUuid": None, "sessionId": CLAUDE, "message": message}
    line |= {"timestamp": "2026-11-16T11:00:00.000Z", "cwd": "/workspace/shop", "version": "2.1.197"}
    with path.open("a") as file:
        file.write(json.dumps(line) + "\n")


def test_a_rewritten_one_is_read_again(live: LiveServer, home: Path) -> None:
    with live.http() as http:
        assert len(http.get(f"/api/sessions/{NAME}/state").json()["state"]["messages"]) == 2
        lines = transcript(home).read_text().splitlines(keepends=True)
        _say(transcript(home), "user", "in between")
        until(
            lambda: http.get(f"/api/sessions/{NAME}/state").json()["state"]["messages"],
            lambda messages: "in between" in json.dumps(messages),
        )
        transcript(home).write_text("".join(lines[: len(lines) // 2]))
        until(
            lambda: http.get(f"/api/sessions/{NAME}/state").json()["state"]["messages"],
            lambda messages: "in between" not in json.dumps(messages),
        )


def test_it_is_copied_once_and_then_listed_as_ours(live: LiveServer) -> None:
    with live.http() as http:
        first = http.post(f"/api/sessions/{NAME}/keep", json={})
        assert (first.status_code, first.json()["status"]) == (201, "copied")
        again = http.post(f"/api/sessions/{NAME}/keep", json={}).json()
        assert again == {"id": first.json()["id"], "status": "current"}
        assert ids(http, agent="claude") == [first.json()["id"]]
        assert http.post(f"/api/sessions/{again['id']}/keep", json={}).status_code == 400


def test_another_agent_continues_it_with_all_messages(live: LiveServer) -> None:
    with live.http() as http:
        offer = http.get(f"/api/sessions/{NAME}/hand-over?to=native").json()
        assert (offer["form"], offer["messages"], offer["calls"]) == ("native", 3, 1)
        assert offer["lost"]
        assert http.get(f"/api/sessions/{NAME}/hand-over").json() == offer
        assert http.get(f"/api/sessions/{NAME}/hand-over?to=odd").status_code == 400
        asked = {
            "continues": NAME,
            "agent": "native",
            "model": live.script("I go on"),
            "cwd": str(live.folder),
        }
        made = http.post("/api/sessions", json={**asked, "prompt": "and now?"})
        assert made.status_code == 201, made.text
        state = until(
            lambda: http.get(f"/api/sessions/{made.json()['id']}/state").json()["state"],
            lambda state: state["status"] == "idle" and len(state["messages"]) == 4,
        )
        assert [message["content"] for message in state["messages"]][-2:] == ["and now?", "I go on"]
        grown = http.post(f"/api/sessions/{NAME}/keep", json={}).json()
        assert grown["status"] == "current"


def test_a_copy_that_was_continued_stays_when_the_session_has_grown(live: LiveServer, home: Path) -> None:
    with live.http() as http:
        first = http.post(f"/api/sessions/{NAME}/keep", json={}).json()["id"]
        asked = {"continues": first, "agent": "native", "model": live.script("x"), "cwd": str(live.folder)}
        assert http.post("/api/sessions", json=asked).status_code == 201
        _say(transcript(home), "user", "one more")
        second = http.post(f"/api/sessions/{NAME}/keep", json={}).json()
        assert second["status"] == "copied"
        assert second["id"] != first
        assert http.get(f"/api/sessions/{first}/state").status_code == 200
        assert http.post(f"/api/sessions/{NAME}/keep", json={}).json() == {**second, "status": "current"}


@pytest.mark.parametrize(
    ("setting", "remote", "is_shown"),
    [("local", [], True), ("local", ["box"], False), ("always", ["box"], True), ("never", [], False)],
)
def test_other_machines_see_them_only_where_that_is_set(
    tmp_path: Path, setting: str, remote: list[str], *, is_shown: bool
) -> None:
    settings = config.load(str(tmp_path), {"HARNESS_HISTORIES_SERVE": setting})
    arguments = argparse.Namespace(allow_remote=remote, public_url="")
    store = _with_histories(FileStore(str(tmp_path)), arguments, settings)
    assert isinstance(store, MachineStore) is is_shown
    shared = MemoryStore()
    assert _with_histories(shared, arguments, settings) is shared


def test_a_server_without_histories_shows_none(tmp_path: Path, home: Path) -> None:
    with LiveServer(tmp_path).serving_now() as live, live.http() as http:
        assert ids(http) == []
        assert http.get(f"/api/sessions/{NAME}/state").status_code == 404
        assert http.get("/api/histories").json() == {"histories": []}
        assert http.get("/api/inbox").json()["rows"] == []


def test_what_an_agent_is_about_to_delete_is_copied_where_the_settings_show_so(
    tmp_path: Path, home: Path
) -> None:
    old_s = time.time() - 28 * 86_400
    os.utime(transcript(home), (old_s, old_s))
    store = FileStore(str(tmp_path / "sessions"))
    texts: list[str] = []
    keeper = HistoryKeeper(store, texts.append)
    until(lambda: texts, bool)
    keeper.stop()
    assert texts == ["copied 1 of 1 sessions that their agents will delete"]
    [copy] = store.find(Query())
    assert copy.agent_session_id == CLAUDE


def test_its_own_agent_continues_it_with_its_own_session(live: LiveServer) -> None:
    with live.http() as http:
        made = http.post("/api/sessions", json={"continues": NAME, "cwd": str(live.folder)})
        assert made.status_code == 201, made.text
        assert made.json()["agentName"] == "claude"
        facts = folded(live.store, made.json()["id"]).facts
        assert facts.agent_sessions == {"claude": CLAUDE}
