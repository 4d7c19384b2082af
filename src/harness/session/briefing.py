"""The briefing of an agent program, which does not see the log: what was written and decided without it.

It is a fold of the log for one program, brought up to date by each `read`; it comes before the prompt.

Rules
1. A program knows what its own session knows: its runs there, and the briefings of these runs. A run counts
   if the program named its session in it, and the run succeeded or the program wrote or did something. A
   program that cannot resume a session knows nothing, and is given everything each time.
2. A briefing contains requests, the last answer of each run, plans and questions with their answers, calls
   that the user refused, changed files, changes of mode, and open tasks.
3. It has at most `MOST_CHARACTERS`, however long the conversation is. The first request, the last approved
   plan and the last item always stay. It says what was left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from harness.contracts.conversation import HandedCall, HandedConversation, HandedPrompt
from harness.contracts.model import Attachment, UserTurn
from harness.contracts.request import REMOTE_AGENT
from harness.contracts.tool import spelled
from harness.conversation.turns import turn_of
from harness.events import (
    Event,
    Info,
    Message,
    ModeChanged,
    Operation,
    Relay,
    RelayReply,
    Result,
    SessionStart,
    Signal,
    Task,
    TasksChanged,
    ToolEnd,
    ToolStart,
)
from harness.events.operation import Write
from harness.folds.finished import FinishedFold
from harness.formatting.approval import signal_text
from harness.formatting.calls import gist, words
from harness.histories.handover.budget import cut
from harness.log.hub import Hub
from harness.log.run_tree import RunTree
from harness.session.builtin.submit_plan import is_approved


class UndeliveredSignals:
    """Signals still to be given to one agent program: a fold of the log, updated by each `read`."""

    def __init__(self, agent_name: str) -> None:
        self._agent_name = agent_name
        self._cursor = 0
        self._signals: list[Signal] = []
        self._tree = RunTree()
        self._delivered = 0
        """How many signals, from the first on, came before the current run."""
        self._run_id = ""
        self._is_own = False
        """Whether the current run is one of this program."""

    def read(self, hub: Hub) -> Sequence[UserTurn]:
        """The signals to give to the program, in order."""
        follower = hub.follower(self._cursor)
        try:
            while batch := follower.poll():
                self._take(batch)
            self._cursor = follower.cursor
        finally:
            follower.close()
        turns = [turn_of(signal) for signal in self._signals]
        return [turn for turn in turns if isinstance(turn, UserTurn)]

    def _take(self, events: Iterable[Event]) -> None:
        for event in events:
            run = self._tree.feed(event)
            if isinstance(event, Signal):
                if not self._run_id or self._is_own:
                    self._signals.append(event)
            elif isinstance(event, SessionStart):
                if not run.depth:
                    self._run_id, self._is_own = event.run_id, who_works(event) == self._agent_name
                    self._delivered = len(self._signals)
            elif isinstance(event, Result) and event.run_id == self._run_id:
                if event.success or not self._is_own:
                    del self._signals[: self._delivered]
                self._run_id = ""


def who_works(start: SessionStart) -> str:
    """The agent that has the session of a run: for any agent in a sandbox runner, the remote one."""
    return REMOTE_AGENT if start.runner else start.agent


def files_in(turns: Sequence[UserTurn]) -> tuple[Attachment, ...]:
    return tuple(attachment for turn in turns for attachment in turn.attachments)


MOST_CHARACTERS = 16_000
_LONGEST = {"plan": 6_000, "message": 3_000, "decision": 800}
_MOST_FILES = 60
_TAG = "conversation-briefing"
_HEAD = {
    True: "Others went on with this conversation since you last took part in it.",
    False: "This conversation began without you.",
}
_ABOUT = (
    "This is what was said and decided meanwhile, taken from the record. Treat it as if you had taken part. "
    "The user's next message follows."
)
_NEVER_TOLD = (
    "what the agents thought and said while they worked, which tools they called and what those gave (files are "
    "as they now are on disk)"
)


class _Item(msgspec.Struct):
    """A message or a decision."""

    text: str
    is_kept: bool = False
    """Whether it stays when the briefing is shortened."""


class _Run:
    """A top-level run that has not ended."""

    def __init__(self, start: SessionStart, *, is_own: bool) -> None:
        self.run_id = start.run_id
        self.agent = start.agent or "agent"
        self.is_own = is_own
        self.items: list[_Item] = []
        self.files: dict[str, None] = {}
        self.answer = ""
        self.has_session = False
        self.has_spoken = False


class Briefing:
    def __init__(self, agent_name: str, *, resumes: bool) -> None:
        """`resumes`: the program can resume its own session."""
        self._agent_name = agent_name
        self._resumes = resumes
        self._cursor = 0
        self._items: list[_Item] = []
        self._delivered = 0
        """How many items, from the first on, came before the current run."""
        self._dropped = 0
        self._tasks: list[Task] = []
        self._took_part = False
        self._tree = RunTree()
        self._finished = FinishedFold(self._tree)
        self._run: _Run | None = None
        self._writes: dict[str, list[str]] = {}
        """By call: the files that it changes if it succeeds."""
        self._has_first = False
        self._handlers: dict[type[Event], Callable[[Any], None]] = {
            SessionStart: self._on_start,
            Info: self._note_session,
            Signal: self._on_signal,
            ModeChanged: self._on_mode,
            RelayReply: self._on_reply,
            TasksChanged: self._on_tasks,
            ToolStart: self._on_call,
            ToolEnd: self._on_call_end,
            Result: self._on_result,
        }

    def read(self, hub: Hub) -> str:
        """The briefing for the next run; empty when the program knows everything."""
        follower = hub.follower(self._cursor)
        try:
            while batch := follower.poll():
                self._take(batch)
            self._cursor = follower.cursor
        finally:
            follower.close()
        return self._text()

    def _take(self, events: Iterable[Event]) -> None:
        for event in events:
            self._tree.feed(event)
            for item in self._finished.feed(event):
                if isinstance(item, Message):
                    self._take_message(item)
            handler = self._handlers.get(type(event))
            if handler is not None:
                handler(event)

    def _on_start(self, event: SessionStart) -> None:
        if self._tree.run.depth:
            return
        if self._run is not None:
            self._end(self._run, is_success=False)
        self._run = _Run(event, is_own=who_works(event) == self._agent_name)
        self._delivered = len(self._items)
        self._note_session(event)

    def _note_session(self, event: Event) -> None:
        run = self._run
        if run is not None and event.run_id == run.run_id and event.session_id not in ("", event.run_id):
            run.has_session = True

    def _take_message(self, event: Message) -> None:
        run = self._run
        if event.role == "user" and (run is None or event.run_id == run.run_id):
            self._said(event.text, len(event.parts or ()))
        elif event.role == "assistant" and run is not None and event.run_id == run.run_id:
            # What was cut off is known to us: whether the program has stored it is not.
            run.has_spoken = run.has_spoken or event is self._tree.event
            run.answer = event.text or run.answer

    def _on_signal(self, event: Signal) -> None:
        if event.category == "user":
            self._said(signal_text(event), 0)

    def _said(self, text: str, files: int) -> None:
        attached = f" [with {files} attached files, which are left out]" if files else ""
        self._add(_Item(f"User: {_cut(text, 'message')}{attached}", is_kept=not self._has_first))
        self._has_first = True

    def _on_mode(self, event: ModeChanged) -> None:
        before = f" (before: {event.previous_mode_id})" if event.previous_mode_id else ""
        self._add(_Item(f"Mode: {event.mode_id}{before}"))

    def _on_reply(self, event: RelayReply) -> None:
        relay = next(iter(self._tree.relays), None)
        if relay is None or event.by != "person":
            return
        if relay.kind == "plan":
            self._on_plan(relay, event)
        elif relay.kind == "permission":
            if not event.approved:
                what = _cut(f"{relay.tool_name} {spelled(relay.input)}", "decision")
                self._add(_Item(f"The user did not allow: {what}" + _because(event.reason)))
        else:
            question = _cut(relay.question or relay.tool_name, "decision")
            self._add(
                _Item(f"Asked: {question}\nThe user answered: {_cut(_words(event.answer), 'decision')}")
            )

    def _on_plan(self, relay: Relay, reply: RelayReply) -> None:
        payload: Mapping[str, Any] = relay.payload if isinstance(relay.payload, Mapping) else {}
        plan = _cut(str(payload.get("plan") or relay.question), "plan")
        title = str(payload.get("title") or relay.question)
        if reply.approved and is_approved(reply.answer):
            for item in self._open_items:
                item.is_kept &= not item.text.startswith("The user approved this plan")
            self._add(_Item(f"The user approved this plan: {title}\n{plan}", is_kept=True))
            return
        answer = reply.answer if isinstance(reply.answer, Mapping) else {}
        feedback = str(answer.get("feedback") or reply.reason)
        self._add(_Item(f"The user sent this plan back: {title}{_because(feedback)}"))

    def _on_tasks(self, event: TasksChanged) -> None:
        if self._run is None or event.run_id == self._run.run_id:
            self._tasks = list(event.tasks)

    def _on_call(self, event: ToolStart) -> None:
        if self._run is not None:
            self._run.has_spoken = True
        if paths := _written(event.operations):
            self._writes[event.call_id] = paths

    def _on_call_end(self, event: ToolEnd) -> None:
        writes = self._writes.pop(event.call_id, [])
        paths = writes if event.operations is None else _written(event.operations)
        if self._run is not None and not event.has_failed:
            self._run.files.update(dict.fromkeys(paths))

    def _on_result(self, event: Result) -> None:
        run = self._run
        if run is not None and event.run_id == run.run_id:
            self._note_session(event)
            run.answer = run.answer or event.text
            self._end(run, is_success=event.success)

    def _end(self, run: _Run, *, is_success: bool) -> None:
        self._run = None
        self._writes.clear()
        if run.is_own and self._resumes and run.has_session and (is_success or run.has_spoken):
            del self._items[: self._delivered]
            self._dropped = 0
            self._took_part, self._has_first = True, False
            self._tasks = []
            return
        if run.answer:
            run.items.append(_Item(f"Agent {run.agent}: {_cut(run.answer, 'message')}"))
        if not is_success:
            run.items.append(_Item(f"(Agent {run.agent} was stopped, or failed, before it was done.)"))
        if run.files:
            files_named = list(run.files)
            more = f" and {len(files_named) - _MOST_FILES} more" if len(files_named) > _MOST_FILES else ""
            names = _cut(", ".join(files_named[:_MOST_FILES]), "message")
            run.items.append(_Item(f"Files changed: {names}{more}"))
        self._items += run.items
        self._shorten()

    @property
    def _open_items(self) -> list[_Item]:
        return [*self._items, *(self._run.items if self._run is not None else ())]

    def _add(self, item: _Item) -> None:
        (self._run.items if self._run is not None else self._items).append(item)

    def _shorten(self) -> None:
        """Drop the oldest items until the rest is short enough."""
        size = sum(len(item.text) + 2 for item in self._items)
        position = 0
        while size > MOST_CHARACTERS - 1_000 and position < len(self._items) - 1:
            if self._items[position].is_kept:
                position += 1
                continue
            size -= len(self._items.pop(position).text) + 2
            self._dropped += 1
            self._delivered -= position < self._delivered

    def _text(self) -> str:
        self._shorten()
        texts = [item.text for item in self._open_items]
        if not any(not text.startswith("Mode: ") for text in texts):
            return ""
        if tasks_left := [task.text for task in self._tasks if task.status != "completed"]:
            texts.append(_cut("Tasks that are left: " + "; ".join(tasks_left), "decision"))
        missing = [f"{self._dropped} older entries"] if self._dropped else []
        left_out = f"Left out: {'; '.join([*missing, _NEVER_TOLD])}."
        return _framed([f"{_HEAD[self._took_part]} {_ABOUT}", *texts, left_out])


def _framed(texts: Iterable[str]) -> str:
    body = "\n\n".join(texts)
    body = body.replace(f"</{_TAG}", f"< /{_TAG}")  # the closing tag is only at the end
    return f"<{_TAG}>\n{body}\n</{_TAG}>"


_MOST_IN_CONVERSATION = 60_000
_LAST_RESULTS = 10
_LONGEST_RESULT = 400
_HANDED_OVER = (
    "This conversation was held with another agent ({agent}), and you continue it. What was said and done, as the "
    "record has it: prompts and answers are whole, each call is one line. Files are as they now are on disk. The "
    "user's next message follows."
)


def conversation_briefing(
    conversation: HandedConversation, most: int = _MOST_IN_CONVERSATION
) -> tuple[str, int]:
    """All of a conversation for an agent that has no part in it, and how many of its oldest entries are left out.

    Of the calls there is one line each; of the last ones, and of those that failed, the result too.
    """
    latest = conversation.calls[-_LAST_RESULTS:]
    texts: list[str] = []
    for turn in conversation.turns:
        if isinstance(turn, HandedPrompt):
            texts.append(f"User: {turn.text.strip()}")
            continue
        lines = [f"Agent {conversation.agent}: {turn.text.strip()}"] if turn.text.strip() else []
        lines += [
            _call_line(call, conversation.cwd, with_result=call in latest or call.has_failed)
            for call in turn.calls
        ]
        texts.append("\n".join(lines))
    texts = [cut(text, most // 2) for text in texts]
    dropped = 0
    while sum(map(len, texts)) > most and len(texts) > 2:
        del texts[1]  # the first request stays
        dropped += 1
    missing = [f"{dropped} older entries"] if dropped else []
    left_out = f"Left out: {'; '.join([*missing, 'reasoning', 'most results of tools'])}."
    head = _HANDED_OVER.format(agent=" ".join(filter(None, (conversation.agent, conversation.version))))
    return _framed([head, *texts, left_out]), dropped


def _call_line(call: HandedCall, cwd: str, *, with_result: bool) -> str:
    parts_shown = [words(operation, cwd) for operation in call.operations]
    what = "; ".join(" ".join(filter(None, (part.verb or "run", part.subject))) for part in parts_shown)
    what = _cut(what or f"{call.tool_name} {gist(call.input)}", "decision")
    exit_code = f", exit code {call.exit_code}" if call.exit_code else ""
    line = f"- {what}: {'failed' if call.has_failed else 'ok'}{exit_code}"
    if not with_result:
        return line
    result = cut(call.output.strip(), _LONGEST_RESULT)
    return "\n".join([line, *(f"    {part}" for part in result.split("\n"))])


def _cut(text: str, kind: str) -> str:
    """Shorten a long text to its beginning and end, with the number of characters left out."""
    most = _LONGEST[kind]
    text = text.strip()
    if len(text) <= most:
        return text
    head, tail = text[: most * 3 // 4], text[-most // 4 :]
    return f"{head} [… {len(text) - len(head) - len(tail):,} characters left out …] {tail}"


def _written(operations: Sequence[Operation] | None) -> list[str]:
    return [
        operation.path
        for operation in operations or ()
        if isinstance(operation, Write) and operation.success is not False
    ]


def _because(reason: str) -> str:
    return f" ({_cut(reason, 'decision')})" if reason else ""


def _words(answer: Any) -> str:
    return answer if isinstance(answer, str) else spelled(answer)
