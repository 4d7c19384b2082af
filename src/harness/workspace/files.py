"""Open and replace files of a workspace, safe against symbolic links swapped in at the last moment.

Paths must be real paths, as `ToolWorkspace` returns them: every directory on the way is opened separately,
and none of them may have become a link. Changes to several files are made together or not at all.

`TextFile` is the text of a file as tools see it: lines end with a line feed, whatever the file uses.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

import msgspec

from harness.contracts.tool import ToolFailure
from harness.system.contract import system

_FOLDER_FLAGS = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | system.traverse_only
_CANNOT_REPLACE = (errno.EACCES, errno.EPERM, errno.EBUSY, errno.EXDEV)
"""The directory is not writable, or the file is a mount point: the file itself may still be writable."""


class Change(msgspec.Struct, frozen=True):
    """One file before and after; None where there is no file."""

    path: str
    before: bytes | None
    after: bytes | None
    mode: int | None = None
    """The permissions of a file that is made; one that is replaced has its own."""


@contextmanager
def as_tool_failure(path: str) -> Iterator[None]:
    """Convert system errors about a path into messages for the model."""
    try:
        yield
    except OSError as error:
        raise ToolFailure(f"{path}: {_reason(error)}") from None
    except ValueError as error:
        raise ToolFailure(f"{path!r} is no usable path: {error}") from None


def open_for_reading(path: str) -> int:
    """A descriptor of a regular file: never of a pipe or device, which could block forever."""
    with open_folder(os.path.dirname(path)) as folder:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(os.path.basename(path) or ".", flags, dir_fd=folder)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL, _kind_of(mode))


def read_all(path: str, most_bytes: int) -> bytes:
    """The content of a file. Raises ToolFailure when it is larger than `most_bytes`."""
    descriptor = open_for_reading(path)
    with open(descriptor, "rb") as file:
        data = file.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise ToolFailure(f"{path} is larger than {most_bytes // 1024 // 1024} MB: too large for this tool")
    return data


def apply(changes: Sequence[Change]) -> None:
    """Make all changes, or raise OSError and leave everything unchanged."""
    changes_so_far: list[Change] = []
    try:
        for change in changes:
            changes_so_far.append(change)
            _make(change)
    except OSError:
        for change in reversed(changes_so_far):
            with suppress(OSError):
                _make(Change(change.path, change.after, change.before, change.mode))
        raise


def _make(change: Change) -> None:
    if change.after is None:
        with open_folder(os.path.dirname(change.path)) as folder, suppress(FileNotFoundError):
            os.unlink(os.path.basename(change.path), dir_fd=folder)
    else:
        _replace(change.path, change.after, change.mode)


def _replace(path: str, data: bytes, mode: int | None) -> None:
    name = os.path.basename(path)
    temporary = f".{name[:100]}.{os.getpid()}.{os.urandom(4).hex()}.new"
    with open_folder(os.path.dirname(path), create=True) as folder:
        try:
            old: os.stat_result | None = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            old = None
        if old is not None and not stat.S_ISREG(old.st_mode):
            raise OSError(errno.EISDIR if stat.S_ISDIR(old.st_mode) else errno.EINVAL, _kind_of(old.st_mode))
        try:
            _write_new(temporary, data, old, folder, mode)
            os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError as error:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=folder)
            if old is None or error.errno not in _CANNOT_REPLACE:
                raise
            _overwrite(name, data, folder)


def _write_new(name: str, data: bytes, old: os.stat_result | None, folder: int, mode: int | None) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(name, flags, 0o666, dir_fd=folder)
    with open(descriptor, "wb") as file:
        if old is not None:
            if (old.st_uid, old.st_gid) != (os.geteuid(), os.getegid()):
                with suppress(OSError):  # only root may change the owner
                    os.fchown(descriptor, old.st_uid, old.st_gid)
            os.fchmod(descriptor, stat.S_IMODE(old.st_mode))
        elif mode is not None:
            os.fchmod(descriptor, mode)
        file.write(data)


def _overwrite(name: str, data: bytes, folder: int) -> None:
    descriptor = os.open(name, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    with open(descriptor, "wb") as file:
        file.write(data)
        file.truncate()


@contextmanager
def open_folder(path: str, *, create: bool = False) -> Iterator[int]:
    """A descriptor of a directory, reached without following any link."""
    descriptor = os.open("/", _FOLDER_FLAGS)
    try:
        for part in path.split(os.sep):
            if part:
                below = _open_below(descriptor, part, create=create)
                os.close(descriptor)
                descriptor = below
        yield descriptor
    finally:
        os.close(descriptor)


def _open_below(folder: int, name: str, *, create: bool) -> int:
    try:
        return os.open(name, _FOLDER_FLAGS, dir_fd=folder)
    except FileNotFoundError:
        if not create:
            raise
        with suppress(FileExistsError):
            os.mkdir(name, dir_fd=folder)
        return os.open(name, _FOLDER_FLAGS, dir_fd=folder)


def _kind_of(mode: int) -> str:
    kinds = {stat.S_IFDIR: "is a directory", stat.S_IFIFO: "is a pipe", stat.S_IFSOCK: "is a socket"}
    return kinds.get(stat.S_IFMT(mode), "is no regular file")


def _reason(error: OSError) -> str:
    text = error.strerror or str(error)
    return {
        errno.ENOENT: "there is no such file",
        errno.ELOOP: "a symbolic link that leads nowhere, or was just put there",
        errno.ENOTDIR: "it, or something on the way to it, is no directory",
    }.get(error.errno or 0, text[:1].lower() + text[1:])


SNIFFED_BYTES = 8192
MOST_EDITABLE_BYTES = 32 * 1024 * 1024
_MARK = "\ufeff"
UTF_16 = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
"""By the byte order mark at the beginning of the file."""


class TextFile(msgspec.Struct, frozen=True):
    """The text of a file, with its encoding and line ends, so that it can be written the same way."""

    text: str
    has_carriage_returns: bool = False
    has_mark: bool = False
    encoding: str = "utf-8"

    def encode(self, text: str) -> bytes:
        """Encode another text in the same way."""
        if self.has_carriage_returns:
            text = text.replace("\r\n", "\n").replace("\n", "\r\n")
        try:
            # Bytes that are not UTF-8 are preserved as lone surrogates.
            errors = "surrogateescape" if self.encoding == "utf-8" else "strict"
            return ((_MARK if self.has_mark else "") + text).encode(self.encoding, errors)
        except UnicodeEncodeError as error:
            raise ToolFailure(
                f"nothing was written: the text has a lone surrogate at {error.start}"
            ) from None


def is_binary(data: bytes) -> bool:
    return b"\0" in data[:SNIFFED_BYTES] and data[:2] not in UTF_16


def decode(data: bytes, path: str) -> TextFile:
    """Decode a text file. Raises ToolFailure if it is not text."""
    if is_binary(data):
        raise ToolFailure(f"{path} is a binary file")
    encoding = UTF_16.get(data[:2], "utf-8")
    try:
        text = data.decode(encoding, "surrogateescape" if encoding == "utf-8" else "strict")
    except UnicodeDecodeError:
        raise ToolFailure(f"{path} is a binary file") from None
    has_mark = text.startswith(_MARK)
    if has_mark:
        text = text[1:]
    returns = text.count("\r\n")
    has_carriage_returns = bool(returns) and returns == text.count("\n")
    if has_carriage_returns:
        text = text.replace("\r\n", "\n")
    return TextFile(text, has_carriage_returns, has_mark, encoding)


def lines_of(text: str) -> list[str]:
    """The lines without their ends; a final line end does not begin another line."""
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return lines


def changed_lines(before: str, after: str) -> tuple[int, int] | None:
    """First and last changed line, numbered from 1 in the new text; if lines were only removed, the line that
    is now in their place.
    """
    if before == after:
        return None
    old, new = lines_of(before), lines_of(after)
    shorter = min(len(old), len(new))
    start = 0
    while start < shorter and old[start] == new[start]:
        start += 1
    end = 0
    while end < shorter - start and old[-1 - end] == new[-1 - end]:
        end += 1
    first = min(start + 1, max(1, len(new)))
    return first, max(first, len(new) - end)
