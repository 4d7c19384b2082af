"""`/api/sessions`: the list, one session now and at any moment, and what can be done with it."""

from __future__ import annotations

import asyncio
import threading
from argparse import ArgumentTypeError
from contextlib import suppress
from hashlib import sha256
from secrets import token_hex
from typing import Any

import msgspec
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from harness.clients.commands import Attached, Command, Rename, Submit
from harness.clients.conversations.backend import Setup
from harness.clients.sessions.filters import SessionChoice, checked, moment_ms
from harness.errors import LogLocked, UsageError
from harness.events import ToolEnd, ToolProgress, ToolStart
from harness.folds.page_state.fold import StateFold
from harness.folds.page_state.shapes import files_of, state_message
from harness.histories.catalogue_search import SessionSearch, parts_of
from harness.log.store import Metadata, Store, read_all
from harness.server.access.responses import (
    Conflict,
    Handler,
    NotFound,
    flag,
    json_response,
    number,
    read_body,
    with_errors,
)
from harness.server.api.exports import copied
from harness.server.api.schemas import SessionList
from harness.server.api.session_listing import Listing, ListQuery, describe
from harness.server.live.channels import Channels
from harness.server.live.session_socket import client_name
from harness.server.machine.histories import is_history_name
from harness.views.usage import UsageFold

_MOST_FOLDS = 2
_MOST_LISTED = 500
_MOST_MOMENTS = 1_000
_MOST_SKIPPED = 100_000
_END = 10**12
_LONGEST_QUERY = 500


class NewSession(Setup, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A setup, and the first prompt."""

    prompt: str = ""
    attachments: tuple[Attached, ...] = ()


class Changes(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    title: str | None = None
    tags: list[str] | None = None


class CommandList(msgspec.Struct, frozen=True):
    commands: list[Command]


class SessionsApi:
    def __init__(self, channels: Channels) -> None:
        self._channels = channels
        self._store = channels.store
        self._backend = channels.backend
        self._past = PastStates(channels.store)
        self._listing = Listing(channels.store, channels.backend)
        self._name = token_hex(8)
        """Distinguishes the versions of this process from those of another."""
        self._changes = 0
        """How often the status of a conversation has changed."""
        self._backend.listen(self._note_change)
        self._backend.listen_to_replacements(self._past.forget)

    def _note_change(self, log_id: str) -> None:
        del log_id
        self._changes += 1

    def routes(self) -> list[Route]:
        prefix = "/api/sessions/{id}"
        table: list[tuple[str, str, Handler]] = [
            ("GET", "/api/sessions", self._list),
            ("POST", "/api/sessions", self._create),
            ("GET", prefix, self._get),
            ("PATCH", prefix, self._change),
            ("DELETE", prefix, self._delete),
            ("GET", f"{prefix}/state", self._state),
            ("GET", f"{prefix}/timeline", self._timeline),
            ("GET", f"{prefix}/runs", self._runs),
            ("GET", f"{prefix}/usage", self._usage),
            ("GET", f"{prefix}/calls/{{call_id:path}}", self._call),
            ("POST", f"{prefix}/commands", self._commands),
        ]
        return [Route(path, with_errors(handler), methods=[method]) for method, path, handler in table]

    async def _list(self, request: Request) -> Response:
        query = ListQuery(
            asked=_search(request),
            choice=_choice(request),
            has_passages=flag(request, "passages"),
            limit=number(request, "limit", 50, most=_MOST_LISTED),
            offset=number(request, "offset", 0, most=_MOST_SKIPPED),
        )
        known_tag = request.headers.get("if-none-match", "")
        return await asyncio.to_thread(self._page, query, known_tag)

    def _page(self, query: ListQuery, known_tag: str) -> Response:
        """A client that has the current version gets a short answer: nothing has changed."""
        version = self._store.version() if self._listing.histories is None else None
        tag = f'"{self._name}-{version}-{self._changes}"' if version is not None else ""
        if tag and tag == known_tag:
            return Response(status_code=304, headers={"etag": tag})
        sessions, total = self._listing.page(query)
        answer = json_response(SessionList(sessions=sessions, total=total))
        tag = tag or f'"{sha256(bytes(answer.body)).hexdigest()[:32]}"'
        if tag == known_tag:
            return Response(status_code=304, headers={"etag": tag})
        answer.headers["etag"] = tag
        return answer

    async def _create(self, request: Request) -> Response:
        moments_chosen = await read_body(request, NewSession)
        setup = Setup(**{name: getattr(moments_chosen, name) for name in Setup.__struct_fields__})
        if is_history_name(setup.continues):
            setup = replace(setup, continues=await self._copy_of(setup))
        prompt = Submit(prompt=moments_chosen.prompt, attachments=moments_chosen.attachments)
        has_prompt = bool(moments_chosen.prompt or moments_chosen.attachments)
        self._backend.check(setup, prompt if has_prompt else None)
        log_id = await self._backend.create(setup)
        if has_prompt:
            await self._backend.carry_out(log_id, prompt)
        return json_response(describe(self._store.metadata(log_id), self._store, self._backend), 201)

    async def _copy_of(self, setup: Setup) -> str:
        """The log to continue. Raises Conflict where the same agent has the session open."""
        metadata = self._store.metadata(setup.continues)
        is_same = setup.agent in ("", metadata.agent_name)
        if is_same and metadata.outcome in ("running", "waiting", "idle"):
            raise Conflict(
                f"{metadata.agent} has this session open: two programs would write it",
                hint="close it there first, or hand it over to another agent",
            )
        copy = await asyncio.to_thread(copied, self._store, setup.continues)
        return copy.log_id

    async def _get(self, request: Request) -> Response:
        metadata = self._store.metadata(_id(request))
        return json_response(describe(metadata, self._store, self._backend))

    async def _change(self, request: Request) -> Response:
        changes = await read_body(request, Changes)
        log_id = _id(request)
        metadata = self._store.metadata(log_id)
        if changes.title is not None:
            metadata = await self._renamed(metadata, changes.title)
        if changes.tags is not None:
            metadata.tags = changes.tags
        self._store.save_metadata(metadata)
        self._past.forget(log_id)
        return json_response(describe(metadata, self._store, self._backend))

    async def _delete(self, request: Request) -> Response:
        log_id = _id(request)
        if self._backend.status(log_id).is_running:
            raise Conflict("the session is running", hint="cancel it first")
        await self._backend.unload(log_id)
        await asyncio.to_thread(self._store.delete, log_id)
        self._channels.forget(log_id)
        self._past.forget(log_id)
        return Response(status_code=204)

    async def _state(self, request: Request) -> Response:
        at = number(request, "at", _END, most=_END)
        if at == _END:
            async with self._channels.watching(_id(request)) as channel:
                text = channel.current()
            return Response(text, media_type="application/json")
        body = await asyncio.to_thread(self._past.at, _id(request), at)
        return Response(body, media_type="application/json")

    async def _timeline(self, request: Request) -> Response:
        return json_response(await asyncio.to_thread(self._moments, _id(request)))

    def _moments(self, log_id: str) -> dict[str, list[int]]:
        moments = [(event.seq + 1, event.timestamp_ms) for event in read_all(self._store, log_id)]
        step = -(-len(moments) // _MOST_MOMENTS) or 1
        moments_chosen = moments[::step]
        if moments and moments_chosen[-1] != moments[-1]:
            moments_chosen[-1] = moments[-1]
        return {"seqs": [seq for seq, _ in moments_chosen], "times": [at_ms for _, at_ms in moments_chosen]}

    async def _runs(self, request: Request) -> Response:
        async with self._channels.watching(_id(request)) as channel:
            return json_response({"runs": channel.value["runs"]})

    async def _usage(self, request: Request) -> Response:
        return json_response(await asyncio.to_thread(self._used, _id(request)))

    def _used(self, log_id: str) -> Any:
        fold = UsageFold()
        for event in read_all(self._store, log_id):
            fold.feed(event)
        return fold.value

    async def _call(self, request: Request) -> Response:
        whole_call = await asyncio.to_thread(self._whole_call, _id(request), request.path_params["call_id"])
        return json_response(whole_call)

    def _whole_call(self, log_id: str, call_id: str) -> dict[str, Any]:
        start: ToolStart | None = None
        output: str | None = None
        progress: list[str] = []
        files: list[dict[str, Any]] = []
        for event in read_all(self._store, log_id):
            if isinstance(event, ToolStart) and event.call_id == call_id:
                start, output, progress, files = event, None, [], []
            elif isinstance(event, ToolProgress) and event.call_id == call_id:
                progress.append(event.text)
            elif isinstance(event, ToolEnd) and event.call_id == call_id:
                output, files = event.output, list(files_of(event.parts))
        if start is None:
            raise NotFound(f"no such call: {call_id[:100]!r}")
        text = "".join(progress) if output is None else output
        return {"input": start.input, "output": text, "files": files}

    async def _commands(self, request: Request) -> Response:
        log_id = _id(request)
        self._store.metadata(log_id)
        for command in (await read_body(request, CommandList)).commands:
            await self._channels.carry_out(log_id, command, client_name(request))
        return json_response({}, 202)

    async def _renamed(self, metadata: Metadata, title: str) -> Metadata:
        """By the process that writes it; if that takes no commands, only the list has the new title."""
        if metadata.kind == "thread":
            with suppress(LogLocked):
                await self._backend.carry_out(metadata.session_id, Rename(title=title))
                return self._store.metadata(metadata.session_id)
        metadata.name = title
        return metadata


def _id(request: Request) -> str:
    log_id: str = request.path_params["id"]
    return log_id


def _search(request: Request) -> SessionSearch:
    def text(name: str) -> str:
        return request.query_params.get(name, "")[:_LONGEST_QUERY]

    commit = text("commit").lower()
    return SessionSearch(
        parts=parts_of(text("query")), file=text("file"), command=text("command"), commit=commit
    )


def _choice(request: Request) -> SessionChoice:
    """Raises UsageError, UnknownAgent."""
    parameters = request.query_params
    return checked(
        SessionChoice(
            agent=parameters.get("agent", ""),
            outcome=parameters.get("outcome", ""),
            tags=tuple(parameters.getlist("tag")),
            since_ms=_moment(request, "since"),
            until_ms=_moment(request, "until"),
            project=parameters.get("project", ""),
            model=parameters.get("model", ""),
            is_live=flag(request, "live"),
        )
    )


def _moment(request: Request, name: str) -> int | None:
    """Milliseconds, a date, or so long ago. Raises UsageError."""
    text = request.query_params.get(name, "")
    if not text or (text.isdecimal() and text.isascii()):
        return number(request, name, 0, most=_END * 1_000) if text else None
    try:
        return moment_ms(text)
    except ArgumentTypeError as error:
        raise UsageError(f"{name}: {error}") from error


class PastStates:
    """Contract: thread-safe. A state before the last one that was asked for is folded from the beginning of
    the log.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._folds: dict[str, StateFold] = {}
        """Folds at the state last asked for, most recently used last; a fold in use is taken out."""

    def at(self, log_id: str, seq: int) -> bytes:
        """The message with the state after that many events. Raises UnknownSession and StoreError."""
        title = self._store.metadata(log_id).name
        with self._lock:
            fold = self._folds.pop(log_id, None)
        if fold is None or fold.seq > seq:
            fold = StateFold(log_id, title)
        for event in read_all(self._store, log_id, fold.seq):
            if event.seq >= seq:
                break
            fold.feed(event)
        message = state_message(fold.encoded(), fold.seq)
        with self._lock:
            self._folds[log_id] = fold
            while len(self._folds) > _MOST_FOLDS:
                del self._folds[next(iter(self._folds))]
        return message

    def forget(self, log_id: str) -> None:
        """It was deleted, renamed, or replaced."""
        with self._lock:
            self._folds.pop(log_id, None)
