"""Tool calls of Claude's stream-json dialect: begun by a block of the answer, ended by a later line."""

from __future__ import annotations

import re
from typing import Any

from harness.events import Event, TasksChanged, ToolEnd, ToolStart
from harness.events.operation import Read
from harness.sources.formats.claude_tasks import TaskList
from harness.sources.formats.fields import count_of, first_text, record_of, text_of
from harness.sources.formats.outputs import output_of
from harness.sources.formats.paths import absolute
from harness.sources.formats.toolset import Call, Toolset, as_the_call, unannounced
from harness.sources.formats.working_directory import directory_after

_MOVED_BACK = re.compile(r"Shell cwd was reset to (.+)")
_INTERRUPTIONS = frozenset({"interrupted", "is_interrupted", "is_interruption"})
_LONGEST_NOTICE = 8192


class ToolCalls:
    """All calls of a run and of its children, by their ids."""

    def __init__(self, tools: Toolset) -> None:
        self.tools = tools
        self.open: dict[str, Call] = {}
        self._cwd = ""
        self._shell_cwd = ""
        self._tasks = TaskList()

    def settle_in(self, cwd: str) -> None:
        """A turn begins; its shell stands in the working directory."""
        if cwd != self._cwd:
            self._cwd = self._shell_cwd = cwd

    def start(self, block: dict[str, Any], run_id: str) -> ToolStart | None:
        """None: not a call that anybody could answer."""
        call_id, name, asked = text_of(block.get("id")), text_of(block.get("name")), block.get("input")
        if not call_id:
            return None
        cwd = self._shell_cwd if name in self.tools.shells and not run_id else self._cwd
        operations = self.tools.meaning_of(name, asked, cwd)
        self.open[call_id] = Call(call_id, name, record_of(asked), run_id, cwd, operations or [])
        return ToolStart(
            call_id=call_id,
            tool_name=name or "unknown",
            input=asked,
            operations=operations or [],
            raw=block if operations is None else None,
            run_id=run_id,
        )

    def end(self, block: dict[str, Any], detail: Any, run_id: str) -> list[Event]:
        """A result, and what the record says of it besides (`detail`)."""
        output, told = output_of(block.get("content")), record_of(detail)
        went_well = _is_success(block, told)
        call = self.open.pop(text_of(block.get("tool_use_id")), None)
        if call is None:
            return self._unannounced(block, told, run_id, is_success=went_well)
        is_shell = call.name in self.tools.shells
        verdict = self.tools.verdict if is_shell else as_the_call
        is_success, exit_code = verdict(call, detail, output, went_well)
        out: list[Event] = [
            ToolEnd(
                call_id=call.id,
                tool_name=call.name or "unknown",
                success=is_success,
                output=output,
                exit_code=exit_code,
                duration_ms=_duration_ms(told),
                operations=None if is_success is False else self.tools.told_by_result(call, detail, output),
                run_id=call.run_id,
            )
        ]
        if is_success is not False:
            self._follow_shell(call, told, output)
            tasks = self._tasks.after(call, detail)
            if tasks is not None:
                out.append(TasksChanged(tasks=tasks, run_id=call.run_id))
        return out

    def forget(self, run_id: str) -> list[Call]:
        """A child has ended, and with it what it had left open."""
        left = [call for call in self.open.values() if call.run_id == run_id]
        for call in left:
            del self.open[call.id]
        return left

    def _follow_shell(self, call: Call, detail: dict[str, Any], output: str) -> None:
        """The shell of the main agent stays where a command went; that of a sub-agent never does."""
        is_shell = self.tools.keeps_directory and call.name in self.tools.shells
        if not is_shell or call.run_id or detail.get("backgroundTaskId"):
            return
        self._shell_cwd = directory_after(first_text(call.input, "command", "cmd"), call.cwd)
        back = _MOVED_BACK.search(_last_line(text_of(detail.get("stderr")))) or _MOVED_BACK.search(
            _last_line(output)
        )
        if back is not None:
            self._shell_cwd = back[1].strip()

    def _unannounced(
        self, block: dict[str, Any], detail: dict[str, Any], run_id: str, *, is_success: bool
    ) -> list[Event]:
        """A read still tells what was read; of another call nobody knows what it was."""
        file = record_of(detail.get("file"))
        call_id, path = text_of(block.get("tool_use_id")), first_text(file, "filePath", "file_path", "path")
        if not call_id or not path:
            return [unannounced(block, run_id)]
        asked = Call(call_id, "Read", {}, run_id, self._cwd, [Read(path=absolute(path, self._cwd))])
        operations = self.tools.told_by_result(asked, detail, "") or asked.operations
        output = output_of(block.get("content"))
        return [
            ToolStart(call_id=call_id, tool_name="Read", operations=operations, run_id=run_id),
            ToolEnd(call_id=call_id, tool_name="Read", success=is_success, output=output, run_id=run_id),
        ]


def _last_line(text: str) -> str:
    """Or the end of it, if it is longer than any notice."""
    tail = text[-_LONGEST_NOTICE:].rstrip()
    return tail[tail.rfind("\n") + 1 :]


def _is_success(block: dict[str, Any], detail: dict[str, Any]) -> bool:
    if block.get("is_error") is True:
        return False
    for told in (block, detail):
        for name in _INTERRUPTIONS & told.keys():
            if told[name] is True:
                return False
    return True


def _duration_ms(detail: dict[str, Any]) -> int | None:
    duration = count_of(detail.get("durationMs"))
    return duration if duration is not None else count_of(detail.get("totalDurationMs"))
