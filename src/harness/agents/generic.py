"""Any other program: `--agent generic --binary NAME`. Best effort: every line becomes an event as it comes.

The program gets the arguments of the request and the prompt as its last one; its stdin is closed. What
it writes to stdout is unknown, live, as a JSON value or as text; stderr is warnings. Lines that begin like
a compiler's (`error: …`, `warning: …`) are errors and warnings. Its outcome is its exit code.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from harness.contracts.agent import Agent, CommandLine, Version
from harness.contracts.request import Request
from harness.contracts.translator import Record, Translator
from harness.events import Error, Event, Unknown, Warning
from harness.formats.fields import decoded

_DIAGNOSTIC = re.compile(
    r"\[?(fatal error|fatal|error|err|warning|warn)\b\]?(?:\[\w+\]|\([^)\n]*\))?\s*:\s*(.+)", re.IGNORECASE
)
_WARNINGS = frozenset({"warning", "warn"})


def command(request: Request, version: Version) -> CommandLine:
    del version
    prompt = (request.prompt,) if request.prompt else ()
    return CommandLine(args=(*request.extra_args, *prompt))


class GenericTranslator(Translator):
    announces_start = announces_end = False

    def record(self, record: Record) -> Sequence[Event]:
        self.rule = "unknown"
        return [Unknown(raw=record)]

    def text(self, line: str) -> Sequence[Event]:
        match = _DIAGNOSTIC.fullmatch(line)
        if match is not None:
            return self._diagnostic(match)
        self.rule = "unknown"
        value = decoded(line)
        return [Unknown(raw=line if value is None else value)]

    def stderr(self, line: str) -> Sequence[Event]:
        match = _DIAGNOSTIC.fullmatch(line)
        return super().stderr(line) if match is None else self._diagnostic(match)

    def _diagnostic(self, match: re.Match[str]) -> Sequence[Event]:
        self.rule = "diagnostic"
        notice = Warning if match[1].lower() in _WARNINGS else Error
        return [notice(message=match[2].strip(), code="diagnostic")]


AGENT = Agent(
    name="generic",
    title="Generic program",
    binaries=(),  # the caller has to name one
    command=command,
    translator=GenericTranslator,
    supports=frozenset({"agent-default"}),
    install="give its program with --binary",
    reveals={
        "deltas": "none",
        "reasoning": "none",
        "tools": "none: every line is kept as it is",
        "sub_agents": "none",
        "usage": "never",
        "cost": "never",
        "result": "by the exit code alone",
    },
)
