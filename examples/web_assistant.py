"""A web assistant for many people: it asks before it pays, and its questions outlive the process.

    pip install fastapi uvicorn
    uvicorn web_assistant:app            (MODEL=provider/model; without one a script answers)

Kill it, even with -9, between a question and its answer: the next process has the question, and takes the answer.
Who somebody is comes from the path here; put your own login in front.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, HTTPException
from fastapi.responses import StreamingResponse
from pydantic import BaseModel

from harness import FileStore, Harness, Mode, RunOutcome, Scripted, Session, open_model

SCRIPT = Scripted(
    [{"tool": "refund", "input": {"order": "A-7", "euros": 20}}, "The 20 euros are on their way."],
    goes_by="conversation",
)


async def refund(order: str, euros: int) -> str:
    """Give money back for an order."""
    return f"refunded {euros} euros for order {order}"


harness = Harness(
    id="shop",
    storage=FileStore(os.environ.get("DATA", "./data")),
    modes=[
        Mode(id="help", default_model_id=os.environ.get("MODEL", "script"), instructions="Help customers.")
    ],
    tools=[refund],
    resolve_model=lambda name: SCRIPT if name == "script" else open_model(name),
)
running: set[asyncio.Task[RunOutcome[None]]] = set()


@asynccontextmanager
async def lifespan(_app: FastAPI) -> AsyncGenerator[None, None]:
    async with harness:
        yield


app = FastAPI(lifespan=lifespan)


class Said(BaseModel):
    text: str


class Decision(BaseModel):
    allow: bool
    reason: str = ""


async def session_of(person: str) -> Session:
    session = harness.create_session(resource_id=person)
    if session.thread.get_id() is None:
        await session.thread.select_or_create()  # one that waits for an answer comes first
    return session


@app.post("/{person}/messages", status_code=202)
async def say(person: str, said: Said) -> None:
    session = await session_of(person)
    task = asyncio.create_task(session.send_message(content=said.text))
    running.add(task)  # it goes on, also when the browser is closed
    task.add_done_callback(running.discard)


@app.get("/{person}/events")
async def events(person: str) -> StreamingResponse:
    """Everything that was said, and then what is said, as server-sent events."""
    thread_id = (await session_of(person)).thread.require_id()

    async def lines() -> AsyncIterator[str]:
        async for event in harness.watch(thread_id, from_start=True):
            if event.type == "text":
                yield f"data: {json.dumps({'text': event.text})}\n\n"
            elif event.type == "tool_approval_required":
                yield f"data: {json.dumps({'question': event.tool_call_id, 'args': event.args})}\n\n"

    return StreamingResponse(lines(), media_type="text/event-stream")


@app.get("/{person}/questions")
async def questions(person: str) -> list[dict[str, object]]:
    waiting = (await session_of(person)).questions()
    return [{"id": one.tool_call_id, "tool": one.tool_name, "args": one.args} for one in waiting]


@app.post("/{person}/questions/{id:path}")
async def decide(person: str, id: str, decision: Decision) -> dict[str, bool]:
    for question in (await session_of(person)).questions():
        if question.tool_call_id == id and question.type == "tool_approval_required":
            return {"counted": question.approve() if decision.allow else question.decline(decision.reason)}
    raise HTTPException(404, "no such question waits")
