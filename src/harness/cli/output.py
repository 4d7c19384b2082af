"""Standard output as bytes: each batch in one write, optionally copied to a file; a reader that closes it is no error."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from harness.cli.console import Console, is_terminal
from harness.errors import HarnessError
from harness.formatting.escapes import escaped_json, neutralised
from harness.log.private_files import MOST_BUFFERS
from harness.stage import Aside

STDOUT = 1


class ReaderGone(Exception):
    """The reader of our output has closed it (`| head -1`)."""


class OutputWriter:
    """Contract: after the reader has left, `write_pieces` raises ReaderGone, but the file still gets everything."""

    def __init__(
        self, console: Console, tee_path: str = "", *, is_json: bool = False, follows: bool = False
    ) -> None:
        """`is_json`: what is written is JSON, which a terminal gets without characters that it would obey.

        `follows`: the file has the output of a run before, and gets more.
        """
        self._console = console
        self._is_escaped = is_json and is_terminal(STDOUT)
        self._tee_path = tee_path
        self._is_refused = False
        start = os.O_APPEND if follows else os.O_TRUNC
        self._tee = self._open(tee_path, start) if tee_path else -1
        self.ends_with_newline = True

    @property
    def has_whole_file(self) -> bool:
        """Whether the file, if one was asked for, has all that was written."""
        return not self._is_refused

    def write_pieces(self, pieces: Sequence[bytes]) -> None:
        """What a view gave: the output in one write, what belongs aside to standard error, in order."""
        if not any(type(piece) is Aside for piece in pieces):
            self._write(pieces)
            return
        for piece in pieces:
            if type(piece) is Aside:
                self._console.put(piece.decode("utf-8", "replace"))
            else:
                self._write((piece,))

    def _write(self, pieces: Sequence[bytes]) -> None:
        if not any(pieces):
            return
        if self._tee >= 0:
            self._write_tee(pieces)
        self.ends_with_newline = next(filter(None, reversed(pieces))).endswith(b"\n")
        if self._is_escaped:
            pieces = [_escaped(piece) for piece in pieces]
        write_out(*pieces)

    def close(self) -> None:
        if self._tee >= 0:
            os.close(self._tee)
            self._tee = -1

    def _open(self, path: str, start: int) -> int:
        try:
            return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | start, 0o666)
        except (OSError, ValueError) as error:
            self._warn("open", error)
            return -1

    def _write_tee(self, pieces: Sequence[bytes]) -> None:
        try:
            _write_all(self._tee, pieces)
        except OSError as error:
            self._warn("write to", error)
            self.close()

    def _warn(self, action: str, error: Exception) -> None:
        self._is_refused = True
        reason = (error.strerror if isinstance(error, OSError) else "") or str(error)
        self._console.warning(f"could not {action} output file {self._tee_path}: {reason}")


def write_out(*pieces: bytes) -> None:
    """Raises ReaderGone, or HarnessError when standard output refuses for another reason."""
    try:
        _write_all(STDOUT, pieces)
    except BrokenPipeError as error:
        raise ReaderGone from error
    except OSError as error:
        raise HarnessError(
            f"cannot write to standard output: {error.strerror}", hint="is the disk full?"
        ) from error


def write_text(text: str, *, is_styled: bool = False) -> None:
    """A pipe gets it as it is, a terminal without what it would obey. `is_styled`: it has colours of ours, and what it
    says of others is neutralised already.
    """
    shown_text = text if is_styled or not is_terminal(STDOUT) else neutralised(text)
    write_out(shown_text.encode("utf-8", "backslashreplace"))


def write_json(value: Any) -> None:
    """One value, indented, for programs. What no JSON can hold, such as a name that is not UTF-8, is shown as in a log."""
    try:
        data = msgspec.json.encode(value)
    except UnicodeEncodeError:
        from harness.log.codec import storable

        data = msgspec.json.encode(storable(msgspec.to_builtins(value)))
    write_json_lines(msgspec.json.format(data, indent=2) + b"\n")


def write_json_lines(data: bytes) -> None:
    """Whole JSON documents."""
    write_out(_escaped(data) if is_terminal(STDOUT) else data)


def _escaped(data: bytes) -> bytes:
    return escaped_json(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


def watch_reader(on_gone: Callable[[], object]) -> None:
    """Call `on_gone` from a thread as soon as the reader of a pipe leaves, even while we write nothing."""
    import threading

    if stat.S_ISFIFO(os.fstat(STDOUT).st_mode):
        threading.Thread(target=_await_hangup, args=(on_gone,), name="reader-watch", daemon=True).start()


def _await_hangup(on_gone: Callable[[], object]) -> None:
    import select

    poll = select.poll()
    poll.register(STDOUT, 0)  # errors and hang-ups are reported without being asked for
    if poll.poll():
        on_gone()


def _write_all(fd: int, pieces: Sequence[bytes]) -> None:
    if len(pieces) > MOST_BUFFERS:
        pieces = (b"".join(pieces),)
    count = _written(fd, pieces)
    if count == sum(map(len, pieces)):
        return
    rest = memoryview(b"".join(pieces))[count:]
    while rest:
        rest = rest[_written(fd, (rest,)) :]


def _written(fd: int, pieces: Sequence[bytes | memoryview]) -> int:
    """How many bytes were written; waits until some can be."""
    while True:
        try:
            return os.writev(fd, pieces)
        except BlockingIOError:
            import select

            select.select((), (fd,), ())
