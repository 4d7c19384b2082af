"""Adds to what is known of each agent's fields those of its recordings: what the doctor compares with.

usage: python docs/known_fields.py [DIR …]      further folders in the layout of tests/agents
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from harness.lab.expectations import FOLDER, collect, load_known
from harness.testing.golden import find_cases

ROOT = Path(__file__).parent.parent


def main(folders: list[str]) -> int:
    recordings: dict[str, list[bytes]] = {}
    for folder in (ROOT / "tests/agents", *map(Path, folders)):
        for case in find_cases(folder):
            recordings.setdefault(case.agent, []).append(case.stdout)
    for agent, found in sorted(recordings.items()):
        if known := collect(agent, found, load_known(agent)):
            lines = msgspec.json.format(msgspec.json.encode(known), indent=1)
            Path(FOLDER, f"{agent}.json").write_bytes(lines + b"\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
