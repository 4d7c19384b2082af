"""`/api/folder-settings`: what a folder brings for an agent, shown before a conversation begins there, and trusted."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from harness.agents import registry
from harness.approvals.settings_text import sentences
from harness.approvals.trust import FolderTrust, TrustState, judge, trust_folder
from harness.contracts.request import OWN_AGENT
from harness.server.access.responses import Conflict, json_response, read_body, with_errors


class FolderSettingsData(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What would be started and allowed by what a folder brings."""

    folder: str
    agent: str
    state: TrustState
    digest: str
    """Of what is told here: to be given back with the answer."""
    sentences: list[str]
    changes: list[str]
    """Since it was trusted: `+ name`, `- name`, `~ name`."""


class NewFolderTrust(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    cwd: str
    agent: str
    digest: str


class FolderSettingsApi:
    """`checked`: makes a folder that a client named one that may be looked at. Raises UsageError."""

    def __init__(self, checked: Callable[[str], str]) -> None:
        self._checked = checked

    def routes(self) -> list[Route]:
        path = "/api/folder-settings"
        return [
            Route(path, with_errors(self._show), methods=["GET"]),
            Route(path, with_errors(self._trust), methods=["POST"]),
        ]

    async def _show(self, request: Request) -> Response:
        words = request.query_params
        trust = await asyncio.to_thread(self._judged, words.get("cwd", ""), words.get("agent", ""))
        return json_response(_data(trust))

    async def _trust(self, request: Request) -> Response:
        body = await read_body(request, NewFolderTrust)

        def carry_out() -> FolderTrust:
            trust = self._judged(body.cwd, body.agent)
            if trust.settings.digest != body.digest:
                raise Conflict("the settings of this folder are not as they were shown", hint="look again")
            if trust.is_open:
                trust_folder(trust)
            return self._judged(body.cwd, body.agent)

        return json_response(_data(await asyncio.to_thread(carry_out)))

    def _judged(self, cwd: str, agent_name: str) -> FolderTrust:
        agent = registry.load(agent_name or OWN_AGENT)
        if (
            agent.work is not None and agent.name != OWN_AGENT
        ):  # a part of Harness, which obeys nothing of them
            return judge(os.sep, agent.name)
        return judge(self._checked(cwd), agent.name, agent.obeys)


def _data(trust: FolderTrust) -> FolderSettingsData:
    return FolderSettingsData(
        folder=trust.settings.folder,
        agent=trust.agent,
        state=trust.state,
        digest=trust.settings.digest,
        sentences=sentences(trust.settings),
        changes=list(trust.changes),
    )
