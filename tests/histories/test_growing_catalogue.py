"""A catalogue that follows stores as they grow knows the same as one that reads them when they are complete."""

from __future__ import annotations

import os
import random
from collections import Counter
from pathlib import Path

import pytest

from harness.contracts.history import Home
from harness.histories.catalogue import Catalogue
from harness.histories.catalogue_rows import CataloguedSession
from harness.histories.catalogue_search import SessionSearch
from harness.histories.registry import load_all
from harness.protocols.reading import file_scan
from harness.protocols.reading.file_scan import new_blocks
from stored_homes import HomeCase, cases

GROWING = [
    case
    for agent in ("claude", "codex")
    for case in cases(agent)
    if str(case).rpartition("/")[2] in ("tools", "resume", "subagent", "fork", "interrupt", "compact")
]
STEPS = 4


def _catalogue(directory: Path, name: str) -> Catalogue:
    return Catalogue(str(directory / f"{name}.sqlite"), load_all())


def _known(catalogue: Catalogue, home: Home) -> dict[str, CataloguedSession]:
    catalogue.refresh(home)
    return {session.session_id: session for session in catalogue.read(catalogue.sessions())}


def _said(session: CataloguedSession) -> tuple[object, ...]:
    names = (
        "prompt",
        "title",
        "model",
        "version",
        "outcome",
        "runs",
        "cwd",
        "started_ms",
        "is_child",
        "parent_id",
    )
    return tuple(getattr(session, name) for name in names)


def _used(catalogue: Catalogue) -> Counter[str]:
    """Over all sessions: which of them a call counts for depends on the order of reading."""
    found = Counter[str]()
    for row in catalogue.usage.rows():
        for name in ("input", "output", "cache_read", "cache_write", "reasoning"):
            found[f"{row.agent} {row.model} {name}"] += getattr(row.usage, name) or 0
    return +found


@pytest.mark.parametrize("case", GROWING, ids=str)
def test_stores_that_grow_in_random_pieces_give_the_same_catalogue(case: HomeCase, tmp_path: Path) -> None:
    home = case.unpack(tmp_path / "home")
    complete = _catalogue(tmp_path, "complete")
    expected = {name: _said(session) for name, session in _known(complete, home).items()}
    chosen = random.Random(str(case))
    files = sorted(path for path in Path(home.directory).rglob("*.jsonl"))
    whole = {path: path.read_bytes() for path in files}
    growing = _catalogue(tmp_path, "growing")
    cuts = {
        path: sorted(chosen.randrange(len(data) + 1) for _ in range(STEPS)) for path, data in whole.items()
    }
    for path in files:
        path.write_bytes(b"")
    for step in range(STEPS + 1):
        for path, data in whole.items():
            end = len(data) if step == STEPS else cuts[path][step]
            with path.open("ab") as file:
                file.write(data[path.stat().st_size : end])
            os.utime(path, (1_800_000_000 + step, 1_800_000_000 + step))
        found = _known(growing, home)
    assert {name: _said(session) for name, session in found.items()} == expected
    assert _used(growing) == _used(complete)
    for word in ("please", "work", "hello"):
        asked = SessionSearch(parts=(word,))
        assert {hit.session.session_id for hit in growing.search(asked)} == {
            hit.session.session_id for hit in complete.search(asked)
        }


@pytest.mark.parametrize("size", [1, 7, 64, 4_096])
def test_blocks_of_any_size_give_the_same_lines(
    size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    data = b"".join(b"x" * length + b"\n" for length in (0, 1, 5, 63, 64, 65, 200, 0, 3)) + b"half a line"
    path.write_bytes(data)
    monkeypatch.setattr(file_scan, "_BLOCK_BYTES", size)
    blocks = [*new_blocks(str(path))]
    assert b"".join(block.data for block in blocks) == data[: -len(b"half a line")]
    assert all(data[block.start :].startswith(block.data) for block in blocks)
    for block in blocks:
        rest = [*new_blocks(str(path), block.position)]
        assert b"".join(more.data for more in rest) == data[block.position.offset : -len(b"half a line")]


def test_a_line_that_is_too_long_is_left_out_of_any_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_scan, "_BLOCK_BYTES", 100)
    monkeypatch.setattr(file_scan, "LONGEST_LINE_BYTES", 1_000)
    path = tmp_path / "file"
    path.write_bytes(b"first\n" + b"y" * 5_000 + b"\nsecond\nthird\n")
    assert b"".join(block.data for block in new_blocks(str(path))) == b"first\nsecond\nthird\n"
