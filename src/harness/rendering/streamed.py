"""Telling a message that was already shown piece by piece from one that was not."""

from __future__ import annotations

from zlib import crc32


class Streamed:
    """What was shown of each stream. Keeps a length and a checksum instead of the text itself, so that
    an endless stream costs no memory.
    """

    def __init__(self) -> None:
        self._shown: dict[tuple[str, str], tuple[int, int]] = {}

    def add(self, run_id: str, stream_id: str, text: str) -> None:
        length, checksum = self._shown.get((run_id, stream_id), (0, 0))
        self._shown[run_id, stream_id] = length + len(text), crc32(_bytes(text), checksum)

    def take_rest(self, run_id: str, stream_id: str, message: str) -> str | None:
        """What of a whole message is still to be shown; None when nothing of it was, so: all of it.

        Ends the stream: the same id may begin anew.
        """
        length, checksum = self._shown.pop((run_id, stream_id), (0, 0))
        if length and crc32(_bytes(message[:length])) == checksum:
            return message[length:]
        # The id says that it is the same message: it was trimmed, or masked otherwise, at its end.
        return "" if stream_id and length and length >= len(message) else None

    def forget(self, run_id: str, stream_id: str) -> bool:
        """Whether anything had been shown of it."""
        return self._shown.pop((run_id, stream_id), None) is not None


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
