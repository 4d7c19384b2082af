"""What a process has started ends with it, and the model is told so when its conversation goes on in another one."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from harness import FileStore, Request, start
from harness.clients.commands import Submit
from harness.clients.conversations.backend import Setup
from harness.clients.conversations.local_backend import LocalBackend
from harness.contracts.model import Ask, SystemTurn
from harness.models.scripted import Scripted

ENDED = "- b1: sleep 600"


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What each model call had of the system besides its prompt."""
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    seen: list[list[str]] = []
    answer = Scripted.answer

    def remembering(self: Scripted, ask: Ask) -> Any:
        seen.append([turn.text for turn in ask.turns[1:] if isinstance(turn, SystemTurn)])
        return answer(self, ask)

    monkeypatch.setattr(Scripted, "answer", remembering)
    return seen


def script(folder: Path, *turns: Any) -> str:
    path = folder / "script.json"
    path.write_text(json.dumps({"turns": turns}))
    return f"scripted/{path}"


def bash(command: str, **more: Any) -> dict[str, Any]:
    return {"tool": "bash", "input": {"command": command, **more}}


def test_a_run_that_continues_another_is_told_once_what_ended_with_it(
    tmp_path: Path, told: list[list[str]]
) -> None:
    (tmp_path / "sub").mkdir()
    store = FileStore(str(tmp_path / "sessions"))

    def said(model: str, **more: Any) -> str:
        request = Request(
            agent="native", model=model, prompt="go", cwd=str(tmp_path), permissions="full-access", **more
        )
        run = start(request, store=store)
        run.wait()
        return run.id

    first = said(
        script(
            tmp_path,
            bash("sleep 600", background=True),
            bash("sleep 601", background=True),
            {"tool": "bash_output", "input": {"id": "b2", "stop": True}},
            bash("cd sub && export LEVEL=3"),
            {"text": "Both run."},
        )
    )
    told.clear()
    said(script(tmp_path, {"text": "I see."}), resume=first)
    [[words]] = told
    assert ENDED in words
    assert "sleep 601" not in words, "it was seen to end"
    assert "in the folder of the workspace again" in words
    told.clear()
    said(script(tmp_path, {"text": "Yes."}), resume=first)
    assert [texts.count(words) for texts in told] == [1], "it is in the conversation, and not said again"
    assert [len(texts) for texts in told] == [1]


@pytest.mark.parametrize("is_another", [False, True])
def test_a_conversation_is_told_only_where_another_process_goes_on(
    is_another: bool, tmp_path: Path, told: list[list[str]]
) -> None:
    store = FileStore(str(tmp_path / "sessions"))
    turns = (bash("sleep 600", background=True), {"text": "It runs."}, {"text": "It still does."})

    async def say(backend: LocalBackend, log_id: str) -> None:
        changed = asyncio.Event()
        backend.listen(lambda _log_id: changed.set())
        await backend.carry_out(log_id, Submit(prompt="go"))
        while backend.status(log_id).is_running:
            changed.clear()
            await changed.wait()

    async def converse() -> None:
        setup = Setup(
            agent="native",
            model=script(tmp_path, *turns),
            cwd=str(tmp_path),
            permission_mode="fullAuto",
        )
        backend = LocalBackend(store, setup)
        log_id = await backend.create(setup)
        await say(backend, log_id)
        if is_another:
            await backend.close()
            backend = LocalBackend(store, setup)
            await backend.load(log_id)
        await say(backend, log_id)
        await backend.close()

    asyncio.run(converse())
    assert any(ENDED in text for text in told[-1]) == is_another
