"""What was said in an earlier session, for a run that goes on with it in a log of its own."""

from __future__ import annotations

from typing import NamedTuple

from harness.errors import UnknownSession
from harness.events import SessionStart
from harness.log.hub import Hub
from harness.log.store import Metadata, Store, read_all
from harness.sources.loop.history import history
from harness.sources.model import Turn
from harness.sources.request import Request


class EarlierSession(NamedTuple):
    session_id: str = ""
    """Under which the run goes on; empty when it begins a session."""
    turns: tuple[Turn, ...] = ()


def earlier_session(request: Request, hub: Hub) -> EarlierSession:
    """What `--resume` and `--continue` ask for; nothing when neither was given. Raises UnknownSession.

    A session of our own may span several logs, each of which tells its id; the log of any other agent can be
    gone on with as well, in a session of its own.
    """
    if not request.resume and not request.continue_last:
        return EarlierSession()
    if request.resume and _is_in(hub, request.resume):
        return EarlierSession(request.resume, tuple(history(read_all(hub.store, hub.log_id)).turns))
    known = [one for one in hub.store.list() if one.session_id != hub.log_id]
    found = _resumed(request, known) if request.resume else _last(request, known)
    if found.kind == "thread" or found.agent_name != request.agent:
        return EarlierSession("", _turns_in(hub.store, [found.session_id]))
    session_id = _session_of(found)
    logs = [
        one.session_id for one in known if one.agent_name == request.agent and _session_of(one) == session_id
    ]
    return EarlierSession(session_id, _turns_in(hub.store, sorted(logs)))


def _is_in(hub: Hub, session_id: str) -> bool:
    """Whether the log that the run is written into has that session itself: a thread goes on."""
    return any(
        isinstance(event, SessionStart) and event.session_id == session_id
        for event in read_all(hub.store, hub.log_id)
    )


def _resumed(request: Request, known: list[Metadata]) -> Metadata:
    """By the session's id, the log's, or the beginning of the log's when it fits one log alone."""
    wanted = request.resume
    for one in known:
        if wanted in (one.session_id, _session_of(one)):
            return one
    begun = [one for one in known if one.session_id.startswith(wanted)]
    if len(begun) != 1:
        many = f"{len(begun)} sessions begin with {wanted}" if begun else f"unknown session: {wanted}"
        raise UnknownSession(many, hint="`harness sessions list` shows what there is")
    return begun[0]


def _last(request: Request, known: list[Metadata]) -> Metadata:
    for one in known:
        if one.agent_name == request.agent and one.cwd == request.cwd and one.kind == "run":
            return one
    raise UnknownSession(
        f"there is no earlier session in {request.cwd}",
        hint="begin one without --continue, or use --resume ID",
    )


def _session_of(metadata: Metadata) -> str:
    return metadata.agent_session_id or metadata.session_id


def _turns_in(store: Store, log_ids: list[str]) -> tuple[Turn, ...]:
    turns: list[Turn] = []
    for log_id in log_ids:
        turns = history(read_all(store, log_id), turns).turns
    return tuple(turns)
