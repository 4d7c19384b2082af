"""The run as one trajectory in ATIF v1.8, the format of Harbor, as JSON after the end; sub-agents are inside of it.

A step of the agent is a call of its model. Where the log does not say where those begin, a step lasts until a result has
come back and the agent writes again: calls of one message that are reported one after the other are then several
steps. Prompt tokens include what came from the cache,
completion tokens include reasoning. What ATIF has no place for is in `extra`. Where a gateway has recorded the calls of the
model, the tools that it was offered are there, and each step has its calls, each with its request: instructions, options, and
the messages that the request before it in its conversation (`conversation`) did not have.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from harness.events import (
    Compacted,
    Error,
    Event,
    Info,
    Message,
    ModelCall,
    ReasoningDelta,
    Relay,
    RelayReply,
    Result,
    SessionStart,
    StepStart,
    TextDelta,
    ToolEnd,
    ToolStart,
    Unknown,
    UsageDelta,
    Warning,
)
from harness.folds.refused_calls import RefusedCalls
from harness.folds.standards.vocabulary import file_parts
from harness.formatting.json_text import pretty
from harness.log.run_tree import RunNode, RunTree
from harness.stage import ModelInput, ViewOptions

VERSION = "ATIF-v1.8"
_SHOWN = (
    *(SessionStart, Message, TextDelta, ReasoningDelta, ToolStart, ToolEnd, ModelCall, UsageDelta),
    *(Compacted, Error, Warning, Info, Unknown, Relay, RelayReply, StepStart, Result),
)
_IMAGES = frozenset(("image/jpeg", "image/png", "image/gif", "image/webp"))
_AUDIO = frozenset(("wav", "mpeg", "mp4", "aac", "ogg", "flac", "webm", "aiff"))
_AUDIO_NAMES = {"mp3": "mpeg", "m4a": "mp4", "wave": "wav", "vnd.wave": "wav", "aif": "aiff"}
"""Other names of these, without `x-`."""
_OF_CALL = (
    "id",
    "conversation",
    "model",
    "asked_model",
    "status",
    "stop_reason",
    "took_ms",
    "first_ms",
    "origin",
)
_QUESTION = ("id", "kind", "call_id", "tool_name", "question", "approved", "choice", "answer", "by", "reason")


InputReader: TypeAlias = "Callable[[], ModelInput]"


def open(options: ViewOptions) -> AtifView:
    return AtifView(options.model_input)


class AtifView:
    def __init__(self, model_input: InputReader | None = None) -> None:
        self._model_input = model_input
        self._has_model_calls = False
        self._tree = RunTree()
        self._refused = RefusedCalls()
        self._top = _Trajectory()
        self._below: dict[str, _Trajectory] = {}
        """Of the sub-agents, by run."""
        self._latest = ""
        self._is_empty = True

    def feed(self, event: Event, /) -> Sequence[bytes]:
        tree = self._tree
        event = self._refused.seen(event)
        run = tree.feed(event)
        if tree.latest != self._latest or (tree.began and not run.depth):
            self._latest = tree.latest
            self._top.begin(tree.latest)
        if tree.withdrawn is not None:
            self._trajectory(run).withdraw(event, tree.withdrawn)
        elif isinstance(event, _SHOWN):
            self._is_empty = False
            self._has_model_calls = self._has_model_calls or isinstance(event, ModelCall)
            trajectory = self._trajectory(run)
            trajectory.add(event)
            if isinstance(event, Result) and tree.ended and (run.depth or run.id == tree.latest):
                trajectory.end(event, tree.said)
        return ()

    def finish(self) -> Sequence[bytes]:
        if self._is_empty:
            return ()
        model_input = (
            self._model_input() if self._has_model_calls and self._model_input is not None else ModelInput()
        )
        document = self._top.document(model_input.requests)
        if model_input.tools:
            document["agent"]["tool_definitions"] = list(model_input.tools)
        return (f"{pretty(document)}\n".encode(),)

    def _trajectory(self, run: RunNode) -> _Trajectory:
        """All top runs of a thread are one trajectory, a sub-agent is its own."""
        if not run.depth or self._tree.get(run.id) is None:
            return self._top
        trajectory = self._below.get(run.id)
        if trajectory is None:
            trajectory = self._below[run.id] = _Trajectory(run.id, run.call_id)
            self._below.get(run.parent, self._top).children.append(trajectory)
        return trajectory


class _Trajectory:
    def __init__(self, run_id: str = "", parent_call: str = "") -> None:
        self.children: list[_Trajectory] = []
        self.parent_call = parent_call
        self._id = run_id
        self._session = ""
        self._about = SessionStart()
        self._steps: list[dict[str, Any]] = []
        self._calls: dict[str, dict[str, Any]] = {}
        """The step of each call."""
        self._texts: list[str] = []
        self._streams: dict[tuple[str, str], int] = {}
        """The texts that are not complete, by run and id."""
        self._agent_texts: list[tuple[dict[str, Any], list[int], list[Any]]] = []
        """Steps of the agent, with the positions of their texts, and their other parts."""
        self._open: dict[str, Any] | None = None
        self._has_result = False
        self._has_steps = False
        """Whether the log says where the calls of the model begin."""
        self._model_calls: dict[str, ModelCall] = {}
        """Those that a gateway saw. It sees an answer before the agent says what it made of it."""
        self._paid_calls: set[str] = set()
        """Those that are in a step."""
        self._early: list[UsageDelta] = []
        """What they used, of a step that has not begun."""
        self._totals: dict[str, Any] = {}
        self._notices: list[dict[str, Any]] = []
        self._result: Result | None = None

    def begin(self, run_id: str) -> None:
        """A top run begins, or is resumed."""
        self._id = self._id or run_id
        self._open = self._result = None

    def end(self, event: Result, answer: Message | None) -> None:
        if answer is not None:
            self._speak(answer)
        self._result = event

    def withdraw(self, event: Event, stream_id: str) -> None:
        self._session = event.session_id or self._session
        position = self._streams.pop((event.run_id, stream_id), None)
        if position is not None:
            self._texts[position] = ""

    def add(self, event: Event) -> None:
        self._session = event.session_id or self._session
        match event:
            case SessionStart():
                self._about = event if event.agent or not self._about.agent else self._about
            case Message(role="user" | "system"):
                self._step(event, event.role, _content(event.text, event.parts))
                self._open = None
            case Message() | TextDelta():
                self._speak(event)
            case ReasoningDelta():
                step = self._agent_step(event)
                step["reasoning_content"] = step.get("reasoning_content", "") + event.text
            case ToolStart():
                self._call(event)
            case ToolEnd():
                self._call_ended(event)
            case ModelCall():
                self._model_calls[event.id] = event
            case UsageDelta(counted=None):
                self._spend(event)
            case Compacted():
                about = {
                    "trigger": event.trigger,
                    "before_tokens": event.before_tokens,
                    "after_tokens": event.after_tokens,
                }
                step = self._step(event, "system", "context compacted")
                step["extra"] = {"context_management": _lean(about)}
                self._open = None
            case Error():
                step = self._step(event, "system", event.message)
                step["extra"] = _lean({"error": True, "code": event.code})
                self._open = None
            case Warning() | Info():
                level = type(event).__name__.lower()
                self._notices.append(_lean({"level": level, "message": event.message, "code": event.code}))
            case Relay() | RelayReply():
                about = {name: getattr(event, name, None) for name in _QUESTION}
                self._notices.append(_lean({"level": event.type.lower(), **about}))
            case StepStart():
                self._open, self._has_steps = None, True
            case Unknown():
                self._notices.append(_lean({"level": "unknown", "message": event.reason}))
            case _:
                return

    def document(self, requests: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        """`requests`: of the calls of the model, by their ids."""
        if self._early:
            self._settle(self._last_step(self._early[0]))
        for step in self._steps:
            _add_requests(step, requests)
        for step, positions, parts in self._agent_texts:
            texts = (self._texts[position] for position in positions)
            step["message"] = _content("\n\n".join(filter(None, texts)), parts)
        for child in self.children:
            self._refer_to(child)
        steps = self._steps or [{"step_id": 1, "source": "system", "message": ""}]
        inner = [child.document(requests) for child in self.children]
        about, result = self._about, self._result
        return _lean(
            {
                "schema_version": VERSION,
                "session_id": self._session,
                "trajectory_id": self._id,
                "agent": _lean(
                    {
                        "name": about.agent or "unknown",
                        "version": about.version or "unknown",
                        "model_name": about.model,
                        "extra": _lean({"name": about.name}),
                    }
                ),
                "steps": steps,
                "subagent_trajectories": inner,
                "final_metrics": self._metrics(inner, len(steps)),
                "extra": _lean(
                    {
                        "outcome": result.outcome if result else None,
                        "success": result.success if result else None,
                        "duration_ms": result.duration_ms if result else None,
                        "notices": self._notices,
                        "other_model_calls": self._unpaid_calls(requests),
                    }
                ),
            }
        )

    def _unpaid_calls(self, requests: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Those that no step has: refused, failed, or answered from a recording."""
        return [
            _about_call(call) | ({"request": requests[call.id]} if call.id in requests else {})
            for call in self._model_calls.values()
            if call.id not in self._paid_calls
        ]

    def _metrics(self, inner: Sequence[dict[str, Any]], steps: int) -> dict[str, Any]:
        """The cost includes that of sub-agents, the tokens do not."""
        cost = self._result.total_cost_usd if self._result else None
        if cost is None:
            costs = [
                self._totals.get("cost_usd"),
                *(child["final_metrics"].get("total_cost_usd") for child in inner),
            ]
            known_costs = [cost_usd for cost_usd in costs if cost_usd is not None]
            cost = sum(known_costs) if known_costs else None
        counts = {
            f"total_{name}": self._totals.get(name)
            for name in ("prompt_tokens", "completion_tokens", "cached_tokens")
        }
        return _lean({**counts, "total_cost_usd": cost, "total_steps": steps})

    def _refer_to(self, child: _Trajectory) -> None:
        step = self._calls.get(child.parent_call)
        if step is None:
            return
        results = step.setdefault("observation", {"results": []})["results"]
        result_of_call = next(
            (each for each in results if each.get("source_call_id") == child.parent_call), None
        )
        if result_of_call is None:
            results.append(result_of_call := {"source_call_id": child.parent_call})
        reference = _lean({"trajectory_id": child._id, "session_id": child._session})  # the same class
        result_of_call.setdefault("subagent_trajectory_ref", []).append(reference)

    def _step(self, event: Event, source: str, message: Any = "") -> dict[str, Any]:
        step = {
            "step_id": len(self._steps) + 1,
            "timestamp": _iso(event.timestamp_ms),
            "source": source,
            "message": message,
        }
        self._steps.append(step)
        return step

    def _agent_step(self, event: Event) -> dict[str, Any]:
        """The step that the agent is at: a new one once results have come back."""
        if self._open is None or (self._has_result and not self._has_steps):
            self._open, self._has_result = self._step(event, "agent"), False
        self._settle(self._open)
        return self._open

    def _settle(self, step: dict[str, Any]) -> None:
        early, self._early = self._early, []
        for event in early:
            self._charge(step, event)

    def _speak(self, event: Message | TextDelta) -> None:
        stream = (event.run_id, event.id)
        position = self._streams.get(stream)
        if position is None:
            position = self._streams[stream] = len(self._texts)
            self._texts.append("")
            step = self._agent_step(event)
            if not self._agent_texts or self._agent_texts[-1][0] is not step:
                self._agent_texts.append((step, [], []))
            self._agent_texts[-1][1].append(position)
        if isinstance(event, TextDelta):
            self._texts[position] += event.text
        else:
            self._texts[position] = event.text or self._texts[position]
            del self._streams[stream]
            self._agent_texts[-1][2].extend(event.parts or ())

    def _call(self, event: ToolStart) -> None:
        step = self._agent_step(event)
        self._calls[event.call_id] = step
        value = event.input
        arguments = value if isinstance(value, dict) else {} if value is None else {"value": value}
        call = {
            "tool_call_id": event.call_id,
            "function_name": event.tool_name or "unknown",
            "arguments": arguments,
        }
        if event.operations:
            call["extra"] = {"operations": event.operations}
        step.setdefault("tool_calls", []).append(call)

    def _call_ended(self, event: ToolEnd) -> None:
        step = self._calls.get(event.call_id)
        if step is None:  # its start is not in the log
            return
        self._has_result = self._has_result or step is self._open
        about = {"success": event.success, "exit_code": event.exit_code, "duration_ms": event.duration_ms}
        result = {
            "source_call_id": event.call_id,
            "content": _content(event.output or "", event.parts),
            "extra": _lean(about),
        }
        step.setdefault("observation", {"results": []})["results"].append(_lean(result))

    def _spend(self, event: UsageDelta) -> None:
        step = self._open
        if event.id in self._model_calls and (step is None or self._has_result or "metrics" in step):
            self._early.append(event)
        else:
            self._charge(step or self._last_step(event), event)

    def _last_step(self, event: Event) -> dict[str, Any]:
        last = next((each for each in reversed(self._steps) if each["source"] == "agent"), None)
        return last or self._step(event, "agent")

    def _charge(self, step: dict[str, Any], event: UsageDelta) -> None:
        usage = event.usage
        if call := self._model_calls.get(event.id):
            self._paid_calls.add(event.id)
            step.setdefault("extra", {}).setdefault("model_calls", []).append(_about_call(call))
        metrics = step.setdefault("metrics", {})
        counts = {
            "prompt_tokens": _sum(usage.input, usage.cache_read, usage.cache_write),
            "completion_tokens": _sum(usage.output, usage.reasoning),
            "cached_tokens": usage.cache_read,
            "cost_usd": usage.cost_usd,
        }
        for name, count in counts.items():
            if count is not None:
                metrics[name] = metrics.get(name, 0) + count
                self._totals[name] = self._totals.get(name, 0) + count
        more = {"cache_write": usage.cache_write, "reasoning": usage.reasoning}
        for name, count in more.items():
            if count is not None:
                extra = metrics.setdefault("extra", {})
                extra[name] = extra.get(name, 0) + count
        step["llm_call_count"] = step.get("llm_call_count", 0) + 1
        if event.model:
            step["model_name"] = event.model


def _about_call(call: ModelCall) -> dict[str, Any]:
    return _lean({name: getattr(call, name) or None for name in _OF_CALL})


def _add_requests(step: dict[str, Any], requests: Mapping[str, Mapping[str, Any]]) -> None:
    for call in step.get("extra", {}).get("model_calls", ()):
        if (request := requests.get(call["id"])) is None:
            continue
        call["request"] = request
        if (effort := _effort(request.get("options", {}))) is not None:
            step["reasoning_effort"] = effort


def _effort(options: Mapping[str, Any]) -> str | None:
    """How much the model was asked to think, in the provider's own word, where its API has one for that."""
    holders = (
        options.get("reasoning"),
        options.get("output_config"),
        {"effort": options.get("reasoning_effort")},
    )
    efforts = (holder.get("effort") for holder in holders if isinstance(holder, dict))
    return next((effort for effort in efforts if isinstance(effort, str) and effort), None)


def _content(text: str, parts: Sequence[Any] | None) -> Any:
    """Text, or text with images and sounds. What is not elsewhere is a `data:` URL."""
    others = [
        {"type": kind, "source": {"media_type": media_type, "path": part.address}}
        for part in file_parts(parts)
        for kind, media_type in (_media(part.media_type),)
        if kind
    ]
    if not others:
        return text
    return [*([{"type": "text", "text": text}] if text else []), *others]


def _media(media_type: str) -> tuple[str, str]:
    """Its kind, empty if ATIF has none, and its name there."""
    if media_type in _IMAGES:
        return "image", media_type
    family, _, name = media_type.lower().partition(";")[0].strip().partition("/")
    name = name.removeprefix("x-")
    name = _AUDIO_NAMES.get(name, name)
    return ("audio", f"audio/{name}") if family == "audio" and name in _AUDIO else ("", "")


def _sum(*counts: int | None) -> int | None:
    numbers = [count for count in counts if count is not None]
    return sum(numbers) if numbers else None


def _iso(at_ms: int) -> str:
    moment = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=max(0, at_ms))
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _lean(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None and value not in ("", {}, [])}
