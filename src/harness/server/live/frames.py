"""What all clients of one conversation are sent, encoded once for all of them.

There is no queue per client: each has a position in the shared list of frames. A frame is everything that changed
between two ticks, merged. A client gets all frames since its position as one message, encoded once for all that are
at the same position; one that is too far behind gets the whole state. So a client that stalls costs nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from harness.folds.page_state.object_stream import Merger, ObjectChange, merge
from harness.folds.page_state.shapes import delta_message, state_message

MOST_FRAMES = 512
MOST_BYTES = 4 * 1024 * 1024
_STALEST_SNAPSHOT = 30
"""How many frames a snapshot may be old and still be sent, with what came since."""


class Packet:
    """One message, as text and as the frame that carries it; each made when it is first needed."""

    __slots__ = ("_addressed", "_frame", "_text", "data")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._addressed: tuple[bytes, Packet] | None = None
        self._text: str | None = None
        self._frame: bytes | None = None

    @property
    def text(self) -> str:
        if self._text is None:
            self._text = self.data.decode()
        return self._text

    def addressed(self, address: bytes) -> Packet:
        """The same object with `address`, some members of it, at its beginning; made once for all clients."""
        if self._addressed is None or self._addressed[0] != address:
            self._addressed = address, Packet(b"{%b,%b" % (address, self.data[1:]))
        return self._addressed[1]

    @property
    def frame(self) -> bytes:
        if self._frame is None:
            size = len(self.data)
            if size < 126:
                head = bytes((0x81, size))
            elif size < 1 << 16:
                head = b"\x81\x7e" + size.to_bytes(2, "big")
            else:
                head = b"\x81\x7f" + size.to_bytes(8, "big")
            self._frame = head + self.data
        return self._frame


class Frames:
    """`encode`: the state as it is at `head`. Contract: `add` right after the state was changed."""

    def __init__(self, encode: Callable[[], bytes], seq: int, base: int = 0) -> None:
        self._encode = encode
        self._frames: deque[tuple[Sequence[ObjectChange], int, int]] = deque()
        """Operations, the `seq` after them, and about how many bytes they take."""
        self._bytes = 0
        self._base = base
        self._seq = seq
        self._ready: dict[int, Packet] = {}
        self._snapshot: tuple[int, Packet] | None = None
        self.snapshots_made = 0

    @property
    def head(self) -> int:
        return self._base + len(self._frames)

    def add(self, operations: Sequence[ObjectChange], seq: int) -> None:
        merged = merge(operations)
        message = delta_message(merged, seq)
        self._ready = {self.head: Packet(message)}
        self._frames.append((merged, seq, len(message)))
        self._bytes += len(message)
        self._seq = seq
        while len(self._frames) > MOST_FRAMES or (self._bytes > MOST_BYTES and len(self._frames) > 1):
            self._bytes -= self._frames.popleft()[2]
            self._base += 1

    def since(self, position: int) -> Packet:
        """The message that brings a client from a position to the head."""
        if position < self._base:
            raise LookupError("too far behind")
        message = self._ready.get(position)
        if message is None:
            merger = Merger()
            for number in range(position - self._base, len(self._frames)):
                for operation in self._frames[number][0]:
                    merger.add(operation)
            message = self._ready[position] = Packet(delta_message(merger.operations(), self._seq))
        return message

    def snapshot(self) -> tuple[int, Packet]:
        """A position, and the message with the whole state there."""
        snapshot = self._snapshot
        if snapshot is None or snapshot[0] < max(self._base, self.head - _STALEST_SNAPSHOT):
            self.snapshots_made += 1
            snapshot = self._snapshot = (self.head, Packet(state_message(self._encode(), self._seq)))
        return snapshot
