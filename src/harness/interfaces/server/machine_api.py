"""`/api/…` besides sessions: this server, the agents and models of this machine, and the usage of all sessions.

Usage is asked for again and again, so only what is new in each log is read. What was read is stored beside the index
of a folder, for the next start of the server.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import threading
import time
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import asdict
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from harness.config import Settings, model_names
from harness.config.prices import Prices
from harness.config.prices import load as load_prices
from harness.errors import HarnessError, UsageError
from harness.events import Event
from harness.interfaces.cli import inventory
from harness.interfaces.cli.parser import moment_ms
from harness.interfaces.server.backend import Setup
from harness.interfaces.server.responses import Handler, json_response, with_errors
from harness.ledger import WORDS, Account, By, Charge, Ledger, grouped, total
from harness.log.grep_events import grep_events
from harness.log.private_files import open_private
from harness.log.query import is_active
from harness.log.store import Metadata, Query, Store, read_all
from harness.log.stores.files import FileStore
from harness.sources.models.registry import DEMO, any_model
from harness.sources.registry import load
from harness.sources.remotes import places
from harness.sources.request import REMOTE_AGENT
from harness.version import __version__

_KEPT_AS = "account 1"
"""Another number when an account has another form, or is made by other rules."""
_SAVED_AT_ONCE = 500
_MOST_MADE = 50
_QUARTER_HOUR_MS = 15 * 60 * 1000
"""No day begins between two of them, anywhere."""
_RECENT_MS = 10_000
"""What was written just now may have more of the same moment."""
_GROUPINGS = ("agent", "model", "day", "project", "session", "sub-agent")
_AGENTS_KNOWN_S = 30.0


class MachineApi:
    def __init__(self, store: Store, settings: Settings, default: Setup, modes: list[dict[str, str]]) -> None:
        self._bills = UsageReports(store, settings)
        self._settings = settings
        self._default = default
        self._modes = modes
        self._agents_at_s = float("-inf")
        self._agents: list[dict[str, Any]] = []

    def routes(self) -> list[Route]:
        table: list[tuple[str, str, Handler]] = [
            ("GET", "/api/server", self._server),
            ("GET", "/api/agents", self._list_agents),
            ("GET", "/api/models", self._models),
            ("GET", "/api/usage", self._usage),
        ]
        return [Route(path, with_errors(handler), methods=[method]) for method, path, handler in table]

    async def _server(self, request: Request) -> Response:
        del request
        return json_response(
            {
                "version": __version__,
                "defaultAgent": self._default.agent,
                "defaultModel": self._default.model,
                "cwd": self._default.cwd or os.getcwd(),
                "modes": self._modes,
                "permissionModes": ["default", "acceptEdits", "fullAuto", "readOnly"],
            }
        )

    async def _list_agents(self, request: Request) -> Response:
        del request
        if time.monotonic() - self._agents_at_s > _AGENTS_KNOWN_S:
            self._agents = await asyncio.to_thread(_all_agents)
            self._agents_at_s = time.monotonic()
        runners = await asyncio.to_thread(places.described, os.environ, self._default.cwd)
        agents = [one for one in self._agents if runners or one["name"] != REMOTE_AGENT]
        return json_response({"agents": agents, "runners": runners})

    async def _models(self, request: Request) -> Response:
        name = request.query_params.get("agent", "") or self._default.agent
        return json_response(await asyncio.to_thread(self._models_of, name))

    def _models_of(self, agent_name: str) -> dict[str, Any]:
        agent = load(agent_name) if agent_name else None
        spellings = inventory.names_of(agent) if agent is not None else ()
        prices = load_prices(self._settings, "")
        rows = [
            {
                "id": model.name,
                "name": model.description or model.name,
                "description": model.description,
                "provider": model.provider,
                "usable": agent is None or bool(model.id_for(spellings)),
                **_price(prices, model.id_for(spellings) or model.name),
            }
            for model in model_names.load(self._settings).all
        ]
        default = self._default.model if agent is None or agent.name == self._default.agent else ""
        default = default or (self._settings.model_for(spellings) if agent is not None else "")
        if agent is not None and agent.work is not None:
            rows = _provider_models(prices)
            default = default or any_model()
        return {"models": rows, "defaultModel": default}

    async def _usage(self, request: Request) -> Response:
        by: Any = request.query_params.get("by", "agent")
        split: Any = request.query_params.get("split", "")
        if by not in _GROUPINGS or split not in ("", *_GROUPINGS) or split == by:
            raise UsageError(f"by is one of {', '.join(_GROUPINGS)}; split is another of them, or absent")
        since = request.query_params.get("since", "")
        try:
            since_ms = moment_ms(since) if since else -1
        except argparse.ArgumentTypeError as error:
            raise UsageError(str(error)) from error
        agent, project = request.query_params.get("agent", ""), request.query_params.get("project", "")
        wanted = BillQuery(by, since_ms, split or None, agent, project)
        return json_response(await asyncio.to_thread(self._bills.bill, wanted))


def _all_agents() -> list[dict[str, Any]]:
    found = inventory.everything()
    return [
        {
            "name": one.agent.name,
            "title": one.agent.title,
            "version": one.version,
            "installed": one.is_available,
            "usable": one.is_available,
            "builtIn": one.is_built_in,
            "install": one.agent.install,
            "models": "model" in one.agent.supports,
            "capabilities": inventory.capabilities(one.agent),
            "twoWay": inventory.two_way(one.agent),
            "keys": list(one.agent.key_variables),
        }
        for one in found
    ]


def _price(prices: Prices, model: str) -> dict[str, float | None]:
    price = prices.find(model)
    return {"priceIn": price.input if price else None, "priceOut": price.output if price else None}


def _provider_models(prices: Prices) -> list[dict[str, Any]]:
    """One of each provider: whatever else it has can be named as well."""
    from harness.sources.models.local import USUAL
    from harness.sources.models.registry import PROVIDERS, usable

    usual = {name: provider.usual_model for name, provider in PROVIDERS.items()} | {"local": USUAL}
    demo = {
        "id": DEMO,
        "name": "Demonstration",
        "description": "A demonstration (a script answers, the tools are real)",
        "provider": "scripted",
        "usable": True,
        **_price(prices, DEMO),
    }
    return [
        {
            "id": f"{row.provider}/{usual[row.provider]}",
            "name": usual[row.provider],
            "description": f"{row.title} ({row.reason})",
            "provider": row.provider,
            "usable": row.is_usable,
            **_price(prices, f"{row.provider}/{usual[row.provider]}"),
        }
        for row in usable()
        if usual.get(row.provider)
    ] + [demo]


class _Known(NamedTuple):
    updated_ms: int
    created_ms: int
    account: Account


class BillQuery(NamedTuple):
    by: By
    since_ms: int = -1
    split: By | None = None
    """With it, there is a row for each value of both."""
    agent: str = ""
    """Only this one; empty: all."""
    project: str = ""

    def includes(self, charge: Charge) -> bool:
        return self.agent in ("", charge.agent) and self.project in ("", charge.project)


class UsageReports:
    """Contract: thread-safe."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._settings = settings
        self._lock = threading.Lock()
        self._known: dict[str, _Known] = {}
        self._version: int | None = None
        self._has_loaded = False
        self._made: dict[BillQuery, dict[str, Any]] = {}

    def bill(self, wanted: BillQuery) -> dict[str, Any]:
        """As `harness usage --json`. Raises StoreError."""
        with self._lock:
            if self._catch_up() or len(self._made) > _MOST_MADE:
                self._made.clear()
            if wanted not in self._made:
                self._made[wanted] = self._make(wanted)
            return self._made[wanted]

    def _make(self, wanted: BillQuery) -> dict[str, Any]:
        ledger = Ledger(known.account for known in self._known.values())
        prices = load_prices(self._settings, "")
        charges = [*filter(wanted.includes, ledger.charges(prices, _day_of, wanted.since_ms))]
        return {
            "by": wanted.by,
            "rows": [*_rows(charges, wanted.by, wanted.split)],
            "total": asdict(total(charges)),
            "prices_date": prices.date,
        }

    def _catch_up(self) -> bool:
        """Whether there may be something new."""
        version = self._store.version()
        if version is not None and version == self._version:
            return False
        player = inventory.player()
        stored = self._load()
        found = [one for one in self._store.find(Query()) if player is None or one.agent_name != player.name]
        new: list[tuple[str, int, bytes]] = []
        for metadata in reversed(found):
            self._read(metadata, stored.get(metadata.session_id), new)
        there = {metadata.session_id for metadata in found}
        self._known = {log_id: known for log_id, known in self._known.items() if log_id in there}
        self._save(new)
        self._version = version
        return True

    def _read(self, metadata: Metadata, kept: bytes | None, new: list[tuple[str, int, bytes]]) -> None:
        log_id = metadata.session_id
        known = self._known.get(log_id)
        if known is not None and known.created_ms != metadata.created_ms:
            known, kept = None, None  # another log under its id
        is_recent = time.time() * 1000 - metadata.updated_ms < _RECENT_MS or is_active(metadata)
        if known is not None and known.updated_ms == metadata.updated_ms and not is_recent:
            return
        account = known.account if known is not None else _decoded(kept) or Account(runs=None)
        before = account.next_seq
        try:
            account.feed(metadata, self._events(metadata, account.next_seq))
        except (HarnessError, OSError):
            return  # it was deleted meanwhile, or cannot be read: then it is not on the bill
        self._known[log_id] = _Known(metadata.updated_ms, metadata.created_ms, account)
        if account.next_seq > before and not is_recent:
            new.append((log_id, account.next_seq, msgspec.json.encode(account)))

    def _events(self, metadata: Metadata, cursor: int) -> Iterable[Event]:
        """Its own: what was used before a fork is on the bill of the log that it left."""
        own = 0 if metadata.fork is None else metadata.fork.seq
        if cursor == 0 and isinstance(self._store, FileStore):
            path = self._store.path(metadata.session_id)
            with os.fdopen(open_private(path, os.O_RDONLY), "rb", buffering=0) as file:
                yield from grep_events(file, WORDS)
        else:
            yield from read_all(self._store, metadata.session_id, max(own, cursor))

    def _load(self) -> dict[str, bytes]:
        """What an earlier server has read; asked for once."""
        if self._has_loaded or not isinstance(self._store, FileStore):
            return {}
        self._has_loaded = True
        return self._store.snapshots(_KEPT_AS)

    def _save(self, new: list[tuple[str, int, bytes]]) -> None:
        if isinstance(self._store, FileStore):
            for start in range(0, len(new), _SAVED_AT_ONCE):
                self._store.save_snapshots(_KEPT_AS, new[start : start + _SAVED_AT_ONCE])


def _rows(charges: list[Charge], by: By, split: By | None) -> Iterator[dict[str, Any]]:
    name = by.replace("-", "_")
    for row, group in grouped(charges, by):
        if split is None:
            yield {name: row.key or None, **asdict(row.amount)}
        else:
            yield from ({name: row.key or None, **inner} for inner in _rows(group, split, None))


def _decoded(kept: bytes | None) -> Account | None:
    try:
        return msgspec.json.decode(kept, type=Account) if kept else None
    except msgspec.MsgspecError:
        return None


def _day_of(at_ms: int) -> str:
    return _day_of_quarter(at_ms // _QUARTER_HOUR_MS) if at_ms >= 0 else ""


@cache
def _day_of_quarter(number: int) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(number * _QUARTER_HOUR_MS / 1000))
