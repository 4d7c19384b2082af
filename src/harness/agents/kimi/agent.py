"""Kimi Code CLI: `kimi --output-format stream-json`, from 2.0 on.

{"role":"assistant", …}     what the model said, whole, and the calls that it asked for
{"role":"tool", …}          what a call gave back: text alone, which also says whether it succeeded
{"role":"meta","type":…}    the version first, retries, and the session's id last

What its commands write appears on stderr as they run. Errors appear there as well, and nowhere else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from msgspec.structs import replace

from harness.approvals.tool_table import by_prefix
from harness.contracts.agent import Agent, CommandLine, Version
from harness.contracts.command_line import flags_of
from harness.contracts.request import Request
from harness.contracts.toolset import (
    ExitStatus,
    Input,
    PendingCall,
    ToolMapping,
    Toolset,
    conversing,
    fetching,
    reading,
    running,
    searching,
    spawning,
    starting,
    tasks_of,
    tracking_tasks,
    unmatched_result,
    using_skill,
    writing,
)
from harness.contracts.translator import Record
from harness.events import (
    Error,
    Event,
    Info,
    Message,
    ReasoningDelta,
    Result,
    SessionStart,
    TasksChanged,
    ToolEnd,
    ToolProgress,
    Unknown,
    Usage,
    UsageDelta,
)
from harness.events.operation import Operation, Read, Spawn
from harness.events.run import Task
from harness.formats.error_messages import retried
from harness.formats.fields import (
    amount_of,
    arguments_of,
    count_of,
    first_text,
    items_of,
    output_of,
    record_of,
    text_of,
)
from harness.protocols.acp.calls import ENDS, AcpCall
from harness.protocols.acp.driver import AcpProgram
from harness.protocols.acp.stream import AcpTranslator, CallEnd
from harness.protocols.child_runs import ChildRuns
from harness.protocols.plain_answer import PlainAnswer

SHELLS = frozenset({"Bash", "Shell"})
SPAWNER = "Agent"
SWARM = "AgentSwarm"
TODO_LISTS = frozenset({"TodoList", "SetTodoList"})

_EXIT_CODE = re.compile(r"(?:\A|\n)Command failed with exit code: (\d{1,9})\.?\s*\Z")
_FAILED_COMMAND = re.compile(r"(?:\A|\n)(?:Command killed by timeout \(.*\)|Interrupted by user)\s*\Z")
_FAILURE_WORDS = re.compile(r"Command (?:failed with exit code|killed by timeout)|Interrupted by user")
_TRAILER_LENGTH = 400
_REFUSED = re.compile(
    r"Invalid args for tool \"|Tool \"[^\"\n]*\" not found|Session closed\s*$|Aborted before command started"
    r"|AgentSwarm must be the only tool call"
)
"""How any tool answers that was never started, or was cut off."""
_NUMBERED_LINE = re.compile(r"^ *(\d{1,9})\t", re.MULTILINE)
_FIELD = re.compile(r"^(agent_id|actual_subagent_type|status): *(\S+)", re.MULTILINE)
_SWARM_MEMBER = re.compile(r"<subagent ([^>]*)>(.*?)</subagent>", re.DOTALL)
_ATTRIBUTE = re.compile(r'(\w+)="([^"]*)"')
_SUMMARY = "\n[summary]\n"
_RESUME_HINT = "\n\nresume_hint: "

_WORDS: dict[str, tuple[str, str]] = {
    "Edit": (r"Replaced \d", r"old_string |Failed |No |\"[^\"\n]*\" (?:does not exist|is not)"),
    "FetchURL": ("", r"Failed to fetch|.*(?:network error|HTTP [45])"),
    "Glob": (
        "",
        r"ripgrep \(rg\) is not available|Glob timed out|Failed |\"[^\"\n]*\" (?:does not exist|is not)",
    ),
    "Grep": (
        "",
        r"ripgrep \(rg\) is not available|Search timed out|Failed |\"[^\"\n]*\" (?:does not exist|is not)",
    ),
    "Read": (r" *\d+\t", r"\"[^\"\n]*\" (?:does not exist|is )|Failed "),
    "Skill": (r"Skill \"[^\"]*\" loaded", r"Skill \"[^\"]*\" (?:not found|is )"),
    "TodoList": (r"Todo list", ""),
    "Write": (r"(?:Wrote|Appended) \d", r"Failed "),
}
_PATTERNS = {
    name: tuple(re.compile(words) if words else None for words in pair) for name, pair in _WORDS.items()
}
"""Tool → how a success begins, and how a failure does."""

_TOOLS: dict[str, ToolMapping] = {
    **dict.fromkeys(SHELLS, running("command")),
    "Read": reading("path", start="line_offset", count="n_lines"),
    "ReadFile": reading("path", start="line_offset", count="n_lines"),
    "ReadMediaFile": reading("path"),
    "Write": writing("path"),
    "WriteFile": writing("path"),
    "Edit": writing("path", change="update"),
    "StrReplaceFile": writing("path", change="update"),
    "Grep": searching("pattern"),
    "Glob": searching("pattern", paths=("path", "directory"), globs=("pattern",)),
    "Skill": using_skill("skill"),
    SPAWNER: spawning("description", "prompt", names=("subagent_type",)),
    "Task": spawning("description", "prompt", names=("subagent_name",)),
    SWARM: spawning("description", "prompt_template", names=("subagent_type",)),
    "FetchURL": fetching,
    "SearchWeb": fetching,
    **dict.fromkeys(TODO_LISTS, tracking_tasks),
    **dict.fromkeys(
        (
            "AskUserQuestion",
            "CreateGoal",
            "CronDelete",
            "CronList",
            "EnterPlanMode",
            "ExitPlanMode",
            "GetGoal",
            "SetGoalBudget",
            "TaskList",
            "TaskOutput",
            "TaskStop",
            "Think",
            "UpdateGoal",
            "WaitFor",
        ),
        conversing,
    ),
    "CronCreate": starting,
}


@dataclass(frozen=True, slots=True)
class SpawnedAgent:
    """An agent that a call spawned, from the text of its result."""

    id: str = ""
    name: str = ""
    status: str = ""
    text: str = ""
    item: str = ""


def exit_status_of(call: PendingCall, output: str) -> ExitStatus:
    """Reported as text only: of commands only that they failed, by the last line of what they give back."""
    if _REFUSED.match(output):
        return False, None
    if call.name not in SHELLS:
        return _success_of(call.name, output), None
    if _FAILURE_WORDS.search(text_of(call.input.get("command"))):
        return None, None  # the command itself may have written it
    trailer = output[-_TRAILER_LENGTH:]
    if (matched := _EXIT_CODE.search(trailer)) is not None:
        return False, int(matched[1])
    return (False, None) if _FAILED_COMMAND.search(trailer) else (None, None)


def _success_of(name: str, output: str) -> bool | None:
    if name == SPAWNER:
        return agent_of(output).status in ("completed", "running")
    if name == SWARM:
        return output.startswith("<agent_swarm_result>")
    good, bad = _PATTERNS.get(name, (None, None))
    if bad is not None and bad.match(output):
        return False
    return True if good is not None and good.match(output) else None


def agent_of(output: str) -> SpawnedAgent:
    fields: dict[str, str] = dict(reversed(_FIELD.findall(output)))
    summary = output.partition(_SUMMARY)[2].partition(_RESUME_HINT)[0]
    return SpawnedAgent(
        id=fields.get("agent_id", ""),
        name=fields.get("actual_subagent_type", ""),
        status=fields.get("status", ""),
        text=summary.strip(),
    )


def members_of_swarm(output: str) -> Iterator[SpawnedAgent]:
    for attributes, text in _SWARM_MEMBER.findall(output):
        fields = dict(_ATTRIBUTE.findall(attributes))
        yield SpawnedAgent(
            id=fields.get("agent_id", ""),
            status=fields.get("outcome", ""),
            text=text.strip(),
            item=fields.get("item", ""),
        )


def _read_result(call: PendingCall, _detail: Input, output: str) -> list[Operation] | None:
    lines = _NUMBERED_LINE.findall(output)
    operation = call.operation
    is_part = not {"line_offset", "n_lines"}.isdisjoint(call.input)
    if not lines or not is_part or not isinstance(operation, Read):
        return None
    return [replace(operation, start_line=int(lines[0]), end_line=int(lines[-1]))]


def _spawn_result(call: PendingCall, _detail: Input, output: str) -> list[Operation] | None:
    agent = agent_of(output)
    operation = call.operation
    if not isinstance(operation, Spawn) or not agent.id:
        return None
    return [replace(operation, agent_id=agent.id, name=operation.name or agent.name)]


def _swarm_result(call: PendingCall, _detail: Input, output: str) -> list[Operation] | None:
    operation = call.operation
    if not isinstance(operation, Spawn):
        return None
    return [
        replace(operation, agent_id=agent.id, success=agent.status == "completed")
        for agent in members_of_swarm(output)
    ] or None


KIMI = Toolset(
    tools=_TOOLS,
    results={"Read": _read_result, SPAWNER: _spawn_result, SWARM: _swarm_result},
    server_of=by_prefix("mcp__"),
)
"""Results are text without any flag: whether a call succeeded is read from the text, and None where it does not say."""


_FLAGS = {"model": "--model", "resume": "--session", "continue_last": "--continue"}
_FATAL = re.compile(r"error: failed to run prompt: (?:([\w.]+): )?(?:(\d{3}) )?(.*)")
_REMARKS: tuple[tuple[str, re.Pattern[str], Callable[[re.Match[str]], Event]], ...] = (
    ("log file", re.compile(r"See log: .*"), lambda match: Info(message=match[0], code="log_file")),
    (
        "resume hint",
        re.compile(r"To resume this session: kimi -r (\S+)"),
        lambda match: SessionStart(agent="kimi", session_id=match[1]),
    ),
    (
        "version",
        re.compile(r"kimi version (\S+)"),
        lambda match: SessionStart(agent="kimi", version=match[1]),
    ),
)
"""What stderr says of the run itself: the rule, the line, and its event."""


def command(request: Request, version: Version) -> CommandLine:
    """The prompt is an argument, since stdin is not read; this form of it may begin with a dash."""
    del version
    args = ["--output-format", "stream-json", *flags_of(request, _FLAGS)]
    return CommandLine(args=(*args, *request.extra_args, f"--prompt={request.prompt}"))


class KimiTranslator(PlainAnswer):
    rules: ClassVar[dict[str, str]] = {
        "assistant": "_assistant",
        "tool": "_tool",
        "user": "",
        "meta/goal.summary": "_goal",
        "meta/session.resume_hint": "_resume_hint",
        "meta/system.version": "_version",
        "meta/turn.step.retrying": "_retry",
        "meta/usage.record": "_usage",
    }

    def __init__(self) -> None:
        super().__init__()
        self._children = ChildRuns("kimi")
        self._calls: dict[str, PendingCall] = {}
        self._has_run_commands = False

    def kind(self, record: Record) -> str:
        role = text_of(record.get("role"))
        return f"meta/{text_of(record.get('type'))}" if role in ("", "meta") else role

    def stderr(self, line: str) -> Sequence[Event]:
        fatal = _FATAL.fullmatch(line)
        if fatal is not None:
            self.rule = "fatal error"
            code = f"http_{fatal[2]}" if fatal[2] else fatal[1] or "error"
            return [Error(message=f"{fatal[2]} {fatal[3]}" if fatal[2] else fatal[3], code=code)]
        for rule, pattern, event_of in _REMARKS:
            match = pattern.fullmatch(line)
            if match is not None:
                self.rule = rule
                return [event_of(match)]
        if self._has_run_commands:
            return self._command_output(line)
        if line.startswith("error: "):
            self.rule = "error"
            return [Error(message=line.removeprefix("error: "), code="error")]
        return super().stderr(line)

    def _command_output(self, line: str) -> Sequence[Event]:
        """It comes again, whole, when the command has ended. Which of several commands wrote a line is not known."""
        self.rule = "command output"
        running = [call for call in self._calls.values() if call.name in SHELLS]
        return [ToolProgress(call_id=running[0].id, text=f"{line}\n")] if len(running) == 1 else ()

    def _version(self, record: Record) -> Sequence[Event]:
        return [SessionStart(agent="kimi", version=text_of(record.get("version")))]

    def _resume_hint(self, record: Record) -> Sequence[Event]:
        """The last record, which only a run writes that came to its end, with all that went on in the background."""
        session_id = text_of(record.get("session_id"))
        return [
            *self._children.end_all_known(),
            SessionStart(agent="kimi", session_id=session_id),
            Result(success=True, session_id=session_id),
        ]

    def _usage(self, record: Record) -> Sequence[Event]:
        """Only in the sessions that Kimi stores."""
        data = record_of(record.get("usage"))
        usage = Usage(
            input=count_of(data.get("inputOther")),
            output=count_of(data.get("output")),
            cache_read=count_of(data.get("inputCacheRead")),
            cache_write=count_of(data.get("inputCacheCreation")),
        )
        call_id, model = text_of(record.get("call")), text_of(record.get("model"))
        return [UsageDelta(usage=usage, model=model, id=call_id)] if usage else ()

    def _goal(self, record: Record) -> Sequence[Event]:
        status_and_reason = (text_of(record.get("status")), text_of(record.get("reason")))
        return [Info(message=f"goal: {': '.join(filter(None, status_and_reason))}", code="goal")]

    def _retry(self, record: Record) -> Sequence[Event]:
        cause = first_text(record, "error_message", "error_name") or "unknown error"
        attempt, most = count_of(record.get("next_attempt")), count_of(record.get("max_attempts"))
        delay_ms = amount_of(record.get("delay_ms"))
        return retried(f"a request to the model failed ({cause})", attempt, most, delay_ms, counted="attempt")

    def _assistant(self, record: Record) -> Sequence[Event]:
        content = record.get("content")
        calls = record.get("tool_calls") or []
        if not isinstance(content, str | list | None) or not isinstance(calls, list):
            return [Unknown(raw=record)]
        self.turns = (self.turns or 0) + 1
        out: list[Event] = []
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else items_of(content)
        for part in parts:
            out.extend(self._part(record_of(part), part))
        for item in calls:
            out.extend(self._call(record_of(item), item))
        return out

    def _part(self, part: Record, raw: Any) -> list[Event]:
        match part.get("type"):
            case "text" if isinstance(text := part.get("text"), str):
                return [Message(role="assistant", text=text)] if text else []
            case "think" if isinstance(text := part.get("think"), str):
                return [ReasoningDelta(text=text)] if text else []
            case _:
                return [Unknown(raw=raw)]

    def _call(self, item: Record, raw: Any) -> list[Event]:
        function, call_id = record_of(item.get("function")), text_of(item.get("id"))
        if not call_id:
            return [Unknown(raw=raw)]
        name, arguments = text_of(function.get("name")), arguments_of(function.get("arguments"))
        call, start = KIMI.start(call_id, name, arguments, self.working_directory, item)
        self._calls[call_id] = call
        self._has_run_commands = self._has_run_commands or name in SHELLS
        return [start, *self._begin_child(call)] if name == SPAWNER and call.operations else [start]

    def _begin_child(self, call: PendingCall) -> list[Event]:
        name, prompt = text_of(call.input.get("subagent_type")), text_of(call.input.get("prompt"))
        return self._children.begin(call.id, name=name, prompt=prompt, cwd=call.cwd)

    def _tool(self, record: Record) -> Sequence[Event]:
        call = self._calls.pop(text_of(record.get("tool_call_id")), None)
        if call is None:
            return [unmatched_result(record)]
        output = output_of(record.get("content"))
        is_success, exit_code = exit_status_of(call, output)
        out = self._spawned(call, output)
        out.append(
            ToolEnd(
                call_id=call.id,
                tool_name=call.name or "unknown",
                success=is_success,
                output=output,
                exit_code=exit_code,
                operations=KIMI.operations_after(call, {}, output) if is_success is not False else None,
            )
        )
        if call.name in TODO_LISTS and is_success:
            tasks = tasks_of(call.input.get("todos"))
            out.extend([] if tasks is None else [TasksChanged(tasks=tasks)])
        return out

    def _spawned(self, call: PendingCall, output: str) -> list[Event]:
        if call.name == SWARM:
            return [event for agent in members_of_swarm(output) for event in self._member(call, agent)]
        agent, child = agent_of(output), self._children.find(call.id)
        if call.name != SPAWNER or child is None:
            return []
        if agent.status == "running":
            child.status = "completed"  # emitted when the run has ended, not before
            return []
        return self._children.end(call.id, agent.status or "failed", agent.text or output)

    def _member(self, call: PendingCall, agent: SpawnedAgent) -> list[Event]:
        name = f"{call.id}:{agent.id or agent.item}"
        prompt = text_of(call.input.get("prompt_template")).replace("{{item}}", agent.item)
        out = self._children.begin(
            name,
            name=text_of(call.input.get("subagent_type")) or agent.id,
            prompt=prompt,
            parent_id=call.id,
            task_id=agent.id,
            cwd=call.cwd,
        )
        return [*out, *self._children.end(name, agent.status, agent.text)]


_REQUESTED = re.compile(r"Requesting approval to Running: (.*)", re.DOTALL)


class KimiAcp(AcpTranslator):
    """Kimi Code over ACP: `kimi acp`, from 2.1 on.

    The arguments of a call are shown as text while the model writes them, and as data when the call begins. Questions are
    forms (`elicitation/create`). A sub-agent's calls are asked about, and never announced.
    Files in its folder are written without a question in every mode but the one that plans.
    """

    agent = "kimi"
    tools: ClassVar[Toolset] = KIMI
    announces_by_asking = False

    @staticmethod
    def name_of(call: AcpCall) -> str:
        """Its first title; later ones say what it does."""
        return call.title

    @staticmethod
    def stated_name(tool_call: Record, announced: AcpCall) -> str:
        del announced
        return text_of(tool_call.get("title"))

    @staticmethod
    def is_of_subagent(call: AcpCall, *, is_announced: bool) -> bool:
        del call
        return not is_announced

    @staticmethod
    def input_of(call: AcpCall) -> Any:
        tool_input = call.input or record_of(arguments_of(call.text))
        # Of a sub-agent's call there is only what the question says.
        requested = _REQUESTED.fullmatch(call.text)
        return tool_input or ({"command": requested[1]} if requested is not None else {"request": call.text})

    def is_announced(self, call: AcpCall) -> bool:
        return bool(call.input) or call.has_ended

    def progress_of(self, call: AcpCall, update: Record) -> str:
        return "" if "rawInput" in update else super().progress_of(call, update)

    def end_of(self, call: AcpCall, pending: PendingCall) -> CallEnd:
        is_success, output = ENDS.get(call.status), call.text or output_of(call.output)
        if is_success and pending.name not in SHELLS:
            is_success = exit_status_of(pending, output)[0] is not False
        operations = KIMI.operations_after(pending, {}, output) if is_success else None
        return CallEnd(is_success, output, exit_status_of(pending, output)[1], operations)

    def tasks_after(self, call: AcpCall, pending: PendingCall) -> list[Task] | None:
        del call
        return tasks_of(pending.input.get("todos")) if pending.name in TODO_LISTS else None

    def child_answer(self, call: AcpCall, end: CallEnd) -> tuple[str, str]:
        agent = agent_of(end.output or "")
        return agent.status or super().child_answer(call, end)[0], agent.text or end.output or ""


PROGRAM = AcpProgram(
    translator=KimiAcp,
    capabilities=frozenset({"approve", "ask", "files", "fork", "mode", "model"}),
    modes={"full-access": "yolo", "ask": "default", "read-only": "plan"},
    sets_model=True,
)


def acp_command(request: Request, version: Version) -> CommandLine:
    del version
    return CommandLine(args=("acp", *request.extra_args))


TWO_WAY = PROGRAM.two_way(
    acp_command,
    since=(2, 1),
    supports=frozenset({"agent-default", "fork", "model", "read-only", "resume"}),
    unasked="files in its folder are written without a question",
)


AGENT = Agent(
    name="kimi",
    title="Kimi Code",
    aliases=("kimi-cli", "kimi-code"),
    binaries=("kimi",),
    leaves_settings=True,
    homes=("~/.kimi-code/", "~/.kimi", "$KIMI_SHARE_DIR/"),
    command=command,
    translator=KimiTranslator,
    two_way=TWO_WAY,
    supports=frozenset({"agent-default", *_FLAGS}),
    screen_resume=("--session", "{id}"),
    key_variables=("KIMI_API_KEY", "KIMI_MODEL_API_KEY", "MOONSHOT_API_KEY"),
    install="npm install -g @moonshot-ai/kimi-code",
    login="kimi login",
    reveals={
        "deltas": "none: messages come whole; output of commands live on stderr",
        "reasoning": "never",
        "tools": "every call and result, as text alone: success and exit codes as far as the text has them, which of "
        "commands are only failures",
        "sub_agents": "begin, task, answer and end; not what they do; of those in the background no end",
        "usage": "never",
        "cost": "never",
        "result": "by the last record; errors only on stderr",
    },
)
