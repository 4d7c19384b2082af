"""What the agent did to the machine: one flat event per operation, the same for every agent.

    {"timestamp":"2026-01-01T00:00:00.000Z","sessionId":"…","type":"read","path":"/w/a.py","isSuccess":true}

Rules
1. Operations, never contents: no file's text, no command's output.
2. An operation is emitted when it has ended, so that its success is known; one event per changed path.
3. What has no type here (a web page, a question, an unknown tool) is `unknown`. Only the agent's own to-do list,
   and an answer that it returns as data, are not emitted.

For a person (`human`) the same events are printed one a line, warnings and errors aside.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, assert_never

import msgspec

from harness.events import (
    Error,
    Event,
    Info,
    Message,
    Operation,
    ReasoningDelta,
    Result,
    SessionStart,
    ToolEnd,
    ToolStart,
    Unknown,
    Unrecognized,
    Warning,
)
from harness.events.operation import Command, Fetch, List, Read, Search, Skill, Spawn, Tasks, Write
from harness.folds.refused_calls import RefusedCalls
from harness.log.run_tree import RunTree
from harness.stage import Aside, View, ViewOptions

_encode = msgspec.json.Encoder().encode
Activity = dict[str, Any]


def open(options: ViewOptions) -> View:
    return ActivityLines(options) if options.human else ActivityJson(options)


class ActivityJson:
    """One JSON object a line."""

    def __init__(self, options: ViewOptions) -> None:
        self._fold = Activities(reasoning=options.reasoning)

    def feed(self, event: Event) -> Sequence[bytes]:
        return [_encode(activity) + b"\n" for activity in self._fold.feed(event)]

    def finish(self) -> Sequence[bytes]:
        return [_encode(activity) + b"\n" for activity in self._fold.finish()]


class Activities:
    """Events of a log → activities, as plain data."""

    def __init__(self, *, reasoning: bool = False) -> None:
        self._wants_reasoning = reasoning
        self._session_id = ""
        self._tree = RunTree()
        self._refused = RefusedCalls()
        self._known_spawns: set[str] = set()
        """Calls that spawned, and sub-agents that were spawned: their child runs emit the activity."""
        self._thought = ""
        self._thought_id: tuple[str, str] = ("", "")
        self._last_ms = 0

    def feed(self, event: Event) -> Sequence[Activity]:
        event = self._refused.seen(event)
        self._tree.feed(event)
        thought = self._flush_thought(event) if self._thought else []
        activities = [*thought, *self._translate(event)]
        self._last_ms = event.timestamp_ms
        return self._stamped(activities) if activities else ()

    def finish(self) -> Sequence[Activity]:
        return self._stamped(self._flush_thought(None)) if self._thought else ()

    def _stamped(self, activities: list[Activity]) -> list[Activity]:
        stamp: Activity = {"timestamp": _iso(self._last_ms)}
        if self._session_id:
            stamp["sessionId"] = self._session_id
        return [stamp | activity for activity in activities]

    def _translate(self, event: Event) -> Iterator[Activity]:
        match event:
            case SessionStart():
                yield from self._begun(event)
            case Result():
                yield from self._ended(event)
            case Message(role="assistant", text=text) if text:
                yield {"type": "agent", "message": text}
            case ToolStart():
                yield from self._call(event)
            case ToolEnd():
                yield from self._called(event)
            case Error():
                yield _notice("error", event)
            case Warning():
                yield _notice("warning", event)
            case Unknown():
                yield {"type": "unknown", "raw": event.raw}
            case Unrecognized():
                yield {"type": "unknown", "raw": event.unread}
            case ReasoningDelta():
                self._think(event)
            case Info(session_id=session_id) if session_id:
                self._session_id = session_id
            case _:
                pass

    def _begun(self, event: SessionStart) -> Iterator[Activity]:
        if not self._tree.run.depth:
            # A session id that equals the run's id is ours: the agent has reported none.
            self._session_id = "" if event.session_id == event.run_id else event.session_id
            return
        self._known_spawns |= {event.parent_id, _own_id(event)}
        yield _orchestration("started", _own_id(event), event.name, None)

    def _ended(self, event: Result) -> Iterator[Activity]:
        run = self._tree.run
        start = run.start
        if run.depth and start is not None and run in self._tree.ended:
            action = "completed" if event.success else "failed"
            yield _orchestration(action, _own_id(start), start.name, event.success)

    def _call(self, event: ToolStart) -> Iterator[Activity]:
        if event.raw is not None:
            yield {"type": "unknown", "raw": event.raw}

    def _called(self, event: ToolEnd) -> Iterator[Activity]:
        start = self._tree.call
        operations = event.operations
        if operations is None:
            operations = start.operations if start is not None else []
            if not operations and event.raw is None and (start is None or start.raw is None):
                yield _unclassified(event, start)
        for operation in operations:
            if isinstance(operation, Spawn) and not self._known_spawns.isdisjoint(
                (event.call_id, operation.agent_id)
            ):
                continue  # the child run has more details
            yield from _activity(operation, event, start)
        if event.raw is not None:
            yield {"type": "unknown", "raw": event.raw}

    def _think(self, event: ReasoningDelta) -> None:
        if self._wants_reasoning:
            self._thought_id = (event.run_id, event.id)
            self._thought += event.text

    def _flush_thought(self, event: Event | None) -> list[Activity]:
        if isinstance(event, ReasoningDelta) and (event.run_id, event.id) == self._thought_id:
            return []
        thought, self._thought = self._thought, ""
        return [{"type": "reasoning", "message": thought}]


def _activity(operation: Operation, end: ToolEnd, start: ToolStart | None) -> Iterator[Activity]:
    success = operation.success if operation.success is not None else end.success
    match operation:
        case Command():
            exit_code = operation.exit_code if operation.exit_code is not None else end.exit_code
            yield _present(
                type="command",
                command=operation.command,
                workingDirectory=operation.cwd or None,
                exitCode=exit_code,
                isSuccess=success,
            )
        case Read() | Write():
            kind = "read" if isinstance(operation, Read) else "write"
            lines = {"startLine": operation.start_line, "endLine": operation.end_line}
            yield _present(type=kind, path=operation.path, **lines, isSuccess=success)
        case Search():
            yield _present(
                type="search", query=operation.query, path=operation.path or None, isSuccess=success
            )
        case List():
            yield _present(type="list", path=operation.path or None, isSuccess=success)
        case Skill():
            lines = {"startLine": operation.start_line, "endLine": operation.end_line}
            yield _present(
                type="skill",
                path=operation.path,
                skillName=operation.name or None,
                **lines,
                isSuccess=success,
            )
        case Spawn():
            # A sub-agent without a run of its own, whose call failed, did not start.
            action = "failed" if operation.action == "started" and success is False else operation.action
            yield _orchestration(action, operation.agent_id, operation.name, success)
        case Fetch():
            yield _unclassified(end, start)
        case Tasks():
            return
        case _:
            assert_never(operation)


def _unclassified(end: ToolEnd, start: ToolStart | None) -> Activity:
    return {"type": "unknown", "raw": {"tool": end.tool_name, "input": start.input if start else None}}


def _present(**fields: Any) -> Activity:
    return {name: value for name, value in fields.items() if value is not None}


def _notice(kind: str, event: Error | Warning) -> Activity:
    return _present(type=kind, message=event.message, code=event.code or None)


def _orchestration(action: str, agent_id: str, name: str, success: bool | None) -> Activity:
    return _present(
        type="orchestration",
        action=f"subagent_{action}",
        subagentId=agent_id or None,
        subagentName=name or None,
        isSuccess=success,
    )


def _own_id(start: SessionStart) -> str:
    """The id that the agent itself gives its sub-agent."""
    return start.session_id if start.session_id != start.run_id else start.parent_id


def _iso(timestamp_ms: int) -> str:
    moment = datetime.fromtimestamp(max(timestamp_ms, 0) / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


_MOST_CHARACTERS = 200
_LABELS = {
    "command": "cmd",
    "orchestration": "subagent",
    "unknown": "·",
    "warning": "warn",
    "reasoning": "thought",
}
_COLORS = {"error": "31", "warning": "33", "unknown": "2", "reasoning": "2", "command": "36", "write": "35"}


class ActivityLines:
    """For a person: a label and a summary."""

    def __init__(self, options: ViewOptions) -> None:
        self._fold = Activities(reasoning=options.reasoning)
        self._color = options.color

    def feed(self, event: Event) -> Sequence[bytes]:
        return [self._line(activity) for activity in self._fold.feed(event)]

    def finish(self) -> Sequence[bytes]:
        return [self._line(activity) for activity in self._fold.finish()]

    def _line(self, activity: Activity) -> bytes:
        kind = activity["type"]
        label = f"{_LABELS.get(kind, kind):<7}"
        if self._color and kind in _COLORS:
            label = f"\x1b[{_COLORS[kind]}m{label}\x1b[0m"
        text = f"  {label} {_shortened(_gist(activity))}\n".encode("utf-8", "replace")
        return Aside(text) if kind in ("error", "warning") else text


def _gist(activity: Activity) -> str:
    kind = activity["type"]
    failed = activity.get("isSuccess") is False
    match kind:
        case "command":
            exit_code = activity.get("exitCode")
            note = f" (exit {exit_code})" if exit_code else " (failed)" if failed else ""
            return f"{activity['command']}{note}"
        case "read" | "write":
            return _place(activity) + (" (failed)" if failed else "")
        case "search":
            where = f" in {activity['path']}" if "path" in activity else ""
            return f"{activity['query']}{where}" + (" (failed)" if failed else "")
        case "list":
            return str(activity.get("path", "."))
        case "skill":
            return str(activity.get("skillName") or activity["path"])
        case "orchestration":
            name = activity.get("subagentName") or activity.get("subagentId", "")
            return f"{activity['action'].removeprefix('subagent_')} {name}"
        case "unknown":
            return _encode(activity["raw"]).decode()
        case _:
            return str(activity["message"])


def _place(activity: Activity) -> str:
    start, end = activity.get("startLine"), activity.get("endLine")
    lines = "" if start is None else f":{start}" if end in (None, start) else f":{start}-{end}"
    return f"{activity['path']}{lines}"


def _shortened(text: str) -> str:
    plain = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return plain if len(plain) <= _MOST_CHARACTERS else plain[:_MOST_CHARACTERS] + "…"
