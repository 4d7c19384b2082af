"""`/api/sessions/<id>/keep`, `/hand-over` and `/export`: a session copied, offered to another agent, or as a document."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from harness.agents.registry import load
from harness.clients import formats
from harness.clients.installed_agents import names_of
from harness.clients.sessions.export import LEVELS, at_level, without_names, without_secrets
from harness.clients.sessions.histories import history_of
from harness.config import Settings
from harness.contracts.request import OWN_AGENT
from harness.errors import StoreError, UsageError
from harness.events import Event
from harness.histories.session_copy import SessionCopy
from harness.histories.session_copy import keep as keep_session
from harness.log.store import Store, read_all
from harness.process.version_probe import probe_version
from harness.runs.launch import find_binary, installed_two_way, not_found
from harness.server.access.responses import Conflict, Handler, flag, json_response, with_errors
from harness.server.api.schemas import HandoverOffer, KeptSession
from harness.server.live.channels import Channels
from harness.server.machine.histories import is_history_name
from harness.server.machine.machine_store import MachineStore
from harness.session.hand_over import losses_of, plan, workspace_of
from harness.stage import ViewOptions, feed_all

_TYPES = {"html": ("text/html", "html"), "markdown": ("text/markdown", "md")}
_EVENTS_AT_ONCE = 1_000


class ExportsApi:
    def __init__(self, channels: Channels, settings: Settings) -> None:
        self._store = channels.store
        self._settings = settings

    def routes(self) -> list[Route]:
        prefix = "/api/sessions/{id}"
        table: list[tuple[str, str, Handler]] = [
            ("POST", f"{prefix}/keep", self._keep),
            ("GET", f"{prefix}/hand-over", self._offer),
            ("GET", f"{prefix}/export", self._export),
        ]
        return [Route(path, with_errors(handler), methods=[method]) for method, path, handler in table]

    async def _keep(self, request: Request) -> Response:
        copy = await asyncio.to_thread(copied, self._store, request.path_params["id"])
        return json_response(KeptSession(id=copy.log_id, status=copy.status), 201)

    async def _offer(self, request: Request) -> Response:
        target = request.query_params.get("to", "") or OWN_AGENT
        return json_response(await asyncio.to_thread(self._offered, request.path_params["id"], target))

    def _offered(self, log_id: str, target: str) -> HandoverOffer:
        agent, metadata = load(target), self._store.metadata(log_id)
        binary = find_binary(agent, self._settings.binary_for(names_of(agent)), os.environ)
        if not binary and agent.work is None:
            raise not_found(agent)
        version = probe_version(binary, agent.version_args) if binary else ""
        is_held = agent.work is not None or installed_two_way(agent, binary) is not None
        planned = plan(read_all(self._store, log_id), agent, version, is_held=is_held)
        conversation = planned.conversation
        return HandoverOffer(
            agent=agent.name,
            title=agent.title,
            version=version,
            form=planned.form,
            why=planned.why,
            messages=len(conversation.turns),
            calls=len(conversation.calls),
            lost=list(losses_of(planned)),
            now=list(workspace_of(conversation, metadata.cwd)),
        )

    async def _export(self, request: Request) -> Response:
        name = formats.find(request.query_params.get("format", "html"))
        level = request.query_params.get("level", "all")
        if name not in _TYPES or level not in LEVELS:
            raise UsageError(
                f"a session is exported as {' or '.join(_TYPES)}", hint=f"with `level` {', '.join(LEVELS)}"
            )
        log_id = request.path_params["id"]
        self._store.metadata(log_id)  # raises UnknownSession
        media_type, suffix = _TYPES[name]
        pieces = self._document(log_id, name, level, hides_names=flag(request, "hideNames"))
        return StreamingResponse(
            pieces,
            media_type=media_type,
            headers={"content-disposition": f'attachment; filename="{_file_name(log_id)}.{suffix}"'},
        )

    def _document(self, log_id: str, name: str, level: str, *, hides_names: bool) -> Iterator[bytes]:
        """Secrets are masked once more, also in a log that was recorded with them."""
        view = formats.open_view(name, ViewOptions())
        batches = without_secrets(at_level(_batches(self._store, log_id), level))
        for batch in without_names(batches) if hides_names else batches:
            yield b"".join(feed_all(view, batch))
        yield b"".join(view.finish())


def copied(store: Store, name: str) -> SessionCopy:
    """The copy of a session of a history, made if there is none. Raises UsageError, UnknownSession, StoreError."""
    if not isinstance(store, MachineStore) or not is_history_name(name):
        store.metadata(name)
        raise UsageError("Harness has recorded this session itself: there is nothing to copy")
    session = store.histories.session_now(name)
    try:
        copy = keep_session(history_of(session), session, store)
    except OSError as error:
        raise StoreError(f"{name} cannot be copied: {error.strerror}") from error
    if not copy.log_id:
        raise Conflict("nothing was ever asked in this session, or its agent has deleted it")
    return copy


def _batches(store: Store, log_id: str) -> Iterator[list[Event]]:
    reader = store.reader(log_id)
    try:
        while batch := reader.read(_EVENTS_AT_ONCE):
            yield batch
    finally:
        reader.close()


def _file_name(log_id: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in log_id)[:80]
