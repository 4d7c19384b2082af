"""What an agent program asks permission for, as calls that can be decided.

A call is decided by what the question itself says: the exact name of the tool and its arguments, read by the tool
table of the agent. What the program wrote earlier under the same id is only compared: where it differs, where the id
stands for two calls, or where the question was withdrawn and comes again with other arguments, the call is in doubt,
and a person is asked whatever was granted.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from harness.approvals.approver import Approver
from harness.approvals.call import ASK, MODES, PLAN, ProposedCall
from harness.approvals.decide import Decision
from harness.approvals.free_commands import free_programs
from harness.approvals.grants import choices_for, rule_of
from harness.approvals.rules import Rule
from harness.approvals.work_folder import WorkFolder
from harness.contracts.driver import Asked, AskedCall
from harness.contracts.toolset import Toolset
from harness.events import Relay, RelayCall, RelayReply, ToolStart
from harness.runs.launch import Launch
from harness.runs.run_lifecycle import RunLifecycle

_TWICE = "the program uses one id for two calls: it is not certain which of them this is"
_ANOTHER = "the program announced another call than the one that it asks about"
_AGAIN = "it was asked about before, with other arguments"
_NOT_KNOWN = Toolset(tools={})


def approver_of(launch: Launch) -> Approver:
    """Who decides for a run without a session: what the request grants, and what is allowed since it began."""
    tools = tools_of(launch)
    return Approver(
        MODES.get(launch.access, ASK),  # `agent-default`: what the program asks is answered as in `ask`
        work_folder(launch.invocation.cwd, launch.invocation.env),
        launch.rules,
        agent=launch.agent.name,
        shell=tools.shell_memory,
    )


def work_folder(cwd: str, environ: Mapping[str, str]) -> WorkFolder:
    """Where a program works, and which commands it would start from the system's own folders."""
    return WorkFolder(root=os.path.realpath(cwd), programs=free_programs(environ))


def tools_of(launch: Launch) -> Toolset:
    return (launch.two_way.tools if launch.two_way is not None else None) or _NOT_KNOWN


class AskedCalls:
    """The calls of all questions of one turn."""

    def __init__(self, tools: Toolset, cwd: str, mask: Callable[[Any], Any]) -> None:
        self._tools = tools
        self._cwd = cwd
        self._mask = mask
        """Secrets are masked in what the program has written, and not in what it asks."""
        self._open: dict[str, tuple[tuple[AskedCall, ...], list[ProposedCall]]] = {}
        """Question → its calls, as they were asked and as they were decided."""
        self._withdrawn: dict[str, AskedCall] = {}
        """Call → as it was asked about in a question that the program took back."""

    def proposed(self, question: Asked, stream: RunLifecycle) -> list[ProposedCall]:
        """The calls that a question stands for."""
        calls = [self._proposed(call, stream) for call in question.calls]
        self._open[question.relay.id] = (question.calls, calls)
        return calls

    def answered(self, relay_id: str) -> list[ProposedCall]:
        """The question is answered: its calls."""
        return self._open.pop(relay_id, ((), []))[1]

    def withdraw(self, relay_id: str) -> None:
        """The program does not wait for the answer any more."""
        for call in self._open.pop(relay_id, ((), []))[0]:
            if call.id:
                self._withdrawn[call.id] = call

    def masked(self, calls: list[ProposedCall]) -> list[ProposedCall]:
        """The calls as the log may have them."""
        return [
            replace(
                call,
                input=self._mask(call.input),
                command=self._mask(call.command),
                paths=tuple(self._mask(list(call.paths))),
            )
            for call in calls
        ]

    def _proposed(self, call: AskedCall, stream: RunLifecycle) -> ProposedCall:
        proposed = self._tools.call(
            call.tool,
            call.input,
            self._cwd,
            server=call.server,
            doubt=call.doubt or self._doubt(call, stream),
        )
        # A name that is only guessed may be denied by a rule, and is never allowed by one.
        return replace(proposed, category="unknown") if call.is_guess else proposed

    def _doubt(self, call: AskedCall, stream: RunLifecycle) -> str:
        if not call.id:
            return ""
        before = self._withdrawn.get(call.id)
        if before is not None and (before.tool, before.input) != (call.tool, call.input):
            return _AGAIN
        if stream.is_ambiguous(call.id):
            return _TWICE
        start = stream.open_call(call.id)
        return _ANOTHER if start is not None and not self._is_same(call, start) else ""

    def _is_same(self, call: AskedCall, start: ToolStart) -> bool:
        """Whether the call that was announced is the one that is asked about, as far as both say it."""
        if start.tool_name.lower() not in (call.tool.lower(), "unknown"):
            return False
        here = self._mask(call.input if call.announced is None else call.announced)
        there = start.input
        if not here or not there or here == there:
            return True
        if not isinstance(here, dict) or not isinstance(there, dict):
            return False
        if any(here[name] != there[name] for name in here.keys() & there.keys()):
            return False
        asked_call, announced = (
            self._tools.call(call.tool, call_input, self._cwd) for call_input in (here, there)
        )
        acts_alike = (asked_call.command, asked_call.paths) == (announced.command, announced.paths)
        # By which of its arguments another tool acts is not known: one more or less makes another call of it.
        return acts_alike and asked_call.category not in ("mcp", "unknown")


def shown(relay: Relay, decision: Decision, calls: list[ProposedCall], folder: WorkFolder) -> Relay:
    """The question as a person sees it: all of its calls, why it is asked, and what can be answered.

    `calls`: those of the decision, with secrets masked.
    """
    lines_listed = [
        RelayCall(tool=call.tool, input=call.input, category=call.category, why=why)
        for call, why in zip(calls, decision.reasons, strict=True)
    ]
    categories = {call.category for call in calls}
    return replace(
        relay,
        calls=lines_listed or None,
        why=decision.why,
        choices=relay.choices or choices_for(calls, folder, is_lasting=not decision.is_by_rule),
        category=relay.category or (categories.pop() if len(categories) == 1 else ""),
    )


def granted_by(relay: Relay, reply: RelayReply) -> tuple[list[Rule], str]:
    """What an answer allows from now on, and in words."""
    if not reply.approved:
        return [], ""
    for choice in relay.choices or ():
        is_chosen = (
            choice.id == reply.choice if reply.choice else reply.always and choice.kind == "allow-always"
        )
        if is_chosen:
            label = choice.label.removeprefix("Always allow ")
            return [rule_of(grant) for grant in choice.grants], label
    return [], ""


def of_plan(reply: RelayReply, approver: Approver) -> RelayReply:
    """The answer to a plan: approved or not, and what is to be changed. Sessions answer `{action, feedback}`.

    From an approved plan on, a run that was to plan asks before everything.
    """
    if isinstance(reply.answer, dict):
        is_approved = reply.approved and reply.answer.get("action", "approved") == "approved"
        feedback = reply.answer.get("feedback")
        reason = reply.reason or (feedback if isinstance(feedback, str) else "")
        reply = replace(reply, approved=is_approved, reason=reason)
    if reply.approved and approver.mode is PLAN:
        approver.switch(ASK)
    return reply


def unasked(reply: RelayReply, call_id: str) -> RelayReply:
    """How the log has an answer to what nobody was asked: under the id of the call, as in the built-in loop. The person who
    gave a recorded one was asked in another run.
    """
    return replace(reply, id=call_id, by="policy" if reply.by == "person" else reply.by)
