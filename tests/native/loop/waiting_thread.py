"""A process that talks on a thread until it waits for a person, and then sits there to be killed.

usage: python waiting_thread.py DATA_DIRECTORY LOG_ID suspend|approve|answer

`suspend`: a tool asks a question; `approve`: a call needs permission; both print the kind of the last event
and wait for ever. `answer`: answer whatever is open, and print the text of the result.
"""

from __future__ import annotations

import asyncio
import os
import sys

from harness.contracts.tool import ToolContext
from harness.conversation.history import history
from harness.events import Relay, RelayReply, Result
from harness.log.hub import Hub
from harness.log.store import Metadata, read_all
from harness.log.stores.files import FileStore
from harness.models.scripted import Scripted
from harness.native.loop.conversation import AgentConversation
from harness.native.loop.loop_context import AgentOptions, LoopContext
from harness.native.tools.function_tool import tool
from harness.questions.permissions import Permissions


@tool
async def ask(question: str, context: ToolContext) -> str:
    """Ask a person."""
    return f"answered: {await context.suspend({'question': question}, question=question)}"


@tool(quick=True)
def write(path: str) -> str:
    """Leave a mark: once, or the test fails."""
    with open(path, "a", encoding="utf-8") as file:
        file.write("x")
    return "written"


def options(folder: str, mode: str) -> AgentOptions:
    calls = [
        {"type": "tool_call", "id": "w", "name": "write", "input": {"path": os.path.join(folder, "mark")}},
        {"type": "tool_call", "id": "q", "name": "ask", "input": {"question": "why?"}},
    ]
    script = ["It is done."] if mode == "answer" else [{"events": calls}]
    return AgentOptions(
        model=Scripted(script),
        tools=(write, ask),
        permissions=Permissions("ask" if mode == "approve" else "allow"),
        relay_deadline_s=None,
    )


async def main(folder: str, log_id: str, mode: str) -> None:
    store = FileStore(folder)
    if mode == "answer":
        writer = store.open(log_id)
    else:
        writer = store.create(Metadata(session_id=log_id, kind="thread"))
    hub = Hub(store, log_id, writer)
    host = LoopContext(hub, cwd=folder, env={}, secrets={})
    emitted = history(read_all(store, log_id))
    conversation = AgentConversation(host, emitted.entries, pending=emitted.pending)
    chosen = options(folder, mode)
    if mode == "answer":
        while (pending := conversation.pending) is not None:
            reply = RelayReply(id=pending.relays[0].id, approved=True, answer="because")
            ended = await conversation.resume(chosen, {reply.id: reply})
        assert isinstance(ended, Result)
        print(ended.text, flush=True)
        return
    changed = asyncio.Event()
    hub.add_waker(changed.set)
    running = asyncio.create_task(conversation.send(chosen, "go"))
    while not any(isinstance(event, Relay) for event in read_all(store, log_id)):
        await changed.wait()
        changed.clear()
    if mode == "suspend":
        await running
    print(type(list(read_all(store, log_id))[-1]).__name__, flush=True)
    await asyncio.Event().wait()


asyncio.run(main(*sys.argv[1:]))
