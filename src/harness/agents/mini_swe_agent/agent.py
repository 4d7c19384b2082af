"""mini-SWE-agent: `mini --yolo`, from 2.0 on. Best effort: it writes its conversation as text, section by section.

mini-swe-agent (step 1, $0.00):   what the model said, and behind it the commands, each in a fence
Tool:                             what a command gave back: <returncode>, <output>
User:                             the task; later what it says to a model that broke its rules
Exit:                             the submission, or why it stopped
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence

import msgspec

from harness.contracts.agent import Agent, CommandLine, Version
from harness.contracts.command_line import flags_of
from harness.contracts.request import Request
from harness.contracts.translator import Ending, Record, Translator
from harness.events import (
    Error,
    Event,
    Info,
    Message,
    Outcome,
    Result,
    ToolEnd,
    ToolStart,
    Usage,
    UsageDelta,
    Warning,
)
from harness.formats.shell import operations_of

_FLAGS = {"model": "--model", "max_budget_usd": "--cost-limit"}
_WIDTH = "4000"
"""It breaks lines at the width of the terminal, and draws its rules that wide."""
_SECTION = re.compile(r"(System|User|Tool|Exit|Assistant):|mini-swe-agent \(step (\d{1,9}), \$(\d+\.\d\d)\):")
_RULE_LINE = re.compile(r"─+")
_SAVED = re.compile(r"Saved trajectory to '.*'?")
_RETRY = re.compile(r"Retrying \S+ in [\d.]+ seconds as it raised .*")
_RESULT = re.compile(r"<returncode>\n(-?\d{1,9})\n<output(?:_head)?>\n?(.*)", re.DOTALL)
_NOT_RUN = "<exception_info>\naction was not executed"
_FENCE = "\n\n```\n"
_ENDS: dict[str, tuple[str, Outcome]] = {
    "LimitsExceeded": ("the agent reached its limit of steps or cost", "limit_exceeded"),
    "TimeExceeded": ("the agent reached its limit of time", "timed_out"),
    "RepeatedFormatError": ("the model broke the rules of its answers too often", "failed"),
}


def command(request: Request, version: Version) -> CommandLine:
    """The prompt is an argument, since stdin is not read; this form of it may begin with a dash."""
    del version
    args = ["--yolo", "--exit-immediately", *flags_of(request, _FLAGS)]
    if request.limits.max_turns is not None:
        args += ["--config", "mini.yaml", "--config", f"agent.step_limit={request.limits.max_turns}"]
    return CommandLine(args=(*args, *request.extra_args, f"--task={request.prompt}"), env={"COLUMNS": _WIDTH})


class MiniSweAgentTranslator(Translator):
    announces_start = False
    keeps_layout = True

    def __init__(self) -> None:
        super().__init__()
        self._section = ""
        self._lines: list[str] = []
        self._is_after_gap = True
        self._has_started = False
        """Whether the opening text, with the task, has ended."""
        self._step = 0
        self._cost_usd = 0.0
        self._open: deque[str] = deque()
        """Calls in the order in which their results will come."""

    def record(self, record: Record) -> Sequence[Event]:
        return self.text(msgspec.json.encode(record).decode())

    def text(self, line: str) -> Sequence[Event]:
        is_after_gap, self._is_after_gap = self._is_after_gap, not line.strip()
        header = _SECTION.fullmatch(line.rstrip()) if is_after_gap else None
        if header is not None:
            out = self._close()
            self.rule = "section"
            self._section = header[1] or "Assistant"
            if header[2]:
                self._step, self.turns = int(header[2]), int(header[2])
                self._cost_usd = float(header[3])
            return out
        if _RULE_LINE.fullmatch(line.strip()):
            out = self._close()
            self.rule = "line between sections"
            self._has_started = True
            return out
        if _SAVED.fullmatch(line):
            out = self._close()
            self.rule = "saved"
            return [*out, Info(message=line, code="trajectory")]
        self.rule = self._section or "startup"
        self._lines.append(line)
        return ()

    def stderr(self, line: str) -> Sequence[Event]:
        if line.startswith("Warning: Input is not a terminal"):
            self.rule = "no terminal"
            return ()
        if _RETRY.fullmatch(line):
            self.rule = "retry"
            return [Warning(message=line, code="retry")]
        return super().stderr(line)

    def finish(self, ending: Ending) -> Sequence[Event]:
        del ending
        return self._close()

    def _close(self) -> list[Event]:
        section, self._section = self._section, ""
        text, self._lines = "\n".join(self._lines).strip("\n"), []
        match section:
            case "Assistant":
                return self._answer(text)
            case "Tool":
                return self._result(text)
            case "Exit":
                return self._exit(text)
            case "User" if self._has_started and text:
                return [Warning(message=text, code="format_error")]
            case _:
                return []

    def _answer(self, text: str) -> list[Event]:
        """Commands stand at the end, each in a fence of its own; other fences belong to the text."""
        self._has_started = True
        parts = f"\n\n{text}".split(_FENCE)
        commands: list[str] = []
        while len(parts) > 1 and parts[-1].endswith("\n```"):
            commands.insert(0, parts.pop().removesuffix("\n```"))
        answer = _FENCE.join(parts).strip("\n")
        out: list[Event] = [Message(role="assistant", text=answer)] if answer else []
        for number, command in enumerate(commands, 1):
            call_id = f"step-{self._step}:{number}"
            self._open.append(call_id)
            operations = operations_of(command, self.working_directory)
            out.append(
                ToolStart(
                    call_id=call_id, tool_name="bash", input={"command": command}, operations=operations
                )
            )
        return out

    def _result(self, text: str) -> list[Event]:
        if not self._open:
            return [Info(message=text, code="tool")] if text else []
        # The command that submits is reported as not executed; it was.
        match = None if _NOT_RUN in text else _RESULT.match(text)
        code = None if match is None else int(match[1])
        return [
            ToolEnd(
                call_id=self._open.popleft(),
                tool_name="bash",
                success=None if code is None else code == 0,
                output=text if match is None else match[2],
                exit_code=code,
            )
        ]

    def _exit(self, text: str) -> list[Event]:
        cost = self._cost_usd or None
        usage = None if cost is None else Usage(cost_usd=cost, cost_source="stated")
        out: list[Event] = [] if usage is None else [UsageDelta(usage=usage)]
        message, outcome = _ENDS.get(text, ("", "completed"))
        if message:
            out.append(Error(message=message, code=text))
        is_success = outcome == "completed"
        out.append(
            Result(
                success=is_success,
                outcome=outcome,
                text=text if is_success else "",
                turns=self._step or None,
                usage=usage,
                total_cost_usd=cost,
            )
        )
        return out


AGENT = Agent(
    name="mini-swe-agent",
    title="mini-SWE-agent",
    aliases=("mini", "minisweagent"),
    binaries=("mini", "mini-swe-agent"),
    homes=("~/.config/mini-swe-agent/",),
    command=command,
    translator=MiniSweAgentTranslator,
    supports=frozenset({"max_turns", *_FLAGS}),
    key_variables=("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY"),
    install="python -m pip install mini-swe-agent",
    reveals={
        "deltas": "none: answers come whole",
        "reasoning": "not separate from the answer",
        "tools": "every command and its result; exit codes",
        "sub_agents": "none: mini-SWE-agent has none",
        "usage": "never in tokens",
        "cost": "stated in total, rounded to cents",
        "result": "by the last section; retries on stderr",
    },
)
