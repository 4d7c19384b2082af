"""Grok Build over ACP: `grok agent stdio`, from 1.0.41 on.

A sub-agent is a session of its own. The usage of each model call comes as a notification of an extension.
Grok decides itself which calls need no permission, and has no argument to be held to more.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar

from harness.agents.grok.tools import (
    GROK,
    is_failure,
    output_of_call,
    subagent_of,
    todos_of,
    usage_of,
)
from harness.contracts.agent import CommandLine, Version
from harness.contracts.command_line import flags_of
from harness.contracts.request import Request
from harness.contracts.toolset import PendingCall, Toolset, tasks_of
from harness.contracts.translator import Record
from harness.events import Event, UsageDelta, Warning
from harness.events.run import Task
from harness.formats.fields import record_of, text_of
from harness.protocols.acp.calls import ENDS, AcpCall
from harness.protocols.acp.driver import AcpProgram
from harness.protocols.acp.stream import AcpTranslator, CallEnd

_NOTIFICATION = "_x.ai/session_notification"


class GrokAcp(AcpTranslator):
    agent = "grok"
    tools: ClassVar[Toolset] = GROK
    noise = re.compile(r"\S+ +(?:ERROR|WARN|INFO) .*")
    rules: ClassVar[dict[str, str]] = {**AcpTranslator.rules, _NOTIFICATION: "_notified"}

    def __init__(self) -> None:
        super().__init__()
        self._sessions: dict[str, str] = {}
        """Session of a sub-agent → the call that spawned it, or itself where that was in an earlier turn."""

    def record(self, record: Record) -> Sequence[Event]:
        session = text_of(record_of(record.get("params")).get("sessionId"))
        out = super().record(record)
        if (
            not session
            or session in (self.session, *self._sessions)
            or record.get("method") != "session/update"
        ):
            return out
        self._sessions[session] = session
        start = self.children.begin(session, name="", prompt="", task_id=session)
        child = self.children.find(session)
        if child is not None:
            child.status = "completed"  # emitted when the turn has ended
        return [*start, *out]

    @staticmethod
    def name_of(call: AcpCall) -> str:
        return text_of(record_of(call.meta.get("x.ai/tool")).get("name")) or call.title

    @staticmethod
    def stated_name(tool_call: Record, announced: AcpCall) -> str:
        del announced
        return text_of(record_of(record_of(tool_call.get("_meta")).get("x.ai/tool")).get("name"))

    def run_of(self, params: Record, update: Record) -> str:
        del update
        session = text_of(params.get("sessionId"))
        if session == self.session:
            return ""
        child = self.children.find(self._sessions.get(session, ""))
        return child.run_id if child is not None else ""

    def end_of(self, call: AcpCall, pending: PendingCall) -> CallEnd:
        raw = record_of(call.output)
        output = output_of_call(raw, call.text)
        is_success = False if is_failure(raw) else ENDS.get(call.status)
        exit_code = None
        if is_success is not None and pending.name in GROK.shells:
            is_success, exit_code = GROK.exit_status(pending, raw, output, is_success)
        if pending.name in GROK.spawners and (agent_id := subagent_of(raw, output)):
            self._sessions[agent_id] = call.id
        operations = GROK.operations_after(pending, raw, output) if is_success else None
        return CallEnd(is_success, output, exit_code, operations)

    def child_answer(self, call: AcpCall, end: CallEnd) -> tuple[str, str]:
        raw = record_of(call.output)
        if end.success is not False and raw.get("type") != "SubagentCompleted":
            return "running", ""
        return super().child_answer(call, end)[0], text_of(raw.get("output")) or end.output or ""

    def tasks_after(self, call: AcpCall, pending: PendingCall) -> list[Task] | None:
        del pending
        return tasks_of(todos_of(record_of(call.output)).get("newTodos"))

    def used(self, answer: Record) -> list[Event]:
        """Every model call was counted when it ended."""
        del answer
        return []

    def _notified(self, record: Record) -> Sequence[Event]:
        params = record_of(record.get("params"))
        update = record_of(params.get("update"))
        kind = text_of(update.get("sessionUpdate"))
        self.rule = f"notification/{kind}"
        if kind == "response_completed":
            return self._counted(params, update)
        if kind == "subagent_spawned":
            self._spawned(text_of(update.get("child_session_id")))
        if kind == "retry_state" and (words := text_of(update.get("message"))):
            return [Warning(message=words.partition("\n")[0], code="retry")]
        return ()

    def _spawned(self, session: str) -> None:
        """The call that spawned it is still open, unless it works in the background."""
        session_calls = set(self._sessions.values())
        free = (
            call.id
            for call in self.calls.values()
            if self.children.find(call.id) and call.id not in session_calls
        )
        if session and session not in self._sessions and (call_id := next(free, "")):
            self._sessions[session] = call_id

    def _counted(self, params: Record, update: Record) -> list[Event]:
        run_id, usage = self.run_of(params, update), usage_of(record_of(update.get("usage")))
        if not run_id:
            self.turns = (self.turns or 0) + 1
        return [*self.flush(run_id), *([UsageDelta(usage=usage, run_id=run_id)] if usage else [])]


PROGRAM = AcpProgram(
    translator=GrokAcp, capabilities=frozenset({"approve", "model"}), ends_turn_on_reject=True
)


def acp_command(request: Request, version: Version) -> CommandLine:
    del version
    args = ["agent", "--no-leader", *flags_of(request, {"model": "--model", "effort": "--reasoning-effort"})]
    if request.permissions == "full-access":
        args.append("--always-approve")
    return CommandLine(args=(*args, *request.extra_args, "stdio"))


TWO_WAY = PROGRAM.two_way(
    acp_command,
    since=(1, 0, 41),
    supports=frozenset({"agent-default", "effort", "model", "resume"}),
    unasked="it decides itself which calls need no permission, some that create files among them",
)
