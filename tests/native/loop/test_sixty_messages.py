"""A conversation of sixty messages with a model that can read 16,000 tokens: nothing is too long, and nothing is lost."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from harness.clients.commands import Submit
from harness.clients.conversations.backend import Setup
from harness.clients.conversations.local_backend import LocalBackend
from harness.contracts.model import Ask, ToolTurn, UserTurn
from harness.conversation.compaction import tokens_in, tokens_of_tools
from harness.events import (
    Compacted,
    Error,
    Event,
    Message,
    Result,
    StepEnd,
    ToolEnd,
    Usage,
    UsageDelta,
    Warning,
)
from harness.log.store import read_all
from harness.log.stores.files import FileStore
from harness.models.scripted import Scripted

WINDOW = 16_000
MESSAGES = 60


async def answer(_model: Any, ask: Ask) -> AsyncIterator[Event]:
    """Reads the file that the last message names, says so, and sums up when it is asked to."""
    size = tokens_in(ask.turns) + tokens_of_tools(ask.tools)
    used = UsageDelta(usage=Usage(input=size, output=10))
    last = ask.turns[-1]
    asked = re.search(r"part(\d+)\.txt", last.text) if isinstance(last, UserTurn) else None
    if size > WINDOW:
        yield Error(
            message=f"prompt is too long: {size} tokens > {WINDOW} maximum", code="invalid_request_error"
        )
        yield StepEnd(id="", stop_reason="error")
    elif "call no tool" in last.text or "<conversation>" in last.text:
        yield Message(role="assistant", text="Goal: read every part. All parts so far were read.")
        yield used
        yield StepEnd(id="", stop_reason="end")
    elif isinstance(last, ToolTurn) or asked is None:
        yield Message(role="assistant", text="noted")
        yield used
        yield StepEnd(id="", stop_reason="end")
    else:
        call = {"type": "tool_call", "id": "c", "name": "read", "input": {"path": asked[0]}}
        yield Message(role="assistant", text="", parts=[call])
        yield used
        yield StepEnd(id="", stop_reason="tool_calls")


def test_sixty_messages_go_through_a_small_window(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Scripted, "answer", answer)
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    work = tmp_path / "work"
    work.mkdir()
    for number in range(MESSAGES):
        (work / f"part{number}.txt").write_text(f"number {number}\n" + "filler " * 400)
    script = tmp_path / "script.toml"
    script.write_text('turns = [{ text = "Yes." }]')
    store = FileStore(str(tmp_path / "logs"))
    setup = Setup(
        agent="native",
        model=f"scripted/{script}",
        cwd=str(work),
        permission_mode="fullAuto",
        context_window=WINDOW,
    )

    async def converse() -> str:
        backend = LocalBackend(store, setup)
        log_id = await backend.create(setup)
        changed = asyncio.Event()
        backend.listen(lambda _log_id: changed.set())
        for number in range(MESSAGES):
            await backend.carry_out(
                log_id, Submit(prompt=f"Read part{number}.txt, and never touch setup.py.")
            )
            while backend.status(log_id).is_running:
                changed.clear()
                await changed.wait()
        await backend.close()
        return log_id

    log_id = asyncio.run(converse())
    events = list(read_all(store, log_id))
    assert [event.message for event in events if isinstance(event, Error | Warning)] == []
    assert [event.success for event in events if isinstance(event, Result)] == [True] * MESSAGES
    assert len([event for event in events if isinstance(event, ToolEnd) and event.success]) == MESSAGES
    compactions = [event for event in events if isinstance(event, Compacted)]
    assert 2 <= len(compactions) <= 20
    assert all((event.after_tokens or 0) < 0.7 * WINDOW for event in compactions)
