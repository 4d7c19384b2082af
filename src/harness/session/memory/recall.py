"""The tool `recall`: the original messages behind the observations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal, Protocol

import msgspec
from msgspec import Meta

from harness.contracts.model import AssistantTurn, SystemTurn, ToolTurn, UserTurn
from harness.contracts.tool import Tool, ToolContext, ToolFailure, ToolOutput, ToolPermission
from harness.contracts.tool_arguments import Arguments, spec, take
from harness.conversation.turns import TranscriptEntry
from harness.events import Operation
from harness.events.operation import Search
from harness.models.turn_cache import encode
from harness.session.memory.dates import local, zone
from harness.session.memory.observations import iso
from harness.session.memory.tokens import TokenCounter, estimated_tokens

_DESCRIPTION = (
    "Read messages of the past as they were said. mode `messages`: around a message id (`cursor`, for example "
    "from the range of an observation group), page 1 from there on, page -1 before it; without a cursor from "
    "the beginning, or with a negative page from the end. mode `threads`: the conversations there are. mode "
    "`search`: messages with all words of `query`. detail `low` shortens long parts; `partIndex` with a cursor "
    "gives one part whole."
)
_THREAD_ONLY = " Only this conversation can be read."
_SHORT = 500
_MOST_TOKENS = 8_000
_CHARACTERS_PER_TOKEN = 4


class ThreadSummary(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    title: str = ""
    created_ms: int = 0
    updated_ms: int = 0


class Archive(Protocol):
    """The messages of the current resource, for `recall`. Contract: an unknown thread has no entries."""

    thread_id: str
    """The current thread."""

    async def threads(self) -> Sequence[ThreadSummary]: ...

    async def entries(self, thread_id: str) -> Sequence[TranscriptEntry]: ...

    async def threads_with(self, query: str) -> Sequence[str]:
        """Threads that may contain these words; all threads if that is unknown."""


class RecallArguments(Arguments, frozen=True, kw_only=True):
    mode: Literal["messages", "threads", "search"] = "messages"
    query: Annotated[str, Meta(description="words to look for (mode search)")] = ""
    cursor: Annotated[str, Meta(description="a message id")] = ""
    thread_id: Annotated[str, Meta(description="another conversation; this one without it")] = ""
    page: Annotated[int, Meta(description="1, 2, … forward, -1, -2, … backward")] = 1
    limit: Annotated[int, Meta(ge=1, le=100)] = 20
    detail: Literal["low", "high"] = "low"
    part_index: Annotated[int, Meta(ge=0)] | None = None
    before: Annotated[str, Meta(description="threads begun before this day, YYYY-MM-DD")] = ""
    after: Annotated[str, Meta(description="threads begun on this day or later, YYYY-MM-DD")] = ""


class _Message(msgspec.Struct, frozen=True):
    id: str
    created_ms: int
    parts: list[tuple[str, str]]
    """The kind of each part, and its text."""


class RecallTool(Tool):
    def __init__(
        self,
        archive: Archive,
        *,
        scope: Literal["thread", "resource"] = "resource",
        timezone: str = "",
        count: TokenCounter = estimated_tokens,
    ) -> None:
        description = _DESCRIPTION + (_THREAD_ONLY if scope == "thread" else "")
        self.spec = spec("recall", description, RecallArguments)
        self._archive = archive
        self._scope = scope
        self._zone = zone(timezone)
        self._count = count

    def operations(self, arguments: dict[str, Any]) -> Sequence[Operation]:
        order = take(RecallArguments, arguments, "recall")
        return [Search(query=order.query or order.cursor or order.mode)]

    def permission(self, arguments: dict[str, Any]) -> ToolPermission:
        del arguments
        return ToolPermission("recall")

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        del context
        order = take(RecallArguments, arguments, "recall")
        if self._scope == "thread" and order.thread_id not in ("", self._archive.thread_id):
            raise ToolFailure("only this conversation can be read: leave threadId out")
        if order.mode == "threads":
            return ToolOutput(text=await self._threads(order))
        if order.mode == "search":
            return ToolOutput(text=await self._search(order))
        return ToolOutput(text=await self._messages(order))

    async def _threads(self, order: RecallArguments) -> str:
        thread_lines = [
            thread
            for thread in await self._archive.threads()
            if (self._scope == "resource" or thread.id == self._archive.thread_id)
            and (not order.before or self._day(thread.created_ms) < order.before)
            and (not order.after or self._day(thread.created_ms) >= order.after)
        ]
        start = max(0, order.page - 1) * order.limit
        lines = [self._thread_line(thread) for thread in thread_lines[start : start + order.limit]]
        if len(thread_lines) > start + order.limit:
            lines.append(f"[{len(thread_lines) - start - order.limit} more: page={max(1, order.page) + 1}]")
        return "\n".join(lines) or "there are no such threads"

    def _thread_line(self, thread: ThreadSummary) -> str:
        here = " (this one)" if thread.id == self._archive.thread_id else ""
        return f"{thread.id}{here}: {thread.title or 'without a title'}, begun {iso(thread.created_ms)}, last {iso(thread.updated_ms)}"

    def _day(self, ms: int) -> str:
        return f"{local(ms, self._zone):%Y-%m-%d}"

    async def _search(self, order: RecallArguments) -> str:
        words = order.query.casefold().split()
        if not words:
            raise ToolFailure("mode search needs a query")
        here = order.thread_id or (self._archive.thread_id if self._scope == "thread" else "")
        threads = [here] if here else await self._archive.threads_with(order.query)
        hits: list[tuple[str, _Message]] = []
        for thread_id in threads:
            for message in _messages(await self._archive.entries(thread_id)):
                text = "\n".join(text for _, text in message.parts).casefold()
                if all(word in text for word in words):
                    hits.append((thread_id, message))
        hits.sort(key=lambda pair: -pair[1].created_ms)
        start = max(0, order.page - 1) * order.limit
        page = hits[start : start + order.limit]
        texts = [f"in thread {thread_id}\n{self._text_of(message, order)}" for thread_id, message in page]
        if len(hits) > start + order.limit:
            texts.append(f"[{len(hits) - start - order.limit} more: page={max(1, order.page) + 1}]")
        return self._within_budget(texts) or "no message has all of these words; try fewer, or mode threads"

    async def _messages(self, order: RecallArguments) -> str:
        thread_id = order.thread_id or self._archive.thread_id
        messages = _messages(await self._archive.entries(thread_id))
        place = _place(messages, order.cursor)
        if order.part_index is not None:
            if not order.cursor:
                raise ToolFailure("partIndex needs a cursor")
            return self._part(messages[place], order.part_index)
        start, end = _page(order, place, len(messages))
        texts = [self._text_of(message, order) for message in messages[start:end]]
        more = [
            f"{start} before" if start > 0 else "",
            f"{len(messages) - end} after" if end < len(messages) else "",
        ]
        if any(more):
            texts.append(f"[more messages: {', '.join(filter(None, more))}]")
        return self._within_budget(texts) or "there are no messages here"

    def _text_of(self, message: _Message, order: RecallArguments) -> str:
        lines = [f"[{message.id}] {local(message.created_ms, self._zone):%Y-%m-%d %H:%M}"]
        for number, (kind, text) in enumerate(message.parts):
            text_shown = text
            if order.detail == "low" and len(text) > _SHORT:
                text_shown = f'{text[:_SHORT]}… [shortened: recall cursor="{message.id}" partIndex={number} for all of it]'
            lines.append(f"[p{number}] {kind}: {text_shown}")
        return "\n".join(lines)

    def _part(self, message: _Message, number: int) -> str:
        if number >= len(message.parts):
            raise ToolFailure(f"message {message.id} has {len(message.parts)} parts, counted from 0")
        kind, text = message.parts[number]
        return f"[{message.id}] [p{number}] {kind}: {text}"

    def _within_budget(self, texts: list[str]) -> str:
        lines_shown: list[str] = []
        tokens_left = _MOST_TOKENS
        for number, text in enumerate(texts):
            tokens_left -= self._count(text)
            if tokens_left < 0 and lines_shown:
                lines_shown.append(
                    f"[{len(texts) - number} more left out: ask for fewer with limit, or with detail low]"
                )
                break
            if tokens_left < 0:
                cut = text[: _MOST_TOKENS * _CHARACTERS_PER_TOKEN]
                lines_shown.append(f"{cut}… [shortened: ask for one part with partIndex]")
                break
            lines_shown.append(text)
        return "\n\n".join(lines_shown)


def _place(messages: list[_Message], cursor: str) -> int:
    """The position of a cursor; for a range, as written in the notes, its beginning."""
    if not cursor:
        return 0
    for place_wanted in (cursor, cursor.partition(":")[0]):
        for number, message in enumerate(messages):
            if message.id == place_wanted:
                return number
    raise ToolFailure(f"there is no message {cursor!r} here; it may be in another thread (threadId)")


def _page(order: RecallArguments, place: int, length: int) -> tuple[int, int]:
    if order.page < 0:
        end = (place if order.cursor else length) - (-order.page - 1) * order.limit
        return max(0, end - order.limit), max(0, end)
    start = min(length, place + (max(1, order.page) - 1) * order.limit)
    return start, min(length, start + order.limit)


def _messages(entries: Sequence[TranscriptEntry]) -> list[_Message]:
    """Entries with the same id are one message."""
    messages: list[_Message] = []
    for entry in entries:
        parts = list(_parts(entry))
        if messages and messages[-1].id == entry.message_id:
            messages[-1].parts.extend(parts)
        elif parts:
            messages.append(_Message(entry.message_id, entry.created_ms, parts))
    return messages


def _parts(entry: TranscriptEntry) -> Iterator[tuple[str, str]]:
    turn = entry.turn
    match turn:
        case SystemTurn():
            return
        case UserTurn():
            yield "user", turn.text
        case ToolTurn():
            yield "tool result", turn.text
        case AssistantTurn():
            if turn.text.strip():
                yield "assistant", turn.text
            for call in turn.calls:
                yield f"tool call {call.name}", encode(call.input).decode()
    for attachment in () if isinstance(turn, AssistantTurn) else turn.attachments:
        yield "attachment", f"{attachment.name or 'a file'} ({attachment.media_type})"
