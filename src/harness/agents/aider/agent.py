"""Aider: `aider --no-pretty --message-file`, from 0.80 on. Best effort: it writes text for people, no records.

Aider v0.86.2, Main model: …   what it is
(lines of text)                the model's answer
Tokens: … Cost: …              the answer is complete; what it used, rounded
Applied edit to …              a file was changed
litellm.SomeError: …           the model could not be asked; the exit code is 0 all the same
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import ClassVar

import msgspec

from harness.contracts.agent import Agent, CommandLine, Version
from harness.contracts.command_line import flags_of
from harness.contracts.request import Request
from harness.contracts.translator import Ending, Record, Translator
from harness.events import (
    Error,
    Event,
    Info,
    Message,
    Result,
    SessionStart,
    ToolEnd,
    ToolStart,
    Usage,
    UsageDelta,
    Warning,
)
from harness.events.operation import Operation, Write
from harness.formats.fields import absolute, besides

_PERMISSIONS: dict[str, list[str]] = {
    "full-access": ["--yes-always"],
    "read-only": ["--yes-always", "--chat-mode", "ask"],
    "agent-default": [],
}
_FLAGS = {"model": "--model", "continue_last": "--restore-chat-history"}
_FACTORS = {"": 1, "k": 1_000, "M": 1_000_000}
_COUNT = re.compile(r"([\d.,]+)([kM]?) (sent|received|cache write|cache hit)")
_COST = re.compile(r"Cost: \$([\d.]+) message")


def command(request: Request, version: Version) -> CommandLine:
    """The prompt goes through stdin, as a file."""
    del version
    args = ["--no-pretty", "--no-check-update", "--no-show-release-notes", *_PERMISSIONS[request.permissions]]
    return CommandLine(
        args=(*args, *flags_of(request, _FLAGS), *request.extra_args, "--message-file", "/dev/stdin"),
        stdin=request.prompt_bytes,
    )


class AiderTranslator(Translator):
    keeps_layout = True
    lines: ClassVar[tuple[tuple[re.Pattern[str], str], ...]] = tuple(
        (re.compile(pattern), method)
        for pattern, method in (
            (r"Aider v(\S+)$", "_banner"),
            (r"(?:Main model|Model): (\S+) with .*", "_model"),
            (r"Tokens: .* sent.*", "_tokens"),
            (r"Applied edit to (.+)", "_edit"),
            (r"litellm\.(?:\w+\.)?(\w+): (.*)", "_failure"),
            (r"(Only \d+ reflections allowed, stopping\.)", "_gave_up"),
            (r"(Retrying in .* seconds\.\.\.)", "_retry"),
            (r"(Commit [0-9a-f]{7,} .*|Added .+ to the chat\.?|.*\(Y\)es/\(N\)o.*)", "_remark"),
            (
                r"((?:Weak model|Editor model|Git repo|Repo-map|Restored previous|https://aider\.chat/).*)",
                "_remark",
            ),
        )
    )

    def __init__(self) -> None:
        super().__init__()
        self._answer: list[str] = []
        self._edits = 0
        self._version = ""
        self._is_ready = False
        """Whether its own introduction is over."""
        self._has_answered = False
        self._has_failed = False

    def record(self, record: Record) -> Sequence[Event]:
        return self.text(msgspec.json.encode(record).decode())

    def text(self, line: str) -> Sequence[Event]:
        for pattern, name in self.lines:
            match = pattern.fullmatch(line)
            if match is not None:
                self.rule = name.removeprefix("_")
                method: Callable[[re.Match[str]], Sequence[Event]] = getattr(self, name)
                return method(match)
        if not self._is_ready:
            self.rule = "startup"
            return [Info(message=line, code="startup")] if line.strip() else ()
        self.rule = "answer"
        self._answer.append(line)
        return ()

    def stderr(self, line: str) -> Sequence[Event]:
        if line.startswith("Warning: Input is not a terminal"):
            self.rule = "no terminal"
            return ()
        return super().stderr(line)

    def finish(self, ending: Ending) -> Sequence[Event]:
        out = self._flush(is_answer=not self._has_answered and not self._has_failed)
        if self._has_failed:
            return [*out, Result(success=False, outcome="failed")]
        return [*out, Result(success=True)] if self._has_answered and ending.exit_code == 0 else out

    def _flush(self, *, is_answer: bool) -> list[Event]:
        text, self._answer = "\n".join(self._answer).strip("\n"), []
        if not text.strip():
            return []
        self._has_answered = self._has_answered or is_answer
        return [Message(role="assistant", text=text) if is_answer else Info(message=text, code="remark")]

    def _banner(self, match: re.Match[str]) -> Sequence[Event]:
        self._version = match[1]
        return ()

    def _model(self, match: re.Match[str]) -> Sequence[Event]:
        self._is_ready = True
        return [SessionStart(agent="aider", model=match[1], version=self._version)]

    def _tokens(self, match: re.Match[str]) -> Sequence[Event]:
        self._has_failed = False
        self.turns = (self.turns or 0) + 1
        return [*self._flush(is_answer=True), UsageDelta(usage=_usage_of(match[0]))]

    def _edit(self, match: re.Match[str]) -> Sequence[Event]:
        self._edits += 1
        call_id = f"edit-{self._edits}"
        path = absolute(match[1].strip(), self.working_directory)
        operations: list[Operation] = [Write(path=path)]
        return [
            ToolStart(call_id=call_id, tool_name="edit", operations=operations),
            ToolEnd(call_id=call_id, tool_name="edit", success=True),
        ]

    def _failure(self, match: re.Match[str]) -> Sequence[Event]:
        self._has_failed = True
        return [*self._flush(is_answer=False), Error(message=match[2] or match[1], code=match[1])]

    def _gave_up(self, match: re.Match[str]) -> Sequence[Event]:
        self._has_failed = True
        return [*self._flush(is_answer=False), Error(message=match[1], code="max_reflections")]

    def _retry(self, match: re.Match[str]) -> Sequence[Event]:
        self._has_failed = False
        return [Warning(message=match[1], code="retry")]

    def _remark(self, match: re.Match[str]) -> Sequence[Event]:
        return [Info(message=match[1].strip(), code="remark")]


def _usage_of(line: str) -> Usage:
    """Sent tokens include those of the cache. All are rounded beyond a thousand."""
    counts = {
        name: round(float(number.replace(",", "").strip(".") or 0) * _FACTORS[unit])
        for number, unit, name in _COUNT.findall(line)
        if number.count(".") < 2
    }
    hit, cache_write, input_tokens = counts.get("cache hit"), counts.get("cache write"), counts.get("sent")
    cost = _COST.search(line)
    cost_usd = float(cost[1].strip(".") or 0) if cost is not None and cost[1].count(".") < 2 else None
    return Usage(
        input=besides(input_tokens, hit, cache_write),
        output=counts.get("received"),
        cache_read=hit,
        cache_write=cache_write,
        cost_usd=cost_usd,
        cost_source="" if cost_usd is None else "stated",
    )


AGENT = Agent(
    name="aider",
    title="Aider",
    binaries=("aider",),
    homes=("~/.aider",),
    command=command,
    translator=AiderTranslator,
    supports=frozenset({"agent-default", "read-only", *_FLAGS}),
    key_variables=(
        "ANTHROPIC_API_KEY",
        "OPENAI_API_KEY",
        "GEMINI_API_KEY",
        "OPENROUTER_API_KEY",
        "DEEPSEEK_API_KEY",
    ),
    install="python -m pip install aider-install && aider-install",
    reveals={
        "deltas": "none: answers come whole",
        "reasoning": "not separate from the answer",
        "tools": "changed files, without lines; Aider has no other tools",
        "sub_agents": "none: Aider has none",
        "usage": "per model call, rounded to hundreds beyond a thousand",
        "cost": "stated per model call, where it knows the model's price",
        "result": "never stated: concluded from errors in the text; the exit code is 0 on failures too",
    },
)
