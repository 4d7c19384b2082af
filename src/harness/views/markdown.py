"""The whole run as a Markdown document. What sub-agents do is quoted below the call that started them.

The runs of a thread follow each other; each ends with its result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from harness.events import (
    Error,
    Event,
    Message,
    Result,
    SessionStart,
    ToolEnd,
    ToolStart,
    UsageDelta,
)
from harness.folds.finished import Finished, FinishedFold
from harness.folds.refused_calls import RefusedCalls
from harness.formatting.amounts import OpenUsage, total_line
from harness.formatting.escapes import neutralised, revealed, single_line
from harness.formatting.fences import closed, code_span, fenced, quoted
from harness.formatting.json_text import pretty
from harness.log.run_tree import RunTree
from harness.stage import View, ViewOptions

_MARKS = {True: "ok", False: "fail", None: "unknown"}


class Markdown:
    def __init__(self) -> None:
        self._out: list[str] = []
        self._tree = RunTree()
        self._refused = RefusedCalls()
        self._names: dict[str, str] = {}
        self._speaker = ""
        """The run that the last block belongs to."""
        self._depth: int | None = None
        """How deep the last block is quoted; None before the first."""
        self._finished = FinishedFold(self._tree)
        self._usage = OpenUsage(self._tree)
        self._handlers: dict[type[Event], Callable[[Any], None]] = {
            SessionStart: self._on_start,
            ToolStart: self._on_tool_start,
            ToolEnd: self._on_tool_end,
            UsageDelta: self._usage.add,
            Error: self._on_error,
            Result: self._on_result,
        }

    def feed(self, event: Event, /) -> Sequence[bytes]:
        event = self._refused.seen(event)
        self._tree.feed(event)
        self._write_messages(self._finished.feed(event))
        handler = self._handlers.get(type(event))
        if handler is not None:
            handler(event)
        return self._take()

    def finish(self) -> Sequence[bytes]:
        self._write_messages(self._finished.finish())
        return self._take()

    def _on_start(self, event: SessionStart) -> None:
        if self._tree.run.depth:
            self._names[event.run_id] = event.name or event.agent
            return
        self._speaker = event.run_id
        self._block(event, f"# harness session — {single_line(event.agent)}")
        if event.model:
            self._block(event, f"**Model:** {single_line(event.model)}")
        self._block(event, "---")
        if event.session_id:
            self._block(event, f"**Session:** {single_line(event.session_id)}")

    def _write_messages(self, items: Sequence[Finished]) -> None:
        """Calls are written as they begin and end, reasoning is left out, and a result has its answer itself."""
        for item in items:
            if not isinstance(item, Message) or not item.text:
                continue
            if item is not self._tree.said or item is self._tree.event:
                self._block(item, f"### {item.role.capitalize()}")
                self._block(item, closed(neutralised(item.text)))

    def _on_tool_start(self, event: ToolStart) -> None:
        self._block(event, f"> **Tool:** {_name(event)} ({single_line(event.call_id)})")
        if event.input is not None:
            self._block(event, fenced(revealed(pretty(event.input)), "json"))

    def _on_tool_end(self, event: ToolEnd) -> None:
        mark = _MARKS[event.success]
        exit_code = f", exit code {event.exit_code}" if event.exit_code else ""
        call_id = single_line(event.call_id)
        self._block(event, f"> **Tool done:** {_name(event)} ({call_id}) [{mark}]{exit_code}")
        if event.output:
            self._block(event, fenced(neutralised(event.output)))

    def _on_error(self, event: Error) -> None:
        message = closed(neutralised(f"**Error:** {event.message}"))
        code = f"({single_line(event.code)})" if event.code else ""
        self._block(event, quoted(f"{message}{chr(10) if chr(10) in message else ' '}{code}".rstrip(), 1))

    def _on_result(self, event: Result) -> None:
        if not self._tree.ended:
            return  # the run had ended before
        status = "Success" if event.success else "Error"
        if self._tree.run.depth:
            self._block(event, f"**Result:** {status}")
            return
        self._block(event, "---")
        outcome = "" if event.success else f" ({event.outcome.replace('_', ' ')})"
        self._block(event, f"**Result:** {status}{outcome}")
        if event.text:
            self._block(event, closed(neutralised(event.text)))
        total = total_line(self._usage.settle(event), event.duration_ms)
        if total:
            self._block(event, total)

    def _block(self, event: Event, text: str) -> None:
        depth = self._tree.depth(event.run_id)
        if depth and event.run_id != self._speaker:
            name = single_line(self._names.get(event.run_id, ""))
            self._write(f"**Sub-agent:** {name}".rstrip(), depth)
        self._speaker = event.run_id
        self._write(text, depth)

    def _write(self, block: str, depth: int) -> None:
        if self._depth is not None:
            self._out.append(quoted("", min(depth, self._depth)) + "\n")
        self._depth = depth
        self._out.append(quoted(block, depth) + "\n")

    def _take(self) -> Sequence[bytes]:
        if not self._out:
            return ()
        text = "".join(self._out)
        self._out.clear()
        return (text.encode(),)


def _name(event: ToolStart | ToolEnd) -> str:
    return code_span(single_line(event.tool_name))


def open(options: ViewOptions) -> View:
    del options
    return Markdown()
