"""Rewrite the expected events of recorded runs and stores, and show what changed.

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
STORES = Path(__file__).parent / "sources" / "imports"


def main(wanted: list[str]) -> None:
    cases = [case for case in find_cases(ROOT) if not wanted or any(text in str(case) for text in wanted)]
    changed = 0
    for difference in [*rewrite(cases), *_rewrite_stores(wanted)]:
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
        old = case.golden.read_text() if case.golden.exists() else ""
        if new != old:
            case.golden.write_text(new)
            yield "\n".join(
                difflib.unified_diff(old.split("\n"), new.split("\n"), str(case), str(case), lineterm="")
            )


if __name__ == "__main__":
    main(sys.argv[1:])
