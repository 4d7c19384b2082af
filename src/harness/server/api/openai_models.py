"""`/v1/models`: every agent that can be used here, alone and with each model that the settings name. And errors as OpenAI's
clients read them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from harness.agents.registry import load
from harness.clients import installed_agents
from harness.clients.conversations.backend import Setup
from harness.config import Settings, model_names
from harness.errors import HarnessError, UnknownAgent
from harness.folds.standards.openai import error_body
from harness.formatting.json_text import encode
from harness.server.access.responses import Handler, NotFound, error_response, json_response

SESSION_HEADER = "x-harness-session"
IGNORED_HEADER = "x-harness-ignored"
_CREATED_S = 0
"""Clients want a number."""


class ChosenAgent(NamedTuple):
    agent: str
    model: str


class UnknownModel(NotFound):
    """A request names an agent that is not here."""


class OfferedModels:
    """`default`: its agent is the first."""

    def __init__(self, settings: Settings, default: Setup) -> None:
        self._settings, self._default = settings, default
        self._names: list[str] = []

    def routes(self) -> list[Route]:
        return [
            Route("/v1/models", with_openai_errors(self._list), methods=["GET"]),
            Route("/v1/models/{id:path}", with_openai_errors(self._one), methods=["GET"]),
        ]

    async def chosen(self, name: str) -> ChosenAgent:
        """The agent, and the model behind it. Raises UnknownModel."""
        names = await asyncio.to_thread(self._look)
        agent, _, model = name.partition("/")
        with suppress(UnknownAgent):
            if agent and (name_here := load(agent).name) in names:
                return ChosenAgent(name_here, model)
        raise UnknownModel(f"there is no model {name[:100]!r}", hint="GET /v1/models lists them")

    async def _list(self, request: Request) -> Response:
        del request
        names = await asyncio.to_thread(self._look)
        return json_response({"object": "list", "data": [_about(name) for name in names]})

    async def _one(self, request: Request) -> Response:
        name = request.path_params["id"]
        await self.chosen(name)
        return json_response(_about(name))

    def _look(self) -> list[str]:
        """Looking for programs takes a moment."""
        if not self._names:
            agents = [place.agent for place in installed_agents.everything() if place.is_available]
            usual, models = load(self._default.agent).name, model_names.load(self._settings).all
            names = []
            for agent in sorted(agents, key=lambda agent: agent.name != usual):
                spellings = installed_agents.names_of(agent)
                names.append(agent.name)
                names += [f"{agent.name}/{model.name}" for model in models if model.id_for(spellings)]
            self._names = names
        return self._names


def _about(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": _CREATED_S, "owned_by": "harness"}


def answer(value: Any, status: int, headers: Mapping[str, str]) -> Response:
    """Clients repeat some requests that fail; a run that has begun must not begin again."""
    retry = {"x-should-retry": "false"} if status >= 400 else {}
    return Response(encode(value), status, dict(headers) | retry, "application/json")


def headers_of(log_id: str, *ignored: str) -> dict[str, str]:
    headers = {SESSION_HEADER: log_id}
    return headers | {IGNORED_HEADER: ", ".join(ignored)} if ignored else headers


def with_openai_errors(handler: Handler) -> Handler:
    """The handler, with a HarnessError as these clients expect errors."""

    async def answered(request: Request) -> Response:
        try:
            return await handler(request)
        except HarnessError as error:
            is_model = isinstance(error, UnknownModel)
            code, field = ("model_not_found", "model") if is_model else (error.kind, None)
            body = error_body(error.words, code, param=field)
            return answer(body, error_response(error).status_code, {})

    return answered
