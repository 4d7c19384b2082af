"""What a run and a message read again: neither settings nor prices, which are parsed once while they stay the same."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

import harness
from harness.config.file_stamps import stamp_of
from harness.contracts.request import Request
from harness.log.stores.memory import MemoryStore
from harness_kit import Model, opened
from running_kit import in_loop

OPENED: list[str] = []


def note(name: str, arguments: tuple[object, ...]) -> None:
    if name == "open" and isinstance(arguments[0], str) and arguments[0].endswith((".toml", ".json")):
        OPENED.append(arguments[0])


sys.addaudithook(note)


def settings(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a user, as old as settings are."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
    path = folder / "config/harness/config.toml"
    path.parent.mkdir(parents=True)
    path.write_text('[budget]\nday_usd = 2.0\n[prices."test/model"]\ninput = 1.0\noutput = 1.0\n')
    os.utime(path, (1_700_000_000, 1_700_000_000))
    while stamp_of(str(path)) is None:
        time.sleep(0.01)


@in_loop
async def test_a_further_message_reads_no_settings_and_no_prices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings(tmp_path, monkeypatch)
    async with opened(Model("One.", "Two.", "Three.")) as (session, _record):
        await session.send_message(content="one")
        OPENED.clear()
        await session.send_message(content="two")
        await session.send_message(content="three")
    assert OPENED == []


def test_a_further_run_reads_no_settings_and_no_prices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings(tmp_path, monkeypatch)
    script, folder = tmp_path / "script.toml", tmp_path / "work"
    script.write_text('turns = [{ text = "Done." }]\n')
    folder.mkdir()
    request = Request(agent="native", prompt="go", cwd=str(folder), model=f"scripted/{script}")
    assert harness.start(request, store=MemoryStore()).wait().outcome == "completed"
    OPENED.clear()
    assert harness.start(request, store=MemoryStore()).wait().outcome == "completed"
    assert [str(script)] == OPENED
