"""Cline over ACP: `cline --acp`, from 3.0.65 on.

The title of a call begins with the name of its tool. A call that was refused fails twice, the second time with the
words for it. A sub-agent's words and calls come without a mark, and its calls are not asked about.
"""

from __future__ import annotations

import re
from typing import ClassVar

from harness.sources.agent import CommandLine, Version
from harness.sources.agents.cline.tools import (
    CLINE,
    exit_code_of,
    operations_after,
    success_of,
    text_of_output,
)
from harness.sources.drivers.acp import AcpProgram
from harness.sources.formats.acp import AcpTranslator, CallEnd
from harness.sources.formats.acp_calls import ENDS, AcpCall
from harness.sources.formats.fields import arguments_of, record_of, text_of
from harness.sources.formats.toolset import PendingCall, Toolset
from harness.sources.request import Request

_NO_DAEMON = {
    # Otherwise a daemon that outlives the run does the work, and is shared with other runs.
    "CLINE_SESSION_BACKEND_MODE": "local",
    "CLINE_NO_AUTO_UPDATE": "1",
}


class ClineAcp(AcpTranslator):
    agent = "cline"
    tools: ClassVar[Toolset] = CLINE
    shares_stream = True
    noise = re.compile(
        r"\[acp\] starting ACP mode .*|(?:Deprecation)?(?:Warning: )?AI SDK Warning.*|at \S+ \(.*\)"
    )

    @staticmethod
    def name_of(call: AcpCall) -> str:
        return call.title.partition(":")[0]

    def has_result(self, call: AcpCall) -> bool:
        return call.has_ended and (call.output is not None or call.status == "completed")

    def end_of(self, call: AcpCall, pending: PendingCall) -> CallEnd:
        output = arguments_of(call.output)
        is_success = success_of({"output": output})
        if is_success is None:
            is_success = ENDS.get(call.status)
        operations = operations_after(pending, output) if is_success else None
        return CallEnd(is_success, text_of_output(output), exit_code_of(pending, output), operations)

    def child_answer(self, call: AcpCall, end: CallEnd) -> tuple[str, str]:
        said = text_of(record_of(arguments_of(call.output)).get("text"))
        return super().child_answer(call, end)[0], said or end.output or ""


PROGRAM = AcpProgram(
    translator=ClineAcp,
    capabilities=frozenset({"approve", "files", "mode", "model"}),
    modes={"full-access": "act", "ask": "act", "read-only": "plan"},
    sets_model=True,
)


def acp_command(request: Request, version: Version) -> CommandLine:
    del version
    return CommandLine(args=("--acp", *request.extra_args), env=dict(_NO_DAEMON))


TWO_WAY = PROGRAM.two_way(acp_command, since=(3, 0, 65))
