"""Continue: `cn --print --format json`, from 1.5 on. Best effort: it writes one object when it is done, and no events.

{"response": "…", "status": "success"}     what it said last
{"status": "error", "message": "…"}        on stderr, when it failed

An answer that is JSON itself is written as it is.
"""

# ruff: noqa: N999 (the file's name is the agent's, though Python has another use for the word)
from __future__ import annotations

from collections.abc import Sequence

import msgspec

from harness.events import Error, Event, Message, Result
from harness.sources.agent import Agent, CommandLine, Version
from harness.sources.formats.command_line import flags_of
from harness.sources.formats.error_messages import code_of, plain
from harness.sources.formats.fields import decoded, record_of, text_of
from harness.sources.formats.plain_answer import PlainAnswer
from harness.sources.request import Request
from harness.sources.translator import Record

_PERMISSIONS: dict[str, list[str]] = {
    "full-access": ["--auto"],
    "read-only": ["--readonly"],
    "agent-default": [],
}
_FLAGS = {"append_system_prompt": "--rule", "continue_last": "--resume"}


def command(request: Request, version: Version) -> CommandLine:
    """The prompt is an argument: stdin is not read everywhere."""
    del version
    args = ["--print", "--format", "json", *_PERMISSIONS[request.permissions]]
    args += flags_of(request, _FLAGS)
    return CommandLine(args=(*args, *request.extra_args, "--", request.prompt))


class ContinueTranslator(PlainAnswer):
    announces_start = False

    def record(self, record: Record) -> Sequence[Event]:
        released = self._release()
        self._has_records = True
        self.rule = "answer"
        answer = record.get("response")
        if record.get("status") == "error":
            return [*released, *self._failure(record)]
        text = answer if isinstance(answer, str) else msgspec.json.encode(record).decode()
        structured = None if isinstance(answer, str) else record
        return [
            *released,
            Message(role="assistant", text=text),
            Result(success=True, text=text, structured=structured),
        ]

    def stderr(self, line: str) -> Sequence[Event]:
        data = record_of(decoded(line)) if line.startswith("{") else {}
        if data.get("status") != "error":
            return super().stderr(line)
        self.rule = "error"
        return self._failure(data)

    def _failure(self, data: Record) -> list[Event]:
        message = plain(text_of(data.get("message"))) or "Continue reports an error without a word"
        return [
            Error(message=message, code=code_of(message, "error")),
            Result(success=False, outcome="failed"),
        ]


AGENT = Agent(
    name="continue",
    title="Continue",
    aliases=("cn", "continue-cn"),
    binaries=("cn",),
    command=command,
    translator=ContinueTranslator,
    supports=frozenset({"agent-default", "read-only", *_FLAGS}),
    key_variables=("CONTINUE_API_KEY", "ANTHROPIC_API_KEY"),
    install="npm install -g @continuedev/cli",
    reveals={
        "deltas": "none: one answer at the end",
        "reasoning": "never",
        "tools": "never",
        "sub_agents": "never",
        "usage": "never",
        "cost": "never",
        "result": "the answer and whether it succeeded",
    },
)
