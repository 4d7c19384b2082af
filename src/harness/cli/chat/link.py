"""The session of a terminal: a conversation of this process, or one of another process of the same user."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from msgspec.structs import replace

from harness.clients.commands import Command, Configuration, Configure
from harness.clients.conversations.backend import ConversationStatus, Setup
from harness.clients.conversations.local_socket import LocalSocketClient
from harness.clients.conversations.log_tail import LogTail
from harness.clients.conversations.own_conversations import OwnConversations
from harness.log.store import Store
from harness.session.open_thread import complete

if TYPE_CHECKING:
    from harness.session.mcp_servers import McpStatus


class ChatLink(Protocol):
    """Contract: used by one thread; its `wake` is called from any thread when something has changed."""

    log_id: str
    """Empty until there is a session."""
    is_own: bool
    """Whether it ends with this process."""

    @property
    def is_open(self) -> bool:
        """Whether the session can still take commands."""
        ...

    def send(self, command: Command) -> None:
        """Raises HarnessError for what cannot be done."""
        ...

    def status(self) -> ConversationStatus: ...

    def tail(self, cursor: int) -> LogTail:
        """The log from there on."""
        ...

    @property
    def store(self) -> Store:
        """Where its log is."""
        ...

    def close(self) -> None: ...


class LocalLink:
    """Conversations of this process, in an event loop of their own. The session is created by its first command."""

    def __init__(self, store: Store, setup: Setup, wake: Callable[[], object]) -> None:
        """Raises UsageError for an invalid setup."""
        self.log_id = ""
        self.is_own = True
        self.setup = setup
        self._first_folder = os.path.realpath(setup.cwd)
        self._store = store
        self._wake = wake
        self._own = OwnConversations(store, lambda: setup, wake)
        self._own.check(setup)

    def open(self, log_id: str, changes: Mapping[str, Any]) -> None:
        """Continue a session: itself if it is a conversation, else in a new one with its history.

        `changes`: fields of its setup that are no longer to be what they were.
        """
        metadata = self._store.metadata(log_id)
        before = self.log_id
        if metadata.kind != "thread":
            log_id = self._own.create(replace(self._setup_now(), continues=log_id))
        else:
            complete(self._store, log_id)  # what a process that died has asked takes no answer any more
        if before and before != log_id:
            self._own.unload(before)
        if changes and metadata.kind == "thread":
            self._own.change(log_id, changes)
        self._own.reach(log_id)
        self.log_id = log_id

    def rewind(self, message_id: str) -> None:
        """Go on from before that message of the user, in a new session; the one so far stays. Raises HarnessError."""
        before = self.log_id
        log_id = self._own.create(replace(self._setup_now(), continues=before, before=message_id))
        self._own.unload(before)
        self.log_id = log_id

    def leave(self) -> None:
        """Leave the session; the next command begins another one, set up as this one is now."""
        self.setup = self._setup_now()
        self._own.unload(self.log_id)
        self.log_id = ""

    def _setup_now(self) -> Setup:
        """How the session is had, by now: model, mode and rights may have been changed since the chat began."""
        from harness.clients.conversations.conversation import setup_of

        if not self.log_id:
            return self.setup
        setup = setup_of(self._store.metadata(self.log_id))
        if (
            os.path.realpath(setup.cwd) != self._first_folder
        ):  # what was said of the settings of that folder does not hold for this one
            setup = replace(setup, folder_settings=setup.folder_settings or "none")
        return setup

    def mcp_servers(self) -> dict[str, McpStatus]:
        """Those of the built-in agent, by name. They are started with the session."""
        return self._own.mcp_servers(self.log_id)

    def send(self, command: Command) -> None:
        if not self.log_id and isinstance(command, Configure):
            self._configure(command.config)
            return
        if not self.log_id:
            self.log_id = self._own.create(self.setup)
        self._own.carry_out(self.log_id, command)

    def _configure(self, config: Configuration) -> None:
        changes = {
            name: value for name in config.__struct_fields__ if (value := getattr(config, name)) is not None
        }
        setup = replace(self.setup, **changes)
        self._own.check(setup)
        self.setup = setup

    @property
    def is_open(self) -> bool:
        return True

    def status(self) -> ConversationStatus:
        """From any thread: it only reads."""
        return self._own.status(self.log_id) if self.log_id else ConversationStatus(can_submit=True)

    def tail(self, cursor: int) -> LogTail:
        return LogTail(self._store, self.log_id, self._own.hub, self._wake, cursor)

    @property
    def store(self) -> Store:
        return self._store

    def close(self) -> None:
        """Stops what runs."""
        self._own.close()


class SocketLink:
    """A session of another process."""

    def __init__(self, store: Store, log_id: str, wake: Callable[[], object]) -> None:
        """Raises OSError when it cannot be reached."""
        self.log_id = log_id
        self.is_own = False
        self._store = store
        self._wake = wake
        self._client = LocalSocketClient(log_id, wake)

    @property
    def is_open(self) -> bool:
        return self._client.is_open

    def send(self, command: Command) -> None:
        self._client.send(command)

    def status(self) -> ConversationStatus:
        return self._client.status

    def tail(self, cursor: int) -> LogTail:
        return LogTail(self._store, self.log_id, _no_hub, self._wake, cursor)

    @property
    def store(self) -> Store:
        return self._store

    def close(self) -> None:
        self._client.close()


def _no_hub(log_id: str) -> None:
    """It is written elsewhere."""
    del log_id
