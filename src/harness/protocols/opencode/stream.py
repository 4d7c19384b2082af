"""The JSON stream of OpenCode (`opencode run --format json`), which its relatives share.

step_start   a model call begins
reasoning    what the model thought, whole (only with `--thinking`)
text         what it said, whole; or what the agent itself put into the conversation (`synthetic`)
tool_use     a call that has ended, with everything about it
step_finish  a model call has ended: why, tokens, cost
error        something failed; more work may follow
done         the session rests (newer versions)

Each line is `{type, timestamp, sessionID, part}`. Older and flatter forms, without `part`, are
read likewise. No record says how the run ended: it is concluded from the last one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec

from harness.contracts.agent import CommandLine
from harness.contracts.command_line import flags_of
from harness.contracts.request import Request
from harness.contracts.translator import Ending, Record, Translator
from harness.events import (
    Compacted,
    Error,
    Event,
    Message,
    Outcome,
    ReasoningDelta,
    Result,
    SessionStart,
    Unknown,
    Usage,
    UsageDelta,
    Warning,
)
from harness.formats.fields import amount_of, count_of, decoded, first_text, record_of, text_of
from harness.protocols.opencode.tools import OpenCodeCalls

_SESSION_KEYS = ("sessionID", "session_id", "sessionId")
_UNFINISHED = frozenset({"", "tool-calls", "unknown"})
"""Reasons after which the agent asks the model again; a run that ends with one was cut off."""
_CUT_ANSWERS = {
    "length": "the answer was cut off: the model reached its output limit",
    "content-filter": "the answer was cut off: the model's provider filtered it",
    "error": "the model's answer ended with an error",
}
_ERROR_CODES = {
    "run ended with an auto-rejected permission": "permission_denied",
    "run ended without an assistant message": "no_output",
}
"""Errors that come as mere sentences, by how these begin."""
_BANNERS = ("Performing one time database migration", "sqlite-migration:", "Database migration complete")
_ABORTED = "MessageAbortedError"
_REFUSED = Error(
    message="the agent stopped: it asked for a permission that nobody could give", code="permission_denied"
)
_SAID_NOTHING = Error(message="the model returned no output", code="no_output")


class OpencodeStream(Translator):
    """Inherit, and name the agent."""

    agent: ClassVar[str]
    rules: ClassVar[dict[str, str]] = {
        "step_start": "_step_start",
        "reasoning": "_reasoning",
        "text": "_text",
        "tool_use": "_tool_use",
        "step_finish": "_step_finish",
        "error": "_error",
        "done": "_done",
        # Forms of earlier versions.
        "session.start": "",
        "session.init": "",
        "init": "",
        "message": "_message",
        "assistant": "_message",
        "result": "_done",
        "complete": "_done",
    }

    def __init__(self) -> None:
        super().__init__()
        self._calls = OpenCodeCalls(self.agent)
        self._session_id = ""
        self._emitted_parts: set[tuple[str, int]] = set()
        self._emitted_errors: set[str] = set()
        """Lines of errors that stderr may repeat."""
        self._last_reason = ""
        """Why the last model call ended; "" while one is running."""
        self._last_error: Error | None = None
        """Unless something happened after it."""
        self._has_output = False
        self._announced: Result | None = None

    def record(self, record: Record) -> Sequence[Event]:
        session_id = record.get("sessionID")
        if session_id == self._session_id:
            return super().record(record)
        session_id = first_text(record, *_SESSION_KEYS)
        if not session_id or session_id == self._session_id:
            return super().record(record)
        self._session_id = session_id
        return [SessionStart(session_id=session_id, agent=self.agent), *super().record(record)]

    def stderr(self, line: str) -> Sequence[Event]:
        notice = line.removeprefix("! ").removeprefix("Error: ")
        if notice.startswith("permission requested: "):
            self.rule = "permission"
            return self._calls.refusal_notice(notice)
        if notice.startswith("network retry "):
            self.rule = "retry"
            return [Warning(message=notice, code="retry")]
        if notice.startswith(_BANNERS):
            self.rule = "banner"
            return []
        if notice in self._emitted_errors:
            self.rule = "repeated"
            return []
        return super().stderr(line)

    def child_run(self, session_id: str) -> str:
        """The run of the sub-agent that has this session; "" when no call has started one."""
        return self._calls.child_run(session_id)

    def finish(self, ending: Ending) -> Sequence[Event]:
        if self._announced is not None:
            return [self._announced]
        error = self._end_error()
        if error is None:
            is_open = self._last_reason in _UNFINISHED
            return [] if is_open else [Result(success=True, stop_reason=self._last_reason)]
        if ending.signal is not None or ending.outcome is not None:
            return []  # it was stopped: what it would have made of its failure is not known
        outcome: Outcome = "interrupted" if error.code == _ABORTED else "failed"
        if error is self._last_error:
            return [Result(success=False, outcome=outcome, stop_reason="error")]
        return [error, Result(success=False, outcome=outcome, stop_reason=self._last_reason)]

    def _end_error(self) -> Error | None:
        """Why the run failed, if it ends now. The exit code is 0 for most of these."""
        if self._last_error is not None:
            return self._last_error
        if self._calls.was_refused:
            return _REFUSED
        if (cut := _CUT_ANSWERS.get(self._last_reason)) is not None:
            return Error(message=cut, code=self._last_reason)
        is_over = self._last_reason not in _UNFINISHED
        return _SAID_NOTHING if is_over and not self._has_output else None

    def _continued(self) -> None:
        self._last_error = None
        self._last_reason = ""

    def _is_repeated(self, part: Record, content: int = 0) -> bool:
        """Whether this part was emitted before, with the same content."""
        part_id = text_of(part.get("id"))
        if not part_id:
            return False
        key = (part_id, content)
        if key in self._emitted_parts:
            self.rule = f"{self.rule}/repeated"
            return True
        self._emitted_parts.add(key)
        return False

    def _step_start(self, record: Record) -> Sequence[Event]:
        if not self._is_repeated(_part_of(record)):
            self.turns = (self.turns or 0) + 1
            self._continued()
            self._calls.was_refused = False
        return ()

    def _reasoning(self, record: Record) -> Sequence[Event]:
        part = _part_of(record)
        text = part.get("text")
        if not isinstance(text, str):
            return [Unknown(raw=record)]
        self._last_error = None
        if not text or self._is_repeated(part, hash(text)):
            return ()
        return (ReasoningDelta(id=text_of(part.get("id")), text=text),)

    def _text(self, record: Record) -> Sequence[Event]:
        part = _part_of(record)
        text = part.get("text")
        if not isinstance(text, str):
            return [Unknown(raw=record)]
        if self._is_repeated(part, hash(text)):
            return ()
        if part.get("synthetic") is True:
            return self._synthetic(part)
        self._last_error = None
        if not text:
            return ()
        self._has_output = True
        return (Message(role="assistant", text=text, id=text_of(part.get("id"))),)

    def _synthetic(self, part: Record) -> Sequence[Event]:
        """A prompt of the agent itself is no message of the user; but it shows what happened."""
        self.rule = "text/synthetic"
        self._continued()
        is_compaction = record_of(part.get("metadata")).get("compaction_continue") is True
        return (Compacted(trigger="auto"),) if is_compaction else ()

    def _message(self, record: Record) -> Sequence[Event]:
        """Earlier versions wrote whole messages, the prompt among them."""
        if record.get("role") == "user":
            self.rule = "message/user"
            return ()
        text = first_text(record, "content", "text")
        if not text:
            is_empty = record.get("content", record.get("text")) == ""
            return () if is_empty else [Unknown(raw=record)]
        self._has_output = True
        return [Message(role="assistant", text=text, id=text_of(record.get("id")))]

    def _tool_use(self, record: Record) -> Sequence[Event]:
        events = self._calls.feed(_part_of(record), self.working_directory)
        if events is None:
            return [Unknown(raw=record)]
        self._last_error = None
        self._has_output = True
        if not events:
            self.rule = "tool_use/repeated"
        return events

    def _step_finish(self, record: Record) -> Sequence[Event]:
        part = _part_of(record)
        if self._is_repeated(part):
            return ()
        self._last_error = None
        self._last_reason = text_of(part.get("reason"))
        usage = _usage_of(part)
        return (UsageDelta(usage=usage, id=text_of(part.get("id"))),) if usage else ()

    def _error(self, record: Record) -> Sequence[Event]:
        error = _error_of(record)
        self._last_error = error
        self._emitted_errors.update(error.message.split("\n"))
        return [error]

    def _done(self, record: Record) -> Sequence[Event]:
        """Newer versions only say that they rest, and older ones how they ended."""
        if "result" in record or "success" in record or record.get("type") != "done":
            is_success = record.get("success") is not False
            self._announced = Result(
                success=is_success,
                outcome="completed" if is_success else "failed",
                text=first_text(record, "result", "content", "text"),
            )
        return ()


def _part_of(record: Record) -> Record:
    part = record.get("part")
    return part if isinstance(part, dict) else record


def _usage_of(part: Record) -> Usage:
    tokens = record_of(part.get("tokens"))
    cache = record_of(tokens.get("cache"))
    input, output = count_of(tokens.get("input")), count_of(tokens.get("output"))
    cache_read, write = count_of(cache.get("read")), count_of(cache.get("write"))
    reasoning = count_of(tokens.get("reasoning"))
    if (
        reasoning
        and output
        and count_of(tokens.get("total")) == sum(filter(None, (input, output, cache_read, write)))
    ):
        output = max(0, output - reasoning)  # the total shows that reasoning was counted as output as well
    # Zero is also what it says of a model whose price it does not know.
    cost = amount_of(part.get("cost")) or None
    return Usage(
        input=input,
        output=output,
        cache_read=cache_read,
        cache_write=write,
        reasoning=reasoning,
        cost_usd=cost,
        cost_source="" if cost is None else "stated",
    )


def _error_of(record: Record) -> Error:
    error: Any = record.get("error")
    if not isinstance(error, dict):
        message = text_of(error) or text_of(record.get("message"))
        code = next((code for start, code in _ERROR_CODES.items() if message.startswith(start)), "")
        return Error(message=message or "unknown error", code=code or text_of(record.get("code")) or "error")
    data, name = record_of(error.get("data")), text_of(error.get("name"))
    message = first_text(data, "message") or first_text(error, "message") or name
    message = first_text(record_of(decoded(message)), "message") or message  # some is JSON within the text
    status = count_of(data.get("statusCode"))
    if not message:
        message = msgspec.json.encode(error).decode()
    return Error(message=message, code=f"http_{status}" if status else name or "error")


FLAGS = {"model": "--model", "effort": "--variant", "resume": "--session", "continue_last": "--continue"}
_READ_ONLY_AGENT = "plan"
_READ_ONLY_RULES = '{"edit":"deny","bash":"deny"}'
"""That agent may still run commands, and where it is missing another takes its place; so no agent
may edit files or run commands at all."""


def without_project(request: Request, prefix: str) -> dict[str, str]:
    """By this alone it obeys some of a folder's settings all the same; without it, it installs packages for them."""
    return {f"{prefix}_DISABLE_PROJECT_CONFIG": "1"} if request.folder_settings == "none" else {}


def run_command(
    request: Request,
    *,
    approving: tuple[str, ...],
    options: tuple[str, ...],
    permission_variable: str,
    env: dict[str, str],
) -> CommandLine:
    """`approving`: what approves everything; `options`: whatever this version takes besides.

    A prompt among the arguments would reach the model in quotation marks; stdin leaves it as it is.
    """
    args = ["run", "--format", "json", *options]
    env = {**env, **without_project(request, permission_variable.removesuffix("_PERMISSION"))}
    match request.permissions:
        case "full-access":
            args += approving
        case "read-only":
            args += ["--agent", _READ_ONLY_AGENT]
            env[permission_variable] = _READ_ONLY_RULES
        case "agent-default":
            pass
    args += [*flags_of(request, FLAGS), *request.extra_args]
    return CommandLine(args=tuple(args), env=env, stdin=request.prompt_bytes)
