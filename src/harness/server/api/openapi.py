"""`/openapi.json`: the routes of the server, with the shapes of requests and responses."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from harness.clients.changes.shapes import (
    ChangeList,
    CommitAnswer,
    FileDiff,
    FileText,
    RevertAnswer,
)
from harness.clients.changes.undo import UndoAnswer, UndoCall
from harness.clients.sessions.model_calls import CallTable, CallText
from harness.fleet.watching import FleetSummary, FleetView
from harness.folds.inbox.row import RowAsk
from harness.server.api import schemas
from harness.server.api.budget import BudgetSettings, LimitChanges
from harness.server.api.changes import (
    CommitRequest,
    Patch,
    RevertRequest,
    UndoableTurns,
    UndoneFiles,
    UndoRequest,
)
from harness.server.api.chat import ChatModelList, ChatRequest, RelayRequest
from harness.server.api.fleets import (
    CaseDetails,
    FleetComparison,
    FleetList,
    ResumeFleet,
    RunDifference,
    StopFleet,
)
from harness.server.api.folder_settings import FolderSettingsData, NewFolderTrust
from harness.server.api.grants import GrantList
from harness.server.api.logins import Link, LoggedIn, LoginRequest, Logins, Nonce
from harness.server.api.model_calls import ForkRequest, StartedFork
from harness.server.api.schemas import SessionData
from harness.server.api.sessions import Changes, CommandList, NewSession
from harness.server.api.workspaces import NewWorktree, RemovedWorktree
from harness.server.live.inbox_socket import AnswerResults, InboxData, ManyAnswers, NotifyTest
from harness.server.machine.notifier import NotifyChoices, NotifySettings
from harness.version import __version__
from harness.views.usage import UsageReport

_ERRORS = {
    400: "The request is malformed, or cannot be carried out",
    401: "The token or credential is missing or wrong",
    403: "Pages of other origins may not ask this",
    404: "There is nothing of that name",
    408: "The body of the request did not arrive in time",
    409: "The state of things does not allow it now",
    413: "The body is too large",
    415: "A request that changes something must be application/json",
    421: "The server does not answer under that name",
    429: "Too many changes at once",
    500: "The log cannot be read or written",
    503: "Too many connections at once",
}
_OF_ALL = (403, 421)
_OF_LOGGED_IN = (401, 403, 421, 500, 503)
_OF_CHANGES = (400, 408, 413, 415, 429)
_NUMBERS = ("limit", "offset", "at", "from", "lines", "context")
_FLAGS = ("hideNames", "follow", "usage", "reasoning", "content", "human", "live", "passages")
_STREAM = schemas.ServerSentEvents
_TEXTS: dict[Any, tuple[str, ...]] = {
    _STREAM: ("text/event-stream",),
    schemas.ExportedSession: ("text/html", "text/markdown"),
}
"""What is no JSON."""
_REFERENCE = "#/components/schemas/"
_PUBLISHED_NAMES = {"ErrorBody": "Error", "UsageTotals": "Bill"}
"""Schemas with another name in the document: generated clients have these names."""


class Endpoint(NamedTuple):
    method: str
    path: str
    summary: str
    gives: Any = None
    takes: Any = None
    status: int = 200
    query: tuple[str, ...] = ()
    errors: tuple[int, ...] = ()
    """Besides those that follow from the method and the path."""
    is_public: bool = False

    @property
    def all_errors(self) -> list[int]:
        all_codes = {*self.errors, *(_OF_ALL if self.is_public else _OF_LOGGED_IN)}
        all_codes |= {*_OF_CHANGES} if self.method != "get" else {400} if self.query else set()
        return sorted(all_codes | ({404} if "{" in self.path else set()))


_ONE = "/api/sessions/{id}"
_FLEET = "/api/fleets/{name}"
ENDPOINTS = (
    Endpoint("get", "/healthz", "Whether the server lives", schemas.Health, is_public=True),
    Endpoint("get", "/readyz", "Whether sessions can be read; 503 when not", schemas.Health, is_public=True),
    Endpoint("get", "/api/login", "Something to prove a key with", Nonce, is_public=True),
    Endpoint(
        "post",
        "/api/login",
        "Let a browser in, by a link's code or by its key",
        LoggedIn,
        LoginRequest,
        errors=(401,),
        is_public=True,
    ),
    Endpoint("delete", "/api/login", "Log this browser out", status=204),
    Endpoint("get", "/api/logins", "The browsers that are logged in", Logins),
    Endpoint("delete", "/api/logins", "Log all browsers out", status=204),
    Endpoint("delete", "/api/logins/{id}", "Log one browser out", status=204),
    Endpoint("get", "/api/grants", "What is always allowed in sessions that live now", GrantList),
    Endpoint("post", "/api/links", "Another link that works once", Link, status=201),
    Endpoint(
        "get", "/api/inbox", "All sessions, those that need a person first", InboxData, query=("limit",)
    ),
    Endpoint(
        "get",
        "/api/sessions/{id}/asks/{ask}",
        "An open question with all that it is about, however long",
        RowAsk,
    ),
    Endpoint(
        "post", "/api/inbox/answers", "Answer several questions, each for itself", AnswerResults, ManyAnswers
    ),
    Endpoint("post", "/api/inbox/notify/test", "Send a notification to every target now", NotifyTest),
    Endpoint("get", "/api/settings/notify", "What is notified, and where to", NotifySettings),
    Endpoint("put", "/api/settings/notify", "Choose what is notified", NotifySettings, NotifyChoices),
    Endpoint("get", "/api/settings/budget", "Limits, and what was spent under them", BudgetSettings),
    Endpoint("put", "/api/settings/budget", "Set limits", BudgetSettings, LimitChanges),
    Endpoint("get", "/api/server", "This server and its defaults", schemas.ServerData),
    Endpoint(
        "get",
        "/api/sessions",
        "Sessions, those that wait or run first; 304 with an `If-None-Match` that still holds",
        schemas.SessionList,
        query=(
            *("query", "file", "command", "commit", "passages"),
            *("agent", "project", "since", "until", "model", "tag", "outcome", "live"),
            *("limit", "offset"),
        ),
    ),
    Endpoint(
        "post",
        "/api/sessions",
        "A new conversation; with a prompt, it runs",
        SessionData,
        NewSession,
        status=201,
        errors=(404, 409),
    ),
    Endpoint("get", _ONE, "One session", SessionData),
    Endpoint(
        "post",
        f"{_ONE}/keep",
        "Copy a session that an agent has stored itself",
        schemas.KeptSession,
        status=201,
        errors=(409,),
    ),
    Endpoint(
        "get",
        f"{_ONE}/hand-over",
        "How another agent would continue it",
        schemas.HandoverOffer,
        query=("to",),
    ),
    Endpoint(
        "get",
        f"{_ONE}/export",
        "It as one document",
        schemas.ExportedSession,
        query=("format", "level", "hideNames"),
    ),
    Endpoint("get", f"{_ONE}/requests", "The model calls that a gateway has recorded", CallTable),
    Endpoint(
        "get",
        f"{_ONE}/requests/{{number}}",
        "What was sent in one of them; `new`: what is new in it",
        CallText,
        query=("new",),
    ),
    Endpoint(
        "post",
        f"{_ONE}/forks",
        "The same run again up to an answer that a gateway has recorded, and from there on by a model",
        StartedFork,
        ForkRequest,
        status=201,
    ),
    Endpoint("patch", _ONE, "Give it a title or tags", SessionData, Changes, errors=(409,)),
    Endpoint("delete", _ONE, "Delete it; 409 while it runs", status=204, errors=(409,)),
    Endpoint("get", f"{_ONE}/state", "Its state, now or as it was", schemas.StateMessage, query=("at",)),
    Endpoint("get", f"{_ONE}/timeline", "Moments for a slider", schemas.Timeline),
    Endpoint("get", f"{_ONE}/runs", "Its runs", schemas.RunList),
    Endpoint("get", f"{_ONE}/usage", "Tokens and cost", UsageReport),
    Endpoint("get", f"{_ONE}/calls/{{callId}}", "Input and output of a call, in full", schemas.CallData),
    Endpoint(
        "post",
        f"{_ONE}/commands",
        "Carry out commands",
        schemas.Nothing,
        CommandList,
        status=202,
        errors=(409,),
    ),
    Endpoint(
        "get",
        f"{_ONE}/events",
        "Any view as server-sent events; `Last-Event-ID` resumes",
        _STREAM,
        query=("view", "follow", "from", "usage", "reasoning", "content", "human"),
    ),
    Endpoint("get", f"{_ONE}/object-stream", "State and changes, for assistant-ui", _STREAM),
    Endpoint(
        "get",
        f"{_ONE}/changes",
        "The files that it changed",
        ChangeList,
        query=("scope",),
        errors=(409,),
    ),
    Endpoint(
        "get",
        f"{_ONE}/changes/file",
        "The diff of one of them",
        FileDiff,
        query=("scope", "path", "from", "lines", "context", "spaces"),
        errors=(409,),
    ),
    Endpoint(
        "get", f"{_ONE}/file", "A file of its folder as it is now", FileText, query=("path", "from", "lines")
    ),
    Endpoint(
        "get", f"{_ONE}/changes/patch", "All of it as a patch", Patch, query=("scope", "path"), errors=(409,)
    ),
    Endpoint(
        "post",
        f"{_ONE}/revert",
        "Take changes back, or say what would go",
        RevertAnswer,
        RevertRequest,
        errors=(409,),
    ),
    Endpoint("post", f"{_ONE}/revert/undo", "Undo that", UndoneFiles, UndoRequest, errors=(409,)),
    Endpoint("post", f"{_ONE}/commit", "Commit files of it", CommitAnswer, CommitRequest, errors=(409,)),
    Endpoint("get", f"{_ONE}/undo", "Its turns, and what can be undone of them", UndoableTurns),
    Endpoint(
        "post",
        f"{_ONE}/undo",
        "Take back what a turn changed, commands included, or say what would go",
        UndoAnswer,
        UndoCall,
        errors=(409,),
    ),
    Endpoint(
        "post", f"{_ONE}/redo", "Bring back what the last undo took", UndoAnswer, UndoCall, errors=(409,)
    ),
    Endpoint("get", "/api/fleets", "All fleets, what changed last first", FleetList),
    Endpoint("get", _FLEET, "Every case of a fleet, and its report", FleetView, errors=(409,)),
    Endpoint(
        "get",
        f"{_FLEET}/compare",
        "Two of its variants, on the tasks that both have",
        FleetComparison,
        query=("a", "b"),
        errors=(409,),
    ),
    Endpoint(
        "get",
        f"{_FLEET}/diff",
        "Where the runs of two cases part",
        RunDifference,
        query=("a", "b"),
        errors=(409,),
    ),
    Endpoint(
        "get",
        f"{_FLEET}/cases/{{case}}",
        "The attempts of a case, and what the agent changed",
        CaseDetails,
        errors=(409,),
    ),
    Endpoint("get", f"{_FLEET}/report.html", "The report as a page that loads nothing", errors=(409,)),
    Endpoint("get", f"{_FLEET}/cases.csv", "One line for each case", errors=(409,)),
    Endpoint("post", f"{_FLEET}/stop", "Start no more cases", FleetSummary, StopFleet, errors=(409,)),
    Endpoint(
        "post", f"{_FLEET}/resume", "Continue it, on this machine", FleetSummary, ResumeFleet, errors=(409,)
    ),
    Endpoint(
        "post", f"{_FLEET}/retry", "Attempt again what ended without a result", FleetSummary, errors=(409,)
    ),
    Endpoint("get", "/api/agents", "The agents of this machine", schemas.AgentList),
    Endpoint("get", "/api/models", "The models of an agent", schemas.ModelList, query=("agent",)),
    Endpoint(
        "get", "/api/histories", "What agents have stored of their own sessions", schemas.StoredHistories
    ),
    Endpoint(
        "post", "/api/demonstration", "A scratch folder for a first look", schemas.Demonstration, status=201
    ),
    Endpoint("get", "/api/projects", "Folders of recent sessions", schemas.ProjectList),
    Endpoint(
        "get",
        "/api/projects/one",
        "One folder, and how many files in it are not committed",
        schemas.ProjectData,
        query=("folder",),
    ),
    Endpoint("get", "/api/folders", "The folders of a folder", schemas.FolderList, query=("path",)),
    Endpoint(
        "get",
        "/api/files",
        "Files whose names resemble a text",
        schemas.FileList,
        query=("query", "session", "cwd"),
        errors=(404,),
    ),
    Endpoint(
        "get",
        "/api/commands",
        "What `/` completes in a prompt",
        schemas.CommandChoices,
        query=("session", "cwd", "agent"),
        errors=(404,),
    ),
    Endpoint(
        "post",
        "/api/worktrees",
        "A worktree or a branch for a run",
        schemas.Worktree,
        NewWorktree,
        status=201,
        errors=(409,),
    ),
    Endpoint(
        "delete",
        "/api/worktrees",
        "Remove a worktree; 409 when something would be lost",
        None,
        RemovedWorktree,
        status=204,
        errors=(409,),
    ),
    Endpoint(
        "get",
        "/api/folder-settings",
        "What a folder brings for an agent, and whether it is trusted",
        FolderSettingsData,
        query=("cwd", "agent"),
    ),
    Endpoint(
        "post",
        "/api/folder-settings",
        "Trust what was shown; 409 when it has changed since",
        FolderSettingsData,
        NewFolderTrust,
        errors=(409,),
    ),
    Endpoint(
        "get",
        "/api/usage",
        "Tokens and cost of all sessions",
        schemas.UsageTotals,
        query=("by", "since", "split", "agent", "project"),
    ),
    Endpoint("get", "/models", "Models for /chat", ChatModelList),
    Endpoint("post", "/chat", "One answer, as server-sent events", _STREAM, ChatRequest),
    Endpoint("post", "/chat/relay/{id}", "Answer what a chat asks", schemas.Done, RelayRequest),
)


def document() -> dict[str, Any]:
    kinds = [kind for call in ENDPOINTS for kind in (call.takes, call.gives) if kind not in (None, *_TEXTS)]
    kinds = list(dict.fromkeys([schemas.ErrorBody, *kinds]))
    all_schemas, components = _schemas(kinds)
    schema_of = dict(zip(kinds, all_schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for call in ENDPOINTS:
        paths.setdefault(call.path, {})[call.method] = _operation(call, schema_of)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Harness", "version": __version__},
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _schemas(kinds: list[Any]) -> tuple[list[Any], dict[str, Any]]:
    """Each schema, and the components that they refer to."""
    text = msgspec.json.encode(msgspec.json.schema_components(kinds, ref_template=f"{_REFERENCE}{{name}}"))
    for name, published in _PUBLISHED_NAMES.items():
        text = text.replace(f'"{name}"'.encode(), f'"{published}"'.encode())
        text = text.replace(f'"{_REFERENCE}{name}"'.encode(), f'"{_REFERENCE}{published}"'.encode())
    own_schemas, components = msgspec.json.decode(text)
    return own_schemas, components


def _operation(call: Endpoint, schema_of: dict[Any, Any]) -> dict[str, Any]:
    in_path = [part[1:-1] for part in call.path.split("/") if part.startswith("{")]
    parameters = [_parameter(name, "path") for name in in_path]
    parameters += [_parameter(name, "query") for name in call.query]
    answer: dict[str, Any] = {"description": call.summary}
    if call.gives in _TEXTS:
        answer["content"] = {kind: {"schema": {"type": "string"}} for kind in _TEXTS[call.gives]}
    elif call.gives is not None:
        answer["content"] = {"application/json": {"schema": schema_of[call.gives]}}
    error = {"content": {"application/json": {"schema": schema_of[schemas.ErrorBody]}}}
    refusals = {str(status): {"description": _ERRORS[status], **error} for status in call.all_errors}
    operation: dict[str, Any] = {
        "summary": call.summary,
        "operationId": _name(call),
        "responses": {str(call.status): answer, **refusals},
    }
    if call.is_public:
        operation["security"] = []
    if parameters:
        operation["parameters"] = parameters
    if call.takes is not None:
        content = {"application/json": {"schema": schema_of[call.takes]}}
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _name(call: Endpoint) -> str:
    """`get-api-sessions-id-state`: what generated clients call it."""
    words = call.path.replace("{", "").replace("}", "").strip("/").split("/")
    return "-".join([call.method, *words])


def _parameter(name: str, place: str) -> dict[str, Any]:
    kind = "integer" if name in _NUMBERS else "boolean" if name in _FLAGS else "string"
    return {"name": name, "in": place, "required": place == "path", "schema": {"type": kind}}
