"""Around confined programs: what is protected is looked up before, and what they left is looked at after."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from harness.errors import UsageError
from harness.sources.process.invocation import Invocation
from harness.sources.sandbox.git_directories import switch_off_new
from harness.sources.sandbox.protected_paths import survey
from harness.sources.sandbox.sandbox import Sandbox
from harness.sources.tool import ToolFailure


@asynccontextmanager
async def confined(
    sandbox: Sandbox, invocation: Invocation, roots: Sequence[str]
) -> AsyncIterator[tuple[Invocation, list[str]]]:
    """What to start instead, and a list: after the block it says what had to be switched off.

    Raises ToolFailure when something cannot be protected.
    """
    from tempfile import TemporaryDirectory

    refused: list[str] = []
    with TemporaryDirectory(prefix="harness-", ignore_cleanup_errors=True) as temporary:
        try:
            surveyed = await asyncio.to_thread(survey, roots)
            wanted = sandbox.confined(invocation, surveyed, temporary)
        except UsageError as error:
            raise ToolFailure(error.words) from None
        try:
            yield wanted, refused
        except BaseException:
            switch_off_new(surveyed.roots, surveyed.found)  # at once: the caller may not wait any more
            raise
        refused += await asyncio.to_thread(switch_off_new, surveyed.roots, surveyed.found)


@asynccontextmanager
async def confining(
    sandbox: Sandbox, roots: Sequence[str], on_refused: Callable[[str], object]
) -> AsyncIterator[Callable[[Invocation], Invocation]]:
    """The same for programs that are started again and again: what confines each of them.

    It raises UsageError when something cannot be protected. After the block `on_refused` is called with what had to be
    switched off.
    """
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix="harness-", ignore_cleanup_errors=True) as temporary:
        before = await asyncio.to_thread(survey, roots)
        try:
            yield lambda invocation: sandbox.confined(invocation, survey(roots), temporary)
        finally:
            for text in switch_off_new(before.roots, before.found):
                on_refused(text)
