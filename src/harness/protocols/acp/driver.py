"""The Agent Client Protocol, v1 and v2: many agents use it, each with deviations, which are in their own files.

    initialize → session/new, session/load or session/resume → [authenticate, once] → [mode, model] → (idle)
    session/prompt → session/update … session/request_permission, elicitation/create … → its answer (idle)

v2 is used when the answer to `initialize` has its shape; the number alone is no proof. Its turns end with
`state_update` (idle), and the answer to a prompt only says that it was taken.
No files and no terminals are offered to the agent: it uses its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from functools import partial
from typing import Any, ClassVar, Literal

import msgspec
from msgspec.structs import replace

from harness.contracts.agent import CommandLine, TrustingSettings, TwoWay, Version
from harness.contracts.driver import (
    AskedCall,
    Move,
    Moves,
    Notice,
    NotTaken,
    Prompt,
    Send,
    SessionKnown,
    Taken,
    TurnEnded,
    question_relay,
)
from harness.contracts.request import Request
from harness.contracts.translator import Record
from harness.events import Error, RelayReply, Warning
from harness.formats.fields import first_text, items_of, record_of, text_of
from harness.protocols.acp.calls import AcpCall
from harness.protocols.acp.questions import (
    CANCELLED,
    AskedForm,
    DisguisedQuestion,
    called_in,
    disguised_answer,
    disguised_questions,
    form_answer,
    form_relay,
    is_for_several,
    is_plan,
    own_words,
    permission_answer,
    permission_relay,
    refusal_of,
)
from harness.protocols.acp.stream import AWAITS_HISTORY, ENDS_HISTORY, AcpTranslator, config_option
from harness.protocols.acp.tool_servers import as_servers, notices
from harness.protocols.json_rpc import JsonRpcDriver, RpcRequest, RpcResponse
from harness.version import __version__

_AUTHENTICATION_REQUIRED = -32000
_REQUEST_CANCELLED = -32800
_OUTCOMES: dict[str, Literal["completed", "failed", "interrupted"]] = {
    "": "completed",
    "end_turn": "completed",
    "cancelled": "interrupted",
}
_NO_NAME = "the agent does not say which tool this is"
_NO_ARGUMENTS = "the agent does not repeat the arguments of the call that it asks about"
_SEVERAL = "the agent asks about several calls, and shows only this one"
_MOST_EXPLANATIONS = 3
"""How often in a turn the model is told why something was refused, and goes on: then the turn ends."""
_REFUSED_TOO_OFTEN = "what it asked for was refused again and again: the turn was ended"
_MODES = {"plan": "read-only", "build": "ask", "default": "ask"}
"""What a session of ours calls its modes → the permissions that an agent's mode stands for."""


SUPPORTS = frozenset({"agent-default", "model", "read-only", "resume"})
"""What every program takes of a request."""


class AcpProgram(msgspec.Struct, frozen=True, kw_only=True):
    """How one agent differs from the protocol, and from the others."""

    translator: type[AcpTranslator]
    """Of its stream; it also knows how the agent names its tools and their input."""
    capabilities: frozenset[str]
    modes: Mapping[str, str] = {}
    """Permissions of a request → the mode that its session is set to, where it is not in that already."""
    auth_method: str = ""
    """The method of `authenticate` that needs no person."""
    steering_method: str = ""
    """Its own request for a message in the middle of a turn, which names the turn; empty: the standard extension."""
    run_key: str = ""
    """Where `_meta` of `session_info_update` has the id of the turn, for `steering_method`."""
    drains: bool = False
    """It asks for messages of the user after each batch of tools (`craft/drainMidTurnQueue`)."""
    ends_turn_on_reject: bool = False
    """Whether a refused call ends the turn, so that the model never sees the reason."""
    leaves_commands: bool = False
    """Whether what an interrupted command has started runs on: the process is then ended with all that it started, and
    the session is resumed with the next prompt."""
    asks_for_all: bool = False
    """Whether one question stands for all calls that are announced and were not asked about yet."""
    sets_model: bool = False
    """Whether the model is set in the session, and not by its arguments."""
    version: int = 1
    """The version of the protocol that it is asked for."""

    def two_way(
        self,
        command: Callable[[Request, Version], CommandLine],
        *,
        since: Version,
        supports: frozenset[str] = SUPPORTS,
        unasked: str = "",
        trusting: TrustingSettings | None = None,
    ) -> TwoWay:
        """How an agent that is started with `command` is held in a conversation over this protocol."""
        return TwoWay(
            command=command,
            driver=partial(AcpDriver, self),
            translator=self.translator,
            capabilities=self.capabilities,
            tools=self.translator.tools,
            supports=supports,
            unasked=unasked,
            trusting=trusting,
            since=since,
            delta_keys=("text",),
        )


class AcpDriver(JsonRpcDriver):
    requests: ClassVar[dict[str, str]] = {
        "session/request_permission": "_permission",
        "elicitation/create": "_form",
        "session/elicitation": "_form",
        "craft/drainMidTurnQueue": "_drain",
    }
    notifications: ClassVar[dict[str, str]] = {
        "session/update": "_updated",
        "$/cancel_request": "_request_cancelled",
    }

    def __init__(self, program: AcpProgram, request: Request, line_id: str) -> None:
        super().__init__(request, line_id)
        self.program = program
        self.capabilities = program.capabilities
        self._agent: Record = {}
        """The capabilities that the agent stated."""
        self._session: Record = {}
        """What it stated of the session: its modes, models and options."""
        self._is_v2 = False
        self._is_running = False
        """v2: the prompt was taken, so that `idle` is the end of its turn."""
        self._has_authenticated = False
        self._has_history = False
        self._is_interrupted = self._is_final = False
        self._model = request.model
        self._waiting_prompt: Prompt | None = None
        self._calls: dict[str, AcpCall] = {}
        self._questioned: set[str] = set()
        """Calls of this turn that were asked about."""
        self._run_id = ""
        """Goose's name of the turn, which steering has to give."""
        self._queued: list[Prompt] = []
        """Given in the middle of a turn, and not taken yet."""
        self._steers: dict[str, Prompt] = {}
        """The agent's id of a message that was given to its turn → the message."""
        self._reasons: list[str] = []
        """Why calls were refused: for the model, which the protocol has no field for."""
        self._has_refused = False
        """Whether one of them is a refusal."""
        self._explanations = 0
        """How often the model was told in this turn why something was refused."""

    def _id_of(self, method: str, number: int) -> int | str:
        return f"{method}#{number}"

    # The handshake

    def begin(self) -> Moves:
        client = {"name": "harness", "title": "Harness", "version": __version__}
        offers = {
            "fs": {"readTextFile": False, "writeTextFile": False},
            "terminal": False,
            "elicitation": {"form": {}, "url": {}},
        }
        params: Record = {
            "protocolVersion": self.program.version,
            "clientCapabilities": offers,
            "clientInfo": client,
        }
        if self.program.version > 1:
            params |= {"info": client, "capabilities": {"elicitation": {"form": {}, "url": {}}}}
        return [self._call("initialize", params, self._initialized)]

    def _initialized(self, response: RpcResponse) -> Moves:
        if response.error is not None:
            return self._failed("initialize", response)
        self._agent = response.result
        self._is_v2 = response.result.get("protocolVersion") == 2 and "capabilities" in response.result
        if not self._takes("image"):
            self.capabilities -= {"files"}
        if record_of(record_of(response.result.get("_meta")).get("steering")).get("supported") is True:
            self.capabilities |= {"steer"}
        return [*notices(self.request.tool_servers, self._agent), self._open_session()]

    def _open_session(self) -> Send:
        servers = as_servers(self.request.tool_servers, self._agent)
        params: Record = {"cwd": self.request.cwd} | ({} if self._is_v2 else {"mcpServers": servers})
        if not self.request.resume:
            return self._call("session/new", params, self._opened)
        can_resume = self._is_v2 or "resume" in record_of(self._can("sessionCapabilities"))
        if self.request.fork:
            params["sessionId"] = self.request.resume
            return self._call("session/fork", params, self._opened)
        method = "session/resume" if can_resume else "session/load"
        return self._call(method, {"sessionId": self.request.resume, **params}, self._opened)

    def _opened(self, response: RpcResponse) -> Moves:
        if response.error is not None:
            method = self.program.auth_method
            is_asked = response.code == _AUTHENTICATION_REQUIRED and not self._has_authenticated
            if method and is_asked:
                self._has_authenticated = True
                return [self._call("authenticate", {"methodId": method}, self._authenticated)]
            return self._failed("the session", response)
        self._session = response.result
        self.session_id = text_of(response.result.get("sessionId")) or self.request.resume
        if self.request.resume and self.program.translator.repeats_history_late:
            return [self._await_history()]
        return self._settings() or self._ready()

    def _await_history(self) -> Send:
        """A request that no agent knows, until one is answered without any history before its answer."""
        self._has_history = False
        return self._call(AWAITS_HISTORY, {}, self._history_came)

    def _history_came(self, _refusal: RpcResponse) -> Moves:
        if self._has_history:
            return [self._await_history()]
        return [self._call(ENDS_HISTORY, {}, lambda _refusal: self._settings() or self._ready())]

    def _authenticated(self, response: RpcResponse) -> Moves:
        return [self._open_session()] if response.error is None else self._failed("authenticate", response)

    def _settings(self) -> list[Move]:
        """Set the mode that the permissions of the request need, and its model; the prompt waits for both."""
        mode = self.program.modes.get(self.request.permissions, "")
        current = text_of(record_of(self._session.get("modes")).get("currentModeId"))
        model = self.request.model if self.program.sets_model else ""
        calls: list[tuple[str, Record]] = []
        if mode and mode != current:
            calls.append(self._mode_call(mode))
        if model:
            calls.append(self._model_call(model))
        calls_left = len(calls)

        def settled(response: RpcResponse) -> Moves:
            nonlocal calls_left
            calls_left -= 1
            if response.error is not None:
                return self._failed("the settings of the session", response)
            return () if calls_left else self._ready()

        return [self._call(method, params, settled) for method, params in calls]

    def _ready(self) -> list[Move]:
        self.is_ready = True
        prompt, self._waiting_prompt = self._waiting_prompt, None
        return [SessionKnown(self.session_id), *(self._prompted(prompt) if prompt is not None else ())]

    def _failed(self, what: str, response: RpcResponse) -> Moves:
        """The agent refused a part of the handshake: no prompt can be sent."""
        self.is_busy, self._waiting_prompt = False, None
        data = response.data
        detail = data if isinstance(data, str) else first_text(record_of(data), "details", "message", "error")
        reason = ": ".join(filter(None, (response.error, detail)))
        if response.code == _AUTHENTICATION_REQUIRED:
            names = [
                text_of(record_of(each).get("name")) for each in items_of(self._agent.get("authMethods"))
            ]
            reason += f" ({', '.join(filter(None, names))})" if any(names) else ""
        return [TurnEnded("failed", f"the agent refused {what}: {reason or 'unexplained'}", is_final=True)]

    # Turns

    def prompt(self, prompt: Prompt) -> Moves:
        self.is_busy = True
        if not self.is_ready:
            self._waiting_prompt = prompt
            return ()
        return self._prompted(prompt)

    def _prompted(self, prompt: Prompt) -> list[Move]:
        self._is_interrupted = self._is_running = self._is_final = False
        self._reasons, self._calls, self._explanations = [], {}, 0
        self._questioned.clear()
        blocks, notices = self._blocks(prompt)
        return [*notices, self._send_prompt(blocks)]

    def _send_prompt(self, blocks: list[Record]) -> Send:
        params = {"sessionId": self.session_id, "prompt": blocks}
        return self._call("session/prompt", params, self._prompt_answered)

    def _blocks(self, prompt: Prompt) -> tuple[list[Record], list[Move]]:
        """The prompt as blocks of content; a file of a kind that the agent does not take is left out, with a warning."""
        blocks: list[Record] = [{"type": "text", "text": prompt.text}]
        notices: list[Move] = []
        for file in prompt.attachments:
            kind = file.media_type.partition("/")[0]
            if kind in ("image", "audio") and self._takes(kind):
                blocks.append({"type": kind, "mimeType": file.media_type, "data": file.data})
            elif self._takes("embeddedContext"):
                resource = {"uri": f"attachment:///{file.name or kind}", "mimeType": file.media_type}
                blocks.append({"type": "resource", "resource": {**resource, "blob": file.data}})
            else:
                message = f"the agent takes no {file.media_type}: {file.name or 'a file'} was not sent"
                notices.append(Notice(Warning(message=message, code="attachment_dropped")))
        return blocks, notices

    def _prompt_answered(self, response: RpcResponse) -> Moves:
        if response.error is not None:
            return self._turn_ended("failed")
        if self._is_v2:
            self._is_running = True
            return ()
        return self._stopped(text_of(response.result.get("stopReason")))

    def _stopped(self, reason: str) -> Moves:
        """The agent stopped. A refused call, whose reason the model has not seen, is explained in the same turn."""
        outcome = _OUTCOMES.get(reason, "failed")
        if self._reasons and outcome != "failed" and not self._is_interrupted:
            if self._has_refused and self._explanations >= _MOST_EXPLANATIONS:
                error = Error(message=_REFUSED_TOO_OFTEN, code="refused_too_often")
                return [Notice(error), *self._turn_ended("failed", _REFUSED_TOO_OFTEN)]
            self._explanations += self._has_refused
            self._has_refused = False
            message, self._reasons = "\n".join(self._reasons), []
            self._is_running = False
            return [self._send_prompt([{"type": "text", "text": message}])]
        return self._turn_ended(outcome)

    def _turn_ended(self, outcome: Literal["completed", "failed", "interrupted"], message: str = "") -> Moves:
        prompts_left = [*self._queued, *self._steers.values()]
        self._queued, self._steers, self._reasons, self._run_id = [], {}, [], ""
        self.is_busy = self._is_running = False
        end = TurnEnded(outcome, message, is_final=self._is_final, is_urgent=self._is_final)
        return [*(NotTaken(prompt.id) for prompt in prompts_left), end]

    def interrupt(self) -> Moves:
        if not self.is_busy or self._is_interrupted:
            return ()
        self._reasons = []
        if not self.is_ready:
            self._waiting_prompt, self.is_busy = None, False
            return [TurnEnded("interrupted")]
        self._is_interrupted = True
        self._is_final = self.program.leaves_commands and bool(self._calls)
        return [self._notify("session/cancel", {"sessionId": self.session_id})]

    # Steering

    @property
    def can_steer(self) -> bool:
        is_known = not self.program.steering_method or bool(self._run_id)
        return super().can_steer and self.is_ready and is_known and not self._is_interrupted

    def steer(self, prompt: Prompt) -> Moves | None:
        if not self.can_steer:
            return None
        if self.program.drains:
            self._queued.append(prompt)
            return ()
        return [self._steering(prompt)]

    def _steering(self, prompt: Prompt) -> Send:
        blocks, _dropped = self._blocks(prompt)
        params: Record = {"sessionId": self.session_id, "prompt": blocks}
        if method := self.program.steering_method:
            params["expectedRunId"] = self._run_id
            return self._call(method, params, lambda response: self._steered(prompt, response))
        params["_meta"] = {"steering": {"idleBehavior": "promptRequired"}}
        return self._call("_session/steering", params, lambda response: self._injected(prompt, response))

    def _steered(self, prompt: Prompt, response: RpcResponse) -> Moves:
        """The agent has it; it is taken when it comes back as a message of the user's."""
        message_id = text_of(response.result.get("messageId"))
        if response.error is not None or not message_id or not self.is_busy:
            return self._not_taken(prompt)
        self._steers[message_id] = prompt
        return ()

    def _injected(self, prompt: Prompt, response: RpcResponse) -> Moves:
        if response.result.get("outcome") != "injected":
            return self._not_taken(prompt)
        return [Taken(prompt.id)] if prompt.id else ()

    def _not_taken(self, prompt: Prompt) -> Moves:
        if prompt.id:
            return [NotTaken(prompt.id)]
        self._reasons.append(prompt.text)
        return ()

    def _drain(self, request: RpcRequest) -> Moves:
        """It asks for new messages of the user. After an error it would never ask again."""
        queued, self._queued = self._queued, []
        answer = self._respond(request, {"messages": [prompt.text for prompt in queued]})
        return [answer, *(Taken(prompt.id) for prompt in queued if prompt.id)]

    # What the agent says

    def _updated(self, params: Record) -> Moves:
        update = record_of(params.get("update"))
        self._has_history = True
        match update.get("sessionUpdate"):
            case "tool_call" | "tool_call_update":
                self._note_call(update)
            case "session_info_update":
                meta = record_of(record_of(update.get("_meta")).get(self.program.run_key))
                if "activeRunId" in meta:
                    self._run_id = text_of(meta["activeRunId"])
            case "user_message_chunk":
                steer = self._steers.pop(text_of(update.get("messageId")), None)
                return [Taken(steer.id)] if steer is not None and steer.id else ()
            case "state_update" if params.get("sessionId") == self.session_id:
                return self._state(update)
        return ()

    def _note_call(self, update: Record) -> None:
        """What is stated of a call before it is asked about: the question may not repeat it."""
        call_id = text_of(update.get("toolCallId"))
        call = self._calls.setdefault(call_id, AcpCall(call_id))
        call.update(update)
        if call.has_ended:
            del self._calls[call_id]

    def _state(self, update: Record) -> Moves:
        if update.get("state") == "running":
            self._is_running = self.is_busy
        elif update.get("state") == "idle" and self._is_running:
            return self._stopped(text_of(update.get("stopReason")))
        return ()

    # Questions

    def _permission(self, request: RpcRequest) -> Moves:
        questions = disguised_questions(request.params)
        tool_call = called_in(request.params)
        call_id = text_of(tool_call.get("toolCallId"))
        if questions:
            native = DisguisedQuestion(request.id, request.method, request.params, questions)
            return [self._ask(native, question_relay(questions, call_id=call_id))]
        call = self._calls.get(call_id) or AcpCall(call_id)
        announced, content = copy(call), call.content
        call.update(tool_call)
        call.content = content or call.content
        names = self.program.translator
        others = self._others(call_id) if self.program.asks_for_all else []
        has_plan = not others and is_plan(call, names.stated_name(tool_call, announced), names)
        relay = permission_relay(request.params, call, names, self._calls, is_plan=has_plan)
        if relay.kind != "permission":
            return [self._ask(request, relay)]
        last = self._asked_call(tool_call, announced, call)
        if self.program.asks_for_all and not others and is_for_several(request.params):
            last = replace(last, doubt=_SEVERAL)
        calls = [*others, last]
        self._questioned.update(each.id for each in calls)
        return [self._ask(request, relay, *calls)]

    def _asked_call(self, tool_call: Record, announced: AcpCall, merged: AcpCall) -> AskedCall:
        """The call of a question, as the question states it."""
        names = self.program.translator
        name, has_input = names.stated_name(tool_call, announced), names.stated_input(tool_call)
        if not name:
            return self._guessed(merged)
        doubt = "" if has_input is not None else _NO_ARGUMENTS
        return AskedCall(
            tool=name,
            input=names.input_of(merged) if has_input is None else has_input,
            id=merged.id,
            doubt=doubt,
        )

    def _others(self, call_id: str) -> list[AskedCall]:
        """The calls that a question is for besides the one that it shows."""
        return [
            self._guessed(call)
            for call in self._calls.values()
            if call.id != call_id and call.id not in self._questioned
        ]

    def _guessed(self, call: AcpCall) -> AskedCall:
        names = self.program.translator
        tool, arguments = names.name_of(call), names.input_of(call)
        return AskedCall(tool=tool, input=arguments, id=call.id, doubt=_NO_NAME, is_guess=True)

    def _form(self, request: RpcRequest) -> Moves:
        native, relay = form_relay(request)
        return [self._ask(native, relay)]

    def _request_cancelled(self, params: Record) -> Moves:
        request_id = params.get("requestId")
        answers = [
            self._refuse(native, _REQUEST_CANCELLED, "cancelled")
            for native in self.open.values()
            if native.has_id(request_id)
        ]
        return [*answers, *self._withdraw_request(request_id)]

    def _answered(self, native: Any, reply: RelayReply) -> Moves:
        moves = [] if reply.approved else self._explained(native, reply)
        if isinstance(native, AskedForm):
            if reply.approved and (words := own_words(native, reply)):
                return [*self._told(words), self._respond(native, {"action": "decline"})]
            return [*moves, self._respond(native, form_answer(native, reply))]
        if isinstance(native, DisguisedQuestion):
            return [*moves, self._respond(native, disguised_answer(native, reply))]
        answer = permission_answer(native.params, approved=reply.approved)
        if answer is None:
            message = "the agent offers no way to allow this once only: it was refused"
            refusal = permission_answer(native.params, approved=False)
            return [
                self._respond(native, refusal),
                Notice(Warning(message=message, code="permission_denied")),
            ]
        return [*moves, self._respond(native, answer)]

    def _explained(self, native: RpcRequest, reply: RelayReply) -> list[Move]:
        """The protocol has no field for a reason: it is steered into the turn first, or sent when the turn stops."""
        is_heard = reply.by == "person" or self.program.ends_turn_on_reject
        if not reply.reason or not is_heard:
            return []
        self._has_refused = True
        return self._told(refusal_of(native, reply.reason))

    def _told(self, message: str) -> list[Move]:
        """Give the model what an answer of the protocol has no place for."""
        if self.can_steer and not self.program.drains:
            return [self._steering(Prompt(id="", text=message))]
        self._reasons.append(message)
        return []

    def _cancelled(self, native: Any) -> Moves:
        answer = {"action": "cancel"} if isinstance(native, AskedForm) else CANCELLED
        return [self._respond(native, answer)]

    # Settings of the session

    def configure(self, *, model: str = "", mode: str = "") -> Moves | None:
        if not self.is_ready:
            return None
        moves: list[Move] = []
        if mode:
            mode_name = _MODES.get(mode, mode)
            moves.append(
                self._call(*self._mode_call(self.program.modes.get(mode_name, mode)), self._configured)
            )
        if model and model != self._model:
            self._model = model
            moves.append(self._call(*self._model_call(model), self._configured))
        return moves

    def _configured(self, response: RpcResponse) -> Moves:
        if response.error is None:
            return ()
        message = f"the agent did not change its settings: {response.error or 'unexplained'}"
        return [Notice(Warning(message=message, code="not_configured"))]

    def _mode_call(self, mode: str) -> tuple[str, Record]:
        if "modes" in self._session:
            return "session/set_mode", {"sessionId": self.session_id, "modeId": mode}
        return self._option_call("mode", mode)

    def _model_call(self, model: str) -> tuple[str, Record]:
        if config_option(self._session, "model"):
            return self._option_call("model", model)
        return "session/set_model", {"sessionId": self.session_id, "modelId": model}

    def _option_call(self, name: str, value: str) -> tuple[str, Record]:
        params: Record = {"sessionId": self.session_id, "configId": name, "value": value}
        return "session/set_config_option", {**params, "type": "id"} if self._is_v2 else params

    def _can(self, name: str) -> Any:
        return record_of(self._agent.get("agentCapabilities")).get(name)

    def _takes(self, kind: str) -> bool:
        """Whether a prompt may have content of this kind."""
        if self._is_v2:
            session = record_of(record_of(self._agent.get("capabilities")).get("session"))
            return kind in record_of(session.get("prompt"))
        return record_of(self._can("promptCapabilities")).get(kind) is True
