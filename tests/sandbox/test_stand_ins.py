"""Stand-ins that several processes need: each finds them there as long as it needs them, and the last removes them."""

from __future__ import annotations

import os
from pathlib import Path
from threading import Event, Thread

import pytest

from harness.sandbox.placeholders import SOCKET, StandIn, hold, release


@pytest.fixture
def wanted(tmp_path: Path) -> list[tuple[str, str | None]]:
    (tmp_path / "locks").mkdir()
    (tmp_path / "work").mkdir()
    names: dict[str, str | None] = {".claude": None, "opencode.jsonc": SOCKET, "config.worktree": ""}
    return [(str(tmp_path / "work" / name), content) for name, content in names.items()]


def test_the_last_one_removes_them(tmp_path: Path, wanted: list[tuple[str, str | None]]) -> None:
    first = hold(str(tmp_path / "locks"), wanted)
    second = hold(str(tmp_path / "locks"), wanted)
    release(first)
    assert len(os.listdir(tmp_path / "work")) == len(wanted)
    release(second)
    assert os.listdir(tmp_path / "work") == []


def test_what_another_has_just_made_is_not_taken_for_the_real_thing(
    tmp_path: Path, wanted: list[tuple[str, str | None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first is halted between making a stand-in and noting that it is one; the second outlives it."""
    made, proceed = Event(), Event()
    note = StandIn._note

    def slowly_note(stand_in: StandIn) -> None:
        if not made.is_set():
            made.set()
            assert proceed.wait(60)
        note(stand_in)

    monkeypatch.setattr(StandIn, "_note", slowly_note)
    held: dict[str, list[StandIn]] = {}
    began = Event()

    def start(name: str) -> None:
        if name == "second":
            began.set()
        held[name] = hold(str(tmp_path / "locks"), wanted)

    threads = [Thread(target=start, args=(name,)) for name in ("first", "second")]
    threads[0].start()
    assert made.wait(60)
    threads[1].start()
    assert began.wait(60)
    threads[1].join(0.2)  # so that it may go wrong; it is right however long this takes
    proceed.set()
    for thread in threads:
        thread.join(60)
    release(held["first"])
    assert len(os.listdir(tmp_path / "work")) == len(wanted)
    release(held["second"])
    assert os.listdir(tmp_path / "work") == []


def test_the_real_thing_stays(tmp_path: Path, wanted: list[tuple[str, str | None]]) -> None:
    (tmp_path / "work/.claude").mkdir()
    release(hold(str(tmp_path / "locks"), wanted))
    assert os.listdir(tmp_path / "work") == [".claude"]


def test_no_lock_is_left(tmp_path: Path, wanted: list[tuple[str, str | None]]) -> None:
    (tmp_path / "work/.claude").mkdir()
    release(hold(str(tmp_path / "locks"), wanted))
    assert os.listdir(tmp_path / "locks") == []


def test_none_is_left_when_one_cannot_be_made(tmp_path: Path, wanted: list[tuple[str, str | None]]) -> None:
    (tmp_path / "work/link").symlink_to("nowhere")
    with pytest.raises(OSError):
        hold(str(tmp_path / "locks"), [*wanted, (str(tmp_path / "work/link"), None)])
    assert os.listdir(tmp_path / "work") == ["link"]
