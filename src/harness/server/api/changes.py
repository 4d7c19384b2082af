"""`/api/sessions/<id>/changes`, `/revert`, `/undo` and `/commit`: what a conversation changed, taken back or committed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from harness.clients.changes.repository import Stale
from harness.clients.changes.revert import commit, revert, undo
from harness.clients.changes.review import CONVERSATION, Review
from harness.clients.changes.run_folder import ChangeHistories
from harness.clients.changes.undo import NothingToUndo, UndoableTurn, UndoCall, open_undo, undo_of
from harness.errors import UsageError
from harness.log.store import Metadata
from harness.server.access.responses import (
    Conflict,
    Handler,
    NotFound,
    json_response,
    number,
    read_body,
    with_errors,
)
from harness.server.live.channels import Channels
from harness.server.machine.histories import is_history_name
from harness.undo.undoing import StalePlan
from harness.workspace.git_calls import GitFailed

_MOST_ROWS = 5_000
_MOST_CONTEXT = 1_000_000
_LONGEST_SUBJECT = 72


class RevertRequest(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    scope: str = CONVERSATION
    paths: list[str] = []
    """Empty: all that can be."""
    expect: dict[str, str] = {}
    """Path → `digest` of the file as it was shown."""
    dry_run: bool = False


class UndoRequest(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    undo_id: str


class UndoneFiles(msgspec.Struct, frozen=True):
    paths: list[str]


class UndoableTurns(msgspec.Struct, frozen=True):
    turns: list[UndoableTurn]


class CommitRequest(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    paths: list[str]
    message: str
    expect_head: str
    expect: dict[str, str] = {}


class Patch(msgspec.Struct, frozen=True):
    patch: str
    """A unified diff; `git apply -R` takes it back."""
    missing: list[str]
    """Files whose texts are not known."""


class ChangesApi:
    def __init__(
        self, channels: Channels, mark_reviewed: Callable[[str], object] = lambda _log_id: None
    ) -> None:
        """`mark_reviewed`: called with a conversation whose changes need no more review."""
        self._mark_reviewed = mark_reviewed
        self._store = channels.store
        self._backend = channels.backend
        self._histories = ChangeHistories(channels.store)
        self._backend.listen_to_replacements(self._histories.forget)

    def routes(self) -> list[Route]:
        prefix = "/api/sessions/{id}"
        table: list[tuple[str, str, Handler]] = [
            ("GET", f"{prefix}/changes", self._list),
            ("GET", f"{prefix}/changes/file", self._file),
            ("GET", f"{prefix}/changes/patch", self._patch),
            ("GET", f"{prefix}/file", self._text),
            ("POST", f"{prefix}/revert", self._revert),
            ("POST", f"{prefix}/revert/undo", self._undo),
            ("POST", f"{prefix}/commit", self._commit),
            ("GET", f"{prefix}/undo", self._turns),
            ("POST", f"{prefix}/undo", self._undo_turn),
            ("POST", f"{prefix}/redo", self._redo_turn),
        ]
        return [Route(path, with_errors(handler), methods=[method]) for method, path, handler in table]

    async def _list(self, request: Request) -> Response:
        scope = _scope(request)
        title = _subject(self._store.metadata(_id(request)))
        return await self._reviewed(request, lambda review: review.listing(scope, title))

    async def _file(self, request: Request) -> Response:
        scope, path = _scope(request), request.query_params.get("path", "")
        first = number(request, "from", 0, most=10**9)
        count = number(request, "lines", 1_000, most=_MOST_ROWS)
        context = number(request, "context", 3, most=_MOST_CONTEXT)
        ignores_spaces = request.query_params.get("spaces") == "ignore"

        def rows(review: Review) -> Any:
            diff = review.diff(scope, path, context=context, ignores_spaces=ignores_spaces)
            return msgspec.structs.replace(diff, rows=diff.rows[first : first + count], first=first)

        return await self._reviewed(request, rows)

    async def _text(self, request: Request) -> Response:
        path = request.query_params.get("path", "")
        first = number(request, "from", 0, most=10**9)
        count = number(request, "lines", 1_000, most=_MOST_ROWS)

        def lines(review: Review) -> Any:
            text = review.text(path)
            return msgspec.structs.replace(text, lines=text.lines[first : first + count], first=first)

        return await self._reviewed(request, lines)

    async def _patch(self, request: Request) -> Response:
        scope, paths = _scope(request), request.query_params.getlist("path")

        def patch(review: Review) -> Patch:
            text, missing = review.patch(scope, paths)
            return Patch(text, missing)

        return await self._reviewed(request, patch)

    async def _revert(self, request: Request) -> Response:
        body, log_id = await read_body(request, RevertRequest), _id(request)
        return await self._reviewed(
            request,
            lambda review: revert(review, log_id, body.scope, body.paths, body.expect, dry_run=body.dry_run),
        )

    async def _undo(self, request: Request) -> Response:
        body, log_id = await read_body(request, UndoRequest), _id(request)

        def undone(review: Review) -> UndoneFiles:
            if review.folder is None:
                raise UsageError("the folder of the conversation is not on this machine")
            return UndoneFiles(undo(review.folder, log_id, body.undo_id))

        return await self._reviewed(request, undone)

    async def _commit(self, request: Request) -> Response:
        body = await read_body(request, CommitRequest)
        answer = await self._reviewed(
            request,
            lambda review: commit(review, body.paths, body.message, body.expect_head, body.expect),
        )
        self._mark_reviewed(_id(request))
        return answer

    async def _turns(self, request: Request) -> Response:
        """Without a record there is none that can be undone, which is no error for a page that only asks."""
        log_id = _id(request)

        def turns() -> UndoableTurns:
            try:
                with open_undo(self._store, log_id) as undo:
                    return UndoableTurns(undo.turns())
            except NothingToUndo:
                return UndoableTurns([])

        return json_response(await asyncio.to_thread(turns))

    async def _undo_turn(self, request: Request) -> Response:
        return await self._taken_back(request, is_redo=False)

    async def _redo_turn(self, request: Request) -> Response:
        return await self._taken_back(request, is_redo=True)

    async def _taken_back(self, request: Request, *, is_redo: bool) -> Response:
        call, log_id = await read_body(request, UndoCall), _id(request)
        if self._backend.status(log_id).is_running:
            raise Conflict("a turn of this session runs", hint="stop it first, or wait for its end")
        try:
            return json_response(await asyncio.to_thread(undo_of, self._store, log_id, call, is_redo=is_redo))
        except (StalePlan, NothingToUndo) as error:
            raise Conflict(error.message, hint=error.hint) from error

    async def _reviewed(self, request: Request, work: Callable[[Review], Any]) -> Response:
        log_id = _id(request)
        if request.method == "POST" and is_history_name(log_id):
            raise UsageError(
                "what a session of another program's history changed can only be looked at",
                hint="continue it here first",
            )
        is_running = self._backend.status(log_id).is_running

        def answer() -> Any:
            with self._review(log_id, is_running=is_running) as review:
                return work(review)

        try:
            return json_response(await asyncio.to_thread(answer))
        except Stale as error:
            raise Conflict(error.message, hint=error.hint) from error
        except GitFailed as error:
            raise Conflict(error.message) from error
        except UnicodeEncodeError as error:
            raise NotFound("a name has characters that no file name has") from error

    @contextmanager
    def _review(self, log_id: str, *, is_running: bool) -> Iterator[Review]:
        history = self._histories.take(log_id)
        try:
            folder = "" if history.cwd or history.runner else self._store.metadata(log_id).cwd
            yield Review(history, folder=folder, is_running=is_running)
        finally:
            self._histories.put(log_id, history)


def _id(request: Request) -> str:
    log_id: str = request.path_params["id"]
    return log_id


def _scope(request: Request) -> str:
    return request.query_params.get("scope") or CONVERSATION


def _subject(metadata: Metadata) -> str:
    """What a commit of this conversation may be called."""
    text = metadata.name or metadata.prompt
    line = next((line.strip() for line in text.split("\n") if line.strip()), "")
    return line if len(line) <= _LONGEST_SUBJECT else f"{line[: _LONGEST_SUBJECT - 1]}…"
