"""Text that grows by pieces: a piece costs the same however long the text is, joining is left to who reads it."""

from __future__ import annotations

from collections.abc import Iterable


class Growing:
    __slots__ = ("_pieces",)

    def __init__(self, text: str = "") -> None:
        self._pieces: list[str] = [text] if text else []

    def add(self, piece: str) -> None:
        self._pieces.append(piece)

    def extend(self, pieces: Iterable[str]) -> None:
        self._pieces.extend(pieces)

    def __str__(self) -> str:
        pieces = self._pieces
        if len(pieces) > 1:
            pieces[:] = ("".join(pieces),)
        return pieces[0] if pieces else ""

    def __bool__(self) -> bool:
        return bool(str(self))

    def __repr__(self) -> str:
        return f"Growing({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return str(self) == str(other) if isinstance(other, Growing | str) else NotImplemented

    __hash__ = None  # type: ignore[assignment] # it grows
