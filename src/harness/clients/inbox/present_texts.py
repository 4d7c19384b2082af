"""Files as they are now, for the lines around a change that a question shows."""

from __future__ import annotations

import os
import stat

_MOST_BYTES = 2_000_000
_MOST_KNOWN = 64


class PresentTexts:
    """Reads a file once, and again when it has changed. Contract: one thread at a time."""

    def __init__(self) -> None:
        self._texts: dict[str, tuple[tuple[int, int, int], str | None]] = {}

    def of(self, folder: str, path: str) -> str | None:
        """The text of a file in the folder of a run; None: it is elsewhere, too long, or no text."""
        if not folder:
            return None
        try:
            place = os.path.realpath(os.path.join(folder, path))
            inside = os.path.join(os.path.realpath(folder), "")
            status = os.stat(place, follow_symlinks=False)
        except (OSError, ValueError):
            return None
        if not place.startswith(inside) or not stat.S_ISREG(status.st_mode) or status.st_size > _MOST_BYTES:
            return None
        mark = status.st_ino, status.st_size, status.st_mtime_ns
        text = self._texts.get(place)
        if text is None or text[0] != mark:
            text = mark, _read(place)
            if len(self._texts) >= _MOST_KNOWN:
                self._texts.clear()
            self._texts[place] = text
        return text[1]


def _read(place: str) -> str | None:
    try:
        descriptor = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            return file.read(_MOST_BYTES).decode("utf-8")
    except (OSError, UnicodeDecodeError):
        return None
