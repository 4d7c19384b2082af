"""Cline: `cline --json`, from 3.0 on, and the say/ask stream of the versions before.

Its exit code is 0 also when it was aborted or gave up; only `run_result`, and a `run_aborted` after
it, say how a run went. Its session id is only in its own store, and it cannot resume a
session in this mode.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from msgspec.structs import replace

from harness.agents.cline.speakers import ClineSpeaker, ClineSpeakers, usage_of
from harness.agents.cline.tools import (
    CLINE,
    ClineCalls,
    exit_code_of,
    operations_after,
    success_of,
    text_of_output,
)
from harness.approvals.protected import READ_BY_BUN
from harness.contracts.agent import Agent, CommandLine, SessionFiles, Version
from harness.contracts.command_line import flags_of, has
from harness.contracts.request import Request
from harness.contracts.toolset import PendingCall, Toolset, task_of
from harness.contracts.translator import Ending, Record, Translator
from harness.events import (
    Compacted,
    Error,
    Event,
    Message,
    Outcome,
    ReasoningDelta,
    Result,
    SessionStart,
    Task,
    TasksChanged,
    TextDelta,
    Unknown,
    Warning,
)
from harness.formats.fields import arguments_of, count_of, decoded, first_text, record_of, text_of
from harness.protocols.acp.calls import ENDS, AcpCall
from harness.protocols.acp.driver import AcpProgram
from harness.protocols.acp.stream import AcpTranslator, CallEnd
from harness.protocols.child_runs import ChildRuns


class TeamTasks:
    """The task list that a team shares, one task per record. A run begins without tasks, so these are all."""

    def __init__(self) -> None:
        self._tasks: dict[str, Task] = {}

    def update(self, data: dict[str, Any]) -> list[Event]:
        task = task_of(data)
        self._tasks[task.id] = task
        return [TasksChanged(tasks=list(self._tasks.values()))]


_ENVIRONMENT = {
    # Otherwise a daemon that outlives the run does the work, and is shared with other runs.
    "CLINE_SESSION_BACKEND_MODE": "local",
    "CLINE_NO_AUTO_UPDATE": "1",
}
_WITHOUT_FILES_OF_BUN = {"BUN_OPTIONS": "--config=/dev/null --env-file=/dev/null"}
"""It is a program of Bun, and so takes what is to run before it, and variables, from files of the folder it starts in."""
_RECORDS_SINCE: Version = (3,)
"""Before that its stream is the messages of its chat, and its options have other names."""
_FLAGS = {"model": "--model", "system_prompt": "--system", "effort": "--thinking"}
_OUTCOMES: dict[str, Outcome] = {"completed": "completed", "max_iterations": "limit_exceeded"}
"""How `run_result` says that it ended. Other reasons are failures, except an abort by a user."""
_STOPPED_CHILD = {"agent_end": "completed", "agent_error": "failed", "agent_abort": "interrupted"}
_COMPACTIONS = ("auto_compaction", "manual_compaction", "overflow_recovery_compaction")
_REPEATS_RESULTS = "tool call(s) failed"
_NOISE = re.compile(r"(?:Deprecation)?(?:Warning: )?AI SDK Warning|at \S+ \(.*\)$")
"""What the agent's own libraries print on stderr on every model call, with the stack it came from."""


def command(request: Request, version: Version) -> CommandLine:
    """The prompt is an argument: this mode refuses one that comes through stdin alone."""
    is_new = has(version, _RECORDS_SINCE)
    args = ["--json", "-v"] if is_new else ["--json"]
    if request.permissions == "full-access":
        args += ["--auto-approve", "true"] if is_new else ["--yolo"]
    args += flags_of(request, _FLAGS)
    # A prompt of one word would be taken for a mistyped command.
    is_one_word = not any(character.isspace() for character in request.prompt)
    prompt = f"{request.prompt} " if is_one_word else request.prompt
    return CommandLine(args=(*args, *request.extra_args, "--", prompt), env=_environment(request))


def _environment(request: Request) -> dict[str, str]:
    return {**_ENVIRONMENT, **(_WITHOUT_FILES_OF_BUN if request.folder_settings == "none" else {})}


class ClineTranslator(Translator):
    rules: ClassVar[dict[str, str]] = {
        "run_start": "_run_start",
        "hook_event": "_hook",
        "agent_event": "_agent_event",
        "team_event": "_team_event",
        "run_result": "_run_result",
        "run_aborted": "_run_aborted",
        "task_started": "",
        "say": "_chat",
        "ask": "_chat",
        "error": "_fatal",
    }

    def __init__(self) -> None:
        super().__init__()
        self._speakers = ClineSpeakers()
        self._children = ChildRuns("cline")
        self._calls = ClineCalls(self._speakers, self._children)
        self._board = TeamTasks()
        self._legacy = LegacyChat()
        self._members: dict[str, str] = {}
        """Name of a member of the team → its id, which hooks use."""
        self._has_started = False
        self._session_id = ""
        self._failing_run = ""
        """Whose failure a hook has announced: the error itself comes next, without a name."""
        self._emitted_errors: set[str] = set()
        self._fatal_errors: list[str] = []
        self._result: Result | None = None
        speakers, calls = self._speakers, self._calls
        self._actions: dict[str, Callable[[Record, ClineSpeaker | None], Sequence[Event] | None]] = {
            "content_start/text": speakers.text_piece,
            "content_end/text": speakers.text_end,
            "content_start/reasoning": speakers.reasoning_piece,
            "content_end/reasoning": speakers.reasoning_end,
            "content_start/tool": calls.start,
            "content_update/tool": calls.progress,
            "content_end/tool": calls.end,
            "usage": speakers.usage,
            "notice": self._notice,
            "error": self._error,
        } | dict.fromkeys(("iteration_start", "iteration_end", "done"), _nothing)

    def record(self, record: Record) -> Sequence[Event]:
        event = record.get("event")
        # Nearly every line of a long run is a piece of the text that is being written: the fast path.
        if type(event) is dict and event.get("type") == "content_start" and self._speakers.is_alone:
            main, text, whole = self._speakers.main, event.get("text"), event.get("accumulated")
            is_text = event.get("contentType") == "text" and record.get("type") == "agent_event"
            if (
                is_text
                and main.text
                and type(text) is str
                and type(whole) is str
                and 0 < len(text) < len(whole)
            ):
                self.rule = "agent_event/content_start/text"
                main.text = whole
                return (TextDelta(id=main.text_id, text=text),)
        start = [] if self._session_id else self._begin(record)
        events = super().record(record)
        return [*start, *events] if start else events

    def stderr(self, line: str) -> Sequence[Event]:
        if line.startswith("{"):
            data = record_of(decoded(line))
            if data.get("type") == "error" and text_of(data.get("message")):
                self.rule = "stderr/error"
                # It mostly repeats what stdout says better, earlier or later: decided at the end.
                self._fatal_errors.append(data["message"])
                return ()
        if _NOISE.match(line):
            self.rule = "stderr/noise"
            return ()
        return super().stderr(line)

    def finish(self, ending: Ending) -> Sequence[Event]:
        del ending
        out = [*self._speakers.finish(), *self._children.end_all_known()]
        out += [
            self._failed(message, "error")
            for message in self._fatal_errors
            if message not in self._emitted_errors
        ]
        return out

    def _failed(self, message: str, code: str, run_id: str = "") -> Error:
        self._emitted_errors.add(message)
        return Error(message=message, code=code, run_id=run_id)

    def _begin(self, record: Record) -> list[Event]:
        """No version that was seen writes a session id; the first one is taken. A task's id is none."""
        self._session_id = first_text(record, "sessionId", "session_id", "id")
        if self._has_started and not self._session_id:
            return []
        self._has_started = True
        model = text_of(record.get("modelId"))
        return [SessionStart(session_id=self._session_id, agent="cline", model=model)]

    def _run_start(self, record: Record) -> list[Event]:
        self._speakers.model = text_of(record.get("modelId"))
        return []

    def _hook(self, record: Record) -> list[Event]:
        out: list[Event] = []
        name, agent_id = text_of(record.get("hookEventName")), text_of(record.get("agentId"))
        speaker = self._speakers.of(agent_id)
        if name == "agent_start":
            out += self._agent_start(agent_id, text_of(record.get("parentAgentId")))
        elif name == "tool_call":
            out += self._speakers.named(speaker)
            self._calls.announce(speaker)
        elif name in _STOPPED_CHILD and not speaker.is_member:
            self._failing_run = speaker.run_id if name == "agent_error" else ""
            out += self._speakers.leave(agent_id)
            child = self._children.find(self._children.call_of_task(agent_id))
            if child is not None:
                child.status = _STOPPED_CHILD[name]
        return out

    def _agent_start(self, agent_id: str, parent_id: str) -> list[Event]:
        if not parent_id or not agent_id:
            # The main agent, or a member of the team, which has events of its own.
            return []
        spawn = self._calls.spawned_by(self._speakers.of(parent_id))
        call_id = spawn.id if spawn is not None else agent_id
        task = first_text(spawn.input, "task", "prompt") if spawn is not None else ""
        out = self._children.begin(
            call_id, name="", prompt=task, task_id=agent_id, cwd=self.working_directory
        )
        child = self._children.find(call_id)
        if child is not None:
            self._speakers.join(agent_id, child.run_id)
        return out

    def _agent_event(self, record: Record) -> Sequence[Event]:
        event = record.get("event")
        if not isinstance(event, dict):
            return [Unknown(raw=record)]
        return self._inner(event, None)

    def _inner(self, event: Record, speaker: ClineSpeaker | None) -> Sequence[Event]:
        kind, content = text_of(event.get("type")), text_of(event.get("contentType"))
        kind = f"{kind}/{content}" if content else kind
        self._calls.cwd = self.working_directory
        action = self._actions.get(kind)
        events_of_record = None if action is None else action(event, speaker)
        if events_of_record is None:
            self.rule = "unknown"
            return [Unknown(raw=event, run_id=speaker.run_id if speaker is not None else "")]
        self.rule = f"agent_event/{kind}"
        return events_of_record

    def _team_event(self, record: Record) -> Sequence[Event]:
        event = record_of(record.get("event"))
        kind, member = text_of(event.get("type")), text_of(event.get("agentId"))
        self.rule = f"team_event/{kind}"
        match kind:
            case "agent_event":
                inner = event.get("event")
                speaker = self._speakers.of(self._member_id(member))
                return self._inner(inner, speaker) if isinstance(inner, dict) else [Unknown(raw=record)]
            case "task_start":
                return self._member_start(member, text_of(event.get("message")))
            case "task_end":
                return self._member_end(member, event)
            case "team_task_updated":
                return self._board.update(record_of(event.get("task")))
            case "teammate_spawned":
                runtime_id = text_of(record_of(event.get("teammate")).get("runtimeAgentId"))
                self._members[member] = runtime_id or member
                return ()
            case "teammate_shutdown" | "team_mission_log":
                return ()
            case _:
                return [Unknown(raw=record)]

    def _member_id(self, member: str) -> str:
        return self._members.get(member, member)

    def _member_start(self, member: str, task: str) -> list[Event]:
        call_id = self._calls.team_call(member) or member or "team"
        out = self._children.begin(
            call_id, name=member, prompt=task, task_id=self._member_id(member), cwd=self.working_directory
        )
        child = self._children.find(call_id)
        if child is not None:
            self._speakers.join(self._member_id(member), child.run_id, is_member=True)
        return out

    def _member_end(self, member: str, event: Record) -> list[Event]:
        call_id = self._children.call_of_task(self._member_id(member))
        result = record_of(event.get("result"))
        text, duration_ms = text_of(result.get("text")), count_of(result.get("durationMs"))
        out = self._speakers.leave(self._member_id(member))
        return [*out, *self._children.end(call_id, text_of(event.get("status")), text, duration_ms)]

    def _notice(self, event: Record, speaker: ClineSpeaker | None) -> list[Event]:
        data = record_of(event.get("metadata"))
        kind = first_text(data, "kind", "reason") or text_of(event.get("noticeType")) or "notice"
        run_id = speaker.run_id if speaker is not None else ""
        if kind in _COMPACTIONS and data.get("phase") == "completed":
            before, after = count_of(data.get("tokensBefore")), count_of(data.get("tokensAfter"))
            return [Compacted(trigger=kind, before_tokens=before, after_tokens=after, run_id=run_id)]
        return [Warning(message=text_of(event.get("message")) or kind, code=kind, run_id=run_id)]

    def _error(self, event: Record, speaker: ClineSpeaker | None) -> list[Event]:
        error = event.get("error")
        message = error if isinstance(error, str) else text_of(record_of(error).get("message"))
        message = message or "the agent failed"
        code = text_of(event.get("errorClass"))
        if event.get("recoverable") is not True:
            code = code if code not in ("", "unknown") else "api_error" if code else "error"
            run_id = speaker.run_id if speaker is not None else self._failing_run
            return [self._failed(message, code, run_id)]
        if _REPEATS_RESULTS in message and self._calls.has_failed:
            return []
        return [Warning(message=message, code=code or "recoverable_error")]

    def _run_result(self, record: Record) -> list[Event]:
        reason, text = text_of(record.get("finishReason")), text_of(record.get("text"))
        outcome = self._outcome_of(reason)
        usage = usage_of(record_of(record.get("usage")))
        self._result = Result(
            success=outcome == "completed",
            outcome=outcome,
            text=text if outcome == "completed" else "",
            duration_ms=count_of(record.get("durationMs")),
            # Its sums leave out the sub-agents: the usage of each call counts.
            usage=usage if not self._speakers.has_usage and (usage.input or usage.output) else None,
            stop_reason=reason,
            turns=count_of(record.get("iterations")),
        )
        out: list[Event] = [*self._speakers.finish(), self._result]
        if outcome == "failed" and reason == "error" and text and text not in self._emitted_errors:
            out.append(self._failed(text, "error"))
        return out

    def _outcome_of(self, reason: str) -> Outcome:
        if reason == "aborted" and not self._calls.has_failed:
            return "interrupted"
        return _OUTCOMES.get(reason, "failed")

    def _run_aborted(self, record: Record) -> list[Event]:
        """Cline calls it an abort by another client, too, when it gives up after too many failed calls."""
        reason = text_of(record.get("reason")) or "aborted"
        message = text_of(record.get("message")) or "the run was aborted"
        result = self._result or Result(success=False)
        outcome: Outcome = "interrupted" if result.outcome == "completed" else result.outcome
        self._result = replace(result, success=False, outcome=outcome)
        if outcome == "failed":
            gave_up = f"the agent gave up after too many failed tool calls ({message})"
            return [self._failed(gave_up, reason), self._result]
        return [Warning(message=message, code=reason), self._result]

    def _chat(self, record: Record) -> Sequence[Event]:
        events = self._legacy.feed(record)
        if events is None:
            self.rule = "unknown"
            return [Unknown(raw=record)]
        self._emitted_errors.update(event.message for event in events if isinstance(event, Error))
        return events

    def _fatal(self, record: Record) -> list[Event]:
        message = text_of(record.get("message")) or "the agent failed"
        return [] if message in self._emitted_errors else [self._failed(message, "error")]


def _nothing(*_arguments: object) -> Sequence[Event]:
    return ()


_CHAT_WITHOUT_NEWS = (
    "task",
    "api_req_started",
    "api_req_finished",
    "checkpoint_created",
    "deleted_api_reqs",
)


class LegacyChat:
    """The flat say/ask stream that Cline wrote before 3.0: each line is a message of its chat.

    {"type":"say","say":"text","text":"I will look.","ts":1760501486669,"partial":true}

    Only messages are translated. What tools did is text for a screen there, and stays unknown.
    """

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        """What was emitted so far of messages that come in pieces."""
        self._say_actions: dict[str, Callable[[str, str, bool], Sequence[Event]]] = {
            "text": self._text,
            "completion_result": self._completion,
            "reasoning": self._reasoning,
            "error": self._error,
            "api_req_failed": self._error,
            "error_retry": self._retry,
            "api_req_retried": self._retry,
            "command_permission_denied": self._denied,
        } | dict.fromkeys(_CHAT_WITHOUT_NEWS, _nothing)
        self._ask_actions: dict[str, Callable[[str, str, bool], Sequence[Event]]] = {
            "followup": self._question,
            "plan_mode_respond": self._question,
            "completion_result": self._completion,
            "api_req_failed": self._error,
        }

    def feed(self, record: dict[str, Any]) -> Sequence[Event] | None:
        """None when the message is of a kind that is not taken over."""
        kind = text_of(record.get("type"))
        actions = self._say_actions if kind == "say" else self._ask_actions
        action = actions.get(text_of(record.get(kind)))
        if action is None:
            return None
        text = first_text(record, "text", "reasoning")
        return action(text, str(record.get("ts", "")), record.get("partial") is True)

    def _text(self, text: str, name: str, is_partial: bool) -> Sequence[Event]:
        if is_partial:
            new = self._new_part(text, name)
            return [TextDelta(id=name, text=new)] if new else ()
        self._texts.pop(name, None)
        return [Message(role="assistant", text=text, id=name)] if text else ()

    def _reasoning(self, text: str, name: str, _is_partial: bool) -> Sequence[Event]:
        new = self._new_part(text, name)
        return [ReasoningDelta(id=name, text=new)] if new else ()

    def _new_part(self, text: str, name: str) -> str:
        entry = self._texts.get(name, "")
        self._texts[name] = text
        return text.removeprefix(entry)

    def _completion(self, text: str, name: str, is_partial: bool) -> Sequence[Event]:
        out = self._text(text, name, is_partial)
        return out if is_partial else [*out, Result(success=True, text=text)]

    def _question(self, text: str, name: str, is_partial: bool) -> Sequence[Event]:
        if is_partial:
            return ()
        data = record_of(decoded(text))
        return self._text(first_text(data, "question", "response") or text, name, is_partial)

    def _error(self, text: str, _name: str, is_partial: bool) -> Sequence[Event]:
        return () if is_partial else [Error(message=text or "the request to the model failed", code="error")]

    def _retry(self, text: str, _name: str, is_partial: bool) -> Sequence[Event]:
        return () if is_partial else [Warning(message=text or "a request is sent again", code="retry")]

    def _denied(self, text: str, _name: str, is_partial: bool) -> Sequence[Event]:
        return () if is_partial else [Warning(message=text or "permission denied", code="permission_denied")]


class ClineAcp(AcpTranslator):
    """Cline over ACP: `cline --acp`, from 3.0.65 on.

    The title of a call begins with the name of its tool. A call that was refused fails twice, the second time with the
    words for it. A sub-agent's words and calls come without a mark, and its calls are not asked about.
    """

    agent = "cline"
    tools: ClassVar[Toolset] = CLINE
    shares_stream = True
    noise = re.compile(
        r"\[acp\] starting ACP mode .*|(?:Deprecation)?(?:Warning: )?AI SDK Warning.*|at \S+ \(.*\)"
    )

    @staticmethod
    def name_of(call: AcpCall) -> str:
        return call.title.partition(":")[0]

    @staticmethod
    def stated_name(tool_call: Record, announced: AcpCall) -> str:
        """The title is the tool's name, a colon, and what it does. No tool has a colon in its name."""
        del announced
        return text_of(tool_call.get("title")).partition(":")[0]

    def has_result(self, call: AcpCall) -> bool:
        return call.has_ended and (call.output is not None or call.status == "completed")

    def end_of(self, call: AcpCall, pending: PendingCall) -> CallEnd:
        output = arguments_of(call.output)
        is_success = success_of({"output": output})
        if is_success is None:
            is_success = ENDS.get(call.status)
        operations = operations_after(pending, output) if is_success else None
        return CallEnd(is_success, text_of_output(output), exit_code_of(pending, output), operations)

    def child_answer(self, call: AcpCall, end: CallEnd) -> tuple[str, str]:
        text = text_of(record_of(arguments_of(call.output)).get("text"))
        return super().child_answer(call, end)[0], text or end.output or ""


PROGRAM = AcpProgram(
    translator=ClineAcp,
    capabilities=frozenset({"approve", "files", "mode", "model"}),
    modes={"full-access": "act", "ask": "act", "read-only": "plan"},
    sets_model=True,
)


def acp_command(request: Request, version: Version) -> CommandLine:
    del version
    return CommandLine(args=("--acp", *request.extra_args), env=_environment(request))


TWO_WAY = PROGRAM.two_way(acp_command, since=(3, 0, 65))


AGENT = Agent(
    name="cline",
    title="Cline",
    binaries=("cline",),
    homes=("~/.cline/", "$CLINE_DIR/"),
    leaves_names=READ_BY_BUN,
    command=command,
    translator=ClineTranslator,
    two_way=TWO_WAY,
    supports=frozenset({"agent-default", *_FLAGS}),
    since={"effort": _RECORDS_SINCE, "system_prompt": _RECORDS_SINCE},
    needs_version=True,
    session_files=SessionFiles(
        folders=(
            "$CLINE_SESSION_DATA_DIR",
            "$CLINE_DATA_DIR/sessions",
            "$CLINE_DIR/data/sessions",
            "~/.cline/data/sessions",
        ),
        option="--data-dir",
    ),
    key_variables=("CLINE_API_KEY", "OPENROUTER_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_API_KEY"),
    install="npm install -g cline",
    login="cline auth",
    delta_keys=("text", "reasoning", "chunk"),
    reveals={
        "deltas": "text and reasoning, from 3.0 on; of sub-agents that speak at once only whole messages",
        "reasoning": "yes",
        "tools": "every call, live output of commands and result, from 3.0 on; exit codes in words only",
        "sub_agents": "begin, calls, text and end, but without names: of parallel ones who says what is concluded",
        "usage": "per model call, from 3.0 on; reasoning is never separate",
        "cost": "stated, per model call, for models whose price it knows",
        "result": "finish reason; the exit code is 0 on aborts too; no session id",
    },
)
