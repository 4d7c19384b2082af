"""A connection on which one bad tool does not spoil the list that it is in.

The client library takes a list of tools whole or not at all. So what is wrong is taken out of the answer before the
library sees it, and told.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib import import_module
from typing import Any

_LIST = "tools/list"


@asynccontextmanager
async def tolerant(
    inner: AbstractAsyncContextManager[tuple[Any, Any]],
    version: Callable[[], str],
    on_bad_tool: Callable[[str, str], object],
) -> AsyncIterator[tuple[Any, Any]]:
    """`version`: of the protocol, as it was agreed on. `on_bad_tool`: (name, what is wrong with it)."""
    anyio = import_module("anyio")
    async with inner as (read, write):
        incoming, received = anyio.create_memory_object_stream(0)

        async def pass_on() -> None:
            async with incoming:
                async for item in read:
                    mend(item, version(), on_bad_tool)
                    await incoming.send(item)

        task = asyncio.create_task(pass_on())
        try:
            yield received, write
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            incoming.close()
            received.close()


def mend(item: Any, version: str, on_bad_tool: Callable[[str, str], object]) -> None:
    """Take tools that are none out of a message, if it has such."""
    result = getattr(getattr(item, "message", None), "result", None)
    if not isinstance(result, dict):
        return
    tools = result.get("tools")
    if (
        not isinstance(tools, list)
        or not _trouble(result, version)
        or _trouble({**result, "tools": []}, version)
    ):
        return  # it is good, or not the tools are what is wrong with it
    good = []
    for number, tool in enumerate(tools, 1):
        if trouble := _trouble({**result, "tools": [tool]}, version):
            name = tool.get("name") if isinstance(tool, dict) else None
            on_bad_tool(name if isinstance(name, str) and name else f"number {number}", trouble)
        else:
            good.append(tool)
    result["tools"] = good


def _trouble(result: dict[str, Any], version: str) -> str:
    """What the library would say against it; empty when it takes it."""
    types = import_module("mcp_types")
    try:
        import_module("mcp_types.methods").validate_server_result(_LIST, version, result)
        types.ListToolsResult.model_validate(result, by_name=False)
    except (KeyError, AttributeError):
        return ""
    except ValueError as error:  # of pydantic: the first thing that is wrong
        errors: list[Any] = getattr(error, "errors", list)()
        if not errors:
            return str(error).partition("\n")[0]
        place = ".".join(
            str(step) for step in errors[0]["loc"] if step != "tools" and not isinstance(step, int)
        )
        return f"{place}: {errors[0]['msg']}" if place else str(errors[0]["msg"])
    return ""
