"""Pi's `--mode rpc`: commands and responses as JSON lines, with two extensions of ours beside this file.

Pi has no permissions and no way to ask: `gate.ts` makes calls wait for an answer, `question.ts` gives the model
a tool for questions. Both use Pi's dialogs; what is asked is JSON in the title, and what is answered is JSON too.

Rules
1. With the permissions `ask` and `read-only` no prompt is sent before the gate has reported itself.
2. A turn is over at `agent_settled`. A prompt that an extension took for a command of its own has no such end.
3. A steering text waits in Pi's queue. It is taken when it comes back as a message of the user; what is still queued
   at the end is removed, for Pi would put it before the next prompt.
4. An abort waits for open dialogs: `cancel_all` answers them.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import msgspec

from harness.contracts.driver import (
    Asked,
    AskedQuestion,
    Choice,
    Driver,
    Move,
    Moves,
    Notice,
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
from harness.contracts.translator import Record
from harness.events import Relay, RelayReply, Warning
from harness.formats.fields import decoded, items_of, output_of, record_of, text_of

_FOLDER = __file__.removesuffix("driver.py")
GATE, QUESTION = f"{_FOLDER}gate.ts", f"{_FOLDER}question.ts"
CAPABILITIES = frozenset({"steer", "approve", "ask", "files", "model"})
DIALOGS = frozenset({"select", "confirm", "input", "editor"})
ANNOUNCEMENTS = frozenset({"notify", "setStatus", "setWidget", "setTitle", "set_editor_text"})
"""What an extension shows without waiting for an answer."""

_GATE_STATUS = "harness:gate"
_PERMISSION, _QUESTION = "harness:permission ", "harness:question "
_NO_GATE = (
    "Pi did not load the extension that asks for permission, so nothing was sent to it: "
    "its error output says why; or run it with other permissions"
)
_encode = msgspec.json.Encoder().encode


class _Dialog(msgspec.Struct, frozen=True):
    """An open dialog: its id as it came, who wants what kind of answer, and for which call."""

    id: Any
    kind: Literal["permission", "question", "confirm", "value"]
    questions: tuple[AskedQuestion, ...] = ()
    call_id: str = ""


class PiRpc(Driver):
    skips: ClassVar[tuple[bytes, ...]] = (
        b'{"type":"message_update"',
        b'{"type":"message_start"',
        b'{"type":"tool_execution_update"',
        b'{"type":"turn_',
        b'{"type":"agent_end"',
    )
    capabilities = CAPABILITIES

    def __init__(self, request: Request, line_id: str) -> None:
        super().__init__(request, line_id)
        self._commands = 0
        self._sent_prompts: dict[str, Prompt] = {}
        """Id of a command → the prompt or the steering message that it carries."""
        self._held_prompt: Prompt | None = None
        """A prompt that came before the handshake was done, or a switch of the model."""
        self._switches = 0
        """Switches of the model that are not done yet: Pi works on commands side by side."""
        self._queued: list[str] = []
        """Texts that wait in Pi's queue."""
        self._steered: dict[str, set[str]] = {}
        """Id of a steering message that was not taken yet → its text, and the text as Pi queued it."""
        self._has_gate = request.permissions not in ("ask", "read-only")
        self._has_prompted = False
        self._is_interrupted = False
        self._stop_reason = ""
        self._provider = ""
        self._model = request.model

    def begin(self) -> Moves:
        return [self._command("get_state")]

    def prompt(self, prompt: Prompt) -> Moves:
        self.is_busy, self._is_interrupted, self._stop_reason = True, False, ""
        if not self.is_ready or self._switches:
            self._held_prompt = prompt
            return []
        if not self._has_gate:
            self.is_busy = False
            return [TurnEnded("failed", _NO_GATE, is_final=True)]
        # The session is reported again for every run, since each is translated by itself.
        state = [self._command("get_state")] if self._has_prompted else []
        self._has_prompted = True
        return [*_left_out(prompt), *state, self._command("prompt", prompt)]

    def steer(self, prompt: Prompt) -> Moves | None:
        if not self.can_steer or self._held_prompt is not None or self._is_interrupted:
            return None
        self._steered[prompt.id] = {prompt.text}
        return [*_left_out(prompt), self._command("steer", prompt)]

    def interrupt(self) -> Moves:
        if not self.is_busy:
            return []
        if self._held_prompt is not None:
            self._held_prompt, self.is_busy = None, False
            return [TurnEnded("interrupted")]
        self._is_interrupted = True
        return [self._command("clear_queue"), self._command("abort")]

    def configure(self, *, model: str = "", mode: str = "") -> Moves | None:
        provider, slash, name = model.partition("/")
        if not slash:
            provider, name = self._provider, model
        if mode or not provider or not name:
            return None
        if model == self._model:
            return []
        self._model = model
        self._switches += 1
        return [self._command("set_model", provider=provider, modelId=name)]

    def receive(self, record: Record) -> Moves:
        match record.get("type"):
            case "response":
                return self._response(record)
            case "extension_ui_request":
                return self._dialog(record)
            case "message_end":
                return self._message(record_of(record.get("message")))
            case "queue_update":
                self._queued = [text for text in items_of(record.get("steering")) if isinstance(text, str)]
            case "tool_execution_end":
                call_id = text_of(record.get("toolCallId"))
                return self._withdraw(lambda dialog: bool(call_id) and dialog.call_id == call_id)
            case "agent_start":
                return self._started()
            case "agent_settled":
                return self._settled(is_aborted=record.get("aborted") is True)
        return []

    def _command(self, type: str, prompt: Prompt | None = None, **more: Any) -> Send:
        self._commands += 1
        id = f"{self._line_id}-{self._commands}"
        if prompt is not None:
            self._sent_prompts[id] = prompt
            more["message"] = prompt.text
            if images := [file for file in prompt.attachments if file.media_type.startswith("image/")]:
                more["images"] = [
                    {"type": "image", "data": image.data, "mimeType": image.media_type} for image in images
                ]
        return line({"id": id, "type": type, **more})

    # What the program says

    def _response(self, record: Record) -> Moves:
        is_success, data = record.get("success") is True, record_of(record.get("data"))
        prompt = self._sent_prompts.pop(text_of(record.get("id")), None)
        match record.get("command"):
            case "get_state":
                return self._state(data)
            case "prompt" if prompt is not None and not is_success:
                return self._end("failed", text_of(record.get("error")) or "Pi refused the prompt")
            case "prompt" if prompt is not None and data.get("disposition") == "handled":
                return self._end("completed")
            case "steer" if prompt is not None and prompt.id in self._steered:
                return self._steer_response(prompt, text_of(data.get("disposition")), is_success=is_success)
            case "set_model" if self._switches:
                return self._switched(record, is_success=is_success)
        return []

    def _state(self, data: Record) -> Moves:
        self._provider = text_of(record_of(data.get("model")).get("provider")) or self._provider
        session_id = text_of(data.get("sessionId")) or self.session_id
        out: list[Move] = []
        if not self.is_ready or session_id != self.session_id:
            self.is_ready, self.session_id = True, session_id
            out.append(SessionKnown(session_id))
        return [*out, *self._release()]

    def _switched(self, record: Record, *, is_success: bool) -> Moves:
        self._switches -= 1
        if is_success:
            return self._release()
        self._model = ""
        message = f"the model was not switched: {text_of(record.get('error')) or 'Pi refused it'}"
        return [Notice(Warning(message=message, code="model_not_switched")), *self._release()]

    def _release(self) -> Moves:
        """Send what was held back; it is held back again while there is still a reason."""
        prompt, self._held_prompt = self._held_prompt, None
        return [] if prompt is None else self.prompt(prompt)

    def _steer_response(self, prompt: Prompt, disposition: str, *, is_success: bool) -> Moves:
        if is_success and disposition != "handled":
            # Templates are expanded before a text is queued.
            self._steered[prompt.id] |= set(self._queued[-1:])
            return []
        del self._steered[prompt.id]
        return [Taken(prompt.id) if is_success else NotTaken(prompt.id)]

    def _message(self, message: Record) -> Moves:
        if message.get("role") == "assistant":
            self._stop_reason = text_of(message.get("stopReason"))
        elif message.get("role") == "user" and self._steered:
            text = output_of(message.get("content"))
            for prompt_id, texts in self._steered.items():
                if text in texts:
                    del self._steered[prompt_id]
                    return [Taken(prompt_id)]
        return []

    def _started(self) -> Moves:
        if self._is_interrupted:
            # It was aborted while it was still preparing, which has no effect.
            return [self._command("abort")]
        if self.is_busy:
            return []
        self.is_busy, self._stop_reason = True, ""
        return [TurnStarted(), self._command("get_state")]

    def _settled(self, *, is_aborted: bool) -> Moves:
        if is_aborted or (self._is_interrupted and self._stop_reason in {"aborted", "error"}):
            return self._end("interrupted")
        return self._end("failed" if self._stop_reason in {"error", "length"} else "completed")

    def _end(self, outcome: Literal["completed", "failed", "interrupted"], message: str = "") -> Moves:
        out = self._withdraw(lambda _dialog: True)
        if self._steered:
            out += [NotTaken(prompt_id) for prompt_id in self._steered]
            out.append(self._command("clear_queue"))
        self._steered, self._is_interrupted, self.is_busy = {}, False, False
        return [*out, TurnEnded(outcome, message)]

    # Dialogs

    def _dialog(self, record: Record) -> Moves:
        method, title, id = text_of(record.get("method")), text_of(record.get("title")), record.get("id")
        if method in ANNOUNCEMENTS:
            self._has_gate = self._has_gate or record.get("statusKey") == _GATE_STATUS
            return []
        if method not in DIALOGS:
            return [_response_to(id, cancelled=True)]
        if title.startswith(_PERMISSION) and (request := record_of(decoded(title.removeprefix(_PERMISSION)))):
            call_id = text_of(request.get("call"))
            relay = Relay(
                id="", call_id=call_id, tool_name=text_of(request.get("tool")), input=request.get("input")
            )
            return [self._ask(_Dialog(id, "permission", call_id=call_id), relay)]
        if title.startswith(_QUESTION) and (request := record_of(decoded(title.removeprefix(_QUESTION)))):
            return [self._question(id, "question", request, text_of(request.get("question")))]
        if method == "confirm":
            question = "\n".join(filter(None, (title, text_of(record.get("message")))))
            return [self._ask(_Dialog(id, "confirm"), Relay(id="", question=question))]
        return [self._question(id, "value", record, title)]

    def _question(self, id: Any, kind: Literal["question", "value"], request: Record, text: str) -> Asked:
        options = [
            Choice(label=option) for option in items_of(request.get("options")) if isinstance(option, str)
        ]
        questions = (AskedQuestion(id="answer", question=text, options=options),)
        is_ours, call_id = kind == "question", text_of(request.get("call"))
        relay = question_relay(questions, call_id=call_id, tool_name="ask_user" if is_ours else "")
        return self._ask(_Dialog(id, kind, questions, call_id), relay)

    def _answered(self, native: _Dialog, reply: RelayReply) -> Moves:
        answers = answers_of(native.questions, reply.answer).get("answer", [])
        answer = ", ".join(answers)
        match native.kind:
            case "confirm":
                return [_response_to(native.id, confirmed=reply.approved)]
            case "value":
                is_given = reply.approved and bool(answers)
                return [_response_to(native.id, **({"value": answer} if is_given else {"cancelled": True}))]
        value = {"approved": reply.approved, "answer": answer, "reason": reply.reason}
        return [_response_to(native.id, value=_encode(value).decode())]

    def _cancelled(self, native: _Dialog) -> Moves:
        return [_response_to(native.id, cancelled=True)]


def _response_to(id: Any, **answer: Any) -> Send:
    return line({"type": "extension_ui_response", "id": id, **answer})


def _left_out(prompt: Prompt) -> list[Move]:
    """Pi takes images and nothing else."""
    others = [file for file in prompt.attachments if not file.media_type.startswith("image/")]
    return [
        Notice(
            Warning(
                message=f"Pi takes images only: {file.name or file.media_type} was left out",
                code="attachment_left_out",
            )
        )
        for file in others
    ]
