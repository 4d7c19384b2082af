"""Any session of this machine by its id: one that Harness has recorded, or one that an agent has stored itself."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from harness.clients.recorded_folder import has_odd_name, recorded_folder
from harness.clients.sessions.ids import find_ours, may_be_of_history, unknown
from harness.clients.sessions.named_logs import find_named
from harness.errors import UnknownAgent, UnknownSession, UsageError
from harness.events import Event
from harness.log.raw import RawStart, RawWriter, read_raw
from harness.log.store import Metadata, is_copy, read_batches
from harness.log.stores.files import FileStore

if TYPE_CHECKING:
    from harness.histories.catalogue_rows import CataloguedSession

_MOST_NAMED = 3


class AnySession(NamedTuple):
    agent: str
    """The agent's name; empty: unknown."""
    session_id: str
    """The agent's own id of it; empty: unknown."""
    cwd: str
    title: str
    store: FileStore
    log_id: str = ""
    """Of the log, where Harness has recorded it."""
    is_thread: bool = False
    """It is a conversation of Harness, which is continued in its own log."""
    stored: CataloguedSession | None = None

    @property
    def name(self) -> str:
        """An id under which every command finds it."""
        return self.log_id or f"{self.agent}:{self.session_id}"

    @property
    def rewound(self) -> int:
        """How many prompts were taken back, which are not in `current_batches`."""
        from harness.clients.sessions.histories import history_of

        if self.stored is None or (count := history_of(self.stored).rewound) is None:
            return 0
        return count(self.stored.stored)

    def current_batches(self) -> Iterator[Sequence[Event]]:
        """Its events as far as the agent's model knows them: without what was taken back. Secrets are masked."""
        if self.stored is None:
            yield from read_batches(self.store, self.log_id)
            return
        from harness.clients.sessions.histories import history_of
        from harness.histories.stored_log import StoredLog

        history = history_of(self.stored)
        history = replace(history, records=history.current or history.records)
        yield from StoredLog(history, self.stored.stored).batches()


def find_session(store: FileStore, text: str) -> AnySession:
    """`last`, the id of a log, the agent's own id of a session, `AGENT:ID`, or the beginning of an id.

    Raises UnknownSession.
    """
    log_id = find_ours(store, text)
    if log_id is not None:
        return _ours(store, store.metadata(log_id))
    if not may_be_of_history(text):
        raise unknown(store, text)
    from harness.clients.sessions.histories import HistorySessions, mark_of_copy

    log = _recorded(store, text)
    if log is not None and not is_copy(log):
        return _ours(store, log)
    original = HistorySessions().find(text)
    if log is not None:
        has_grown = original is not None and not original.gone_ms and original.mark != mark_of_copy(log)
        if not has_grown:
            return _ours(store, log)
    if original is None:
        raise unknown(store, text)
    if original.gone_ms:
        raise deleted(original)
    return AnySession(
        agent=original.agent,
        session_id=original.session_id,
        cwd=original.cwd,
        title=original.title or original.prompt,
        store=store,
        stored=original,
    )


def log_of_deleted(store: FileStore, session: CataloguedSession) -> Metadata:
    """What we have of a session that its agent has deleted: the copy, or else what was recorded of it last.

    Raises UnknownSession where there is neither.
    """
    name = session.agent, session.session_id
    logs = [log for log in find_named(store) if name in log.names_of_agents()]
    if not logs:
        raise deleted(session)
    return max(logs, key=lambda log: (is_copy(log), log.updated_ms))


def deleted(session: CataloguedSession) -> UnknownSession:
    """The error for a session that its agent has deleted, and of which nothing was kept."""
    day = time.strftime("%Y-%m-%d", time.localtime(session.gone_ms / 1000))
    return UnknownSession(
        f"{session.agent} has deleted this session: it was missing first on {day}",
        hint=f"nothing was kept of it; `harness sessions keep --agent {session.agent}` copies what is there",
    )


def is_deleted(session: AnySession) -> bool:
    """Whether this is a copy of a session that its agent does not have any more, and cannot resume."""
    from harness.clients.sessions.histories import HistorySessions

    if not session.log_id or not is_copy(session.store.metadata(session.log_id)):
        return False
    original = HistorySessions().exactly(session.agent, session.session_id)
    return original is None or bool(original.gone_ms)


def _ours(store: FileStore, metadata: Metadata) -> AnySession:
    return AnySession(
        agent=metadata.agent_name,
        session_id=metadata.agent_session_id,
        cwd=metadata.cwd,
        title=metadata.name or metadata.prompt,
        store=store,
        log_id=metadata.session_id,
        is_thread=metadata.kind == "thread" and not is_copy(metadata),
    )


def _recorded(store: FileStore, text: str) -> Metadata | None:
    """The newest log of the agent's session of that id, or of a beginning of it."""
    from harness.agents.registry import load

    agent, colon, wanted_id = text.strip().rpartition(":")
    if colon:
        try:
            agent = load(agent).name
        except UnknownAgent as error:
            raise UnknownSession(error.message, hint=error.hint) from error
    named_sessions = [(log, name) for log in find_named(store) for name in log.names_of_agents()]
    named_sessions = [(log, name) for log, name in named_sessions if agent in ("", name[0])]
    matches = [(log, name) for log, name in named_sessions if name[1] == wanted_id]
    matches = matches or [(log, name) for log, name in named_sessions if name[1].startswith(wanted_id)]
    names = dict.fromkeys(name for _, name in matches)
    if len(names) > 1:
        some = ", ".join(":".join(name) for name in list(names)[:_MOST_NAMED])
        hint = "give more characters of the id, or AGENT:ID"
        raise UnknownSession(f"{len(names)} sessions begin with {wanted_id}: {some}", hint=hint)
    return max((log for log, _ in matches), key=lambda log: log.updated_ms, default=None)


def model_of_session(session: AnySession) -> str:
    """The name under which its agent takes the model that it has worked with; empty where that is not known.

    It is what was asked for when it was recorded, or what the agent has stored, where it takes models by that name. The
    name of a model behind a gateway is that of its provider, which the agent itself does not know.
    """
    from harness.histories.registry import load

    metadata = session.store.metadata(session.log_id) if session.log_id else None
    if metadata is not None and _asks_a_model_itself(session.agent):
        return metadata.model
    if metadata is not None and not is_copy(metadata):
        return _requested_model(session.store.path(session.log_id, RawWriter.suffix))
    history = load(session.agent)
    if history is None or not history.takes_stored_model:
        return ""
    return metadata.model if metadata is not None else session.stored.model if session.stored else ""


def _asks_a_model_itself(agent: str) -> bool:
    """Such an agent runs in a process of Harness: it has no raw record, and its log has the model by its whole name."""
    from harness.agents.registry import load

    agent_found = load(agent)
    return agent_found.work is not None and "model" in agent_found.supports


def _requested_model(path: str) -> str:
    try:
        start = next(read_raw(path), None)
    except OSError:  # it is gone
        return ""
    if not isinstance(start, RawStart):
        return ""
    provider = start.gateway.provider if start.gateway is not None else ""
    return "" if provider and start.model.startswith(f"{provider}/") else start.model


def require_folder(session: AnySession, folder_given: str) -> str:
    """Where a session is continued: its own directory, or the given one. Raises UsageError."""
    if folder_given:
        return folder_given
    folder = recorded_folder(session.cwd) if session.cwd else ""
    if session.cwd and not folder:
        is_odd = has_odd_name(session.cwd)  # then it may well be there
        what = "has a name that is not UTF-8, and was not found" if is_odd else "was deleted"
        raise UsageError(
            f"the directory of this session {what}: {session.cwd}", hint="name another one with --cwd DIR"
        )
    return folder
