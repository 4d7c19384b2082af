"""A socket for a session of this process: other programs of the same user send it commands.

Who may connect: only the owner can enter the folder of the sockets, and the other end must be a process of the same
user that this process has not started. Without that rule, an agent could allow its own calls.

On the wire, one JSON object a line. In: `{"type": "commands", "commands": […]}` (`clients/commands.py`); out:
`{"status": {…}}` when it has changed, and `{"status": {…}, "errors": […]}` once for every line that came in.
"""

from __future__ import annotations

import os
import socket
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from harness.clients.commands import (
    AnswerCommand,
    Approve,
    BadCommands,
    Cancel,
    Command,
    Commands,
    Deny,
    Steer,
    read,
)
from harness.clients.conversations.backend import ConversationStatus
from harness.config import data_directory
from harness.errors import HarnessError, UsageError
from harness.folds.inbox.asks import check_shown
from harness.log.private_files import make_private_directory
from harness.log.run_tree import RunTree
from harness.system.contract import system

if TYPE_CHECKING:
    from harness.runs.run import Run

_SUFFIX = ".sock"
_LONGEST_PATH = 96
"""Of the address of a socket."""
_SHORT_PLACE = "/tmp"  # noqa: S108 a folder of our own is made there
_LONGEST_LINE = 1024 * 1024
_MOST_CONNECTIONS = 8
_TIMEOUT_S = 10.0
"""For a client that does not read, and for an answer."""


class _StatusMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    status: ConversationStatus
    errors: list[str] | None = None
    """None: the status has changed, and no command is answered."""


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_StatusMessage).decode


class LocalSocketServer:
    """Contract: `carry_out` and `status` are called from threads of its own. When the socket cannot be made, nothing is
    raised, and `is_open` is False.
    """

    def __init__(
        self, log_id: str, carry_out: Callable[[Command], None], status: Callable[[], ConversationStatus]
    ) -> None:
        self._carry_out = carry_out
        self._status = status
        self._name = f"{log_id}{_SUFFIX}"
        self._connections: dict[socket.socket, threading.Lock] = {}
        self._listener: socket.socket | None = None
        self._has_changed = threading.Event()
        with suppress(OSError):
            self._listener = self._listen()
            for target in (self._accept, self._notify):
                threading.Thread(target=target, name="channel", daemon=True).start()

    @property
    def is_open(self) -> bool:
        return self._listener is not None

    def notify(self) -> None:
        """The status has changed. Returns at once, from any thread."""
        self._has_changed.set()

    def _notify(self) -> None:
        while self.is_open:
            self._has_changed.wait()
            self._has_changed.clear()
            for connection in list(self._connections):
                self._write(connection, _encode(_StatusMessage(status=self._status())) + b"\n")

    def close(self) -> None:
        listener, self._listener = self._listener, None
        if listener is None:
            return
        self._has_changed.set()
        with suppress(OSError), _folder() as folder:
            os.unlink(self._name, dir_fd=folder)
        for connection in (listener, *self._connections):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()

    def _listen(self) -> socket.socket:
        make_private_directory(_folder_path())
        with _folder() as folder:
            _remove(f"{self._name}.new", folder)
            listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                # It gets its name when it listens: a socket that refuses was left behind, and is removed.
                with _address(folder, f"{self._name}.new") as address:
                    listener.bind(address)
                listener.listen(_MOST_CONNECTIONS)
                os.rename(f"{self._name}.new", self._name, src_dir_fd=folder, dst_dir_fd=folder)
            except OSError:
                listener.close()
                raise
        return listener

    def _accept(self) -> None:
        while (listener := self._listener) is not None:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            if len(self._connections) >= _MOST_CONNECTIONS or not _is_allowed(connection):
                connection.close()
                continue
            connection.settimeout(_TIMEOUT_S)
            self._connections[connection] = threading.Lock()
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            self._write(connection, _encode(_StatusMessage(status=self._status())) + b"\n")
            for line in _lines(connection):
                errors = self._carry_out_line(line)
                self._write(connection, _encode(_StatusMessage(status=self._status(), errors=errors)) + b"\n")
        finally:
            self._connections.pop(connection, None)
            connection.close()

    def _carry_out_line(self, line: bytes) -> list[str]:
        try:
            for command in read(line):
                self._carry_out(command)
        except HarnessError as error:
            return [error.words]
        except BadCommands as error:
            return [str(error)]
        return []

    def _write(self, connection: socket.socket, data: bytes) -> None:
        lock = self._connections.get(connection)
        if lock is None:
            return
        try:
            with lock:
                connection.sendall(data)
        except OSError:  # it is closed, or does not read
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class LocalSocketClient:
    """The other end. Contract: thread-safe; `on_change` is called from a thread of its own."""

    def __init__(
        self, log_id: str, on_change: Callable[[], object], *, timeout_s: float = _TIMEOUT_S
    ) -> None:
        """`timeout_s`: for the answer to a command. Raises OSError when the session has no socket."""
        self._timeout_s = timeout_s
        self.status = ConversationStatus()
        self.is_open = True
        self._on_change = on_change
        self._answers: list[list[str]] = []
        self._changed = threading.Condition()
        self._sending = threading.Lock()
        """An answer belongs to the command that was sent last."""
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._connect(f"{log_id}{_SUFFIX}")
        except OSError:
            self._socket.close()
            raise
        threading.Thread(target=self._listen, name="channel", daemon=True).start()

    def _connect(self, name: str) -> None:
        with _folder() as folder:
            try:
                with _address(folder, name) as address:
                    self._socket.connect(address)
            except ConnectionRefusedError:  # its program was killed
                _remove(name, folder)
                raise

    def send(self, command: Command) -> None:
        """Raises HarnessError for what cannot be done, also because the session has ended."""
        with self._sending:
            errors = self._send(command)
        if errors:
            raise UsageError(errors[0])

    def _send(self, command: Command) -> list[str]:
        try:
            self._socket.sendall(_encode(Commands([command])) + b"\n")
        except OSError as error:
            raise _ended() from error
        with self._changed:
            is_answered = self._changed.wait_for(lambda: self._answers or not self.is_open, self._timeout_s)
            if self._answers:
                return self._answers.pop(0)
        if is_answered:
            raise _ended()
        self.close()  # else its late answer would be taken for that of the next command
        raise UsageError("it does not answer", hint="look at the session, then try again")

    def close(self) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _listen(self) -> None:
        for line in _lines(self._socket):
            try:
                message = _decode(line)
            except msgspec.DecodeError:
                break  # of another version
            with self._changed:
                self.status = message.status
                if message.errors is not None:
                    self._answers.append(message.errors)
                self._changed.notify_all()
            self._on_change()
        with self._changed:
            self.is_open = False
            self.status = ConversationStatus()
            self._changed.notify_all()
        self._on_change()


def reachable_ids() -> set[str]:
    """The sessions that have a socket; its process may have died."""
    try:
        with _folder() as folder:
            names = os.listdir(folder)
    except OSError:
        return set()
    return {name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX)}


def _ended() -> UsageError:
    return UsageError("the session has ended", hint="`harness chat --resume ID` continues it")


def _is_allowed(connection: socket.socket) -> bool:
    """Whether it was not started by this process. Only the owner can enter the folder."""
    peer = system.peer(connection)
    if peer is None:
        return True  # the system does not report the other process
    pid, uid = peer
    return uid == os.getuid() and pid not in system.descendants()[0]


def _lines(connection: socket.socket) -> Iterator[bytes]:
    """Until it is closed, or a line is too long."""
    rest = b""
    while len(rest) <= _LONGEST_LINE:
        try:
            block = connection.recv(65_536)
        except TimeoutError:
            continue
        except OSError:
            return
        if not block:
            return
        *lines, rest = (rest + block).split(b"\n")
        yield from lines


def _folder_path() -> str:
    return os.path.join(data_directory(), "live")


@contextmanager
def _folder() -> Iterator[int]:
    """The folder of the sockets. Raises OSError unless only its owner can enter it."""
    folder = os.open(_folder_path(), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        status = os.fstat(folder)
        if status.st_uid != os.getuid() or stat.S_IMODE(status.st_mode) & 0o077:
            raise PermissionError(f"{_folder_path()} is not private")
        yield folder
    finally:
        os.close(folder)


def _remove(name: str, folder: int) -> None:
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)


@contextmanager
def _address(folder: int, name: str) -> Iterator[str]:
    """A path of it that a socket can have: where the folder's own is too long, through a link that only we can replace."""
    path = os.path.join(_folder_path(), name)
    if len(os.fsencode(path)) <= _LONGEST_PATH:
        yield path
    elif short := system.descriptor_path(folder):
        yield f"{short}/{name}"
    else:
        from tempfile import TemporaryDirectory

        with TemporaryDirectory(prefix="h", dir=_SHORT_PLACE) as place:
            os.symlink(_folder_path(), f"{place}/d")
            yield f"{place}/d/{name}"


# The commands that a run of `harness run` accepts.


def carry_out_in_run(run: Run, command: Command) -> None:
    """Raises UsageError for what cannot be done."""
    if isinstance(command, Approve | Deny | AnswerCommand) and command.arguments_hash:
        _check_shown(run, command.relay_id, command.arguments_hash)
    match command:
        case Steer():
            run.steer(command.message)
        case Cancel():
            run.cancel()
        case Approve():
            _check(
                run.reply(command.relay_id, approved=True, always=command.always, choice=command.option_id)
            )
        case Deny():
            _check(run.reply(command.relay_id, approved=False, reason=command.reason))
        case AnswerCommand():
            _check(_answer(run, command))
        case _:
            raise UsageError(
                "a run takes no further prompts and no changes",
                hint="`harness chat --resume ID` continues it when it has ended",
            )


def status_of_run(run: Run) -> ConversationStatus:
    is_running = not run.is_ended
    return ConversationStatus(
        is_running=is_running, can_steer=run.is_steerable, can_answer=is_running, can_cancel=is_running
    )


def _answer(run: Run, command: AnswerCommand) -> bool:
    answer = command.answer
    if isinstance(answer, dict) and answer.get("action") == "rejected":
        return run.reply(
            command.relay_id, approved=False, answer=answer, reason=str(answer.get("feedback") or "")
        )
    return run.reply(command.relay_id, approved=True, answer=answer)


def _check_shown(run: Run, relay_id: str, shown_hash: str) -> None:
    follower = run.hub.follower()
    tree = RunTree()
    try:
        while batch := follower.poll():
            for event in batch:
                tree.feed(event)
    finally:
        follower.close()
    relay = tree.open_relays.get(relay_id)
    if relay is not None:
        check_shown(relay, shown_hash)


def _check(is_answered: bool) -> None:
    if not is_answered:
        raise UsageError("no question with this id is waiting for an answer", hint="the first answer counts")


_TRIED_AGAIN_S = 3.0


class LiveLinks:
    """Sessions of other processes that take commands over a local socket: those of `harness chat` and `harness run`.

    Contract: thread-safe; `on_change` is called from other threads with the id of a session whose status
    has changed. `status` never waits.
    """

    def __init__(self, on_change: Callable[[str], object]) -> None:
        self._on_change = on_change
        self._lock = threading.Lock()
        self._links: dict[str, LocalSocketClient] = {}
        self._tried_s: dict[str, float] = {}
        self._is_closed = False

    def status(self, log_id: str) -> ConversationStatus | None:
        """None: it takes no commands, or that is not known yet."""
        with self._lock:
            link = self._links.get(log_id)
            if link is not None and link.is_open:
                return replace(link.status, is_ours=False, is_elsewhere=False, can_branch=False)
            if link is not None:
                self._links.pop(log_id).close()
            now_s = time.monotonic()
            if self._is_closed or now_s - self._tried_s.get(log_id, -_TRIED_AGAIN_S) < _TRIED_AGAIN_S:
                return None
            self._tried_s[log_id] = now_s
        threading.Thread(target=self._connect, args=(log_id,), name="harness-link", daemon=True).start()
        return None

    def reaches(self, log_id: str) -> bool:
        """Whether it takes commands. Waits until that is known."""
        return self._link(log_id) is not None

    def send(self, log_id: str, command: Command) -> None:
        """Waits for the answer. Raises UsageError for what cannot be done."""
        link = self._link(log_id)
        if link is None:
            raise UsageError(
                "another program runs it, which takes no commands from here",
                hint="answer it there",
            )
        link.send(command)

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            links, self._links = list(self._links.values()), {}
        for link in links:
            link.close()

    def _link(self, log_id: str) -> LocalSocketClient | None:
        with self._lock:
            link = self._links.get(log_id)
        return link if link is not None and link.is_open else self._connect(log_id)

    def _connect(self, log_id: str) -> LocalSocketClient | None:
        try:
            link = LocalSocketClient(log_id, partial(self._on_change, log_id))
        except OSError:
            return None
        with self._lock:
            known_link = self._links.get(log_id)
            is_needed = not self._is_closed and (known_link is None or not known_link.is_open)
            if is_needed:
                if known_link is not None:
                    known_link.close()
                self._links[log_id] = link
                self._tried_s.pop(log_id, None)
        if not is_needed:
            link.close()
            return known_link
        return link
