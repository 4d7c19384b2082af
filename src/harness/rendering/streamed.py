"""Telling a message that was already shown piece by piece from one that was not."""

from __future__ import annotations

from zlib import crc32

import msgspec


class Shown(msgspec.Struct):
    """What was shown of one stream. A length and a checksum instead of the text itself, so that an
    endless stream costs no memory.
    """

    length: int = 0
    checksum: int = 0

    def add(self, text: str) -> None:
        self.length += len(text)
        self.checksum = crc32(_bytes(text), self.checksum)

    def rest(self, stream_id: str, message: str) -> str | None:
        """What of a whole message is still to be shown; None when nothing of it was, so: all of it."""
        length = self.length
        if length and crc32(_bytes(message[:length])) == self.checksum:
            return message[length:]
        # The id says that it is the same message: it was trimmed, or masked otherwise, at its end.
        return "" if stream_id and length and length >= len(message) else None


class Streamed:
    """What was shown of each stream of each run."""

    def __init__(self) -> None:
        self._shown: dict[tuple[str, str], Shown] = {}

    def add(self, run_id: str, stream_id: str, text: str) -> None:
        key = run_id, stream_id
        shown = self._shown.get(key)
        if shown is None:
            shown = self._shown[key] = Shown()
        shown.add(text)

    def take_rest(self, run_id: str, stream_id: str, message: str) -> str | None:
        """What of a whole message is still to be shown; None when nothing of it was, so: all of it.

        Ends the stream: the same id may begin anew.
        """
        shown = self._shown.pop((run_id, stream_id), None)
        return None if shown is None else shown.rest(stream_id, message)

    def forget(self, run_id: str, stream_id: str) -> bool:
        """Whether anything had been shown of it."""
        return self._shown.pop((run_id, stream_id), None) is not None


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
