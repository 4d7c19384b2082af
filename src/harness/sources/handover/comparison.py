"""Whether a session that was written is the conversation that was to be written: read back as any session of its agent."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import zip_longest

from msgspec.structs import replace

from harness.errors import StoreError
from harness.sources.handover.conversation import (
    NO_OUTPUT,
    HandedCall,
    HandedConversation,
    HandedPrompt,
    conversation_of,
)
from harness.sources.handover.writer import Delivered, HandoverPlace, HandoverWriter
from harness.sources.imports.history import StoredSession
from harness.sources.imports.registry import load
from harness.sources.imports.stored_log import StoredLog

_SHOWN = 80


def stored_conversation(writer: HandoverWriter, place: HandoverPlace, made: Delivered) -> HandedConversation:
    """Raises StoreError if the agent's store has no such session."""
    history = load(writer.agent)
    assert history is not None, f"the sessions of {writer.agent} can be read"
    session: StoredSession | None
    if writer.importing:
        session = next((one for one in history.find(place.home) if one.session_id == made.session_id), None)
    elif writer.as_text:  # its ids are made of where a file is
        home = replace(place.home, projects=(os.path.dirname(made.file),))
        session = next(history.find(home), None)
    else:
        session = StoredSession(
            agent=writer.agent, session_id=made.session_id, path=made.file, mark="", changed_ms=0
        )
    if session is None:
        raise StoreError(f"{writer.agent} has no session {made.session_id} ")
    return conversation_of(StoredLog(history, session, redact=False).events())


def differences(expected: HandedConversation, found: HandedConversation, writer: HandoverWriter) -> list[str]:
    """In words: what is not the same. Empty if all of it is."""
    if writer.as_text:
        return _as_text(expected, found)
    pairs = zip_longest(_said(expected, writer), _said(found, writer))
    return [
        f"{_shown(wanted)} became {_shown(given)}"
        for wanted, given in pairs
        if wanted is None or given is None or not _is_same(wanted, given, writer)
    ]


def _is_same(wanted: tuple[str, str], given: tuple[str, str], writer: HandoverWriter) -> bool:
    if wanted == given:
        return True
    is_alike = given[1] in wanted[1] or wanted[1] in given[1] or given[1] == NO_OUTPUT
    return not writer.keeps_outputs and wanted[0] == given[0] and wanted[0].endswith("call") and is_alike


def _said(conversation: HandedConversation, writer: HandoverWriter) -> Iterator[tuple[str, str]]:
    for turn in conversation.turns:
        if isinstance(turn, HandedPrompt):
            yield "prompt", turn.text.strip()
            continue
        if turn.text.strip():
            yield "answer", turn.text.strip()
        yield from ((_kind(call, writer), call.output.strip()) for call in turn.calls)


def _kind(call: HandedCall, writer: HandoverWriter) -> str:
    return "failed call" if call.has_failed and writer.keeps_failures else "call"


def _as_text(expected: HandedConversation, found: HandedConversation) -> list[str]:
    """Calls are words there: each output must be among them, in its order."""
    text = _words("\n".join(turn.text for turn in found.turns))
    wanted = [
        part
        for turn in expected.turns
        for part in (
            turn.text,
            *(() if isinstance(turn, HandedPrompt) else (call.output for call in turn.calls)),
        )
    ]
    position, missing = 0, list[str]()
    for part in filter(None, map(_words, wanted)):
        at = text.find(part, position)
        if at < 0:
            missing.append(f"{_shown(('text', part))} is missing")
        else:
            position = at
    return missing


def _words(text: str) -> str:
    """Without what only lays it out."""
    return " ".join(text.split())


def _shown(item: tuple[str, str] | None) -> str:
    return "nothing" if item is None else f"{item[0]} {item[1][:_SHOWN]!r}"
