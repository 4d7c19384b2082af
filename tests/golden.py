"""Rewrite the expected events of recorded runs and show what changed.

usage: python tests/golden.py [TEXT …]      only cases whose name contains one of the texts
"""

from __future__ import annotations

import sys
from pathlib import Path

from harness.testing.golden import find_cases, rewrite

ROOT = Path(__file__).parent / "agents"


def main(wanted: list[str]) -> None:
    cases = [case for case in find_cases(ROOT) if not wanted or any(text in str(case) for text in wanted)]
    changed = 0
    for difference in rewrite(cases):
        changed += 1
        print(difference)
    print(f"{changed} of {len(cases)} cases changed", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
