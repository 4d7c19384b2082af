"""`/openapi.json`: what the server can be asked, for programs."""

from __future__ import annotations

from typing import Any

import msgspec

from harness.interfaces.server.chat import ChatRequest, RelayRequest
from harness.interfaces.server.login_api import Link, LoggedIn, LoginRequest, Nonce
from harness.interfaces.server.session_data import SessionData
from harness.interfaces.server.sessions_api import Changes, CommandList, NewSession
from harness.version import __version__

_ID = "id"
_CALLS: tuple[tuple[str, str, str, Any, Any, tuple[str, ...]], ...] = (
    # method, path, what it does, what it takes, what it gives, what may be in the query
    ("get", "/api/server", "This server and its defaults", None, None, ()),
    (
        "get",
        "/api/sessions",
        "Sessions, live ones first",
        None,
        list[SessionData],
        ("query", "limit", "offset"),
    ),
    ("post", "/api/sessions", "A new conversation; with a prompt, it runs", NewSession, SessionData, ()),
    ("get", "/api/sessions/{id}", "One session", None, SessionData, ()),
    ("patch", "/api/sessions/{id}", "Give it a title or tags", Changes, SessionData, ()),
    ("delete", "/api/sessions/{id}", "Delete it; 409 while it runs", None, None, ()),
    ("get", "/api/sessions/{id}/state", "Its state, now or as it was", None, None, ("at",)),
    ("get", "/api/sessions/{id}/timeline", "Moments for a slider", None, None, ()),
    ("get", "/api/sessions/{id}/runs", "Its runs", None, None, ()),
    ("get", "/api/sessions/{id}/usage", "Tokens and cost", None, None, ()),
    ("get", "/api/sessions/{id}/calls/{callId}", "Input and output of a call, in full", None, None, ()),
    ("post", "/api/sessions/{id}/commands", "Carry out commands", CommandList, None, ()),
    (
        "get",
        "/api/sessions/{id}/events",
        "Any view as server-sent events; `Last-Event-ID` resumes",
        None,
        None,
        ("view", "follow", "from", "usage", "reasoning", "human"),
    ),
    ("get", "/api/sessions/{id}/object-stream", "State and changes, for assistant-ui", None, None, ()),
    ("get", "/api/agents", "The agents of this machine", None, None, ()),
    ("get", "/api/models", "The models of an agent", None, None, ("agent",)),
    ("get", "/api/usage", "Tokens and cost of all sessions", None, None, ("by", "since")),
    ("get", "/api/login", "Something to prove a key with", None, Nonce, ()),
    ("post", "/api/login", "Let a browser in, by a link's code or its key", LoginRequest, LoggedIn, ()),
    ("delete", "/api/login", "Log this browser out", None, None, ()),
    ("delete", "/api/logins", "Log all browsers out", None, None, ()),
    ("post", "/api/links", "Another link that works once", None, Link, ()),
    ("get", "/models", "Models for /chat", None, None, ()),
    ("post", "/chat", "One answer, as server-sent events", ChatRequest, None, ()),
    ("post", "/chat/relay/{id}", "Answer what a chat asks", RelayRequest, None, ()),
)


def document() -> dict[str, Any]:
    kinds = [kind for call in _CALLS for kind in call[3:5] if kind is not None]
    schemas, components = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    schema_of = {id(kind): schema for kind, schema in zip(kinds, schemas, strict=True)}
    paths: dict[str, dict[str, Any]] = {}
    for method, path, summary, takes, gives, query in _CALLS:
        paths.setdefault(path, {})[method] = _operation(
            path, summary, schema_of.get(id(takes)), schema_of.get(id(gives)), query
        )
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


def _operation(path: str, summary: str, takes: Any, gives: Any, query: tuple[str, ...]) -> dict[str, Any]:
    in_path = [part[1:-1] for part in path.split("/") if part.startswith("{")]
    parameters = [_parameter(name, "path") for name in in_path] + [
        _parameter(name, "query") for name in query
    ]
    answer: dict[str, Any] = {"description": "done"}
    if gives is not None:
        answer["content"] = {"application/json": {"schema": gives}}
    operation: dict[str, Any] = {
        "summary": summary,
        "responses": {"2XX": answer, "4XX": {"description": "`{error: {message, hint}}`"}},
    }
    if parameters:
        operation["parameters"] = parameters
    if takes is not None:
        operation["requestBody"] = {"content": {"application/json": {"schema": takes}}}
    return operation


def _parameter(name: str, place: str) -> dict[str, Any]:
    return {"name": name, "in": place, "required": place == "path", "schema": {"type": "string"}}
