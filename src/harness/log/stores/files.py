"""Logs as files: `<id>.ndjson`, one event a line, and `<id>.meta.json` beside it.

Nothing but these files is the truth. `index.sqlite3` beside them answers what would otherwise take reading
all of them; it is built when it is first needed, and may be deleted at any time.
A log that was deleted but still has forks is called `<id>.ndjson.deleted`.
"""

from __future__ import annotations

import builtins
import fcntl
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import msgspec

from harness.errors import LogLocked, StoreError, UnknownSession
from harness.events import Usage
from harness.log import metadata_file
from harness.log.event_file import (
    BLOCK_BYTES,
    HIDDEN,
    INDEX,
    LOG,
    SIDECAR,
    FileReader,
    FileWriter,
    LinePosition,
    next_seq_of,
)
from harness.log.ids import is_log_id
from harness.log.private_files import (
    FileMark,
    lock_alone,
    make_private_directory,
    mark_of,
    open_private,
    replace_private,
)
from harness.log.store import Fork, LogReader, Metadata, Query, Store, Writer, stamped

if TYPE_CHECKING:
    from harness.log.forks import Stretch
    from harness.log.index.access import IndexAccess


# Notifies when a file has changed, whichever process changed it.


_EVERY_S = 0.05
_MOST_WRITTEN = 64
"""Sidecars that are kept in memory: one of each open thread is enough."""


class FileWatch:
    """Polls files, in one thread for all of them, as long as any is watched."""

    def __init__(self) -> None:
        self._watched: list[_Watched] = []
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopped = threading.Event()

    def add(self, paths: Sequence[str], wake: Callable[[], object]) -> Callable[[], None]:
        """Call `wake` when one of them has grown, was replaced or is gone; returns how to stop that."""
        watched = _Watched(paths, wake)
        with self._lock:
            self._watched = [*self._watched, watched]
            if self._thread is None or not self._thread.is_alive():
                self._stopped = threading.Event()
                self._thread = threading.Thread(
                    target=self._look, args=(self._stopped,), name="harness-watch", daemon=True
                )
                self._thread.start()

        def stop() -> None:
            with self._lock:
                self._watched = [other for other in self._watched if other is not watched]
                if not self._watched:
                    self._stopped.set()
                    self._thread = None

        return stop

    def close(self) -> None:
        with self._lock:
            self._watched = []
            self._stopped.set()
            self._thread = None

    def _look(self, stopped: threading.Event) -> None:
        while not stopped.wait(_EVERY_S):
            for watched in self._watched:
                watched.look()


class _Watched:
    def __init__(self, paths: Sequence[str], wake: Callable[[], object]) -> None:
        self._paths = paths
        self._wake = wake
        self._marks = [_mark(path) for path in paths]

    def look(self) -> None:
        now = [_mark(path) for path in self._paths]
        if now != self._marks:
            self._marks = now
            try:
                self._wake()
            except Exception:  # noqa: BLE001 # one that fails must not keep the others from being notified
                return


def _mark(path: str) -> FileMark | None:
    try:
        return mark_of(os.lstat(path))
    except OSError:
        return None


class FileStore(Store):
    """A folder of logs. Contract: no id ever leads to a file outside of it."""

    def __init__(self, directory: str) -> None:
        self.directory: str = os.path.abspath(directory)
        self._prefix = os.path.join(self.directory, "")
        self._index: IndexAccess | None = None
        self._watch: FileWatch | None = None
        self._parents: dict[str, tuple[FileMark, str | None]] = {}
        """Name of a sidecar → how the file was marked when it was read, and what its log is a fork of."""
        self._written_marks: dict[str, tuple[FileMark, bytes]] = {}
        """Path of a sidecar → what this process wrote last, and the mark of that file."""

    def path(self, log_id: str, suffix: str = LOG) -> str:
        """Where a log, or a file beside it, is. Raises UnknownSession for what is no id of ours."""
        if not is_log_id(log_id):
            raise UnknownSession(
                f"unknown session: {log_id!r}", hint="`harness sessions list` shows what there is"
            )
        return f"{self._prefix}{log_id}{suffix}"

    def create(self, metadata: Metadata) -> FileWriter:
        stamped(metadata)
        if metadata.fork is None:
            return self._create(metadata, 0)
        with self._arranging(metadata.fork.log_id):
            self._check(metadata.fork)
            return self._create(metadata, metadata.fork.seq)

    def open(self, log_id: str) -> FileWriter:
        path = self.path(log_id)
        metadata = self.metadata(log_id)
        try:
            fd = open_private(path, os.O_RDWR | os.O_APPEND)
            return FileWriter(fd, path, holder=_holder(metadata), base=_base(metadata))
        except OSError as error:
            raise self._unknown(log_id, error) from error

    def reader(self, log_id: str, cursor: int = 0) -> LogReader:
        reader = self._part(log_id, LOG, cursor)
        fork = self._sidecar(log_id, SIDECAR).fork
        if fork is None:
            return reader
        reader.close()
        from harness.log.forks import ForkReader

        return ForkReader(self._stretches(log_id), cursor, self._stretch)

    def is_live(self, log_id: str) -> bool:
        try:
            fd = open_private(self.path(log_id), os.O_RDONLY)
        except OSError as error:
            raise self._unknown(log_id, error) from error
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
        finally:
            os.close(fd)
        return False

    def metadata(self, log_id: str) -> Metadata:
        return self._sidecar(log_id, SIDECAR)

    def save_metadata(self, metadata: Metadata) -> None:
        log_id = metadata.session_id
        if not os.path.lexists(self.path(log_id)):
            raise self._unknown(log_id, FileNotFoundError())
        self._save(metadata, SIDECAR)

    def list(self) -> Iterator[Metadata]:
        from harness.log.query import age

        try:
            names = os.listdir(self.directory)
        except FileNotFoundError:
            return iter(())
        except OSError as error:
            raise StoreError(f"cannot list {self.directory}: {error.strerror}") from error
        ids = (name.removesuffix(LOG) for name in names if name.endswith(LOG))
        all_metadata = [metadata for log_id in ids if (metadata := self._known(log_id)) is not None]
        return iter(sorted(all_metadata, key=age, reverse=True))

    def delete(self, log_id: str) -> None:
        try:
            with self._arranging(log_id), self._alone(log_id):
                if self._has_forks(log_id):
                    self._hide(log_id)
                else:
                    self._remove(log_id)
        except OSError as error:
            raise StoreError(
                f"cannot delete session {log_id}: {error.strerror}",
                hint=f"look at {self.path(log_id)}",
            ) from error

    def find(self, query: Query) -> builtins.list[Metadata]:
        return self._asking().ask(lambda index: index.find(query, self._is_live_now))

    def total(self, query: Query) -> int:
        return self._asking().ask(lambda index: index.total(query))

    def version(self) -> int | None:
        return self._asking().version()

    def catch_up(self) -> None:
        self._asking().catch_up()

    def logs_with(self, operation: str) -> set[str]:
        """The logs that may have run a command, or read or written a file, which contains this."""
        return self._asking().ask(lambda index: index.logs_with(operation))

    def resource_ids(self) -> builtins.list[str]:
        return self._asking().ask(lambda index: index.resource_ids())

    def messages(self, log_id: str, limit: int) -> int:
        from harness.log.forks import start_of_last

        parts = self._stretches(log_id)
        if limit <= 0:
            return self._next_seq(log_id)
        ids = [part.log_id for part in parts]
        return self._asking().ask(lambda index: start_of_last(parts, limit, index.starts), ids)

    def usage(self, log_id: str) -> Usage:
        self.metadata(log_id)
        return self._asking().ask(lambda index: index.digest(log_id).usage, [log_id])

    def snapshot(self, log_id: str, name: str) -> tuple[int, bytes] | None:
        parts = self._stretches(log_id)
        return self._asking().ask(lambda index: index.snapshot(parts, name), [part.log_id for part in parts])

    def save_snapshot(self, log_id: str, name: str, seq: int, data: bytes) -> None:
        if seq <= self._next_seq(log_id):
            self._asking().ask(lambda index: index.save_snapshot(log_id, name, seq, data), [log_id])

    def snapshots(self, name: str) -> dict[str, bytes]:
        """The snapshots of this name of all logs, by log id; of a fork only its own."""
        return self._asking().ask(lambda index: index.snapshots(name), ())

    def save_snapshots(self, name: str, snapshots: Sequence[tuple[str, int, bytes]]) -> None:
        """Save many snapshots at once: log id, `seq` and data of each."""
        self._asking().ask(lambda index: index.save_snapshots(name, snapshots), ())

    def watch(self, log_id: str, wake: Callable[[], object]) -> Callable[[], None]:
        self.metadata(log_id)
        if self._watch is None:
            self._watch = FileWatch()
        return self._watch.add([self.path(log_id), self.path(log_id, SIDECAR)], wake)

    def rebuild(self) -> None:
        """Delete the index, snapshots included, and build it from the files."""
        self._asking().rebuild()

    def close(self) -> None:
        if self._index is not None:
            self._index.close()
        if self._watch is not None:
            self._watch.close()

    def _create(self, metadata: Metadata, base: int) -> FileWriter:
        path = self.path(metadata.session_id)
        try:
            make_private_directory(self.directory)
            if os.path.lexists(path + HIDDEN):
                raise FileExistsError(None, "an older one has forks")
            fd = open_private(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL)
        except OSError as error:
            raise StoreError(
                f"cannot create the log {path}: {error.strerror}",
                hint="set XDG_DATA_HOME or [log] directory to a place that can be written",
            ) from error
        writer = FileWriter(fd, path, holder="", base=base)
        try:
            self.save_metadata(metadata)
        except StoreError:
            with suppress(OSError):
                os.unlink(path)  # else the id could never be used
            writer.close()
            raise
        return writer

    @contextmanager
    def _arranging(self, log_id: str) -> Iterator[None]:
        """No other process forks or deletes logs meanwhile."""
        try:
            fd = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise self._unknown(log_id, error) from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)

    @contextmanager
    def _alone(self, log_id: str) -> Iterator[None]:
        try:
            fd = open_private(self.path(log_id), os.O_RDONLY)
        except OSError as error:
            raise self._unknown(log_id, error) from error
        try:
            try:
                lock_alone(fd)
            except BlockingIOError as error:
                raise LogLocked(f"session {log_id} is being written", hint="stop the run first") from error
            yield
        finally:
            os.close(fd)

    def _hide(self, log_id: str) -> None:
        self._save(msgspec.structs.replace(self.metadata(log_id), deleted=True), SIDECAR + HIDDEN)
        os.rename(self.path(log_id), self.path(log_id, LOG + HIDDEN))
        self._unlink(log_id, (LOG + HIDDEN, SIDECAR + HIDDEN))

    def _remove(self, log_id: str) -> None:
        """And with it every hidden log that was there only for it. The log itself is removed first: then its id is unknown."""
        hidden = "" if os.path.lexists(self.path(log_id)) else HIDDEN
        fork = self._sidecar(log_id, SIDECAR + hidden).fork
        os.unlink(self.path(log_id, LOG + hidden))
        self._unlink(log_id, ())
        if fork is None or not os.path.lexists(self.path(fork.log_id, LOG + HIDDEN)):
            return
        if not self._has_forks(fork.log_id):
            self._remove(fork.log_id)

    def _unlink(self, log_id: str, spared: tuple[str, ...]) -> None:
        """Remove the files beside the log, except for `spared`."""
        for name in os.listdir(self.directory):
            stem, dot, suffix = name.partition(".")
            if stem == log_id and dot + suffix not in spared and not name.startswith(INDEX):
                os.unlink(os.path.join(self.directory, name))

    def _has_forks(self, log_id: str) -> bool:
        with os.scandir(self.directory) as entries:
            return any(self._parent(entry) == log_id for entry in entries)

    def _parent(self, entry: os.DirEntry[str]) -> str | None:
        """What the log of a sidecar is a fork of. Cached, as deleting many logs asks for all of them each time."""
        stem, dot, suffix = entry.name.partition(".")
        if (dot + suffix).removesuffix(HIDDEN) != SIDECAR or not is_log_id(stem):
            return None
        try:
            status = entry.stat(follow_symlinks=False)
            mark = mark_of(status)
            if entry.name not in self._parents or self._parents[entry.name][0] != mark:
                fork = self._sidecar(stem, dot + suffix).fork
                self._parents[entry.name] = mark, fork.log_id if fork else None
        except (OSError, UnknownSession, StoreError):
            return None
        return self._parents[entry.name][1]

    def _check(self, fork: Fork) -> None:
        if not 0 <= fork.seq <= self._next_seq(fork.log_id):
            raise StoreError(f"session {fork.log_id} has no seq {fork.seq} to fork at")

    def _next_seq(self, log_id: str) -> int:
        try:
            fd = open_private(self.path(log_id), os.O_RDONLY)
        except OSError as error:
            raise self._unknown(log_id, error) from error
        try:
            return next_seq_of(fd, _base(self.metadata(log_id)))
        finally:
            os.close(fd)

    def _stretches(self, log_id: str) -> builtins.list[Stretch]:
        from harness.log.forks import stretches

        return stretches(log_id, lambda name: self._sidecar(name, SIDECAR, may_be_hidden=name != log_id).fork)

    def _stretch(self, part: Stretch, cursor: int) -> FileReader:
        is_hidden = not os.path.lexists(self.path(part.log_id))
        return self._part(part.log_id, LOG + HIDDEN if is_hidden else LOG, cursor, part.start)

    def _part(self, log_id: str, suffix: str, cursor: int, base: int = 0) -> FileReader:
        try:
            fd = open_private(self.path(log_id, suffix), os.O_RDONLY)
        except OSError as error:
            raise self._unknown(log_id, error) from error
        file = os.fdopen(fd, "rb", buffering=BLOCK_BYTES)
        return FileReader(file, cursor, base, self._place(log_id, cursor))

    def _place(self, log_id: str, cursor: int) -> LinePosition | None:
        """From the index, unless it has not been opened so far: opening it would cost more than it saves."""
        return self._index.place(log_id, cursor) if cursor and self._index is not None else None

    def _sidecar(self, log_id: str, suffix: str, *, may_be_hidden: bool = False) -> Metadata:
        try:
            metadata = metadata_file.decode(self._read_sidecar(self.path(log_id, suffix)), log_id)
        except OSError as error:
            if may_be_hidden and os.path.lexists(self.path(log_id, LOG + HIDDEN)):
                return self._sidecar(log_id, suffix + HIDDEN)
            if not os.path.lexists(self.path(log_id, LOG + suffix.removeprefix(SIDECAR))):
                raise self._unknown(log_id, error) from error
            return Metadata(session_id=log_id)  # the sidecar is gone; the log itself is the truth
        if not os.path.lexists(self.path(log_id, LOG + suffix.removeprefix(SIDECAR))):
            raise self._unknown(log_id, FileNotFoundError())
        return metadata

    def _read_sidecar(self, path: str) -> bytes:
        """The file is opened only if another process has replaced what this one wrote."""
        mark, data = self._written_marks.get(path, (None, b""))
        if mark is not None and _mark(path) == mark:
            return data
        with os.fdopen(open_private(path, os.O_RDONLY), "rb") as file:
            return file.read()

    def _save(self, metadata: Metadata, suffix: str) -> None:
        metadata = msgspec.structs.replace(metadata, writer=Writer(os.getpid(), os.uname().nodename))
        text = msgspec.json.format(metadata_file.encode(metadata), indent=2) + b"\n"
        try:
            path = self.path(metadata.session_id, suffix)
            self._written_marks.pop(path, None)
            if len(self._written_marks) >= _MOST_WRITTEN:
                self._written_marks.clear()
            self._written_marks[path] = (replace_private(path, text), text)
        except OSError as error:
            raise StoreError(
                f"cannot write the metadata of {metadata.session_id}: {error.strerror}"
            ) from error

    def _known(self, log_id: str) -> Metadata | None:
        try:
            return self.metadata(log_id)
        except (UnknownSession, StoreError):
            return None

    def _is_live_now(self, log_id: str) -> bool:
        try:
            return self.is_live(log_id)
        except (UnknownSession, StoreError):
            return False

    def _asking(self) -> IndexAccess:
        if self._index is None:
            from harness.log.index.access import IndexAccess

            self._index = IndexAccess(self.directory)
        return self._index

    def _unknown(self, log_id: str, error: Exception) -> StoreError | UnknownSession:
        if isinstance(error, FileNotFoundError):
            return UnknownSession(
                f"unknown session: {log_id}", hint="`harness sessions list` shows what there is"
            )
        why = getattr(error, "strerror", None) or error
        return StoreError(f"cannot open session {log_id}: {why}", hint=f"look at {self.path(log_id)}")


def _holder(metadata: Metadata) -> str:
    writer = metadata.writer
    return f"{writer.pid} on {writer.host}" if writer else "unknown"


def _base(metadata: Metadata) -> int:
    return 0 if metadata.fork is None else metadata.fork.seq
