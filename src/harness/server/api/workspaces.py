"""`/api/projects`, `/folders`, `/files`, `/commands` and `/worktrees`: where a conversation is to work."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Literal

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from harness.agents import registry
from harness.clients.changes.repository import find_repository
from harness.clients.inbox.projects import Projects
from harness.clients.workspaces.folders import Bounds, FileSearch, folders_in
from harness.clients.workspaces.prompt_commands import agent_commands, templates
from harness.clients.workspaces.worktrees import (
    NotClean,
    is_made_by_us,
    make_branch,
    make_worktree,
    remove_worktree,
    worktrees_directory,
)
from harness.errors import BrokenPlugin, UnknownAgent, UsageError
from harness.log.query import is_active
from harness.log.raw import RawWriter
from harness.log.store import Metadata, Query
from harness.log.stores.files import FileStore
from harness.server.access.responses import (
    Conflict,
    Handler,
    json_response,
    read_body,
    with_errors,
)
from harness.server.api.folder_settings import FolderSettingsApi
from harness.server.api.schemas import (
    CommandChoices,
    FileList,
    FolderList,
    ProjectData,
    ProjectList,
    Worktree,
)
from harness.server.live.channels import Channels
from harness.workspace.git_calls import GitFailed

_RECENT_SESSIONS = 500
_MOST_PROJECTS = 30
_MOST_FILES = 50


class NewWorktree(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    folder: str
    branch: str
    kind: Literal["worktree", "branch"] = "worktree"


class RemovedWorktree(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    folder: str
    force: bool = False
    """Also with files that are not committed."""


class WorkspacesApi:
    """`cwd`: the folder of the server."""

    def __init__(self, channels: Channels, cwd: str) -> None:
        self._store = channels.store
        self._cwd = cwd or os.getcwd()
        self._places = Projects()
        self._files = FileSearch()

    def routes(self) -> list[Route]:
        table: list[tuple[str, str, Handler]] = [
            ("GET", "/api/projects", self._list_projects),
            ("GET", "/api/projects/one", self._project),
            ("GET", "/api/folders", self._folders),
            ("GET", "/api/files", self._find_files),
            ("GET", "/api/commands", self._commands),
            ("POST", "/api/worktrees", self._make),
            ("DELETE", "/api/worktrees", self._remove),
        ]
        own = [Route(path, with_errors(handler), methods=[method]) for method, path, handler in table]
        return [*own, *FolderSettingsApi(self._checked).routes()]

    async def _list_projects(self, request: Request) -> Response:
        del request
        return json_response(await asyncio.to_thread(self._recent))

    async def _project(self, request: Request) -> Response:
        """One folder, with whether it has changes: that takes a look at its files."""
        return json_response(await asyncio.to_thread(self._described, request.query_params.get("folder", "")))

    async def _folders(self, request: Request) -> Response:
        return json_response(await asyncio.to_thread(self._listed, request.query_params.get("path", "")))

    async def _find_files(self, request: Request) -> Response:
        def found() -> FileList:
            folder = self._folder_of(request)
            return FileList(
                files=self._files.find(folder, request.query_params.get("query", ""), _MOST_FILES)
            )

        return json_response(await asyncio.to_thread(found))

    async def _commands(self, request: Request) -> Response:
        return json_response(await asyncio.to_thread(self._found_commands, request))

    def _found_commands(self, request: Request) -> CommandChoices:
        """Templates, then the commands of the agent. An agent's own replaces none of the user's."""
        folder, log_id = self._folder_of(request), request.query_params.get("session", "")
        own = templates(folder)
        name, raw_path = request.query_params.get("agent", ""), ""
        if log_id:
            name = self._store.metadata(log_id).agent_name
            if isinstance(self._store, FileStore):
                raw_path = self._store.path(log_id, RawWriter.suffix)
        try:
            agent = registry.load(name) if name else None
        except (UnknownAgent, BrokenPlugin):
            agent = None
        names = {command.name for command in own}
        return CommandChoices(
            own
            + [command for command in agent_commands(agent, folder, raw_path) if command.name not in names]
        )

    async def _make(self, request: Request) -> Response:
        body = await read_body(request, NewWorktree)
        return json_response(await asyncio.to_thread(self._made, body), 201)

    async def _remove(self, request: Request) -> Response:
        body = await read_body(request, RemovedWorktree)
        await asyncio.to_thread(self._removed, body)
        return Response(status_code=204)

    def _sessions(self) -> list[Metadata]:
        return self._store.find(Query(limit=_RECENT_SESSIONS))

    def _bounds(self, sessions: list[Metadata]) -> Bounds:
        return Bounds(("~", self._cwd, worktrees_directory(), *(session.cwd for session in sessions)))

    def _folder_of(self, request: Request) -> str:
        """That of the session that is named, else the folder that is named, else the server's."""
        log_id, cwd = request.query_params.get("session", ""), request.query_params.get("cwd", "")
        if log_id:
            cwd = self._store.metadata(log_id).cwd
        return self._checked(cwd)

    def _checked(self, cwd: str) -> str:
        return self._bounds(self._sessions()).checked(cwd or self._cwd)

    def _recent(self) -> ProjectList:
        """The folders of the latest sessions, and the server's own."""
        folders: dict[str, list[Metadata]] = {}
        for session in self._sessions():
            if session.cwd and not is_made_by_us(session.cwd):
                folders.setdefault(session.cwd, []).append(session)
        folders.setdefault(self._cwd, [])
        folders_shown = [*folders.items()][:_MOST_PROJECTS]
        return ProjectList(
            projects=[self._data(cwd, sessions) for cwd, sessions in folders_shown if os.path.isdir(cwd)]
        )

    def _data(self, cwd: str, sessions: list[Metadata]) -> ProjectData:
        place = self._places.of(cwd)
        return ProjectData(
            folder=cwd,
            name=place.project.name or os.path.basename(cwd) or cwd,
            branch=place.branch,
            is_repository=bool(place.branch) or os.path.lexists(os.path.join(place.project.root, ".git")),
            used_ms=max((session.updated_ms for session in sessions), default=0),
            live_agents=[session.agent or session.agent_name for session in sessions if is_active(session)],
        )

    def _described(self, folder: str) -> ProjectData:
        sessions = self._sessions()
        place = self._bounds(sessions).checked(folder or self._cwd)
        data = self._data(place, [session for session in sessions if session.cwd == place])
        repository = find_repository(place)
        if repository is None:
            return data
        with suppress(GitFailed):
            changed = len(repository.changed(repository.head()))
            return msgspec.structs.replace(data, changed=changed)
        return data

    def _listed(self, path: str) -> FolderList:
        bounds = self._bounds(self._sessions())
        place = bounds.checked(path or self._cwd)
        folders, has_more = folders_in(place)
        data: dict[str, Any] = {
            "path": place,
            "above": bounds.above(place),
            "folders": [
                {"name": folder.name, "path": folder.path, "isProject": folder.is_project}
                for folder in folders
            ],
            "hasMore": has_more,
            "roots": [root for root in bounds.roots if os.path.isdir(root)],
        }
        return msgspec.convert(data, FolderList)

    def _made(self, body: NewWorktree) -> Worktree:
        folder = self._bounds(self._sessions()).checked(body.folder)
        with _git_as_conflict():
            if body.kind == "branch":
                before = make_branch(folder, body.branch)
                return Worktree(folder=folder, branch=body.branch, base=before)
            base = self._places.of(folder).branch
            return Worktree(folder=make_worktree(folder, body.branch), branch=body.branch, base=base)

    def _removed(self, body: RemovedWorktree) -> None:
        folder = os.path.realpath(body.folder)
        users = [session for session in self._sessions() if session.cwd == folder and is_active(session)]
        if users:
            raise Conflict("an agent works in this worktree", hint="stop it first")
        with _git_as_conflict():
            remove_worktree(folder, is_forced=body.force)


@contextmanager
def _git_as_conflict() -> Iterator[None]:
    try:
        yield
    except NotClean as error:
        raise Conflict(error.message, hint=error.hint) from error
    except GitFailed as error:
        raise UsageError(error.message, hint=error.hint) from error
