"""A log as spans of OpenTelemetry, by its conventions for generative AI: runs, model calls and tool calls.

Rules
1. A top run is a trace; `gen_ai.conversation.id` joins those of a thread. A sub-agent is below the call that started it.
2. A span is complete when `feed` returns it. Ids are hashes of what the log says, so that each export gives the same.
3. Without `StepStart` a model call begins when the run began or the last result came back. It is returned when the
   next one begins or the run ends, because its usage may be reported late. Where a gateway has seen the calls
   (`ModelCall`), those are the spans, and nothing is guessed.
4. What was said, called and answered is in the spans only if `content` is set: else names, times, counts, outcomes.
"""

from __future__ import annotations

import hashlib
import math
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, TypeAlias

import msgspec

from harness.events import (
    Compacted,
    Error,
    Event,
    Message,
    ModelCall,
    ReasoningDelta,
    Relay,
    RelayReply,
    Result,
    Resumed,
    SessionStart,
    StepEnd,
    StepStart,
    Suspended,
    TextDelta,
    ThreadCreated,
    ToolEnd,
    ToolInputDelta,
    ToolStart,
    UsageDelta,
    Warning,
)
from harness.events.operation import Command, Operation, Read, Skill
from harness.folds.standards import vocabulary
from harness.formatting.json_text import compact
from harness.log.run_tree import RunNode, RunTree

INTERNAL, CLIENT = 1, 3
_PROVIDERS = (
    *(("claude", "anthropic"), ("gpt", "openai"), ("o1", "openai"), ("o3", "openai"), ("o4", "openai")),
    *(("codex", "openai"), ("gemini", "gcp.gemini"), ("grok", "x_ai"), ("mistral", "mistral_ai")),
    ("deepseek", "deepseek"),
)
_NOT_PLAIN = frozenset("|&;<>$`(){}\n*?~!#")
_NOTICE_FIELDS = ("message", "code", "kind", "id", "by", "approved", "trigger", "tool_name")
_MESSAGE_FIELDS = frozenset(("message",))
"""What a notice says is content."""


class TraceSpan(msgspec.Struct, gc=False):
    trace: str
    """Hexadecimal, 16 bytes."""
    id: str
    """Hexadecimal, 8 bytes."""
    parent: str
    name: str
    kind: int
    start_ms: int
    end_ms: int
    attributes: dict[str, Any]
    events: list[tuple[int, str, dict[str, Any]]] = []
    error: str = ""


class _Run(msgspec.Struct, gc=False):
    span: TraceSpan
    model: str = ""
    since_ms: int = 0
    """When the model could begin to answer."""
    usage: dict[str, Any] = {}
    chat: TraceSpan | None = None
    is_answering: bool = False
    """Whether the model call is going on; else it only waits for its usage."""
    is_measured: bool = False
    """Whether a gateway says which model calls there are, in this run and those below it."""


_Handler: TypeAlias = "Callable[[SpanFold, Any, _Run], None]"


class SpanFold:
    def __init__(self, *, content: bool = False, trace: str = "", parent: str = "") -> None:
        """`trace`, `parent`: of the span, recorded elsewhere, in which all of this happens."""
        self._has_content = content
        self._trace, self._parent = trace, parent
        self._tree = RunTree()
        self._runs: dict[str, _Run] = {}
        self._calls: dict[tuple[str, str], TraceSpan] = {}
        self._turns: dict[str, int] = {}
        """How often a run of this id has begun again: each time is another span."""
        self._conversation = ""
        self._out: list[TraceSpan] = []

    def feed(self, event: Event, /) -> Sequence[TraceSpan]:
        kind = type(event)
        if kind in vocabulary.PROGRAMS:
            event = vocabulary.as_call(event)
            kind = type(event)
        tree = self._tree
        node = tree.feed(event)
        if kind is ThreadCreated and isinstance(event, ThreadCreated):
            self._conversation = event.id
        handler = self._HANDLERS.get(kind)
        run = self._runs.get(node.id)
        if handler is not None or tree.began:
            run = self._run(event, node, run)
        if run is not None and handler is not None:
            self._name_session(event, run)
            handler(self, event, run)
            run.span.end_ms = max(run.span.end_ms, event.timestamp_ms)
        for run_at_end in tree.ended:
            self._end_run(event, run_at_end)
        if not self._out:
            return ()
        out, self._out = self._out, []
        return out

    def finish(self) -> Sequence[TraceSpan]:
        """What the log does not end."""
        for call in self._calls.values():
            call.attributes["harness.outcome"] = "unfinished"
            self._out.append(call)
        for run in reversed(self._runs.values()):
            self._end_chat(run)
            run.span.attributes |= {**run.usage, "harness.outcome": "unfinished"}
            self._out.append(run.span)
        self._calls, self._runs = {}, {}
        out, self._out = self._out, []
        return out

    # Runs

    def _run(self, event: Event, node: RunNode, run: _Run | None) -> _Run | None:
        if run is not None:
            return run
        if node.status == "ended" and not self._tree.ended:
            return None  # it speaks after its end
        above = self._runs.get(node.parent) or (self._runs.get(self._tree.latest) if node.depth else None)
        if (node.depth and above is None) or not (node.depth or node.top):
            return None
        call = self._calls.get((node.parent, node.call_id))
        start = node.start
        name = (start and (start.name or start.agent)) or "agent"
        turn = self._turns[node.id] = self._turns.get(node.id, -1) + 1
        own = ids_of_run(node.id, turn)
        trace = above.span.trace if above else self._trace or own.trace
        parent = call.id if call else above.span.id if above else self._parent
        span = self._span(
            *(event, trace, own.span, parent),
            f"invoke_agent {name}",
            {
                "gen_ai.operation.name": "invoke_agent",
                "gen_ai.provider.name": "harness",
                "gen_ai.agent.name": name,
                "gen_ai.agent.id": node.id,
                "gen_ai.conversation.id": self._conversation,
                "session.id": self._conversation,
                "openinference.span.kind": "AGENT",
            },
        )
        is_measured = above is not None and above.is_measured
        run = _Run(span, since_ms=max(0, event.timestamp_ms), is_measured=is_measured)
        self._runs[node.id] = run
        return run

    def _name_session(self, event: Event, run: _Run) -> None:
        if event.session_id and "gen_ai.conversation.id" not in run.span.attributes:
            run.span.attributes["gen_ai.conversation.id"] = event.session_id
            run.span.attributes["session.id"] = event.session_id

    def _end_run(self, event: Event, node: RunNode) -> None:
        run = self._runs.pop(node.id, None)
        if run is None:
            return
        self._end_chat(run)
        for key in [call_key for call_key in self._calls if call_key[0] == node.id]:
            call = self._calls.pop(key)
            call.end_ms = max(call.start_ms, event.timestamp_ms)
            call.attributes["harness.outcome"] = "unfinished"
            self._out.append(call)
        span, result = run.span, event if isinstance(event, Result) and event.run_id == node.id else None
        span.attributes |= {**run.usage, "harness.outcome": node.outcome}
        if result is not None:
            span.end_ms = max(span.start_ms, event.timestamp_ms)
        if result is None or not result.success:
            text = result.text if result is not None and self._has_content else ""
            span.error = text or node.outcome or "interrupted"
            span.attributes["error.type"] = node.outcome or "interrupted"
        if result is not None and self._has_content and result.text:
            span.attributes["output.value"] = result.text
        self._out.append(span)

    def _on_start(self, event: SessionStart, run: _Run) -> None:
        about = run.span.attributes
        name = event.name or event.agent
        if name:
            about["gen_ai.agent.name"] = name
            run.span.name = f"invoke_agent {name}"
        if event.version:
            about["gen_ai.agent.version"] = event.version
        if event.model:
            run.model = about["gen_ai.request.model"] = event.model
        about["gen_ai.provider.name"] = _provider(event.model) or event.agent or "harness"

    # Model calls

    def _chat(self, event: Event, run: _Run) -> TraceSpan:
        """The model call that is going on."""
        if run.chat is not None and run.is_answering:
            run.chat.end_ms = max(run.chat.end_ms, event.timestamp_ms)
            return run.chat
        chat = self._new_chat(event, run)
        chat.start_ms = min(chat.end_ms, max(run.since_ms, run.span.start_ms))
        run.is_answering = True
        return chat

    def _new_chat(self, event: Event, run: _Run) -> TraceSpan:
        self._end_chat(run)
        about = run.span.attributes
        run.chat = self._span(
            *(event, run.span.trace, _digest(8, "chat", run.span.id, str(event.seq)), run.span.id),
            f"chat {run.model}".strip(),
            {
                "gen_ai.operation.name": "chat",
                "gen_ai.provider.name": _provider(run.model) or about.get("gen_ai.provider.name"),
                "gen_ai.request.model": run.model,
                "gen_ai.conversation.id": about.get("gen_ai.conversation.id"),
                "gen_ai.agent.name": about.get("gen_ai.agent.name"),
                "openinference.span.kind": "LLM",
                "llm.model_name": run.model,
            },
            CLIENT,
        )
        return run.chat

    def _end_chat(self, run: _Run) -> None:
        if run.chat is not None:
            self._out.append(run.chat)
        run.chat, run.is_answering = None, False

    def _on_model_call(self, event: ModelCall, run: _Run) -> None:
        """What the agent has said of it until now was of this call, if it is the first one."""
        chat = run.chat if run.chat is not None and not run.is_measured else self._new_chat(event, run)
        run.is_measured, run.is_answering = True, False
        chat.end_ms = max(0, event.timestamp_ms)
        chat.start_ms = max(0, chat.end_ms - event.took_ms)
        run.span.start_ms = min(run.span.start_ms, chat.start_ms)  # it may ask before it says that it began
        model = event.asked_model or event.model or run.model
        chat.name = f"chat {model}".strip()
        about = {
            "gen_ai.provider.name": _provider(event.model or model),
            "gen_ai.request.model": model,
            "llm.model_name": model,
            "gen_ai.response.model": event.model,
            "gen_ai.response.finish_reasons": [event.stop_reason] if event.stop_reason else None,
            "gen_ai.response.time_to_first_chunk": event.first_ms / 1000 if event.first_ms else None,
            "http.response.status_code": event.status or None,
            "harness.origin": event.origin if event.origin != "provider" else None,
        }
        chat.attributes |= {name: value for name, value in about.items() if value not in (None, "")}
        is_fine = 200 <= event.status < 300
        why = str(event.status or "no_answer") if not is_fine else "cut" if event.is_cut else ""
        if why:
            chat.error, chat.attributes["error.type"] = "the model call failed", why

    def _on_step(self, event: StepStart, run: _Run) -> None:
        run.since_ms, run.model, run.is_answering = event.timestamp_ms, event.model or run.model, False
        if not run.is_measured:
            self._chat(event, run)

    def _on_step_end(self, event: StepEnd, run: _Run) -> None:
        if run.is_measured:
            return
        chat = self._chat(event, run)
        chat.attributes["gen_ai.response.finish_reasons"] = [event.stop_reason or "unknown"]
        if event.stop_reason == "error":
            chat.error, chat.attributes["error.type"] = "the model call failed", "model_error"
        run.since_ms, run.is_answering = event.timestamp_ms, False

    def _on_piece(self, event: TextDelta | ReasoningDelta | ToolInputDelta, run: _Run) -> None:
        if run.is_measured:
            return
        chat = run.chat
        if chat is not None and run.is_answering and "gen_ai.request.stream" in chat.attributes:
            chat.end_ms = max(chat.end_ms, event.timestamp_ms)
            return
        chat = self._chat(event, run)
        chat.attributes["gen_ai.request.stream"] = True
        first = (event.timestamp_ms - chat.start_ms) / 1000
        chat.attributes["gen_ai.response.time_to_first_chunk"] = max(0.0, first)

    def _on_message(self, event: Message, run: _Run) -> None:
        if event.role == "assistant":
            chat = run.chat if run.is_measured else self._chat(event, run)
            if self._has_content and event.text and chat is not None:
                chat.attributes["output.value"] = event.text
                chat.attributes["gen_ai.output.messages"] = _messages("assistant", event.text, "stop")
            return
        run.is_answering = False
        if event.role == "user":
            run.since_ms = event.timestamp_ms
            if self._has_content:
                run.span.attributes.setdefault("input.value", event.text)
                run.span.attributes.setdefault("gen_ai.input.messages", _messages("user", event.text))

    def _on_usage(self, event: UsageDelta, run: _Run) -> None:
        if event.counted is not None:
            return
        chat = run.chat
        is_taken = chat is not None and not run.is_answering and "gen_ai.response.model" in chat.attributes
        if chat is None or (is_taken and not run.is_measured):
            chat = self._chat(event, run)
        usage, tokens = event.usage, vocabulary.counted_tokens(event.usage)
        counts = {
            "gen_ai.usage.input_tokens": tokens.prompt,
            "gen_ai.usage.output_tokens": tokens.completion,
            "gen_ai.usage.cache_read.input_tokens": usage.cache_read,
            "gen_ai.usage.cache_creation.input_tokens": usage.cache_write,
            "gen_ai.usage.reasoning.output_tokens": usage.reasoning,
            "llm.cost.total": usage.cost_usd,
            "llm.token_count.prompt": tokens.prompt,
            "llm.token_count.completion": tokens.completion,
        }
        for name, count in counts.items():
            if count is not None:
                chat.attributes[name] = chat.attributes.get(name, 0) + count
                run.usage[name] = run.usage.get(name, 0) + count
        model = event.model or run.model
        if model:
            chat.attributes["gen_ai.response.model"] = model
            chat.name = f"chat {chat.attributes.get('gen_ai.request.model') or model}"

    # Calls

    def _on_call(self, event: ToolStart, run: _Run) -> None:
        key = (event.run_id, event.call_id)
        run.is_answering = False
        if key in self._calls:
            return
        name = event.tool_name or "unknown"
        kinds = dict.fromkeys(type(operation).__name__.lower() for operation in event.operations)
        span = self._calls[key] = self._span(
            *(event, run.span.trace, _digest(8, "call", event.run_id, event.call_id, str(event.seq))),
            *(run.span.id, f"execute_tool {name}"),
            {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": name,
                "gen_ai.tool.call.id": event.call_id,
                "gen_ai.tool.type": "extension" if name.startswith("mcp__") else "function",
                "gen_ai.conversation.id": run.span.attributes.get("gen_ai.conversation.id"),
                "openinference.span.kind": "TOOL",
                "tool.name": name,
                "harness.operation": ",".join(kinds),
            },
        )
        span.attributes |= _special(event.operations)
        if self._has_content:
            arguments = compact(event.input)
            span.attributes |= {"gen_ai.tool.call.arguments": arguments, "input.value": arguments}

    def _on_call_end(self, event: ToolEnd, run: _Run) -> None:
        span = self._calls.pop((event.run_id, event.call_id), None)
        if span is None:
            span = self._calls.pop((self._tree.run.parent, event.call_id), None)
        if span is None:
            return
        span.end_ms = max(span.start_ms, event.timestamp_ms)
        run.since_ms, run.is_answering = event.timestamp_ms, False
        span.attributes |= _special(event.operations or ())
        if event.success is False:
            span.error, span.attributes["error.type"] = "the tool has failed", "tool_error"
        if event.exit_code is not None:
            span.attributes["process.exit.code"] = event.exit_code
        if self._has_content and event.output:
            span.attributes |= {"gen_ai.tool.call.result": event.output, "output.value": event.output}
        self._out.append(span)

    def _on_notice(self, event: Event, run: _Run) -> None:
        fields = {
            name: value
            for name in _NOTICE_FIELDS
            if (self._has_content or name not in _MESSAGE_FIELDS)
            and (value := getattr(event, name, None)) not in (None, "")
        }
        run.span.events = [*run.span.events, (max(0, event.timestamp_ms), f"harness.{event.type}", fields)]

    def _span(
        self,
        event: Event,
        trace: str,
        id: str,
        parent: str,
        name: str,
        about: dict[str, Any],
        kind: int = INTERNAL,
    ) -> TraceSpan:
        at_ms = max(0, event.timestamp_ms)
        attributes = {key: value for key, value in about.items() if value not in (None, "")}
        return TraceSpan(trace, id, parent, name, kind, at_ms, at_ms, attributes)

    _HANDLERS: ClassVar[Mapping[type[Event], _Handler]] = {
        SessionStart: _on_start,
        StepStart: _on_step,
        StepEnd: _on_step_end,
        TextDelta: _on_piece,
        ReasoningDelta: _on_piece,
        ToolInputDelta: _on_piece,
        Message: _on_message,
        ModelCall: _on_model_call,
        UsageDelta: _on_usage,
        ToolStart: _on_call,
        ToolEnd: _on_call_end,
        Relay: _on_notice,
        RelayReply: _on_notice,
        Error: _on_notice,
        Warning: _on_notice,
        Compacted: _on_notice,
        Suspended: _on_notice,
        Resumed: _on_notice,
    }


class RunIds(NamedTuple):
    trace: str
    span: str


def ids_of_run(run_id: str, turn: int = 0) -> RunIds:
    """Known before the run begins, so that what it starts can be told of it. The trace: of a top run."""
    again = (str(turn),) if turn else ()
    return RunIds(_digest(16, "trace", run_id, *again), _digest(8, "run", run_id, *again))


def _digest(size: int, *names: str) -> str:
    joined = "\0".join(names).encode("utf-8", "surrogatepass")
    return hashlib.sha256(joined).digest()[:size].hex()


def _provider(model: str) -> str:
    name = model.rsplit("/", 1)[-1].lower()
    provider = next((provider for prefix, provider in _PROVIDERS if name.startswith(prefix)), "")
    return provider or (model.split("/", 1)[0] if "/" in model else "")


def _messages(role: str, text: str, finish_reason: str = "") -> str:
    message: dict[str, Any] = {"role": role, "parts": [{"type": "text", "content": text}]}
    return compact([message | ({"finish_reason": finish_reason} if finish_reason else {})])


def _special(operations: Sequence[Operation]) -> dict[str, Any]:
    """Of the calls that the conventions know more of: a command, a skill, a file of a skill."""
    about: dict[str, Any] = {}
    for operation in operations:
        if isinstance(operation, Command):
            program = _program(operation.command)
            if program:
                about.setdefault("process.executable.name", program)
            if operation.exit_code is not None:
                about.setdefault("process.exit.code", operation.exit_code)
        elif isinstance(operation, Skill):
            about.setdefault("gen_ai.skill.name", operation.name or operation.path)
            if operation.path.startswith("/"):
                about.setdefault("gen_ai.skill.source.uri", f"file://{operation.path}")
        elif isinstance(operation, Read) and "/skills/" in operation.path:
            name, _, resource = operation.path.rpartition("/skills/")[2].partition("/")
            about.setdefault("gen_ai.skill.name", name)
            if resource and resource != "SKILL.md":
                about.setdefault("gen_ai.skill.resource.name", resource)
    return about


def _program(line: str) -> str:
    """The name of the program, of a line that starts exactly one."""
    if _NOT_PLAIN & set(line):
        return ""
    try:
        words = shlex.split(line)
    except ValueError:
        return ""
    return words[0].rsplit("/", 1)[-1] if words and "=" not in words[0] else ""


def is_number(value: Any) -> bool:
    return isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))
