"""How the interpreter of a REPL speaks: frames through two pipes, and what its code prints among them.

A frame is its length in 4 bytes, then a JSON object. Used inside the interpreter's own process, and so as
small as that is.
"""

from __future__ import annotations

import io
import json
import os
import threading
import time
from typing import Any

MOST_FRAME_BYTES = 64 * 1024 * 1024
LENGTH_BYTES = 4
_FLUSH_CHARACTERS = 2048
_FLUSH_S = 0.05


class TimeLimit(BaseException):
    """The code runs longer than it may. Not an Exception, so that code does not catch it by accident."""


class TooLong(ValueError):
    """More than fits into a frame."""


class Pipe:
    """Both directions. Frames are written whole, whatever interrupts the thread that writes."""

    def __init__(self, source: int, target: int) -> None:
        self._source = source
        self._target = target
        self._lock = threading.Lock()
        self._is_writing = False
        self._is_interrupted = False

    def receive(self) -> dict[str, Any]:
        length = int.from_bytes(self.receive_bytes(LENGTH_BYTES), "big")
        frame: dict[str, Any] = json.loads(self.receive_bytes(length))
        return frame

    def receive_bytes(self, count: int) -> bytearray:
        """Raises EOFError when Harness has closed the pipe."""
        data = bytearray()
        while len(data) < count:
            part = os.read(self._source, min(count - len(data), 1 << 20))
            if not part:
                raise EOFError
            data += part
        return data

    def send(self, **frame: Any) -> None:
        body = json.dumps(frame, ensure_ascii=False).encode("utf-8", "replace")
        if len(body) > MOST_FRAME_BYTES:
            raise TooLong(f"{len(body)} bytes are too many at once; the most is {MOST_FRAME_BYTES}")
        unsent = memoryview(len(body).to_bytes(LENGTH_BYTES, "big") + body)
        is_main = threading.current_thread() is threading.main_thread()
        with self._lock:
            self._is_writing = is_main
            while unsent:
                unsent = unsent[os.write(self._target, unsent) :]
            self._is_writing = False
        if is_main and self._is_interrupted:
            self.interrupt()

    def interrupt(self) -> None:
        """In the main thread: raise TimeLimit, now or when the frame that is being written is whole."""
        self._is_interrupted = self._is_writing
        if not self._is_writing:
            raise TimeLimit


class PrintedOutput:
    """What was printed in this turn and not yet sent; the pieces of a moment go together."""

    def __init__(self, pipe: Pipe, most_characters: int) -> None:
        self._pipe = pipe
        self._most_characters = most_characters
        self._lock = threading.RLock()
        self._pieces: list[str] = []
        self._stream = ""
        self._waiting_characters = 0
        self._left_characters = 0
        self._flushed_s = 0.0

    def begin(self) -> None:
        with self._lock:
            self._pieces.clear()
            self._waiting_characters = 0
            # One more than allowed, so that the reader sees that there was more.
            self._left_characters = self._most_characters + 1

    def write(self, stream: str, text: str) -> None:
        with self._lock:
            text = text[: self._left_characters]
            if not text:
                return
            if stream != self._stream:
                self.flush()
                self._stream = stream
            self._left_characters -= len(text)
            self._pieces.append(text)
            self._waiting_characters += len(text)
            is_due = text.endswith("\n") and time.monotonic() - self._flushed_s > _FLUSH_S
            if is_due or self._waiting_characters >= _FLUSH_CHARACTERS:
                self.flush()

    def flush(self) -> None:
        with self._lock:
            if self._pieces:
                text = "".join(self._pieces)
                self._pieces.clear()
                self._waiting_characters = 0
                self._flushed_s = time.monotonic()
                self._pipe.send(type="output", stream=self._stream, text=text)


class Printer(io.TextIOBase):
    """`sys.stdout` or `sys.stderr` of the code."""

    def __init__(self, output: PrintedOutput, stream: str) -> None:
        self._output = output
        self._stream = stream

    def writable(self) -> bool:
        return True

    def write(self, text: str, /) -> int:
        self._output.write(self._stream, str(text))
        return len(text)

    def flush(self) -> None:
        self._output.flush()
