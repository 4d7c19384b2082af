"""Server-sent events: from the bytes of a response to the data of its events."""

from __future__ import annotations


class SseDecoder:
    """Fed with bytes as they come; gives the data of each event as soon as it is whole.

    Names, ids and comments are left out: every model API says in the data what it is. Lines end with a
    line feed; a carriage return before it is white space to whoever decodes the JSON. There is no
    longest line.
    """

    __slots__ = ("_data", "_rest")

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        lines = chunk.split(b"\n")
        if len(lines) == 1:
            self._rest.append(chunk)
            return []
        if self._rest:
            lines[0] = b"".join([*self._rest, lines[0]])
            self._rest.clear()
        if last := lines.pop():
            self._rest.append(last)
        found: list[bytes] = []
        data = self._data
        for line in lines:
            if line.startswith(b"data:"):
                data.append(line[5:])
            elif data and line in _BLANK:
                found.append(data[0] if len(data) == 1 else b"\n".join(data))
                data.clear()
        return found

    def finish(self) -> list[bytes]:
        """What a server sent last without an empty line behind it."""
        return self.feed(b"\n\n")


_BLANK = (b"", b"\r")
