"""The data of this machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial

from harness.agents.registry import load
from harness.clients.changes.undo import UndoAnswer, UndoCall, undo_of
from harness.clients.conversations.backend import Setup
from harness.clients.inbox.local_sessions import LocalSessions
from harness.clients.sessions.histories import HistorySessions
from harness.clients.sessions.model_calls import SentCalls, call_table, sheet
from harness.clients.sessions.usage import UsageQuestion, make_bill
from harness.clients.workspaces.folders import FileSearch
from harness.contracts.request import OWN_AGENT
from harness.fleet.fleet import STORE_VARIABLE
from harness.formatting.escapes import revealed
from harness.log.stores.files import FileStore
from harness.tui.fleet_data import LocalFleets
from harness.tui.source_data import SourceData
from harness.usage.prices import Prices
from harness.usage.stored_accounts import StoredAccounts, day_of
from harness.usage.table import table

_MOST_OFFERED = 5


def _no_lines(_number: int) -> Sequence[str]:
    return ()


class FileScreenData(SourceData):
    """A `ScreenData` of a folder of logs."""

    def __init__(self, store: FileStore, prices: Prices, default: Callable[[], Setup]) -> None:
        super().__init__(LocalSessions(store, prices, default))
        self._store = store
        self._prices = prices
        self._files = FileSearch()

    def undo(self, session: str, expect: str | None = None, *, is_redo: bool = False) -> UndoAnswer:
        return undo_of(self._store, session, UndoCall(expect=expect), is_redo=is_redo)

    def fleets(self) -> LocalFleets:
        return LocalFleets(os.environ.get(STORE_VARIABLE, ""))

    def agents(self) -> Sequence[str]:
        from harness.clients.installed_agents import everything

        return [agent.agent.name for agent in everything() if agent.is_available]

    def sandbox(self) -> tuple[str, str]:
        from harness.clients.installed_agents import sandbox_of

        return sandbox_of(load(OWN_AGENT))

    def files(self, folder: str, beginning: str) -> Sequence[str]:
        return self._files.find(folder, beginning, _MOST_OFFERED)

    def model_calls(self, session: str) -> Sequence[str]:
        table = call_table(self._store, session)
        calls = SentCalls(self._store, session) if table.rows else None
        lines_of = partial(calls.lines, only_new=True) if calls is not None else _no_lines
        return [revealed(line) for line in sheet(table, lines_of)]

    def usage(self) -> str:
        histories = HistorySessions()
        histories.read_all(lambda _text: None)
        ledger = StoredAccounts.of(self._store).ledger(leaves_out=histories.has_original)
        bill = make_bill(UsageQuestion("agent"), ledger, histories, self._prices, day_of)
        rows = [(row.key, row.amount) for row in bill.rows]
        return table("agent", rows, bill.total) if rows else "No usage was recorded."
