"""What a REPL or a notebook completes on a session and its parts: what programs are meant to call.

The other attributes are for the parts among themselves. They work, and may change without notice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Part = TypeVar("Part")


def hides(*names: str) -> Callable[[type[Part]], type[Part]]:
    """A class whose objects do not list these names, nor those with an underscore, in `dir()`."""

    def shorten(part: type[Part]) -> type[Part]:
        def directory(self: Part) -> list[str]:
            known = object.__dir__(self)
            return sorted(name for name in known if not name.startswith("_") and name not in names)

        part.__dir__ = directory  # type: ignore[assignment, method-assign]
        return part

    return shorten
