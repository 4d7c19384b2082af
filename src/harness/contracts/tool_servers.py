"""Servers of tools that an agent program is handed: how it reaches one, and what is never logged of it."""

from __future__ import annotations

from typing import Any

import msgspec


class ServedTools(msgspec.Struct, frozen=True, kw_only=True):
    """A server of MCP on loopback."""

    name: str
    """By which the program knows it. Nobody else can: the name holds what no settings could have guessed."""
    url: str
    token: str
    """What it has to send as its bearer; masked wherever it would be recorded."""
    file: str
    """The same as an `mcp.json`, readable by its owner alone."""
    shape: str = ""
    """Another one when the tools are others: a program that is held learns of them by being started again."""

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    @property
    def entry(self) -> dict[str, Any]:
        """As in an `mcp.json`."""
        return {"type": "http", "url": self.url, "headers": self.headers}
