"""Bytes as they come → blocks of whole lines. Cuts at newline bytes only, and at no length."""

from __future__ import annotations


class LineBlocks:
    def __init__(self) -> None:
        self._begun: list[bytes] = []
        """Pieces of a line whose end has not come: joined once, so that a huge line stays cheap."""

    def feed(self, data: bytes) -> bytes:
        """All lines that are whole now, with what was begun before in front."""
        end = data.rfind(b"\n") + 1
        if not end:
            self._begun.append(data)
            return b""
        begun, rest = self._begun, data[end:]
        self._begun = [rest] if rest else []
        if not begun:
            return data[:end]
        return b"".join((*begun, memoryview(data)[:end]))

    def finish(self) -> bytes:
        """A last line without an end."""
        rest = b"".join(self._begun)
        self._begun = []
        return rest
