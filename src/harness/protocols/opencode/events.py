"""The events of OpenCode's server (`opencode serve`), which its relatives share.

message.updated       a message of the user or of the model, with its role
message.part.updated  a part of it, again each time it changes; a part that has ended is the `part` of `run --format json`
message.part.delta    a piece of the text of a part
session.*             sessions of sub-agents, errors, whether it works

Each line is `{event, data}`, or the answer to a request, `{id, status, body}` (see `process/http_child.py`). Every
session, that of the run and those of its sub-agents, is translated by an `OpencodeStream` of its own, so that both
ways of running the agent give the same events.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from msgspec.structs import replace

from harness.contracts.translator import Ending, Record, Translator
from harness.events import Event, ReasoningDelta, Result, SessionStart, TextDelta, Unknown, Warning
from harness.formats.fields import continuation, count_of, first_text, items_of, record_of, text_of
from harness.log.raw import RawStart
from harness.protocols.opencode.stream import OpencodeStream

_RECORD_OF_PART = {
    "step-start": "step_start",
    "text": "text",
    "reasoning": "reasoning",
    "tool": "tool_use",
    "step-finish": "step_finish",
}
_TEXTS = ("text", "reasoning")
_QUIET_PARTS = frozenset({"agent", "compaction", "file", "patch", "retry", "snapshot", "subtask"})
_QUIET_FAMILIES = (
    *("catalog", "command", "file", "global", "installation", "integration", "lsp", "mcp", "models-dev"),
    *("permission", "plugin", "project", "pty", "question", "reference", "sandbox", "server", "sync", "todo"),
    *("transport", "tui", "vcs", "workspace", "worktree"),
)
"""What all events with this first word have in common: the run's events say it, or it does not concern the run."""
_QUIET_SESSION_EVENTS = ("compacted", "deleted", "diff", "drain", "idle", "next", "queue", "turn")
_ABORTED = "MessageAbortedError"
_ANNOUNCEMENT = " server listening on http://"
_MOST_EARLY_EVENTS = 1000


class ServedSession:
    """One session: that of the run, or of a sub-agent."""

    def __init__(self, stream: OpencodeStream, session_id: str, parent: ServedSession | None = None) -> None:
        self.stream = stream
        self.session_id = session_id
        self.parent = parent
        self.roles: dict[str, str] = {}
        """Message → its role."""
        self.written: dict[str, str] = {}
        """Text that is being written: part → its type."""
        self.waiting: list[Record] = []
        """Calls that have started before the text before them has ended: the text is emitted first."""
        self.reasoning: dict[str, str] = {}
        """Part → the pieces of it so far."""

    def mark(self, events: Sequence[Event]) -> Sequence[Event]:
        """The events as those of this session's run. A sub-agent that is called again has another one."""
        run_id = "" if self.parent is None else self.parent.stream.child_run(self.session_id)
        return (
            [event if event.run_id else replace(event, run_id=run_id) for event in events]
            if run_id
            else events
        )


class OpencodeEvents(Translator):
    """Inherit, and name the stream of the agent."""

    stream: ClassVar[type[OpencodeStream]]
    rules: ClassVar[dict[str, str]] = {
        "answer": "_answer",
        "message.updated": "_message",
        "message.removed": "",
        "message.part.updated": "_part",
        "message.part.removed": "",
        "message.part.delta": "_delta",
        "session.created": "_session",
        "session.updated": "_session",
        "session.error": "_error",
        "session.status": "_status",
        **dict.fromkeys((f"session.{name}" for name in _QUIET_SESSION_EVENTS), ""),
        **dict.fromkeys(_QUIET_FAMILIES, ""),
    }

    def __init__(self) -> None:
        super().__init__()
        self._root = ServedSession(self.stream(), "")
        self._children: dict[str, ServedSession] = {}
        self._early: dict[str, list[Record]] = {}
        """Session → events that came before the call that it belongs to."""
        self._is_aborted = False
        self._is_copy = False
        """Whether the session is a copy of another: the server announces its messages as if they were new."""
        self._copied_ms: int | None = None
        """When the copy was made."""
        self._copied: set[str] = set()
        """Messages of the session that it is a copy of."""

    def begin(self, start: RawStart) -> None:
        super().begin(start)
        self._root.stream.working_directory = start.cwd
        self._is_copy = start.request.get("fork") is True and not start.session_id
        resumed = "" if self._is_copy else text_of(start.request.get("resume"))
        self.known_session_id = start.session_id or resumed

    def kind(self, record: Record) -> str:
        event = record.get("event")
        if not isinstance(event, str):
            return "answer" if "status" in record else ""
        if event in self.rules:
            return event
        family, _, rest = event.partition(".")
        return f"session.{rest.partition('.')[0]}" if family == "session" else family

    def record(self, record: Record) -> Sequence[Event]:
        events = super().record(record)
        self.turns = self._root.stream.turns
        return events

    def stderr(self, line: str) -> Sequence[Event]:
        if _ANNOUNCEMENT in line:
            self.rule = "banner"
            return ()
        events = self._root.stream.stderr(line)
        self.rule = self._root.stream.rule
        return events

    def finish(self, ending: Ending) -> Sequence[Event]:
        out = [
            event
            for conversation in (self._root, *self._children.values())
            for part in conversation.waiting
            for event in self._part_events(conversation, part)
        ]
        if self._is_aborted and ending.outcome is None and ending.signal is None:
            return [*out, Result(success=False, outcome="interrupted", stop_reason="aborted")]
        return [*out, *self._root.stream.finish(ending)]

    # Sessions

    def _session(self, record: Record) -> Sequence[Event]:
        return self._opened(record_of(_properties_of(record).get("info")))

    def _opened(self, info: Record) -> Sequence[Event]:
        if info.get("parentID"):
            return ()
        if self._is_copy and self._copied_ms is None:
            self._copied_ms = _created_ms(info)
        return self._know(text_of(info.get("id")))

    def _know(self, session_id: str) -> list[Event]:
        """The session of the run, once."""
        if self._root.session_id or not session_id:
            return []
        if self.known_session_id and session_id != self.known_session_id:
            return []
        self._root.session_id = session_id
        start = SessionStart(session_id=session_id, agent=self.stream.agent)
        return [start, *self._released(session_id)]

    def _find(self, session_id: str) -> ServedSession | None:
        """None: it is not known yet who has started this session."""
        if session_id == self._root.session_id:
            return self._root
        if session_id in self._children:
            return self._children[session_id]
        for parent in (self._root, *self._children.values()):
            if parent.stream.child_run(session_id):
                child = ServedSession(self.stream(), session_id, parent)
                child.stream.working_directory = self.working_directory
                self._children[session_id] = child
                return child
        return None

    def _hold(self, session_id: str, record: Record) -> Sequence[Event]:
        early = self._early.setdefault(session_id, [])
        if len(early) < _MOST_EARLY_EVENTS:
            early.append(record)
        self.rule = f"{self.rule}/early"
        return ()

    def _released(self, session_id: str) -> list[Event]:
        """What came too early of this session."""
        return [event for early in self._early.pop(session_id, ()) for event in self.record(early)]

    # Messages

    def _message(self, record: Record) -> Sequence[Event]:
        info = record_of(_properties_of(record).get("info"))
        session_id = first_text(info, "sessionID") or text_of(_properties_of(record).get("sessionID"))
        if self._copied_ms is not None and (_created_ms(info) or 0) < self._copied_ms:
            self._copied.add(text_of(info.get("id")))
            return ()
        events: list[Event] = []
        if info.get("role") == "user" and "summary" not in info:  # with it, it may be one of an earlier run
            events = self._know(session_id)
        if (conversation := self._find(session_id)) is None:
            return self._hold(session_id, record)
        conversation.roles[text_of(info.get("id"))] = text_of(info.get("role"))
        if conversation is self._root and record_of(info.get("error")).get("name") == _ABORTED:
            self._is_aborted = True
        return events

    def _part(self, record: Record) -> Sequence[Event]:
        part = record_of(_properties_of(record).get("part"))
        session_id = text_of(part.get("sessionID"))
        kind = text_of(part.get("type"))
        if text_of(part.get("messageID")) in self._copied:
            return ()
        if kind not in _RECORD_OF_PART:
            return () if kind in _QUIET_PARTS else [Unknown(raw=record)]
        if (conversation := self._find(session_id)) is None:
            return self._hold(session_id, record)
        if not _is_complete(conversation, part, kind):
            return ()
        is_text = kind in _TEXTS
        if not is_text and conversation.written and _status_of(part) == "running":
            conversation.waiting.append(part)
            return ()
        due: list[Record] = []
        if not (is_text and conversation.written):
            due, conversation.waiting = conversation.waiting, []
        parts = [part, *due] if is_text else [*due, part]
        return [event for each in parts for event in self._part_events(conversation, each)]

    def _part_events(self, conversation: ServedSession, part: Record) -> list[Event]:
        if part.get("type") == "reasoning":
            streamed = conversation.reasoning.pop(text_of(part.get("id")), "")
            part = {**part, "text": continuation(streamed, text_of(part.get("text")))} if streamed else part
        record = {"type": _RECORD_OF_PART[part["type"]], "part": part}
        events = [*conversation.mark(conversation.stream.record(record))]
        early_events = [each for each in self._early if conversation.stream.child_run(each)]
        return [*events, *(event for each in early_events for event in self._released(each))]

    def _delta(self, record: Record) -> Sequence[Event]:
        data = _properties_of(record)
        part_id, text = text_of(data.get("partID")), text_of(data.get("delta"))
        conversation = self._find(text_of(data.get("sessionID")))
        if conversation is None or data.get("field") != "text" or not text:
            return ()  # the whole follows
        kind = conversation.written.get(part_id)
        if kind == "text":
            return conversation.mark((TextDelta(id=part_id, text=text),))
        if kind == "reasoning":
            conversation.reasoning[part_id] = conversation.reasoning.get(part_id, "") + text
            return conversation.mark((ReasoningDelta(id=part_id, text=text),))
        return ()

    # The rest

    def _error(self, record: Record) -> Sequence[Event]:
        data = _properties_of(record)
        session_id = text_of(data.get("sessionID")) or self._root.session_id
        if (conversation := self._find(session_id)) is None:
            return self._hold(session_id, record)
        if record_of(data.get("error")).get("name") == _ABORTED:
            self._is_aborted |= conversation is self._root
            return ()
        return conversation.mark(conversation.stream.record({"type": "error", "error": data.get("error")}))

    def _status(self, record: Record) -> Sequence[Event]:
        data = _properties_of(record)
        status = record_of(data.get("status"))
        conversation = self._find(text_of(data.get("sessionID")))
        if status.get("type") != "retry" or conversation is None:
            return ()
        message = text_of(status.get("message")) or "the model is asked again"
        return conversation.mark((Warning(message=message, code="retry"),))

    def _answer(self, record: Record) -> Sequence[Event]:
        """Of the driver's requests two say something: the session, and the messages that were missed."""
        body = record.get("body")
        if isinstance(body, list):
            return self._missed([record_of(item) for item in body])
        info = record_of(body)
        return self._opened(info) if "directory" in info else ()

    def _missed(self, messages: list[Record]) -> list[Event]:
        """Messages since the first that this run knows, or since the last of the user; the rest is older."""
        infos = [record_of(message.get("info")) for message in messages]
        roles_at = [at for at, info in enumerate(infos) if text_of(info.get("id")) in self._root.roles]
        users_at = [at for at, info in enumerate(infos) if info.get("role") == "user"]
        first = roles_at[0] if roles_at else users_at[-1] if users_at else len(infos)
        out: list[Event] = []
        for message in messages[first:]:
            out += self._message({"data": {"properties": {"info": message.get("info")}}})
            for part in items_of(message.get("parts")):
                out += self._part({"data": {"properties": {"part": part}}})
        return out


def _is_complete(conversation: ServedSession, part: Record, kind: str) -> bool:
    """Whether a part is to be translated: a call that has started, text that has ended and is not the user's."""
    if kind not in _TEXTS:
        return _status_of(part) != "pending"
    part_id, is_synthetic = text_of(part.get("id")), part.get("synthetic") is True
    if conversation.roles.get(text_of(part.get("messageID"))) == "user" and not is_synthetic:
        return False
    if "end" in record_of(part.get("time")):
        conversation.written.pop(part_id, None)
        return True
    if not is_synthetic:
        conversation.written[part_id] = kind
    return False


def _status_of(part: Record) -> str:
    """Of a call; other parts have none."""
    return text_of(record_of(part.get("state")).get("status"))


def _created_ms(info: Record) -> int | None:
    """Of a session or a message."""
    return count_of(record_of(info.get("time")).get("created"))


def _properties_of(record: Record) -> Record:
    return record_of(record_of(record.get("data")).get("properties"))
