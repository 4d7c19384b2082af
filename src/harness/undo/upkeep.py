"""Bounds of the stores: how long turns can be undone, how much is kept of a workspace, and of all of them."""

from __future__ import annotations

import os
import shutil
import time
from contextlib import suppress

from harness.config import load
from harness.undo.store import UndoStore, undo_directory

DAYS = 14
MOST_TURNS = 200
MOST_MB_IN_ALL = 5 * 1024
_DAY_S = 24 * 3600


def make_room(store: UndoStore) -> int:
    """How many bytes the next checkpoints may add; old turns are removed first when there is little left."""
    most = int(load(store.root).value("undo.mb")) << 20
    if _size(store) > most * 3 // 4:
        turns = _turns(store)
        _remove_before(store, turns[len(turns) // 2] if len(turns) > 1 else store.last_seq)
    return max(0, most - _size(store))


def sweep(store: UndoStore) -> None:
    """Remove turns that are too old or too many. What is left can be undone as before."""
    turns = _turns(store)
    if not turns:
        return
    oldest_ms = (time.time() - DAYS * _DAY_S) * 1000
    [first_young] = store.database.execute(
        "SELECT coalesce(min(seq), 0) FROM checkpoints WHERE at_ms >= ?", (oldest_ms,)
    ).fetchone()
    limit = max(first_young, turns[-MOST_TURNS] if len(turns) > MOST_TURNS + MOST_TURNS // 10 else 0)
    if limit > turns[0]:
        _remove_before(store, limit)


def remove_unused(own: str) -> None:
    """Stores of workspaces that are gone, and the least used ones when all together are too large. Now and then."""
    folder = undo_directory()
    mark = os.path.join(folder, "looked")
    with suppress(OSError):
        if time.time() - os.stat(mark).st_mtime < _DAY_S:
            return
    with suppress(OSError):
        with open(mark, "w", encoding="ascii"):
            pass
        stores = [entry.path for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)]
        by_last_use = sorted((_last_use(path), path) for path in stores if path != own)
        remaining = sum(map(_disk, stores))
        for last_use, path in by_last_use:
            is_gone = _is_gone(path) and time.time() - last_use > _DAY_S
            if is_gone or time.time() - last_use > DAYS * _DAY_S or remaining > MOST_MB_IN_ALL << 20:
                remaining -= _disk(path)
                shutil.rmtree(path, ignore_errors=True)


def _turns(store: UndoStore) -> list[int]:
    rows = store.database.execute(
        "SELECT seq FROM checkpoints WHERE phase IN ('before', 'undo') ORDER BY seq"
    )
    return [seq for (seq,) in rows]


def _size(store: UndoStore) -> int:
    [pages] = store.database.execute("PRAGMA page_count").fetchone()
    [free] = store.database.execute("PRAGMA freelist_count").fetchone()
    [size] = store.database.execute("PRAGMA page_size").fetchone()
    return int((pages - free) * size)


def _remove_before(store: UndoStore, seq: int) -> None:
    """Forget what was before a checkpoint: of each path, the last state up to it stays."""
    with store.writing():
        database = store.database
        database.execute("BEGIN IMMEDIATE")
        try:
            database.execute("DELETE FROM checkpoints WHERE seq < ?", (seq,))
            database.execute("DELETE FROM undos WHERE before < ?", (seq,))
            database.execute(
                "DELETE FROM history WHERE seq <= ? AND seq < (SELECT max(other.seq) FROM history AS other"
                " WHERE other.path = history.path AND other.seq <= ?)",
                (seq, seq),
            )
            database.execute("DELETE FROM blobs WHERE digest NOT IN (SELECT digest FROM history)")
            database.execute("COMMIT")
        except BaseException:
            database.execute("ROLLBACK")
            raise
        database.execute("PRAGMA incremental_vacuum")


def _last_use(path: str) -> float:
    times = [0.0]
    with suppress(OSError):
        times += [entry.stat(follow_symlinks=False).st_mtime for entry in os.scandir(path)]
    return max(times)


def _disk(path: str) -> int:
    with suppress(OSError):
        return sum(entry.stat(follow_symlinks=False).st_size for entry in os.scandir(path))
    return 0


def _is_gone(path: str) -> bool:
    with suppress(OSError), open(os.path.join(path, "root"), "rb") as file:
        return not os.path.isdir(file.read())
    return False
