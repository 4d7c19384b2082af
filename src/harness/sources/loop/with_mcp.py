"""A run with the tools of MCP servers, which are there as long as it lasts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import TYPE_CHECKING, TypeAlias

from harness.events import Result, Warning
from harness.sources.loop.loop_context import LoopContext
from harness.sources.loop.worker import Job
from harness.sources.process.launch import Launch
from harness.sources.tool import Tool

if TYPE_CHECKING:
    from harness.sources.mcp.servers import Servers

MoreTools: TypeAlias = Callable[[], Sequence[Tool]]


class RunWithMcp:
    """Contract: that of `Job`."""

    def __init__(
        self, launch: Launch, host: LoopContext, open_run: Callable[[MoreTools], Job], *, redact: bool
    ) -> None:
        """`open_run`: the run itself, with what tells the tools besides its own, which may change."""
        self._launch = launch
        self._host = host
        self._open_run = open_run
        self._redact = redact

    async def run(self, prompt: str) -> Result:
        async with AsyncExitStack() as stack:
            more: MoreTools = tuple
            try:
                more = (await stack.enter_async_context(self._servers())).tools
            except asyncio.CancelledError:
                pass  # the run itself sees that it was stopped, and says so in the log
            return await self._open_run(more).run(prompt)

    def _servers(self) -> AbstractAsyncContextManager[Servers]:
        from harness.sources.tools.registry import mcp_tools

        channel = self._host.channel(self._launch.run_id or self._host.hub.log_id)
        request = self._launch.request
        return mcp_tools(
            request.mcp,
            cwd=request.cwd,
            env=self._host.env,
            environ=self._launch.invocation.env,
            redact=self._redact,
            sandbox=request.sandbox,
            on_warning=lambda text: channel.put(Warning(message=text, code="mcp")),
        )
