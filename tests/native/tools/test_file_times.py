"""A tool never changes a file that it has not seen as it is now."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from harness.contracts.file_times import FileTimes, StaleFile


def test_a_file_must_have_been_read_and_be_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    files = FileTimes()
    files.assert_current(str(path))  # there is nothing to overwrite
    path.write_text("one")
    with pytest.raises(StaleFile, match="was not read yet"):
        files.assert_current(str(path))
    files.read(str(path))
    files.assert_current(str(path))
    path.write_text("other")
    with pytest.raises(StaleFile, match="has changed since it was read"):
        files.assert_current(str(path))


def test_what_is_forgotten_must_be_read_again(tmp_path: Path) -> None:
    gone, kept, link = (tmp_path / name for name in ("gone", "kept", "link"))
    files = FileTimes()
    for path in (gone, kept):
        path.write_text("one")
        files.read(str(path))
    link.symlink_to(kept)
    files.forget(but=[str(link)])
    files.assert_current(str(kept))
    with pytest.raises(StaleFile, match="was not read yet"):
        files.assert_current(str(gone))


def test_the_same_file_under_another_name_is_the_same_file(tmp_path: Path) -> None:
    path, link = tmp_path / "a.txt", tmp_path / "link"
    path.write_text("one")
    link.symlink_to(path)
    files = FileTimes()
    files.read(str(link))
    files.assert_current(str(path))


def test_a_file_that_was_removed_and_recreated_is_another_file(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one")
    files = FileTimes()
    files.read(str(path))
    path.unlink()
    files.read(str(path))
    path.write_text("one")
    with pytest.raises(StaleFile):
        files.assert_current(str(path))


def test_a_change_that_keeps_time_and_size_is_seen_by_its_inode(tmp_path: Path) -> None:
    path, other = tmp_path / "a.txt", tmp_path / "b.txt"
    path.write_text("one")
    files = FileTimes()
    files.read(str(path))
    status = path.stat()
    other.write_text("two")
    os.utime(other, ns=(status.st_atime_ns, status.st_mtime_ns))
    other.replace(path)
    with pytest.raises(StaleFile):
        files.assert_current(str(path))


def test_one_change_of_a_file_at_a_time(tmp_path: Path) -> None:
    order: list[str] = []

    async def change(files: FileTimes, name: str) -> None:
        async with files.lock(str(tmp_path / "a")):
            order.append(f"{name} in")
            await asyncio.sleep(0)
            order.append(f"{name} out")

    async def both() -> None:
        files = FileTimes()
        await asyncio.gather(change(files, "one"), change(files, "two"))

    asyncio.run(both())
    assert order == ["one in", "one out", "two in", "two out"]
