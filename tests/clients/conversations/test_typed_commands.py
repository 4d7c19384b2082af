"""`/compact` as a prompt, wherever prompts are written: the page, the terminal interface, editors and clients."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from harness.clients.commands import Steer, Submit
from harness.clients.conversations.backend import Setup
from harness.clients.conversations.local_backend import LocalBackend
from harness.errors import UsageError
from harness.events import Compacted, Event, Message
from harness.log.store import read_all
from harness.log.stores.files import FileStore


@pytest.fixture
def setup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Setup:
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    (tmp_path / "work").mkdir()
    script = tmp_path / "script.toml"
    script.write_text(f'repeat_last = true\nturns = [{{ text = "{"word " * 3_000}" }}, {{ text = "X." }}]')
    return Setup(
        agent="native", model=f"scripted/{script}", cwd=str(tmp_path / "work"), context_window=16_000
    )


def said(setup: Setup, folder: Path, *prompts: str) -> list[Event]:
    store = FileStore(str(folder / "logs"))

    async def talk() -> str:
        backend = LocalBackend(store, setup)
        log_id = await backend.create(setup)
        changed = asyncio.Event()
        backend.listen(lambda _log_id: changed.set())
        for prompt in prompts:
            await backend.carry_out(log_id, Submit(prompt=prompt))
            while backend.status(log_id).is_running:
                changed.clear()
                await changed.wait()
        await backend.close()
        return log_id

    return list(read_all(store, asyncio.run(talk())))


def prompts_of(events: list[Event]) -> list[str]:
    return [event.text for event in events if isinstance(event, Message) and event.role == "user"]


def test_a_conversation_is_summed_up_where_it_is_typed(setup: Setup, tmp_path: Path) -> None:
    events = said(setup, tmp_path, "hello", "/compact keep the goal", "/compacted or not?")
    [event] = [event for event in events if isinstance(event, Compacted)]
    assert (event.trigger, event.summary) == ("manual", "X.")
    assert prompts_of(events) == ["hello", "/compacted or not?"]


def test_a_command_of_the_user_with_that_name_goes_first(setup: Setup, tmp_path: Path) -> None:
    own = tmp_path / "XDG_CONFIG_HOME" / "harness" / "commands"
    own.mkdir(parents=True)
    (own / "compact.md").write_text("Say it in few words: $ARGUMENTS")
    events = said(setup, tmp_path, "hello", "/compact the news")
    assert prompts_of(events) == ["hello", "Say it in few words: the news"]


def test_nothing_is_summed_up_in_the_middle_of_a_run(setup: Setup, tmp_path: Path) -> None:
    async def talk() -> list[str]:
        backend = LocalBackend(FileStore(str(tmp_path / "logs")), setup)
        log_id = await backend.create(setup)
        await backend.carry_out(log_id, Submit(prompt="hello"))
        problems = []
        for command in (Submit(prompt="/compact"), Steer(message="/compact now")):
            with pytest.raises(UsageError) as caught:
                await backend.carry_out(log_id, command)
            problems.append(caught.value.message)
        await backend.close()
        return problems

    assert all("a run is in progress" in problem for problem in asyncio.run(talk()))
