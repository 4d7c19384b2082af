"""Goose over ACP: `goose acp`, from 1.52 on.

A message in the middle of a turn has a request of its own, and comes back as a message of the user's where it was taken.
The usage of a turn is known where it is one model call; its cost always, as what the session has cost grows.
A sub-agent's own calls are not asked about. What an interrupted command has started runs on, so that the process is ended
with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from harness.agents.goose.tools import (
    GOOSE,
    SHELL,
    Skills,
    named_by_extension,
    operations_after,
    own_name,
    todo_list_of,
)
from harness.contracts.agent import CommandLine, Version
from harness.contracts.request import Request
from harness.contracts.toolset import PendingCall, Toolset
from harness.contracts.translator import Record
from harness.events import Event, Usage, UsageDelta
from harness.events.run import Task
from harness.formats.fields import amount_of, output_of, record_of, text_of
from harness.log.raw import RawStart
from harness.protocols.acp.calls import ENDS, AcpCall, exit_code_in
from harness.protocols.acp.driver import SUPPORTS, AcpProgram
from harness.protocols.acp.stream import AcpTranslator, CallEnd, usage_of


class GooseAcp(AcpTranslator):
    agent = "goose"
    tools: ClassVar[Toolset] = GOOSE

    def __init__(self) -> None:
        super().__init__()
        self._skills = Skills()
        self._answers: set[str] = set()
        """Ids that the model's server gave its answers."""
        self._cost: float | None = None
        """What the session had cost before, then what it has cost so far."""
        self._subagents: dict[str, str] = {}
        """Call → the id of the agent that it runs."""

    def begin(self, start: RawStart) -> None:
        super().begin(start)
        self._cost = amount_of(start.carried.get("cost"))

    def carried(self) -> dict[str, Any]:
        """What the session has cost: later turns of a process state it only after their first model call."""
        return {} if self._cost is None else {"cost": self._cost}

    @staticmethod
    def name_of(call: AcpCall) -> str:
        tool_call = record_of(record_of(call.meta.get("goose")).get("toolCall"))
        return text_of(tool_call.get("toolName")) or call.title.partition(" ")[0]

    @staticmethod
    def stated_name(tool_call: Record, announced: AcpCall) -> str:
        """Goose names the tool when it announces a call, and repeats title and arguments in the question."""
        goose_call = record_of(record_of(announced.meta.get("goose")).get("toolCall"))
        name, extension = text_of(goose_call.get("toolName")), text_of(goose_call.get("extensionName"))
        is_same = (tool_call.get("title"), tool_call.get("rawInput")) == (announced.title, announced.input)
        return named_by_extension(name, extension) if name and is_same else ""

    def record(self, record: Record) -> Sequence[Event]:
        update = record_of(record_of(record.get("params")).get("update"))
        answer = text_of(record_of(record_of(update.get("_meta")).get("goose")).get("messageId"))
        is_answer = update.get("sessionUpdate") in ("agent_message_chunk", "agent_thought_chunk", "tool_call")
        if answer and is_answer and not self.is_history:
            self._answers.add(answer)
            self.turns = len(self._answers)
        return super().record(record)

    def progress_of(self, call: AcpCall, update: Record) -> str:
        """What a sub-agent is about to do, and its id."""
        params = record_of(record_of(record_of(update.get("_meta")).get("toolNotification")).get("params"))
        data = record_of(params.get("data"))
        if not data:
            return text_of(params.get("data")) or super().progress_of(call, update)
        self._subagents[call.id] = text_of(data.get("subagent_id"))
        tool: Any = record_of(data.get("tool_call")).get("name")
        return f"{call.shown}{text_of(tool)}\n" if tool else ""

    def end_of(self, call: AcpCall, pending: PendingCall) -> CallEnd:
        is_success, output = ENDS.get(call.status), call.text or output_of(call.output)
        exit_code = exit_code_in(call.output) if own_name(pending.name) == SHELL else None
        if is_success and exit_code is not None:
            is_success = exit_code == 0
        agent_id = self._subagents.get(call.id, "")
        operations = operations_after(pending, output, agent_id, self._skills) if is_success else None
        return CallEnd(is_success, output, exit_code, operations)

    def tasks_after(self, call: AcpCall, pending: PendingCall) -> list[Task] | None:
        del call
        return todo_list_of(pending)

    def _context(self, record: Record) -> Sequence[Event]:
        update = record_of(record_of(record.get("params")).get("update"))
        cost = amount_of(record_of(update.get("cost")).get("amount"))
        before, self._cost = self._cost, self._cost if cost is None else cost
        if before is None:
            # The first of a process comes before its first model call, without a cost where there was none yet.
            self._cost = cost or 0.0
            return ()
        grown = round((self._cost or 0.0) - before, 10)
        if grown <= 0:
            return ()
        return [UsageDelta(usage=Usage(cost_usd=grown, cost_source="stated"))]

    def used(self, answer: Record) -> list[Event]:
        """Only the last model call of the turn is stated."""
        usage = usage_of(record_of(answer.get("usage")))
        return [UsageDelta(usage=usage)] if usage and self.turns == 1 else []


PROGRAM = AcpProgram(
    translator=GooseAcp,
    capabilities=frozenset({"approve", "files", "mode", "model", "steer"}),
    modes={"full-access": "auto", "ask": "approve", "read-only": "chat"},
    steering_method="_goose/unstable/session/steer",
    run_key="goose",
    leaves_commands=True,
    sets_model=True,
)


def effort_of(request: Request) -> dict[str, str]:
    """How much the model is to reason, which Goose takes from its environment alone."""
    return {"GOOSE_THINKING_EFFORT": request.effort} if request.effort else {}


def acp_command(request: Request, version: Version) -> CommandLine:
    del version
    mode = PROGRAM.modes.get(request.permissions)
    args = ["acp", *(("--with-builtin", "developer") if mode not in (None, "chat") else ())]
    env = {**({"GOOSE_MODE": mode} if mode else {}), **effort_of(request)}
    return CommandLine(args=(*args, *request.extra_args), env=env)


TWO_WAY = PROGRAM.two_way(acp_command, since=(1, 52), supports=SUPPORTS | {"effort"})
