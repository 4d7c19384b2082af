"""The driver of `codex app-server`: JSON-RPC without the member `jsonrpc`, one object per line.

initialize ▶ initialized, thread/start | thread/resume ▶ thread id     the handshake
turn/start ▶ turn id, turn/started, item/… , turn/completed            a turn; its status says how it ended
turn/steer ▶ turn id, later an item `userMessage`                      accepted first, taken when the item comes
turn/interrupt ▶ turn/completed, then backgroundTerminals/clean        commands outlive an interrupted turn
…/requestApproval, requestUserInput, elicitation/request               questions; several may be open at once

Sub-agents are other threads of the same process: what they ask carries their thread id.
"""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import msgspec
from msgspec.structs import replace

from harness.agents.codex.questions import CODEX_REQUESTS, calls_of, is_approval_of_tool, relay_of
from harness.contracts.driver import (
    Move,
    Moves,
    Notice,
    NotTaken,
    Prompt,
    SessionKnown,
    Taken,
    TurnEnded,
    TurnStarted,
    Withdrawn,
)
from harness.contracts.model import Attachment
from harness.contracts.request import Request
from harness.contracts.tool_servers import ServedTools
from harness.contracts.translator import Record
from harness.events import Relay, RelayReply, Warning
from harness.formats.fields import items_of, record_of, text_of
from harness.protocols.json_rpc import JsonRpcDriver, RpcRequest, RpcResponse
from harness.version import __version__

_UNWANTED = (
    "account/updated",
    "app/list/updated",
    "remoteControl/status/changed",
    "skills/changed",
    "thread/goal/cleared",
    "thread/goal/updated",
    "thread/name/updated",
    "thread/prediction/updated",
    "thread/queue/changed",
    "thread/readState/changed",
    "thread/started",
    "thread/status/changed",
    "turn/diff/updated",
)
"""Notifications that Codex is asked to leave out: they say nothing new, or name the account and the machine."""

_PIECES = (
    "item/agentMessage/delta",
    "item/commandExecution/outputDelta",
    "item/plan/delta",
    "item/reasoning/summaryTextDelta",
    "item/reasoning/textDelta",
    "thread/tokenUsage/updated",
)

_PERMISSIONS: dict[str, Record] = {
    "full-access": {
        "approvalPolicy": "never",
        "sandbox": "danger-full-access",
        "approvalsReviewer": "user",
    },
    # What was allowed still meets Codex' own wall: a command that needs more fails there, and the model may ask for
    # more rights, which is another question.
    "ask": {"approvalPolicy": "untrusted", "sandbox": "workspace-write", "approvalsReviewer": "user"},
    # Every command is asked about, and refused by our rules; the sandbox is for what is not.
    "read-only": {"approvalPolicy": "untrusted", "sandbox": "read-only", "approvalsReviewer": "user"},
    "agent-default": {},
}
"""`approvalsReviewer`: the settings of a user may say that a model decides."""

_CONFIG: dict[str, bool | str] = {
    "features.default_mode_request_user_input": True,
    "suppress_unstable_features_warning": True,
}
"""So that the model can ask the user in every mode, not in plan mode only."""

_SOURCES = ("cli", "vscode", "exec", "appServer")
_PLAN = "Implement this plan?"
_MODES = {"plan": "plan", "build": "default", "default": "default"}
_OUTCOMES: dict[str, Any] = {"completed": "completed", "interrupted": "interrupted"}
_WATCHED = frozenset(("commandExecution", "fileChange", "mcpToolCall"))


_LONGEST_CALL_S = 24 * 3600
"""A call of ours may wait for a person."""


def _as_server(server: ServedTools) -> Record:
    return {"url": server.url, "http_headers": server.headers, "tool_timeout_sec": _LONGEST_CALL_S}


class _Plan(msgspec.Struct, frozen=True):
    """The question whether a plan is good, which is ours: Codex only ends its turn."""

    def has_id(self, _request_id: Any) -> bool:
        return False


class _Steering(msgspec.Struct):
    """A message that was not taken yet."""

    prompt: Prompt
    is_sent: bool = False


class CodexAppServer(JsonRpcDriver):
    has_version: ClassVar[bool] = False
    skips: ClassVar[tuple[bytes, ...]] = tuple(b'{"method":"%b"' % name.encode() for name in _PIECES)
    capabilities = frozenset(("steer", "approve", "ask", "plan", "files", "model", "mode", "fork"))
    requests: ClassVar[dict[str, str]] = dict.fromkeys(CODEX_REQUESTS, "_asked_by_program")
    notifications: ClassVar[dict[str, str]] = {
        "item/started": "_item_started",
        "item/completed": "_item_completed",
        "serverRequest/resolved": "_resolved",
        "thread/settings/updated": "_settings_updated",
        "turn/started": "_turn_started",
        "turn/completed": "_turn_completed",
    }

    def __init__(self, request: Request, line_id: str) -> None:
        super().__init__(request, line_id)
        self._turns: dict[str, str] = {}
        """Thread → its running turn."""
        self._held_prompt: Prompt | None = None
        """A prompt that came before the handshake was done."""
        self._steered: dict[str, _Steering] = {}
        self._items: dict[tuple[str, str], Record] = {}
        """(thread, id) → items that have started, and that may be asked about."""
        self._spawned: dict[str, tuple[str, str]] = {}
        """Thread of a sub-agent → a name for it, as Codex gives none, and the call that started it."""
        self._model = request.model
        self._chosen_model = ""
        self._mode = ""
        self._plan = ""
        self._is_interrupting = False
        self._cleaning = 0
        self._end: TurnEnded | None = None

    @property
    def can_steer(self) -> bool:
        return super().can_steer and not self._is_interrupting and self._end is None and not self._plan

    # The handshake

    def begin(self) -> Moves:
        info = {"name": "harness", "title": "Harness", "version": __version__}
        capabilities = {"experimentalApi": True, "optOutNotificationMethods": list(_UNWANTED)}
        params = {"clientInfo": info, "capabilities": capabilities}
        return [self._call("initialize", params, self._initialized)]

    def _initialized(self, response: RpcResponse) -> Moves:
        if response.error is not None:
            return self._cannot_begin(response.error)
        initialized = self._notify("initialized")
        if self.request.resume:
            return [initialized, *self._open_thread(self.request.resume)]
        if self.request.continue_last:
            latest = {"limit": 1, "cwd": self.request.cwd, "sourceKinds": list(_SOURCES)}
            return [initialized, self._call("thread/list", latest, self._listed)]
        return [initialized, *self._open_thread("")]

    def _listed(self, response: RpcResponse) -> Moves:
        """Without an earlier thread a new one is started."""
        threads = items_of(response.result.get("data"))
        return self._open_thread(text_of(record_of(threads[0]).get("id")) if threads else "")

    def _open_thread(self, thread_id: str) -> Moves:
        """A resumed thread is given the same again: it does not remember what it may do.

        A new one works where its process was started. To be given the folder would make Codex note in the
        settings of the user that the project is trusted.
        """
        request, config = self.request, dict[str, Any](_CONFIG)
        if request.effort:
            config["model_reasoning_effort"] = request.effort
        if request.tool_servers:
            config["mcp_servers"] = {server.name: _as_server(server) for server in request.tool_servers}
        parameters = {
            "threadId": thread_id,
            "cwd": request.cwd if thread_id else "",
            "model": request.model,
            "baseInstructions": request.system_prompt,
            "developerInstructions": request.append_system_prompt,
        }
        params: Record = {name: value for name, value in parameters.items() if value}
        params |= {**_PERMISSIONS[request.permissions], "config": config}
        if not thread_id:
            return [self._call("thread/start", params, self._thread_opened)]
        params["excludeTurns"] = True  # without the history, which may be huge
        method = "thread/fork" if self.request.fork else "thread/resume"
        return [self._call(method, params, self._thread_opened)]

    def _thread_opened(self, response: RpcResponse) -> Moves:
        self.session_id = text_of(record_of(response.result.get("thread")).get("id"))
        if response.error is not None or not self.session_id:
            return self._cannot_begin(response.error or "it named no thread")
        self._model = text_of(response.result.get("model")) or self._model
        self.is_ready = True
        prompt, self._held_prompt = self._held_prompt, None
        return [SessionKnown(self.session_id), *(self.prompt(prompt) if prompt is not None else ())]

    def _cannot_begin(self, why: str) -> Moves:
        self.is_busy, self._held_prompt = False, None
        return [TurnEnded("failed", f"Codex could not begin: {why}", is_final=True)]

    # A turn

    def prompt(self, prompt: Prompt) -> Moves:
        self._renew()
        if not self.is_ready:
            self._held_prompt = prompt
            return ()
        return self._start_turn(prompt)

    def _start_turn(self, prompt: Prompt) -> list[Move]:
        parts, notices = _input_of(prompt)
        params: Record = {"threadId": self.session_id, "input": parts, "clientUserMessageId": prompt.id}
        if prompt.schema is not None:
            params["outputSchema"] = prompt.schema
        if self._chosen_model:
            params["model"] = self._chosen_model
        if self._mode:
            settings = {"model": self._model, "reasoning_effort": None, "developer_instructions": None}
            params["collaborationMode"] = {"mode": self._mode, "settings": settings}
        return [*notices, self._call("turn/start", params, self._turn_accepted)]

    def _turn_accepted(self, response: RpcResponse) -> Moves:
        """The id in the response is not used: a turn can be steered and interrupted only once it has started."""
        if response.error is None or not self.is_busy:
            return ()
        return self._finish("failed", response.error)

    def _turn_started(self, params: Record) -> Moves:
        thread, turn_id = text_of(params.get("threadId")), text_of(record_of(params.get("turn")).get("id"))
        if not self.is_ready:
            return ()
        self._turns[thread] = turn_id
        if thread == self.session_id and not self.is_busy:
            self._renew()
            return [TurnStarted()]
        if self._is_interrupting:
            return self._interrupt_turns((thread,))
        if thread != self.session_id:
            return ()
        waiting = [steer for steer in self._steered.values() if not steer.is_sent]
        return [move for steer in waiting for move in self._send_steering(steer)]

    def _renew(self) -> None:
        self.is_busy, self._is_interrupting, self._end, self._plan = True, False, None, ""

    def _turn_completed(self, params: Record) -> Moves:
        thread, turn = text_of(params.get("threadId")), record_of(params.get("turn"))
        if thread not in self._turns or self._turns[thread] != text_of(turn.get("id")):
            return ()
        del self._turns[thread]
        if thread != self.session_id:
            return self._clean(thread) if self._is_interrupting else ()
        outcome = _OUTCOMES.get(text_of(turn.get("status")), "failed")
        return self._finish(outcome, text_of(record_of(turn.get("error")).get("message")))

    def _finish(self, outcome: Any, message: str = "") -> Moves:
        """The turn is over: what waits for something of it is closed first."""
        moves: list[Move] = [NotTaken(prompt_id) for prompt_id in self._steered]
        self._steered.clear()
        self._items.clear()
        moves += self._close_questions()
        if self._is_interrupting:
            self._end = TurnEnded("interrupted", message)
            return [*moves, *self._clean(self.session_id)]
        if outcome == "completed" and self._plan:
            payload = {"plan": self._plan}
            return [*moves, self._ask(_Plan(), Relay(id="", kind="plan", question=_PLAN, payload=payload))]
        return [*moves, *self._ended(TurnEnded(outcome, message))]

    def _close_questions(self) -> list[Move]:
        """A sub-agent may work on after the turn, and would wait for its answer without end."""
        moves: list[Move] = []
        for relay_id, native in self.open.items():
            moves.append(Withdrawn(relay_id, "the turn has ended"))
            if isinstance(native, RpcRequest):
                refusal = RelayReply(id=relay_id, approved=False)
                moves.append(
                    self._respond(native, CODEX_REQUESTS[native.method].decline(native.params, refusal))
                )
        self.open.clear()
        return moves

    def _ended(self, end: TurnEnded) -> Moves:
        self._renew()
        self.is_busy = False
        return [end]

    # Items

    def _item_started(self, params: Record) -> Moves:
        thread, item = text_of(params.get("threadId")), record_of(params.get("item"))
        kind = text_of(item.get("type"))
        if kind == "userMessage":
            return self._taken(item) if thread == self.session_id else ()
        if kind in _WATCHED:
            self._items[thread, text_of(item.get("id"))] = item
        return ()

    def _item_completed(self, params: Record) -> Moves:
        thread, item = text_of(params.get("threadId")), record_of(params.get("item"))
        item_id, kind = text_of(item.get("id")), text_of(item.get("type"))
        self._items.pop((thread, item_id), None)
        if kind == "plan" and thread == self.session_id:
            self._plan = text_of(item.get("text"))
        elif kind == "collabAgentToolCall" and item.get("tool") == "spawnAgent":
            for child in items_of(item.get("receiverThreadIds")):
                name = f"sub-agent {len(self._spawned) + 1}"
                self._spawned.setdefault(text_of(child), (name, item_id))
        return ()

    def _taken(self, item: Record) -> Moves:
        """Older versions do not repeat our id: there the text says which message it is."""
        client_id = item.get("clientId")
        if not isinstance(client_id, str):
            text = "".join(text_of(record_of(part).get("text")) for part in items_of(item.get("content")))
            alike = (
                steer.prompt.id
                for steer in self._steered.values()
                if steer.is_sent and steer.prompt.text == text
            )
            client_id = next(alike, "")
        return [Taken(client_id)] if self._steered.pop(client_id, None) is not None else ()

    def _settings_updated(self, params: Record) -> Moves:
        if params.get("threadId") == self.session_id:
            settings = record_of(params.get("threadSettings"))
            self._model = text_of(settings.get("model")) or self._model
        return ()

    # Questions

    def _asked_by_program(self, request: RpcRequest) -> Moves:
        item = self._item_of(request)
        relay = relay_of(request, item, self.request.cwd)
        thread = text_of(request.params.get("threadId"))
        relay = replace(relay, call_id=text_of(request.params.get("itemId")) or text_of(item.get("id")))
        if thread != self.session_id:
            name, spawn_call_id = self._spawned.get(thread, ("sub-agent", ""))
            relay = replace(relay, subagent=name, spawn_call_id=spawn_call_id)
        return [self._ask(request, relay, *calls_of(request, item, relay, self.request.cwd))]

    def _item_of(self, request: RpcRequest) -> Record:
        """The item that a request is about. Those of MCP servers do not name it."""
        params = request.params
        thread, item_id = text_of(params.get("threadId")), text_of(params.get("itemId"))
        if item_id or not is_approval_of_tool(params):
            return self._items.get((thread, item_id), {})
        tool_input, server = record_of(params.get("_meta")).get("tool_params"), params.get("serverName")
        alike = (
            item
            for (owner, _id), item in self._items.items()
            if owner == thread
            and item.get("server") == server
            and (item.get("arguments") or {}) == tool_input
        )
        return next(alike, {})

    def _resolved(self, params: Record) -> Moves:
        return self._withdraw_request(params.get("requestId"))

    def _answered(self, native: RpcRequest | _Plan, reply: RelayReply) -> Moves:
        if isinstance(native, _Plan):
            return self._plan_answered(reply)
        asking = CODEX_REQUESTS[native.method]
        if reply.approved:
            return [self._respond(native, asking.accept(native.params, reply))]
        refusal = self._respond(native, asking.decline(native.params, reply))
        if not reply.reason or asking.says_reason:
            return [refusal]
        # A refusal has no field for its reason: a message of the user says it, which must be there first.
        reason = {
            "threadId": native.params.get("threadId"),
            "expectedTurnId": native.params.get("turnId"),
            "input": [_text_part(f"Not allowed: {reply.reason}")],
        }
        return [self._call("turn/steer", reason, lambda _response: [refusal])]

    def _plan_answered(self, reply: RelayReply) -> Moves:
        """An approved plan is implemented in the default mode; a remark on it is worked in, in plan mode."""
        if not reply.approved and not reply.reason:
            return self._ended(TurnEnded("completed"))
        self._plan = ""
        if reply.approved:
            self._mode = "default"
        text = "Implement the plan." if reply.approved else reply.reason
        return self._start_turn(Prompt(id=f"{self._line_id}-plan-{self._question_count}", text=text))

    def _cancelled(self, native: RpcRequest | _Plan) -> Moves:
        if isinstance(native, _Plan):
            return self._ended(TurnEnded("interrupted"))
        return [self._respond(native, CODEX_REQUESTS[native.method].cancel)]

    # Steering, interrupting, settings

    def steer(self, prompt: Prompt) -> Moves | None:
        if not self.can_steer:
            return None
        waiting = self._steered[prompt.id] = _Steering(prompt)
        return self._send_steering(waiting) if self.session_id in self._turns else ()

    def _send_steering(self, waiting: _Steering) -> list[Move]:
        waiting.is_sent = True
        prompt = waiting.prompt
        parts, notices = _input_of(prompt)
        params = {
            "threadId": self.session_id,
            "expectedTurnId": self._turns[self.session_id],
            "input": parts,
            "clientUserMessageId": prompt.id,
        }

        def answered(response: RpcResponse) -> Moves:
            # Accepted is not taken: that is said by its item.
            is_refused = response.error is not None and self._steered.pop(prompt.id, None) is not None
            return [NotTaken(prompt.id)] if is_refused else ()

        return [*notices, self._call("turn/steer", params, answered)]

    def interrupt(self) -> Moves:
        if not self.is_busy or self._is_interrupting:
            return ()
        if not self.is_ready:
            self.is_busy, self._held_prompt = False, None
            return [TurnEnded("interrupted", is_final=True)]
        self._is_interrupting = not any(isinstance(native, _Plan) for native in self.open.values())
        return self._interrupt_turns(tuple(self._turns)) if self._is_interrupting else ()

    def _interrupt_turns(self, threads: tuple[str, ...]) -> Moves:
        return [
            self._call(
                "turn/interrupt",
                {"threadId": thread, "turnId": self._turns[thread]},
                partial(self._interrupt_answered, thread, self._turns[thread]),
            )
            for thread in threads
        ]

    def _interrupt_answered(self, thread: str, turn_id: str, response: RpcResponse) -> Moves:
        """An error: Codex does not know the turn any more, and its end does not come either."""
        if response.error is None or self._turns.get(thread) != turn_id:
            return ()
        del self._turns[thread]
        return self._finish("interrupted") if thread == self.session_id else self._clean(thread)

    def _clean(self, thread: str) -> Moves:
        """End the commands that an interrupted turn has left behind; the turn has ended when they have."""
        self._cleaning += 1
        return [self._call("thread/backgroundTerminals/clean", {"threadId": thread}, self._cleaned)]

    def _cleaned(self, _response: RpcResponse) -> Moves:
        self._cleaning -= 1
        if self._end is None or self._cleaning or self._turns:
            return ()
        return self._ended(self._end)

    def configure(self, *, model: str = "", mode: str = "") -> Moves | None:
        """Both hold from the next turn on."""
        if mode and mode not in _MODES:
            return None
        self._mode = _MODES[mode] if mode else self._mode
        if model:
            self._model = self._chosen_model = model
        return ()


def _text_part(text: str) -> Record:
    return {"type": "text", "text": text, "text_elements": []}


def _input_of(prompt: Prompt) -> tuple[list[Record], list[Move]]:
    """The parts of a message, and a warning for each attachment that Codex does not take."""
    parts, notices = [_text_part(prompt.text)], list[Move]()
    for attachment in prompt.attachments:
        part = _part_of(attachment)
        if part is not None:
            parts.append(part)
        else:
            name = attachment.name or attachment.media_type
            notices.append(Notice(Warning(message=f"Codex takes images only: {name} was left out")))
    return parts, notices


def _part_of(attachment: Attachment) -> Record | None:
    if not attachment.media_type.startswith("image/"):
        return None
    return {"type": "image", "url": f"data:{attachment.media_type};base64,{attachment.data}"}
