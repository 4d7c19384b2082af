"""Factory Droid over ACP: `droid exec --output-format acp`, from 0.225 on.

Tools have no names here: their arguments say which they are. Texts come whole. One question may be for several calls,
of which it shows the last; a refused call ends the turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from harness.events import Event
from harness.events.run import Task
from harness.sources.agent import CommandLine, Version
from harness.sources.agents.droid.tools import DROID, TODO_LISTS, exit_code_of, todo_list_of
from harness.sources.drivers.acp import AcpProgram
from harness.sources.formats.acp import AcpTranslator, CallEnd
from harness.sources.formats.acp_calls import ENDS, AcpCall, named_by_input
from harness.sources.formats.fields import decoded, output_of, record_of, text_of
from harness.sources.formats.toolset import PendingCall, Toolset, flags_of
from harness.sources.request import Request
from harness.sources.translator import Record

_ARGUMENTS: dict[str, tuple[str, ...]] = {
    "Execute": ("command",),
    "Task": ("subagent_type", "prompt"),
    "TodoWrite": ("todos",),
    "Edit": ("file_path", "old_str"),
    "MultiEdit": ("file_path", "changes"),
    "Create": ("file_path", "content"),
    "Read": ("file_path",),
    "LS": ("directory_path",),
    "Grep": ("pattern",),
    "Glob": ("patterns",),
    "ApplyPatch": ("input",),
    "Skill": ("skill",),
    "FetchUrl": ("url",),
    "WebSearch": ("query",),
    "AskUser": ("questionnaire",),
}
"""Tool → the arguments that only it has, or the ones before it do not."""


class DroidAcp(AcpTranslator):
    agent = "droid"
    tools: ClassVar[Toolset] = DROID

    @staticmethod
    def name_of(call: AcpCall) -> str:
        return named_by_input(_ARGUMENTS, call.input) or call.kind or call.title

    def _text(self, record: Record) -> Sequence[Event]:
        """Every text is a whole message."""
        params = record_of(record.get("params"))
        return [*super()._text(record), *self.flush(self.run_of(params, record_of(params.get("update"))))]

    def end_of(self, call: AcpCall, pending: PendingCall) -> CallEnd:
        """Of a command that ran there is a terminal, whose output only an editor sees."""
        is_success = ENDS.get(call.status)
        said: Any = text_of(record_of(call.output).get("text")) or call.output
        output = call.text or output_of(said)
        has_output = bool(output) or pending.name != "Execute"
        detail = decoded(output) if output.startswith("{") else {}
        return CallEnd(
            is_success,
            output if has_output else None,
            exit_code_of(pending.name, output, is_success=is_success),
            DROID.operations_after(pending, detail, output) if is_success else None,
        )

    def tasks_after(self, call: AcpCall, pending: PendingCall) -> list[Task] | None:
        del call
        return todo_list_of(pending.input) if pending.name in TODO_LISTS else None


PROGRAM = AcpProgram(
    translator=DroidAcp,
    capabilities=frozenset({"approve", "files", "mode", "model"}),
    modes={"ask": "normal", "read-only": "normal"},
    auth_method="factory-api-key",
    ends_turn_on_reject=True,
)


def acp_command(request: Request, version: Version) -> CommandLine:
    del version
    args = ["exec", "--output-format", "acp"]
    if request.permissions == "full-access":
        args.append("--skip-permissions-unsafe")
    return CommandLine(args=(*args, *flags_of(request, {"model": "--model"}), *request.extra_args))


TWO_WAY = PROGRAM.two_way(acp_command, since=(0, 225))
