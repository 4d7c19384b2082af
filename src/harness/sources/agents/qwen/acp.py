"""Qwen Code over ACP: `qwen --acp`, from 0.24 on.

Each answer of the model ends with an empty piece of text that has its usage. What a sub-agent says and does names the
call that spawned it. A question to the user comes as one for permission, and a refused call ends the turn.
After each batch of calls it asks what was said meanwhile (`craft/drainMidTurnQueue`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar

from harness.events import Event, UsageDelta
from harness.events.run import Task
from harness.sources.agent import CommandLine, Version
from harness.sources.agents.qwen.tools import QWEN
from harness.sources.drivers.acp import AcpProgram
from harness.sources.formats.acp import AcpTranslator, usage_of
from harness.sources.formats.acp_calls import AcpCall
from harness.sources.formats.fields import record_of, text_of
from harness.sources.formats.toolset import PendingCall, Toolset, flags_of, tasks_of
from harness.sources.request import Request
from harness.sources.translator import Record


class QwenAcp(AcpTranslator):
    agent = "qwen"
    tools: ClassVar[Toolset] = QWEN
    extensions = (*AcpTranslator.extensions, "qwen/notify/")
    noise = re.compile(r"\[perf\] acp agent event loop stall: .*")

    @staticmethod
    def name_of(call: AcpCall) -> str:
        return text_of(call.meta.get("toolName"))

    def run_of(self, params: Record, update: Record) -> str:
        del params
        spawn = text_of(record_of(update.get("_meta")).get("parentToolCallId"))
        child = self.children.find(spawn)
        return child.run_id if child is not None else spawn

    def progress_of(self, call: AcpCall, update: Record) -> str:
        """Of a sub-agent it says in a word what that does, which is shown as it is."""
        if record_of(update.get("_meta")).get("subagentProgress") is True:
            return ""
        return super().progress_of(call, update)

    def _text(self, record: Record) -> Sequence[Event]:
        out = super()._text(record)
        params = record_of(record.get("params"))
        update = record_of(params.get("update"))
        usage = usage_of(record_of(record_of(update.get("_meta")).get("usage")))
        if not usage or self.rule == "history":
            return out
        run_id = self.run_of(params, update)
        if not run_id:
            self.turns = (self.turns or 0) + 1
        return [*out, *self.flush(run_id), UsageDelta(usage=usage, run_id=run_id)]

    def tasks_after(self, call: AcpCall, pending: PendingCall) -> list[Task] | None:
        del call
        return tasks_of(pending.input.get("todos")) if pending.name == "todo_write" else None


PROGRAM = AcpProgram(
    translator=QwenAcp,
    capabilities=frozenset({"approve", "ask", "files", "mode", "model", "plan", "steer"}),
    modes={"full-access": "yolo", "ask": "default", "read-only": "plan"},
    auth_method="openai",
    drains=True,
    ends_turn_on_reject=True,
)


def acp_command(request: Request, version: Version) -> CommandLine:
    del version
    mode = PROGRAM.modes.get(request.permissions)
    args = ["--acp", *(("--approval-mode", mode) if mode else ()), *flags_of(request, {"model": "--model"})]
    return CommandLine(args=(*args, *request.extra_args))


TWO_WAY = PROGRAM.two_way(acp_command, since=(0, 24))
