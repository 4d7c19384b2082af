"""`/api/fleets` and fleets over `/ws/inbox`: lists, cases, comparisons, actions, and what changes while it changes."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect

import postgres_server
from harness.events import FleetEnded
from harness.fleet.engines.scheduler import Scheduler
from harness.fleet.fleet import Fleet, create_fleet, fleets_directory
from harness.fleet.overview import in_order
from harness.fleet.records.attempt import CaseProgress
from harness.log.stores.open_store import open_store
from harness.server.api.openapi import ENDPOINTS
from live_server import TIMEOUT_S, LiveServer, run
from small_fleet import FAILS, OUTAGE, SOLVES, InProcess, Shown, plan, task, variant
from test_rest import Described


@pytest.fixture
def live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LiveServer]:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    with LiveServer(tmp_path).serving_now() as serving:
        yield serving


def made(live: LiveServer, *scripts: tuple[str, str], name: str = "small", **fields: Any) -> Fleet:
    """A fleet of two tasks of this server's data directory, its runs in the server's store."""
    variants = [variant(live.folder, script, of) for of, script in scripts or (("good", SOLVES),)]
    tasks = fields.pop("tasks", (task("one"), task("two")))
    return create_fleet(plan(live.folder, variants, tasks, **fields), name)


def carried_out(fleet: Fleet, **options: Any) -> FleetEnded:
    scheduler = Scheduler(fleet, InProcess(fleet), 2, fleet.open_log(), Shown().append, **options)
    try:
        return scheduler.run()
    finally:
        scheduler.close()


def get(live: LiveServer, path: str, status: int = 200) -> Any:
    with live.http() as http:
        answer = http.get(path)
        assert answer.status_code == status, answer.text
        return answer.json()


def test_a_fleet_is_listed_with_its_counts_money_and_state(live: LiveServer) -> None:
    assert get(live, "/api/fleets") == {"fleets": []}
    fleet = made(live, ("good", SOLVES), ("bad", FAILS), repeats=2, budget_usd=5.0)
    (row,) = get(live, "/api/fleets")["fleets"]
    assert (row["state"], row["cases"], row["waiting"], row["startedMs"]) == ("planned", 8, 8, None)
    carried_out(fleet)
    (row,) = get(live, "/api/fleets")["fleets"]
    assert (row["state"], row["passed"], row["failed"], row["waiting"]) == ("completed", 4, 4, 0)
    assert (row["budgetUsd"], row["leftS"], row["isAttended"], row["problem"]) == (5.0, None, False, "")
    assert 0 < row["startedMs"] <= row["updatedMs"]


def test_every_case_has_its_state_session_and_the_report_beside_it(live: LiveServer) -> None:
    carried_out(made(live, ("good", SOLVES), ("bad", FAILS), repeats=2))
    view = get(live, "/api/fleets/small")
    assert (view["tasks"], view["repeats"]) == (["one", "two"], 2)
    assert [one["name"] for one in view["variants"]] == ["good", "bad"]
    places = [(one["task"], one["variant"], one["repeat"]) for one in view["cases"]]
    assert places == [(t, v, r) for t in ("one", "two") for v in ("good", "bad") for r in (0, 1)]
    assert [one["state"] for one in view["cases"][:4]] == ["passed", "passed", "failed", "failed"]
    good, bad = view["report"]
    assert (good["pass_rate"], bad["pass_rate"]) == (1.0, 0.0)
    assert 0 < good["low"] < good["high"] == 1.0
    session = view["cases"][0]["session"]
    assert get(live, f"/api/sessions/{session}")["tags"][0] == "fleet=small"
    details = get(live, f"/api/fleets/small/cases/{view['cases'][0]['id']}")
    assert details["hasSession"]
    assert "+42" in details["patch"]
    assert details["attempts"][-1]["checkExit"] == 0
    assert details["attempts"][-1]["tokens"] == {"input": 2000, "output": 110}


def test_all_cases_of_a_fleet_are_one_project_of_the_inbox(live: LiveServer) -> None:
    carried_out(made(live))
    with live.http() as http:
        rows = http.get("/api/inbox").json()["rows"]
    assert {one["project"]["name"] for one in rows} == {"fleet small"}
    assert {one["project"]["root"] for one in rows} == {f"{fleets_directory()}/small"}


def test_variants_and_runs_are_compared(live: LiveServer) -> None:
    carried_out(made(live, ("good", SOLVES), ("bad", FAILS)))
    found = get(live, "/api/fleets/small/compare?a=bad&b=good")
    assert found["verdict"] == "no clear winner"
    assert (found["comparison"]["difference"], found["comparison"]["tasks_needed"]) == (1.0, 4)
    good, bad, *_ = (one["id"] for one in get(live, "/api/fleets/small")["cases"])
    parts = get(live, f"/api/fleets/small/diff?a={good}&b={bad}")
    assert parts["firstDifference"] == 0
    assert parts["steps"][0]["a"]["text"].endswith("answer.txt")
    assert parts["steps"][0]["b"] is None
    get(live, "/api/fleets/small/compare?a=bad&b=nobody", 400)
    get(live, f"/api/fleets/small/diff?a={good}&b=", 400)


def test_the_report_and_the_cases_are_files_that_a_browser_saves(live: LiveServer) -> None:
    carried_out(made(live))
    with live.http() as http:
        page = http.get("/api/fleets/small/report.html")
        table = http.get("/api/fleets/small/cases.csv")
    assert page.headers["content-disposition"] == 'attachment; filename="small.html"'
    assert "<html" in page.text
    assert table.text.startswith("fleet,case,task,")
    assert table.text.count("\n") == 3


@pytest.mark.parametrize("name", ["nobody", "..", "%2e%2e", "..%2f..%2fetc", "a%00b", "x" * 300, "%F0%9F"])
def test_a_name_is_never_a_path(live: LiveServer, name: str, tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text("{}")
    for path in (f"/api/fleets/{name}", f"/api/fleets/{name}/compare", f"/api/fleets/{name}/cases/x"):
        with live.http() as http:
            assert http.get(path).status_code in (400, 404), path


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("plan.json", "{"),
        ("plan.json", '{"name": "small"}'),
        ("plan.json", "[" * 100_000),
        ("results/000000000000.json", "{"),
        ("faults/000000000000.1.json", '{"case": 7}'),
    ],
)
def test_a_broken_fleet_is_one_row_with_its_reason(live: LiveServer, place: str, text: str) -> None:
    made(live)
    carried_out(made(live, name="whole"))
    (Path(fleets_directory()) / "small" / place).write_text(text)
    rows = {row["name"]: row for row in get(live, "/api/fleets")["fleets"]}
    assert rows["whole"]["state"] == "completed"
    assert rows["small"]["state"] == "broken"
    assert "read" in rows["small"]["problem"]
    assert "read" in get(live, "/api/fleets/small", 409)["error"]["message"]


def test_the_cases_of_a_fleet_whose_log_is_broken_are_still_shown(live: LiveServer) -> None:
    carried_out(made(live))
    log = Path(fleets_directory()) / "small" / "fleet.ndjson"
    log.write_bytes(b"\xff\x00 no events\n" * 20)
    (row,) = get(live, "/api/fleets")["fleets"]
    assert (row["state"], row["passed"]) == ("completed", 2)
    assert len(get(live, "/api/fleets/small")["cases"]) == 2


def test_what_runs_shows_what_it_does_and_how_long_it_will_take(live: LiveServer) -> None:
    fleet = made(live, tasks=[task(str(number)) for number in range(4)])
    first, second, *_ = in_order(fleet.plan)
    hub = fleet.open_log()
    try:
        InProcess(fleet).start(first)
        engine = InProcess(fleet)
        engine.start(first)
        engine.ended(0)
        done = fleet.records.result(first.id)
        assert done is not None
        claim = fleet.records.claim(second.id)
        assert claim is not None
        with claim:
            now_ms = time.time_ns() // 1_000_000
            fleet.records.note(CaseProgress(case=second.id, number=1, log_id=done.log_id, started_ms=now_ms))
            view = get(live, "/api/fleets/small")
    finally:
        hub.close()
    running = next(one for one in view["cases"] if one["state"] == "running")
    assert running["activity"].endswith("answer.txt")
    assert view["summary"]["isAttended"]
    assert view["summary"]["state"] == "running"
    assert view["summary"]["leftS"] > 0


def test_a_fleet_is_stopped_only_while_it_is_run(live: LiveServer) -> None:
    fleet = made(live)
    with live.http() as http:
        assert http.post("/api/fleets/small/stop", json={}).status_code == 409
        hub = fleet.open_log()
        try:
            answer = http.post("/api/fleets/small/stop", json={"now": True})
            assert http.post("/api/fleets/small/resume", json={}).status_code == 409
        finally:
            hub.close()
    assert answer.json()["state"] == "stopping"
    assert fleet.records.stop_requested() == "now"


def test_a_fleet_is_continued_by_a_process_of_its_own(live: LiveServer) -> None:
    made(live, ("good", SOLVES), ("broken", OUTAGE), retries=0)
    with live.http() as http:
        assert http.post("/api/fleets/small/resume", json={"budgetUsd": -1}).status_code == 400
        assert http.post("/api/fleets/small/retry", json={}).status_code == 409
        started = http.post("/api/fleets/small/resume", json={"budgetUsd": 9})
        assert started.status_code == 200, started.text
        row = until(live, "completed")
        assert (row["passed"], row["errors"]) == (2, 2)
        assert http.post("/api/fleets/small/resume", json={}).status_code == 409
        assert http.post("/api/fleets/small/retry", json={}).status_code == 200
        deadline_s = time.monotonic() + TIMEOUT_S
        while (attempts := _attempts(live)) != [1, 2, 1, 2] and time.monotonic() < deadline_s:
            time.sleep(0.1)
        until(live, "completed")
    assert attempts == [1, 2, 1, 2]


def _attempts(live: LiveServer) -> list[int]:
    return [one["attempts"] for one in get(live, "/api/fleets/small")["cases"]]


def until(live: LiveServer, state: str) -> Any:
    deadline_s = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline_s:
        (row,) = get(live, "/api/fleets")["fleets"]
        if row["state"] == state:
            return row
        time.sleep(0.1)
    raise AssertionError(row)


def test_a_fleet_that_cannot_be_started_shows_why(live: LiveServer) -> None:
    fleet = made(live)
    output = os.path.join(fleet.directory, "output")
    Path(output).write_text("not a folder")
    with live.http() as http:
        answer = http.post("/api/fleets/small/resume", json={})
    assert answer.status_code == 409
    assert output in answer.json()["error"]["message"]


class FleetClient:
    """What a page makes of the messages."""

    def __init__(self, socket: Any) -> None:
        self.socket = socket
        self.view: dict[str, Any] = {}
        self.list: list[dict[str, Any]] | None = None
        self.problem = ""
        self.sent = 0

    async def until(self, is_so: Any) -> None:
        while not is_so():
            message = json.loads(await asyncio.wait_for(self.socket.recv(), TIMEOUT_S))
            self.sent += message["type"] == "fleet"
            if message["type"] == "fleets":
                self.list = message["fleets"]
            elif message["type"] == "fleet" and "view" in message:
                self.view, self.problem = message["view"], ""
            elif message["type"] == "fleet" and "changed" in message:
                changed = message["changed"]
                cases = {one["id"]: one for one in changed["cases"]}
                self.view["cases"] = [cases.get(one["id"], one) for one in self.view["cases"]]
                self.view |= {
                    "summary": changed["summary"],
                    "report": changed.get("report", self.view["report"]),
                }
            elif message["type"] == "fleet":
                self.problem = message["problem"]


def test_a_client_that_looks_sees_the_fleet_change(live: LiveServer) -> None:
    made(live, ("good", SOLVES), ("bad", FAILS))

    async def follow() -> None:
        url = f"ws://{live.host}/ws/inbox"
        async with connect(url, additional_headers=live.bearer, max_size=None) as socket:
            client = FleetClient(socket)
            await socket.send(json.dumps({"type": "subscribeFleet", "fleet": "small"}))
            await socket.send(json.dumps({"type": "subscribeFleet"}))
            await client.until(lambda: client.view and client.list is not None)
            assert client.view["summary"]["waiting"] == 4
            with live.http() as http:
                started = await asyncio.to_thread(http.post, "/api/fleets/small/resume", json={})
            assert started.status_code == 200, started.text
            await client.until(lambda: client.view["summary"]["state"] == "completed")
            await client.until(lambda: [one["runs"] for one in client.view["report"]] == [2, 2])
            await client.until(lambda: client.list and client.list[0]["passed"] == 2)
            assert client.view == get(live, "/api/fleets/small")
            await socket.send(json.dumps({"type": "unsubscribeFleet", "fleet": "small"}))
            await socket.send(json.dumps({"type": "subscribeFleet", "fleet": "../small"}))
            await client.until(lambda: "no fleet" in client.problem)

    run(follow())


def test_fleets_of_a_database_are_followed_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from harness.clients.conversations.shared_backend import open_backend

    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    live = LiveServer(tmp_path, open_store(url := postgres_server.url()))
    live.fleets = url
    with live.serving_now(open_backend):
        variants = [variant(tmp_path, SOLVES, "good"), variant(tmp_path, FAILS, "bad")]
        create_fleet(plan(tmp_path, variants, sessions=url), "small", url).close()

        async def follow() -> None:
            place = f"ws://{live.host}/ws/inbox"
            async with connect(place, additional_headers=live.bearer, max_size=None) as socket:
                client = FleetClient(socket)
                await socket.send(json.dumps({"type": "subscribeFleet", "fleet": "small"}))
                await socket.send(json.dumps({"type": "subscribeFleet"}))
                await client.until(lambda: client.view and client.list is not None)
                with live.http() as http:
                    started = await asyncio.to_thread(http.post, "/api/fleets/small/resume", json={})
                assert started.status_code == 200, started.text
                await client.until(
                    lambda: [one["state"] for one in client.view["cases"]] == ["passed", "failed"]
                )
                await client.until(lambda: client.list and client.list[0]["state"] == "completed")

        run(follow())
        case = get(live, "/api/fleets/small")["cases"][0]
        assert get(live, f"/api/fleets/small/cases/{case['id']}")["hasSession"]


def test_a_client_cannot_follow_any_number_of_fleets(live: LiveServer) -> None:
    async def follow() -> None:
        url = f"ws://{live.host}/ws/inbox"
        async with connect(url, additional_headers=live.bearer, max_size=None) as socket:
            for number in range(20):
                await socket.send(json.dumps({"type": "subscribeFleet", "fleet": f"f{number}"}))
            while json.loads(await asyncio.wait_for(socket.recv(), TIMEOUT_S))["type"] != "error":
                pass

    run(follow())


def test_nothing_of_a_fleet_is_shown_without_access(live: LiveServer) -> None:
    made(live)
    for call in ENDPOINTS:
        if call.path.startswith("/api/fleets"):
            path = call.path.replace("{name}", "small").replace("{case}", "x")
            with live.http() as http:
                answer = http.request(call.method, path, headers={"Authorization": "Bearer wrong"}, json={})
            assert answer.status_code == 401, path


def test_every_answer_about_a_fleet_is_what_the_openapi_document_shows(live: LiveServer) -> None:
    carried_out(made(live, ("good", SOLVES), ("bad", FAILS)))
    a, b, *_ = (one["id"] for one in get(live, "/api/fleets/small")["cases"])
    of_compare, of_diff = {"a": "good", "b": "bad"}, {"a": a, "b": b}
    with live.http() as http:
        described = Described(http)
        for call in ENDPOINTS:
            if not call.path.startswith("/api/fleets"):
                continue
            path = call.path.replace("{name}", "small").replace("{case}", a)
            wanted = of_compare if path.endswith("compare") else of_diff
            if call.method == "get":
                answer = http.get(path, params=wanted)
                assert answer.status_code == 200, path
            else:
                answer = http.post(path, json={})
            described.check(call.method, call.path, answer)
            refused = http.request(call.method, path.replace("small", "nobody"), json={})
            described.check(call.method, call.path, refused)
