"""Pi: `pi --mode json --print`, under its old package name and under its new one; two-way, `pi --mode rpc`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from harness.events import Error, Event, Info, Message, SessionStart, Unknown, Warning
from harness.sources.agent import Agent, CommandLine, TwoWay, Version
from harness.sources.agents.pi.translator import PiTranslator
from harness.sources.drivers.pi_rpc import ANNOUNCEMENTS, CAPABILITIES, DIALOGS, GATE, QUESTION, PiRpc
from harness.sources.formats.command_line import flags_of
from harness.sources.formats.fields import items_of, output_of, record_of, text_of
from harness.sources.request import Request
from harness.sources.translator import Record

# What Pi writes in a conversation (`--mode rpc`): the records of a run, responses to commands, and dialogs.
#
# Rules
# 1. What the driver acts on says nothing here: responses, dialogs, and steering messages, which the log has from where
#    they were taken.
# 2. A stream may begin in the middle of a session: the session is known from the response to `get_state`, which is
#    asked for in every run.


_NOTIFICATIONS: dict[str, type[Info | Warning | Error]] = {"info": Info, "warning": Warning, "error": Error}


class PiRpcTranslator(PiTranslator):
    rules: ClassVar[dict[str, str]] = {
        **PiTranslator.rules,
        "queue_update": "_queue_update",
        "response": "_response",
        "extension_ui_request": "_extension_ui",
        "extension_error": "_extension_error",
    }

    def __init__(self) -> None:
        super().__init__()
        self._session_id: str | None = None
        self._awaits_prompt = False
        self._queued: list[str] = []
        """Texts that wait in Pi's queue."""
        self._steered: list[str] = []
        """Those of them that the driver sent."""

    def _response(self, record: Record) -> Sequence[Event]:
        data, is_success = record_of(record.get("data")), record.get("success") is True
        is_handled = data.get("disposition") == "handled"
        match record.get("command"):
            case "get_state":
                return self._state(text_of(data.get("sessionId")))
            case "prompt":
                self._awaits_prompt = is_success and not is_handled
                self._has_ended = is_success and is_handled
            case "steer" if is_success and not is_handled:
                self._steered += self._queued[-1:]
        return ()

    def _state(self, session_id: str) -> Sequence[Event]:
        if session_id == self._session_id:
            return ()
        self._session_id = session_id
        return [SessionStart(session_id=session_id, agent="pi", cwd=self.working_directory)]

    def _queue_update(self, record: Record) -> Sequence[Event]:
        self._queued = [text for text in items_of(record.get("steering")) if isinstance(text, str)]
        return ()

    def _user_message(self, text: str) -> Sequence[Event]:
        if self._awaits_prompt:
            self._awaits_prompt = False
            return ()
        if text in self._steered:
            self._steered.remove(text)
            return ()
        return [Message(role="user", text=text)] if text else ()

    def _agent_end(self, record: Record) -> Sequence[Event]:
        """Whether the last answer failed or was aborted is known when it has settled."""
        self._has_ended = record.get("willRetry") is not True
        return ()

    def _agent_settled(self, record: Record) -> list[Event]:
        if record.get("aborted") is True:
            self._failure = ""
        return super()._agent_settled(record)

    def _extension_ui(self, record: Record) -> Sequence[Event]:
        method = text_of(record.get("method"))
        if method == "notify":
            event = _NOTIFICATIONS.get(text_of(record.get("notifyType")), Info)
            return [event(message=output_of(record.get("message")), code="extension")]
        return () if method in DIALOGS | ANNOUNCEMENTS else [Unknown(raw=record)]

    def _extension_error(self, record: Record) -> Sequence[Event]:
        path, error = text_of(record.get("extensionPath")), text_of(record.get("error")) or "unknown error"
        return [Warning(message=f"an extension failed: {path}: {error}", code="extension_error")]


_READING_TOOLS = "read,grep,find,ls"
_FLAGS = {
    "model": "--model",
    "system_prompt": "--system-prompt",
    "append_system_prompt": "--append-system-prompt",
    "resume": "--session",
    "continue_last": "--continue",
}


def command(request: Request, version: Version) -> CommandLine:
    """The prompt goes through stdin: it may be long, and may begin with a dash or an @."""
    del version
    args = ["--mode", "json", "--print"]
    if request.permissions == "read-only":
        args += ["--tools", _READING_TOOLS]
    args += flags_of(request, _FLAGS)
    return CommandLine(args=(*args, *request.extra_args), stdin=request.prompt_bytes)


def rpc_command(request: Request, version: Version) -> CommandLine:
    """Calls are asked about by an extension; what only reads has no tool that could do more."""
    del version
    args = ["--mode", "rpc", "--extension", QUESTION]
    if request.permissions == "ask":
        args += ["--extension", GATE]
    elif request.permissions == "read-only":
        args += ["--tools", f"{_READING_TOOLS},ask_user"]
    args += flags_of(request, {**_FLAGS, "session_id": "--session-id"})
    return CommandLine(args=(*args, *request.extra_args))


AGENT = Agent(
    name="pi",
    title="Pi",
    aliases=("pi-coding-agent",),
    binaries=("pi",),
    command=command,
    translator=PiTranslator,
    two_way=TwoWay(
        command=rpc_command,
        driver=PiRpc,
        translator=PiRpcTranslator,
        capabilities=CAPABILITIES,
        since=(0, 99),
    ),
    supports=frozenset({"agent-default", "read-only", *_FLAGS}),
    screen_resume=("--session", "{id}"),
    key_variables=(
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_OAUTH_TOKEN",
        "OPENAI_API_KEY",
        "GEMINI_API_KEY",
        "OPENROUTER_API_KEY",
        "GROQ_API_KEY",
        "XAI_API_KEY",
        "MISTRAL_API_KEY",
        "DEEPSEEK_API_KEY",
    ),
    install="npm install -g @earendil-works/pi-coding-agent",
    delta_keys=("delta",),
    reveals={
        "deltas": "text, reasoning and tool input",
        "reasoning": "yes",
        "tools": "every call, live output and result; exit codes stated from 1.5 on, before that only of failures",
        "sub_agents": "none: Pi has none; calls that a script makes (codemode) are shown from 1.5 on",
        "usage": "per model call; reasoning apart from 0.87 on",
        "cost": "stated, per model call",
        "result": "how the last answer stopped; whether the run was aborted from 1.5 on; the exit code is 0 on failures too",
    },
)
