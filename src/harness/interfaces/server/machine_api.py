"""`/api/…` besides sessions: this server, the agents and models of this machine, and the bill."""

from __future__ import annotations

import argparse
import asyncio
import os
import time
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from harness.config import Settings, model_names
from harness.errors import UsageError
from harness.interfaces.cli import inventory
from harness.interfaces.cli.parser import moment_ms
from harness.interfaces.server.backend import Setup
from harness.interfaces.server.bills import UsageReports
from harness.interfaces.server.responses import json_answer
from harness.interfaces.server.sessions_api import Handler, answering
from harness.log.store import Store
from harness.sources.models.registry import DEMO, any_model
from harness.sources.registry import load
from harness.sources.remotes import places
from harness.sources.request import REMOTE_AGENT
from harness.version import __version__

_GROUPINGS = ("agent", "model", "day", "session", "sub-agent")
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
        return [Route(path, answering(handler), methods=[method]) for method, path, handler in table]

    async def _server(self, request: Request) -> Response:
        del request
        return json_answer(
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
        return json_answer({"agents": agents, "runners": runners})

    async def _models(self, request: Request) -> Response:
        name = request.query_params.get("agent", "") or self._default.agent
        return json_answer(await asyncio.to_thread(self._models_of, name))

    def _models_of(self, agent_name: str) -> dict[str, Any]:
        agent = load(agent_name) if agent_name else None
        spellings = inventory.names_of(agent) if agent is not None else ()
        rows = [
            {
                "id": model.name,
                "description": model.description,
                "provider": model.provider,
                "usable": agent is None or bool(model.id_for(spellings)),
            }
            for model in model_names.load(self._settings).all
        ]
        default = self._default.model if agent is None or agent.name == self._default.agent else ""
        default = default or (self._settings.model_for(spellings) if agent is not None else "")
        if agent is not None and agent.work is not None:
            rows = _provider_models()
            default = default or any_model()
        return {"models": rows, "defaultModel": default}

    async def _usage(self, request: Request) -> Response:
        by: Any = request.query_params.get("by", "agent")
        if by not in _GROUPINGS:
            raise UsageError(f"by is one of {', '.join(_GROUPINGS)}")
        since = request.query_params.get("since", "")
        try:
            since_ms = moment_ms(since) if since else -1
        except argparse.ArgumentTypeError as error:
            raise UsageError(str(error)) from error
        return json_answer(await asyncio.to_thread(self._bills.bill, by, since_ms))


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
        }
        for one in found
    ]


def _provider_models() -> list[dict[str, Any]]:
    """One of each provider: whatever else it has can be named as well."""
    from harness.sources.models.local import USUAL
    from harness.sources.models.registry import PROVIDERS, usable

    usual = {name: provider.usual_model for name, provider in PROVIDERS.items()} | {"local": USUAL}
    demo = {
        "id": DEMO,
        "description": "A demonstration (a script answers, the tools are real)",
        "provider": "scripted",
        "usable": True,
    }
    return [
        {
            "id": f"{row.provider}/{usual[row.provider]}",
            "description": f"{row.title} ({row.reason})",
            "provider": row.provider,
            "usable": row.is_usable,
        }
        for row in usable()
        if usual.get(row.provider)
    ] + [demo]
