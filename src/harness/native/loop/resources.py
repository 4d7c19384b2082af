"""What calls leave to later ones, such as commands in the background."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness.contracts.tool import Resource, ToolFailure


class Resources:
    """What calls leave to later ones, such as commands in the background: made once, ended with the run, or with the
    conversation that it is a part of.

    Contract: used in the thread of the loop alone.
    """

    def __init__(self) -> None:
        self._made_resources: dict[Callable[[], Resource], Resource] = {}
        self._is_closed = False

    def get(self, make: Callable[[], Any]) -> Any:
        """What `make` gave the first time. Raises ToolFailure when the run has ended."""
        if self._is_closed:
            raise ToolFailure("the run has ended")
        if make not in self._made_resources:
            self._made_resources[make] = make()
        return self._made_resources[make]

    def made(self, make: Callable[[], Any]) -> Any:
        """What `make` gave, or None when it was not needed yet."""
        return self._made_resources.get(make)

    @property
    def running(self) -> list[str]:
        """What goes on, for people."""
        return [
            name for resource in self._made_resources.values() for name in getattr(resource, "running", ())
        ]

    def kill(self) -> None:
        """End everything without waiting for it; nothing is made any more."""
        self._is_closed = True
        for resource in self._made_resources.values():
            resource.kill()

    async def close(self) -> None:
        """The same, and wait until it has ended."""
        self.kill()
        for resource in self._made_resources.values():
            await resource.ended()
