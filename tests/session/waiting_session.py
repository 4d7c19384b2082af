"""What a process does that talks in a session until a person has to answer, and then waits to be killed; asked to end,
it leaves in order.

`what` is one of ask, plan, approve, steer, approve-steer, stream, approved-EVENT. It writes `ready` to a descriptor when
it waits. `approved-EVENT` approves its own plan, and kills itself when that event is emitted.
"""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

from harness.folds.session.events import HarnessEvent
from harness.log.store import Store
from harness.log.stores.files import FileStore
from harness.models.scripted import Scripted
from harness.native.tools.function_tool import tool
from harness.session.config import Mode
from harness.session.harness import Harness

CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "ask": ("ask_user", {"question": "Which?", "options": [{"label": "a"}, {"label": "b"}]}),
    "plan": ("submit_plan", {"title": "T", "plan": "P"}),
    "approve": ("mark", {}),
    "approve-steer": ("mark", {}),
    "steer": ("rest", {}),
}
MODES = [
    Mode(id="plan", instructions="Plan.", transitions_to="build"),
    Mode(id="build", instructions="Build."),
]


def open_store(kind: str, where: str) -> Store:
    if kind == "files":
        return FileStore(where)
    from harness.log.stores.postgres.store import PostgresStore

    return PostgresStore(where)


def marking(path: str) -> Any:
    @tool
    async def mark() -> str:
        """Leave a mark: once, or the test fails."""
        with open(path, "a", encoding="utf-8") as file:  # noqa: ASYNC230
            file.write("x")
        return "marked"

    return mark


@tool
async def rest() -> str:
    """Work until the process is killed."""
    await asyncio.Event().wait()
    return "rested"


async def wait_to_be_killed(storage: Store, what: str, mark: str, ready: int) -> None:
    if what == "stream":
        script: list[Any] = [{"events": [{"type": "text", "content": "word " * 2000, "pieces": 2000}]}]
    else:
        name, input = CALLS["plan" if what.startswith("approved-") else what]
        script = [{"events": [{"type": "tool_call", "name": name, "id": "c1", "input": input}]}]
    harness = Harness(
        id="h",
        modes=MODES,
        storage=storage,
        resolve_model=lambda _model_id: Scripted(script, pause_ms=5 if what == "stream" else 0),
        initial_state={"currentModelId": "test/model", "yolo": what == "steer"},
        tools=[marking(mark), rest],
    )
    waits = asyncio.Event()
    emitted = {
        "approve": "tool_approval_required",
        "approve-steer": "tool_approval_required",
        "steer": "tool_start",
        "stream": "message_update",
    }.get(what, "agent_end")

    def listen(event: HarnessEvent) -> None:
        if event.type == emitted:
            waits.set()

    def die() -> None:
        os.write(ready, b"ready")
        os.kill(os.getpid(), signal.SIGKILL)

    harness.subscribe(listen)
    await harness.init()
    await harness.create_thread(id="thread-1", title="The thread")
    sending = asyncio.create_task(harness.send_message(content="go"))
    await waits.wait()
    if what == "approve":
        await harness.follow_up(content="and then?")
    if what.endswith("steer"):
        await harness.steer(content="rather this")
        await harness.steer(content="and that")
    if what.startswith("approved-"):
        harness.subscribe(lambda event: die() if event.type == what.removeprefix("approved-") else None)
        await harness.respond_to_tool_suspension(resume_data={"action": "approved"})
    leaves = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, leaves.set)
    os.write(ready, b"ready")
    await leaves.wait()
    await harness.destroy()
    await sending
