"""Kimi Code over ACP: `kimi acp`, from 2.1 on.

The arguments of a call are shown as text while the model writes them, and as data when the call begins. Questions are
forms (`elicitation/create`). A sub-agent's calls are asked about, and never announced.
Files in its folder are written without a question in every mode but the one that plans.
"""

from __future__ import annotations

import re
from typing import Any, ClassVar

from harness.events.run import Task
from harness.sources.agent import CommandLine, Version
from harness.sources.agents.kimi.tools import KIMI, SHELLS, TODO_LISTS, agent_of, exit_status_of
from harness.sources.drivers.acp import AcpProgram
from harness.sources.formats.acp import AcpTranslator, CallEnd
from harness.sources.formats.acp_calls import ENDS, AcpCall
from harness.sources.formats.fields import arguments_of, output_of, record_of
from harness.sources.formats.toolset import PendingCall, Toolset, tasks_of
from harness.sources.request import Request
from harness.sources.translator import Record

_REQUESTED = re.compile(r"Requesting approval to Running: (.*)", re.DOTALL)


class KimiAcp(AcpTranslator):
    agent = "kimi"
    tools: ClassVar[Toolset] = KIMI
    announces_by_asking = False

    @staticmethod
    def name_of(call: AcpCall) -> str:
        """Its first title; later ones say what it does."""
        return call.title

    @staticmethod
    def input_of(call: AcpCall) -> Any:
        asked = call.input or record_of(arguments_of(call.text))
        # Of a sub-agent's call there is only what the question says.
        requested = _REQUESTED.fullmatch(call.text)
        return asked or ({"command": requested[1]} if requested is not None else {"request": call.text})

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
    capabilities=frozenset({"approve", "ask", "files", "mode", "model"}),
    modes={"full-access": "yolo", "ask": "default", "read-only": "plan"},
    sets_model=True,
)


def acp_command(request: Request, version: Version) -> CommandLine:
    del version
    return CommandLine(args=("acp", *request.extra_args))


TWO_WAY = PROGRAM.two_way(
    acp_command, since=(2, 1), unasked="files in its folder are written without a question"
)
