"""The items of a Codex thread that are calls: commands, file changes, tools, searches, sub-agents."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from harness.events import Error, Event, Message, Outcome, Result, SessionStart, Usage, Warning
from harness.events.operation import Fetch, Operation, Spawn, Write
from harness.formats.error_messages import plain
from harness.formats.fields import (
    besides,
    count_of,
    exit_code_of,
    first_text,
    items_of,
    output_of,
    record_of,
    text_of,
)
from harness.formats.shell import operations_of

Item = dict[str, Any]


class CallItem(msgspec.Struct, frozen=True, kw_only=True):
    """One item as a tool call, as far as it is known by now."""

    tool_name: str
    input: Any = None
    operations: list[Operation] = msgspec.field(default_factory=list)
    output: str | None = None
    raw: Any = None


def success_of(item: Item) -> bool | None:
    """By the exit code, else by the status; a few items are written only when they succeeded."""
    code = exit_code_of(item.get("exit_code"))
    if code is not None:
        return code == 0
    default = True if item.get("type") in _ENDED_WITHOUT_STATUS else None
    return _SUCCESS.get(text_of(item.get("status")), default)


_ENDED = ("completed", "failed", "declined", "errored")
_ENDED_WITHOUT_STATUS = frozenset({"file_change", "web_search"})
_SUCCESS = {"completed": True, "failed": False, "declined": False, "errored": False, "in_progress": None}


def _command(item: Item, cwd: str) -> CallItem | None:
    command = _line_of(item.get("command"))
    outputs = (item[name] for name in ("aggregated_output", "output") if item.get(name))
    if not command and ("exit_code" in item or item.get("status") in _ENDED):
        # The command is not stated, but one has run.
        return CallItem(tool_name="shell", output=output_of(next(outputs, "")), raw=item)
    if not command:
        return None
    return CallItem(
        tool_name="shell",
        input={"command": command},
        operations=operations_of(command, cwd),
        output=output_of(next(outputs, "")),
    )


def _line_of(command: Any) -> str:
    """A command as a shell takes it; some formats of Codex have it as a list of words."""
    texts = items_of(command)
    if not texts or not all(isinstance(word, str) for word in texts):
        return text_of(command)
    from shlex import join

    return join(texts)


_CHANGES = {"add": "create", "update": "update", "delete": "delete"}


def _file_change(item: Item, _cwd: str) -> CallItem | None:
    changes = [record_of(change) for change in items_of(item.get("changes"))] or [item]
    writes = [write for change in changes for write in _writes_of(change)]
    if not writes:
        return None
    change_input = {name: item[name] for name in ("changes", "path") if name in item}
    return CallItem(tool_name="file_change", input=change_input, operations=writes)


def _writes_of(change: Item) -> list[Operation]:
    """How a file changed is a word, or an object that also has its new path."""
    path, kind = text_of(change.get("path")), change.get("kind")
    data = record_of(kind) or {"type": kind}
    moved = text_of(data.get("move_path"))
    if path and moved:
        return [Write(path=path, change="move"), Write(path=moved, change="create")]
    return [Write(path=path, change=_CHANGES.get(text_of(data.get("type")), ""))] if path else []


def _mcp_tool_call(item: Item, _cwd: str) -> CallItem:
    """What the tool of an MCP server does is not known."""
    name = "__".join(filter(None, ("mcp", text_of(item.get("server")), text_of(item.get("tool")))))
    return CallItem(tool_name=name, input=item.get("arguments"), output=_mcp_output(item), raw=item)


def _mcp_output(item: Item) -> str | None:
    error, result = item.get("error"), record_of(item.get("result"))
    if error:
        return first_text(record_of(error), "message") or output_of(error)
    if not result:
        return None
    return output_of(result.get("content") or result)


def _web_search(item: Item, _cwd: str) -> CallItem:
    """While it begins, Codex does not say yet what is looked for."""
    query, action = text_of(item.get("query")), record_of(item.get("action"))
    url, queries = text_of(action.get("url")), items_of(action.get("queries"))
    if not url and query.startswith(("http://", "https://")):
        url = query
    if url:
        fetches: list[Operation] = [Fetch(url=url, query=text_of(action.get("pattern")))]
    else:
        searches = dict.fromkeys(text_of(each) for each in [*queries, query] if text_of(each))
        fetches = [Fetch(query=each) for each in searches]
    return CallItem(tool_name="web_search", input={"query": query} if query else None, operations=fetches)


def _collab_tool_call(item: Item, _cwd: str) -> CallItem:
    """Sub-agents: spawned, written to, waited for, closed. Their states are read by `CodexThreads`."""
    name, prompt = text_of(item.get("tool")) or "collab_tool_call", text_of(item.get("prompt"))
    threads = _threads_of(item)
    spawned: list[Operation] = [Spawn(agent_id=thread, task=prompt) for thread in threads or [""]]
    states = record_of(item.get("agents_states")).values()
    texts = [text_of(record_of(state).get("message")) for state in states]
    call_input = {"prompt": prompt, "receiver_thread_ids": threads}
    return CallItem(
        tool_name=name,
        input={key: value for key, value in call_input.items() if value},
        operations=spawned if name == _SPAWN else [],
        output="\n".join(filter(None, texts)) or None,
    )


def _function_call(item: Item, _cwd: str) -> CallItem | None:
    """A call as the model made it: in the sessions that Codex stores, where no other item shows it."""
    name = text_of(item.get("name"))
    return CallItem(tool_name=name, input=item.get("arguments"), output=item.get("output")) if name else None


def _threads_of(item: Item) -> list[str]:
    return [text_of(thread) for thread in items_of(item.get("receiver_thread_ids")) if text_of(thread)]


CALLS: dict[str, Callable[[Item, str], CallItem | None]] = {
    "collab_tool_call": _collab_tool_call,
    "command_execution": _command,
    "file_change": _file_change,
    "function_call": _function_call,
    "mcp_tool_call": _mcp_tool_call,
    "web_search": _web_search,
}
"""Kind of item → the call that it is; None where it lacks what makes it one."""

_SPAWN, _WRITE_TO, _CLOSE = "spawn_agent", "send_input", "close_agent"
_ENDS: dict[str, Outcome] = {
    "completed": "completed",
    "errored": "failed",
    "interrupted": "interrupted",
    "not_found": "interrupted",
    "shutdown": "interrupted",
}


class CodexThreads:
    """Sub-agents as runs of their own, named by their threads.

    In the output of `codex exec` their states are written only when the main agent asks for them. One that is
    written to after its end works again: that is another run of its thread, `<thread>#2`.
    """

    def __init__(self) -> None:
        self._open: dict[str, str] = {}
        self._times: Counter[str] = Counter()
        self._unasked: set[str] = set()
        """Threads whose end was seen in the thread itself: the main agent has not asked for it yet."""

    def run_id(self, thread: str) -> str:
        """The key of a thread's latest run."""
        return self._open.get(thread, thread)

    def opened(self, thread: str, call_id: str) -> list[Event]:
        """Something of the thread itself was seen: it works."""
        return self._begin(thread, call_id, "")

    def ended(self, thread: str, outcome: Outcome, texts: str = "") -> list[Event]:
        """The thread itself says that it has ended its work."""
        if thread not in self._open:
            return []
        self._unasked.add(thread)
        return self._end(thread, outcome, texts)

    def after(self, item: Item, call_id: str) -> tuple[list[Event], list[Operation]]:
        """What a call on sub-agents has led to; nothing if it is no such call."""
        if item.get("type") != "collab_tool_call":
            return [], []
        tool, prompt = item.get("tool"), text_of(item.get("prompt"))
        threads = _threads_of(item)
        if tool in (_SPAWN, _WRITE_TO):
            # The states that come with it are those of before.
            return [event for thread in threads for event in self._begin(thread, call_id, prompt)], []
        events: list[Event] = []
        operations: list[Operation] = []
        states = record_of(item.get("agents_states"))
        for thread in dict.fromkeys([*threads, *states]):
            state = record_of(states.get(thread))
            outcome = _ENDS.get(text_of(state.get("status")))
            if outcome is None and tool == _CLOSE:
                outcome = "interrupted"
            is_asked = thread in self._unasked
            if outcome is None or (thread not in self._open and thread in self._times and not is_asked):
                continue
            self._unasked.discard(thread)
            if not is_asked:
                events.extend(self._begin(thread, call_id, ""))
                events.extend(self._end(thread, outcome, text_of(state.get("message"))))
            action = "completed" if outcome == "completed" else "failed"
            operations.append(Spawn(agent_id=thread, action=action))
        return events, operations

    def _begin(self, thread: str, call_id: str, prompt: str) -> list[Event]:
        if thread in self._open:
            return []
        self._times[thread] += 1
        times = self._times[thread]
        run_id = self._open[thread] = thread if times == 1 else f"{thread}#{times}"
        start = SessionStart(run_id=run_id, parent_id=call_id, session_id=thread, agent="codex")
        return [start, Message(role="user", text=prompt, run_id=run_id)] if prompt else [start]

    def _end(self, thread: str, outcome: Outcome, texts: str) -> list[Event]:
        run_id = self._open.pop(thread)
        result = Result(run_id=run_id, success=outcome == "completed", outcome=outcome)
        if outcome == "failed" and texts:
            return [Error(message=plain(texts), code="turn_failed", run_id=run_id), result]
        return [replace(result, text=texts)]


# What Codex shows on stderr, in either of its vocabularies: calls that it refused, above all.


_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_STDIN_NOTICE = re.compile(r"Reading (?:additional input|prompt) from stdin\.\.\.")
_REFUSED_CALL = re.compile(r"\S* *ERROR \S*tools::router: error=(.*)")


def stderr_events(line: str) -> tuple[str, Sequence[Event]]:
    """The rule that takes a line, and its events."""
    line = _ESCAPES.sub("", line).strip()
    if not line or _STDIN_NOTICE.fullmatch(line):
        return "stdin notice" if line else "blank", ()
    refused = _REFUSED_CALL.fullmatch(line)
    if refused is not None:
        return "refused call", [Warning(message=refused[1], code="tool_error")]
    return "stderr", [Warning(message=line, code="stderr")]


# What Codex counts: totals of a thread, in which parts are counted into others.


def usage_of(data: dict[str, Any]) -> Usage:
    """The totals of a thread. Codex counts cached tokens into the input, and reasoning into the output."""
    cached = count_of(data.get("cached_input_tokens"))
    cache_writes = count_of(data.get("cache_write_input_tokens"))
    reasoning = count_of(data.get("reasoning_output_tokens"))
    return Usage(
        input=besides(count_of(data.get("input_tokens")), cached, cache_writes),
        output=besides(count_of(data.get("output_tokens")), reasoning),
        cache_read=cached,
        cache_write=cache_writes,
        reasoning=reasoning,
    )


def includes(total: Usage, earlier: Usage) -> bool:
    """Whether a total includes an earlier one; it starts at zero when the thread does."""
    return all(
        (getattr(total, name) or 0) >= (getattr(earlier, name) or 0)
        for name in ("input", "output", "cache_read", "cache_write", "reasoning")
    )
