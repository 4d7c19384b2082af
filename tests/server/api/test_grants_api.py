"""`/api/grants`: what is always allowed, in one list over all sessions."""

from __future__ import annotations

import time

import httpx

from live_server import LiveServer, Watcher, run
from test_approvals import bash, next_question


def _first_grants(http: httpx.Client) -> list[dict[str, str]]:
    """The row of a session follows its log."""
    while not (grants := http.get("/api/grants").json()["grants"]):
        time.sleep(0.02)
    return list(grants)


def test_what_is_always_allowed_is_listed_for_all_sessions_until_it_is_revoked(live: LiveServer) -> None:
    async def work() -> None:
        session = live.create(model=live.script([bash("/bin/echo one", "a")], [bash("ls", "b")], "Done."))
        async with live.connect(session["id"]) as socket:
            client, http = Watcher(socket), live.http()
            await client.command("submit", prompt="go")
            assert http.get("/api/grants").json() == {"grants": []}
            relay = await next_question(client, 1)
            await client.command("approve", relayId=relay["id"], always=True)
            await client.until(lambda state: state["grants"])
            (grant,) = _first_grants(http)
            assert (grant["session"], grant["label"]) == (session["id"], "exactly: /bin/echo one")
            assert grant["agentName"] == "native"
            revoke = {"commands": [{"type": "revoke", "grantId": grant["id"]}]}
            answer = http.post(f"/api/sessions/{session['id']}/commands", json=revoke)
            assert answer.status_code == 202
            await client.until(lambda state: not state["grants"])
            assert http.get("/api/grants").json() == {"grants": []}
            http.close()

    run(work())


def test_they_are_for_those_who_are_let_in(live: LiveServer) -> None:
    assert httpx.get(f"{live.url}/api/grants").status_code == 401
