"""Limits over the server: shown, set, and a conversation that is asked and answered there."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from live_server import TIMEOUT_S, LiveServer, Watcher, is_done, run, waits

USED = {"type": "usage", "inputTokens": 1_000_000, "outputTokens": 0}
LIST = {"type": "tool_call", "name": "list", "input": {}}


@pytest.fixture
def paid(live: LiveServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A model whose calls cost a dollar each."""
    answers = [[LIST, USED], [{"type": "text", "content": "Done."}, USED]]
    script = {"goes_by": "conversation", "responses": [{"events": one} for one in answers]}
    (live.folder / "paid.json").write_text(json.dumps(script))
    model = f"scripted/{live.folder / 'paid.json'}"
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    path = tmp_path / "config/harness/config.toml"
    path.parent.mkdir(parents=True)
    path.write_text(f'# mine\n[prices."{model}"]\ninput = 1.0\noutput = 1.0\n')
    return model


def put(live: LiveServer, *changes: dict[str, Any]) -> Any:
    with live.http() as http:
        return http.put("/api/settings/budget", json={"changes": list(changes)})


def day(usd: float | None, **more: Any) -> dict[str, Any]:
    return {"period": "day", "limitUsd": usd, **more}


def test_limits_are_set_and_shown_and_wrong_ones_change_nothing(
    live: LiveServer, paid: str, tmp_path: Path
) -> None:
    file = tmp_path / "config/harness/config.toml"
    own = put(live, day(20), {"period": "month", "limitUsd": 300}, day(5, isEachProject=True)).json()["own"]
    assert (own["dayUsd"], own["monthUsd"], own["projectDayUsd"], own["projectMonthUsd"]) == (
        20,
        300,
        5,
        None,
    )
    folder = str(live.folder)
    shown = put(live, day(7, project=folder)).json()
    assert shown["own"]["projects"] == [{"folder": folder, "dayUsd": 7.0, "monthUsd": None}]
    limits = [(one["period"], one["project"], one["limitUsd"], one["isOwn"]) for one in shown["limits"]]
    assert limits == [("day", "", 20.0, False), ("month", "", 300.0, False), ("day", folder, 7.0, True)]
    before = file.read_text()
    assert before.startswith("# mine\n")
    for wrong in (
        day(0),
        day(-1),
        day(5, project="relative"),
        day(5, project="/no/such/folder"),
        {"period": "year"},
    ):
        assert put(live, wrong).status_code == 400, wrong
    assert put(live, day(5, project=folder, isEachProject=True)).status_code == 400
    assert file.read_text() == before
    assert put(live, day(None, project=folder)).json()["own"]["projects"] in (
        [],
        [{"folder": folder, "dayUsd": None, "monthUsd": None}],
    )


def _row(http: httpx.Client, log_id: str) -> dict[str, Any] | None:
    return next((one for one in http.get("/api/inbox").json()["rows"] if one["id"] == log_id), None)


def test_a_conversation_asks_at_the_limit_and_the_inbox_and_the_bill_show_so(
    live: LiveServer, paid: str
) -> None:
    put(live, day(1))

    async def work() -> None:
        session = live.create(model=paid, permissionMode="fullAuto")
        async with live.connect(session["id"]) as socket:
            client = Watcher(socket)
            await client.command("submit", prompt="go")
            state = await client.until(waits)
            [relay] = [one for one in state["relays"] if one["status"] == "pending"]
            assert relay["question"] == "Today's limit of $1.00 is reached ($1.00 spent). Continue?"
            assert relay["options"] == ["Continue for $0.25 more", "Stop"]
            with live.http() as http:
                deadline_s = time.monotonic() + TIMEOUT_S  # rows follow their logs
                while (_row(http, session["id"]) or {}).get("state") != "asks":
                    assert time.monotonic() < deadline_s
            await client.command("answer", relayId=relay["id"], answer="Continue for $0.25 more")
            state = await client.until(is_done)
            assert state["messages"][-1]["content"].endswith("Done.")

    run(work())
    with live.http() as http:
        budget = http.get("/api/settings/budget").json()
        assert [(one["spentUsd"], one["isReached"]) for one in budget["limits"]] == [(2.0, True)]
        bill = http.get("/api/usage").json()
        assert bill["outcomes"] == [{"agent": "native", "runs": 1, "outcomes": {"completed": 1}}]
        assert http.get("/api/inbox").json()["today"]["limitUsd"] == 1.0


def test_a_conversation_that_is_not_given_more_ends(live: LiveServer, paid: str) -> None:
    put(live, day(1))

    async def work() -> None:
        session = live.create(model=paid, permissionMode="fullAuto")
        async with live.connect(session["id"]) as socket:
            client = Watcher(socket)
            await client.command("submit", prompt="go")
            state = await client.until(waits)
            await client.command("answer", relayId=state["relays"][-1]["id"], answer="Stop")
            await client.until(is_done)

    run(work())
    with live.http() as http:
        [outcomes] = http.get("/api/usage").json()["outcomes"]
        assert outcomes["outcomes"] == {"limit_exceeded": 1}
