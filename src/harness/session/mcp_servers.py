"""MCP servers of a harness, connected from `init` to `destroy`; the built-in loop has their tools."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, TypeAlias

from harness.contracts.tool import Tool
from harness.errors import UsageError
from harness.native.loop.loop_context import environment_for_tools

if TYPE_CHECKING:
    from harness.native.mcp.config import McpServer
    from harness.native.mcp.servers import Servers

_logger = logging.getLogger("harness.session")

McpInput: TypeAlias = (
    Mapping[str, Mapping[str, Any]] | str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
)
"""Servers by name, each as in an `mcp.json`; or the paths of such files."""


class McpServers:
    def __init__(self, given: McpInput, cwd: str, environ: Mapping[str, str]) -> None:
        """Raises UsageError for an invalid entry. Nothing is started before `start`."""
        self.is_confined = False
        """Whether servers that are programs are confined like commands. Set before `start`."""
        self._stack = AsyncExitStack()
        self.warnings: list[str] = []
        """What went wrong so far; each session emits new ones with its next run."""
        self._cwd = cwd
        self._environ = environ
        self._entries: dict[str, McpServer] = {}
        self._files: list[str] = []
        self._servers: Servers | None = None
        if isinstance(given, Mapping):
            self._entries = _checked(given, environ)
        else:
            self._files = [
                os.fspath(path) for path in ([given] if isinstance(given, str | os.PathLike) else given)
            ]

    async def start(self) -> None:
        """Connect. A server that fails adds a warning; the tools of a slow one follow when it answers."""
        if self._servers is not None or not (self._entries or self._files):
            return
        from harness.native.mcp.config import load_servers
        from harness.native.mcp.servers import Servers
        from harness.native.tools.registry import output_folder

        entries = self._entries or load_servers(self._files, self._environ, self._warn, with_users_own=False)
        confine = None
        if self.is_confined and entries:
            from harness.sandbox.ladder import find_sandbox
            from harness.sandbox.walled_programs import confining

            around = confining(find_sandbox(self._environ), [self._cwd], self._warn)
            confine = await self._stack.enter_async_context(around)
        servers = Servers(
            entries,
            cwd=self._cwd,
            env=environment_for_tools(self._environ, {}),
            outputs=output_folder(self._environ, redact=True),
            on_warning=self._warn,
            confine=confine,
        )
        self._servers = servers
        await servers.start()

    def tools(self) -> Sequence[Tool]:
        """The current tools; the same object until they change."""
        return self._servers.tools() if self._servers is not None else ()

    def _warn(self, text: str) -> None:
        _logger.warning("%s", text)
        self.warnings.append(text)

    async def close(self) -> None:
        servers, self._servers = self._servers, None
        if servers is not None:
            await servers.close()
        await self._stack.aclose()


def _checked(given: Mapping[str, Mapping[str, Any]], environ: Mapping[str, str]) -> dict[str, McpServer]:
    from harness.native.mcp.config import server_of

    entries = {}
    for name, entry in given.items():
        try:
            server = server_of(entry, environ)
        except ValueError as error:
            raise UsageError(
                f"mcp_servers: {name}: {error}",
                hint="an entry has the form of those under mcpServers in an mcp.json",
            ) from None
        if not server.disabled:
            entries[name] = server
    return entries
