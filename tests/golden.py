"""Rewrite the expected events of recorded runs and stores and the sessions that are handed over, and show what changed.

usage: python tests/golden.py [TEXT …]      only cases whose name contains one of the texts
"""

from __future__ import annotations

import difflib
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from harness.testing.golden import find_cases, rewrite

ROOT = Path(__file__).parent / "agents"
STORES = Path(__file__).parent / "histories"
HANDED_OVER = Path(__file__).parent / "histories" / "handover"


def main(wanted: list[str]) -> None:
    cases = [case for case in find_cases(ROOT) if not wanted or any(text in str(case) for text in wanted)]
    changed = 0
    for difference in [*rewrite(cases), *_rewrite_stores(wanted), *_rewrite_handed_over(wanted)]:
        changed += 1
        print(difference)
    print(f"{changed} cases changed", file=sys.stderr)


def _rewrite_stores(wanted: list[str]) -> Iterator[str]:
    sys.path.insert(0, str(STORES))
    from stored_homes import cases, expected_lines

    for case in cases():
        if wanted and not any(text in str(case) for text in wanted):
            continue
        with tempfile.TemporaryDirectory() as directory:
            new = "".join(f"{line}\n" for line in expected_lines(case, Path(directory)))
        yield from _rewrite(case.golden, new.encode(), str(case))


def _rewrite_handed_over(wanted: list[str]) -> Iterator[str]:
    sys.path.insert(0, str(HANDED_OVER))
    from handed_conversations import GOLDEN, golden_files, writers

    for writer in writers():
        if not wanted or any(text in writer.agent for text in wanted):
            for name, data in golden_files(writer).items():
                yield from _rewrite(GOLDEN / name, data, f"hand-over {name}")


def _rewrite(golden: Path, new: bytes, name: str) -> Iterator[str]:
    """The difference, if there is one."""
    old = golden.read_bytes() if golden.exists() else b""
    if new != old:
        golden.write_bytes(new)
        before, after = (data.decode("utf-8", "replace").split("\n") for data in (old, new))
        yield "\n".join(difflib.unified_diff(before, after, name, name, lineterm=""))


if __name__ == "__main__":
    main(sys.argv[1:])
