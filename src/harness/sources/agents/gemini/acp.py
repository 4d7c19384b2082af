"""Gemini CLI over ACP: `gemini --acp`, from 0.61 on.

The input of a call is never shown: it is concluded from the call's id, which begins with the name of the tool, its
title and its places. Results of commands are not shown either. A session can be loaded from the next minute on: until
then its file has the same name as that of the process which loads it. A call that is asked about is announced by the question
alone, and one that was refused is not heard of again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, ClassVar

from harness.events import Event, Usage, UsageDelta
from harness.sources.agent import CommandLine, Version
from harness.sources.drivers.acp import AcpProgram
from harness.sources.formats.acp import AcpTranslator, CallEnd
from harness.sources.formats.acp_calls import ENDS, AcpCall, written
from harness.sources.formats.fields import count_of, items_of, record_of, text_of
from harness.sources.formats.gemini_tools import GEMINI
from harness.sources.formats.toolset import PendingCall, Toolset, flags_of
from harness.sources.request import Request
from harness.sources.translator import Record

_MODE_UPDATE = "[MODE_UPDATE] "
"""What it says in the place of the model when its mode was set."""
_TITLES: dict[str, str] = {
    "run_shell_command": "command",
    "google_web_search": "query",
    "web_fetch": "prompt",
    "activate_skill": "name",
}
"""Tools whose title is the value of this argument."""
_SEARCHES = frozenset({"glob", "grep_search", "search_file_content"})
_QUERY = re.compile(r"'(.*?)'(?: (?:in \S+ )?within (.*))?(?: .*)?", re.DOTALL)
_AGENT = re.compile(r"Delegating to agent '(.*)'")


class GeminiAcp(AcpTranslator):
    agent = "gemini"
    tools: ClassVar[Toolset] = GEMINI
    repeats_history_late = True
    noise = re.compile(r"Ripgrep is not available\..*|\[STARTUP\] .*|Loaded cached credentials\.")

    @staticmethod
    def name_of(call: AcpCall) -> str:
        name, mark, _ = call.id.partition("__")
        return name if mark else call.kind

    @staticmethod
    def input_of(call: AcpCall) -> Any:
        name, title = GeminiAcp.name_of(call), call.title
        if name in _TITLES:
            return {_TITLES[name]: title}
        if name in _SEARCHES:
            found = _QUERY.fullmatch(title)
            return {"pattern": title} if found is None else {"pattern": found[1], "path": found[2] or ""}
        if (agent := _AGENT.fullmatch(title)) is not None:
            return {"agent_name": agent[1]}
        if call.path:
            return {"file_path": call.path}
        return {"path": title} if name in ("read_file", "list_directory") else {"title": title}

    def end_of(self, call: AcpCall, pending: PendingCall) -> CallEnd:
        """Commands show no output, and are completed whatever became of them."""
        is_success, output = ENDS.get(call.status), call.text
        if is_success and pending.name in GEMINI.shells:
            is_success = None
        operations = written(call, pending.operations, pending.cwd) if is_success else None
        return CallEnd(is_success, output, operations=operations)

    def _text(self, record: Record) -> Sequence[Event]:
        content = record_of(record_of(record_of(record.get("params")).get("update")).get("content"))
        if text_of(content.get("text")).startswith(_MODE_UPDATE):
            self.rule = "mode"
            return ()
        return super()._text(record)

    def used(self, answer: Record) -> list[Event]:
        quota = record_of(record_of(answer.get("_meta")).get("quota"))
        out: list[Event] = []
        for item in map(record_of, items_of(quota.get("model_usage"))):
            counted = record_of(item.get("token_count"))
            prompt, output = (count_of(counted.get(f"{key}_tokens")) for key in ("input", "output"))
            if prompt or output:
                usage = Usage(input=prompt, output=output)
                out.append(UsageDelta(usage=usage, model=text_of(item.get("model"))))
        return out


PROGRAM = AcpProgram(
    translator=GeminiAcp,
    capabilities=frozenset({"approve", "files", "mode", "model"}),
    modes={"full-access": "yolo", "ask": "default", "read-only": "plan"},
    auth_method="gemini-api-key",
)


def acp_command(request: Request, version: Version) -> CommandLine:
    """No mode holds in a folder that is not trusted. It starts itself once more unless it is asked not to."""
    del version
    mode = PROGRAM.modes.get(request.permissions)
    args = ["--acp", *(("--approval-mode", mode) if mode else ()), *flags_of(request, {"model": "--model"})]
    trust = {"GEMINI_CLI_TRUST_WORKSPACE": "true"} if mode else {}
    return CommandLine(args=(*args, *request.extra_args), env={"GEMINI_CLI_NO_RELAUNCH": "true", **trust})


TWO_WAY = PROGRAM.two_way(acp_command, since=(0, 61))
