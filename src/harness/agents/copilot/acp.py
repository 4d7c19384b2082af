"""GitHub Copilot CLI over ACP: `copilot --acp`, from 1.0.102 on.

Tools have no names here: their arguments say which they are. Errors of the model's server come as text, and the turn then
ends like any other. The usage in the answer to a prompt is that of the whole process. A refused call ends the turn.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec
from msgspec.structs import replace

from harness.agents.copilot.calls import (
    COPILOT,
    exit_status_of,
    operations_after,
    output_of_result,
)
from harness.contracts.agent import CommandLine, TrustingSettings, Version
from harness.contracts.command_line import flags_of
from harness.contracts.request import Request
from harness.contracts.toolset import PendingCall, Toolset
from harness.contracts.translator import Record
from harness.events import Error, Event, Info, Outcome, Result, Usage, UsageDelta, Warning
from harness.events.operation import List, Operation, Read, Write
from harness.formats.fields import items_of, record_of, text_of
from harness.formats.patches import changed_lines
from harness.log.raw import RawStart
from harness.protocols.acp.calls import ENDS, AcpCall, named_by_input
from harness.protocols.acp.driver import SUPPORTS, AcpProgram
from harness.protocols.acp.stream import AcpTranslator, CallEnd, usage_of

_ARGUMENTS: dict[str, tuple[str, ...]] = {
    "task": ("agent_type", "prompt"),
    "bash": ("command",),
    "create": ("path", "file_text"),
    "edit": ("path", "old_str"),
    "grep": ("pattern",),
    "view": ("path",),
    "apply_patch": ("input",),
    "skill": ("skill",),
    "sql": ("query",),
    "web_fetch": ("url",),
    "report_intent": ("intent",),
    "ask_user": ("question",),
    "read_bash": ("shellId",),
}
"""Tool → the arguments that only it has, or the ones before it do not."""
_NOTICES = {
    "Info: Request failed due to a transient API error.": "retry",
    "Info: Operation cancelled by user": "cancelled",
}
_UNFINISHED = re.compile(r"Warning: \d+ tool calls?(?:\(s\))? had no .*", re.DOTALL)
_FAILURE = re.compile(r"Error: (.*\(HTTP (\d{3})\).*)", re.DOTALL)
"""What it says itself in the place of the model."""
_FOLDER = re.compile(r"^--- a/dev/null$", re.MULTILINE)


class CopilotAcp(AcpTranslator):
    agent = "copilot"
    tools: ClassVar[Toolset] = COPILOT
    shares_stream = True

    def __init__(self) -> None:
        super().__init__()
        self._agents: dict[str, str] = {}
        """Agent → the call that spawned it."""
        self._has_failed = False
        self._usage_before = Usage()
        """By all turns of the process."""

    def begin(self, start: RawStart) -> None:
        super().begin(start)
        self._usage_before = msgspec.convert(start.carried.get("used", {}), Usage)

    @staticmethod
    def name_of(call: AcpCall) -> str:
        if isinstance(call.input, str):
            return "apply_patch"
        return named_by_input(_ARGUMENTS, call.input) or call.kind or call.title

    @staticmethod
    def input_of(call: AcpCall) -> Any:
        # A patch comes as mere text.
        return {"input": call.input} if isinstance(call.input, str) else call.input

    @staticmethod
    def is_of_subagent(call: AcpCall, *, is_announced: bool) -> bool:
        del is_announced
        return bool(_agent_in(call.meta))

    def run_of(self, params: Record, update: Record) -> str:
        """Calls of a sub-agent name it; its words do not."""
        agent = _agent_in(record_of(update.get("_meta")))
        if not agent:
            is_call = "toolCallId" in update
            return "" if is_call else super().run_of(params, update)
        if agent not in self._agents:
            used_spawns = set(self._agents.values())
            spawns = (call.id for call in self.calls.values() if self.children.find(call.id))
            self._agents[agent] = next((spawn for spawn in spawns if spawn not in used_spawns), "")
        child = self.children.find(self._agents[agent])
        return child.run_id if child is not None else ""

    def progress_of(self, call: AcpCall, update: Record) -> str:
        return call.text if not update.get("status") and "content" in update else ""

    def end_of(self, call: AcpCall, pending: PendingCall) -> CallEnd:
        raw = record_of(call.output)
        contents = map(record_of, items_of(raw.get("contents")))
        exited = next((item for item in contents if item.get("type") == "shell_exit"), {})
        is_success = ENDS.get(call.status)
        data: Record = {
            "success": is_success,
            "result": raw if is_success else None,
            "error": None if is_success else raw,
            "shellExecution": {"exitCode": exited.get("exitCode")},
        }
        output = output_of_result(data) or call.text
        is_success, exit_code = exit_status_of(pending, data, output)
        agents = {spawn: agent for agent, spawn in self._agents.items()}
        changes = operations_after(pending, data, {}, agents.get(call.id, "")) if is_success else None
        diff = text_of(raw.get("detailedContent"))
        operations = [_as_shown(each, diff) for each in changes or pending.operations] if is_success else None
        return CallEnd(
            is_success, output, exit_code, None if operations == pending.operations else operations
        )

    def _text(self, record: Record) -> Sequence[Event]:
        content = record_of(record_of(record_of(record.get("params")).get("update")).get("content"))
        notice = self._notice_in(text_of(content.get("text")))
        if notice is None:
            self._has_failed = False
            return super()._text(record)
        self.rule = "notice"
        if self.is_history:
            return ()
        self._has_failed = isinstance(notice, Error)
        return [*self.flush(""), notice]

    def _writes(self) -> set[str]:
        """Files that calls are writing now."""
        pending = [call.pending for call in self.calls.values() if call.pending is not None]
        return {each.path for call in pending for each in call.operations if isinstance(each, Write)}

    def _notice_in(self, text: str) -> Event | None:
        if (failure := _FAILURE.fullmatch(text)) is not None:
            return Error(message=failure[1], code=f"http_{failure[2]}")
        if text.startswith("Info: ") and text.removeprefix("Info: ") in self._writes():
            return Info(message=text.removeprefix("Info: "), code="file_created")
        code = next((code for start, code in _NOTICES.items() if text.startswith(start)), "")
        if not code and _UNFINISHED.fullmatch(text) is None:
            return None
        return Warning(message=text.partition(": ")[2], code=code or "unfinished_calls")

    def used(self, answer: Record) -> list[Event]:
        """The whole process is counted: what earlier turns have used is taken off."""
        total = usage_of(record_of(answer.get("usage")))
        own, self._usage_before = total.minus(self._usage_before).without_zeros(), total or self._usage_before
        return [UsageDelta(usage=own)] if own else []

    def carried(self) -> dict[str, Any]:
        return {"used": msgspec.to_builtins(self._usage_before)}

    def result(self, outcome: Outcome, reason: str) -> Result:
        return super().result("failed" if outcome == "completed" and self._has_failed else outcome, reason)


def _agent_in(meta: Record) -> str:
    return text_of(record_of(meta.get("github.com/copilot")).get("agentId"))


def _as_shown(operation: Operation, diff: str) -> Operation:
    """The lines that a write changed, and a folder that was viewed like a file, from the difference that is shown."""
    if isinstance(operation, Write) and (lines := changed_lines(diff)) is not None:
        return replace(operation, start_line=lines[0], end_line=lines[1])
    if isinstance(operation, Read) and _FOLDER.search(diff):
        return List(path=operation.path)
    return operation


PROGRAM = AcpProgram(
    translator=CopilotAcp,
    capabilities=frozenset({"approve", "files", "mode"}),
    ends_turn_on_reject=True,
)
_NO_SKILLS = "--excluded-tools=skill"
"""It loads a skill without a question, so the model gets none where everything is to be asked about."""
_PERMISSIONS: dict[str, list[str]] = {
    "full-access": ["--allow-all"],
    "ask": [_NO_SKILLS],
    "read-only": ["--deny-tool=shell", "--deny-tool=write", _NO_SKILLS],
}


def acp_command(request: Request, version: Version) -> CommandLine:
    """Its tool that asks the user fails in this mode, so the model does not get it."""
    del version
    args = ["--acp", "--no-auto-update", "--no-ask-user", *_PERMISSIONS.get(request.permissions, ())]
    return CommandLine(
        args=(
            *args,
            *flags_of(request, {"model": "--model", "effort": "--reasoning-effort"}),
            *request.extra_args,
        )
    )


_TRUSTING = TrustingSettings(
    files=tuple(
        f"{folder}/{name}"
        for folder in (
            "$COPILOT_HOME",
            "$XDG_CONFIG_HOME/.copilot",
            "~/.copilot",
            ".github",
            ".github/copilot",
        )
        for name in ("hooks/*.json", "config.json", "settings.json")
    ),
    pattern=r'"(?:[pP]reToolUse|[pP]ermissionRequest)"\s*:\s*\[\s*\{',
    what="a hook in {path} may allow calls, and nobody is asked about those",
    reach_reading=True,
)
TWO_WAY = PROGRAM.two_way(acp_command, since=(1, 0, 102), supports=SUPPORTS | {"effort"}, trusting=_TRUSTING)
