"""A log as the updates of the Agent Client Protocol: the contents of `session/update`, for version 1 or the draft of 2.

Rules
1. A call has one row: `tool_call` first, then `tool_call_update`. A question about a call that has not begun opens it.
2. Version 1 replaces the content of a row, so the output of a running call is sent whole, up to its last 8,000
   characters; version 2 appends pieces.
3. Neither version has sub-agents: what they say belongs to the row of the call that started them.
4. Paths are absolute; what cannot be made so is left out.
5. Notices and compaction are sent only to a client that has announced that it knows them.
"""

from __future__ import annotations

import difflib
import posixpath
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

from harness.events import (
    Compacted,
    Error,
    Event,
    FileTexts,
    Info,
    Message,
    ModeChanged,
    ReasoningDelta,
    Relay,
    Result,
    SessionStart,
    TasksChanged,
    TextDelta,
    ThreadRenamed,
    ToolEnd,
    ToolProgress,
    ToolStart,
    UsageDelta,
    Warning,
)
from harness.events.operation import (
    Command,
    Fetch,
    List,
    Operation,
    Read,
    Search,
    Skill,
    Spawn,
    Tasks,
    Write,
)
from harness.folds.standards import vocabulary
from harness.log.run_tree import RunNode, RunTree

Update = dict[str, Any]
_KINDS: Mapping[type, str] = {
    Command: "execute",
    Read: "read",
    Skill: "read",
    Write: "edit",
    Search: "search",
    List: "search",
    Fetch: "fetch",
    Spawn: "think",
    Tasks: "think",
}
_CATEGORIES = frozenset(("execute", "edit", "read", "search", "fetch"))
_STOPS = {"interrupted": "cancelled", "cancelled": "cancelled", "limit_exceeded": "max_turn_requests"}
_REASONS = {"length": "max_tokens", "max_tokens": "max_tokens", "refusal": "refusal"}
FAILURES = frozenset(("failed", "timed_out", "stalled", "agent_not_found", "spawn_failed"))
"""Outcomes that are errors of the prompt, not a reason to stop."""
CONTEXT_SIZE = 200_000
"""Of a model whose size is not known."""


class AcpOptions(NamedTuple):
    version: Literal[1, 2] = 1
    tells_prompts: bool = True
    """Also the messages of users: a client that has sent one shows it by itself."""
    notices: bool = False
    compaction: bool = False
    context_size: int = CONTEXT_SIZE


def stop_reason(result: Result) -> str:
    """Why a turn is over, as ACP says it."""
    reason = _REASONS.get(result.stop_reason)
    return reason or _STOPS.get(result.outcome, "end_turn")


_Handler: TypeAlias = "Callable[[AcpFold, Any, RunNode, list[Update]], None]"


class AcpFold:
    def __init__(self, options: AcpOptions | None = None) -> None:
        self.options = options or AcpOptions()
        self._tree = RunTree()
        self._names: set[str] = set()
        self._texts: dict[tuple[str, str], str] = {}
        self._thoughts: dict[str, str] = {}
        self._rows: dict[tuple[str, str], str] = {}
        self._progress: dict[str, str] = {}
        self._cwd = ""
        self._context_tokens = 0
        self._cost: float | None = None
        self._state = "idle"

    @property
    def log_id(self) -> str:
        return self._tree.log_id

    @property
    def open_questions(self) -> Mapping[str, Relay]:
        return self._tree.open_relays

    def is_top(self, event: Event) -> bool:
        """Whether the event, which was fed last, belongs to a top run."""
        run = self._tree.run
        return bool(run.top) and not run.depth and event.run_id == run.id

    def row(self, run_id: str, call_id: str) -> str:
        """The id of the row of a call; the call's own if it has none."""
        return self._rows.get((run_id, call_id), call_id)

    def feed(self, event: Event, /) -> list[Update]:
        kind = type(event)
        if kind in vocabulary.PROGRAMS:
            event = vocabulary.as_call(event)
            kind = type(event)
        run = self._tree.feed(event)
        out: list[Update] = []
        if self.options.version == 2:
            self._follow_state(event, run, out)
        handler = self._HANDLERS.get(kind)
        if handler is not None:
            handler(self, event, run, out)
        if self._tree.withdrawn is not None:
            self._withdraw(self._tree.withdrawn, run, out)
        if kind is Result and isinstance(event, Result) and not run.depth and self._tree.ended:
            self._turn_ended(event, out)
        return out

    def finish(self) -> list[Update]:
        return []

    # The state of version 2

    def _follow_state(self, event: Event, run: RunNode, out: list[Update]) -> None:
        state = self._state
        if run.top and not run.depth and state == "idle" and run.status == "open":
            state = "running"
        if state != "idle":
            state = "requires_action" if self._tree.open_relays else "running"
        if state != self._state and not (isinstance(event, Result) and not run.depth):
            self._state = state
            out.append({"sessionUpdate": "state_update", "state": state})

    def _turn_ended(self, event: Result, out: list[Update]) -> None:
        self._texts.clear()
        self._thoughts.clear()
        if self.options.version == 2 and self._state != "idle":
            self._state = "idle"
            state = {"state": "idle", "stopReason": stop_reason(event)}
            out.append({"sessionUpdate": "state_update", **state})

    # Text and reasoning

    def _on_text(self, event: TextDelta, run: RunNode, out: list[Update]) -> None:
        if event.text:
            out += self._chunk(run, "agent_message_chunk", self._text_name(event, run), event.text)

    def _text_name(self, event: TextDelta | Message, run: RunNode) -> str:
        key = (run.id, event.id)
        name = self._texts.get(key)
        if name is None:
            name = self._texts[key] = self._name(event.id or f"m{event.seq}", event)
        return name

    def _on_message(self, event: Message, run: RunNode, out: list[Update]) -> None:
        if event.role != "assistant":
            if event.role == "user" and self.options.tells_prompts and not run.depth:
                self._prompt(event, out)
            return
        rest = self._tree.rest(event)
        text = event.text if rest is None else rest
        is_streamed = (run.id, event.id) in self._texts
        if is_streamed and rest is None:
            del self._texts[run.id, event.id]
            is_streamed = False
        name = self._text_name(event, run)
        del self._texts[run.id, event.id]
        if text:
            out += self._chunk(run, "agent_message_chunk", name, text)
        files = [] if run.depth else _images(event.parts)
        for block in files:
            out.append({"sessionUpdate": "agent_message_chunk", "content": block, "messageId": name})
        if self.options.version == 2 and is_streamed and not run.depth:
            whole = [*([_text(event.text)] if event.text else []), *files]
            out.append({"sessionUpdate": "agent_message", "messageId": name, "content": whole})

    def _prompt(self, event: Message, out: list[Update]) -> None:
        name = self._name(event.id or f"m{event.seq}", event)
        blocks = [*([_text(event.text)] if event.text else []), *_images(event.parts)]
        out += [
            {"sessionUpdate": "user_message_chunk", "content": block, "messageId": name} for block in blocks
        ]

    def _withdraw(self, stream_id: str, run: RunNode, out: list[Update]) -> None:
        name = self._texts.pop((run.id, stream_id), None)
        if name is not None and self.options.version == 2 and not run.depth:
            out.append({"sessionUpdate": "agent_message", "messageId": name, "content": []})

    def _on_reasoning(self, event: ReasoningDelta, run: RunNode, out: list[Update]) -> None:
        if not event.text:
            return
        name = self._thoughts.get(run.id)
        if name is None:
            name = self._thoughts[run.id] = self._name(f"r{event.seq}", event)
        out += self._chunk(run, "agent_thought_chunk", name, event.text)

    def _chunk(self, run: RunNode, kind: str, name: str, text: str) -> list[Update]:
        if kind == "agent_message_chunk":
            self._thoughts.pop(run.id, None)
        if not run.depth:
            return [{"sessionUpdate": kind, "content": _text(text), "messageId": name}]
        row = self._rows.get((run.parent, run.call_id)) if run.call_id else None
        return self._grow(row, text, _about_child(run)) if row else []

    # Calls

    def _on_start(self, event: ToolStart, run: RunNode, out: list[Update]) -> None:
        self._thoughts.pop(run.id, None)
        about = {
            "title": vocabulary.call_title(event.tool_name, event.operations),
            "kind": _kind(event.operations),
            "status": "in_progress",
            "rawInput": event.input,
            "locations": self._locations(event.operations),
            **_about_child(run),
        }
        self._open_row(event, run, event.call_id, event.tool_name, about, out)

    def _open_row(
        self, event: Event, run: RunNode, call_id: str, tool_name: str, about: Update, out: list[Update]
    ) -> None:
        key = (run.id, call_id)
        is_new = key not in self._rows
        if is_new:
            self._rows[key] = self._name(call_id or f"c{event.seq}", event)
        kind = "tool_call" if is_new and self.options.version == 1 else "tool_call_update"
        names = {"name": tool_name} if tool_name else {}
        out.append({"sessionUpdate": kind, "toolCallId": self._rows[key], **names, **about})

    def _on_progress(self, event: ToolProgress, run: RunNode, out: list[Update]) -> None:
        row = self._rows.get((run.id, event.call_id))
        if row is not None and event.text:
            out += self._grow(row, event.text, {})

    def _grow(self, row: str, text: str, about: Update) -> list[Update]:
        if self.options.version == 2:
            content = {"type": "content", "content": _text(text)}
            kind = "tool_call_content_chunk"
            return [{"sessionUpdate": kind, "toolCallId": row, "content": content, **about}]
        whole = self._progress[row] = (self._progress.get(row, "") + text)[-vocabulary.LONGEST_PROGRESS :]
        content = {"type": "content", "content": _text(whole)}
        return [{"sessionUpdate": "tool_call_update", "toolCallId": row, "content": [content], **about}]

    def _on_end(self, event: ToolEnd, run: RunNode, out: list[Update]) -> None:
        key = (run.id, event.call_id)
        if key not in self._rows:
            key = (run.parent, event.call_id)
        if key not in self._rows:  # its start is not in the log
            key = (run.id, event.call_id)
            about: Update = {"title": event.tool_name or "tool", "kind": "other", "status": "in_progress"}
            self._open_row(event, run, event.call_id, event.tool_name, about, out)
        row = self._rows.pop(key)
        self._progress.pop(row, None)
        output = [_text(event.output)] if event.output else []
        content = [{"type": "content", "content": part} for part in [*output, *_images(event.parts)]]
        raw = {"output": event.output, "exit_code": event.exit_code, "result": event.result}
        update = {
            "sessionUpdate": "tool_call_update",
            "toolCallId": row,
            "status": "failed" if event.success is False else "completed",
            "content": [*self._diffs(event.changes or ()), *content],
            "rawOutput": {name: value for name, value in raw.items() if value is not None},
            **_about_child(run),
        }
        if event.operations:
            update["locations"] = self._locations(event.operations)
        out.append(update)

    def _locations(self, operations: Sequence[Operation]) -> list[Update]:
        locations = []
        for operation in operations:
            path = self._absolute(getattr(operation, "path", ""))
            if path:
                line = getattr(operation, "start_line", None)
                locations.append({"path": path, **({"line": line} if line and line > 0 else {})})
        return locations

    def _absolute(self, path: str) -> str:
        if not path or path.startswith("/"):
            return path
        return posixpath.normpath(posixpath.join(self._cwd, path)) if self._cwd.startswith("/") else ""

    def _diffs(self, changes: Sequence[FileTexts]) -> list[Update]:
        paths = [(path, change) for change in changes if (path := self._absolute(change.path))]
        if self.options.version == 1:
            return [
                {"type": "diff", "path": path, "oldText": change.before, "newText": change.after}
                for path, change in paths
            ]
        return [_patch(path, change) for path, change in paths]

    # Questions

    def _on_relay(self, event: Relay, run: RunNode, out: list[Update]) -> None:
        if event.kind == "permission" and event.call_id and (run.id, event.call_id) not in self._rows:
            about = {
                "title": event.question or event.tool_name or "tool",
                "kind": event.category if event.category in _CATEGORIES else "other",
                "status": "pending",
                "rawInput": event.input,
                **_about_child(run),
            }
            self._open_row(event, run, event.call_id, event.tool_name, about, out)

    # Everything else

    def _on_tasks(self, event: TasksChanged, run: RunNode, out: list[Update]) -> None:
        if run.depth:
            return
        entries = [
            {"content": task.text, "priority": "medium", "status": task.status} for task in event.tasks
        ]
        if self.options.version == 1:
            out.append({"sessionUpdate": "plan", "entries": entries})
        else:
            plan = {"type": "items", "planId": "tasks", "entries": entries}
            out.append({"sessionUpdate": "plan_update", "plan": plan})

    def _on_usage(self, event: UsageDelta, run: RunNode, out: list[Update]) -> None:
        if event.counted is not None:
            return
        usage, tokens = event.usage, vocabulary.counted_tokens(event.usage)
        if usage.cost_usd is not None:
            self._cost = (self._cost or 0.0) + usage.cost_usd
        if run.depth:
            return
        self._context_tokens = (tokens.prompt or 0) + (tokens.completion or 0) or self._context_tokens
        cost = {} if self._cost is None else {"cost": {"amount": self._cost, "currency": "USD"}}
        size = max(self.options.context_size, self._context_tokens)
        out.append({"sessionUpdate": "usage_update", "used": self._context_tokens, "size": size, **cost})

    def _on_title(self, event: ThreadRenamed, run: RunNode, out: list[Update]) -> None:
        del run
        out.append({"sessionUpdate": "session_info_update", "title": event.title})

    def _on_mode(self, event: ModeChanged, run: RunNode, out: list[Update]) -> None:
        del run
        if self.options.version == 1:
            out.append({"sessionUpdate": "current_mode_update", "currentModeId": event.mode_id})

    def _on_compaction(self, event: Compacted, run: RunNode, out: list[Update]) -> None:
        if self.options.compaction and not run.depth:
            name = f"compaction-{event.seq}"
            about = {"compactionId": name, "status": "completed"}
            out.append({"sessionUpdate": "compaction_update", **about})

    def _on_notice(self, event: Error | Warning | Info, run: RunNode, out: list[Update]) -> None:
        del run
        if self.options.notices:
            title = event.message or event.code or event.type
            severity = event.type.lower()
            out.append({"sessionUpdate": "notice", "severity": severity, "title": title})
        elif isinstance(event, Warning) and event.code == "question_lost":  # what to do now has to be seen
            block = {"type": "text", "text": f"\n\n({event.message})"}
            about = {"messageId": f"notice-{event.seq}", "content": block}
            out.append({"sessionUpdate": "agent_message_chunk", **about})

    def _on_session(self, event: SessionStart, run: RunNode, out: list[Update]) -> None:
        del out
        if event.cwd and not run.depth:
            self._cwd = event.cwd

    def _on_result(self, event: Result, run: RunNode, out: list[Update]) -> None:
        answer = self._tree.said
        if answer is not None:
            out += self._chunk(run, "agent_message_chunk", self._name(f"m{event.seq}", event), answer.text)

    def _name(self, stem: str, event: Event) -> str:
        """An id that names nothing else in this log."""
        name = stem if stem not in self._names else f"{stem}#{event.seq}"
        while name in self._names:
            name += "+"
        self._names.add(name)
        return name

    _HANDLERS: ClassVar[Mapping[type[Event], _Handler]] = {
        TextDelta: _on_text,
        Message: _on_message,
        ReasoningDelta: _on_reasoning,
        ToolStart: _on_start,
        ToolProgress: _on_progress,
        ToolEnd: _on_end,
        TasksChanged: _on_tasks,
        UsageDelta: _on_usage,
        Relay: _on_relay,
        ThreadRenamed: _on_title,
        ModeChanged: _on_mode,
        Compacted: _on_compaction,
        Error: _on_notice,
        Warning: _on_notice,
        Info: _on_notice,
        SessionStart: _on_session,
        Result: _on_result,
    }


def _text(text: str) -> Update:
    return {"type": "text", "text": text}


def _images(parts: Sequence[Any] | None) -> list[Update]:
    return [
        {"type": "image", "mimeType": part.media_type, "data": part.data}
        for part in vocabulary.file_parts(parts, "image/")
        if part.data
    ]


def _kind(operations: Sequence[Operation]) -> str:
    return _KINDS.get(type(operations[0]), "other") if operations else "other"


def _about_child(run: RunNode) -> Update:
    if not run.depth:
        return {}
    about = {"runId": run.id, **({"parentToolCallId": run.call_id} if run.call_id else {})}
    return {"_meta": {"harness": about}}


def _patch(path: str, change: FileTexts) -> Update:
    before, after = (change.before or "").split("\n"), change.after.split("\n")
    name = path.lstrip("/")
    lines = list(difflib.unified_diff(before, after, f"a/{name}", f"b/{name}", lineterm=""))
    text = "".join(f"{line}\n" for line in lines)
    operation = "add" if change.before is None else "modify"
    patch = (
        {"patch": {"format": "git_patch", "text": f"diff --git a/{name} b/{name}\n{text}"}} if text else {}
    )
    return {"type": "diff", "changes": [{"operation": operation, "path": path}], **patch}
