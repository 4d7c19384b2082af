"""Goose: `goose run --output-format stream-json`, from 1.12 on.

message        a piece of an answer, a call, or a result: blocks under one id
notification   what a running call reports, sub-agents included
error          the run cannot continue (from 1.52 on, and only for some reasons)
complete       the end, with the tokens of the whole session

Goose hardly ever reports a failure: it writes errors of the model's server as text of the model,
completes, and exits with 0. So its own sentences are distinguished from the model's (`notices`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, ClassVar

from harness.agents.goose.acp import TWO_WAY, effort_of
from harness.agents.goose.notices import (
    INTERRUPTED,
    INTERRUPTION,
    Banner,
    GooseFailure,
    failure_of,
    is_own,
)
from harness.agents.goose.tools import GooseCalls
from harness.contracts.agent import Agent, CommandLine, UserGrants, Version
from harness.contracts.command_line import flags_of, numbers_of
from harness.contracts.request import Request
from harness.contracts.translator import Ending, Record, own_share
from harness.events import (
    Compacted,
    Error,
    Event,
    Info,
    Message,
    Outcome,
    ReasoningDelta,
    Result,
    SessionStart,
    TextDelta,
    ToolProgress,
    Unknown,
    Usage,
    UsageDelta,
    Warning,
)
from harness.formats.fields import amount_of, besides, count_of, first_text, record_of, text_of
from harness.log.raw import RawStart
from harness.protocols.plain_answer import PlainAnswer


def usage_of(data: dict[str, Any]) -> Usage:
    """Goose counts cached tokens into the input. How many there are is stated from 1.50 on."""
    cache_read, cache_write = (count_of(data.get(f"cache_{kind}_input_tokens")) for kind in ("read", "write"))
    total = count_of(data.get("input_tokens"))
    cost = amount_of(data.get("cost_usd"))
    return Usage(
        input=besides(total, cache_read, cache_write),
        output=count_of(data.get("output_tokens")),
        cache_read=cache_read,
        cache_write=cache_write,
        # Goose adds up prices of single tokens, and writes the sum.
        cost_usd=None if cost is None else round(cost, 10),
        cost_source="" if cost is None else "stated",
    )


class GooseText:
    """The text that the model is writing: pieces under the id of the message.

    1. A piece is appended, also when it repeats what came before ("ha", "ha"). Only records without
       `metadata`, which no version since 1.37 writes, may hold the whole text so far instead of a piece.
    2. A message may be written in several parts, with calls between them: each is a `Message` of its own.
    """

    __slots__ = ("_times", "has_text", "id", "is_open", "native_id", "pieces")

    def __init__(self) -> None:
        self.native_id: Any = None
        self.id = ""
        self.is_open = False
        self.pieces: list[str] = []
        self.has_text = False
        self._times: Counter[str] = Counter()

    def add(self, text: str, message: Record) -> list[Event]:
        out: list[Event] = []
        if self.is_open and message.get("id") != self.native_id:
            out += self.finish()
        if not self.is_open:
            self._open(message.get("id"))
        elif "metadata" not in message:
            text = text.removeprefix("".join(self.pieces))
        self.pieces.append(text)
        return [*out, TextDelta(id=self.id, text=text)] if text else out

    def finish(self) -> list[Event]:
        """Something else follows: the text so far is complete."""
        if not self.is_open:
            return []
        whole, self.pieces, self.is_open = "".join(self.pieces), [], False
        return [Message(role="assistant", text=whole, id=self.id)]

    def _open(self, native_id: Any) -> None:
        self.native_id, self.is_open, self.has_text = native_id, True, True
        name = text_of(native_id)
        self._times[name] += 1
        times = self._times[name]
        self.id = name if name and times == 1 else f"{name or 'message'}#{times}"


_INTERRUPTION_SINCE: Version = (1, 52)
"""Until then a run that is stopped completes like one that is done."""
_SESSION_ID = re.compile(r"\d{8}_\d+")
_SESSION_OPTIONS = ("--session-id", "--name", "-n")
_FLAGS = {"model": "--model", "append_system_prompt": "--system", "max_turns": "--max-turns"}
_MODES = {"full-access": "auto", "read-only": "chat", "agent-default": ""}


def command(request: Request, version: Version) -> CommandLine:
    """The prompt goes through stdin. Not `--quiet`: the banner alone has the session's id."""
    del version
    args = ["run", "--output-format", "stream-json"]
    if request.permissions == "full-access":
        args += ["--with-builtin", "developer"]
    args += flags_of(request, _FLAGS)
    if request.resume:
        named_by = "--session-id" if _SESSION_ID.fullmatch(request.resume) else "--name"
        args += ["--resume", named_by, request.resume]
    elif request.continue_last:
        args.append("--resume")
    mode = _MODES[request.permissions]
    return CommandLine(
        args=(*args, *request.extra_args, "--instructions", "-"),
        env={**({"GOOSE_MODE": mode} if mode else {}), **effort_of(request)},
        stdin=request.prompt_bytes,
    )


class GooseTranslator(PlainAnswer):
    rules: ClassVar[dict[str, str]] = {
        "message": "_message",
        "notification": "_notification",
        "model_change": "_model_change",
        "error": "_error",
        "complete": "_completed",
    }

    def __init__(self) -> None:
        super().__init__()
        self._text = GooseText()
        self._calls = GooseCalls()
        self._banner = Banner()
        self._has_started = False
        self._is_resumed = False
        self._session_name = ""
        self._reports_interruption = False
        self._model = ""
        self._answers: set[str] = set()
        """Ids that the model's server gave its answers."""
        self._compaction = ""
        """Why the context is being shortened; that it was, only the next record shows."""
        self._outcome: Outcome | None = None
        """How the run has failed, unless it continues after all."""
        self._errors: set[str] = set()
        self._error_lines: set[str] = set()
        self._is_advising = False
        self._complete: Record | None = None
        self._usage: Usage | None = None
        self._blocks: dict[str, Callable[[Record, Record], list[Event]]] = {
            "text": self._says,
            "thinking": self._thinks,
            "reasoning": self._thinks,
            "redactedThinking": lambda _block, _message: [],
            "toolRequest": self._calls_tool,
            "frontendToolRequest": self._calls_tool,
            "toolResponse": lambda block, _message: self._calls.end(block),
            "toolConfirmationRequest": self._asks,
            "actionRequired": self._asks,
            "systemNotification": self._notifies,
            "error": self._fails,
            "conversationCompacted": lambda _block, _message: [Compacted()],
        }

    def begin(self, start: RawStart) -> None:
        """With `--quiet`, nothing else has the session, nor says whether the usage at the end includes earlier runs."""
        super().begin(start)
        self._is_resumed = "--resume" in start.argv or "-r" in start.argv
        self._session_name = _named_in(start.argv)
        self._reports_interruption = numbers_of(start.version) >= _INTERRUPTION_SINCE

    def record(self, record: Record) -> Sequence[Event]:
        message, text = record.get("message"), self._text
        # Nearly every line of a long run is a piece of the text that is being written: the fast path.
        if text.is_open and type(message) is dict and message.get("id") == text.native_id:
            content = message.get("content")
            if type(content) is list and len(content) == 1 and "metadata" in message:
                piece = content[0].get("text") if type(content[0]) is dict else None
                if type(piece) is str and piece and content[0].get("type") == "text":
                    self.rule = "message"
                    text.pieces.append(piece)
                    return (TextDelta(id=text.id, text=piece),)
        self._is_advising = False
        events = super().record(record)
        return [*self._text.finish(), *events] if self.rule == "unknown" else events

    def remark(self, line: str) -> Sequence[Event] | None:
        if self._banner.take(line):
            self.rule = "banner"
            return self._begin() if self._banner.is_complete else ()
        if line.startswith(INTERRUPTION):
            self.rule = "interruption"
            self._outcome = "interrupted"
            return [*self._text.finish(), Warning(message=line, code="interrupted")]
        if line.lower().startswith("error:"):
            self.rule = "error"
            self._is_advising = True
            return [*self._text.finish(), *self._fail(line[6:].strip(), GooseFailure("agent_error"))]
        if self._is_advising:
            self.rule = "advice"
            return [Info(message=line, code="agent_error")]
        return None

    def stderr(self, line: str) -> Sequence[Event]:
        message = line.removeprefix("Error: ")
        if message in self._error_lines:
            self.rule = "repeated error"
            return ()
        if message.startswith("Tool approval required"):
            self.rule = "approval"
            return [Warning(message=message, code="permission_denied")]
        return super().stderr(line)

    def finish(self, ending: Ending) -> Sequence[Event]:
        printed = self.printed_object()
        events = super().finish(ending) if printed is None else self._printed(printed)
        return [*events, *self._share(ending), *self._how_it_ended(ending)]

    def _printed(self, printed: Record) -> list[Event]:
        """`--output-format json`: all messages at once, and what they used."""
        messages, metadata = printed.get("messages"), printed.get("metadata")
        if not isinstance(messages, list) or not isinstance(metadata, dict):
            return [Unknown(raw=printed)]
        out = [event for message in messages for event in self._message({"message": message})]
        return [*out, *self._completed(metadata)]

    def _how_it_ended(self, ending: Ending) -> list[Event]:
        out = self._text.finish()
        if ending.outcome is not None and not self._reports_interruption:
            stopped = Result(success=False, outcome=ending.outcome, usage=self._usage)
            return [*out, stopped] if self._complete is not None else out
        if self._complete is not None and self._outcome is None:
            out += self._missing_answer()
        if self._outcome is not None:
            out.append(Result(success=False, outcome=self._outcome, usage=self._usage))
        elif self._complete is not None:
            out.append(Result(success=True, usage=self._usage, structured=self._calls.structured))
        return out

    def _missing_answer(self) -> list[Event]:
        """Goose completes also when there was no answer, and when the answer was cut off by a signal."""
        if not self._text.has_text and not self._calls.has_answered:
            return self._fail("the model returned an empty response", GooseFailure("empty_response"))
        total_tokens = count_of(record_of(self._complete).get("total_tokens"))
        is_counted = self._complete is not None and "total_tokens" in self._complete
        if is_counted and not total_tokens and not self._calls.has_answered:
            message = "Goose ended before a model call was counted: its answer may be cut off"
            return self._fail(message, GooseFailure("missing_end"))
        return []

    def _begin(self) -> list[Event]:
        if self._has_started:
            return []
        self._has_started = True
        banner = self._banner
        self._model = banner.model or self._model
        self._is_resumed = self._is_resumed or banner.is_resumed
        self.working_directory = banner.cwd or self.working_directory
        session_id = banner.session_id or self._session_name
        return [SessionStart(session_id=session_id, agent="goose", model=self._model, cwd=banner.cwd)]

    def _message(self, record: Record) -> list[Event]:
        message = record_of(record.get("message"))
        content = message.get("content")
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        if not isinstance(content, list):
            self.rule = "unknown"
            return [Unknown(raw=record)]
        if "id" not in message and "id" in record:
            message = {**message, "id": record["id"]}
        inference = record_of(record_of(message.get("metadata")).get("inference"))
        self._model = text_of(inference.get("requestedModel")) or self._model
        if message.get("role") == "assistant" and not is_own(message):
            self._answers.add(text_of(message.get("id")))
            self.turns = len(self._answers)
        out = self._begin()
        for item in content:
            block = record_of(item)
            kind = text_of(block.get("type"))
            translate = self._blocks.get(kind)
            if kind != "text":
                out += self._text.finish()
            out += [Unknown(raw=item)] if translate is None else translate(block, message)
        return out

    def _says(self, block: Record, message: Record) -> list[Event]:
        text = text_of(block.get("text"))
        if message.get("role") == "user" or not text:
            return []
        failure = failure_of(text) if is_own(message) else None
        if failure is not None:
            return [*self._text.finish(), *self._compacted(failure), *self._fail(text, failure)]
        return [*self._continued(), *self._text.add(text, message)]

    def _calls_tool(self, block: Record, _message: Record) -> list[Event]:
        return [*self._continued(), *self._calls.start(block, self.working_directory)]

    def _continued(self) -> list[Event]:
        """The model works: whatever was wrong before has not ended the run."""
        self._outcome = None
        return self._compacted(None)

    def _asks(self, block: Record, _message: Record) -> list[Event]:
        """There is no user to answer: Goose gives up next, or waits for ever."""
        data = record_of(block.get("data")) or block
        question = first_text(data, "prompt", "message", "toolName") or "Goose asks a question"
        return [Warning(message=question, code="permission_denied")]

    def _thinks(self, block: Record, message: Record) -> list[Event]:
        thought = first_text(block, "thinking", "text")
        name = text_of(message.get("id")) or "message"
        return [ReasoningDelta(id=f"{name}:thinking", text=thought)] if thought else []

    def _notifies(self, block: Record, _message: Record) -> list[Event]:
        message = first_text(block, "msg", "message")
        if block.get("notificationType") == "creditsExhausted":
            return self._fail(message, GooseFailure("credits_exhausted"))
        failure = failure_of(message)
        if failure is not None:
            return [*self._compacted(failure), *self._fail(message, failure)]
        if "compacting" in message.lower() or "auto-compaction" in message:
            self._compaction = self._compaction or ("context_limit" if "reached" in message else "auto")
        elif message.startswith("Compaction complete"):
            return [*self._compacted(None), Info(message=message, code="notice")]
        return [Info(message=message, code="notice")]

    def _compacted(self, failure: GooseFailure | None) -> list[Event]:
        trigger, self._compaction = self._compaction, ""
        has_failed = failure is not None and failure.code != "context_limit"
        return [Compacted(trigger=trigger)] if trigger and not has_failed else []

    def _fails(self, block: Record, _message: Record) -> list[Event]:
        message, kind = first_text(block, "message", "msg", "error"), text_of(block.get("kind"))
        return self._fail(
            message, GooseFailure(kind) if kind else failure_of(message) or GooseFailure("agent_error")
        )

    def _error(self, record: Record) -> list[Event]:
        error = record.get("error")
        message = text_of(error) or first_text(record_of(error), "message") or first_text(record, "message")
        return [
            *self._text.finish(),
            *self._fail(message, failure_of(message) or GooseFailure("agent_error")),
        ]

    def _fail(self, message: str, failure: GooseFailure) -> list[Event]:
        """The run has failed; an error is emitted once."""
        self._outcome = failure.outcome
        if message in self._errors:
            return []
        self._errors.add(message)
        self._error_lines.update(line.strip() for line in message.split("\n"))
        return [Error(message=message or "Goose reported an error without a message", code=failure.code)]

    def _notification(self, record: Record) -> list[Event]:
        call_id, log = text_of(record.get("extension_id")), record.get("log")
        progress = record_of(record.get("progress"))
        message = text_of(log) or first_text(record_of(log), "message") or first_text(progress, "message")
        progress_so_far, total = amount_of(progress.get("progress")), amount_of(progress.get("total"))
        if not message and progress_so_far is not None:
            message = f"{progress_so_far:g}" if total is None else f"{progress_so_far:g}/{total:g}"
        if not message or call_id not in self._calls.open:
            self.rule = "unknown"
            return [Unknown(raw=record)]
        return [ToolProgress(call_id=call_id, text=message)]

    def _model_change(self, record: Record) -> list[Event]:
        self._model = text_of(record.get("model")) or self._model
        return [Info(message=f"the model is now {self._model}", code="model_changed")]

    def _completed(self, record: Record) -> list[Event]:
        self._complete = record
        out = [*self._begin(), *self._text.finish(), *self._compacted(INTERRUPTED)]
        usage = usage_of(record)
        if not usage:
            return out
        self.counts_whole_session = self._is_resumed
        self._usage = usage
        if usage.without_zeros() and not self._is_resumed:
            out.append(UsageDelta(usage=usage, model=self._model))
        return out

    def _share(self, ending: Ending) -> list[Event]:
        """Of a resumed session: what this run has added to it."""
        if not self.counts_whole_session or self._usage is None or not self._usage.without_zeros():
            return []
        total, self._usage = self._usage, None
        return own_share(total, ending.earlier_usage, whole="Goose counts whole sessions", model=self._model)


def _named_in(argv: Sequence[str]) -> str:
    """The id or the name of the session that a run was started with."""
    for option, value in pairwise(argv):
        if option in _SESSION_OPTIONS:
            return value
    return ""


AGENT = Agent(
    name="goose",
    title="Goose",
    aliases=("block-goose", "goose-cli"),
    binaries=("goose",),
    homes=("~/.config/goose/", "~/.local/share/goose/", "~/.local/state/goose/", "~/.cache/goose/"),
    grants=UserGrants(
        files=tuple(
            f"{folder}/permission.yaml"
            for folder in ("$GOOSE_PATH_ROOT/config", "$XDG_CONFIG_HOME/goose", "~/.config/goose")
        ),
        rule=r"always_allow\W",
        harmless=r"always_allow[\"']?\s*:\s*(?:\[\s*\]|\w+\s*:|\Z)",
    ),
    command=command,
    translator=GooseTranslator,
    two_way=TWO_WAY,
    supports=frozenset({"agent-default", "continue_last", "effort", "read-only", "resume", *_FLAGS}),
    since={"effort": (1, 52)},
    needs_version=True,
    screen_resume=("session", "--resume", "--session-id", "{id}"),
    key_variables=(
        "ANTHROPIC_API_KEY",
        "OPENAI_API_KEY",
        "OPENROUTER_API_KEY",
        "GOOGLE_API_KEY",
        "GROQ_API_KEY",
        "XAI_API_KEY",
        "AZURE_OPENAI_API_KEY",
        "DATABRICKS_TOKEN",
    ),
    install="npm install -g @aaif/goose-acp",
    login="goose configure",
    delta_keys=("text", "thinking"),
    reveals={
        "deltas": "text, and reasoning where the provider streams it",
        "reasoning": "yes",
        "tools": "every call and result; exit codes of commands; no line ranges",
        "sub_agents": "task, answer and end, once they are done; of what they do only the names of tools",
        "usage": "of the whole session at its end, of which earlier runs that are recorded here are taken off: "
        "tokens from 1.37 on, cache reads and writes (until then within the input) and sub-agents from 1.50 on; "
        "never reasoning",
        "cost": "stated from 1.50 on, where it knows the model's price",
        "result": "never stated: concluded from its own sentences, as the exit code is 0 for most failures, and until "
        "1.50 for interruptions; retries are not shown",
    },
)
