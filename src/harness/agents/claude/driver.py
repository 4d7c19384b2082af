"""Claude Code's control channel: `--input-format stream-json --permission-prompt-tool stdio`.

    initialize ──▶ user line ──▶ running ──▶ result … idle
                     ▲             │  ▲
                     │ steer       ▼  │ control_response
                     └──────── requires_action (can_use_tool)

Rules
1. A turn is over when the program says that it is idle and no task works in the background: one that ends
   there makes it run again without a prompt. Versions that do not report their state end with their result.
2. User lines have ids of ours. A line whose id the transcript already holds is dropped without a word.
3. A message in the middle of a turn is taken at the next tool boundary, else it is the next turn of the
   same run. It counts as taken when the program repeats it, or says that it has started with it. Until then
   the turn is not over, unless it was interrupted.
4. What is queued when the turn is interrupted would run right after it: it is taken back first. Versions that cannot take
   a message back are killed as soon as the interrupted turn has ended, and resumed with the next prompt.
5. "Always" is ours: suggested permissions are never sent back, for some of them write files of the project.
"""

from __future__ import annotations

from typing import Any

from harness.contracts.driver import (
    AskedQuestion,
    Choice,
    Driver,
    Move,
    Moves,
    NotTaken,
    Prompt,
    SessionKnown,
    Taken,
    TurnEnded,
    TurnStarted,
    answers_of,
    line,
    question_relay,
)
from harness.contracts.request import Request
from harness.contracts.translator import Record
from harness.events import Relay, RelayReply
from harness.formats.fields import first_text, items_of, record_of, text_of
from harness.protocols.claude_tools import CLAUDE

ENVIRONMENT = {"CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS": "1"}
"""Makes it say when it runs, waits and is idle."""

_QUESTION, _PLAN, _PLAN_TITLE = "AskUserQuestion", "ExitPlanMode", "Implementation Plan"
_HARMLESS = CLAUDE.names_of("own")
"""Tools that only concern the conversation: all others are asked about, and decided here."""
_READING = _HARMLESS | CLAUDE.names_of("read")
_ASK_FIRST = {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "ask"}}
_ONLY_READS = {
    "hookSpecificOutput": {
        "hookEventName": "PreToolUse",
        "permissionDecision": "deny",
        "permissionDecisionReason": "this run may only read files below its folder",
    }
}
"""Earlier versions run commands that they take for reading although they are told to ask; a denial all of them keep."""
_ABILITIES = {"ask": _QUESTION, "plan": _PLAN}
"""The tools without which it cannot: versions differ in what they offer over this channel."""
_MODES = {"plan": "plan", "build": "default", "default": "default"}
_TASK_ENDS = frozenset({"completed", "failed", "killed", "stopped"})


class ClaudeControl(Driver):
    skips = (b'{"type":"stream_event"',)
    skips_unless = ((b'{"type":"user"', b'"isReplay":true'),)
    capabilities = frozenset({"steer", "approve", "ask", "plan", "files", "model", "mode", "fork"})

    def __init__(self, request: Request, line_id: str) -> None:
        super().__init__(request, line_id)
        self._requests = 0
        self._sent_ids: set[str] = set()
        """Ids of messages in the middle of a turn that are not taken yet."""
        self._taking_back: dict[str, str] = {}
        """Requests to take a message back that the program has not carried out yet → the id of the message."""
        self._tasks: dict[str, tuple[str, str]] = {}
        """Background work: id → name of the sub-agent, and the call that started it."""
        self._spawned: dict[str, str] = {}
        """Calls of this turn that start a sub-agent → its name, for versions that announce no tasks."""
        self._spawn_calls: dict[str, str] = {}
        """Calls of sub-agents → the call that started the sub-agent."""
        self._waiting_prompt = ""
        """The id of a prompt that the program has not started yet."""
        self._is_interrupted = False
        self._plans: dict[str, str] = {}
        """Call → its plan: the question has it only where the model wrote it into a file."""
        self._result: Record | None = None
        self._says_states = self._is_idle = False
        self._only_reads = request.permissions == "read-only"
        """Until its plan is approved."""

    def begin(self) -> Moves:
        hooks = None
        if self.request.permissions in ("ask", "read-only"):
            # Settings of the user and of the project may allow calls without asking; a hook is called all the same.
            hooks = {"PreToolUse": [{"matcher": "*", "hookCallbackIds": ["ask"]}]}
        return [self._control(subtype="initialize", hooks=hooks)]

    def prompt(self, prompt: Prompt) -> Moves:
        self._begin_turn()
        self._waiting_prompt = prompt.id
        return [_user_line(prompt)]

    def steer(self, prompt: Prompt) -> Moves | None:
        if not self.is_busy:
            return None
        self._sent_ids.add(prompt.id)
        return [_user_line(prompt)]

    def interrupt(self) -> Moves:
        self._is_interrupted = True
        moves: list[Move] = []
        for message_id in sorted(self._sent_ids - set(self._taking_back.values())):
            moves.append(self._control(subtype="cancel_async_message", message_uuid=message_id))
            self._taking_back[f"harness-{self._requests}"] = message_id
        moves.append(self._control(subtype="interrupt", cancel_queued=True))
        if self._is_idle and self._result is not None:
            # It waits for its tasks only: there is no turn whose end it could report.
            moves += [self._control(subtype="stop_task", task_id=task) for task in self._tasks]
            self._tasks.clear()
            self.is_busy, self._result = False, None
            moves.append(TurnEnded("interrupted"))
        return moves

    def configure(self, *, model: str = "", mode: str = "") -> Moves:
        moves: list[Move] = []
        if model:
            moves.append(self._control(subtype="set_model", model=model))
        if mode:
            self._only_reads = mode == "plan"
            moves.append(self._control(subtype="set_permission_mode", mode=_MODES.get(mode, mode)))
        return moves

    def receive(self, record: Record) -> Moves:
        self.is_ready = True  # prompts are read from the start on; any record shows that the program works
        match record.get("type"):
            case "control_request":
                return self._asked_for(record)
            case "control_response":
                return self._on_response(record_of(record.get("response")))
            case "control_cancel_request":
                return self._withdraw_request(record.get("request_id"))
            case "command_lifecycle":
                return self._on_lifecycle(text_of(record.get("command_uuid")), text_of(record.get("state")))
            case "user" if record.get("isReplay") is True:
                return self._taken(text_of(record.get("uuid")))
            case "result":
                return self._on_result(record)
            case "assistant":
                self._note_calls(record)
            case "system":
                return self._system(record)
        return ()

    def _system(self, record: Record) -> Moves:
        match record.get("subtype"):
            case "init":
                return self._on_init(record)
            case "session_state_changed":
                self._says_states = True
                return self._on_state(text_of(record.get("state")))
            case "task_started":
                task = (text_of(record.get("subagent_type")), text_of(record.get("tool_use_id")))
                self._tasks[text_of(record.get("task_id"))] = task
            case "task_updated":
                if text_of(record_of(record.get("patch")).get("status")) in _TASK_ENDS:
                    self._tasks.pop(text_of(record.get("task_id")), None)
            case "task_notification":
                self._tasks.pop(text_of(record.get("task_id")), None)
        return ()

    def _on_init(self, record: Record) -> Moves:
        self.session_id = text_of(record.get("session_id"))
        tools = items_of(record.get("tools"))
        missing = {ability for ability, tool in _ABILITIES.items() if tools and tool not in tools}
        self.capabilities = type(self).capabilities - missing
        return [SessionKnown(self.session_id)]

    def _on_state(self, state: str) -> Moves:
        self._is_idle = state == "idle"
        if state == "running" and not self.is_busy:
            self._begin_turn()
            return [TurnStarted()]
        waits = bool(self._sent_ids) and not self._is_interrupted
        is_over = state == "idle" and self._result is not None and not waits
        return self._ended() if is_over and (self._is_interrupted or not self._tasks) else ()

    def _begin_turn(self) -> None:
        self.is_busy, self._result, self._is_interrupted, self._waiting_prompt = True, None, False, ""
        self._taking_back.clear()
        self._spawned.clear()
        self._spawn_calls.clear()

    def _note_calls(self, record: Record) -> None:
        """Remember what a question does not repeat: plans, and which calls are those of sub-agents."""
        parent = text_of(record.get("parent_tool_use_id"))
        for block in map(record_of, items_of(record_of(record.get("message")).get("content"))):
            call_id, tool_input = text_of(block.get("id")), record_of(block.get("input"))
            if call_id and parent:
                self._spawn_calls[call_id] = parent
            if call_id and (name := text_of(tool_input.get("subagent_type"))):
                self._spawned[call_id] = name
            if block.get("name") == _PLAN:
                self._plans[call_id] = text_of(tool_input.get("plan"))

    def _on_result(self, record: Record) -> Moves:
        if not self.is_busy:
            return ()
        self._result = record
        self.session_id = text_of(record.get("session_id")) or self.session_id
        if self._is_interrupted and self._has_queue:
            return self._ended()  # it does not know the request, and will not become idle
        waits = self._says_states or (self._sent_ids and not self._is_interrupted)
        return () if waits else self._ended()

    def _on_response(self, response: Record) -> Moves:
        message_id = self._taking_back.get(text_of(response.get("request_id")), "")
        if not message_id or response.get("subtype") != "success":
            return ()
        del self._taking_back[text_of(response.get("request_id"))]
        is_ours = (
            record_of(response.get("response")).get("cancelled") is True and message_id in self._sent_ids
        )
        if not is_ours:
            return ()  # it has been taken: the program repeats it, or has said so
        self._sent_ids.remove(message_id)
        return [NotTaken(message_id)]

    def _on_lifecycle(self, prompt_id: str, state: str) -> Moves:
        match state:
            case "started":
                return self._taken(prompt_id)
            case "completed" | "cancelled" if prompt_id and prompt_id == self._waiting_prompt:
                # It was interrupted before it began with it, or has it already: no result follows.
                self.is_busy, self._waiting_prompt = False, ""
                return [TurnEnded("completed" if state == "completed" else "interrupted")]
            case "completed":
                return self._taken(prompt_id)
            case "cancelled" if prompt_id in self._sent_ids:
                self._sent_ids.remove(prompt_id)
                return [NotTaken(prompt_id)]
        return ()

    @property
    def _has_queue(self) -> bool:
        """Whether a message is still queued although it was to be taken back."""
        return not self._sent_ids.isdisjoint(self._taking_back.values())

    def _ended(self) -> Moves:
        result, self._result = self._result or {}, None
        self.is_busy = False
        if self._is_interrupted and self._has_queue:
            return [TurnEnded("interrupted", is_final=True, is_urgent=True)]
        if result.get("is_error") is not True and result.get("subtype") in ("success", None):
            return [TurnEnded("completed")]
        is_aborted = text_of(result.get("terminal_reason")).startswith("aborted")
        return [TurnEnded("interrupted" if is_aborted else "failed", text_of(result.get("result")))]

    def _taken(self, prompt_id: str) -> Moves:
        if prompt_id == self._waiting_prompt:
            self._waiting_prompt = ""
        if prompt_id not in self._sent_ids:
            return ()
        self._sent_ids.remove(prompt_id)
        return [Taken(prompt_id)]

    # Questions

    def _asked_for(self, record: Record) -> Moves:
        request_id, request = record.get("request_id"), record_of(record.get("request"))
        if request.get("subtype") == "hook_callback":
            name = text_of(record_of(request.get("input")).get("tool_name"))
            return [_response(request_id, subtype="success", response=self._hook_decision(name))]
        # An id that is used again can be given one answer only: that to the later question.
        replaced = self._withdraw_request(request_id)
        if request.get("subtype") != "can_use_tool":
            return [*replaced, _response(request_id, subtype="error", error="unsupported")]
        return [*replaced, self._asked_about(request_id, request)]

    def _hook_decision(self, tool: str) -> Record:
        if tool in _HARMLESS:
            return {}
        return _ONLY_READS if self._only_reads and tool not in _READING else _ASK_FIRST

    def _withdraw_request(self, request_id: Any) -> list[Move]:
        """Close the question of that id. 0, false and "0" are different ids."""
        return self._withdraw(
            lambda native: (
                type(native["request_id"]) is type(request_id) and native["request_id"] == request_id
            )
        )

    def _asked_about(self, request_id: Any, request: Record) -> Move:
        name, tool_input = text_of(request.get("tool_name")), request.get("input")
        native = {"request_id": request_id, "tool": name, "input": tool_input}
        call_id = text_of(request.get("tool_use_id"))
        subagent, spawn_call_id = self._subagent(text_of(request.get("agent_id")), call_id)
        origin: dict[str, Any] = {
            "call_id": call_id,
            "tool_name": name,
            "input": tool_input,
            "subagent": subagent,
            "spawn_call_id": spawn_call_id,
        }
        if name == _QUESTION:
            native["questions"] = questions = _questions(record_of(tool_input))
            return self._ask(native, question_relay(questions, **origin))
        if name == _PLAN:
            call_of_plan = self._plans.pop(origin["call_id"], "")
            plan = {"title": _PLAN_TITLE, "plan": text_of(record_of(tool_input).get("plan")) or call_of_plan}
            return self._ask(native, Relay(id="", kind="plan", question=_PLAN_TITLE, payload=plan, **origin))
        description = first_text(request, "description", "decision_reason")
        return self._ask(native, Relay(id="", question=description, **origin))

    def _subagent(self, agent_id: str, call_id: str) -> tuple[str, str]:
        """The name of the sub-agent that asks, and the call that started it; both empty for the main agent."""
        if agent_id == self.session_id:  # so do older versions name the main agent
            agent_id = ""
        if agent_id in self._tasks:
            return self._tasks[agent_id]
        spawn_call_id = self._spawn_calls.get(call_id, "")
        return self._spawned.get(spawn_call_id, agent_id), spawn_call_id

    def _answered(self, native: Any, reply: RelayReply) -> Moves:
        return [self._decision(native, reply)]

    def _decision(self, native: Any, reply: RelayReply) -> Move:
        if not reply.approved:
            message = reply.reason or "The user does not want this."
            return _permission(native, behavior="deny", message=message)
        tool_input = native["input"]
        if native["tool"] == _PLAN:
            self._only_reads = False  # from here on each call is decided by what was granted for the work
        if native["tool"] == _QUESTION:
            answers = answers_of(native["questions"], reply.answer)
            joined = {question: ", ".join(labels) for question, labels in answers.items()}
            tool_input = {**record_of(tool_input), "answers": joined}
        return _permission(native, behavior="allow", updatedInput=tool_input)

    def _cancelled(self, native: Any) -> Moves:
        return [_permission(native, behavior="deny", message="The turn was interrupted.")]

    def _control(self, **request: Any) -> Move:
        self._requests += 1
        return line(
            {"type": "control_request", "request_id": f"harness-{self._requests}", "request": request}
        )


def _user_line(prompt: Prompt) -> Move:
    images = [
        {
            "type": "image" if attachment.media_type.startswith("image/") else "document",
            "source": {"type": "base64", "media_type": attachment.media_type, "data": attachment.data},
        }
        for attachment in prompt.attachments
    ]
    content = [*images, {"type": "text", "text": prompt.text}]
    return line(
        {
            "type": "user",
            "message": {"role": "user", "content": content},
            "parent_tool_use_id": None,
            "session_id": "",
            "uuid": prompt.id,
        }
    )


def _questions(tool_input: dict[str, Any]) -> list[AskedQuestion]:
    """The answers are expected under the text of each question."""
    questions = []
    for item in map(record_of, items_of(tool_input.get("questions"))):
        options = [
            Choice(label=text_of(option.get("label")), description=text_of(option.get("description")))
            for option in map(record_of, items_of(item.get("options")))
        ]
        text = text_of(item.get("question"))
        questions.append(
            AskedQuestion(
                id=text,
                question=text,
                header=text_of(item.get("header")),
                options=options,
                multiple=item.get("multiSelect") is True,
            )
        )
    return questions


def _permission(native: Any, **decision: Any) -> Move:
    return _response(native["request_id"], subtype="success", response=decision)


def _response(request_id: Any, **response: Any) -> Move:
    return line({"type": "control_response", "response": {"request_id": request_id, **response}})
