"""A log as OpenAI's APIs tell it: chunks of `/v1/chat/completions`, and events of `/v1/responses`, each a JSON object.

Rules
1. An answer is one top run; a response is one, or the part of it up to a question.
2. The agent runs its own tools: a call is an `mcp_call` of a response, and never a `tool_call`, which a client would run.
3. A permission that is asked for is an `mcp_approval_request`, any other question a message; both complete the response,
   and what follows the answer is the next one. A chat has no such thing: what was denied is said in its text.
4. A run that fails, is stopped, or has no end in the log is an error, never an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple, TypeAlias

from harness.events import (
    Event,
    Message,
    ReasoningDelta,
    Relay,
    RelayReply,
    Result,
    TextDelta,
    ToolEnd,
    ToolStart,
    UsageDelta,
)
from harness.folds.standards import vocabulary
from harness.formatting.approval import every_call
from harness.formatting.json_text import compact
from harness.log.run_tree import RunNode, RunTree

Wire = dict[str, Any]
APPROVAL, MESSAGE = "mcpr_", "msg_"
"""What the ids of these items begin with."""
_RESPONSE = "resp_"
_LABEL = "harness"
_FINISHES = {"length": "length", "max_tokens": "length", "refusal": "content_filter"}
_REASONS = {"length": "max_output_tokens", "content_filter": "content_filter"}
_UNFINISHED = "the log ends here: the run is still active, or was killed"


def session_of(response_id: str) -> str:
    """The id of the session that gave a response; empty if it cannot be one of ours."""
    log_id, dot, number = response_id.removeprefix(_RESPONSE).rpartition(".")
    return log_id if response_id.startswith(_RESPONSE) and dot and number.isdecimal() else ""


class _TokenCounts:
    """Tokens, as they are added up for an answer."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def add(self, event: UsageDelta) -> None:
        if event.counted is not None:
            return
        for name in ("input", "output", "cache_read", "cache_write", "reasoning"):
            count = getattr(event.usage, name)
            if count is not None:
                self._counts[name] = self._counts.get(name, 0) + count

    def get(self, name: str) -> int:
        return self._counts.get(name, 0)

    @property
    def prompt(self) -> int:
        return self.get("input") + self.get("cache_read") + self.get("cache_write")

    @property
    def answer(self) -> int:
        return self.get("output") + self.get("reasoning")


class ChatFold:
    """`model`: the name that the client used."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._tree = RunTree()
        self._top = ""
        self._created_s = 0
        self._tokens = _TokenCounts()
        self._pieces: list[tuple[str, str]] = []
        """The text, with the stream that each piece is of."""
        self._questions: dict[str, Relay] = {}
        self._finish = ""
        self.is_live = False
        self.error: Wire | None = None
        """Why there is no answer."""

    def feed(self, event: Event, /) -> list[Wire]:
        tree = self._tree
        run = tree.feed(event)
        out: list[Wire] = []
        if run.top and not run.depth and run.id != self._top and run.status == "open":
            if self.is_live:
                out.append(self._fail("interrupted", ""))
            out.append(self._begin(event, run))
        if not self.is_live:
            return out
        if isinstance(event, Relay):
            self._questions[event.id] = event
        elif isinstance(event, RelayReply):
            out += self._answered(event)
        elif isinstance(event, UsageDelta):
            self._tokens.add(event)
        if tree.withdrawn is not None:
            self._pieces = [piece for piece in self._pieces if piece[0] != tree.withdrawn]
        elif run.id == self._top:
            out += self._told(event)
        if any(run.id == self._top for run in tree.ended):
            out.append(self._end(event))
        return out

    def finish(self) -> list[Wire]:
        return [self._fail("unfinished", _UNFINISHED)] if self.is_live else []

    @property
    def open_questions(self) -> Mapping[str, Relay]:
        return self._tree.open_relays

    @property
    def text(self) -> str:
        return "".join(text for _, text in self._pieces)

    @property
    def whole(self) -> Wire:
        """The answer as one `chat.completion`."""
        message = {"role": "assistant", "content": self.text, "refusal": None}
        choice = {
            "index": 0,
            "finish_reason": self._finish or "stop",
            "logprobs": None,
            "message": message,
        }
        return self._about("chat.completion") | {"choices": [choice], "usage": self._usage()}

    @property
    def usage_chunk(self) -> Wire:
        return self._about("chat.completion.chunk") | {"choices": [], "usage": self._usage()}

    def _begin(self, event: Event, run: RunNode) -> Wire:
        self._top, self._created_s = run.id, max(0, event.timestamp_ms) // 1000
        self._tokens, self._pieces, self._finish = _TokenCounts(), [], ""
        self._questions.clear()
        self.is_live, self.error = True, None
        return self._chunk({"role": "assistant", "content": ""})

    def _told(self, event: Event) -> list[Wire]:
        if isinstance(event, TextDelta):
            return self._say(event.id, event.text)
        if isinstance(event, ReasoningDelta) and event.text:
            return [self._chunk({"reasoning_content": event.text})]
        message = event if isinstance(event, Message) and event.role == "assistant" else None
        if isinstance(event, Result):
            message = self._tree.said
        if message is None:
            return []
        rest = self._tree.rest(message) if message is event else None
        return self._say(message.id if rest is not None else "", message.text if rest is None else rest)

    def _say(self, stream: str, text: str) -> list[Wire]:
        if not text:
            return []
        if self._pieces and (not stream or self._pieces[-1][0] != stream):
            text = f"\n\n{text}"
        self._pieces.append((stream, text))
        return [self._chunk({"content": text})]

    def _answered(self, event: RelayReply) -> list[Wire]:
        """Nobody can be asked in a chat, so that it says what was not done."""
        relay = self._questions.pop(event.id, None)
        if relay is None or event.approved:
            return []
        what = relay.question or f"to use {relay.tool_name or 'a tool'}"
        reason = f" {event.reason}" if event.reason else ""
        return self._say("", f"[Not allowed: {what}.{reason}]")

    def _end(self, event: Event) -> Wire:
        result = event if isinstance(event, Result) and event.run_id == self._top else None
        if result is None or not result.success:
            outcome = result.outcome if result is not None else "interrupted"
            return self._fail(outcome, result.text if result is not None else "")
        self.is_live, self._finish = False, _FINISHES.get(result.stop_reason, "stop")
        return self._chunk({}, self._finish)

    def _fail(self, outcome: str, words: str) -> Wire:
        self.is_live = False
        self.error = error_body(words or f"the run ended as {outcome}", outcome, "agent_error")
        return self.error

    def _chunk(self, delta: Wire, finish: str | None = None) -> Wire:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return self._about("chat.completion.chunk") | {"choices": [choice]}

    def _about(self, kind: str) -> Wire:
        return {
            "id": f"chatcmpl-{self._top}",
            "object": kind,
            "created": self._created_s,
            "model": self._model,
        }

    def _usage(self) -> Wire:
        counts = self._tokens
        return {
            "prompt_tokens": counts.prompt,
            "completion_tokens": counts.answer,
            "total_tokens": counts.prompt + counts.answer,
            "prompt_tokens_details": {"cached_tokens": counts.get("cache_read")},
            "completion_tokens_details": {"reasoning_tokens": counts.get("reasoning")},
        }


class _Item(NamedTuple):
    """An event, with what the tree says about it: it may be told later."""

    event: Event
    run: RunNode
    rest: str | None
    message: Message | None
    withdrawn: str | None
    ends: bool
    """Whether the top run ends with it."""


class _Piece(NamedTuple):
    """The item that is being written: a message, or thoughts."""

    kind: str
    stream: str
    place: int
    texts: list[str]


_Handler: TypeAlias = "Callable[[ResponseFold, Any, _Item, list[Wire]], None]"


class ResponseFold:
    """`model`: the name that the client used."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._tree = RunTree()
        self._top = self._id = ""
        self._created_s = 0
        self._number = -1
        self._tokens = _TokenCounts()
        self._items: list[Wire] = []
        self._piece: _Piece | None = None
        self._calls: dict[str, int] = {}
        """Calls of the run that have not ended, and the item of each; -1: it was in an earlier response."""
        self._calls_below: set[tuple[str, str]] = set()
        self._status = "in_progress"
        self._error: Wire | None = None
        self._incomplete = ""
        self._question: Relay | None = None
        """The one that the last response ended with, until it is answered."""
        self._later: list[_Item] = []
        self.is_live = False

    @property
    def question(self) -> Relay | None:
        return self._question

    def feed(self, event: Event, /) -> list[Wire]:
        if type(event) in vocabulary.PROGRAMS:
            event = vocabulary.as_call(event)
        tree = self._tree
        run = tree.feed(event)
        out: list[Wire] = []
        is_new = bool(run.top) and not run.depth and run.id != self._top and run.status == "open"
        if is_new:
            if self.is_live:
                self._fail("interrupted", "", out)
            self._top, self._question = run.id, None
            self._later.clear()
            self._calls.clear()
            self._calls_below.clear()
            self._begin(event, out)
        rest = tree.rest(event) if isinstance(event, Message) else None
        message = tree.said if isinstance(event, Result) else None
        ends = any(run.id == self._top for run in tree.ended)
        item = _Item(event, run, rest, message, tree.withdrawn, ends)
        if self._question is not None and not self._is_over(item):
            self._later.append(item)
        elif self.is_live:
            self._take(item, out)
        elif self._later or isinstance(event, RelayReply) or ends:
            self._go_on(item, out)
        return out

    def finish(self) -> list[Wire]:
        out: list[Wire] = []
        if self.is_live:
            self._fail("unfinished", _UNFINISHED, out)
        return out

    @property
    def response(self) -> Wire:
        """The whole response so far."""
        return {
            "id": self._id,
            "object": "response",
            "created_at": self._created_s,
            "model": self._model,
            "status": self._status,
            "output": [dict(item) for item in self._items],
            "error": self._error,
            "incomplete_details": {"reason": self._incomplete} if self._incomplete else None,
            "instructions": None,
            "metadata": {},
            "parallel_tool_calls": True,
            "temperature": None,
            "top_p": None,
            "tool_choice": "auto",
            "tools": [],
            "usage": None if self._status == "in_progress" else self._usage(),
        }

    # Parts

    def _is_over(self, item: _Item) -> bool:
        """Whether the question is answered by this, or has become needless."""
        assert self._question is not None, "one is open"
        is_answer = isinstance(item.event, RelayReply) and item.event.id == self._question.id
        if is_answer or item.ends:
            self._question = None
        return self._question is None

    def _go_on(self, item: _Item, out: list[Wire]) -> None:
        """The next response of the same run: what was held back, up to the next question that is still open."""
        if item.run.status == "ended" and not item.ends:
            return  # words after the end
        later, self._later = self._later, []
        answered = {entry.event.id for entry in later if isinstance(entry.event, RelayReply)}
        self._begin(item.event, out)
        for number, entry in enumerate(later):
            if isinstance(entry.event, Relay) and (entry.event.id in answered or item.ends):
                continue
            self._take(entry, out)
            if not self.is_live:
                self._later = later[number + 1 :]
                return
        self._take(item, out)

    def _begin(self, event: Event, out: list[Wire]) -> None:
        self._id = f"{_RESPONSE}{self._tree.log_id or self._top}.{max(0, event.seq)}"
        self._created_s = max(0, event.timestamp_ms) // 1000
        self._number, self._tokens, self._items, self._piece = -1, _TokenCounts(), [], None
        self._status, self._error, self._incomplete, self.is_live = "in_progress", None, "", True
        self._calls = dict.fromkeys(self._calls, -1)
        out.append(self._event("response.created", response=self.response))
        out.append(self._event("response.in_progress", response=self.response))

    def _take(self, item: _Item, out: list[Wire]) -> None:
        event, run = item.event, item.run
        if item.withdrawn is not None:
            if self._piece is not None and self._piece.stream == item.withdrawn:
                self._piece.texts.clear()
                self._close(out, "incomplete")
        elif isinstance(event, UsageDelta):
            self._tokens.add(event)
        elif isinstance(event, Relay):
            self._ask(event, out)
        elif run.id != self._top and isinstance(event, ToolStart):
            self._calls_below.add((run.id, event.call_id))
        elif run.id == self._top or isinstance(event, ToolEnd):
            handler = self._HANDLERS.get(type(event))
            if handler is not None:
                handler(self, event, item, out)
        if item.ends and self.is_live:
            self._finish_run(event, out)

    def _finish_run(self, event: Event, out: list[Wire]) -> None:
        result = event if isinstance(event, Result) and event.run_id == self._top else None
        self._close(out)
        if result is None or not result.success:
            outcome = result.outcome if result is not None else "interrupted"
            self._fail(outcome, result.text if result is not None else "", out)
            return
        self._incomplete = _REASONS.get(_FINISHES.get(result.stop_reason, ""), "")
        self._complete("incomplete" if self._incomplete else "completed", out)

    def _fail(self, outcome: str, words: str, out: list[Wire]) -> None:
        self._close(out, "incomplete")
        self._error = {"code": "server_error", "message": words or f"the run ended as {outcome}"}
        self._complete("failed", out)

    def _complete(self, status: str, out: list[Wire]) -> None:
        for item in self._items:
            if item["type"] == "mcp_call" and item["status"] == "in_progress":
                item["status"] = "incomplete"
        self._status, self.is_live = status, False
        out.append(self._event(f"response.{status}", response=self.response))

    def _ask(self, relay: Relay, out: list[Wire]) -> None:
        self._close(out)
        if relay.kind in {"permission", "plan"}:
            calls = every_call(relay)
            name = f"{len(calls)} calls" if calls else relay.tool_name or relay.kind
            item = {
                "type": "mcp_approval_request",
                "id": f"{APPROVAL}{relay.id}",
                "name": f"{relay.subagent}: {name}" if relay.subagent else name,
                "arguments": compact(calls or relay.input),
                "server_label": _LABEL,
            }
            self._add(item, out)
            out.append(self._event("response.output_item.done", output_index=len(self._items) - 1, item=item))
        else:
            choices = "".join(f"\n- {option}" for option in relay.options or ())
            self._write(
                "message", relay.id, f"{relay.question or 'The agent waits for an answer.'}{choices}", out
            )
            self._close(out)
        self._question = relay
        self._complete("completed", out)

    # Items

    def _on_text(self, event: TextDelta, item: _Item, out: list[Wire]) -> None:
        del item
        self._write("message", event.id, event.text, out)

    def _on_reasoning(self, event: ReasoningDelta, item: _Item, out: list[Wire]) -> None:
        del item
        self._write("reasoning", "", event.text, out)

    def _on_message(self, event: Message, item: _Item, out: list[Wire]) -> None:
        if event.role != "assistant":
            return
        is_open = self._piece is not None and self._piece.stream == event.id and item.rest is not None
        if not is_open:
            self._close(out)
        self._write("message", event.id, event.text if item.rest is None else item.rest, out)
        self._close(out)

    def _on_result(self, event: Result, item: _Item, out: list[Wire]) -> None:
        del event
        if item.message is not None:
            self._close(out)
            self._write("message", "", item.message.text, out)

    def _on_call(self, event: ToolStart, item: _Item, out: list[Wire]) -> None:
        del item
        self._close(out)
        if self._calls.get(event.call_id, -1) < 0:
            self._open_call(event.call_id, event.tool_name, compact(event.input), out)

    def _on_call_end(self, event: ToolEnd, item: _Item, out: list[Wire]) -> None:
        if item.run.id != self._top:
            key = (item.run.id, event.call_id)
            is_own = key in self._calls_below or item.run.parent != self._top
            self._calls_below.discard(key)
            if is_own or event.call_id not in self._calls:
                return  # a call of the sub-agent; else the one that it is itself
        self._close(out)
        if (
            self._calls.get(event.call_id, -1) < 0
        ):  # it began before the question, or its start is not in the log
            self._open_call(event.call_id, event.tool_name, "", out)
        index = self._calls.pop(event.call_id)
        call = self._items[index]
        call |= {
            "status": "completed" if event.success is not False else "failed",
            "output": event.output or "",
        }
        if event.success is False:
            call["error"] = {"type": "mcp_tool_execution_error", "content": event.output or "failed"}
        kind = f"response.mcp_call.{call['status']}"
        out.append(self._event(kind, item_id=call["id"], output_index=index))
        out.append(self._event("response.output_item.done", output_index=index, item=dict(call)))

    def _open_call(self, call_id: str, tool_name: str, arguments: str, out: list[Wire]) -> None:
        name = f"mcp_{call_id or len(self._items)}"
        is_known = any(item["id"] == name for item in self._items)
        call = {
            "type": "mcp_call",
            "id": f"{name}.{len(self._items)}" if is_known else name,
            "name": tool_name or "unknown",
            "server_label": _LABEL,
            "arguments": arguments,
            "status": "in_progress",
        }
        self._add(call, out)
        index = self._calls[call_id] = len(self._items) - 1
        about = {"item_id": call["id"], "output_index": index}
        out.append(self._event("response.mcp_call.in_progress", **about))
        out.append(self._event("response.mcp_call_arguments.done", **about, arguments=arguments))

    def _add(self, item: Wire, out: list[Wire]) -> None:
        self._items.append(item)
        index = len(self._items) - 1
        out.append(self._event("response.output_item.added", output_index=index, item=dict(item)))

    def _write(self, kind: str, stream: str, text: str, out: list[Wire]) -> None:
        if not text:
            return
        piece = self._piece
        if piece is None or (piece.kind, piece.stream) != (kind, stream):
            self._close(out)
            piece = self._piece = self._open_piece(kind, stream, out)
        piece.texts.append(text)
        about = {"item_id": self._items[piece.place]["id"], "output_index": piece.place, "content_index": 0}
        if kind == "message":
            out.append(self._event("response.output_text.delta", **about, delta=text, logprobs=[]))
        else:
            out.append(self._event("response.reasoning_text.delta", **about, delta=text))

    def _open_piece(self, kind: str, stream: str, out: list[Wire]) -> _Piece:
        index = len(self._items)
        if kind == "message":
            name = f"{MESSAGE}{self._id.removeprefix(_RESPONSE)}.{index}"
            item = {
                "type": kind,
                "id": name,
                "role": "assistant",
                "status": "in_progress",
                "content": [],
            }
        else:
            name = f"rs_{self._id.removeprefix(_RESPONSE)}.{index}"
            item = {"type": kind, "id": name, "summary": [], "content": [], "status": "in_progress"}
        self._add(item, out)
        about = {"item_id": name, "output_index": index, "content_index": 0}
        out.append(self._event("response.content_part.added", **about, part=_part(kind, "")))
        return _Piece(kind, stream, index, [])

    def _close(self, out: list[Wire], status: str = "completed") -> None:
        """The item that is being written is whole."""
        piece, self._piece = self._piece, None
        if piece is None:
            return
        item, text = self._items[piece.place], "".join(piece.texts)
        part = _part(piece.kind, text)
        item |= {"status": status, "content": [part] if text else []}
        about = {"item_id": item["id"], "output_index": piece.place, "content_index": 0}
        if piece.kind == "message":
            out.append(self._event("response.output_text.done", **about, text=text, logprobs=[]))
        else:
            out.append(self._event("response.reasoning_text.done", **about, text=text))
        out.append(self._event("response.content_part.done", **about, part=part))
        out.append(self._event("response.output_item.done", output_index=piece.place, item=dict(item)))

    def _event(self, kind: str, /, **fields: Any) -> Wire:
        self._number += 1
        return {"type": kind, "sequence_number": self._number, **fields}

    def _usage(self) -> Wire:
        counts = self._tokens
        cached = {
            "cached_tokens": counts.get("cache_read"),
            "cache_write_tokens": counts.get("cache_write"),
        }
        return {
            "input_tokens": counts.prompt,
            "output_tokens": counts.answer,
            "total_tokens": counts.prompt + counts.answer,
            "input_tokens_details": cached,
            "output_tokens_details": {"reasoning_tokens": counts.get("reasoning")},
        }

    _HANDLERS: ClassVar[Mapping[type[Event], _Handler]] = {
        TextDelta: _on_text,
        ReasoningDelta: _on_reasoning,
        Message: _on_message,
        ToolStart: _on_call,
        ToolEnd: _on_call_end,
        Result: _on_result,
    }


def _part(kind: str, text: str) -> Wire:
    if kind == "message":
        return {"type": "output_text", "text": text, "annotations": []}
    return {"type": "reasoning_text", "text": text}


def error_body(
    message: str, code: str, kind: str = "invalid_request_error", param: str | None = None
) -> Wire:
    """An error as OpenAI's clients read it."""
    return {"error": {"message": message, "type": kind, "code": code, "param": param}}
