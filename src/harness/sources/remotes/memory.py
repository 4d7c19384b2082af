"""What an agent in a sandbox runner is to know of a conversation: its own session there, or what was said, in words."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from harness.events import SessionStart
from harness.log.hub import Hub
from harness.log.store import read_all
from harness.sources.loop.history import history
from harness.sources.model import AssistantTurn, ToolTurn, Turn, UserTurn
from harness.sources.process.launch import Launch
from harness.sources.remotes.places import RemotePlace

_MOST_CHARACTERS = 60_000
_MOST_OF_A_RESULT = 2_000
_OPENING = (
    "This conversation went on elsewhere, and you have not seen that. What was said and done there, in order"
    " (long results are shortened):"
)


class RemoteMemory(NamedTuple):
    session_id: str = ""
    """To go on with."""
    words: str = ""
    """To be told besides, of what that session has not seen."""
    tell_all: Callable[[], str] = str

    def in_words(self) -> RemoteMemory:
        """The same for a runner that does not know the session any more."""
        return RemoteMemory(words=self.tell_all())


def remembered(launch: Launch, hub: Hub, place: RemotePlace) -> RemoteMemory:
    """A run with a log of its own goes on with what it was told to go on with. In a thread, the session may be one of
    another runner, or of another agent there.
    """
    resume = launch.request.resume
    if not launch.run_id or not resume:
        return RemoteMemory(session_id=resume)

    def tell(cursor: int = 0) -> str:
        return briefing(history(read_all(hub.store, hub.log_id, cursor)).turns)

    session_id, unseen_from = "", 0
    for event in read_all(hub.store, hub.log_id):
        if not isinstance(event, SessionStart) or event.parent_id or not event.runner:
            continue
        if (event.runner, event.agent) == (place.name, place.agent):
            session_id, unseen_from = event.session_id, -1
        elif unseen_from < 0:
            unseen_from = event.seq
    if not session_id:
        return RemoteMemory(words=tell())
    return RemoteMemory(session_id, tell(unseen_from) if unseen_from >= 0 else "", tell)


def briefing(turns: list[Turn]) -> str:
    """Empty when nothing was said; the last of it where it is too much."""
    parts = [part for turn in turns if (part := _told(turn))]
    kept, size = list[str](), 0
    for part in reversed(parts):
        size += len(part)
        if size > _MOST_CHARACTERS:
            kept.append(f"[{len(parts) - len(kept)} earlier messages and results are left out]")
            break
        kept.append(part)
    return "\n\n".join([_OPENING, *reversed(kept)]) if kept else ""


def _told(turn: Turn) -> str:
    match turn:
        case UserTurn():
            files = [f"[attached: {one.name or one.media_type}]" for one in turn.attachments]
            return "\n".join([f"User: {turn.text}", *files])
        case AssistantTurn():
            calls = [f"[called {call.name}: {str(call.input)[:_MOST_OF_A_RESULT]}]" for call in turn.calls]
            return "\n".join(filter(None, [f"Agent: {turn.text}" if turn.text else "", *calls]))
        case ToolTurn():
            return f"[result: {turn.text[:_MOST_OF_A_RESULT]}]"
        case _:
            return ""
