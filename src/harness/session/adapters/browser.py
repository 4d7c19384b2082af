"""A real browser for agents: pages after their scripts have run, and screenshots of them."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from base64 import b64encode
from collections.abc import Sequence
from typing import Annotated, Any
from urllib.parse import urlsplit

from msgspec import Meta

from harness.contracts.tool import Attachment, Tool, ToolContext, ToolFailure, ToolOutput
from harness.contracts.tool_arguments import Arguments, spec, take
from harness.errors import UsageError
from harness.events import Operation
from harness.events.operation import Fetch
from harness.process.child import OutputChunk
from harness.process.invocation import Invocation
from harness.workspace.commands import run_command

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "chrome")
_TIMEOUT_S = 60.0
_MOST_CHARACTERS = 50_000
_FLAGS = (
    "--headless",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)


class PageArguments(Arguments, frozen=True, kw_only=True):
    url: Annotated[str, Meta(description="the address, http or https")]


class ChromiumBrowser:
    """Implements `Browser`. Each call starts a separate browser, without any data of the user."""

    def __init__(self, program: str = "") -> None:
        """Raises UsageError when there is no browser here."""
        path_found = program or next((path for name in PROGRAMS if (path := shutil.which(name))), "")
        if not path_found:
            raise UsageError("no browser was found", hint="install Chromium, or name its program")
        self._program = path_found

    def tools(self) -> Sequence[Tool]:
        return (_ReadPage(self), _Screenshot(self))

    async def close(self) -> None:
        """Nothing stays open between calls."""

    async def call(self, url: str, *flags: str) -> bytes:
        """The browser's output for a page. Raises ToolFailure."""
        if urlsplit(url).scheme not in ("http", "https"):
            raise ToolFailure(f"{url}: only http and https addresses can be opened")
        pieces: list[bytes] = []

        def collect(chunks: Sequence[OutputChunk]) -> None:
            pieces.extend(bytes(chunk.data) for chunk in chunks if chunk.stream == "stdout")

        with tempfile.TemporaryDirectory(prefix="harness-browser-") as profile:
            confined = () if os.geteuid() else ("--no-sandbox",)  # Chromium cannot confine itself as root
            argv = (self._program, *_FLAGS, *confined, f"--user-data-dir={profile}", *flags, url)
            invocation = Invocation(argv=argv, env={**os.environ}, cwd=profile, stdin=None)
            ending = await run_command(invocation, collect, _TIMEOUT_S)
        if ending.is_timeout:
            raise ToolFailure(f"{url}: the page was not ready within {_TIMEOUT_S:g} s")
        return b"".join(pieces)


class _ReadPage(Tool):
    category = "other"

    def __init__(self, browser: ChromiumBrowser) -> None:
        self.spec = spec(
            "browser_read", "Open a page in a browser; its HTML when it is ready.", PageArguments
        )
        self._browser = browser

    def operations(self, arguments: dict[str, Any]) -> Sequence[Operation]:
        return [Fetch(url=take(PageArguments, arguments, self.spec.name).url)]

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        del context
        url = take(PageArguments, arguments, self.spec.name).url
        html = (await self._browser.call(url, "--dump-dom")).decode("utf-8", "replace")
        if not html.strip():
            raise ToolFailure(f"{url}: the page could not be opened")
        return ToolOutput(text=html[:_MOST_CHARACTERS])


class _Screenshot(Tool):
    category = "other"

    def __init__(self, browser: ChromiumBrowser) -> None:
        self.spec = spec("browser_screenshot", "Open a page in a browser; a picture of it.", PageArguments)
        self._browser = browser

    def operations(self, arguments: dict[str, Any]) -> Sequence[Operation]:
        return [Fetch(url=take(PageArguments, arguments, self.spec.name).url)]

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        del context
        url = take(PageArguments, arguments, self.spec.name).url
        with tempfile.TemporaryDirectory(prefix="harness-picture-") as folder:
            path = os.path.join(folder, "page.png")
            await self._browser.call(url, f"--screenshot={path}", "--window-size=1280,900")
            picture = await asyncio.to_thread(_file, path)
        if not picture:
            raise ToolFailure(f"{url}: the page could not be opened")
        return ToolOutput(
            text=f"A picture of {url}", attachments=(Attachment("image/png", b64encode(picture).decode()),)
        )


def _file(path: str) -> bytes:
    """The content of the file; empty when there is none."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""
