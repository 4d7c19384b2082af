"""Two processes on one PostgreSQL database: one chats, the other watches, then takes over.

python examples/two_processes.py postgresql://user@host/database
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

from harness import Harness, LogLocked, Mode, Scripted, open_store
from harness.events import Result


def open_harness(url: str, answer: str) -> Harness:
    return Harness(
        id="shared",
        storage=open_store(url),
        modes=[Mode(id="chat", default_model_id="script")],
        resolve_model=lambda _name: Scripted([answer]),
    )


async def chat(url: str) -> None:
    """The first process: says something, and holds the thread until a line on stdin releases it."""
    harness = open_harness(url, "Hello from the first process.")
    await harness.init()
    thread = await harness.create_thread(title="shared")
    print(thread.id, flush=True)
    await harness.send_message(content="hello")
    await asyncio.to_thread(sys.stdin.readline)
    await harness.destroy()
    harness.store.close()


async def watch(url: str) -> None:
    """The second process: sees what the first one writes, and continues when that has ended."""
    with subprocess.Popen(  # noqa: ASYNC220  # it is started once, and then only watched
        [sys.executable, __file__, url, "--chat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as first:
        assert first.stdin is not None
        assert first.stdout is not None
        thread_id = first.stdout.readline().strip()
        harness = open_harness(url, "And from the second.")
        await harness.init()
        changed = threading.Event()
        stop = harness.store.watch(thread_id, changed.set)
        reader = harness.store.reader(thread_id)
        seen = list(reader.read())
        while not any(isinstance(event, Result) for event in seen):
            await asyncio.to_thread(changed.wait, 10)
            changed.clear()
            seen += reader.read()
        print("seen from here:", ", ".join(type(event).__name__ for event in seen))
        stop()
        reader.close()
        try:
            await harness.switch_thread(thread_id=thread_id)
        except LogLocked as error:
            print(f"not yet: {error}")
        first.stdin.write("go\n")
        first.stdin.close()
        first.wait()
    await harness.switch_thread(thread_id=thread_id)
    await harness.send_message(content="and you?")
    for message in harness.session.thread.list_active_messages():
        print(f"{message.role}: {''.join(part.text for part in message.content if part.type == 'text')}")
    await harness.destroy()
    harness.store.close()


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    asyncio.run((chat if "--chat" in sys.argv else watch)(sys.argv[1]))
