"""A log as the events of AG-UI 1.0, each a JSON object. A run of AG-UI is a top run, or the part of it up to a question.

Rules
1. A question ends the run with the outcome `interrupt`. What follows the answer is the next run, whose id is that of
   the run with `#2`, `#3` …; what other agents write meanwhile is held back until then.
2. Nothing stays open at the end of a run: texts, thoughts, calls and steps are ended, and sub-agents `suspended`.
3. An id names one thing in the whole log. What repeats an id of the agent's own has its place in the log added to it.
4. A run that is stopped is `cancelled`. A run that has no end in the log ends as RUN_ERROR `harness.unfinished`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, TypeAlias

import msgspec

from harness.events import (
    Compacted,
    Error,
    Event,
    Info,
    Message,
    ReasoningDelta,
    Relay,
    RelayReply,
    Result,
    SessionStart,
    StepEnd,
    StepStart,
    TasksChanged,
    TextDelta,
    ThreadCreated,
    ToolEnd,
    ToolInputDelta,
    ToolProgress,
    ToolStart,
    Unknown,
    Unrecognized,
    UsageDelta,
    Warning,
)
from harness.folds.standards import vocabulary
from harness.formatting.approval import every_call
from harness.formatting.json_text import compact
from harness.log.run_tree import RunNode, RunTree

PROTOCOL = "1.0"
Wire = dict[str, Any]
_REASONS = {"permission": "harness:permission", "plan": "harness:plan"}
_ANYTIME = (Error, Warning, Info, Message, UsageDelta, Compacted)
"""They may come before the run that they belong to."""


class _Item(NamedTuple):
    """An event, with what the tree says about it: it may be told later."""

    event: Event
    run: RunNode
    handler: _Handler
    ended: Sequence[RunNode]
    rest: str | None
    """Of a message: what is not shown of it yet."""
    answer: Message | None
    """Of a result: what nobody has said before."""


_Handler: TypeAlias = "Callable[[AgUiFold, Any, RunNode, list[Wire]], None]"


class AgUiFold:
    def __init__(self) -> None:
        self._tree = RunTree()
        self._thread = self._next_id = ""
        self._top = self._run_id = ""
        self._part = 0
        self._is_live = False
        self._names: set[str] = set()
        self._texts: dict[tuple[str, str], str] = {}
        self._thoughts: dict[str, str] = {}
        self._calls: dict[tuple[str, str], str] = {}
        self._unfinished_calls: dict[str, str] = {}
        """Calls whose arguments are being written, with their run."""
        self._progress: dict[str, str] = {}
        self._steps: dict[str, str] = {}
        self._agents: dict[str, Wire] = {}
        """The sub-agents that are at work, as they were announced."""
        self._usage: dict[str, dict[str, int]] = {}
        self._questions: dict[str, Relay] = {}
        self._waiting: list[_Item] = []
        self._early: list[_Item] = []
        self._rest: str | None = None
        self._answer: Message | None = None

    def name_next(self, thread_id: str, run_id: str) -> None:
        """What the client calls the thread, and the run that begins next."""
        self._thread, self._next_id = thread_id, run_id

    @property
    def open_questions(self) -> Mapping[str, Relay]:
        return self._tree.open_relays

    def feed(self, event: Event, /) -> list[Wire]:
        kind = type(event)
        if kind in vocabulary.PROGRAMS:
            event = vocabulary.as_call(event)
            kind = type(event)
        tree = self._tree
        run = tree.feed(event)
        if kind is ThreadCreated and isinstance(event, ThreadCreated):
            self._thread = self._thread or event.id
        handler = self._HANDLERS.get(kind) if tree.withdrawn is None else AgUiFold._on_withdrawal
        out: list[Wire] = []
        if self._is_live and any(run_at_end.id == self._top != event.run_id for run_at_end in tree.ended):
            out += self._end(event, "interrupted")
        if handler is None:
            return out
        rest = tree.rest(event) if kind is Message and isinstance(event, Message) else None
        item = _Item(event, run, handler, tuple(tree.ended), rest, tree.said if kind is Result else None)
        if self._questions and self._is_held(item):
            return out
        if self._has_begun(item, out):
            if self._waiting and isinstance(event, RelayReply):
                self._take(item, out)
                self._release(out)
            else:
                self._release(out, asks=False)
                self._take(item, out)
        return out

    def finish(self) -> list[Wire]:
        if not self._is_live:
            return []
        self._is_live = False
        message = "the log ends here: the run is still active, or was killed"
        return [{"type": "RUN_ERROR", "message": message, "code": "harness.unfinished"}]

    def _take(self, item: _Item, out: list[Wire]) -> None:
        event, run = item.event, item.run
        if run.depth and run.id not in self._agents and (run.status != "ended" or item.ended):
            out += self._announce(event, run)
        self._rest, self._answer = item.rest, item.answer
        item.handler(self, event, run, out)
        for run_at_end in item.ended:
            result = event if isinstance(event, Result) and run_at_end.id == event.run_id else None
            if run_at_end.depth:
                out += self._end_agent(event, run_at_end.id, result)
            elif run_at_end.id == self._top and self._is_live and result is not None:
                out += self._end(event, result.outcome, result)

    def _release(self, out: list[Wire], *, asks: bool = True) -> None:
        """Tell what was held back, up to the next question that is still open."""
        waiting, self._waiting = self._waiting, []
        answered = {item.event.id for item in waiting if isinstance(item.event, RelayReply)}
        for number, item in enumerate(waiting):
            if isinstance(item.event, Relay) and (item.event.id in answered or not asks):
                continue
            self._take(item, out)
            if not self._is_live:
                self._waiting = waiting[number + 1 :]
                return

    # Runs and their parts

    def _is_held(self, item: _Item) -> bool:
        """Whether the event has to wait for the answer. Answers, and what makes them needless, do not."""
        event, run = item.event, item.run
        if isinstance(event, RelayReply) and event.id in self._questions:
            del self._questions[event.id]
            return False
        top = self._tree.latest if run.depth else run.top
        if top != self._top:
            self._questions.clear()
            self._waiting.clear()
            return False
        if any(run_at_end.id == self._top for run_at_end in item.ended):
            self._questions.clear()
            return False
        self._waiting.append(item)
        return True

    def _has_begun(self, item: _Item, out: list[Wire]) -> bool:
        """Whether there is a run for the event. Begins it."""
        event, run = item.event, item.run
        top = run.top or (self._tree.latest if run.depth else "")
        if self._is_live and (top == self._top or not top):
            return True
        is_late = top == self._top and run.status == "ended" and not item.ended
        is_early = isinstance(event, _ANYTIME)
        if not top or is_late or (isinstance(event, RelayReply) and top != self._top):
            if is_early and not is_late:
                self._early.append(item)
            return False
        if is_early and top not in (self._top, self._tree.latest):
            return False
        if self._is_live:
            out += self._end(event, "interrupted")
        out += self._begin(event, top)
        return True

    def _begin(self, event: Event, top: str) -> list[Wire]:
        before = self._run_id if top == self._top else ""
        self._part = self._part + 1 if before else 1
        if not before:
            self._agents.clear()
        run_id = self._next_id or (top if self._part == 1 else f"{top}#{self._part}")
        self._top, self._run_id, self._next_id, self._is_live = top, self._name(run_id, event), "", True
        self._thread = self._thread or self._tree.log_id or top
        out = [
            self._wire(
                "RUN_STARTED",
                event,
                threadId=self._thread,
                runId=self._run_id,
                protocolVersion=PROTOCOL,
                **({"parentRunId": before} if before else {}),
            )
        ]
        out += [self._wire("SUBAGENT_STARTED", event, **about) for about in self._agents.values()]
        early, self._early = self._early, []
        for item in early:
            item.handler(self, item.event, RunNode(top, top=top), out)
        return out

    def _end(self, event: Event, outcome: str, result: Result | None = None) -> list[Wire]:
        out = self._close(event)
        for run_id in reversed(list(self._agents)):
            out += self._end_agent(event, run_id, None)
        text = result.text if result else ""
        last: Wire = {"threadId": self._thread, "runId": self._run_id}
        kind = "RUN_FINISHED"
        if result is not None and result.success:
            last |= {"result": text, "outcome": {"type": "success"}}
        elif outcome in vocabulary.CANCELLED:
            last |= {"outcome": {"type": "cancelled"}}
        else:
            kind, last = "RUN_ERROR", {"message": text or outcome, "code": outcome}
        out.append(self._wire(kind, event, **last, **self._spent()))
        self._is_live = False
        self._questions.clear()
        self._calls.clear()
        return out

    def _spent(self) -> Wire:
        usage = [{**({"model": model} if model else {}), **counts} for model, counts in self._usage.items()]
        self._usage = {}
        return {"usage": usage} if usage else {}

    def _announce(self, event: Event, run: RunNode) -> list[Wire]:
        start = run.start
        about: Wire = {
            "subagentRunId": run.id,
            "name": (start and (start.name or start.agent)) or "sub-agent",
        }
        call = self._calls.get((run.parent, run.call_id)) if run.call_id else None
        if call:
            about["parentToolCallId"] = call
        if run.parent in self._agents:
            about["parentSubagentRunId"] = run.parent
        self._agents[run.id] = about
        return [self._wire("SUBAGENT_STARTED", event, **about)]

    def _end_agent(self, event: Event, run_id: str, result: Result | None) -> list[Wire]:
        if run_id not in self._agents or not self._is_live:
            return []
        out = self._close(event, run_id)
        for below in [
            agent for agent, about in self._agents.items() if about.get("parentSubagentRunId") == run_id
        ]:
            out += self._end_agent(event, below, None)
        del self._agents[run_id]
        about: Wire = {"subagentRunId": run_id}
        if result is not None and result.success:
            about |= {"result": result.text, "outcome": {"type": "success"}}
            return [*out, self._wire("SUBAGENT_FINISHED", event, **about)]
        outcome = result.outcome if result is not None else "interrupted"
        text = result.text if result is not None else ""
        return [*out, self._wire("SUBAGENT_ERROR", event, **about, message=text or outcome, code=outcome)]

    # Questions

    def _on_relay(self, event: Relay, run: RunNode, out: list[Wire]) -> None:
        self._questions[event.id] = event
        out += self._close(event)
        for run_id in reversed(list(self._agents)):
            asks = {"interruptIds": [event.id]} if run_id == run.id else {}
            paused: Wire = {"type": "suspended", **asks}
            out.append(self._wire("SUBAGENT_FINISHED", event, subagentRunId=run_id, outcome=paused))
        call = self._calls.get((run.id, event.call_id))
        interrupt = {
            "id": event.id,
            "reason": _REASONS.get(event.kind, "input_required"),
            "message": event.question or f"May it use {event.tool_name or 'this tool'}?",
            **({"toolCallId": call} if call else {}),
            **self._sub(run.id),
            "responseSchema": event.resume_schema
            if isinstance(event.resume_schema, dict)
            else _schema(event),
            "metadata": {"harness": _about_question(event)},
        }
        outcome = {"type": "interrupt", "interrupts": [interrupt]}
        last = {"threadId": self._thread, "runId": self._run_id, "outcome": outcome}
        out.append(self._wire("RUN_FINISHED", event, **last, **self._spent()))
        self._is_live = False

    def _on_reply(self, event: RelayReply, run: RunNode, out: list[Wire]) -> None:
        fields = ("id", "approved", "choice", "by", "reason")
        value = vocabulary.without_nothing({field: getattr(event, field) for field in fields})
        out.append(self._say("CUSTOM", event, run, name="harness.RelayReply", value=value))

    # Text and reasoning

    def _on_text(self, event: TextDelta, run: RunNode, out: list[Wire]) -> None:
        if not event.text:
            return
        key = (run.id, event.id)
        name = self._texts.get(key)
        if name is None:
            out += self._quiet(event, run.id)
            name = self._texts[key] = self._name(event.id or f"m{event.seq}", event)
            out.append(self._say("TEXT_MESSAGE_START", event, run, messageId=name, role="assistant"))
        out.append(self._say("TEXT_MESSAGE_CONTENT", event, run, messageId=name, delta=event.text))

    def _on_message(self, event: Message, run: RunNode, out: list[Wire]) -> None:
        name = self._texts.get((run.id, event.id)) if event.role == "assistant" else None
        rest = self._rest
        text = event.text if rest is None else rest
        if name is not None:
            if rest:
                out.append(self._say("TEXT_MESSAGE_CONTENT", event, run, messageId=name, delta=rest))
                text = ""
            out += self._quiet(event, run.id)
        if text:
            out += self._quiet(event, run.id)
            name = self._name(event.id or f"m{event.seq}", event)
            out += [
                self._say("TEXT_MESSAGE_START", event, run, messageId=name, role=event.role),
                self._say("TEXT_MESSAGE_CONTENT", event, run, messageId=name, delta=text),
                self._say("TEXT_MESSAGE_END", event, run, messageId=name),
            ]
        files = [part._asdict() for part in vocabulary.file_parts(event.parts)]
        if files:
            value = {"messageId": name or f"m{event.seq}", "files": files}
            out.append(self._say("CUSTOM", event, run, name="harness.files", value=value))

    def _on_withdrawal(self, event: Any, run: RunNode, out: list[Wire]) -> None:
        name = self._texts.get((run.id, event.id), event.id)
        out += self._quiet(event, run.id)
        value = {"messageId": name}
        out.append(self._say("CUSTOM", event, run, name="harness.text_retracted", value=value))

    def _on_reasoning(self, event: ReasoningDelta, run: RunNode, out: list[Wire]) -> None:
        if not event.text:
            return
        name = self._thoughts.get(run.id)
        if name is None:
            name = self._thoughts[run.id] = self._name(f"r{event.seq}", event)
            out += [
                self._say("REASONING_START", event, run, messageId=name),
                self._say("REASONING_MESSAGE_START", event, run, messageId=name, role="reasoning"),
            ]
        out.append(self._say("REASONING_MESSAGE_CONTENT", event, run, messageId=name, delta=event.text))

    # Calls

    def _on_input(self, event: ToolInputDelta, run: RunNode, out: list[Wire]) -> None:
        name = self._calls.get((run.id, event.call_id))
        if name is None:
            name = self._open_call(event, run, event.call_id, event.tool_name, out)
        if name in self._unfinished_calls and event.text:
            out.append(self._say("TOOL_CALL_ARGS", event, run, toolCallId=name, delta=event.text))

    def _on_start(self, event: ToolStart, run: RunNode, out: list[Wire]) -> None:
        name = self._calls.get((run.id, event.call_id))
        if name is None:
            name = self._open_call(event, run, event.call_id, event.tool_name, out)
            arguments = compact(event.input)
            out.append(self._say("TOOL_CALL_ARGS", event, run, toolCallId=name, delta=arguments))
        if self._unfinished_calls.pop(name, None) is not None:
            out.append(self._say("TOOL_CALL_END", event, run, toolCallId=name))

    def _on_progress(self, event: ToolProgress, run: RunNode, out: list[Wire]) -> None:
        name = self._calls.get((run.id, event.call_id))
        if name is None or not event.text:
            return
        text = (self._progress.get(name, "") + event.text)[-vocabulary.LONGEST_PROGRESS :]
        self._progress[name] = text
        out.append(
            self._say(
                "ACTIVITY_SNAPSHOT",
                event,
                run,
                messageId=f"progress:{name}",
                activityType="harness.tool_progress",
                content={"toolCallId": name, "text": text},
            )
        )

    def _on_end(self, event: ToolEnd, run: RunNode, out: list[Wire]) -> None:
        name = self._calls.pop((run.id, event.call_id), None)
        if name is None:
            name = self._calls.pop((run.parent, event.call_id), None)
        if name is None:  # it began in an earlier part, or its start is not in the log
            name = self._open_call(event, run, event.call_id, event.tool_name, out)
            self._calls.pop((run.id, event.call_id), None)
        if self._unfinished_calls.pop(name, None) is not None:
            out.append(self._say("TOOL_CALL_END", event, run, toolCallId=name))
        self._progress.pop(name, None)
        content = event.output or ""
        about = {"messageId": f"result:{name}", "toolCallId": name, "content": content, "role": "tool"}
        out.append(self._say("TOOL_CALL_RESULT", event, run, **about))

    def _open_call(self, event: Event, run: RunNode, call_id: str, tool_name: str, out: list[Wire]) -> str:
        out += self._quiet(event, run.id)
        name = self._calls[run.id, call_id] = self._name(call_id or f"c{event.seq}", event)
        self._unfinished_calls[name] = run.id
        about = {"toolCallId": name, "toolCallName": tool_name or "unknown"}
        out.append(self._say("TOOL_CALL_START", event, run, **about))
        return name

    # Everything else

    def _on_tasks(self, event: TasksChanged, run: RunNode, out: list[Wire]) -> None:
        content = {"tasks": msgspec.to_builtins(event.tasks)}
        about = {"messageId": f"tasks:{run.id}", "activityType": "harness.tasks", "content": content}
        out.append(self._say("ACTIVITY_SNAPSHOT", event, run, **about))

    def _on_step(self, event: StepStart, run: RunNode, out: list[Wire]) -> None:
        if event.id not in self._steps:
            self._steps[event.id] = run.id
            out.append(self._say("STEP_STARTED", event, run, stepName=event.id))

    def _on_step_end(self, event: StepEnd, run: RunNode, out: list[Wire]) -> None:
        if self._steps.pop(event.id, None) is not None:
            out.append(self._say("STEP_FINISHED", event, run, stepName=event.id))

    def _on_usage(self, event: UsageDelta, run: RunNode, out: list[Wire]) -> None:
        del run, out
        if event.counted is not None:
            return
        usage, tokens = event.usage, vocabulary.counted_tokens(event.usage)
        spent = self._usage.setdefault(event.model, {})
        counts = {
            "inputTokens": tokens.prompt,
            "outputTokens": usage.output,
            "reasoningTokens": usage.reasoning,
            "cachedInputTokens": usage.cache_read,
            "cacheWriteInputTokens": usage.cache_write,
        }
        for name, count in counts.items():
            if count is not None:
                spent[name] = spent.get(name, 0) + count

    def _on_unknown(self, event: Unknown | Unrecognized, run: RunNode, out: list[Wire]) -> None:
        raw = event.raw if isinstance(event, Unknown) else event.unread
        out.append(self._say("RAW", event, run, event=raw, source="harness"))

    def _on_other(self, event: Event, run: RunNode, out: list[Wire]) -> None:
        envelope = ("type", "seq", "timestamp_ms", "run_id", "parent_id", "session_id")
        fields: dict[str, Any] = msgspec.to_builtins(event)
        value = {name: field for name, field in fields.items() if name not in envelope}
        out.append(self._say("CUSTOM", event, run, name=f"harness.{event.type}", value=value))

    def _on_boundary(self, event: Event, run: RunNode, out: list[Wire]) -> None:
        """Starts and results are told as those of the runs."""
        del event
        if self._answer is not None:
            self._on_message(self._answer, run, out)

    # What is open

    def _quiet(self, event: Event, run_id: str | None = None) -> list[Wire]:
        """End the text and the thought that a run is writing; of all runs: None."""
        out: list[Wire] = []
        if self._thoughts:
            for run in [other for other in self._thoughts if run_id in (None, other)]:
                about = {"messageId": self._thoughts.pop(run), **self._sub(run)}
                out.append(self._wire("REASONING_MESSAGE_END", event, **about))
                out.append(self._wire("REASONING_END", event, **about))
        if self._texts:
            for key in [text_key for text_key in self._texts if run_id in (None, text_key[0])]:
                about = {"messageId": self._texts.pop(key), **self._sub(key[0])}
                out.append(self._wire("TEXT_MESSAGE_END", event, **about))
        return out

    def _close(self, event: Event, run_id: str | None = None) -> list[Wire]:
        """The same with calls whose arguments are being written, and steps."""
        out = self._quiet(event, run_id)
        for name in [call for call, run in self._unfinished_calls.items() if run_id in (None, run)]:
            about = {"toolCallId": name, **self._sub(self._unfinished_calls.pop(name))}
            out.append(self._wire("TOOL_CALL_END", event, **about))
        for step in [call for call, run in self._steps.items() if run_id in (None, run)]:
            about = {"stepName": step, **self._sub(self._steps.pop(step))}
            out.append(self._wire("STEP_FINISHED", event, **about))
        return out

    def _name(self, stem: str, event: Event) -> str:
        """An id that names nothing else in this log."""
        name = stem if stem not in self._names else f"{stem}#{event.seq}"
        while name in self._names:
            name += "+"
        self._names.add(name)
        return name

    def _sub(self, run_id: str) -> Wire:
        return {"subagentRunId": run_id} if run_id in self._agents else {}

    def _say(self, kind: str, event: Event, run: RunNode, /, **fields: Any) -> Wire:
        wire = {"type": kind, **fields}
        if event.timestamp_ms >= 0:
            wire["timestamp"] = event.timestamp_ms
        if run.id in self._agents:
            wire["subagentRunId"] = run.id
        return wire

    def _wire(self, kind: str, event: Event, /, **fields: Any) -> Wire:
        wire = {"type": kind, **fields}
        if event.timestamp_ms >= 0:
            wire["timestamp"] = event.timestamp_ms
        return wire

    _HANDLERS: ClassVar[Mapping[type[Event], _Handler]] = {
        TextDelta: _on_text,
        Message: _on_message,
        ReasoningDelta: _on_reasoning,
        ToolInputDelta: _on_input,
        ToolStart: _on_start,
        ToolProgress: _on_progress,
        ToolEnd: _on_end,
        TasksChanged: _on_tasks,
        StepStart: _on_step,
        StepEnd: _on_step_end,
        UsageDelta: _on_usage,
        Relay: _on_relay,
        RelayReply: _on_reply,
        Unknown: _on_unknown,
        Unrecognized: _on_unknown,
        Compacted: _on_other,
        Error: _on_other,
        Warning: _on_other,
        Info: _on_other,
        SessionStart: _on_boundary,
        Result: _on_boundary,
    }


def _schema(event: Relay) -> Wire:
    """Of the answer that a question wants."""
    if event.kind in {"permission", "plan"}:
        choices = [choice.id for choice in event.choices or ()]
        properties: Wire = {"approved": {"type": "boolean"}}
        if choices:
            properties["choice"] = {"type": "string", "enum": choices}
        return {"type": "object", "properties": properties, "required": ["approved"]}
    answer: Wire = {"type": "string"}
    if event.options:
        answer["enum"] = event.options
    return {"type": "object", "properties": {"answer": answer}, "required": ["answer"]}


def _about_question(event: Relay) -> Wire:
    fields = ("tool_name", "input", "choices", "preview", "options", "why", "payload", "subagent")
    about = {field: msgspec.to_builtins(getattr(event, field)) for field in fields}
    return vocabulary.without_nothing({**about, "calls": every_call(event)})
