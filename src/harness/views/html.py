"""The session as one HTML document, to be read in a browser, stored, printed or passed on.

Rules
1. One file without any outside reference and without scripts: it opens offline, and a policy in it forbids both.
2. Everything that an agent or a tool wrote is escaped.
3. A call is one line that opens to its input and output; what sub-agents do is indented.
4. The last line says how many secrets are masked in it.

`--level talk` leaves out calls, `--level calls` their inputs and outputs; `--hide-names` replaces the names of the home
and the user.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, assert_never

from harness.events import (
    Compacted,
    Error,
    Event,
    Message,
    Operation,
    Result,
    SessionStart,
    ToolEnd,
    ToolStart,
    Usage,
    UsageDelta,
    Warning,
)
from harness.events.operation import Command
from harness.folds.finished import Finished, FinishedCall, FinishedFold, Thought
from harness.folds.refused_calls import RefusedCalls
from harness.formatting.amounts import OpenUsage, duration, money, tokens
from harness.formatting.calls import gist, words
from harness.formatting.escapes import single_line
from harness.formatting.html_text import STYLE, html_of, html_of_markdown
from harness.formatting.json_text import pretty
from harness.log.run_tree import RunTree
from harness.stage import View, ViewOptions

_MASK = "[REDACTED:"
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_LONGEST_TITLE = 120
_SLOW_MS = 1_000


class HtmlDocument:
    def __init__(self) -> None:
        self._out: list[str] = []
        self._tree = RunTree()
        self._refused = RefusedCalls()
        self._names: dict[str, str] = {}
        self._cwd = ""
        self._start: SessionStart | None = None
        """The first one, until the head is written."""
        self._has_head = False
        self._finished = FinishedFold(self._tree)
        self._usage = OpenUsage(self._tree)
        self._masked = 0
        self._handlers: dict[type[Event], Callable[[Any], None]] = {
            SessionStart: self._on_start,
            UsageDelta: self._usage.add,
            Error: self._on_error,
            Warning: self._on_warning,
            Compacted: self._on_compacted,
            Result: self._on_result,
        }

    def feed(self, event: Event, /) -> Sequence[bytes]:
        event = self._refused.seen(event)
        self._tree.feed(event)
        for item in self._finished.feed(event):
            self._write(item)
        handler = self._handlers.get(type(event))
        if handler is not None:
            handler(event)
        return self._take()

    def finish(self) -> Sequence[bytes]:
        for item in self._finished.finish():
            self._write(item)
        self._write_head("")
        secrets = f" · {self._masked} secret{'' if self._masked == 1 else 's'} masked" if self._masked else ""
        self._out.append(
            f"</main>\n<footer>Exported by Harness{secrets or ' · no secrets masked'}</footer>\n"
        )
        self._out.append("</body>\n</html>\n")
        return self._take()

    def _on_start(self, event: SessionStart) -> None:
        if self._tree.run.depth:
            self._names[event.run_id] = event.name or event.agent or "sub-agent"
            return
        self._names[event.run_id] = event.agent or "agent"
        self._cwd = event.cwd or self._cwd
        if not self._has_head:
            self._start = event

    def _write(self, item: Finished) -> None:
        match item:
            case Message():
                self._write_message(item)
            case Thought():
                self._write_thought(item)
            case FinishedCall():
                self._write_call(item.start, item.end)
            case _:
                assert_never(item)

    def _write_message(self, event: Message) -> None:
        attached = [
            part
            for part in event.parts or ()
            if not isinstance(part, dict) or part.get("type") != "tool_call"
        ]
        if not event.text and not attached:
            return
        self._write_head(event.text if event.role == "user" else "")
        is_user = event.role == "user" and not self._tree.depth(event.run_id)
        names = {"assistant": self._name(event), "user": "You" if is_user else "task"}
        name = names.get(event.role, event.role)
        files = f"<p><em>{len(attached)} attached</em></p>" if attached else ""
        who = f'<div class="who"><b>{html_of(name)}</b><span>{_time(event.timestamp_ms)}</span></div>'
        kind = "user" if is_user else "said"
        self._block(event, f'<article class="{kind}">{who}{html_of_markdown(event.text)}{files}</article>')

    def _on_error(self, event: Error) -> None:
        self._block(event, _notice("error", event.message))

    def _on_warning(self, event: Warning) -> None:
        self._block(event, _notice("warning", event.message))

    def _on_compacted(self, event: Compacted) -> None:
        self._block(event, _notice("", "The agent shortened its context."))

    def _on_result(self, event: Result) -> None:
        if self._tree.run.depth or not self._tree.ended:
            return
        usage = self._usage.settle(event)
        outcome = event.outcome.replace("_", " ")
        kind = "completed" if event.success else "failed"
        facts = [f'<span class="outcome {kind}">{html_of(outcome)}</span>']
        facts += [f"<span>{fact}</span>" for fact in _amounts(usage, event)]
        self._block(event, f'<div class="end">{"".join(facts)}</div>')

    def _write_thought(self, thought: Thought) -> None:
        line = '<span class="line"><span class="what">reasoning</span></span>'
        html = f'<details class="thought"><summary>{line}</summary><p>{html_of(thought.text)}</p></details>'
        self._block(Message(role="assistant", text="", run_id=thought.run_id), html)

    def _write_call(self, start: ToolStart, end: ToolEnd | None) -> None:
        operations = start.operations
        if end is not None and end.operations is not None:
            operations = end.operations
        kind = "" if end is None or end.success is None else " ok" if end.success else " failed"
        line = f'<span class="line">{_what(start, operations, self._cwd)}{_mark(start, end)}</span>'
        parts = "".join(_parts(start, end, operations))
        if parts:
            block = f'<details class="call{kind}"><summary>{line}</summary>{parts}</details>'
        else:
            block = f'<div class="call{kind}">{line}</div>'
        self._block(start, block)

    def _name(self, event: Event) -> str:
        return self._names.get(event.run_id, "agent")

    def _block(self, event: Event, html: str) -> None:
        self._write_head("")
        depth = min(2, self._tree.depth(event.run_id))
        if depth:
            html = f'<div class="{"child" if depth == 1 else "child2"}">{html}</div>'
        self._masked += html.count(_MASK)
        self._out.append(f"{html}\n")

    def _write_head(self, prompt: str) -> None:
        if self._has_head:
            return
        self._has_head = True
        start = self._start or SessionStart()
        first = next((line for line in prompt.split("\n") if line.strip()), "")
        title = single_line(first).replace("`", "").strip()[:_LONGEST_TITLE]
        title = title or f"{start.agent or 'Agent'} session"
        facts = {
            "Agent": " ".join(filter(None, (start.agent, start.version))),
            "Model": start.model,
            "Started": _date(start.timestamp_ms),
            "Directory": start.cwd,
            "Session": start.session_id,
        }
        rows = "".join(
            f"<div><dt>{name}</dt><dd>{html_of(single_line(value))}</dd></div>"
            for name, value in facts.items()
            if value
        )
        self._out.append(
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
            '<meta name="referrer" content="no-referrer">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{html_of(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
            f"<header><h1>{html_of(title)}</h1><dl>{rows}</dl></header>\n<main>\n"
        )

    def _take(self) -> Sequence[bytes]:
        if not self._out:
            return ()
        text = "".join(self._out)
        self._out.clear()
        return (text.encode("utf-8", "replace"),)


def _what(start: ToolStart, operations: Sequence[Operation], cwd: str) -> str:
    if not operations:
        arguments = "" if start.input is None else gist(start.input)
        shown_words = [(start.tool_name, arguments)]
    else:
        shown_words = [
            (phrase.verb or "$", phrase.subject) for phrase in (words(each, cwd) for each in operations)
        ]
    lines = [
        f'<span class="verb">{html_of(verb)}</span> {html_of(single_line(subject))}'
        for verb, subject in shown_words
    ]
    return f'<span class="what">{"<br>".join(lines)}</span>'


def _mark(start: ToolStart, end: ToolEnd | None) -> str:
    if end is None:
        return '<span class="mark">no result</span>'
    mark = {True: "✓", False: "✗", None: ""}[end.success]
    code = f" exit {end.exit_code}" if end.exit_code else ""
    took_ms = end.duration_ms
    if took_ms is None:
        took_ms = max(0, end.timestamp_ms - start.timestamp_ms)
    took = f" {duration(took_ms)}" if took_ms >= _SLOW_MS else ""
    return f'<span class="mark">{mark}{code}{took}</span>'


def _parts(start: ToolStart, end: ToolEnd | None, operations: Sequence[Operation]) -> Iterator[str]:
    """Input and output; a command is in the line already."""
    value = start.input
    is_in_line = all(isinstance(each, Command) and "\n" not in each.command for each in operations)
    if value not in (None, {}, "") and not (operations and is_in_line):
        text = value if isinstance(value, str) else pretty(value)
        yield f'<div class="part">input</div><pre>{html_of(text)}</pre>'
    if end is not None and end.output:
        yield f'<div class="part">output</div><pre>{html_of(end.output)}</pre>'


def _notice(kind: str, text: str) -> str:
    return f'<div class="notice {kind}"><p>{html_of(text)}</p></div>'


def _amounts(usage: Usage, event: Result) -> Iterator[str]:
    if event.duration_ms is not None:
        yield duration(event.duration_ms)
    if event.turns:
        yield f"{event.turns} turn{'' if event.turns == 1 else 's'}"
    output = (usage.output or 0) + (usage.reasoning or 0)
    if usage.input or output:
        yield f"{tokens(usage.input or 0)} in / {tokens(output)} out"
    if usage.cost_usd:
        yield money(usage.cost_usd)


def _time(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%H:%M}" if _is_time(at_ms) else ""


def _date(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M} UTC" if _is_time(at_ms) else ""


def _is_time(at_ms: int) -> bool:
    return 0 < at_ms < 2**47


def open(options: ViewOptions) -> View:
    del options
    return HtmlDocument()
