"""Tool calls of Cline: whose they are, and how they end.

A hook tells that an agent is about to call a tool, and who it is; the call itself comes after it,
without a name. A call that is refused before it begins has no hook.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from harness.events import Event, ToolEnd, ToolProgress, ToolStart, Warning
from harness.events.operation import Operation, Spawn
from harness.sources.agents.cline.speech import Speaker, Speech
from harness.sources.agents.cline.tools import (
    SPAWNER,
    TEAM_TASK,
    Call,
    exit_code_of,
    is_denied,
    meaning_of,
    success_of,
    text_of_output,
    told_by_result,
)
from harness.sources.formats.fields import count_of, record_of, text_of
from harness.sources.formats.subagents import Subagents


class ToolCalls:
    """All calls of a run and of its children."""

    def __init__(self, speech: Speech, children: Subagents) -> None:
        self.cwd = ""
        self.has_failed = False
        """The last call that ended has failed."""
        self._speech = speech
        self._children = children
        self._open: dict[str, tuple[Call, Speaker]] = {}
        self._announced: list[Speaker] = []
        self._team_calls: dict[str, str] = {}

    def announce(self, speaker: Speaker) -> None:
        speaker.announced_calls += 1
        self._announced.append(speaker)

    def spawned_by(self, speaker: Speaker) -> Call | None:
        """The first call of an agent whose sub-agent has not begun yet."""
        for call, caller in self._open.values():
            is_free = call.name == SPAWNER and not self._children.was_begun(call.id)
            if is_free and caller is speaker:
                return call
        return None

    def team_call(self, member: str) -> str:
        """The call that gave a member of the team its latest task."""
        return self._team_calls.get(member, "")

    def start(self, event: dict[str, Any], speaker: Speaker | None) -> Sequence[Event] | None:
        call_id, name, asked = (
            text_of(event.get("toolCallId")),
            text_of(event.get("toolName")),
            event.get("input"),
        )
        if not call_id:
            return None
        speaker = self._caller(speaker)
        groups = meaning_of(name, asked, self.cwd)
        call = Call(call_id, name, record_of(asked), groups, speaker.run_id)
        self._open[call_id] = (call, speaker)
        speaker.waits_for.add(call_id)
        if name == TEAM_TASK:
            self._team_calls[text_of(call.input.get("agentId"))] = call_id
        return [
            ToolStart(
                call_id=call_id,
                tool_name=name or "unknown",
                input=asked,
                operations=call.operations,
                raw=None if groups else event,
                run_id=speaker.run_id,
            )
        ]

    def _caller(self, speaker: Speaker | None) -> Speaker:
        self._announced = [each for each in self._announced if not each.is_gone]
        if speaker is None:
            speaker = next((each for each in self._announced if not each.is_member), None)
        if speaker in self._announced:
            self._announced.remove(speaker)
            speaker.announced_calls -= 1
        return speaker or self._speech.somebody()

    def progress(self, event: dict[str, Any], _speaker: Speaker | None) -> Sequence[Event]:
        call_id, text = text_of(event.get("toolCallId")), text_of(record_of(event.get("update")).get("chunk"))
        known = self._open.get(call_id)
        if known is None or not text:
            return ()
        return (ToolProgress(call_id=call_id, text=text, run_id=known[0].run_id),)

    def end(self, event: dict[str, Any], speaker: Speaker | None) -> Sequence[Event] | None:
        call_id = text_of(event.get("toolCallId"))
        out: list[Event] = []
        if call_id not in self._open and text_of(event.get("toolName")):
            out += self.start(event, speaker) or ()
        known = self._open.pop(call_id, None)
        if known is None:
            return None
        call, caller = known
        caller.waits_for.discard(call_id)
        output, is_success = event.get("output"), success_of(event)
        text = text_of_output(output)
        self.has_failed = is_success is False
        operations = told_by_result(call, output)
        if call.name == SPAWNER:
            operations = self._with_child(call)
            out += self._end_child(call, record_of(output), count_of(event.get("durationMs")))
        if is_denied(text):
            out.append(Warning(message=text, code="permission_denied", run_id=call.run_id))
        out.append(
            ToolEnd(
                call_id=call_id,
                tool_name=call.name or "unknown",
                success=is_success,
                output=text,
                exit_code=exit_code_of(call, output),
                duration_ms=count_of(event.get("durationMs")),
                operations=operations,
                run_id=call.run_id,
            )
        )
        return out

    def _with_child(self, call: Call) -> list[Operation] | None:
        child = self._children.find(call.id)
        if child is None or not call.operations:
            return None
        return [
            replace(operation, agent_id=child.task_id) if isinstance(operation, Spawn) else operation
            for operation in call.operations
        ]

    def _end_child(self, call: Call, output: dict[str, Any], duration_ms: int | None) -> list[Event]:
        child = self._children.find(call.id)
        if child is None:
            return []
        told = text_of(output.get("finishReason"))
        status = child.status or (
            "failed" if told not in ("", "completed") or "error" in output else "completed"
        )
        out = self._speech.leave(child.task_id)
        self._open = {key: known for key, known in self._open.items() if known[0].run_id != child.run_id}
        return [*out, *self._children.end(call.id, status, text_of(output.get("text")), duration_ms)]
