"""`/api/grants`: what is always allowed now, in all sessions; the command `revoke` of a session takes one back."""

from __future__ import annotations

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from harness.clients.conversations.backend import Backend
from harness.server.access.responses import json_response, with_errors
from harness.server.live.inbox_feed import InboxFeed


class SessionGrantData(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    id: str
    """In its session."""
    label: str
    """All that it allows, in words."""
    session: str
    title: str
    agent: str
    agent_name: str
    project: str


class GrantList(msgspec.Struct, frozen=True):
    grants: list[SessionGrantData]


class GrantsApi:
    def __init__(self, backend: Backend, feed: InboxFeed) -> None:
        self._backend = backend
        self._feed = feed

    def routes(self) -> list[Route]:
        return [Route("/api/grants", with_errors(self._list), methods=["GET"])]

    async def _list(self, request: Request) -> Response:
        del request
        await self._feed.is_loaded.wait()
        grants = [
            SessionGrantData(
                id=grant["id"],
                label=grant["label"],
                session=row.id,
                title=row.title,
                agent=row.agent,
                agent_name=row.agent_name,
                project=row.project.name,
            )
            for row in self._feed.rows.rows.values()
            if self._backend.hub(row.id) is not None
            for grant in self._backend.status(row.id).grants
        ]
        return json_response(GrantList(grants))
