"""The tools of `harness mcp`, as a client is told of them."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]
_TEXT: Schema = {"type": "string"}
_SESSION: Schema = {
    "type": "string",
    "description": "The id of a session: of run_agent, list_sessions or recall",
}
_RESULT: Schema = {
    "type": "object",
    "properties": {
        "session": _TEXT,
        "outcome": {
            "type": "string",
            "description": "completed, failed, waiting (it asks), running, interrupted …",
        },
        "success": {"type": "boolean"},
        "text": {"type": "string", "description": "The answer; what it asks; or how far it is"},
        "question": {"type": "object"},
        "cost_usd": {"type": "number"},
        "files_changed": {"type": "array", "items": _TEXT},
    },
    "required": ["session", "outcome", "success", "text"],
}
_ROWS: Schema = {
    "type": "object",
    "properties": {"sessions": {"type": "array", "items": {"type": "object"}}},
    "required": ["sessions"],
}
_PASSAGES: Schema = {
    "type": "object",
    "properties": {"passages": {"type": "array", "items": {"type": "object"}}},
    "required": ["passages"],
}
_TASK: dict[str, Schema] = {
    "prompt": {
        "type": "string",
        "description": "The whole task: the other agent knows nothing of this conversation",
    },
    "agent": {
        "type": "string",
        "description": "Which agent, such as claude, codex or native; else the user's usual one",
    },
    "cwd": {
        "type": "string",
        "description": "The folder to work in, absolute: the one of this server, which is the usual one, or below it",
    },
    "model": _TEXT,
    "session": {"type": "string", "description": "Continue this session instead of a new one"},
    "max_budget_usd": {"type": "number", "description": "Stop it when it has cost this"},
}
INSTRUCTIONS = (
    "Coding agents as tools. run_agent gives a whole task to another agent and waits; start_agent and wait_agent do the "
    "same for long tasks. When the outcome is `waiting`, answer what it asks with `answer`; what it needs permission for, only your user allows. `recall` finds "
    "what was said and done in past sessions of all agents: look there before you do work again."
)


def _tool(
    name: str,
    description: str,
    properties: dict[str, Schema],
    required: tuple[str, ...],
    output: Schema,
    *,
    reads: bool = False,
) -> Schema:
    return {
        "name": name,
        "description": description,
        "inputSchema": {"type": "object", "properties": properties, "required": list(required)},
        "outputSchema": output,
        "annotations": {"readOnlyHint": reads, "openWorldHint": not reads},
    }


TOOLS: list[Schema] = [
    _tool(
        "run_agent",
        "Give a task to another coding agent and wait for its answer. Everything that it does is recorded.",
        _TASK,
        ("prompt",),
        _RESULT,
    ),
    _tool(
        "start_agent",
        "Begin a task and return at once, with the id of its session. wait_agent waits for it.",
        _TASK,
        ("prompt",),
        _RESULT,
    ),
    _tool(
        "wait_agent",
        "Wait until a session has ended its turn or asks something, for at most `seconds` (50 at most).",
        {"session": _SESSION, "seconds": {"type": "number"}},
        ("session",),
        _RESULT,
    ),
    _tool(
        "answer",
        "Answer what a waiting session asks: the id of one of its options, or a text. What it needs permission for, only your "
        "user allows; you can refuse it.",
        {"session": _SESSION, "answer": _TEXT},
        ("session", "answer"),
        _RESULT,
    ),
    _tool(
        "hand_over",
        "Let another agent continue a session, with all that happened in it.",
        {"session": _SESSION, "agent": _TEXT, "prompt": _TEXT},
        ("session", "agent", "prompt"),
        _RESULT,
    ),
    _tool(
        "list_sessions",
        "The sessions that were changed last, of all agents of this machine.",
        {"limit": {"type": "integer"}, "cwd": {"type": "string", "description": "Only of this folder"}},
        (),
        _ROWS,
        reads=True,
    ),
    _tool(
        "show_session",
        "What was said and done in a session, as text; the last part of a long one.",
        {"session": _SESSION, "most_characters": {"type": "integer"}},
        ("session",),
        {"type": "object", "properties": {"session": _TEXT, "text": _TEXT}, "required": ["session", "text"]},
        reads=True,
    ),
    _tool(
        "recall",
        "Passages of past sessions that contain these words, each with the session and the time that it is from.",
        {
            "query": _TEXT,
            "limit": {"type": "integer"},
            "cwd": {"type": "string", "description": "Only of this folder"},
        },
        ("query",),
        _PASSAGES,
        reads=True,
    ),
]
