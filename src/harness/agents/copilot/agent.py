"""GitHub Copilot CLI: `copilot --output-format json`, from 1.0 on.

user.message                    the prompt; or a sub-agent's task
assistant.turn_start … _end     one model call, and the tools that it asked for
assistant.*_delta, .message     what the model says, in pieces and whole
tool.execution_start … _complete   a call; live output in between
subagent.started … .completed   a child; its lines carry its `agentId`
model.call_failure, assistant.turn_retry, session.error   what failed, is tried again, is given up
abort, assistant.idle           it was stopped; it is idle
result                          the end; missing when it was stopped, and then the exit code is 0

Its session id comes only with the result, so it is started with one that we have made.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from msgspec.structs import replace

from harness.agents.copilot.acp import TWO_WAY
from harness.agents.copilot.calls import CopilotCalls
from harness.contracts.agent import Agent, CommandLine, Version
from harness.contracts.command_line import argument_of, flags_of
from harness.contracts.request import Request
from harness.contracts.translator import Ending, Record
from harness.events import (
    Compacted,
    Error,
    Event,
    Info,
    Message,
    Outcome,
    ReasoningDelta,
    Result,
    SessionStart,
    TextDelta,
    TextRetracted,
    ToolInputDelta,
    Unknown,
    Usage,
    UsageDelta,
    Warning,
)
from harness.formats.error_messages import plain
from harness.formats.fields import besides, count_of, first_text, items_of, record_of, text_of
from harness.log.raw import RawStart

_PERMISSIONS: dict[str, list[str]] = {
    "full-access": ["--allow-all"],
    "read-only": ["--deny-tool=shell", "--deny-tool=write"],
    "agent-default": [],
}
_FLAGS = {
    "model": "--model",
    "effort": "--reasoning-effort",
    "resume": "--resume=",
    "session_id": "--session-id=",
    "continue_last": "--continue",
}
_CHOOSES_SESSION = ("--session-id", "--resume", "-r", "--continue", "--connect")
_REPEATED = frozenset({"file_created", "cancellation", "model_retry"})
"""Remarks of `session.info` that other records make as well."""
_CONSUMED = (
    "assistant.intent",
    "assistant.message_start",
    "assistant.streaming_delta",
    "assistant.turn_end",
    "hook.end",
    "hook.start",
    "model.call_final_result",
    "model.call_finished",
    "model.call_start",
    "pending_messages.modified",
    "permission.completed",
    "permission.requested",
    "session.background_tasks_changed",
    "session.compaction_start",
    "session.context_changed",
    "session.custom_agents_updated",
    "session.idle",
    "session.mcp_server_status_changed",
    "session.mcp_server_tools_loaded",
    "session.mcp_servers_loaded",
    "session.mode_changed",
    "session.session_limits_changed",
    "session.shutdown",
    "session.task_complete",
    "session.title_changed",
    "session.todos_changed",
    "session.usage_checkpoint",
    "session.usage_info",
    "system.message",
)


def command(request: Request, version: Version) -> CommandLine:
    """The prompt goes through stdin: it may be long, and may begin with a dash."""
    del version
    if any(word.partition("=")[0] in _CHOOSES_SESSION for word in request.extra_args):
        request = replace(request, session_id="")
    args = ["--output-format", "json", "--no-auto-update", "--no-ask-user"]
    args += [*_PERMISSIONS[request.permissions], *flags_of(request, _FLAGS)]
    return CommandLine(args=(*args, *request.extra_args), stdin=request.prompt_bytes)


class CopilotTranslator(CopilotCalls):
    rules: ClassVar[dict[str, str]] = {
        **CopilotCalls.rules,
        **dict.fromkeys(_CONSUMED, ""),
        "abort": "_abort",
        "agent.interrupted": "_abort",
        "assistant.idle": "_idle",
        "assistant.message": "_message",
        "assistant.message_delta": "_message_delta",
        "assistant.reasoning": "_reasoning",
        "assistant.reasoning_delta": "_reasoning_delta",
        "assistant.tool_call_delta": "_tool_call_delta",
        "assistant.turn_retry": "_retry",
        "assistant.turn_start": "_turn_start",
        "assistant.usage": "_usage",
        "model.call_failure": "_call_failure",
        "result": "_result",
        "session.compaction_complete": "_compaction",
        "session.error": "_error",
        "session.info": "_info",
        "session.model_change": "_model_change",
        "session.resume": "_session_start",
        "session.start": "_session_start",
        "session.tools_updated": "_tools_updated",
        "session.warning": "_warning",
        "system.notification": "_notification",
        "user.message": "_user_message",
    }

    def __init__(self) -> None:
        super().__init__()
        self._unconfirmed: dict[str, dict[str, None]] = {}
        """Run → ids of what was streamed and has not come whole yet."""
        self._reasonings: dict[str, str] = {}
        """Run → reasoning that a message had before its own record."""
        self._failure = ""
        self._billed: set[str] = set()
        """Model calls whose output was counted."""
        self._is_prompted = False
        self._is_aborted = False
        self._has_failed = False

    def begin(self, start: RawStart) -> None:
        super().begin(start)
        self.known_session_id = argument_of(start.argv, "--session-id", "--resume")

    def finish(self, ending: Ending) -> Sequence[Event]:
        answer = super().finish(ending)
        if answer or not self._is_aborted:
            return answer
        return [Result(success=False, outcome="interrupted", stop_reason="aborted")]

    def _session_start(self, record: Record) -> Sequence[Event]:
        data = record_of(record.get("data"))
        model = first_text(data, "selectedModel", "model")
        session_id = text_of(data.get("sessionId"))
        return [SessionStart(agent="copilot", session_id=session_id, model=model)]

    def _tools_updated(self, record: Record) -> Sequence[Event]:
        return [SessionStart(agent="copilot", model=text_of(record_of(record.get("data")).get("model")))]

    def _user_message(self, record: Record) -> Sequence[Event]:
        text = text_of(record_of(record.get("data")).get("content"))
        out: list[Event] = []
        run_id = self._run_of(record, out)
        if run_id:
            return [*out, *self._children.ask(self._children.call_of_task(text_of(record["agentId"])), text)]
        is_prompt, self._is_prompted = not self._is_prompted, True
        return () if is_prompt or not text else [Message(role="user", text=text)]

    def _turn_start(self, record: Record) -> Sequence[Event]:
        if not record.get("agentId"):
            self.turns = (self.turns or 0) + 1
            self._is_aborted = self._has_failed = False
        return ()

    def _message_delta(self, record: Record) -> Sequence[Event]:
        data = record_of(record.get("data"))
        message_id, text = data.get("messageId"), data.get("deltaContent")
        if type(message_id) is not str or type(text) is not str:
            return [Unknown(raw=record)]
        out: list[Event] = []
        run_id = self._run_of(record, out) if "agentId" in record else ""
        if text:
            self._unconfirmed.setdefault(run_id, {})[message_id] = None
            out.append(TextDelta(id=message_id, text=text, run_id=run_id))
        return out

    def _reasoning_delta(self, record: Record) -> Sequence[Event]:
        data, out = record_of(record.get("data")), list[Event]()
        reasoning_id, text = text_of(data.get("reasoningId")), text_of(data.get("deltaContent"))
        run_id = self._run_of(record, out)
        if text:
            self._unconfirmed.setdefault(run_id, {})[reasoning_id] = None
            out.append(ReasoningDelta(id=reasoning_id, text=text, run_id=run_id))
        return out

    def _tool_call_delta(self, record: Record) -> Sequence[Event]:
        data, out = record_of(record.get("data")), list[Event]()
        call_id, text = text_of(data.get("toolCallId")), text_of(data.get("inputDelta"))
        run_id = self._run_of(record, out)
        if call_id and text:
            streamed = self._unconfirmed.setdefault(run_id, {})
            name = "" if call_id in streamed else text_of(data.get("toolName"))
            streamed[call_id] = None
            out.append(ToolInputDelta(call_id=call_id, text=text, tool_name=name, run_id=run_id))
        return out

    def _message(self, record: Record) -> Sequence[Event]:
        data, out = record_of(record.get("data")), list[Event]()
        text, message_id = data.get("content", ""), text_of(data.get("messageId"))
        if not isinstance(text, str):
            return [Unknown(raw=record)]
        run_id = self._run_of(record, out)
        calls = {text_of(record_of(item).get("toolCallId")) for item in items_of(data.get("toolRequests"))}
        streamed = self._unconfirmed.pop(run_id, {})
        has_reasoning = bool(streamed.keys() - calls - {message_id})
        reasoning = text_of(data.get("reasoningText"))
        if reasoning:
            self._reasonings[run_id] = reasoning
            if not has_reasoning:
                out.append(ReasoningDelta(id=f"{message_id}:reasoning", text=reasoning, run_id=run_id))
        if text:
            out.append(Message(role="assistant", text=text, id=message_id, run_id=run_id))
        return [*out, *self._used(data, run_id)]

    def _used(self, data: Record, run_id: str) -> list[Event]:
        """Some versions state with a message how many tokens it took, and nothing else of a model call."""
        output, call_id = count_of(data.get("outputTokens")), text_of(data.get("apiCallId"))
        if not output or call_id in self._billed:
            return []
        self._billed |= {call_id} if call_id else set()
        return [
            UsageDelta(
                usage=Usage(output=output), model=text_of(data.get("model")), id=call_id, run_id=run_id
            )
        ]

    def _reasoning(self, record: Record) -> Sequence[Event]:
        """The whole, after its pieces and after the message that it led to."""
        data, out = record_of(record.get("data")), list[Event]()
        text, reasoning_id = text_of(data.get("content")), text_of(data.get("reasoningId"))
        run_id = self._run_of(record, out)
        is_emitted = reasoning_id in self._unconfirmed.get(run_id, {}) or text == self._reasonings.get(run_id)
        if text and not is_emitted:
            out.append(ReasoningDelta(id=reasoning_id, text=text, run_id=run_id))
        return out

    def _call_failure(self, record: Record) -> Sequence[Event]:
        data = record_of(record.get("data"))
        status = count_of(data.get("statusCode"))
        reason = plain(first_text(data, "errorMessage", "failureKind")).strip('"') or "unknown error"
        self._failure = f"HTTP {status}: {reason}" if status else reason
        return ()

    def _retry(self, record: Record) -> Sequence[Event]:
        reason = text_of(record_of(record.get("data")).get("reason"))
        failure, self._failure = self._failure or reason or "unknown error", ""
        out: list[Event] = []
        run_id = self._run_of(record, out)
        out.extend(TextRetracted(id=name, run_id=run_id) for name in self._unconfirmed.pop(run_id, ()))
        message = f"a request to the model failed ({failure}); it is asked again"
        return [*out, Warning(message=message, code="retry", run_id=run_id)]

    def _error(self, record: Record) -> Sequence[Event]:
        data, out = record_of(record.get("data")), list[Event]()
        status, run_id = count_of(data.get("statusCode")), self._run_of(record, out)
        code = f"http_{status}" if status else text_of(data.get("errorType")) or "error"
        self._has_failed = self._has_failed or not run_id
        message = text_of(data.get("message")) or "Copilot reported an error without a message"
        return [*out, Error(message=message, code=code, run_id=run_id)]

    def _warning(self, record: Record) -> Sequence[Event]:
        data = record_of(record.get("data"))
        return [
            Warning(message=text_of(data.get("message")), code=text_of(data.get("warningType")) or "warning")
        ]

    def _info(self, record: Record) -> Sequence[Event]:
        data = record_of(record.get("data"))
        kind = text_of(data.get("infoType"))
        if kind in _REPEATED:
            return ()
        return [Info(message=text_of(data.get("message")), code=kind or "info")]

    def _notification(self, record: Record) -> Sequence[Event]:
        data = record_of(record.get("data"))
        code = text_of(record_of(data.get("kind")).get("type")) or "notification"
        return [Info(message=text_of(data.get("content")), code=code)]

    def _model_change(self, record: Record) -> Sequence[Event]:
        data = record_of(record.get("data"))
        return [Info(message=f"the model is now {text_of(data.get('newModel'))}", code="model_change")]

    def _compaction(self, record: Record) -> Sequence[Event]:
        """It names its own model call, also where it was given up: no other record has that."""
        data = record_of(record.get("data"))
        token_counts = record_of(data.get("compactionTokensUsed"))
        cached = count_of(token_counts.get("cacheReadTokens")), count_of(token_counts.get("cacheWriteTokens"))
        own = besides(count_of(token_counts.get("inputTokens")), *cached)
        call = {**token_counts, "inputTokens": own, "apiCallId": data.get("compactionAttemptId")}
        out = self._usage({**record, "data": call}) if token_counts else ()
        if data.get("success") is False:
            failure = text_of(data.get("error")) or "the context was not compacted"
            return [*out, Warning(message=failure, code="compaction_failed")]
        before, after = count_of(data.get("preCompactionTokens")), count_of(data.get("postCompactionTokens"))
        return [*out, Compacted(before_tokens=before, after_tokens=after)]

    def _usage(self, record: Record) -> Sequence[Event]:
        """Not written by the versions that were seen; documented for the stream that it is part of."""
        data, out = record_of(record.get("data")), list[Event]()
        output, reasoning = count_of(data.get("outputTokens")), count_of(data.get("reasoningTokens"))
        usage = Usage(
            input=count_of(data.get("inputTokens")),
            output=besides(output, reasoning),
            cache_read=count_of(data.get("cacheReadTokens")),
            cache_write=count_of(data.get("cacheWriteTokens")),
            reasoning=reasoning,
        )
        run_id, model = self._run_of(record, out), text_of(data.get("model"))
        call_id = text_of(data.get("apiCallId"))
        if call_id and call_id in self._billed:
            usage = replace(usage, output=None)  # its message had that
        self._billed |= {call_id} if call_id else set()
        return [*out, UsageDelta(usage=usage, model=model, id=call_id, run_id=run_id)] if usage else out

    def _abort(self, record: Record) -> Sequence[Event]:
        self._is_aborted = self._is_aborted or not record.get("agentId")
        return ()

    def _idle(self, record: Record) -> Sequence[Event]:
        if record_of(record.get("data")).get("aborted") is True:
            self._is_aborted = True
        return ()

    def _result(self, record: Record) -> Sequence[Event]:
        usage = record_of(record.get("usage"))
        is_success = record.get("exitCode") in (0, None) and not self._has_failed
        outcome: Outcome = "interrupted" if self._is_aborted else "completed" if is_success else "failed"
        session_id = text_of(record.get("sessionId"))
        return [
            SessionStart(agent="copilot", session_id=session_id),
            Result(
                success=outcome == "completed",
                outcome=outcome,
                duration_ms=count_of(usage.get("sessionDurationMs")),
                session_id=session_id,
            ),
        ]


AGENT = Agent(
    name="copilot",
    reads_unasked=True,
    title="GitHub Copilot CLI",
    aliases=("copilot-cli", "github-copilot"),
    binaries=("copilot",),
    homes=("~/.copilot/", "~/.cache/copilot", "~/.config/github-copilot", "$COPILOT_HOME/"),
    command=command,
    translator=CopilotTranslator,
    two_way=TWO_WAY,
    supports=frozenset({"agent-default", "read-only", *(_FLAGS.keys() - {"session_id"})}),
    screen_resume=("--resume={id}",),
    names_sessions_since=(1, 0, 60),
    since={"effort": (1, 0, 4)},
    needs_version=True,
    key_variables=(
        "COPILOT_GITHUB_TOKEN",
        "GH_TOKEN",
        "GITHUB_TOKEN",
        "COPILOT_PROVIDER_API_KEY",
        "COPILOT_PROVIDER_BEARER_TOKEN",
    ),
    install="npm install -g @github/copilot",
    login="copilot login",
    delta_keys=("deltaContent", "inputDelta", "text"),
    reveals={
        "deltas": "text, reasoning and tool input, also of sub-agents",
        "reasoning": "yes",
        "tools": "every call, live output and result; changed files with lines; exit codes",
        "sub_agents": "everything that they say and do, also in the background",
        "usage": "how many tokens each answer has, in some versions (1.0.50); others none",
        "cost": "never",
        "result": "by the last record; without it, and with exit code 0, when it was stopped",
    },
)
