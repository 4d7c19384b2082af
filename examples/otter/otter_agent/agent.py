"""Otter: `otter --json`, one record a line: hello, say, call, result, bye. With `--talk` it is held in a conversation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from harness.contracts.agent import Agent, CommandLine, TwoWay, Version
from harness.contracts.command_line import flags_of
from harness.contracts.request import Request
from harness.contracts.toolset import PendingCall, Toolset, reading, running, unmatched_result
from harness.contracts.translator import Record, Translator
from harness.events import Event, Message, Result, SessionStart, ToolEnd, Usage
from harness.formats.fields import count_of, record_of, text_of
from otter_agent.driver import CAPABILITIES, OtterDriver

_FLAGS = {"model": "--model", "resume": "--session"}
OTTER = Toolset(tools={"sh": running("command"), "read": reading("path")})


def command(request: Request, version: Version) -> CommandLine:
    del version
    args = ("--json", *flags_of(request, _FLAGS), *request.extra_args)
    return CommandLine(args=args, stdin=request.prompt_bytes)


def conversation_command(request: Request, version: Version) -> CommandLine:
    del version
    asking = ("--ask",) if request.permissions == "ask" else ()
    return CommandLine(args=("--json", "--talk", *asking, *flags_of(request, _FLAGS), *request.extra_args))


class OtterTranslator(Translator):
    rules: ClassVar[dict[str, str]] = {
        "hello": "_hello",
        "say": "_say",
        "call": "_call",
        "ask": "",  # the driver's
        "result": "_result",
        "bye": "_bye",
    }

    def __init__(self) -> None:
        super().__init__()
        self._calls: dict[str, PendingCall] = {}

    def kind(self, record: Record) -> str:
        return text_of(record.get("kind"))

    def _hello(self, record: Record) -> Sequence[Event]:
        model, session = text_of(record.get("model")), text_of(record.get("session"))
        return [SessionStart(agent="otter", session_id=session, model=model)]

    def _say(self, record: Record) -> Sequence[Event]:
        return [Message(role="assistant", text=text_of(record.get("text")))]

    def _call(self, record: Record) -> Sequence[Event]:
        call_id, name = text_of(record.get("id")), text_of(record.get("tool"))
        call, start = OTTER.start(call_id, name, record.get("input"), self.working_directory, record)
        self._calls[call_id] = call
        return [start]

    def _result(self, record: Record) -> Sequence[Event]:
        call = self._calls.pop(text_of(record.get("id")), None)
        if call is None:
            return [unmatched_result(record)]
        is_success, output = record.get("ok") is True, text_of(record.get("output"))
        return [ToolEnd(call_id=call.id, tool_name=call.name, success=is_success, output=output)]

    def _bye(self, record: Record) -> Sequence[Event]:
        tokens = record_of(record.get("tokens"))
        usage = Usage(input=count_of(tokens.get("in")), output=count_of(tokens.get("out")))
        return [Result(success=record.get("ok") is not False, usage=usage or None)]


AGENT = Agent(
    name="otter",
    title="Otter",
    binaries=("otter",),
    command=command,
    translator=OtterTranslator,
    supports=frozenset({*_FLAGS, "agent-default"}),
    two_way=TwoWay(
        command=conversation_command,
        driver=OtterDriver,
        translator=OtterTranslator,
        capabilities=CAPABILITIES,
        tools=OTTER,
    ),
    homes=("~/.otter/",),
    install="pip install otter-agent",
    reveals={"deltas": "none: messages come whole", "tools": "every call and result"},
)
