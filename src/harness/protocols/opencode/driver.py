"""OpenCode's server (`opencode serve`), which its relatives share: HTTP requests, and one stream of events.

`process/http_child.py` has the connections: a request is a line `{id, method, path, body}`, its answer
`{id, status, body}`, an event `{event, data}`.

    begin    POST /session, or GET and PATCH of the session to resume, of its copy after POST /session/{id}/fork
    prompt   POST /session/{id}/prompt_async → 204; then `session.status` busy … `session.idle`
    steer    the same while busy: an answer of the model whose `parentID` is that message has taken it
    stop     POST /session/{id}/abort
    end      `session.idle`. After an abort or an error it comes twice: at once, and when the server is really done;
             a prompt in between would be stored and never answered
    asked    `permission.asked`, `question.asked`, of sub-agents with the id of their own session
    answer   POST /permission/{id}/reply, POST /question/{id}/reply or …/reject

A rejection without a message would end the turn. Open questions outlive an abort, so they are rejected. What was
missed while the stream was interrupted is requested: messages, then questions, then whether it still works.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias
from urllib.parse import quote

import msgspec

from harness.contracts.agent import CommandLine
from harness.contracts.driver import (
    AskedCall,
    AskedQuestion,
    Choice,
    Driver,
    Move,
    Moves,
    NotTaken,
    Prompt,
    Send,
    SessionKnown,
    Taken,
    TurnEnded,
    TurnStarted,
    answers_of,
    line,
    question_relay,
)
from harness.contracts.request import Request
from harness.contracts.tool_servers import ServedTools
from harness.contracts.translator import Record
from harness.events import Relay, RelayReply
from harness.formats.fields import count_of, first_text, items_of, record_of, text_of
from harness.protocols.opencode.stream import without_project
from harness.protocols.opencode.tool_servers import added

_Answered: TypeAlias = Callable[[int, Any], Moves]
"""(status, body) of an answer → moves."""

_OWN = ("todoread", "todowrite", "question")
"""What only concerns the conversation."""
_READS = ("read", "glob", "grep", "list", "lsp", *_OWN)
"""What neither changes nor runs anything."""
_OUTSIDE = "external_directory"
_LOOP = "doom_loop"
_CHANGES = ("bash", "edit", "skill", "task", "webfetch", "websearch", "codesearch", _OUTSIDE, _LOOP)
"""What does, as far as the settings have names for it; tools of MCP servers have their own."""


_PERMISSIONS_OF: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("apply_patch", "edit", "multiedit", "patch", "write"), ("edit",)),
    **dict.fromkeys(("bash", "shell"), ("bash",)),
}
"""Tool → the permissions that a call of it needs, where they do not have its name."""
_TOO_EARLY = "it asks about a call that it has not announced"
_TWICE = "the program uses one id for two calls: it is not certain which of them this is"


def _rule(permission: str, action: str, pattern: str = "*") -> dict[str, str]:
    return {"permission": permission, "pattern": pattern, "action": action}


_ASK_RULES = [
    *(_rule(name, "ask") for name in ("*", *_CHANGES, *_READS)),
    *(_rule(name, "allow") for name in _OWN),
]
"""In the order of the server: the last rule that matches counts. Rules of a session stand above those of the
settings, and above those of an agent's definition; its sub-agents inherit only what is denied."""
_DENY_RULES = [_rule("edit", "deny"), _rule("bash", "deny")]
_RULES = {"ask": _ASK_RULES, "read-only": [*_ASK_RULES, *_DENY_RULES]}
"""By the permissions of a request. What is asked is decided by our own rules."""
_READ_ONLY_AGENT = "plan"
_MISSED_MESSAGES = 50
_TITLE_LENGTH = 60
_MOST_CHECKS = 20
"""How often a server that rested early is asked again before it is believed."""
_QUIET = ("message.part.delta", "plugin.added", "session.diff", "session.updated", "sync")
_ABORTED = "MessageAbortedError"


def serve_command(request: Request, *, prefix: str, env: dict[str, str]) -> CommandLine:
    """`prefix`: that of the agent's environment variables. `HttpChild` fills in the empty ones."""
    env = {**env, f"{prefix}_SERVER_PASSWORD": "", f"{prefix}_SERVER_USERNAME": ""}
    env |= without_project(request, prefix)
    # The settings hold for sub-agents as well, which have sessions of their own.
    rules = _RULES.get(request.permissions)
    if rules is not None:
        env[f"{prefix}_PERMISSION"] = msgspec.json.encode(_settings_of(rules)).decode()
    return CommandLine(args=("serve", "--hostname", "127.0.0.1", "--port", "0", *request.extra_args), env=env)


def _settings_of(rules: list[dict[str, str]]) -> dict[str, dict[str, str]]:
    """The same rules as the settings file has them: permission → pattern → action."""
    settings: dict[str, dict[str, str]] = {}
    for rule in rules:
        settings.setdefault(rule["permission"], {})[rule["pattern"]] = rule["action"]
    return settings


class AskedPermission(msgspec.Struct, frozen=True):
    """A question of the server: for permission, or with its questions for the user."""

    id: str
    questions: tuple[AskedQuestion, ...] = ()


class OpencodeServe(Driver):
    """One server, one session. A mode is the name of one of its agents: `plan`, `build`."""

    skips = tuple(b'{"event":"%b"' % name.encode() for name in _QUIET)
    capabilities = frozenset({"steer", "approve", "ask", "files", "model", "mode", "fork"})

    def __init__(self, request: Request, line_id: str) -> None:
        super().__init__(request, line_id)
        self._model = request.model
        is_read_only = request.permissions == "read-only"
        self._agent = _READ_ONLY_AGENT if is_read_only else ""
        self._rules = _RULES.get(request.permissions, [])
        """Of the session."""
        self._requests: dict[int, tuple[int, _Answered]] = {}
        """Number of a request → the turn in which it was sent, and what takes its answer."""
        self._turn = 0
        self._sent_count = 0
        self._waiting_prompt: Prompt | None = None
        """The prompt that waits for the handshake."""
        self._sent_prompts: list[Prompt] = []
        """What was sent and has not come back as a message of the user."""
        self._steered: dict[str, str] = {}
        """Message of the user → steering prompt that the model has not answered yet."""
        self._calls: dict[tuple[str, str], list[tuple[str, str, Any]]] = {}
        """Message and call → part, tool and input of each call that runs under this id."""
        self._children: dict[str, tuple[str, str]] = {}
        """Session of a sub-agent → its name and the call that started it."""
        self._error = ""
        self._is_interrupted = False
        self._is_silent = False
        """Whether a request had no answer: the server is not used for another turn."""
        self._was_busy = False
        """Whether it has started to work since the prompt."""
        self._answering = ""
        """The answer of the model that is not complete."""
        self._rested_early = False
        """Whether it reported that it is idle before the answer was complete."""
        self._checks = 0
        """How often it was asked since then whether it rests."""
        self._handlers: dict[str, Callable[[Record], Moves]] = {
            "server.connected": self._on_connected,
            "transport.lost": self._on_lost,
            "session.created": self._on_session,
            "session.status": self._on_status,
            "session.idle": self._on_idle,
            "session.error": self._on_error,
            "message.updated": self._on_message,
            "message.part.updated": self._on_part,
            "permission.asked": self._on_permission,
            "permission.replied": self._on_replied,
            "question.asked": self._on_question,
            "question.replied": self._on_replied,
            "question.rejected": self._on_replied,
        }

    # What is wanted of the server

    def begin(self) -> Moves:
        return self._hand_over(self.request.tool_servers)

    def _hand_over(self, servers: tuple[ServedTools, ...], status: int = 200, body: Any = None) -> Moves:
        if not 200 <= status < 300 or not servers:
            return self._open_session() if 200 <= status < 300 else self._on_begun(status, body)
        return [self._send("POST", "/mcp", added(servers[0]), partial(self._hand_over, servers[1:]))]

    def _open_session(self) -> Moves:
        if self.request.resume and self.request.fork:
            return [self._send("POST", f"/session/{_name(self.request.resume)}/fork", {}, self._on_copied)]
        if self.request.resume:
            return self._resume(self.request.resume)
        if self.request.continue_last:
            return [self._send("GET", "/session?roots=true&limit=1", None, self._on_latest)]
        title = self.request.prompt.strip().partition("\n")[0][:_TITLE_LENGTH] or "Harness"
        rules = {"permission": self._rules} if self._rules else {}
        return [self._send("POST", "/session", {"title": title, **rules}, self._on_begun)]

    def _resume(self, session_id: str) -> Moves:
        path = f"/session/{_name(session_id)}"
        if self._rules:
            return [self._send("PATCH", path, {"permission": self._rules}, self._on_begun)]
        return [self._send("GET", path, None, self._on_resumed)]

    def _on_copied(self, status: int, body: Any) -> Moves:
        copy = text_of(record_of(body).get("id")) if 200 <= status < 300 else ""
        return self._resume(copy) if copy else self._on_begun(status, body)

    def prompt(self, prompt: Prompt) -> Moves:
        self._start_turn()
        self._steered.clear()
        self._sent_prompts.clear()
        if not self.is_ready:
            self._waiting_prompt = prompt
            return ()
        return [self._speak(prompt, is_steering=False)]

    def _start_turn(self) -> None:
        self.is_busy = True
        self._turn += 1
        self._is_interrupted = self._was_busy = self._rested_early = False
        self._error = self._answering = ""
        self._checks = 0

    def steer(self, prompt: Prompt) -> Moves | None:
        if not self.is_busy or not self.is_ready or self._is_interrupted:
            return None
        return [self._speak(prompt, is_steering=True)]

    def interrupt(self) -> Moves:
        self._is_interrupted = True
        if not self.is_ready:
            self._waiting_prompt = None
            return self._ended()
        return [self._abort()]

    def _abort(self) -> Send:
        return self._send("POST", f"/session/{_name(self.session_id)}/abort", None, self._on_aborted)

    def configure(self, *, model: str = "", mode: str = "") -> Moves | None:
        """From the next prompt on."""
        self._model = model or self._model
        self._agent = mode or self._agent
        return ()

    def _answered(self, native: AskedPermission, reply: RelayReply) -> Moves:
        if not native.questions:
            body = {"reply": "once"}
            if not reply.approved:
                body = {"reply": "reject", "message": reply.reason or "The user does not want this call."}
            return [self._send("POST", f"/permission/{_name(native.id)}/reply", body)]
        answers = list(answers_of(native.questions, reply.answer).values())
        if not reply.approved:
            if not reply.reason:
                return self._cancelled(native)
            answers = [[f"The user did not answer: {reply.reason}"] for _ in native.questions]
        return [self._send("POST", f"/question/{_name(native.id)}/reply", {"answers": answers})]

    def _cancelled(self, native: AskedPermission) -> Moves:
        if native.questions:
            return [self._send("POST", f"/question/{_name(native.id)}/reject")]
        return [self._send("POST", f"/permission/{_name(native.id)}/reply", {"reply": "reject"})]

    def _send(self, method: str, path: str, body: Any = None, then: _Answered | None = None) -> Send:
        """`then` takes the answer, unless another turn has started by then."""
        self._sent_count += 1
        if then is not None:
            self._requests[self._sent_count] = (self._turn, then)
        more = {} if body is None else {"body": body}
        return line({"id": self._sent_count, "method": method, "path": path, **more})

    def _speak(self, prompt: Prompt, *, is_steering: bool) -> Send:
        parts: list[dict[str, str]] = [{"type": "text", "text": prompt.text}]
        for file in prompt.attachments:
            url = f"data:{file.media_type};base64,{file.data}"
            part = {"type": "file", "mime": file.media_type, "url": url}
            parts.append(part | ({"filename": file.name} if file.name else {}))
        body: dict[str, Any] = {"parts": parts}
        if self._model:
            provider, _, name = self._model.partition("/")
            body["model"] = {"providerID": provider, "modelID": name}
        if self._agent:
            body["agent"] = self._agent
        if self.request.effort:
            body["variant"] = self.request.effort
        if is_steering:
            self._sent_prompts.append(prompt)

        def answered(status: int, body: Any) -> Moves:
            return () if 200 <= status < 300 else self._not_accepted(prompt, is_steering, status, body)

        return self._send("POST", f"/session/{_name(self.session_id)}/prompt_async", body, answered)

    def _not_accepted(self, prompt: Prompt, is_steering: bool, status: int, body: Any) -> Moves:
        if not is_steering:
            self._error = _reason_of(status, body)
            return self._ended()
        if prompt not in self._sent_prompts:
            return ()
        self._sent_prompts.remove(prompt)
        return [NotTaken(prompt.id)]

    # What it answers

    def receive(self, record: Record) -> Moves:
        event = record.get("event")
        if isinstance(event, str):
            handler = self._handlers.get(event)
            data = record_of(record.get("data"))
            return () if handler is None else handler(record_of(data.get("properties")) or data)
        turn, then = self._requests.pop(count_of(record.get("id")) or 0, (0, None))
        if then is None or (turn != self._turn and self.is_ready):
            return ()
        status = count_of(record.get("status")) or 0
        self._is_silent = self._is_silent or not status
        return then(status, record.get("body") if status else record.get("error"))

    def _on_resumed(self, status: int, body: Any) -> Moves:
        """Rules of a session can only be added to: an earlier read-only run has left some that deny."""
        rules = items_of(record_of(body).get("permission"))
        session_id = text_of(record_of(body).get("id"))
        if session_id and any(rule in rules for rule in _DENY_RULES):
            path = f"/session/{_name(session_id)}"
            return [self._send("PATCH", path, {"permission": _ASK_RULES}, self._on_begun)]
        return self._on_begun(status, body)

    def _on_latest(self, status: int, body: Any) -> Moves:
        session_id = text_of(record_of(next(iter(items_of(body)), None)).get("id"))
        if not session_id:
            return self._on_begun(status, "there is no session to continue in this directory")
        return self._resume(session_id)

    def _on_begun(self, status: int, body: Any) -> Moves:
        self.session_id = text_of(record_of(body).get("id")) if 200 <= status < 300 else ""
        if not self.session_id:
            self._error = _reason_of(status, body)
            return self._ended(is_final=True)
        self.is_ready = True
        moves: list[Move] = [SessionKnown(self.session_id)]
        if self._waiting_prompt is not None:
            prompt, self._waiting_prompt = self._waiting_prompt, None
            moves.append(self._speak(prompt, is_steering=False))
        return moves

    def _on_aborted(self, status: int, body: Any) -> Moves:
        """Questions outlive an abort: those that are still open are rejected."""
        del status, body
        return [
            self._send("GET", "/permission", None, self._on_left_over),
            self._send("GET", "/question", None, self._on_left_over),
            self._check(),
        ]

    def _on_left_over(self, status: int, body: Any) -> Moves:
        del status
        open_ids = {native.id for native in self.open.values()}
        questions = (_asked_of(record_of(item)) for item in items_of(body) if self._is_ours(record_of(item)))
        return [move for each in questions if each.id not in open_ids for move in self._cancelled(each)]

    def _on_session_status(self, status: int, body: Any) -> Moves:
        """It was asked whether it rests. Sessions that do are not in the list."""
        kind = record_of(record_of(body).get(self.session_id)).get("type", "idle")
        if not self.is_busy or status != 200 or kind != "idle" or self._answering:
            return ()
        if not self._was_busy and not self._error:
            return ()  # it has the prompt, and is about to begin
        if self._rested_early and self._checks < _MOST_CHECKS:
            return [self._check()]
        return self._ended()

    def _check(self) -> Send:
        self._checks += 1
        return self._send("GET", "/session/status", None, self._on_session_status)

    # Its events

    def _on_connected(self, _: Record) -> Moves:
        """The stream is open. If it was before, something may have been missed."""
        if not self.is_ready or not self.is_busy:
            return ()
        path = f"/session/{_name(self.session_id)}/message?limit={_MISSED_MESSAGES}"
        return [self._send("GET", path, None, self._on_missed)]

    def _on_missed(self, status: int, body: Any) -> Moves:
        """The translator has read the messages; the questions are next, and then the end, if it was missed."""
        del status
        moves: list[Move] = []
        messages = [record_of(item) for item in items_of(body)]
        self._was_busy |= bool(messages) and record_of(messages[-1].get("info")).get("role") == "assistant"
        for message in messages:
            moves += self._on_message({"info": message.get("info"), "sessionID": self.session_id})
            for part in items_of(message.get("parts")):
                moves += self._on_part({"part": part, "sessionID": self.session_id})

        def asked(_: int, body: Any) -> Moves:
            return [move for item in items_of(body) for move in self._ask_once(record_of(item))]

        return [
            *moves,
            self._send("GET", "/permission", None, asked),
            self._send("GET", "/question", None, asked),
            self._check(),
        ]

    def _on_lost(self, data: Record) -> Moves:
        self._error = text_of(data.get("error")) or "the agent's server cannot be reached"
        return [*self._withdraw(lambda _: True), *self._ended(is_final=True)]

    def _on_session(self, data: Record) -> Moves:
        info = record_of(data.get("info"))
        child = text_of(info.get("id"))
        if child and self._is_ours({"sessionID": info.get("parentID")}):
            self._children.setdefault(child, (first_text(info, "agent", "title"), ""))
        return ()

    def _on_status(self, data: Record) -> Moves:
        if data.get("sessionID") != self.session_id:
            return ()
        if record_of(data.get("status")).get("type") == "idle":
            return ()  # `session.idle` says the same
        moves: Moves = ()
        if not self.is_busy:
            self._start_turn()
            moves = [TurnStarted()]
        elif self._is_interrupted and not self._was_busy:
            moves = [self._abort()]  # the first one came before there was anything to abort
        self._was_busy, self._rested_early = True, False
        return moves

    def _on_idle(self, data: Record) -> Moves:
        if data.get("sessionID") != self.session_id or not self.is_busy:
            return ()
        if not self._was_busy:
            return ()  # it belongs to the turn before
        if self._answering:
            self._rested_early = True
            return ()
        if self._is_interrupted:
            return self._ended()
        is_late = bool(
            self._sent_prompts or self._steered
        )  # did these come too late, or do they begin another answer?
        return [self._check()] if is_late else self._ended()

    def _on_error(self, data: Record) -> Moves:
        if data.get("sessionID", self.session_id) != self.session_id or not self.is_busy:
            return ()
        error = record_of(data.get("error"))
        if error.get("name") == _ABORTED:
            self._is_interrupted = True
            return ()
        self._error = first_text(record_of(error.get("data")), "message") or text_of(error.get("name"))
        return () if self._was_busy else [self._check()]  # a prompt that it cannot begin with

    def _on_message(self, data: Record) -> Moves:
        info = record_of(data.get("info"))
        if data.get("sessionID", info.get("sessionID")) != self.session_id or info.get("role") != "assistant":
            return ()
        is_complete = "completed" in record_of(info.get("time")) or "error" in info
        self._answering = "" if is_complete else text_of(info.get("id"))
        message_id = self._steered.pop(text_of(info.get("parentID")), None)
        moves: list[Move] = [] if message_id is None else [Taken(message_id)]
        return [*moves, self._check()] if is_complete and self._rested_early else moves

    def _on_part(self, data: Record) -> Moves:
        part = record_of(data.get("part"))
        match part.get("type"):
            case "tool":
                self._take_call(part)
            case "text" if data.get("sessionID", part.get("sessionID")) == self.session_id:
                text = part.get("text")
                prompt_of_part = next((prompt for prompt in self._sent_prompts if prompt.text == text), None)
                if prompt_of_part is not None and "time" not in part:
                    self._sent_prompts.remove(prompt_of_part)
                    self._steered[text_of(part.get("messageID"))] = prompt_of_part.id
        return ()

    def _take_call(self, part: Record) -> None:
        call_id, state = text_of(part.get("callID")), record_of(part.get("state"))
        child = text_of(record_of(state.get("metadata")).get("sessionId"))
        if child in self._children:
            self._children[child] = (self._children[child][0], call_id)
        key, part_id = (text_of(part.get("messageID")), call_id), text_of(part.get("id"))
        others = [other for other in self._calls.pop(key, []) if other[0] != part_id]
        if state.get("status") in ("pending", "running"):
            others.append((part_id, text_of(part.get("tool")), state.get("input")))
        if others:
            self._calls[key] = others

    # Its questions

    def _on_permission(self, data: Record) -> Moves:
        return self._ask_once(data)

    def _on_question(self, data: Record) -> Moves:
        return self._ask_once(data)

    def _ask_once(self, data: Record) -> list[Move]:
        native = _asked_of(data)
        if not native.id or not self._is_ours(data) or native in self.open.values():
            return []
        if self._is_interrupted:
            return list(self._cancelled(native))
        call_id = text_of(record_of(data.get("tool")).get("callID"))
        name, spawn_call_id = self._children.get(text_of(data.get("sessionID")), ("", ""))
        about: dict[str, Any] = {"call_id": call_id, "subagent": name, "spawn_call_id": spawn_call_id}
        if native.questions:
            return [self._ask(native, question_relay(native.questions, **about))]
        if self.request.permissions == "full-access":
            return [self._send("POST", f"/permission/{_name(native.id)}/reply", {"reply": "once"})]
        call = self._asked_call(data, call_id)
        tool_name, input = call.tool, call.input
        patterns = ", ".join(filter(None, map(text_of, items_of(data.get("patterns")))))
        question = (
            f"{text_of(data.get('permission'))}: {patterns}" if patterns else text_of(data.get("permission"))
        )
        payload = {key: data[key] for key in ("permission", "patterns", "metadata") if key in data}
        relay = Relay(id="", tool_name=tool_name, input=input, question=question, payload=payload, **about)
        return [self._ask(native, relay, call)]

    def _asked_call(self, data: Record, call_id: str) -> AskedCall:
        """The call that a question names by its message and its id; before its part came, as the question has it."""
        permission, metadata = text_of(data.get("permission")), record_of(data.get("metadata"))
        message_id = text_of(record_of(data.get("tool")).get("messageID"))
        calls = self._calls.get((message_id, call_id), [])
        if not calls or not calls[-1][2]:
            return AskedCall(tool=permission, input=metadata, id=call_id, doubt=_TOO_EARLY)
        part_id, tool, tool_input = calls[-1]
        doubt = ""
        if any(other != part_id for other, _, _ in calls):
            doubt = _TWICE
        elif permission == _LOOP:
            doubt = "it repeats the same call again and again"
        elif permission not in (_OUTSIDE, *_PERMISSIONS_OF.get(tool, (tool,))):
            doubt = f"it asks for the permission {permission!r} for a call of {tool!r}"
        elif metadata.get("command", "") not in ("", record_of(tool_input).get("command", "")):
            doubt = "the command that it asks about is not the one of the call"
        return AskedCall(tool=tool, input=tool_input, id=call_id, doubt=doubt)

    def _on_replied(self, data: Record) -> Moves:
        """Ours are not open any more: another client has answered, or one rejection has ended several."""
        return self._withdraw(lambda native: native.id == data.get("requestID"))

    def _is_ours(self, data: Record) -> bool:
        session_id = text_of(data.get("sessionID"))
        return bool(session_id) and (session_id == self.session_id or session_id in self._children)

    # The end of a turn

    def _ended(self, *, is_final: bool = False) -> Moves:
        self.is_busy, is_final = False, is_final or self._is_silent
        late: list[Move] = [NotTaken(prompt.id) for prompt in self._sent_prompts]
        # An interrupted turn has these in its history: the next one sees them.
        late += [(Taken if self._is_interrupted else NotTaken)(each) for each in self._steered.values()]
        self._sent_prompts.clear()
        self._steered.clear()
        if self._is_interrupted:
            return [*late, TurnEnded("interrupted", is_final=is_final)]
        outcome = (
            TurnEnded("failed", self._error, is_final)
            if self._error
            else TurnEnded("completed", is_final=is_final)
        )
        return [*late, outcome]


def _asked_of(data: Record) -> AskedPermission:
    questions = [
        _question_of(number, record_of(item)) for number, item in enumerate(items_of(data.get("questions")))
    ]
    return AskedPermission(text_of(data.get("id")), tuple(questions))


def _question_of(number: int, question: Record) -> AskedQuestion:
    options = [record_of(option) for option in items_of(question.get("options"))]
    return AskedQuestion(
        id=str(number),
        question=text_of(question.get("question")),
        header=text_of(question.get("header")),
        options=[
            Choice(label=text_of(option.get("label")), description=text_of(option.get("description")))
            for option in options
        ],
        multiple=question.get("multiple") is True,
    )


def _name(value: str) -> str:
    """As a part of a path."""
    return quote(value, safe="")


def _reason_of(status: int, body: Any) -> str:
    if not status or isinstance(body, str):
        return text_of(body) or "the agent's server failed"
    data = record_of(record_of(body).get("data"))
    message = first_text(data, "message") or first_text(record_of(body), "message", "name")
    return f"the agent's server answers with status {status}" + (f": {message}" if message else "")
