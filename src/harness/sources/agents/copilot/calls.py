"""Tool calls and sub-agents in the stream of Copilot: which run a line belongs to, and what it did.

A child's lines carry its `agentId`. Its run is named after the call that spawned it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from harness.events import Event, ToolEnd, ToolProgress, ToolStart, Unknown, Warning
from harness.sources.agents.copilot.tools import (
    SPAWNERS,
    meaning_of,
    output_of_result,
    told_by_result,
    verdict_of,
)
from harness.sources.formats.fields import count_of, first_text, items_of, record_of, text_of
from harness.sources.formats.live_output import continuation
from harness.sources.formats.plain_answer import PlainAnswer
from harness.sources.formats.subagents import Subagents
from harness.sources.formats.toolset import Call, unannounced
from harness.sources.translator import Record


class CopilotCalls(PlainAnswer):
    rules: ClassVar[dict[str, str]] = {
        "session.skills_loaded": "_skills_loaded",
        "skill.invoked": "_skill_invoked",
        "subagent.completed": "_child_ended",
        "subagent.configured": "",
        "subagent.deselected": "",
        "subagent.failed": "_child_ended",
        "subagent.selected": "",
        "subagent.started": "_child_began",
        "tool.execution_complete": "_tool_end",
        "tool.execution_partial_result": "_tool_partial",
        "tool.execution_progress": "_tool_progress",
        "tool.execution_start": "_tool_start",
        "tool.shell_output": "_tool_output",
        "tool.user_requested": "",
    }

    def __init__(self) -> None:
        super().__init__()
        self._children = Subagents("copilot")
        self._calls: dict[str, Call] = {}
        self._agents: dict[str, str] = {}
        """Spawning call → the agent's id."""
        self._shown: dict[str, str | None] = {}
        """Call → what it had written when that was last told; None where it is told piece by piece."""
        self._skills: dict[str, str] = {}
        """Name → where it lies."""

    def _run_of(self, record: Record, out: list[Event]) -> str:
        """The run that a line belongs to; a child's first line begins it."""
        agent_id = record.get("agentId")
        if not isinstance(agent_id, str) or not agent_id:
            return ""
        call_id = self._children.call_of_task(agent_id)
        child = self._children.find(call_id) if call_id else None
        if child is None:
            call_id = call_id or text_of(record_of(record.get("data")).get("parentToolCallId")) or agent_id
            out.extend(self._begin_child(call_id, agent_id))
            child = self._children.find(call_id)
        return child.run_id if child is not None else ""

    def _begin_child(self, call_id: str, agent_id: str, name: str = "") -> list[Event]:
        call = self._calls.get(call_id)
        asked = call.input if call is not None else {}
        self._agents[call_id] = agent_id
        return self._children.begin(
            call_id,
            name=name or first_text(asked, "agent_type", "name"),
            prompt=text_of(asked.get("prompt")),
            task_id=agent_id,
            cwd=self.working_directory,
        )

    def _skills_loaded(self, record: Record) -> Sequence[Event]:
        for item in items_of(record_of(record.get("data")).get("skills")):
            skill = record_of(item)
            if path := text_of(skill.get("path")):
                self._skills[text_of(skill.get("name"))] = path
        return ()

    def _skill_invoked(self, record: Record) -> Sequence[Event]:
        data = record_of(record.get("data"))
        if path := text_of(data.get("path")):
            self._skills[text_of(data.get("name"))] = path
        return ()

    def _child_began(self, record: Record) -> Sequence[Event]:
        data = record_of(record.get("data"))
        call_id, agent_id = text_of(data.get("toolCallId")), text_of(record.get("agentId"))
        if not call_id and not agent_id:
            return [Unknown(raw=record)]
        return self._begin_child(call_id or agent_id, agent_id, text_of(data.get("agentName")))

    def _child_ended(self, record: Record) -> Sequence[Event]:
        data = record_of(record.get("data"))
        agent_id = text_of(record.get("agentId"))
        call_id = self._children.call_of_task(agent_id) or text_of(data.get("toolCallId")) or agent_id
        status = "failed" if self.rule == "subagent.failed" else "completed"
        child = self._children.find(call_id)
        if child is not None:
            self._calls = {key: call for key, call in self._calls.items() if call.run_id != child.run_id}
        return self._children.end(
            call_id, status, text_of(data.get("error")), count_of(data.get("durationMs"))
        )

    def _tool_start(self, record: Record) -> Sequence[Event]:
        data, out = record_of(record.get("data")), list[Event]()
        call_id, name = text_of(data.get("toolCallId")), text_of(data.get("toolName"))
        if not call_id:
            return [Unknown(raw=record)]
        asked, run_id = data.get("arguments"), self._run_of(record, out)
        operations = meaning_of(name, asked, self.working_directory)
        self._calls[call_id] = Call(
            call_id, name, record_of(asked), run_id, self.working_directory, operations or []
        )
        out.append(
            ToolStart(
                call_id=call_id,
                tool_name=name or "unknown",
                input=asked,
                operations=operations or [],
                raw=data if operations is None else None,
                run_id=run_id,
            )
        )
        return out

    def _tool_output(self, record: Record) -> Sequence[Event]:
        data = record_of(record.get("data"))
        call, text = self._calls.get(text_of(data.get("toolCallId"))), text_of(data.get("text"))
        if call is None or not text:
            return ()
        self._shown[call.id] = None
        return [ToolProgress(call_id=call.id, text=text, run_id=call.run_id)]

    def _tool_partial(self, record: Record) -> Sequence[Event]:
        """All output so far, again and again. Commands tell it piece by piece as well."""
        data = record_of(record.get("data"))
        call, text = self._calls.get(text_of(data.get("toolCallId"))), text_of(data.get("partialOutput"))
        known = self._shown.get(call.id, "") if call is not None else None
        if call is None or known is None:
            return ()
        new = continuation(known, text)
        self._shown[call.id] = text
        return [ToolProgress(call_id=call.id, text=new, run_id=call.run_id)] if new else ()

    def _tool_progress(self, record: Record) -> Sequence[Event]:
        data = record_of(record.get("data"))
        call, text = self._calls.get(text_of(data.get("toolCallId"))), text_of(data.get("progressMessage"))
        return [ToolProgress(call_id=call.id, text=text, run_id=call.run_id)] if call is not None else ()

    def _tool_end(self, record: Record) -> Sequence[Event]:
        data, out = record_of(record.get("data")), list[Event]()
        call_id = text_of(data.get("toolCallId"))
        call = self._calls.pop(call_id, None)
        if call is None:
            return [unannounced(record)]
        self._shown.pop(call_id, None)
        output = output_of_result(data)
        is_success, exit_code = verdict_of(call, data, output)
        agent_id = self._agents.get(call_id, "") if call.name in SPAWNERS else ""
        if record_of(data.get("error")).get("code") == "denied":
            message = f"permission denied: {call.name}: {output}"
            out.append(Warning(message=message, code="permission_denied", run_id=call.run_id))
        out.append(
            ToolEnd(
                call_id=call_id,
                tool_name=call.name or "unknown",
                success=is_success,
                output=output,
                exit_code=exit_code,
                operations=told_by_result(call, data, self._skills, agent_id),
                run_id=call.run_id,
            )
        )
        return out
