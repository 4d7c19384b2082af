"""What undo costs a turn: the checkpoints before and after it, in a small folder and in one of 50,000 files.

usage: python benchmarks/undo.py [--files 500 50000]

"first" reads every file once and keeps it; "same" is a turn that changed nothing, in a process that opens the store anew;
"10 files" is one that changed ten. A turn has two checkpoints, and waits at most 0.3 s for the first.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

from harness.undo.checkpoints import Moment, take
from harness.undo.store import UndoStore

sys.path.insert(0, str(Path(__file__).parent))

from measuring import cpu_of, least, size

_LINES = "".join(f"line {number} of a file that is as long as many are\n" for number in range(80))
_PLENTY = 1 << 33


def fill(folder: Path, count: int) -> None:
    for number in range(count):
        path = folder / f"package{number // 500}" / f"module{number // 20 % 25}" / f"file{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# {number}\n{_LINES}")


def checkpoint(folder: Path) -> None:
    store = UndoStore(str(folder))
    with store.writing():
        take(store, Moment(), most_bytes=_PLENTY)
    store.close()


def change(folder: Path) -> None:
    for number, path in zip(range(10), folder.rglob("*.py"), strict=False):
        path.write_text(f"changed {number} {time.time_ns()}\n")


def measure(count: int) -> str:
    with tempfile.TemporaryDirectory(prefix="harness-undo-") as scratch:
        os.environ["XDG_DATA_HOME"] = f"{scratch}/data"
        folder = Path(scratch, "work")
        folder.mkdir()
        fill(folder, count)
        rounds = size(5, 1)
        first = cpu_of(lambda: checkpoint(folder))
        time.sleep(0.1)  # so that no file counts as changed a moment ago
        checkpoint(folder)
        same = least(rounds, lambda: cpu_of(lambda: checkpoint(folder)))
        changed = []
        for _ in range(rounds):
            change(folder)
            changed.append(cpu_of(lambda: checkpoint(folder)))
        stored = sum(path.stat().st_size for path in Path(scratch, "data").rglob("*") if path.is_file())
        megabytes = sum(path.stat().st_size for path in folder.rglob("*.py")) / 1e6
    row = (f"{count:,}", f"{megabytes:,.0f}", f"{first * 1e3:,.0f}", f"{same * 1e3:,.1f}", f"{min(changed) * 1e3:,.1f}", f"{stored / 1e6:,.1f}")  # fmt: skip
    return f"| {' | '.join(row)} |"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--files", type=int, nargs="+", default=size([500, 50_000], [20]))
    arguments = parser.parse_args()
    print(
        "| files | MB | first, CPU ms | same, CPU ms | 10 files, CPU ms | stored, MB |\n|---|---|---|---|---|---|"
    )
    for count in arguments.files:
        print(measure(count), flush=True)


if __name__ == "__main__":
    main()
