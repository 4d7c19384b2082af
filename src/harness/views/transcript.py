"""A run as a person follows it in a terminal: text as it is streamed, one line per tool call.

The runs of a thread follow each other; each steering event in between is a line.

A call's line is written when the call has ended, or when something begins below it; until then
it is the status line, if the terminal is live.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from harness.events import (
    Compacted,
    Error,
    Event,
    Info,
    Message,
    Parked,
    ReasoningDelta,
    Relay,
    RelayReply,
    ReplInput,
    ReplOutput,
    Result,
    SessionStart,
    Signal,
    TasksChanged,
    TextDelta,
    ToolEnd,
    ToolProgress,
    ToolStart,
    Unknown,
    Unrecognized,
    Usage,
    UsageDelta,
    Warning,
)
from harness.events.operation import Spawn
from harness.folds.changes.call_result import call_result
from harness.folds.refused_calls import RefusedCalls
from harness.formatting.amounts import OpenUsage, age, duration, money, tokens
from harness.formatting.approval import (
    STEERING,
    bounded,
    is_short,
    lines_of,
    preview_data,
    signal_text,
    steering_words,
    title,
)
from harness.formatting.calls import call_lines, described, excerpt, gist, short_directory
from harness.formatting.markdown_lines import MarkdownLines
from harness.formatting.terminal import Page, Segment, Style
from harness.log.run_tree import RunTree
from harness.stage import View, ViewOptions

_PROMPT = "\u276f "
_PROMPT_LINES = 8
_NOTICE_LINES = 8
_ASKED_LINES = 40
_ALL = 10_000
_CHILD_TEXT_LINES = 4
_FAILURE_LINES = 5
_RESULT_LINES = 8
_RESULT_STYLES: dict[str, Style] = {"added": "green", "removed": "red"}
_DEEPEST = 4
"""Sub-agents of sub-agents are indented up to here, so that there is room left to read."""
_TASK_MARKS: dict[str, Segment] = {
    "completed": ("green", "☑ "),
    "in_progress": ("cyan", "▸ "),
    "pending": ("dim", "☐ "),
}
_ENDINGS: dict[str, tuple[Style, str]] = {"completed": ("green", "✓ "), "interrupted": ("yellow", "■ ")}
_BAD_ENDING: tuple[Style, str] = ("red", "✗ ")


class _Call(msgspec.Struct):
    start: ToolStart
    is_shown: bool = False
    progress: str = ""


class Transcript:
    def __init__(self, options: ViewOptions, *, draws_markdown: bool = False) -> None:
        """`draws_markdown`: the answer as it is meant, line by line, instead of as it is written."""
        self._shows_reasoning = options.reasoning
        self._shows_results = options.content
        self._is_live = options.live
        self._page = Page(width=options.width, color=options.color)
        self._markdown = MarkdownLines(self._page.width) if draws_markdown else None
        self._tree = RunTree()
        self._refused = RefusedCalls()
        self._calls: dict[tuple[str, str], _Call] = {}
        self._names: dict[str, str] = {}
        self._tasks: dict[str, dict[str, str]] = {}
        self._cwd = ""
        self._head = ("", "")
        self._block: object = None
        """What the last line is a part of; anything else begins after a blank line."""
        self._speaker = ""
        """The run that the last line belongs to."""
        self._is_thinking = False
        self._failed_run = ""
        """The run of the last error."""
        self._usage = OpenUsage(self._tree)
        self._handlers: dict[type[Event], Callable[[Any], None]] = {
            SessionStart: self._on_start,
            Result: self._on_result,
            Compacted: self._on_compacted,
            Parked: self._on_parked,
            TextDelta: self._on_text_delta,
            ReasoningDelta: self._on_reasoning_delta,
            Message: self._on_message,
            ToolStart: self._on_tool_start,
            ToolProgress: self._on_tool_progress,
            ToolEnd: self._on_tool_end,
            UsageDelta: self._usage.add,
            TasksChanged: self._on_tasks,
            Relay: self._on_relay,
            RelayReply: self._on_relay_reply,
            ReplInput: self._on_repl_input,
            ReplOutput: self._on_repl_output,
            Error: self._on_error,
            Warning: self._on_warning,
            Info: self._on_info,
            Unknown: self._on_unknown,
            Unrecognized: self._on_unrecognized,
            **dict.fromkeys(STEERING, self._on_steering),
        }

    def feed(self, event: Event, /) -> Sequence[bytes]:
        self._is_thinking = False
        event = self._refused.seen(event)
        self._tree.feed(event)
        for run in self._tree.ended:
            self._show_open(run.id)
        if self._tree.withdrawn is not None:
            self._on_withdrawal(event)
        handler = self._handlers.get(type(event))
        if handler is not None:
            handler(event)
        return self._page.take(self._status())

    def finish(self) -> Sequence[bytes]:
        for run_id in dict.fromkeys(run_id for run_id, _ in self._calls):
            self._show_open(run_id)
        self._end_text()
        return self._page.take()

    def _on_start(self, event: SessionStart) -> None:
        if self._tree.run.depth:
            self._on_child_start(event)
            return
        self._cwd = event.cwd
        self._speaker = event.run_id
        details = [event.version, event.model, short_directory(event.cwd)]
        head = (event.agent or "agent", "".join(f" · {detail}" for detail in details if detail))
        if head != self._head:
            self._head = head
            self._begin("head")
            self._page.line(("bold", head[0]), ("dim", head[1]))

    def _on_child_start(self, event: SessionStart) -> None:
        call = next((call for call in self._calls.values() if call.start.call_id == event.parent_id), None)
        spawns = [each for each in call.start.operations if isinstance(each, Spawn)] if call else []
        self._names[event.run_id] = next((spawn.task for spawn in spawns), "") or event.name or "sub-agent"
        if call is not None and not call.is_shown:
            self._show(call, None)
            call.is_shown = True
            self._speaker = event.run_id

    def _on_text_delta(self, event: TextDelta) -> None:
        if self._tree.run.depth:
            return  # several sub-agents may write at once; each message is shown when it is complete
        self._say(("text", event.id), event.text)

    def _on_reasoning_delta(self, event: ReasoningDelta) -> None:
        if self._shows_reasoning and not self._tree.run.depth:
            self._say(("reasoning", event.id), event.text, "dim")
        else:
            self._is_thinking = True

    def _on_withdrawal(self, event: Event) -> None:
        if self._tree.shown is not None and not self._tree.run.depth:
            self._line(
                event, ("yellow", "↺ "), ("dim", "cut off and asked again; the text above is withdrawn")
            )

    def _on_message(self, event: Message) -> None:
        is_top = not self._tree.run.depth
        if event.role == "assistant" and is_top:
            rest = self._tree.rest(event)
            self._say(
                ("text", event.id) if rest is not None else object(), event.text if rest is None else rest
            )
            self._end_text()
        elif event.role == "assistant":
            self._page.block(self._lead(event), "dim", event.text, most=_CHILD_TEXT_LINES)
        elif is_top and event.role == "user":
            self._show_prompt(event.text)
        elif is_top:  # what the model is told besides
            self._notice(event, "· ", "dim", event.text)

    def _on_tool_start(self, event: ToolStart) -> None:
        self._calls[event.run_id, event.call_id] = _Call(event)

    def _on_tool_progress(self, event: ToolProgress) -> None:
        call = self._calls.get((event.run_id, event.call_id))
        if call is not None:
            call.progress = event.text.strip().rpartition("\n")[2]

    def _on_tool_end(self, event: ToolEnd) -> None:
        call = self._calls.pop((event.run_id, event.call_id), None)
        if call is None:
            call = _Call(ToolStart(call_id=event.call_id, tool_name=event.tool_name, run_id=event.run_id))
        if not call.is_shown:
            self._show(call, event)
        if event.success is False and event.output and not self._refused.is_end:  # why is said already
            for line in excerpt(event.output, _FAILURE_LINES):
                self._line(event, ("dim", f"    {line}"))
        elif self._shows_results and event.success is not False and not self._tree.run.depth:
            for kind, text in call_result(call.start, event, _RESULT_LINES):
                self._line(event, (_RESULT_STYLES.get(kind, "dim"), f"    {text}"))

    def _on_tasks(self, event: TasksChanged) -> None:
        before = self._tasks.get(event.run_id, {})
        now = {task.text: task.status for task in event.tasks}
        self._tasks[event.run_id] = dict(now)
        is_same_list = before.keys() == now.keys()
        for text, status in now.items():
            if not is_same_list or before[text] != status:
                style: Style = "dim" if status == "completed" else ""
                self._line(event, _TASK_MARKS[status], (style, text))

    def _on_compacted(self, event: Compacted) -> None:
        sizes = [tokens(size) for size in (event.before_tokens, event.after_tokens) if size is not None]
        detail = f" ({' → '.join(sizes)} tokens)" if sizes else ""
        self._line(event, ("dim", f"↯ context compacted{detail}"))

    def _on_parked(self, event: Parked) -> None:
        window = event.window.name.replace("_", " ")
        what = f"the window {window} is full" if window else "a limit of the provider is reached"
        time_left = age(event.resumes_at_ms - event.timestamp_ms)
        self._line(
            event, ("dim", f"◔ {what}: continues by itself in {time_left} ({event.number} of {event.most})")
        )

    def _on_relay(self, event: Relay) -> None:
        who = f"{event.subagent} asks: " if event.subagent else ""
        if event.kind != "permission" or not (event.tool_name or event.input):
            self._notice(event, "? ", "cyan", f"{who}{event.question}")
            return
        if is_short(event.input) and not event.preview:
            self._notice(event, "? ", "cyan", f"{who}may it call {title(event.tool_name, event.input)}")
            return
        # The arguments stand below, whole: in the title they would stand there twice.
        self._notice(event, "? ", "cyan", f"{who}may it call {title(event.tool_name, None)}")
        lines = lines_of(event.input, preview_data(event))
        text = "\n".join(bounded(lines, _ASKED_LINES))
        self._page.block([*self._lead(event), ("cyan", "  ")], "cyan", text, most=_ALL)

    def _on_relay_reply(self, event: RelayReply) -> None:
        by = "" if event.by == "person" else f" (by {event.by})"
        self._notice(event, "› ", "cyan", f"{_answer_words(event)}{by} {event.reason}")

    def _on_repl_input(self, event: ReplInput) -> None:
        self._notice(event, "» ", "cyan", event.code)

    def _on_repl_output(self, event: ReplOutput) -> None:
        if event.error:
            self._notice(event, "✗ ", "red", event.error)
        elif event.stdout:
            self._notice(event, "  ", "dim", event.stdout)

    def _on_steering(self, event: Event) -> None:
        if isinstance(event, Signal) and event.category == "user":
            self._show_prompt(signal_text(event))
        elif words := steering_words(event):
            self._line(event, ("dim", f"· {words}"))

    def _show_prompt(self, text: str) -> None:
        self._begin(object())
        self._page.block([("cyan", _PROMPT)], "", text, most=_PROMPT_LINES)

    def _on_error(self, event: Error) -> None:
        self._failed_run = event.run_id
        self._notice(event, "✗ ", "red", event.message)

    def _on_warning(self, event: Warning) -> None:
        self._notice(event, "! ", "yellow", event.message)

    def _on_info(self, event: Info) -> None:
        self._notice(event, "· ", "dim", event.message)

    def _on_unknown(self, event: Unknown) -> None:
        self._line(event, ("dim", f"? {event.reason or 'not understood'}: {gist(event.raw)}"))

    def _on_unrecognized(self, event: Unrecognized) -> None:
        kind = (event.unread or {}).get("type", "")
        self._line(event, ("dim", f"? of a newer version: {kind}"))

    def _on_result(self, event: Result) -> None:
        if not self._tree.ended:
            return  # the run had ended before
        mark = _ENDINGS.get(event.outcome, _BAD_ENDING)
        if self._tree.run.depth:
            self._on_child_result(event, mark)
            return
        message = self._tree.said
        text = "" if message is None else message.text
        if not (event.success or self._tree.run.has_spoken or event.run_id == self._failed_run):
            text = event.text
        self._say(object(), text)
        self._begin(object())
        outcome = event.outcome.replace("_", " ")
        self._page.line(
            mark, ("bold", outcome), ("dim", "".join(f" · {fact}" for fact in self._facts(event)))
        )

    def _on_child_result(self, event: Result, mark: Segment) -> None:
        depth = min(self._tree.depth(event.run_id), _DEEPEST)
        facts = [self._names.get(event.run_id, "sub-agent")]
        if not event.success:
            facts.append(event.outcome.replace("_", " "))
        if event.duration_ms:
            facts.append(duration(event.duration_ms))
        self._begin("activity")
        self._page.line(("dim", f"{_bars(depth - 1)}└ "), mark, ("dim", " · ".join(facts)))
        self._speaker = ""

    def _facts(self, event: Result) -> list[str]:
        """The summary of a run that has ended."""
        facts: list[str] = []
        if event.exit_code:
            facts.append(f"exit {event.exit_code}")
        if event.signal is not None:
            facts.append(f"signal {event.signal}")
        if event.duration_ms:
            facts.append(duration(event.duration_ms))
        if event.turns:
            facts.append(f"{event.turns} turn{'' if event.turns == 1 else 's'}")
        facts.extend(_usage_facts(self._usage.settle(event)))
        return facts

    def _show_open(self, run_id: str) -> None:
        """Show the calls that a run has left open."""
        for key in [key for key in self._calls if key[0] == run_id]:
            call = self._calls.pop(key)
            if not call.is_shown:
                self._show(call, None)

    def _show(self, call: _Call, end: ToolEnd | None) -> None:
        for line in call_lines(call.start, end, self._cwd):
            self._line(call.start, *line.lead, tail=line.tail)

    def _notice(self, event: Event, glyph: str, style: Style, message: str) -> None:
        lead = self._lead(event)
        self._page.block([*lead, (style, glyph)], style, message, most=_NOTICE_LINES)

    def _line(self, event: Event, *segments: Segment, tail: Sequence[Segment] = ()) -> None:
        self._page.line(*self._lead(event), *segments, tail=tail)

    def _lead(self, event: Event) -> list[Segment]:
        """Begin a line of activity: returns its lead, after a line that names the run if that is not clear."""
        self._begin("activity")
        run_id = event.run_id
        depth = min(self._tree.depth(run_id), _DEEPEST)
        is_clear = self._speaker == run_id or run_id in self._tree.ancestors(self._speaker)
        if depth and not is_clear:
            name = self._names.get(run_id, "sub-agent")
            self._page.line(("dim", _bars(depth - 1) if depth > 1 else ""), ("dim", f"⇢ {name}"))
        self._speaker = run_id
        return [("dim", _bars(depth))] if depth else []

    def _say(self, block: object, text: str, style: Style = "") -> None:
        if self._block != block:
            text = text.lstrip("\n")
            if not text:
                return
            self._begin(block)
        self._speaker = ""
        if self._markdown is not None and not style:
            self._draw(self._markdown.feed(text))
        else:
            self._page.text(text, style)

    def _draw(self, lines: Sequence[Sequence[Segment]]) -> None:
        for line in lines:
            if line:
                self._page.line(*line)
            else:
                self._page.gap()

    def _end_text(self) -> None:
        if self._markdown is not None:
            self._draw(self._markdown.end())
        self._page.end_text()

    def _begin(self, block: object) -> None:
        if block != self._block:
            self._end_text()
            self._page.gap()
            self._block = block

    def _status(self) -> Sequence[Segment]:
        if not self._is_live:
            return ()
        if self._markdown is not None and self._markdown.pending.strip():
            return (("", self._markdown.pending),)
        if self._is_thinking:
            return (("dim", "⋯ thinking"),)
        if not self._calls:
            return ()
        call = next(reversed(self._calls.values()))
        progress: Segment = ("dim", f" — {call.progress}" if call.progress else "")
        others = len(self._calls) - 1
        return (
            ("dim", "⋯ "),
            *described(call.start, self._cwd),
            progress,
            ("dim", f"  +{others}" if others else ""),
        )


def _answer_words(event: RelayReply) -> str:
    answer = event.answer
    if isinstance(answer, dict):
        if answer.get("action") in ("approved", "rejected"):  # a plan
            feedback = "" if event.reason else gist(answer.get("feedback") or "")
            return f"{answer['action']} {feedback}".rstrip()
        return ", ".join(_choice_words(choice) for choice in answer.values())
    if answer is not None:
        return _choice_words(answer)
    is_always = event.approved and (event.always or event.choice not in ("", "once"))
    return "yes, always" if is_always else "yes" if event.approved else "no"


def _choice_words(answer: Any) -> str:
    return " + ".join(map(str, answer)) if isinstance(answer, list) else str(answer)


def _bars(depth: int) -> str:
    return "  " + "│ " * depth


def _usage_facts(usage: Usage) -> list[str]:
    facts: list[str] = []
    cached = (usage.cache_read or 0) + (usage.cache_write or 0)
    prompt_tokens = (usage.input or 0) + cached
    answer_tokens = (usage.output or 0) + (usage.reasoning or 0)
    if prompt_tokens or answer_tokens:
        share = f" ({tokens(cached)} cached)" if cached else ""
        facts.append(f"{tokens(prompt_tokens)} in{share} / {tokens(answer_tokens)} out")
    if usage.cost_usd:
        facts.append(money(usage.cost_usd))
    return facts


def open(options: ViewOptions) -> View:
    return Transcript(options)
