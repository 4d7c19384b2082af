"""`/api/…` besides sessions: this server, the agents and models of this machine, and the usage of all sessions."""

from __future__ import annotations

import argparse
import asyncio
import os
import threading
import time
from collections import Counter
from typing import Any

from msgspec.structs import asdict
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from harness.agents.registry import load
from harness.clients import installed_agents
from harness.clients.conversations.backend import Setup
from harness.clients.sessions.filters import moment_ms
from harness.clients.sessions.histories import HistorySessions
from harness.clients.sessions.usage import GROUPINGS, UsageQuestion, make_bill
from harness.config import Settings, data_directory, model_names
from harness.contracts.agent import Agent
from harness.contracts.request import REMOTE_AGENT
from harness.errors import UsageError
from harness.histories.catalogue_filter import SessionFilter
from harness.histories.registry import load_all
from harness.log.private_files import make_private_directory
from harness.log.store import Store
from harness.models.registry import DEMO, PROVIDERS, any_model, usable
from harness.runs.remotes import places
from harness.server.access.responses import Handler, json_response, with_errors
from harness.server.api.schemas import Demonstration, StoredHistories, StoredHistory
from harness.server.machine.machine_store import MachineStore
from harness.usage.ledger import Ledger
from harness.usage.prices import Prices
from harness.usage.prices import load as load_prices
from harness.usage.stored_accounts import StoredAccounts, day_of
from harness.version import __version__

_MOST_MADE = 50
_READING_S = 5.0
"""So long sessions of agents are read before the answer."""
_AGENTS_KNOWN_S = 30.0


class MachineApi:
    def __init__(self, store: Store, settings: Settings, default: Setup, modes: list[dict[str, str]]) -> None:
        self._reports = UsageReports(store, settings)
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
        agents = [agent for agent in self._agents if runners or agent["name"] != REMOTE_AGENT]
        return json_response({"agents": agents, "runners": runners})

    async def _models(self, request: Request) -> Response:
        name = request.query_params.get("agent", "") or self._default.agent
        return json_response(await asyncio.to_thread(self._models_of, name))

    def _models_of(self, agent_name: str) -> dict[str, Any]:
        agent = load(agent_name) if agent_name else None
        spellings = installed_agents.names_of(agent) if agent is not None else ()
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
        rows += _listed_models(agent, prices) if agent is not None and "model" in agent.supports else []
        default = self._default.model if agent is None or agent.name == self._default.agent else ""
        default = default or (self._settings.model_for(spellings) if agent is not None else "")
        if agent is not None and agent.work is not None:
            rows = _provider_models(prices)
            default = default or any_model()
        return {"models": rows, "defaultModel": default}

    async def _usage(self, request: Request) -> Response:
        by: Any = request.query_params.get("by", "agent")
        split: Any = request.query_params.get("split", "")
        if by not in GROUPINGS or split not in ("", *GROUPINGS) or split == by:
            raise UsageError(f"by is one of {', '.join(GROUPINGS)}; split is another of them, or absent")
        since = request.query_params.get("since", "")
        try:
            since_ms = moment_ms(since) if since else -1
        except argparse.ArgumentTypeError as error:
            raise UsageError(str(error)) from error
        agent, project = request.query_params.get("agent", ""), request.query_params.get("project", "")
        question = UsageQuestion(by, since_ms, split or None, agent, project)
        return json_response(await asyncio.to_thread(self._reports.report, question))


def _all_agents() -> list[dict[str, Any]]:
    agents_found = installed_agents.everything()
    return [
        {
            "name": agent.agent.name,
            "title": agent.agent.title,
            "version": agent.version,
            "installed": agent.is_available,
            "usable": agent.is_available,
            "builtIn": agent.is_built_in,
            "install": agent.agent.install,
            "models": "model" in agent.agent.supports,
            "capabilities": installed_agents.capabilities(agent.agent),
            "twoWay": installed_agents.two_way(agent.agent),
            "permissionModes": installed_agents.permission_modes(agent.agent),
            "sandbox": dict(zip(("by", "refusal"), installed_agents.sandbox_of(agent.agent), strict=True)),
            "keys": list(agent.agent.key_variables),
        }
        for agent in agents_found
    ]


def _price(prices: Prices, model: str) -> dict[str, float | None]:
    price = prices.find(model)
    return {"priceIn": price.input if price else None, "priceOut": price.output if price else None}


def _listed_models(agent: Agent, prices: Prices) -> list[dict[str, Any]]:
    """Of an agent that takes its key from one provider alone: the models of that provider, the newest first."""
    providers = [
        name
        for name, provider in PROVIDERS.items()
        if provider.usual_model and {*provider.keys} & {*agent.key_variables}
    ]
    if len(providers) != 1:
        return []
    family = PROVIDERS[providers[0]].usual_model.partition("-")[0]
    return [
        {
            "id": model,
            "name": model,
            "description": "",
            "provider": providers[0],
            "usable": True,
            **_price(prices, model),
        }
        for model in prices.by_model
        if model.startswith(f"{family}-")
    ]


def _provider_models(prices: Prices) -> list[dict[str, Any]]:
    """One of each provider; its other models can be named as well."""
    from harness.models.local import USUAL

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


class UsageReports:
    """Contract: thread-safe."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._accounts = StoredAccounts.of(store)
        self._histories = store.histories if isinstance(store, MachineStore) else None
        self._settings = settings
        self._lock = threading.Lock()
        self._state: object = None
        """What the reports were made of."""
        self._answers: dict[UsageQuestion, dict[str, Any]] = {}

    def report(self, question: UsageQuestion) -> dict[str, Any]:
        """As `harness usage --json`. Raises StoreError."""
        with self._lock:
            histories = self._histories
            if histories is None:
                return self._known(question, None, 0)
            unread = histories.read_for(_READING_S)
            return histories.ask(lambda sessions: self._known(question, sessions, unread))

    def _known(
        self, question: UsageQuestion, sessions: HistorySessions | None, unread: int
    ) -> dict[str, Any]:
        ledger = self._accounts.ledger(
            leaves_out=sessions.has_original if sessions is not None else lambda _log: False
        )
        state = self._accounts.number, unread, None if sessions is None else sessions.fingerprint()
        if self._state != state or len(self._answers) > _MOST_MADE:
            self._answers.clear()
            self._state = state
        if question not in self._answers:
            self._answers[question] = {**self._make(question, ledger, sessions), "unread_sessions": unread}
        return self._answers[question]

    def _make(
        self, question: UsageQuestion, ledger: Ledger, sessions: HistorySessions | None
    ) -> dict[str, Any]:
        prices = load_prices(self._settings, "")
        outcomes = _outcomes(ledger, question)
        bill = make_bill(question, ledger, sessions, prices, day_of, "{}:{}".format)
        return {
            "by": question.by,
            "rows": [*bill.as_rows()],
            "total": asdict(bill.total),
            "prices_date": prices.date,
            "outcomes": outcomes,
        }


def _outcomes(ledger: Ledger, question: UsageQuestion) -> list[dict[str, Any]]:
    """How the runs of each agent ended, those with the most runs first."""
    counts: dict[str, Counter[str]] = {}
    for (agent, project, outcome), count in ledger.outcomes(question.since_ms).items():
        if question.includes(agent, project):
            counts.setdefault(agent, Counter())[outcome or "unfinished"] += count
    outcomes = sorted(counts.items(), key=lambda outcome: (-outcome[1].total(), outcome[0]))
    return [
        {"agent": agent, "runs": of.total(), "outcomes": dict(of.most_common())} for agent, of in outcomes
    ]


# `/api/histories` and `/api/demonstration`: for the first start.


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
        """Create a scratch folder; the conversation itself is started like any other."""
        del request
        folder = await asyncio.to_thread(_scratch_folder)
        return json_response(Demonstration(folder=folder, model=DEMO, prompt=_PROMPT), 201)


def _stored(histories: HistorySessions) -> StoredHistories:
    """What agents have stored of their sessions themselves. Nothing of it is copied."""
    counts = {
        history.agent: sum(
            not session.is_child for session in histories.sessions(SessionFilter(agent=history.agent))
        )
        for history in load_all()
    }
    rows = [StoredHistory(name, load(name).title or name, count) for name, count in counts.items() if count]
    return StoredHistories(sorted(rows, key=lambda session: -session.sessions))


def _scratch_folder() -> str:
    folder = os.path.join(data_directory(), _SCRATCH)
    make_private_directory(folder)
    path = os.path.join(folder, _FILE)
    if not os.path.lexists(path):
        with open(path, "w", encoding="utf-8") as file:
            file.write("A file for the demonstration.\n")
    return folder
