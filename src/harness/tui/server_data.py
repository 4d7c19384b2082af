"""The data of a server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

import msgspec

from harness.clients.changes.undo import UndoAnswer
from harness.clients.inbox.served_sessions import ServedSessions
from harness.clients.server_address import ServerCalls
from harness.clients.sessions.model_calls import CallTable, sheet
from harness.formatting.escapes import revealed
from harness.tui.fleet_data import RemoteFleets
from harness.tui.source_data import SourceData
from harness.usage.ledger import Amount
from harness.usage.table import table


class ServerScreenData(SourceData):
    """A `ScreenData` of a server."""

    def __init__(self, url: str, token: str) -> None:
        super().__init__(ServedSessions(url, token))
        self._calls = ServerCalls(url, token)

    def undo(self, session: str, expect: str | None = None, *, is_redo: bool = False) -> UndoAnswer:
        verb = "redo" if is_redo else "undo"
        path = f"/api/sessions/{quote(session, safe='')}/{verb}"
        return msgspec.convert(
            self._calls.post(path, {} if expect is None else {"expect": expect}), UndoAnswer
        )

    def fleets(self) -> RemoteFleets:
        return RemoteFleets(self._calls)

    def agents(self) -> Sequence[str]:
        return [agent["name"] for agent in self._calls.get("/api/agents")["agents"] if agent["usable"]]

    def sandbox(self) -> tuple[str, str]:
        sandboxes = [
            agent["sandbox"] for agent in self._calls.get("/api/agents")["agents"] if agent.get("sandbox")
        ]
        if not sandboxes:
            return "", "this server does not say what it can do"
        best = next((agent for agent in sandboxes if agent["by"]), sandboxes[0])
        return best["by"], best["refusal"]

    def files(self, folder: str, beginning: str) -> Sequence[str]:
        """None: they are on the server's machine."""
        del folder, beginning
        return ()

    def model_calls(self, session: str) -> Sequence[str]:
        path = f"/api/sessions/{quote(session, safe='')}/requests"
        table = msgspec.convert(self._calls.get(path), CallTable)
        lines_of = lambda number: self._calls.get(f"{path}/{number}?new=true")["lines"]  # noqa: E731
        return [revealed(line) for line in sheet(table, lines_of)]

    def usage(self) -> str:
        bill = self._calls.get("/api/usage?by=agent")
        rows = [(str(row["agent"] or ""), _amount(row)) for row in bill["rows"]]
        return table("agent", rows, _amount(bill["total"])) if rows else "No usage was recorded."


def _amount(data: dict[str, Any]) -> Amount:
    return msgspec.convert({name: data.get(name) for name in Amount.__struct_fields__}, Amount)
