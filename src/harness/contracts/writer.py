"""The contract of a writer: how a conversation becomes a session of one agent, and how the agent continues it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
from msgspec.structs import replace

from harness.contracts.agent import Version
from harness.contracts.conversation import (
    HandedAnswer,
    HandedCall,
    HandedConversation,
    HandedPrompt,
    Losses,
)
from harness.contracts.history import Home
from harness.contracts.own_tools import OwnCall, ToolTable, own_call
from harness.contracts.request import Request
from harness.log.codec import storable


class NewIds:
    """New ids, derived from a seed: the same input gives the same bytes.

    Each call gives another id, of letters, digits, `_` and `-` only, as every model API takes them.
    """

    def __init__(self, seed: str) -> None:
        self._seed = seed
        self._count = 0

    def hex(self, length: int) -> str:
        self._count += 1
        return sha256(f"{self._seed} {self._count}".encode()).hexdigest()[:length]

    def uuid(self) -> str:
        return str(UUID(hex=self.hex(32), version=4))

    def uuid7(self, at_ms: int) -> str:
        """An id that begins with its time."""
        rest = bytearray(bytes.fromhex(self.hex(20)))
        rest[0] = 0x70 | rest[0] & 0x0F
        rest[2] = 0x80 | rest[2] & 0x3F
        return str(UUID(bytes=at_ms.to_bytes(6, "big") + bytes(rest)))

    def named(self, prefix: str) -> str:
        """`toolu_`, `call_` …"""
        return f"{prefix}{self.hex(24)}"


_ENCODER = msgspec.json.Encoder(enc_hook=str)


class HandoverPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Where the conversation is to be continued."""

    home: Home
    cwd: str
    """Absolute, without links: agents name their folders after it."""
    folder: str
    """One of our own, for files that the agent is given by their path."""
    session_id: str
    """The new session's."""
    version: str = ""
    """Of the target; empty when it is not known."""
    model: str = ""
    """That the target is to use; empty: its own choice."""

    @property
    def project(self) -> str:
        """The name that several agents give to the folder of a working directory."""
        return re.sub(r"[^A-Za-z0-9]", "-", self.cwd)


class NewFile(NamedTuple):
    path: str
    data: bytes


class Delivered(msgspec.Struct, frozen=True, kw_only=True):
    """A session that was made."""

    session_id: str
    file: str
    """The first of its files."""


class HandoverWriter(msgspec.Struct, frozen=True, kw_only=True):
    """Contract: `files` is pure and never raises on a conversation; all ids in them are new."""

    agent: str
    tools: ToolTable
    files: Callable[[HandedConversation, HandoverPlace], list[NewFile]]
    """The first one is the session itself."""
    new_id: Callable[[NewIds, int], str] = lambda ids, _at_ms: ids.uuid()
    """Ids and the time → the id of the new session."""
    importing: tuple[str, ...] = ()
    """Arguments with which the agent's program imports `{file}`; empty: it finds the file, or is given its path."""
    imported_id: str = ""
    """A pattern for the id that its import prints, where it makes one of its own."""
    removing: tuple[str, ...] = ()
    """Arguments with which the agent's program deletes the session `{id}` of its store, where it can."""
    resume_args: tuple[str, ...] = ()
    """Arguments that continue it, with `{id}` and `{file}`; empty: it is resumed as any session of the agent."""
    since: Version = ()
    """The first version that was tried."""
    proven: Version
    """The last version that was tried. Later series of versions get a briefing, unless a session is asked for."""
    is_held: bool = False
    """Whether it was tried with a program that is held in a conversation, which is given the id alone."""
    keeps_failures: bool = True
    """Whether its sessions say which calls have failed."""
    keeps_outputs: bool = True
    """Whether its sessions show every output as it was; else some are shown in part, or with words before them."""
    as_text: bool = False
    """Its sessions have no calls: they become words of the answer."""

    def is_proven(self, version: Version) -> bool:
        """Later ones of the same series (2.1) count."""
        return bool(version) and version >= self.since and version[:2] <= self.proven[:2]

    def resumed(self, request: Request, delivered: Delivered) -> Request:
        """The request, continuing the session that was made."""
        if not self.resume_args:
            return replace(request, resume=delivered.session_id)
        values = {"{id}": delivered.session_id, "{file}": delivered.file}
        args = (values.get(argument, argument) for argument in self.resume_args)
        return replace(request, extra_args=(*request.extra_args, *args))


def origin_note(conversation: HandedConversation) -> str:
    """The words that the new session begins with: where it comes from, and what is missing."""
    name = " ".join(filter(None, (conversation.agent or "another agent", conversation.version)))
    session = f"session {conversation.session_id}" if conversation.session_id else "a session without an id"
    about = [f"Handed over from {name}", session, f"{len(conversation.turns)} messages"]
    return f"[{', '.join([*about, *_missing(conversation.losses)])}]"


def _missing(losses: Losses) -> Iterator[str]:
    counts = {
        "older messages left out": losses.left_out,
        "outputs shortened": losses.shortened,
        "images and files left out": losses.files,
        "calls without a result": losses.no_result,
    }
    if losses.is_compacted:
        yield "the beginning as a summary"
    yield from (f"{count} {what}" for what, count in counts.items() if count)
    if losses.reasoning:
        yield "reasoning left out"


def with_origin(conversation: HandedConversation) -> HandedConversation:
    """With the note before the first words of the person, or in place of them."""
    note = origin_note(conversation)
    first = conversation.turns[0] if conversation.turns else None
    if isinstance(first, HandedPrompt):
        prompt = replace(first, text=f"{note}\n\n{first.text}")
        return replace(conversation, turns=(prompt, *conversation.turns[1:]))
    prompt = HandedPrompt(text=note, at_ms=conversation.started_ms)
    return replace(conversation, turns=(prompt, *conversation.turns))


class NewCall(NamedTuple):
    """A call as the target would have made it, with a new id."""

    id: str
    name: str
    input: dict[str, Any]
    handed: HandedCall
    """With its times and its result."""


class SessionText:
    """What the writers of all agents need: new ids, times, and calls as the target would have made them."""

    def __init__(
        self, conversation: HandedConversation, place: HandoverPlace, target: str, tools: ToolTable
    ) -> None:
        self.ids: NewIds = NewIds(place.session_id)
        self._source = conversation.agent
        self._target = target
        self._tools = tools

    def call(self, call: HandedCall) -> OwnCall:
        return own_call(call, self._tools, source=self._source, target=self._target)

    def object_call(self, call: HandedCall) -> tuple[str, dict[str, Any]]:
        """For agents all of whose tools take objects."""
        name, arguments = self.call(call)
        return name, arguments if isinstance(arguments, dict) else {"input": arguments}

    def calls(self, turn: HandedAnswer, new_id: Callable[[], str] | None = None) -> list[NewCall]:
        """The calls of an answer, for agents all of whose tools take objects. Their ids are `call_…` by default."""
        new_calls: list[NewCall] = []
        for call in turn.calls:
            call_id = self.ids.named("call_") if new_id is None else new_id()
            new_calls.append(NewCall(call_id, *self.object_call(call), call))
        return new_calls


def json_text(value: Any) -> str:
    return _encoded(value).decode()


def json_lines(records: list[dict[str, Any]]) -> bytes:
    return b"".join(_encoded(record) + b"\n" for record in records)


def _encoded(value: Any) -> bytes:
    try:
        return _ENCODER.encode(value)
    except UnicodeEncodeError:  # half a character
        return _ENCODER.encode(storable(value))


def iso(at_ms: int) -> str:
    """2026-11-15T19:28:30.123Z"""
    moment = datetime.fromtimestamp(at_ms // 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{at_ms % 1000:03d}Z"


def title_of(conversation: HandedConversation) -> str:
    """A short line."""
    text = next((prompt.text for prompt in conversation.prompts), "")
    text = text.partition("]\n\n")[2] if text.startswith("[Handed over") else text
    line = " ".join(text.split())
    return line[:60] or "Handed over"
