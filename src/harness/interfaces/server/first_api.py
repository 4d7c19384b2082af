"""`/api/histories` and `/api/demonstration`: for a person who is here for the first time."""

from __future__ import annotations

import asyncio
import os

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from harness.config import data_directory
from harness.interfaces.cli.history_sessions import HistorySessions
from harness.interfaces.server.machine_store import MachineStore
from harness.interfaces.server.responses import Handler, json_response, with_errors
from harness.interfaces.server.schemas import Demonstration, StoredHistories, StoredHistory
from harness.log.private_files import make_private_directory
from harness.log.store import Store
from harness.sources.models.registry import DEMO

_SCRATCH = "demonstration"
_FILE = "hello.txt"
_PROMPT = "Show me what you can do"


class FirstApi:
    def __init__(self, store: Store) -> None:
        self._store = store

    def routes(self) -> list[Route]:
        table: list[tuple[str, str, Handler]] = [
            ("GET", "/api/histories", self._histories),
            ("POST", "/api/demonstration", self._demonstrate),
        ]
        return [Route(path, with_errors(handler), methods=[method]) for method, path, handler in table]

    async def _histories(self, request: Request) -> Response:
        del request
        if not isinstance(self._store, MachineStore):
            return json_response(StoredHistories([]))
        return json_response(await asyncio.to_thread(self._store.histories.ask, _stored))

    async def _demonstrate(self, request: Request) -> Response:
        """A folder in which nothing can be spoiled; the conversation itself is begun as any other."""
        del request
        folder = await asyncio.to_thread(_scratch_folder)
        return json_response(Demonstration(folder=folder, model=DEMO, prompt=_PROMPT), 201)


def _stored(found: HistorySessions) -> StoredHistories:
    """What agents have stored of their sessions themselves. Nothing of it is copied."""
    from harness.sources.imports.catalogue_filter import SessionFilter
    from harness.sources.imports.registry import load_all
    from harness.sources.registry import load

    counts = {
        history.agent: sum(not one.is_child for one in found.sessions(SessionFilter(agent=history.agent)))
        for history in load_all()
    }
    stored = [StoredHistory(name, load(name).title or name, count) for name, count in counts.items() if count]
    return StoredHistories(sorted(stored, key=lambda one: -one.sessions))


def _scratch_folder() -> str:
    folder = os.path.join(data_directory(), _SCRATCH)
    make_private_directory(folder)
    path = os.path.join(folder, _FILE)
    if not os.path.lexists(path):
        with open(path, "w", encoding="utf-8") as file:
            file.write("A file for the demonstration.\n")
    return folder
