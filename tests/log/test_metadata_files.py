"""The metadata beside a log: read from the file only when another process has replaced it, and never taken from elsewhere."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from harness.log.store import Metadata
from harness.log.stores.files import FileStore

OPENED: list[str] = []


def note(name: str, arguments: tuple[object, ...]) -> None:
    if name == "open" and isinstance(arguments[0], str) and arguments[0].endswith(".meta.json"):
        OPENED.append(arguments[0])


sys.addaudithook(note)


def made(folder: Path) -> FileStore:
    store = FileStore(str(folder))
    store.create(Metadata(session_id="log", name="first")).close()
    return store


def test_what_this_process_wrote_is_not_read_again(tmp_path: Path) -> None:
    store = made(tmp_path)
    OPENED.clear()
    assert store.metadata("log").name == "first"
    assert OPENED == []


def test_what_another_process_wrote_is_seen(tmp_path: Path) -> None:
    store, other = made(tmp_path), FileStore(str(tmp_path))
    for tags in (["a"], ["b"], ["c"]):  # as long as each other
        metadata = other.metadata("log")
        metadata.tags = tags
        other.save_metadata(metadata)
        assert store.metadata("log").tags == tags


def test_what_is_given_out_can_be_changed(tmp_path: Path) -> None:
    store = made(tmp_path)
    store.metadata("log").tags.append("mine")
    assert store.metadata("log").tags == []


def test_a_file_that_is_gone_or_is_a_link_now_counts_as_such(tmp_path: Path) -> None:
    store = made(tmp_path)
    path = tmp_path / "log.meta.json"
    path.rename(tmp_path / "elsewhere")
    assert store.metadata("log").name == ""
    os.symlink(tmp_path / "elsewhere", path)
    assert store.metadata("log").name == ""


def test_many_logs_take_no_more_memory_than_some(tmp_path: Path) -> None:
    store = FileStore(str(tmp_path))
    for number in range(200):
        store.create(Metadata(session_id=f"log{number}", name="n")).close()
    assert store.metadata("log0").name == "n"
    assert len(store._written_marks) <= 64
