"""No framework at all: the same model, read by nobody but a counter; what a loop cannot be cheaper than."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

TITLE = "(a bare loop)"
PACKAGE = ""
INSTALL: tuple[str, ...] = ()
IMPORT = "import asyncio"
PERSISTS = ""


async def stream(deltas: int, pause: Callable[[], Awaitable[None]]) -> int:
    async def answer() -> AsyncIterator[str]:
        for _ in range(deltas):
            yield "word "
            await pause()

    return len([delta async for delta in answer()])


async def work(steps: int, mark: Callable[[], None], folder: str = "") -> int:
    del folder
    tools = {"add": lambda a, b: a + b}
    messages: list[dict[str, object]] = []
    for number in range(steps):
        mark()
        messages.append({"role": "assistant", "call": f"c{number}", "input": {"a": 1, "b": 2}})
        messages.append({"role": "tool", "output": str(tools["add"](1, 2))})
    mark()
    return len(messages)
